//! The port of a shard's recovery: what the book knows of jobs that a ledger without its latest part may have forgotten (DESIGN 8).

use async_trait::async_trait;
use curfew_domain::verb::NumberedVerb;
use curfew_domain::{Key, Moment, Shard};

use crate::{BookError, BookState, JobView, Mark};

/// A verb as the book has it.
#[derive(Clone, PartialEq, Debug)]
pub struct VerbSeen {
    /// The verb.
    pub verb: NumberedVerb,
    /// Who asked for it.
    pub actor: String,
    /// Applied, or still open; refused ones aren't told.
    pub applied: bool,
}

/// Who wrote what this process can't read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrittenBy {
    /// A newer process, which reads it.
    Newer,
    /// Nobody, as it stands.
    Nobody,
}

/// What recovery asks. Everything here may be repeated.
#[async_trait]
pub trait Recovery: Send + Sync {
    /// Rows of a shard that are planned, or staged, and released by `until`, after a key and by key, without letters and histories.
    ///
    /// # Errors
    /// `BookError`.
    async fn rows_of(&self, shard: Shard, state: BookState, until: Moment, after: Option<&Key>, limit: u32) -> Result<Vec<JobView>, BookError>;

    /// Keys of such rows that can't be read, at most `limit`, and whether a newer process wrote them. For the auditor: everybody else reads past them.
    ///
    /// # Errors
    /// `BookError`.
    async fn unreadable_of(&self, shard: Shard, state: BookState, until: Moment, limit: usize) -> Result<Vec<(String, WrittenBy)>, BookError> {
        let _all_are_read = (shard, state, until, limit);
        Ok(Vec::new())
    }

    /// Verbs open or applied on these jobs, by number.
    ///
    /// # Errors
    /// `BookError`.
    async fn verbs_of(&self, keys: &[Key]) -> Result<Vec<(Key, VerbSeen)>, BookError>;

    /// Takes a staged row back, whose record is lost before its release: planned in its next generation. Whether it was still staged so.
    ///
    /// # Errors
    /// `OtherIncarnation`; `BookError`.
    async fn take_back(&self, mark: &Mark, at: Moment) -> Result<bool, BookError>;
}
