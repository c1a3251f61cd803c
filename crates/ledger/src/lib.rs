//! The ledger knows who may send now, and who already did: a compare-and-swap store of records.
//!
//! Promises (proved by `conformance`, for every adapter)
//! - L1  Of all callers that create one (key, generation), one creates it; the others get what stands there.
//! - L2  A swap succeeds only against the (generation, version) it names; repeating a swap that succeeded is the same as once.
//! - L3  A record that owes something has exactly one timer; a `scheduled` one stands besides in its tenant's line.
//! - L4  No live record expires; a tombstone stands for 48 h.
//! - L5  A create is refused where its book read is older than 60 s, over a higher generation, and over an earlier generation that
//!   isn't a recorded dead letter.
//! - L6  Guards are judged by the ledger's own clock and sets, in the same step as the write.
//! - L7  Lines are served round robin over tenants.
//! - L8  An intent and an operator's verb are on the disk before their swap is answered.
//!
//! Not promised: what a mail server did with a message it never answered for. See `domain::outcome`.
//!
//! Imports `domain` (and `store`, in `sql`; the Redis client stays in `redis`). Read `domain::record` first, then `port.rs`.

pub mod clock;
pub mod conformance;
mod error;
pub mod lead;
mod port;
mod recovery;
pub mod redis;
pub mod sql;

pub use error::LedgerError;
pub use port::{
    Agenda, Beat, Create, Created, Durable, Entry, Hold, Holds, Ledger, LineEntry, Suppression, Swap, Swapped, TimerEntry, Walk, Walked,
    live_of_shards, permits_kept,
};
pub use recovery::{Adopted, HEARD_KEPT, Meta, Recoverable, Survivor};
