//! Which hold stands in a job's way: the fleet's, its shard's, its tenant's or its transport's.

use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Record};
use curfew_ledger::{Hold, Holds};

/// The hold in force on a job at `now`, and until when it surely holds; `None`: nothing holds it.
pub fn held(holds: &Holds, record: &Record, now: Moment) -> Option<(WaitingFor, Option<Moment>)> {
    if holds.is_empty() {
        return None;
    }
    let places = [Hold::Fleet, Hold::Shard(record.shard.0), Hold::Tenant(record.tenant().to_owned()), Hold::Transport(record.transport.clone())];
    places.iter().find_map(|place| in_force(holds, place, now))
}

/// One hold, where it is in force at `now`.
pub fn in_force(holds: &Holds, place: &Hold, now: Moment) -> Option<(WaitingFor, Option<Moment>)> {
    holds.get(place).copied().filter(|(_, until)| until.is_none_or(|until| now < until))
}
