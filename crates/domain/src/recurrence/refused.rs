//! Why a schedule's rule is refused: one field, one reason that says what is allowed.

/// A rule that is no rule, or one that can never fire.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Refused {
    /// The field, as whoever wrote the schedule names it: `cron`, `rrule`, `calendar`.
    pub field: &'static str,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

impl Refused {
    /// A refusal of `field`.
    pub fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

/// A piece of what was written, short enough for one line.
pub(super) fn quoted(piece: &str) -> String {
    const SHOWN: usize = 24;
    let cut: String = piece.chars().take(SHOWN).collect();
    if cut.len() < piece.len() { format!("{cut:?}…") } else { format!("{cut:?}") }
}
