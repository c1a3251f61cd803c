//! Changes of a schedule, judged: where its scan goes on, and what becomes of the jobs that it has made.
//!
//! A job is taken back only while the book alone can have it: planned, never staged, no verb open, and its release so far off that no scheduler
//! can have it in its hands (DESIGN 4, "An operator's verb"). Whatever is nearer runs as it was made, and the change says how many do.

use super::plan::Skip;
use crate::moment::Moment;

/// Whether a schedule makes jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It does.
    Active,
    /// Its slots are skipped when they come.
    Paused,
    /// It has no slots any more. Its name and its past slots stay, so that no slot is made twice under that name.
    Deleted,
}

/// A person's change of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Another definition.
    Edit,
    /// No more jobs for now.
    Pause,
    /// Jobs again, from now on: what the pause skipped stays skipped.
    Resume,
    /// No more jobs.
    Delete,
}

/// How far a schedule's scan has come, and under what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Whether it makes jobs.
    pub phase: Phase,
    /// Every slot up to this moment is planned.
    pub cursor: Moment,
    /// What stands in force now does so since; nothing up to then is sent under it.
    pub in_force_from: Moment,
    /// Why slots up to then are skipped, where none was made of them before.
    pub before: Skip,
}

/// Where a job that a schedule made is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whereabouts {
    /// In the book: planned.
    Planned {
        /// When it is released.
        release_at: Moment,
        /// Whether the ledger ever had it.
        ever_staged: bool,
        /// Whether an operator's verb is open on it.
        verb_open: bool,
    },
    /// In the ledger.
    Running,
    /// Sent, dead-lettered, cancelled or suppressed.
    Ended,
}

/// What a change makes of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Cancelled before anybody could send it. If the rule in force has its slot, the slot gets another job under the same key.
    Withdrawn,
    /// It runs as it was made: it is with the ledger, or about to be.
    LeftRunning,
    /// It has ended, and its slot with it.
    LeftEnded,
    /// The change takes nothing back.
    Untouched,
}

impl Phase {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Deleted => "deleted",
        }
    }

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Active, Self::Paused, Self::Deleted].into_iter().find(|p| p.word() == word)
    }
}

impl Change {
    /// The word for it, in the audit trail.
    pub fn word(self) -> &'static str {
        match self {
            Self::Edit => "edit_schedule",
            Self::Pause => "pause_schedule",
            Self::Resume => "resume_schedule",
            Self::Delete => "delete_schedule",
        }
    }

    /// Whether jobs that were made ahead are taken back.
    pub fn takes_back(self) -> bool {
        match self {
            Self::Edit | Self::Pause | Self::Delete => true,
            Self::Resume => false,
        }
    }
}

impl Progress {
    /// A schedule that is made, or made again after it was deleted: its slots begin after this moment.
    pub fn begun(at: Moment) -> Self {
        Self { phase: Phase::Active, cursor: at, in_force_from: at, before: Skip::Edit }
    }

    /// Where it goes on after a change at `at`. What was made beyond is scanned again: it stands, or it was taken back.
    #[must_use]
    pub fn after(self, change: Change, at: Moment) -> Self {
        let cursor = self.cursor.min(at);
        match change {
            Change::Edit => Self { cursor, in_force_from: at, before: Skip::Edit, ..self },
            Change::Pause => Self { phase: Phase::Paused, cursor, ..self },
            Change::Resume => Self { phase: Phase::Active, in_force_from: at, before: Skip::Pause, ..self },
            Change::Delete => Self { phase: Phase::Deleted, cursor, ..self },
        }
    }
}

/// What a change makes of a job. `alone_from`: what is released later is the book's alone.
pub fn fate(change: Change, job: Whereabouts, alone_from: Moment) -> Fate {
    match job {
        _any if !change.takes_back() => Fate::Untouched,
        Whereabouts::Ended => Fate::LeftEnded,
        Whereabouts::Planned { release_at, ever_staged: false, verb_open: false } if release_at > alone_from => Fate::Withdrawn,
        Whereabouts::Planned { .. } | Whereabouts::Running => Fate::LeftRunning,
    }
}
