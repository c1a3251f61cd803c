//! What is held against every byte that comes from outside: one function a target, which panics where a promise is broken.
//!
//! Promises
//! - Z1  Whatever the bytes are, the reader answers: a value or an error, no panic, no overflow, no endless work.
//! - Z2  What is read is written and read again as the same.
//! - Z3  An error names the field and the reason, is bounded, and repeats neither an address nor a body nor a secret.
//! - Z4  What is accepted keeps the promise of its part: an address is its own normal form's, a reply's class is in the table, a letter that
//!   the door takes can be written, a local time means the earliest instant.
//!
//! The fuzzer calls them with what it makes up, `tests/fuzz_corpus.rs` with what is committed under `corpus/`.

mod addresses;
mod bodies;
mod configuration;
mod forms;
mod house;
mod replies;
mod session;
mod submissions;
mod templates;
mod times;
mod told;

pub use addresses::address;
pub use bodies::http_body;
pub use configuration::config;
pub use forms::{record, row, wake_up};
pub use replies::smtp_reply;
pub use session::smtp_session;
pub use submissions::{csv, ndjson};
pub use templates::{template, template_params};
pub use times::time;

/// A target: what the fuzzer calls.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its folder in `corpus/` and of its file in `fuzz_targets/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("address", address),
    ("config", config),
    ("csv", csv),
    ("http_body", http_body),
    ("ndjson", ndjson),
    ("record", record),
    ("row", row),
    ("smtp_reply", smtp_reply),
    ("smtp_session", smtp_session),
    ("template", template),
    ("template_params", template_params),
    ("time", time),
    ("wake_up", wake_up),
];
