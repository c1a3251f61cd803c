//! Every bound of this crate, with its reason.

use std::time::Duration;

/// One line of an import, and any other body, in bytes: content ends at 256 KiB, and escaped JSON may take a multiple of it.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Jobs handed to the book at once; its own bound (DESIGN 7: imports commit at most 500 rows at a time).
pub const BATCH_JOBS_MAX: usize = 500;
/// Bytes of lines at which a batch is closed early, so that an import of fat lines keeps to a few MiB.
pub const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Batches judged and sealed ahead of the one that the book is writing.
pub const BATCHES_AHEAD: usize = 3;
/// Errors that an import's answer lists; the rest are counted (CONTRACT).
pub const ERRORS_LISTED_MAX: usize = 1_000;
/// Attachments of one job: more are an archive, not a business email.
pub const ATTACHMENTS_MAX: usize = 16;
/// Labels of one job.
pub const LABELS_MAX: usize = 16;
/// A label's value, in bytes.
pub const LABEL_BYTES_MAX: usize = 128;
/// Items of a list (CONTRACT): at most, and where nobody says.
pub const LIST_LIMIT_MAX: u32 = 500;
/// See [`LIST_LIMIT_MAX`].
pub const LIST_LIMIT_DEFAULT: u32 = 50;
/// Pages of the book read for one page that only the ledger can filter.
pub const LIST_ROUNDS_MAX: usize = 20;
/// Free text of an operator (a reason, a note, a receipt), in bytes.
pub const FREE_TEXT_BYTES_MAX: usize = 2_000;
/// Events of one provider request.
pub const EVENTS_MAX: usize = 1_000;
/// How far a provider's clock may be from the ledger's (CONTRACT).
pub const SIGNATURE_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// An answer takes at most this long; an import has its own bound per piece of body.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// A client that sends nothing of its import for this long is gone.
pub const IMPORT_IDLE_MAX: Duration = Duration::from_secs(60);
/// By when an escalated item should be worked on, where nobody says.
pub const ESCALATION_DUE: Duration = Duration::from_secs(3600);
/// Ids behind a day's difference that an answer lists.
pub const DIFFERENCES_MAX: u32 = 100;
/// Occurrences that a preview may be asked for, and where nobody says.
pub const PREVIEW_MAX: u32 = 1_000;
/// See [`PREVIEW_MAX`].
pub const PREVIEW_DEFAULT: u32 = 10;
/// Open items in doubt that are compared with a provider's message id.
pub const DOUBTS_SCANNED_MAX: usize = 5_000;

const _: () = assert!(BATCH_BYTES_MAX >= 2 * BODY_BYTES_MAX, "a batch holds more than one of the longest lines");
