//! What a letter says, what it carries, and what its local times mean.
//!
//! Promises
//! - C1  A parameter that is missing or unknown is refused at the door, by name; it is never an empty string in a mail.
//! - C2  What a version of a template says is fixed when it is loaded; nothing on disk changes a running process.
//! - C3  Nothing bound for a header holds CR, LF, NUL, another control or a line separator.
//! - C4  An artifact is read from under an allowed root or not at all, whatever links and dots say.
//! - C5  A local date and time means the earliest instant at which the customer's wall clock reads that time or later; everywhere.
//! - C6  No error repeats an address, a parameter's value or a body.
//!
//! Not promised: that a template reads well, or that a file stays what it was. A pinned SHA-256 tells.
//!
//! Imports `domain` only. Read `render.rs` first, then `template.rs`; `artifact.rs` and `zone.rs` stand alone.

pub mod artifact;
pub mod error;
pub mod header_text;
pub mod limits;
pub mod render;
pub mod template;
pub mod zone;

pub use artifact::{Artifact, Artifacts};
pub use error::{ArtifactError, ContentError, Remedy, TemplateError, ZoneError};
pub use render::{Inline, Rendered, check_inline, render};
pub use template::{Templates, Warning};
pub use zone::{ZoneClock, Zones};
