//! The one function that moves a record: `transition(record, event, now)`. Without I/O; the ledgers, the roles and the simulator share it.
//!
//! Every pair of state and event has one answer: a change, or a refusal that says what the caller does next.
//! A change carries all that must move with the record: its timer, its place in line, its history entry, the guards.
//!
//! Read DESIGN 4 beside it; `tests/transition_table/` has the whole table as text.

mod attempt;
mod errand;
mod recovery;
mod release;
mod verdict;

use std::time::Duration;

use crate::history::HistoryEntry;
use crate::limits::TOMBSTONE;
use crate::outcome::{Outcome, words};
use crate::policy::Policy;
use crate::record::WaitingFor;
use crate::sealed::RecipientRef;
use crate::verb::NumberedVerb;
use crate::{Moment, Record, State, Token, WorkerId, simulation};

pub use recovery::{Assertion, BookStory};
pub use verdict::Verdict;

/// What happens to a record.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The scheduler published the wake-up for version + 1 (first time or again, into silence) and its confirm came.
    Release {
        /// How long after its moment the wake-up may stay unclaimed.
        claim_grace: Duration,
    },
    /// A worker takes the job under a lease.
    Claim {
        /// Who.
        worker: WorkerId,
        /// How long; 10 s to 15 min.
        lease: Duration,
    },
    /// A limit refuses the job before a claim: it goes back without an attempt.
    Limited {
        /// Which limit.
        by: WaitingFor,
        /// Not before.
        until: Moment,
    },
    /// The owner renews its lease.
    Renew {
        /// Who.
        worker: WorkerId,
        /// From now on.
        lease: Duration,
    },
    /// The owner is about to hand over.
    Intent {
        /// Who.
        worker: WorkerId,
        /// Names this handoff.
        token: Token,
        /// From now on.
        lease: Duration,
        /// Hashes of the artifacts as read.
        pins: Vec<String>,
    },
    /// The owner knows what its attempt came to; nothing handed over yet (`claimed`).
    Prepared {
        /// Who.
        worker: WorkerId,
        /// Never `Accepted` nor `Ambiguous`.
        outcome: &'a Outcome,
        /// What decides.
        rules: Rules<'a>,
        /// Hashes of the artifacts as read.
        pins: Vec<String>,
    },
    /// What became of a token: in time, or late.
    Verdict {
        /// The token.
        token: Token,
        /// What became of it.
        verdict: Verdict<'a>,
        /// What decides.
        rules: Rules<'a>,
    },
    /// The owner gives a claimed job back without an attempt.
    GiveBack {
        /// Who.
        worker: WorkerId,
        /// What it waits for then; `None`: nothing, it was drained.
        waits_for: Option<WaitingFor>,
        /// Not before.
        until: Moment,
    },
    /// The timer found the lease over.
    LeaseOver {
        /// What decides.
        rules: Rules<'a>,
    },
    /// The timer found the deadline reached, or the end of the provider's window over a doubt: `Record::stops_at`.
    DeadlineReached,
    /// A delivery of it panicked, or the broker gave it up; the third makes `poison_message`.
    Strike {
        /// Not before.
        until: Moment,
    },
    /// An operator's verb.
    Verb(&'a NumberedVerb),
    /// A suppression of its recipient, found at the claim.
    RecipientSuppressed,
    /// The book (or the review store) holds what this version says.
    Closed,
    /// Recovery: a worker asserts what it knows of a token, to a ledger that may have lost it.
    Asserted {
        /// The token's generation.
        generation: u32,
        /// The token.
        token: Token,
        /// What the worker knows.
        assertion: Assertion<'a>,
    },
    /// Recovery: whatever may have become of it is lost, and a worker that could have had it too. `Some`: somebody's lease may still run
    /// until then; it is nobody's to send, and goes to review after that. `None`: to review at once.
    RolledBack {
        /// The end of the longest lease.
        until: Option<Moment>,
    },
    /// Recovery: the book saw a later story, and owns the job.
    BookWins(&'a BookStory),
    /// Recovery: the book saw a later version, with these times.
    MovedInBook {
        /// As the book has it.
        release_at: Moment,
        /// As the book has it.
        deadline_at: Moment,
    },
    /// Recovery: a receipt ends the job in this later generation too, which the book staged.
    SentInGeneration(u32),
    /// Recovery: its worker dropped the claim, for that began in another incarnation. No attempt used.
    ClaimDropped,
}

/// What decides about an outcome.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The job's policy.
    pub policy: &'a Policy,
    /// Where in the jitter's range to go, 0.0 to 1.0.
    pub jitter: f64,
    /// The transport's idempotency window, where it is confirmed.
    pub idempotency_window: Option<Duration>,
    /// The longest that a whole attempt takes, all phases counted.
    pub attempt_max: Duration,
}

/// Everything that must happen in one swap.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The next state; its version is the old one + 1.
    pub record: Record,
    /// The one timer; `None` exactly where it is closed.
    pub timer: Option<Timer>,
    /// Its next time, where it stands in its tenant's line.
    pub line: Option<Moment>,
    /// When a closed record may vanish.
    pub expires_at: Option<Moment>,
    /// Whether the sealed letter is deleted.
    pub letter: Letter,
    /// What the story gains.
    pub history: Option<HistoryEntry>,
    /// What the ledger checks before it writes, besides the version.
    pub guards: Vec<Guard>,
}

/// What becomes of the sealed letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letter {
    /// It stays.
    Keep,
    /// It is deleted: the job ended.
    Delete,
}

words! {
    /// The index that holds a record's one timer.
    Index {
        /// Deadline of a waiting job, claim grace, lease.
        Watch = "watch",
        /// The book must know.
        Settle = "settle",
        /// The review store must hold it.
        Review = "review",
    }
}

/// By when something must have happened, and in which index that stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    /// Which errand.
    pub index: Index,
    /// Overdue from here on.
    pub at: Moment,
}

/// What the ledger checks by its own clock and its own sets before it writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Guard {
    /// The ledger's now is at or after this.
    NotBefore(Moment),
    /// The ledger's now is before this.
    Before(Moment),
    /// The recipient isn't on the tenant's suppressions list, nor on the list for all.
    NotSuppressed(RecipientRef),
}

/// Why an event changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// Another state is asked for: read again. For a verdict on an earlier handoff: report it again when the present one has ended.
    #[error("the job is in another state")]
    WrongState,
    /// Somebody else holds the lease, or nobody.
    #[error("the lease is another worker's")]
    NotOwner,
    /// Its moment is still ahead.
    #[error("not before {0}")]
    NotDue(Moment),
    /// At or after the moment at which automation stops: the deadline, or the end of the provider's window.
    #[error("the deadline is reached")]
    TooLate,
    /// Its lease is over.
    #[error("the lease is over")]
    LeaseEnded,
    /// The lease still runs.
    #[error("the lease runs until {0}")]
    LeaseRuns(Moment),
    /// The verb was applied before: it counts as done.
    #[error("the verb is applied already")]
    AppliedAlready,
    /// A later verb, or another generation: the verb is refused (409).
    #[error("a later verb or another generation is there")]
    Superseded,
    /// In handoff, or ended: the verb is refused (409).
    #[error("refused in the state {0}")]
    Conflict(State),
    /// A recorded dead letter, a token that the record doesn't know, or an acceptance of what was cancelled or suppressed: the book decides.
    #[error("the book owns it")]
    ForTheBook,
    /// Known already, or of no consequence.
    #[error("nothing to change")]
    NothingToChange,
    /// The record can't hold another token in doubt.
    #[error("too many handoffs in doubt")]
    TooManyDoubts,
}

/// Answers an event: what the record becomes, or why it stays. `now` is the ledger's.
///
/// # Errors
/// A refusal, which names what the caller does next.
pub fn transition(record: &Record, event: &Event<'_>, now: Moment) -> Result<Change, Refusal> {
    let answer = match event {
        Event::Release { claim_grace } => release::release(record, *claim_grace, now),
        Event::Claim { worker, lease } => release::claim(record, *worker, *lease, now),
        Event::Limited { by, until } => release::limited(record, *by, *until, now),
        Event::RecipientSuppressed => release::recipient_suppressed(record, now),
        Event::Renew { worker, lease } => attempt::renew(record, *worker, *lease, now),
        Event::Intent { worker, token, lease, pins } => attempt::intent(record, *worker, *token, *lease, pins, now),
        Event::Prepared { worker, outcome, rules, pins } => attempt::prepared(record, *worker, outcome, *rules, pins, now),
        Event::GiveBack { worker, waits_for, until } => attempt::give_back(record, *worker, *waits_for, *until, now),
        Event::Verdict { token, verdict, rules } => verdict::verdict(record, *token, verdict, *rules, now),
        Event::LeaseOver { rules } => errand::lease_over(record, *rules, now),
        Event::DeadlineReached => errand::deadline_reached(record, now),
        Event::Strike { until } => errand::strike(record, *until, now),
        Event::Verb(verb) => errand::verb(record, verb, now),
        Event::Closed => errand::closed(record, now),
        Event::Asserted { generation, token, assertion } => recovery::asserted(record, *generation, *token, *assertion, now),
        Event::RolledBack { until } => recovery::rolled_back(record, *until, now),
        Event::BookWins(story) => recovery::book_wins(record, story, now),
        Event::MovedInBook { release_at, deadline_at } => recovery::moved_in_book(record, *release_at, *deadline_at, now),
        Event::SentInGeneration(generation) => recovery::sent_in_generation(record, *generation, now),
        Event::ClaimDropped => recovery::claim_dropped(record, now),
    };
    simulation::seen(event, answer)
}

/// The first version of a record: as staging creates it.
pub fn created(mut record: Record, now: Moment) -> Change {
    record.waiting_for = (record.state == State::Scheduled && record.due() > now).then_some(WaitingFor::Release);
    let entry = entry(None, &record, "scheduler", now, "staged");
    change(record, now, entry)
}

/// The one timer of a record, by its state alone; `queued` takes the claim grace given.
pub fn timer(record: &Record, claim_grace: Duration, now: Moment) -> Option<Timer> {
    let watch = |at| Some(Timer { index: Index::Watch, at });
    match record.state {
        _ if record.closed => None,
        State::Scheduled => watch(record.stops_at()),
        State::Queued => watch(record.due().max(now).plus(claim_grace).min(record.stops_at())),
        State::Claimed => watch(record.lease_until.unwrap_or(now).min(record.stops_at())),
        State::Handoff => watch(record.lease_until.unwrap_or(now)),
        State::DeadLetter => Some(Timer { index: Index::Review, at: now }),
        State::Sent | State::Cancelled | State::Suppressed => Some(Timer { index: Index::Settle, at: now }),
    }
}

/// What a version counts in: the ledger adds these and takes away those of the version before.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Counter {
    /// Live records of a state.
    State(State),
    /// Claimed or in handoff, of a tenant.
    TenantInFlight(String),
    /// Queued, of a tenant.
    TenantQueued(String),
    /// Queued, by the second of its next time.
    QueuedSecond(i64),
}

/// The counters in which a record counts one.
pub fn counters(record: &Record) -> Vec<Counter> {
    counters_of(record.tenant(), record.state, record.closed, record.due())
}

/// The same, from what they rest on: a ledger that keeps these four beside the record needn't read it.
pub fn counters_of(tenant: &str, state: State, closed: bool, due: Moment) -> Vec<Counter> {
    if closed {
        return Vec::new();
    }
    let mut all = vec![Counter::State(state)];
    match state {
        State::Queued => all.extend([Counter::TenantQueued(tenant.to_owned()), Counter::QueuedSecond(due.as_millis().div_euclid(1000))]),
        State::Claimed | State::Handoff => all.push(Counter::TenantInFlight(tenant.to_owned())),
        State::Scheduled | State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => {}
    }
    all
}

/// The next version of a record, before anything else in it changes.
fn next(record: &Record, state: State) -> Record {
    let mut next = record.clone();
    next.version += 1;
    next.state = state;
    next.in_written_format();
    if !matches!(state, State::Claimed | State::Handoff) {
        next.worker = None;
    }
    if state != State::Scheduled {
        next.waiting_for = None;
    }
    next
}

/// A change with the timer, line and letter that its state asks for, without guards.
fn change(record: Record, now: Moment, history: HistoryEntry) -> Change {
    change_with_grace(record, Duration::ZERO, now, Some(history))
}

fn change_with_grace(mut record: Record, claim_grace: Duration, now: Moment, history: Option<HistoryEntry>) -> Change {
    record.fit();
    Change {
        timer: timer(&record, claim_grace, now),
        line: (record.state == State::Scheduled).then(|| record.due()),
        expires_at: record.closed.then(|| now.plus(TOMBSTONE)),
        letter: if record.state.is_terminal() { Letter::Delete } else { Letter::Keep },
        history: history.map(HistoryEntry::bounded),
        guards: Vec::new(),
        record,
    }
}

fn entry(from: Option<State>, to: &Record, actor: &str, now: Moment, detail: &str) -> HistoryEntry {
    HistoryEntry {
        at: now,
        actor: actor.to_owned(),
        from,
        to: to.state,
        reason: to.reason,
        attempt: to.attempts,
        generation: to.generation,
        detail: detail.to_owned(),
    }
}
