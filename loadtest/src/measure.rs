//! Clocks, counts and memory.

use std::time::{Duration, Instant};

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub waiting_jobs: u32,
    pub accept_s: f64,
    pub accepted_per_s: f64,
    pub rss_waiting_mb: f64,
    pub burst_jobs: u32,
    pub burst_s: f64,
    pub delivered_per_s: f64,
    pub middle_per_s: f64,
    pub rss_peak_mb: f64,
    pub accepted_twice: usize,
    pub mails_accepted: u64,
}

/// A figure of `/proc/PID/status` in MB.
pub fn memory_mb(pid: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kb =
        status.lines().find_map(|l| l.strip_prefix(field)).and_then(|l| l.trim_start_matches(':').split_whitespace().next()?.parse::<f64>().ok());
    kb.unwrap_or(0.0) / 1024.0
}

/// How long it took, and how many a second that is.
pub fn rate(count: u32, took: Duration) -> (f64, f64) {
    (took.as_secs_f64(), f64::from(count) / took.as_secs_f64())
}

/// Samples a growing count until it reaches `goal`: when it began to grow, when it was at 10 %, at 90 %, and done.
#[derive(Debug, Default)]
pub struct Growth {
    tenth: Option<Instant>,
    nine_tenths: Option<Instant>,
    pub done: Option<Instant>,
}

impl Growth {
    pub fn sample(&mut self, count: u64, goal: u32) {
        let now = Instant::now();
        let goal = u64::from(goal);
        if count * 10 >= goal {
            self.tenth.get_or_insert(now);
        }
        if count * 10 >= goal * 9 {
            self.nine_tenths.get_or_insert(now);
        }
        if count >= goal {
            self.done.get_or_insert(now);
        }
    }

    /// The rate between 10 % and 90 %, which no start and no tail colours.
    pub fn middle_per_s(&self, goal: u32) -> f64 {
        match (self.tenth, self.nine_tenths) {
            (Some(a), Some(b)) if b > a => f64::from(goal) * 0.8 / b.duration_since(a).as_secs_f64(),
            _too_fast_to_see => 0.0,
        }
    }
}
