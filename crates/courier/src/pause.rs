//! Moments between two steps, which a rehearsal or a test must hit: announced, then held until the process is killed or let go.

use async_trait::async_trait;
use curfew_domain::Key;

/// A moment in one job's life: a delivery's, or a carry's between what was read and what is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// A scheduler read the book's rows, nothing of them is in the ledger.
    BeforeStaging,
    /// Claimed, nothing prepared.
    AfterClaim,
    /// Prepared, the intent not yet written.
    BeforeIntent,
    /// The intent is on the disk, nothing of the content has left.
    AfterIntent,
    /// The content has left, the end marker hasn't.
    LastLook,
    /// The provider answered, nobody was told.
    AfterVerdict,
    /// The verdict is in the ledger, the delivery isn't answered.
    AfterReport,
    /// A dead-letter consumer read the record, the review store has nothing of it.
    BeforeRecord,
}

impl Point {
    /// Every point, in the order of a job's life.
    pub const ALL: [Point; 8] = [
        Point::BeforeStaging,
        Point::AfterClaim,
        Point::BeforeIntent,
        Point::AfterIntent,
        Point::LastLook,
        Point::AfterVerdict,
        Point::AfterReport,
        Point::BeforeRecord,
    ];

    /// Its word on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Point::BeforeStaging => "before-staging",
            Point::AfterClaim => "after-claim",
            Point::BeforeIntent => "before-intent",
            Point::AfterIntent => "after-intent",
            Point::LastLook => "last-look",
            Point::AfterVerdict => "after-verdict",
            Point::AfterReport => "after-report",
            Point::BeforeRecord => "before-record",
        }
    }

    /// The point of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.word() == word)
    }
}

/// Who wants to know about moments.
#[async_trait]
pub trait Pauses: Send + Sync {
    /// A job has come to this point; returns when it may go on.
    async fn at(&self, point: Point, key: &Key);
}

/// Nobody does: production.
pub struct NoPauses;

#[async_trait]
impl Pauses for NoPauses {
    async fn at(&self, _point: Point, _key: &Key) {}
}
