//! Closed label sets, and the caps on what submitters can name.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Purposes that get a label of their own; later ones share `other`, so that a submitter can't grow the exposition.
pub const PURPOSES_MAX: usize = 100;

macro_rules! closed {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// Every word of the set, in the order of the contract.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The label's value.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
    };
}

closed! {
    /// Where a repetition was stopped.
    Where {
        /// A second submission of a key.
        Door = "door",
        /// A record that stood there already.
        Staging = "staging",
        /// A wake-up for what is claimed or gone.
        Claim = "claim",
        /// A provider that recognised its key.
        Handoff = "handoff",
        /// Evidence that a job in doubt was sent.
        Evidence = "evidence",
    }
}

closed! {
    /// What a worker was doing when its lease ended.
    Phase {
        /// Before the intent.
        Claimed = "claimed",
        /// After it.
        Handoff = "handoff",
    }
}

closed! {
    /// What resolved a doubt.
    ResolvedBy {
        /// Its worker came back.
        LateVerdict = "late_verdict",
        /// The provider told.
        ProviderEvent = "provider_event",
        /// A person decided.
        Operator = "operator",
    }
}

closed! {
    /// What became of a replay.
    ReplayResult {
        /// Accepted by the provider.
        Sent = "sent",
        /// A dead letter again.
        DeadLetter = "dead_letter",
        /// Not begun.
        Refused = "refused",
    }
}

closed! {
    /// What became of a wake-up.
    WakeUpResult {
        /// The job is ours.
        Claimed = "claimed",
        /// Before its time.
        Early = "early",
        /// Of an earlier version or generation.
        Stale = "stale",
        /// Of a job that somebody has.
        Duplicate = "duplicate",
        /// A limit gave the job back.
        Limited = "limited",
        /// The shard is recovering.
        Recovering = "recovering",
        /// Bytes that say nothing.
        Undecodable = "undecodable",
    }
}

closed! {
    /// How near a deadline is.
    Within {
        /// A minute.
        OneMinute = "1m",
        /// Five.
        FiveMinutes = "5m",
        /// Fifteen.
        FifteenMinutes = "15m",
    }
}

closed! {
    /// What the auditor found wrong.
    AuditKind {
        /// A row without its record, or the reverse.
        Record = "record",
        /// A record without its timer.
        Timer = "timer",
        /// A counter that its recount contradicts.
        Counter = "counter",
        /// A row that lags behind.
        Row = "row",
    }
}

closed! {
    /// Who covers a shard.
    Covers {
        /// A scheduler leads it.
        Scheduler = "scheduler",
        /// A worker consumes its queue.
        Worker = "worker",
    }
}

closed! {
    /// A store.
    Store {
        /// What was accepted and what became of it.
        Book = "book",
        /// Who may send now.
        Ledger = "ledger",
        /// Wake-ups.
        Broker = "broker",
    }
}

/// How much of a store survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Durability {
    /// Nothing.
    None,
    /// The end of its process.
    Process,
    /// The loss of power.
    Fsync,
    /// The loss of the machine.
    Replicated,
}

impl Durability {
    /// As configured and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Process => "process",
            Durability::Fsync => "fsync",
            Durability::Replicated => "replicated",
        }
    }

    /// As exported, 0 to 3.
    pub fn figure(self) -> f64 {
        f64::from(self as u8)
    }
}

/// The label of an attempt's number.
pub(super) const fn number(n: u32) -> &'static str {
    const WORDS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10+"];
    WORDS[if n == 0 {
        0
    } else if n > 9 {
        9
    } else {
        n as usize - 1
    }]
}

/// The label of a purpose: itself while it is among the first met, else `other`.
pub(super) fn purpose(purpose: &str) -> String {
    static MET: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut met = MET.lock().unwrap_or_else(PoisonError::into_inner);
    if !met.contains(purpose) {
        if met.len() >= PURPOSES_MAX {
            return "other".to_owned();
        }
        met.insert(purpose.to_owned());
    }
    purpose.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_from_the_tenth_on_share_a_label() {
        assert_eq!([number(0), number(1), number(9), number(10), number(u32::MAX)], ["1", "1", "9", "10+", "10+"]);
    }

    #[test]
    fn a_submitter_cannot_grow_the_exposition_without_bound() {
        let labels: BTreeSet<String> = (0..PURPOSES_MAX * 3).map(|n| purpose(&format!("p{n}"))).collect();
        assert_eq!(labels.len(), PURPOSES_MAX + 1);
        assert!(labels.contains("other"));
    }
}
