//! The way to the provider: a message is handed over once, and what became of it is known or said to be unknown.
//!
//! Promises (proved by `conformance`, for every adapter)
//! - T1  `prepare` hands nothing over, and `abandon` or a drop after it leaves nothing accepted.
//! - T2  `Stop` at the last look leaves nothing accepted: no byte of the end marker leaves, the connection is destroyed.
//! - T3  `Accepted` is answered only with a receipt that the provider gave for this very message.
//! - T4  A dropped `hand_off` never lets a later reply be read as another mail's, and its stage says whether it may have been accepted.
//! - T5  Every phase ends within its bound, whatever the other side does; `attempt_max` is their sum.
//! - T6  The last look is asked exactly once per handoff that wrote its content, before the step that could make the provider accept.
//!
//! Not promised: what a provider did with a message it never answered for. That is `Unknown`, and goes to a person.
//!
//! Read `port.rs` first, then `smtp/mod.rs` and `classify.rs`.

mod capture;
pub mod classify;
pub mod conformance;
mod error;
pub mod message;
mod port;
pub mod smtp;

pub use capture::CaptureTransport;
pub use error::{Remedy, TransportError};
pub use port::{Acceptance, Bounds, Desync, HandOff, HandOffProgress, HandOffStage, LOOK_MAX, LastLook, Look, OnDesync, Parcel, Prepared, Transport};
