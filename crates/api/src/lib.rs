//! The API: the door through which jobs come in, and what operators and providers ask over HTTP.
//!
//! Promises
//! - A1  A job that the door accepts is whole: each refusal names its field, and one bad line of an import stops no other.
//! - A2  A caller is told "accepted" after the book has committed, never before. Submitting again is safe.
//! - A3  No answer but an operator's audited preview holds an address or a body; no error repeats what it refuses.
//! - A4  Without operators only this machine speaks to it, and no web page through a browser; with operators nobody without a token.
//! - A5  An event without a valid signature changes nothing.
//!
//! Not promised: an order among the jobs of one import, or that a job accepted twice under two keys is found out.
//!
//! Uses the ports `ledger`, `book`, `review`, and `courier`, `content`, `telemetry`. Read `api.rs`, then `door/mod.rs`, then `routes/mod.rs`.

mod api;
mod auth;
mod console;
mod door;
mod extract;
mod fields;
mod free_text;
mod json;
pub mod limits;
mod nearest;
mod openapi;
mod problem;
mod routes;
mod serve;
mod signature;
mod view;

pub use api::{Api, FleetInfo, MessageIdOf, Ready};
pub use auth::{ListenRefused, Operator, may_listen};
pub use door::{AdmittedSchedule, Door, Known, LineError, OpenSchedule, SlotWindow, Summary, TenantDefaults};
pub use openapi::document;
pub use problem::{FieldError, Problem};
pub use routes::router;
pub use serve::{Probes, serve, serve_probes};
pub use signature::sign;
pub use view::{ItemBody, JobBody};
