//! The stored form of a record, as `lua/prelude.lua` reads it: a fence, a standing, the names of the counters it counts in, the record.

use curfew_domain::transition::{Counter, counters};
use curfew_domain::{Moment, Record, State, form};

/// Bytes in front of the counters' names.
const FRONT_BYTES: usize = 15;
/// Front and names of the longest: a tenant of 256 bytes and numbers at their longest.
pub(super) const FRONT_BYTES_MAX: usize = FRONT_BYTES + 512;

/// Generation and version, big-endian: compared as bytes, since a Lua number ends at 2^53.
pub(super) fn fence(generation: u32, version: u64) -> Vec<u8> {
    [&generation.to_be_bytes()[..], &version.to_be_bytes()].concat()
}

/// A record as it is written.
pub(super) fn stored(record: &Record) -> Vec<u8> {
    let names = counter_names(record);
    let standing = match (record.closed, record.state) {
        (false, _) => b'L',
        (true, State::DeadLetter) => b'R',
        (true, State::Scheduled | State::Queued | State::Claimed | State::Handoff | State::Sent | State::Cancelled | State::Suppressed) => b'C',
    };
    let length = u16::try_from(names.len()).expect("names of counters are bounded by the key");
    let mut all = fence(record.generation, record.version);
    all.push(standing);
    all.extend_from_slice(&length.to_be_bytes());
    all.extend_from_slice(names.as_bytes());
    all.extend_from_slice(&form::encode(record));
    all
}

/// The name of a counter in its shard's hash.
pub(super) fn counter_name(counter: &Counter) -> String {
    match counter {
        Counter::State(state) => format!("s:{}", state.word()),
        Counter::TenantInFlight(tenant) => format!("f:{tenant}"),
        Counter::TenantQueued(tenant) => format!("q:{tenant}"),
        Counter::QueuedSecond(second) => format!("n:{second}"),
    }
}

/// The name by which live records are counted that stop within the same five seconds.
pub(super) fn stop_name(five_seconds: i64) -> String {
    format!("e:{five_seconds}")
}

/// The five seconds in which a moment lies.
pub(super) fn five_seconds(moment: Moment) -> i64 {
    moment.as_millis().div_euclid(5_000)
}

/// The names by which a record counts, its state's first; what waits to be claimed counts by its next time too, for the oldest of them, and
/// what is live by the moment at which it stops.
fn counter_names(record: &Record) -> String {
    let mut names: Vec<String> = counters(record).iter().map(counter_name).collect();
    if !record.closed && !record.state.is_terminal() {
        names.push(stop_name(five_seconds(record.stops_at())));
    }
    match record.state {
        State::Scheduled | State::Queued if !record.closed => names.push(format!("d:{}", record.due().as_millis())),
        State::Scheduled | State::Queued | State::Claimed | State::Handoff => {}
        State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => {}
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_beyond_2_to_the_53_differ_in_their_fence() {
        let exact = 1_u64 << 53;
        assert_ne!(fence(1, exact), fence(1, exact + 1));
        assert_eq!(fence(1, exact).len(), 12);
        assert_eq!((exact as f64) as u64, ((exact + 1) as f64) as u64, "which a Lua number can't tell apart");
    }
}
