//! Pages by keyset: the cursor names the last row shown.

use curfew_domain::{JobId, Key};

use crate::BookError;
use crate::forms::id;

/// The most rows of one page.
pub const PAGE_MAX: u32 = 500;

/// One row more than asked for was read: where it is there, a next page begins after the last one shown.
pub fn cut_page<T>(items: &mut Vec<T>, limit: u32, cursor: impl Fn(&T) -> String) -> Option<String> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if items.len() <= limit {
        return None;
    }
    items.truncate(limit);
    items.last().map(cursor)
}

/// Where the page after this row begins.
pub fn cursor(id: JobId) -> String {
    hex::encode(id.as_bytes())
}

/// The row of a cursor.
///
/// # Errors
/// `Invalid` for a cursor of somebody's own making.
pub fn uncursor(cursor: &str) -> Result<JobId, BookError> {
    let bytes = hex::decode(cursor).map_err(|_form| not_a_cursor())?;
    id(&bytes).map_err(|_length| not_a_cursor())
}

/// The answer to a cursor of somebody's own making.
pub fn not_a_cursor() -> BookError {
    BookError::Invalid { field: "cursor", reason: "is none that a list answered".to_owned() }
}

/// A key as it stands in a table.
///
/// # Errors
/// `Unreadable`.
pub fn parse_key(text: &str) -> Result<Key, BookError> {
    Key::parse(text).map_err(|e| BookError::Unreadable(format!("a key {e}")))
}
