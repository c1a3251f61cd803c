//! Bugs that others have made, planted one at a time: each must be caught.

use curfew_domain::simulation::{self, Bug};
use curfew_testkit::sim::{LedgerBugs, StoreBugs};
use curfew_transport::smtp::SmtpConfig;

use crate::faults::Fault;
use crate::ports::Role;

/// What is planted in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    Nothing,
    InTheCode(Bug),
    NoVersionCheck,
    CreateWithoutReadAt,
    UpsertedReviewItems,
    DirtyConnectionReused,
}

impl Planted {
    /// All of them, with the promise that it breaks; empty where the store's own rules say it in their words.
    pub const ALL: [(Planted, &str); 10] = [
        (Planted::InTheCode(Bug::NoIntent), "P1"),
        (Planted::InTheCode(Bug::NoLastLook), "P"),
        (Planted::InTheCode(Bug::ResendOnLeaseExpiry), "P1"),
        (Planted::InTheCode(Bug::TimeoutTakenAsFailure), "P1"),
        (Planted::DirtyConnectionReused, "P"),
        (Planted::NoVersionCheck, "P"),
        (Planted::InTheCode(Bug::RepublishDuringBacklog), "backlog"),
        (Planted::InTheCode(Bug::NoDeadlineCheck), "P3"),
        (Planted::UpsertedReviewItems, ""),
        (Planted::CreateWithoutReadAt, "P"),
    ];

    /// Plants what lies in the code that runs in this thread.
    pub fn in_this_thread(self) {
        simulation::plant(match self {
            Planted::InTheCode(bug) => Some(bug),
            Planted::Nothing
            | Planted::NoVersionCheck
            | Planted::CreateWithoutReadAt
            | Planted::UpsertedReviewItems
            | Planted::DirtyConnectionReused => None,
        });
    }

    /// A fault that comes more often where this is planted, and the role that it befalls: a bug whose chance is one in hundreds of runs.
    pub fn favours(self) -> Option<(Fault, Role)> {
        match self {
            Planted::CreateWithoutReadAt => Some((Fault::FrozenAtMoment, Role::Scheduler)),
            Planted::UpsertedReviewItems => Some((Fault::FrozenAtMoment, Role::DeadLetter)),
            Planted::InTheCode(Bug::NoLastLook) => Some((Fault::FrozenAtMoment, Role::Worker)),
            Planted::Nothing | Planted::InTheCode(_) | Planted::NoVersionCheck | Planted::DirtyConnectionReused => None,
        }
    }

    pub fn ledger(self) -> LedgerBugs {
        LedgerBugs { no_version_check: self == Planted::NoVersionCheck, create_without_read_at: self == Planted::CreateWithoutReadAt }
    }

    pub fn store(self) -> StoreBugs {
        StoreBugs { upserted_review_items: self == Planted::UpsertedReviewItems }
    }

    pub fn transport(self, config: SmtpConfig) -> SmtpConfig {
        SmtpConfig { reuse_dirty: self == Planted::DirtyConnectionReused, ..config }
    }
}
