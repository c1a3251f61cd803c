//! An operator's act on an item: who, why, when, and what it asks of the book. Shared by every adapter.

use curfew_book::{BookError, BookState, Evidence, EvidenceSource, Fate, Row, VerbRequest};
use curfew_domain::Moment;
use curfew_domain::history::cut;
use curfew_domain::outcome::Receipt;
use curfew_domain::verb::Verb;
use uuid::Uuid;

use crate::{Correction, Item};

/// A receipt that an operator types, in bytes; as long as the one a reply leaves.
const RECEIPT_BYTES_MAX: usize = 200;

/// Who acts on which item, why and when.
#[derive(Clone, Debug)]
pub struct Act {
    /// The item.
    pub item: Uuid,
    /// Who.
    pub actor: String,
    /// Why; empty where no reason is asked for.
    pub reason: String,
    /// When, by the ledger's clock.
    pub at: Moment,
}

/// The act of an actor.
pub fn act(item: Uuid, actor: &str, reason: &str, at: Moment) -> Act {
    Act { item, actor: actor.to_owned(), reason: reason.to_owned(), at }
}

impl Act {
    /// The act of a correction.
    pub fn of(correction: &Correction) -> Self {
        act(correction.item, &correction.actor, &correction.reason, correction.at)
    }

    /// Refuses an act without a reason.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn reasoned(self) -> Result<Self, BookError> {
        if self.reason.trim().is_empty() {
            return Err(BookError::Invalid { field: "reason", reason: "is empty".to_owned() });
        }
        Ok(self)
    }

    /// An operator's receipt is evidence: it counts where something is in doubt.
    pub fn receipt(&self, row: &Row, mut text: String) -> Evidence {
        cut(&mut text, RECEIPT_BYTES_MAX);
        Evidence {
            key: row.job.key.clone(),
            generation: row.generation,
            token: None,
            fate: Fate::Accepted(Receipt { at: self.at, code: 0, text, queue_id: None }),
            source: EvidenceSource::Operator(self.actor.clone()),
            at: self.at,
        }
    }

    /// A suppression is the verb, applied in the book.
    pub fn suppress(&self, row: &Row) -> VerbRequest {
        VerbRequest {
            key: row.job.key.clone(),
            verb: Verb::Suppress,
            actor: self.actor.clone(),
            reason: self.reason.clone(),
            at: self.at,
            book_alone_from: self.at,
        }
    }
}

/// Refuses where the job is no longer the dead letter that the item stands for.
///
/// # Errors
/// `Conflict`.
pub fn dead_letter(item: &Item, row: &Row) -> Result<(), BookError> {
    if row.state == BookState::DeadLetter && row.generation == item.generation {
        return Ok(());
    }
    Err(BookError::Conflict(format!("the job is {} in generation {}", row.state.word(), row.generation)))
}
