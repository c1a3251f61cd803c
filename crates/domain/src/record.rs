//! The record: the ledger's entry for one active job, under 1 KiB, rewritten at each transition.
//!
//! A record that is live (not closed) owes something and has exactly one timer; see `transition::timer`.
//! The sealed letter and the history stand beside it in the ledger, not in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outcome::{OutcomeClass, Receipt, Stage, words};
use crate::policy::AtDeadline;
use crate::sealed::RecipientRef;
use crate::{JobId, Key, Moment, Reason, Shard, Token, WorkerId};

words! {
    /// Where a job stands in the ledger (DESIGN 4).
    State {
        /// In its tenant's line, to be released.
        Scheduled = "scheduled",
        /// A wake-up is under way.
        Queued = "queued",
        /// A worker prepares it under a lease.
        Claimed = "claimed",
        /// From the intent on: the provider may have accepted.
        Handoff = "handoff",
        /// Accepted by the provider.
        Sent = "sent",
        /// Stopped, for review.
        DeadLetter = "dead_letter",
        /// Ended by an operator.
        Cancelled = "cancelled",
        /// Ended by Curfew's own decision not to send.
        Suppressed = "suppressed",
    }
}

words! {
    /// What a job that isn't running waits for.
    WaitingFor {
        /// Its release.
        Release = "release",
        /// Its next attempt.
        Retry = "retry",
        /// A place among its tenant's jobs in flight.
        TenantInFlight = "tenant_in_flight",
        /// Its tenant's rate.
        TenantRate = "tenant_rate",
        /// Its tenant's part of the ready queue.
        TenantCredit = "tenant_credit",
        /// Its transport's rate.
        TransportRate = "transport_rate",
        /// The end of a throttle.
        CoolDown = "cool_down",
        /// A transport whose circuit is open.
        Circuit = "circuit",
        /// An operator who resumes.
        Pause = "pause",
        /// The broker.
        Broker = "broker",
        /// Its shard's recovery.
        Recovery = "recovery",
    }
}

/// The ledger's entry for one active job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The form's number; the first field, so that a reader sees it before anything else.
    pub format: u16,
    /// The job's id.
    pub id: JobId,
    /// The idempotency key.
    pub key: Key,
    /// Its shard.
    pub shard: Shard,
    /// 1 at the first staging, +1 at each replay or re-staging.
    pub generation: u32,
    /// +1 at each transition: the fencing token.
    pub version: u64,
    /// The incarnation of the shard in which this version was written; 0 when embedded.
    #[serde(default)]
    pub incarnation: u32,
    /// Where it stands.
    pub state: State,
    /// First moment it may run.
    pub release_at: Moment,
    /// Moment at which automation stops.
    pub deadline_at: Moment,
    /// First moment of the next attempt; the release before the first one.
    pub next_attempt_at: Moment,
    /// Attempts begun in this generation; given-back claims and configuration outcomes aren't counted.
    pub attempts: u32,
    /// For whom it is, for metrics and logs.
    pub purpose: String,
    /// The business date, for logs.
    pub business_date: String,
    /// The recipient's keyed hash, for the suppressions guard.
    pub recipient_ref: RecipientRef,
    /// The transport's name.
    pub transport: String,
    /// The policy's name.
    pub policy: String,
    /// The version of the policy that decided last.
    #[serde(default)]
    pub policy_version: u32,
    /// What the deadline makes of it.
    #[serde(default, skip_serializing_if = "is_review")]
    pub at_deadline: AtDeadline,
    /// The content's revision.
    pub content_revision: u32,
    /// The lease's end, while claimed or in handoff; on a dead letter in doubt, the end it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Moment>,
    /// Who holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// The handoff under way, or the one in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The token in doubt that an attempt inside the provider's window stepped over: a definite answer to the same key settles both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_doubt: Option<Token>,
    /// Earlier tokens whose fate nobody knows; carried across replays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Token>,
    /// When the first handoff under the present provider key began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_handoff_at: Option<Moment>,
    /// What it waits for, while scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
    /// The last attempt's outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastOutcome>,
    /// Why it runs again or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The provider's proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// Ended, and the book knows: a tombstone that expires.
    #[serde(default)]
    pub closed: bool,
    /// Configuration outcomes met in this generation.
    #[serde(default)]
    pub configuration_met: u32,
    /// Panics and broken deliveries met in this generation.
    #[serde(default)]
    pub strikes: u32,
    /// Numbers of the verbs applied, the latest 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<u64>,
    /// SHA-256 of each artifact as first read, lower-case hex, in the letter's order; empty until then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// Fields that a newer process wrote: kept and written back.
    #[serde(flatten)]
    pub kept: BTreeMap<String, rmpv::Value>,
}

/// The last attempt's outcome, as far as a record keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LastOutcome {
    /// When it was known.
    pub at: Moment,
    /// Its class.
    pub class: OutcomeClass,
    /// Where it happened.
    pub stage: Stage,
    /// The classification row that spoke.
    pub rule: String,
    /// Redacted words, at most 200 bytes.
    pub diagnostic: String,
}

fn is_review(at: &AtDeadline) -> bool {
    *at == AtDeadline::Review
}

impl State {
    /// Whether this state ends a job's automation.
    pub const fn is_terminal(self) -> bool {
        match self {
            State::Scheduled | State::Queued | State::Claimed | State::Handoff => false,
            State::Sent | State::DeadLetter | State::Cancelled | State::Suppressed => true,
        }
    }
}

impl Record {
    /// Whether it still owes something.
    pub fn is_live(&self) -> bool {
        !self.closed
    }

    /// Whether nobody can say what became of a handoff of this generation.
    pub fn in_doubt(&self) -> bool {
        self.token.is_some() && self.state != State::Handoff
    }

    /// The tenant, from the key.
    pub fn tenant(&self) -> &str {
        self.key.tenant()
    }

    /// The earliest moment of the next attempt.
    pub fn due(&self) -> Moment {
        self.next_attempt_at.max(self.release_at)
    }

    /// All tokens whose fate is open, the present one last.
    pub fn open_tokens(&self) -> Vec<Token> {
        self.doubts.iter().copied().chain(self.window_doubt).chain(self.token.filter(|_| self.in_doubt())).collect()
    }
}
