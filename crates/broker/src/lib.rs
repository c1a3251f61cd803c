//! The broker carries wake-ups from the scheduler to workers, and what fails to the dead-letter consumer. Never the truth.
//!
//! Promises (proved by `conformance`, for every adapter)
//! - B1  What was published to rung n and confirmed arrives 2^n s later, never earlier; to rung `Now`, at once.
//! - B2  Nothing waits behind a longer delay.
//! - B3  A delivery that is neither acked nor rejected is delivered again once its consumer is gone.
//! - B4  A rejected delivery reaches the dead-letter queue.
//! - B5  The end of a consumer's stream is a failure that the caller sees.
//!
//! Not promised: that nothing is lost or repeated. The ledger heals both.
//!
//! Imports `domain` only. Read `topology.rs` next, then `in_process.rs`, then `rabbit/mod.rs`.

pub mod conformance;
mod error;
pub mod in_process;
mod port;
pub mod rabbit;
pub mod topology;

pub use error::BrokerError;
pub use port::{Broker, Consumer, Delivery, DeliveryId, Depths, Published, QueueState, Rung};
