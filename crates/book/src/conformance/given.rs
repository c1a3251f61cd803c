//! Jobs, records and stories for the suites of book and review.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::history::HistoryEntry;
use curfew_domain::job::Job;
use curfew_domain::outcome::{OutcomeClass, Receipt, Stage};
use curfew_domain::policy::AtDeadline;
use curfew_domain::record::{Kept, LastOutcome};
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::trace::TraceContext;
use curfew_domain::verb::Verb;
use curfew_domain::{JobId, Key, Moment, Reason, Record, Shard, State, Token, form};
use uuid::{NoContext, Timestamp, Uuid};

use crate::{Accepted, Book, Door, Mark, Story, VerbRequest};

/// The suites' day.
pub const DATE: &str = "2026-12-01";

/// The suites' now: 08:00 on their day.
pub fn now() -> Moment {
    Moment::parse("2026-12-01T08:00:00Z").expect("well formed")
}

/// This many minutes after `now`.
pub fn minutes(n: u64) -> Moment {
    now().plus(Duration::from_secs(n * 60))
}

/// The door of the suites.
pub fn door() -> Door {
    Door { at: now(), actor: "local".to_owned() }
}

/// Job `n` of a tenant: released in 60 minutes, deadline in 120. Ids rise with `n`.
pub fn job(tenant: &str, n: u64) -> Job {
    let key = Key::from_parts(tenant, "renewal", &format!("R-{n}"), DATE).expect("well formed");
    Job {
        id: JobId(Uuid::new_v7(Timestamp::from_unix(NoContext, 1_790_000_000 + n, 0))),
        tenant: tenant.to_owned(),
        purpose: "renewal".to_owned(),
        subject_ref: format!("R-{n}"),
        business_date: DATE.to_owned(),
        shard: Shard::of_tenant(tenant, 4),
        recipient_ref: RecipientRef(format!("{n:032x}")),
        recipient_masked: "a…@e…".to_owned(),
        letter: Sealed::from_bytes(vec![7; 600]),
        content_revision: 1,
        fingerprints: BTreeMap::from([("to".to_owned(), format!("f{n}")), ("template".to_owned(), "t".to_owned())]),
        release_at: minutes(60),
        deadline_at: minutes(120),
        local: None,
        policy: "default".to_owned(),
        transport: "capture".to_owned(),
        labels: BTreeMap::from([("campaign".to_owned(), "december".to_owned())]),
        accepted_at: now(),
        trace: TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        key,
    }
}

/// Every shard there may be.
pub fn shards() -> Vec<Shard> {
    (0..4).map(Shard).collect()
}

/// Accepts one job.
pub async fn accepted(book: &dyn Book, job: &Job) {
    let answers = book.accept(vec![job.clone()], &door()).await.expect("the book answers");
    assert!(matches!(answers.as_slice(), [Accepted::New(_)]), "a new key is accepted");
}

/// A mark of an errand that began in a shard's first incarnation.
pub fn mark(key: &Key, generation: u32) -> Mark {
    Mark { key: key.clone(), generation, shard: Shard::of_tenant(key.tenant(), 4), incarnation: 0 }
}

/// Accepts one job and marks it staged.
pub async fn staged(book: &dyn Book, job: &Job) {
    accepted(book, job).await;
    book.mark_staged(&[mark(&job.key, 1)]).await.expect("the book answers");
}

/// Token `n`.
pub fn token(n: u128) -> Token {
    Token(Uuid::from_u128(n))
}

/// A receipt.
pub fn receipt() -> Receipt {
    Receipt { at: minutes(61), code: 250, text: "2.0.0 Ok".to_owned(), queue_id: Some("4F2Q".to_owned()) }
}

/// The record of a job at a version, in a state, as the ledger would tell it.
pub fn record(job: &Job, generation: u32, version: u64, state: State) -> Record {
    let ended = |reason| Some(reason);
    let reason = match state {
        State::Scheduled | State::Queued | State::Claimed | State::Handoff => None,
        State::Sent => ended(Reason::Accepted),
        State::DeadLetter => ended(Reason::PermanentFailure),
        State::Cancelled | State::Suppressed => ended(Reason::Operator),
    };
    let last = LastOutcome {
        at: minutes(61),
        class: OutcomeClass::Permanent,
        stage: Stage::Rcpt,
        rule: "rcpt-unknown-user".to_owned(),
        diagnostic: "550 5.1.1".to_owned(),
    };
    Record {
        format: form::FORMAT,
        id: job.id,
        key: job.key.clone(),
        shard: job.shard,
        generation,
        version,
        incarnation: 0,
        state,
        release_at: job.release_at,
        deadline_at: job.deadline_at,
        next_attempt_at: job.release_at,
        attempts: 1,
        purpose: job.purpose.clone(),
        business_date: job.business_date.clone(),
        recipient_ref: job.recipient_ref.clone(),
        transport: job.transport.clone(),
        policy: job.policy.clone(),
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
        last: (state == State::DeadLetter).then_some(last),
        reason,
        receipt: (state == State::Sent).then(receipt),
        closed: false,
        configuration_met: 0,
        strikes: 0,
        verbs: Vec::new(),
        pins: vec!["ab".repeat(32)],
        trace: None,
        kept: Kept::default(),
    }
}

/// A story of one record, with one line for each of its versions: a later story begins with the lines of an earlier one.
pub fn story(record: Record) -> Story {
    let line = |version: u64| HistoryEntry {
        at: minutes(60).plus(Duration::from_secs(version)),
        actor: "worker".to_owned(),
        from: Some(State::Claimed),
        to: State::Scheduled,
        reason: None,
        attempt: 1,
        generation: record.generation,
        detail: format!("version {version}"),
    };
    let history = (1..=record.version).map(line).collect();
    Story { record, history }
}

/// A dead letter in doubt about `token`, its lease over at minute 62.
pub fn in_doubt(job: &Job, generation: u32, version: u64, token: Token) -> Record {
    Record {
        token: Some(token),
        lease_until: Some(minutes(62)),
        reason: Some(Reason::ReconciliationRequired),
        ..record(job, generation, version, State::DeadLetter)
    }
}

/// A request for a verb, at `now`; what is released after minute 10 is the book's alone.
pub fn ask(key: &Key, verb: Verb) -> VerbRequest {
    VerbRequest {
        key: key.clone(),
        verb,
        actor: "alice".to_owned(),
        reason: "asked by the customer".to_owned(),
        at: now(),
        book_alone_from: minutes(10),
    }
}
