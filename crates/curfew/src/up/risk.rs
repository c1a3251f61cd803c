//! Deadlines at risk: a forecast. Of the jobs whose deadline is near, how many the workers won't have ended by then, at the drain they measured.

use std::time::Duration;

use curfew_book::{Enrolled, Standing};
use curfew_domain::Moment;

/// Up to where deadlines are counted: the three that are shown, and some before them, so that a crowd just ahead isn't averaged away.
pub(super) const BOUNDS: [Duration; 8] = [
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_secs(60),
    Duration::from_secs(2 * 60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(15 * 60),
];

/// How many of those due to end `within` can't: the worst of all bounds up to there. `counts` are of [`BOUNDS`], each with those before it.
pub(super) fn at_risk(counts: &[u64; BOUNDS.len()], within: Duration, per_second: f64) -> u64 {
    let bounds = BOUNDS.iter().zip(counts).take_while(|(bound, _)| **bound <= within);
    bounds.map(|(bound, count)| count.saturating_sub((bound.as_secs_f64() * per_second) as u64)).max().unwrap_or(0)
}

/// What the workers that run end in a second. While something waits, as fast as they are now; else as fast as they were at their best, for who has
/// nothing to do ends nothing. Nothing measured is nothing.
pub(super) fn drain_per_s(processes: &[Enrolled], now: Moment, backlog: bool) -> f64 {
    let running = processes.iter().filter(|process| process.standing(now) == Standing::Running);
    let tens = running.filter_map(|process| process.drain).map(|drain| if backlog { drain.latest } else { drain.best });
    tens.map(f64::from).sum::<f64>() / 10.0
}

#[cfg(test)]
mod tests {
    use curfew_book::{Drain, Enrolment};
    use curfew_domain::WorkerId;
    use uuid::Uuid;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn only_what_the_drain_cant_end_in_time_is_at_risk() {
        // 600 jobs have to be out in 40 s, 900 in a minute, and none after that.
        let counts = [0, 0, 600, 900, 900, 900, 900, 900];
        assert_eq!(at_risk(&counts, MINUTE, 20.0), 0);
        assert_eq!(at_risk(&counts, MINUTE, 14.0), 60, "840 of 900 in the minute");
        assert_eq!(at_risk(&counts, MINUTE, 10.0), 300);
        assert_eq!(at_risk(&counts, MINUTE, 0.0), 900, "nobody works");
        assert_eq!(at_risk(&counts, 15 * MINUTE, 14.0), 60, "what is lost in the first minute stays lost");
        let crowd = [500, 500, 500, 500, 500, 500, 500, 500];
        assert_eq!(at_risk(&crowd, MINUTE, 20.0), 300, "at once: 200 in ten seconds");
    }

    /// A drain that halves is seen before the first deadline is missed: three minutes ahead of it.
    #[test]
    fn a_halved_drain_shows_long_before_the_first_deadline() {
        let (rate, jobs, deadline) = (100.0, 24_000_u64, Duration::from_secs(240));
        let mut left = jobs;
        let mut seen_at = None;
        for second in 0..240_u64 {
            let per_s = if second < 20 { rate } else { rate / 2.0 };
            let to_go = deadline - Duration::from_secs(second);
            let counts = BOUNDS.map(|bound| if bound >= to_go { left } else { 0 });
            if seen_at.is_none() && at_risk(&counts, 5 * MINUTE, per_s) > 0 {
                seen_at = Some(second);
            }
            left -= (per_s as u64).min(left);
        }
        assert!(left > 0, "some miss it");
        assert!(seen_at.is_some_and(|at| (20..60).contains(&at)), "{seen_at:?}");
    }

    #[test]
    fn a_backlog_is_measured_as_it_runs_and_silence_by_the_best() {
        let now = Moment::from_millis(1_000_000);
        let process = |n: u128, beat_s: u64, drain| Enrolled {
            enrolment: Enrolment {
                id: WorkerId(Uuid::from_u128(n)),
                roles: vec![],
                name: String::new(),
                version: String::new(),
                reads_format: 1,
                at: now,
            },
            beat_at: now.minus(Duration::from_secs(beat_s)),
            stopped_at: None,
            drain_asked_at: None,
            drain,
        };
        let all = [
            process(1, 5, Some(Drain { best: 800, latest: 300 })),
            process(2, 5, Some(Drain { best: 700, latest: 0 })),
            process(3, 5, None),
            process(4, 600, Some(Drain { best: 900, latest: 900 })),
        ];
        assert_eq!((drain_per_s(&all, now, false), drain_per_s(&all, now, true)), (150.0, 30.0));
        assert_eq!(drain_per_s(&[], now, false), 0.0);
    }
}
