//! The book: what was accepted, what is planned, what became of it.
//!
//! Promises (proved by `conformance`, for every adapter)
//! - K1  A key is accepted once; the same key with the same content is a duplicate, with other content a conflict that names the fields.
//! - K2  What is accepted is on the disk before the caller is told; a batch is accepted row by row, one bad row loses no other.
//! - K3  A row keeps the highest (generation, version) it has seen; an older story changes nothing. `sent` is final; `cancelled` and
//!   `suppressed` yield to `sent` alone.
//! - K4  `sent` of an earlier generation still counts while the newer one has not been staged: the replay is withdrawn.
//! - K5  An operator's verb is a row before it is a transition, applied at most once, and closed as applied by whoever swapped it.
//! - K6  A day's figures are each counted on their own: accepted from the door's log, the others from rows.
//! - K7  The audit trail is appended to, never changed, and a change is found (`verify`).
//!
//! Schedules have promises of their own: S1 to S6 in `schedules.rs`.
//!
//! Imports `domain` (and `store`, in `sql` for SQLite and `postgres`). Read `port.rs` next, then `judge/story.rs`.

pub mod conformance;
mod error;
pub mod forms;
pub mod judge;
pub mod paging;
mod port;
pub mod postgres;
mod recovery;
mod registry;
mod schedules;
pub mod sql;
pub mod trail;
mod unreadable;
mod view;

pub use error::BookError;
pub use port::{
    Accepted, AuditEntry, Book, BookState, Door, Evidence, EvidenceSource, EvidenceTaken, Fate, Filter, Mark, OpenVerb, OpenedVerb, Page, Planned,
    Story, Told, VerbEnd, VerbRequest,
};
pub use recovery::{Recovery, VerbSeen, WrittenBy};
pub use registry::{BEAT_EVERY, Drain, Enrolled, Enrolment, Orders, REMEMBERED, Registry, SILENT_AFTER, Standing};
pub use schedules::{
    Batch, ChangeRequest, Changed, Definition, Due, LATE_AFTER_MS, Materialised, PutSchedule, Run, ScheduleRow, ScheduledBook, Schedules, SlotJobs,
    SlotState, aad,
};
pub use view::{Day, DayCount, HoldRow, JobView, Load, Row, SuppressionRow};
