//! How fast a transport is used after its provider throttled: what it bore last, a little less, and from there on slowly faster.
//!
//! A window of attempts alone is no measure: with answers in milliseconds one that grows by one with each acceptance is wide open within a second,
//! and each throttle costs as many attempts as are under way. Slow start and additive increase are TCP's (RFC 5681, section 3.1), over mails a
//! second instead of a window.

use std::time::Duration;

use tokio::time::Instant;

/// Of the pace that was too fast.
const BACK_TO: f64 = 0.8;
/// The slowest, mails per second: one.
const SLOWEST: f64 = 1.0;
/// What each acceptance adds far below the pace that was too fast, mails per second: half as much again each second.
const STARTS_BY: f64 = 0.5;
/// What each acceptance adds near it: five in a thousand each second.
const GROWS_BY: f64 = 0.005;
/// So long without a throttle, and what was too fast then says nothing any more.
const CEILING_KEPT: Duration = Duration::from_secs(5 * 60);
/// So long without a throttle, and the transport is free again.
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);

/// One transport's.
#[derive(Default)]
pub(crate) struct Pace {
    borne: Borne,
    held: Option<Held>,
}

/// How many mails were accepted in this second, and in the one before it.
#[derive(Default)]
struct Borne {
    since: Option<Instant>,
    this: u32,
    last: u32,
}

struct Held {
    per_s: f64,
    /// The pace that was too fast; infinite where none is known.
    ceiling: f64,
    /// At most one and a tenth of a second's: nobody saves up for a burst.
    credit: f64,
    at: Instant,
    throttled: Instant,
}

impl Pace {
    /// The provider asked for patience. Those that were under way together say it together: once a second is enough.
    pub(crate) fn throttled(&mut self, now: Instant) {
        if self.held.as_ref().is_some_and(|held| now.duration_since(held.throttled) < Duration::from_secs(1)) {
            return;
        }
        let bore = f64::from(self.borne.best(now));
        let before = self.held.as_ref().map_or(f64::INFINITY, |held| held.ceiling);
        let ceiling = match &self.held {
            // Refused from the start: an outage, and no word on how many are too many.
            _outage if bore == 0.0 => before,
            // A short while since the pause: fewer than the pace says.
            Some(held) if before.is_finite() => held.per_s,
            Some(_) | None => bore,
        };
        let per_s = if bore == 0.0 { SLOWEST } else { (ceiling * BACK_TO).max(SLOWEST) };
        self.held = Some(Held { per_s, ceiling, credit: 1.0, at: now, throttled: now });
    }

    /// A mail was accepted.
    pub(crate) fn accepted(&mut self, now: Instant) {
        self.borne.count(now);
        if let Some(held) = &mut self.held {
            let near = held.per_s >= held.ceiling * BACK_TO && now.duration_since(held.throttled) < CEILING_KEPT;
            held.per_s += if near { GROWS_BY } else { STARTS_BY };
        }
    }

    /// Takes a place for one attempt; `Err`: there is none, the next comes after so long, and so many come each second.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), (Duration, f64)> {
        self.held.take_if(|held| now.duration_since(held.throttled) >= FORGOTTEN);
        let Some(held) = &mut self.held else { return Ok(()) };
        held.credit = (held.credit + now.duration_since(held.at).as_secs_f64() * held.per_s).min(1.0 + held.per_s / 10.0);
        held.at = now;
        // What is short of a whole one by less than rounding is whole: it comes when it was promised.
        if held.credit < 1.0 - 1e-6 {
            return Err((Duration::from_secs_f64((1.0 - held.credit) / held.per_s), held.per_s));
        }
        held.credit -= 1.0;
        Ok(())
    }
}

impl Borne {
    fn count(&mut self, now: Instant) {
        self.turn(now);
        self.this += 1;
    }

    fn best(&mut self, now: Instant) -> u32 {
        self.turn(now);
        self.this.max(self.last)
    }

    fn turn(&mut self, now: Instant) {
        let passed = self.since.map_or(u64::MAX, |since| now.duration_since(since).as_secs());
        if passed > 0 {
            self.last = if passed == 1 { self.this } else { 0 };
            self.this = 0;
            self.since = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A provider that takes so many in each second of its own clock, answered at once, and the mails that never wait.
    fn run(pace: &mut Pace, began: Instant, seconds: u64, takes: u32) -> (u32, u32) {
        let (mut accepted, mut refused) = (0, 0);
        let mut now = began;
        let mut held = began;
        let (mut second, mut taken) = (0, 0);
        while now < began + Duration::from_secs(seconds) {
            now += Duration::from_millis(1);
            if now < held || pace.take(now).is_err() {
                continue;
            }
            let this = now.duration_since(began).as_secs();
            if this != second {
                (second, taken) = (this, 0);
            }
            taken += 1;
            if taken <= takes {
                accepted += 1;
                pace.accepted(now);
            } else {
                refused += 1;
                pace.throttled(now);
                held = now + Duration::from_secs(10);
            }
        }
        (accepted, refused)
    }

    #[test]
    fn without_a_throttle_nothing_is_paced() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert!((0..1_000).all(|_| pace.take(now).is_ok()));
    }

    #[test]
    fn a_provider_s_limit_is_found_and_kept_near() {
        for takes in [3, 20, 200] {
            let (mut pace, began) = (Pace::default(), Instant::now());
            let (accepted, refused) = run(&mut pace, began, 300, takes);
            assert!(refused <= 20, "{takes} a second: {refused} refused");
            assert!(accepted >= 300 * takes / 2, "{takes} a second: {accepted} accepted");
        }
    }

    #[test]
    fn after_an_outage_it_is_at_full_speed_within_seconds() {
        let (mut pace, began) = (Pace::default(), Instant::now());
        pace.throttled(began);
        pace.throttled(began + Duration::from_secs(10));
        let back = began + Duration::from_secs(60);
        let (accepted, _) = run(&mut pace, back, 20, u32::MAX);
        assert!(accepted > 2_000, "{accepted}");
    }

    #[test]
    fn those_that_were_under_way_together_slow_it_down_once() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        (0..20).for_each(|_| pace.accepted(now));
        (0..20).for_each(|_| pace.throttled(now));
        assert!(pace.take(now).is_ok());
        let (wait, per_s) = pace.take(now).expect_err("one at a time");
        assert_eq!(per_s, 16.0);
        assert!(wait <= Duration::from_millis(63));
        assert!(pace.take(now + FORGOTTEN).is_ok() && pace.take(now + FORGOTTEN).is_ok(), "forgotten");
    }
}
