//! When a schedule's jobs run: a rule on the civil calendar, a business calendar, a window, and the one resolver of local times.
//!
//! Promises
//! - R1  A pattern is matched on the civil calendar, without any offset; only then does a local time become an instant.
//! - R2  A local time means the earliest instant at which the customer's wall clock reads that time or later; release and deadline alike.
//! - R3  Occurrences come in the order of their instants, each later than the one before; two on one instant are one, named by the earlier date.
//! - R4  A search ends: what finds nothing for `limits::QUIET_YEARS` has no more occurrences.
//! - R5  A business date is nominal: before it is rolled, and wherever a gap moves the send to.
//!
//! Not promised: anything about a zone's law. `WallClock` says what a zone's clock reads; `content` has the data.
//!
//! Read `wall_clock.rs` first, then `cron.rs`, `pattern.rs`, `rule.rs` and `slots.rs`; for a schedule's life `plan.rs` and `change.rs`.

pub mod business;
pub mod change;
pub mod civil;
pub mod cron;
pub mod limits;
pub mod occurrence;
pub mod pattern;
pub mod plan;
pub mod refused;
pub mod rrule;
pub mod rule;
pub mod slots;
pub mod spread;
pub mod timetable;
pub mod wall_clock;

pub use business::{Calendar, Roll};
pub use change::{Change, Fate, Phase, Progress, Whereabouts, fate};
pub use civil::{Date, Local, Month, TimeOfDay, Weekday};
pub use cron::{Class, Cron};
pub use occurrence::{Deadline, Occurrence, Verdict, Why, window};
pub use pattern::{Direction, Pattern};
pub use plan::{Ask, CatchUp, Plan, Skip, Slot, SlotName, What, plan};
pub use refused::Refused;
pub use rrule::Rrule;
pub use rule::{Range, Recurrence};
pub use slots::Slots;
pub use spread::spread;
pub use timetable::{Timetable, Written};
pub use wall_clock::{Dst, Gap, Overlap, Reading, Span, WallClock};
