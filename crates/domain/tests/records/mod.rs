//! A record as staging makes it, for the tests of this folder: released at 08:30, stopping at 09:00.

use std::collections::BTreeMap;

use curfew_domain::policy::AtDeadline;
use curfew_domain::sealed::RecipientRef;
use curfew_domain::{JobId, Key, Moment, Record, Shard, State};
use uuid::Uuid;

/// Today at a time of day, for instance `08:30:00`.
pub fn at(clock: &str) -> Moment {
    Moment::parse(&format!("2026-12-01T{clock}Z")).expect("a time of day")
}

/// The first version of a record.
pub fn record() -> Record {
    Record {
        format: curfew_domain::form::FORMAT,
        id: JobId(Uuid::from_u128(0x0193_8000_0000_7000_8000_0000_0000_0001)),
        key: Key::parse("acme/renewal-reminder/R-1042/2026-12-01").expect("a key"),
        shard: Shard(7),
        generation: 1,
        version: 1,
        incarnation: 0,
        state: State::Scheduled,
        release_at: at("08:30:00"),
        deadline_at: at("09:00:00"),
        next_attempt_at: at("08:30:00"),
        attempts: 0,
        purpose: "renewal-reminder".into(),
        business_date: "2026-12-01".into(),
        recipient_ref: RecipientRef("00112233445566778899aabbccddeeff".into()),
        transport: "default".into(),
        policy: "default".into(),
        policy_version: 1,
        at_deadline: AtDeadline::Review,
        content_revision: 1,
        lease_until: None,
        worker: None,
        token: None,
        window_doubts: Vec::new(),
        window_until: None,
        doubts: Vec::new(),
        first_handoff_at: None,
        waiting_for: None,
        last: None,
        reason: None,
        receipt: None,
        closed: false,
        configuration_met: 0,
        strikes: 0,
        verbs: Vec::new(),
        pins: Vec::new(),
        trace: None,
        kept: BTreeMap::new(),
    }
}
