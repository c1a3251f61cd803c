//! A row as the door makes it, and an item as a dead letter makes it.

use std::collections::BTreeMap;

use curfew_book::{BookState, Row};
use curfew_domain::job::Job;
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::{JobId, Key, Moment, Reason, Record, Shard};
use curfew_review::{Item, ItemStatus};
use uuid::Uuid;

use crate::config::Config;
use crate::real::at;

/// The one job that every row of the model is about; keys tell nothing apart here.
pub(super) fn planned(config: &Config) -> Row {
    let key = Key::from_parts("acme", "renewal", "R-1", "2026-12-01").expect("well formed");
    let job = Job {
        id: JobId(Uuid::from_u128(7)),
        key,
        tenant: "acme".to_owned(),
        purpose: "renewal".to_owned(),
        subject_ref: "R-1".to_owned(),
        business_date: "2026-12-01".to_owned(),
        shard: Shard(0),
        recipient_ref: RecipientRef("r".to_owned()),
        recipient_masked: String::new(),
        letter: Sealed::from_bytes(Vec::new()),
        content_revision: 1,
        fingerprints: BTreeMap::new(),
        release_at: at(config.release),
        deadline_at: at(config.deadline),
        local: None,
        policy: "default".to_owned(),
        transport: "smtp".to_owned(),
        labels: BTreeMap::new(),
        accepted_at: at(0),
        trace: None,
    };
    Row {
        job,
        state: BookState::Planned,
        generation: 1,
        seen: (1, 0, 0),
        ever_staged: false,
        replays: 0,
        attempts: 0,
        last: None,
        reason: None,
        receipt: None,
        doubt: None,
        window_doubts: Vec::new(),
        doubts: Vec::new(),
        pins: Vec::new(),
        open_verb: None,
        history: Vec::new(),
    }
}

/// The item of a dead letter.
pub(super) fn item(row: &Row, number: u32, in_doubt: bool, record: Option<&Record>) -> Item {
    Item {
        id: Uuid::from_u128(number.into()),
        job_id: Some(row.job.id),
        key: Some(row.job.key.clone()),
        tenant: None,
        recipient_ref: None,
        recipient_masked: None,
        release_at: None,
        deadline_at: None,
        attempts: 0,
        last: None,
        reason: record.and_then(|r| r.reason).unwrap_or(Reason::ReconciliationRequired),
        diagnostic: String::new(),
        owner: None,
        due_at: None,
        status: ItemStatus::Open,
        generation: row.generation,
        number,
        replay_of: None,
        in_doubt,
        lease_ended_at: None,
        // Long ago: the rest of a doubt is over, for its lease is when it is recorded.
        created_at: Moment::from_millis(0),
        notes: Vec::new(),
        history: Vec::new(),
    }
}
