//! What an attempt came to, and the closed words for it.
//!
//! An outcome's class is what `decide` reads; its reason is what a person reads. `Ambiguous` means: from the intent on the
//! provider may have accepted, and nothing that we can read says whether it did. Automation never sends such a job again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Moment;

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every variant, in the order of the contract.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word that stands in APIs, logs, metrics and stored forms.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The variant of a word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)+ _other => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What an attempt says about its job.
    OutcomeClass {
        /// The provider took responsibility.
        Accepted = "accepted",
        /// Not accepted; the same attempt may succeed later.
        Transient = "transient",
        /// Not accepted; somebody asks us to slow down.
        Throttled = "throttled",
        /// Not accepted, and it never will be.
        Permanent = "permanent",
        /// The provider refuses this recipient, by its list.
        Suppressed = "suppressed",
        /// Nobody can say.
        Ambiguous = "ambiguous",
        /// Our set-up is wrong; it says nothing about the job.
        Configuration = "configuration",
    }
}

words! {
    /// Why a job runs again, waits or ended: the contract's closed list.
    Reason {
        /// The provider accepted.
        Accepted = "accepted",
        /// Runs again: a transient outcome.
        TransientFailure = "transient_failure",
        /// Runs again: the provider asked for patience.
        Throttled = "throttled",
        /// Runs again: its worker's lease ended before the intent.
        LeaseExpired = "lease_expired",
        /// Runs again, or ended: our set-up is wrong.
        Configuration = "configuration",
        /// Runs again: given back without an attempt.
        GivenBack = "given_back",
        /// Ended: the provider refused for good.
        PermanentFailure = "permanent_failure",
        /// Ended: the provider's list refuses the recipient.
        RecipientSuppressed = "recipient_suppressed",
        /// Ended: in doubt.
        ReconciliationRequired = "reconciliation_required",
        /// Ended: no attempt left.
        RetryBudgetExhausted = "retry_budget_exhausted",
        /// Ended: automation stopped at the deadline.
        BusinessDeadlineReached = "business_deadline_reached",
        /// Ended: the artifact never came.
        ArtifactMissing = "artifact_missing",
        /// Ended: the artifact isn't the one that was pinned.
        ArtifactMismatch = "artifact_mismatch",
        /// Ended: its workers died before the intent, until no attempt was left.
        WorkerLost = "worker_lost",
        /// Ended: a message that can't be read.
        MalformedMessage = "malformed_message",
        /// Ended: it broke its worker three times.
        PoisonMessage = "poison_message",
        /// Ended: a wake-up without a record.
        LedgerRecordMissing = "ledger_record_missing",
        /// Ended: the ledger lost its tail and nobody could prove what became of the job.
        LedgerRolledBack = "ledger_rolled_back",
        /// Ended: the book lost its tail.
        BookRolledBack = "book_rolled_back",
        /// Cancelled or suppressed by a person.
        Operator = "operator",
        /// Suppressed by its policy at the deadline.
        Policy = "policy",
        /// Suppressed: the recipient stands on the suppressions list.
        SuppressionList = "suppression_list",
    }
}

words! {
    /// Where in an attempt something happened; the stages of `cases/smtp_cases.csv`, and `artifact` for our own preparation.
    Stage {
        /// Reading, hashing and rendering, before any connection.
        Artifact = "artifact",
        /// Name lookup and TCP.
        Connect = "connect",
        /// The TLS handshake, implicit or after STARTTLS.
        Tls = "tls",
        /// The server's first line.
        Greeting = "greeting",
        /// EHLO.
        Ehlo = "ehlo",
        /// The STARTTLS command.
        Starttls = "starttls",
        /// AUTH.
        Auth = "auth",
        /// MAIL FROM.
        Mail = "mail",
        /// RCPT TO.
        Rcpt = "rcpt",
        /// DATA, up to its 354.
        Data = "data",
        /// The content, before the first byte of the end marker.
        Content = "content",
        /// From the first byte of the end marker on.
        Dot = "dot",
        /// NOOP on a pooled connection.
        Noop = "noop",
        /// RSET on a pooled connection.
        Rset = "rset",
        /// QUIT.
        Quit = "quit",
    }
}

words! {
    /// What a cool-down or a throttle applies to.
    Scope {
        /// The whole transport.
        Transport = "transport",
        /// The recipient's domain.
        Domain = "domain",
        /// This recipient alone.
        Recipient = "recipient",
    }
}

/// The provider's proof that it accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Receipt {
    /// When the reply was read, by the ledger's clock.
    pub at: Moment,
    /// The reply code: 250, 251 or 252 over SMTP; 0 for a capture or an operator's word.
    pub code: u16,
    /// The reply's text without addresses, at most 200 bytes.
    pub text: String,
    /// The server's own id for the message, where its reply names one.
    pub queue_id: Option<String>,
}

/// What one attempt came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// What `decide` reads.
    pub class: OutcomeClass,
    /// A reason more exact than the class's own: `artifact_missing`, `artifact_mismatch`, `lease_expired`.
    pub cause: Option<Reason>,
    /// Where it happened.
    pub stage: Stage,
    /// The row of the classification table that spoke, for instance `rcpt-unknown-user`.
    pub rule: &'static str,
    /// The server's words or our own, redacted; at most 500 bytes.
    pub diagnostic: String,
    /// A lower bound the provider gave for the next attempt.
    pub retry_after: Option<Duration>,
    /// What the throttle covers; `Transport` unless the rule says otherwise.
    pub scope: Scope,
    /// Set where the words contradict a 5yz digit: the softer reading is capped at three tries.
    pub softened: bool,
    /// Present exactly when the class is `Accepted`.
    pub receipt: Option<Receipt>,
}

impl Outcome {
    /// An outcome without a hint.
    pub fn new(class: OutcomeClass, stage: Stage, rule: &'static str, diagnostic: impl Into<String>) -> Self {
        Self {
            class,
            cause: None,
            stage,
            rule,
            diagnostic: diagnostic.into(),
            retry_after: None,
            scope: Scope::Transport,
            softened: false,
            receipt: None,
        }
    }
}
