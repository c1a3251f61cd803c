//! The record: the ledger's entry for one active job, under 1 KiB, rewritten at each transition.
//!
//! A record that is live (not closed) owes something and has exactly one timer; see `transition::timer`.
//! The sealed letter and the history stand beside it in the ledger, not in it.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::form;
use crate::history::cut;
use crate::limits::{RECORD_BYTES_MAX, VERBS_KEPT_AT_LEAST};
use crate::outcome::{OutcomeClass, Receipt, Stage, words};
use crate::policy::AtDeadline;
use crate::sealed::RecipientRef;
use crate::trace::TraceContext;
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
///
/// Stored it keeps to `RECORD_BYTES_MAX`, because [`Record::fit`] cuts what a person may miss; with the longest names, doubts and pins,
/// which are never cut, to `RECORD_BYTES_LONGEST`. Fields that a newer process wrote come on top, and are never cut either.
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
    #[serde(deserialize_with = "rising")]
    pub generation: u32,
    /// +1 at each transition: the fencing token.
    #[serde(deserialize_with = "rising")]
    pub version: u64,
    /// The incarnation of the shard in which this version was written; 0 when embedded.
    #[serde(default, skip_serializing_if = "is_zero")]
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
    #[serde(deserialize_with = "rising")]
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
    /// This generation's tokens in doubt that attempts inside the provider's window stepped over, the oldest first. An acceptance
    /// under the same key settles them; a refusal doesn't, for it may have come before the provider looked at the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window_doubts: Vec<Token>,
    /// While a doubt of this generation is stepped over: no attempt begins at or after this, or the provider might have forgotten the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_until: Option<Moment>,
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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// Configuration outcomes met in this generation.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "rising")]
    pub configuration_met: u32,
    /// Panics and broken deliveries met in this generation.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "rising")]
    pub strikes: u32,
    /// Numbers of the verbs applied, the latest 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<u64>,
    /// SHA-256 of each artifact as first read, lower-case hex, in the letter's order; empty until then. Stored as 32 bytes each.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "pins")]
    pub pins: Vec<String>,
    /// Who asked for it, where somebody did in a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// Fields that a newer process wrote: kept and written back.
    #[serde(flatten)]
    pub kept: Kept,
}

/// What a record holds that this format doesn't name.
#[cfg(not(feature = "next-format"))]
pub type Kept = BTreeMap<String, rmpv::Value>;

/// What a record of the next format holds besides: a field of its own, and what it doesn't name.
#[cfg(feature = "next-format")]
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// How many of its versions were written in the next format.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next: u32,
    /// Fields that a newer process wrote.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, rmpv::Value>,
}

#[cfg(feature = "next-format")]
impl Kept {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.next == 0 && self.unknown.is_empty()
    }
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

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A number that rises by one at a time never comes to its end: where it stands there the bytes are damaged, and the next rise would overflow.
fn rising<'de, D: Deserializer<'de>, N: Deserialize<'de> + Copy + Into<u64> + TryFrom<u64>>(bytes: D) -> Result<N, D::Error> {
    let number = N::deserialize(bytes)?;
    let next = number.into().checked_add(1).and_then(|next| N::try_from(next).ok());
    next.map(|_there| number).ok_or_else(|| D::Error::custom("a counter at its end"))
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

    /// Whether nobody can say what became of a handoff of this generation; not while one is under way, whose verdict decides.
    pub fn in_doubt(&self) -> bool {
        self.token.is_some() && self.state != State::Handoff
    }

    /// From here on it is in the format that this process writes. In an older one it keeps what a newer one gave it, as unknown fields are.
    pub(crate) fn in_written_format(&mut self) {
        self.format = form::written();
        #[cfg(feature = "next-format")]
        if self.format == form::FORMAT {
            self.kept.next += 1;
        }
    }

    /// The tenant, from the key.
    pub fn tenant(&self) -> &str {
        self.key.tenant()
    }

    /// The earliest moment of the next attempt.
    pub fn due(&self) -> Moment {
        self.next_attempt_at.max(self.release_at)
    }

    /// All tokens whose fate is open, the latest last: what a replay carries into its `doubts`.
    pub fn open_tokens(&self) -> Vec<Token> {
        self.doubts.iter().chain(&self.window_doubts).copied().chain(self.token.filter(|_| self.in_doubt())).collect()
    }

    /// The moment at which automation stops: the deadline, or, while an earlier handoff of this generation is in doubt, the end of the
    /// provider's window where that is earlier. Without a confirmed window nothing may run over a doubt: then it is long past.
    pub fn stops_at(&self) -> Moment {
        if self.in_doubt() || !self.window_doubts.is_empty() {
            self.deadline_at.min(self.window_until.unwrap_or(Moment::from_millis(0)))
        } else {
            self.deadline_at
        }
    }

    /// Cuts what a person may miss until the record fits `RECORD_BYTES_MAX` (or nothing is left to cut): first its diagnostic, then the receipt's text, then the
    /// oldest verbs' numbers (the highest alone fences; the others only tell "applied already" from "superseded").
    pub fn fit(&mut self) {
        let variable = [self.key.as_str(), &self.purpose, &self.business_date, &self.transport, &self.policy].iter().map(|s| s.len()).sum::<usize>()
            + self.last.as_ref().map_or(0, |l| l.diagnostic.len() + l.rule.len())
            + self.receipt.as_ref().map_or(0, |r| r.text.len() + r.queue_id.as_ref().map_or(0, String::len))
            + (self.verbs.len() * 9 + (self.doubts.len() + self.window_doubts.len()) * 18 + self.pins.len() * 34);
        if variable + FIXED_BYTES_MAX <= RECORD_BYTES_MAX && self.kept.is_empty() {
            return;
        }
        let bytes = form::encode(self).len();
        let mut surplus = bytes.saturating_sub(RECORD_BYTES_MAX);
        if let Some(last) = self.last.as_mut() {
            surplus = shorten(&mut last.diagnostic, surplus);
        }
        if let Some(receipt) = self.receipt.as_mut() {
            surplus = shorten(&mut receipt.text, surplus);
        }
        while surplus > 0 && self.verbs.len() > VERBS_KEPT_AT_LEAST {
            surplus = surplus.saturating_sub(form::encode(&self.verbs.remove(0)).len());
        }
    }
}

/// Field names and numbers at their longest, and an escalation's owner: a record whose other texts and lists take no more than the rest of
/// its kilobyte needn't be measured. `tests/transition_properties.rs` holds it.
const FIXED_BYTES_MAX: usize = 680;

/// Cuts up to `surplus` bytes from a text's end; what of the surplus is left.
fn shorten(text: &mut String, surplus: usize) -> usize {
    let before = text.len();
    cut(text, before.saturating_sub(surplus));
    surplus.saturating_sub(before - text.len())
}

/// Hashes as 32 bytes where the form is binary, as they are where people read it or where they are no hashes.
mod pins {
    use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
    use serde::ser::{SerializeSeq, Serializer};

    pub fn serialize<S: Serializer>(pins: &[String], s: S) -> Result<S::Ok, S::Error> {
        let binary = !s.is_human_readable();
        let mut seq = s.serialize_seq(Some(pins.len()))?;
        for pin in pins {
            match bytes(pin).filter(|_| binary) {
                Some(hash) => seq.serialize_element(&Bytes(hash))?,
                None => seq.serialize_element(pin)?,
            }
        }
        seq.end()
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
        struct Pins;
        impl<'de> Visitor<'de> for Pins {
            type Value = Vec<String>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of hashes")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
                let mut all = Vec::new();
                while let Some(Pin(pin)) = seq.next_element()? {
                    all.push(pin);
                }
                Ok(all)
            }
        }
        d.deserialize_seq(Pins)
    }

    struct Bytes([u8; 32]);
    impl serde::Serialize for Bytes {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.serialize_bytes(&self.0)
        }
    }

    struct Pin(String);
    impl<'de> Deserialize<'de> for Pin {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            struct One;
            impl Visitor<'_> for One {
                type Value = Pin;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a hash")
                }
                fn visit_str<E: Error>(self, text: &str) -> Result<Pin, E> {
                    Ok(Pin(text.to_owned()))
                }
                fn visit_bytes<E: Error>(self, hash: &[u8]) -> Result<Pin, E> {
                    Ok(Pin(hash.iter().map(|b| format!("{b:02x}")).collect()))
                }
            }
            d.deserialize_any(One)
        }
    }

    fn bytes(hex: &str) -> Option<[u8; 32]> {
        let lower = hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let mut hash = [0; 32];
        for (i, byte) in hash.iter_mut().enumerate().filter(|_| lower) {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
        }
        lower.then_some(hash)
    }
}
