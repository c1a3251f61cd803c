//! One run's time, chance and trace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::Moment;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;
use uuid::{Builder, Uuid};

/// The true time at which every run begins.
pub const EPOCH: Moment = Moment::from_millis(1_796_000_000_000);

/// One run. Clones are the same run.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    seed: u64,
    began: Instant,
    verbose: bool,
    chance: Mutex<StdRng>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    hash: u64,
    lines: u64,
    counts: BTreeMap<String, u64>,
}

impl World {
    /// A run that begins now. Call it on a runtime whose clock is paused, or for its chance and trace alone. `verbose`: the trace is printed.
    pub fn new(seed: u64, verbose: bool) -> Self {
        let chance = Mutex::new(StdRng::seed_from_u64(seed));
        Self(Arc::new(Inner { seed, began: Instant::now(), verbose, chance, told: Mutex::default() }))
    }

    /// Its seed.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The true time. No process sees it: each sees the clock of a store, or its own.
    pub fn now(&self) -> Moment {
        EPOCH.plus(self.elapsed())
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// A whole number below `end`, which is over 0.
    pub fn below(&self, end: u64) -> u64 {
        self.chance().random_range(0..end)
    }

    /// From 0.0 to 1.0, never 1.0.
    pub fn fraction(&self) -> f64 {
        self.chance().random()
    }

    /// Whether it happens, with a chance of `percent`.
    pub fn happens(&self, percent: f64) -> bool {
        percent > 0.0 && self.fraction() * 100.0 < percent
    }

    /// A length of time in `from..=to`, in whole milliseconds.
    pub fn between(&self, from: Duration, to: Duration) -> Duration {
        let (from, to) = (from.as_millis() as u64, to.as_millis() as u64);
        Duration::from_millis(self.chance().random_range(from..=to.max(from)))
    }

    /// One of some things; `None` of none.
    pub fn one_of<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.below(all.len() as u64) as usize) }
    }

    /// A new name of version 4.
    pub fn uuid(&self) -> Uuid {
        Builder::from_random_bytes(self.chance().random()).into_uuid()
    }

    /// A line of the trace: hashed with its time, printed where the run is verbose.
    pub fn note(&self, line: &str) {
        let elapsed = self.elapsed();
        let mut told = self.told();
        for byte in elapsed.as_nanos().to_be_bytes().into_iter().chain(line.bytes()) {
            told.hash = (told.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5);
        }
        told.lines += 1;
        drop(told);
        if self.0.verbose {
            println!("{:>10.3}  {line}", elapsed.as_secs_f64());
        }
    }

    /// Counts an occurrence, for the table at a batch's end.
    pub fn count(&self, what: &str) {
        let mut told = self.told();
        match told.counts.get_mut(what) {
            Some(count) => *count += 1,
            None => {
                told.counts.insert(what.to_owned(), 1);
            }
        }
    }

    /// What the trace comes to: its hash and its lines.
    pub fn trace(&self) -> (u64, u64) {
        let told = self.told();
        (told.hash, told.lines)
    }

    /// All that was counted.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.told().counts.clone()
    }

    fn chance(&self) -> MutexGuard<'_, StdRng> {
        self.0.chance.lock().expect("nobody panics while holding it")
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.told.lock().expect("nobody panics while holding it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_run_and_another_is_another() {
        let drawn = |seed| {
            let world = World::new(seed, false);
            (world.below(1_000_000), world.uuid(), world.between(Duration::ZERO, Duration::from_secs(100)))
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[tokio::test(start_paused = true)]
    async fn the_trace_knows_what_was_said_and_when() {
        let told = |wait: u64, line: &'static str| async move {
            let world = World::new(1, false);
            tokio::time::sleep(Duration::from_millis(wait)).await;
            world.note(line);
            world.trace()
        };
        assert_eq!(told(5, "a").await, told(5, "a").await);
        assert_ne!(told(5, "a").await, told(6, "a").await);
        assert_ne!(told(5, "a").await, told(5, "b").await);
    }
}
