//! Spreading: jobs of one release set off over a window, each at its own stable place in it.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::moment::Moment;

/// When the job of this key starts: `release_at` and up to `over` later.
///
/// The place is a hash of the key: the same at each call, in each process, after each restart. It never reaches the second half of the
/// window up to the deadline, so that spreading leaves every job time to be sent and to be tried again.
pub fn spread(key: &str, release_at: Moment, deadline_at: Option<Moment>, over: Duration) -> Moment {
    let room = deadline_at.map_or(over, |deadline| over.min(deadline.since(release_at) / 2));
    let room_ms = u64::try_from(room.as_millis()).unwrap_or(u64::MAX);
    let hash = Sha256::digest(key.as_bytes());
    let place = u64::from_be_bytes(hash[..8].try_into().expect("a hash has 32 bytes"));
    // place / 2^64 of the room, rounded down: always less than all of it.
    release_at.plus(Duration::from_millis(((u128::from(place) * u128::from(room_ms)) >> 64) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: Moment = Moment::from_millis(1_800_000_000_000);

    #[test]
    fn a_jobs_place_is_stable() {
        let at = spread("acme/daily/R-1/2027-01-05", RELEASE, None, Duration::from_secs(600));
        assert_eq!(at.since(RELEASE), Duration::from_millis(383_607), "another place would move every waiting job");
    }

    #[test]
    fn jobs_fill_the_window_and_leave_the_half_before_the_deadline() {
        let deadline = RELEASE.plus(Duration::from_secs(600));
        let places: Vec<u64> = (0..1_000)
            .map(|n| spread(&format!("acme/daily/R-{n}/2027-01-05"), RELEASE, Some(deadline), Duration::from_secs(3_600)).since(RELEASE).as_secs())
            .collect();
        assert!(places.iter().all(|s| *s < 300));
        for tenth in 0..10 {
            let there = places.iter().filter(|s| **s / 30 == tenth).count();
            assert!((60..140).contains(&there), "{there} of 1,000 in tenth {tenth}");
        }
    }

    #[test]
    fn an_empty_window_spreads_nothing() {
        let over = Duration::from_secs(60);
        assert_eq!(spread("a/b", RELEASE, Some(RELEASE), over), RELEASE);
        assert_eq!(spread("a/b", RELEASE, Some(RELEASE.minus(over)), over), RELEASE);
        assert_eq!(spread("a/b", RELEASE, None, Duration::ZERO), RELEASE);
    }
}
