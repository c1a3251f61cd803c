//! What can be wrong with content, by what the caller can do about it. No error repeats what it refuses.

use std::path::PathBuf;

/// What a caller does about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// The same call may succeed later.
    Retry,
    /// It fails the same way until somebody changes something.
    Stop,
}

/// A field of a submitted job that is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct ContentError {
    /// The field as the submitter writes it, for instance `content.params.plan`.
    pub field: String,
    /// Why, without the value.
    pub reason: String,
}

impl ContentError {
    /// A refusal of `field`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// A folder of templates that can't be used; the process doesn't start with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A file or folder couldn't be read.
    #[error("can't read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A folder or a file that is no template.
    #[error("{path}: {reason}")]
    Broken {
        /// Which.
        path: PathBuf,
        /// What is wrong, and what is allowed.
        reason: String,
    },
}

impl TemplateError {
    /// A file is mended by a person.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Read { .. } | Self::Broken { .. } => Remedy::Stop,
        }
    }
}

/// An artifact that can't be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// Refused at the door: not under an allowed root, or no URI of ours.
    #[error("{0}")]
    Forbidden(&'static str),
    /// Nothing there (yet): transient, and ends as `artifact_missing`.
    #[error("the artifact is not there")]
    Missing,
    /// There, and unreadable: transient, and ends as `artifact_missing`.
    #[error("the artifact can't be read: {0}")]
    Unreadable(std::io::ErrorKind),
    /// Its bytes are not those that were pinned: ends as `artifact_mismatch`.
    #[error("the artifact's SHA-256 is {found}, not the pinned one")]
    Mismatch {
        /// What the bytes hash to, lower-case hex.
        found: String,
    },
    /// More bytes than a mail may carry.
    #[error("the artifact is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// A root in the configuration that is none.
    #[error("artifacts.roots: {0}")]
    Root(&'static str),
}

impl ArtifactError {
    /// Whether a later attempt may find it mended by itself.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Missing | Self::Unreadable(_) => Remedy::Retry,
            Self::Forbidden(_) | Self::Mismatch { .. } | Self::TooLarge { .. } | Self::Root(_) => Remedy::Stop,
        }
    }
}

/// A zone or a local time that means no instant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZoneError {
    /// No such zone in the data.
    #[error("unknown zone{}", offered(.nearest))]
    Unknown {
        /// The nearest known names, nearest first.
        nearest: Vec<String>,
    },
    /// Not `YYYY-MM-DDTHH:MM[:SS[.fff]]`, or no such day or time.
    #[error("a local time is YYYY-MM-DDTHH:MM:SS, from year 1900 to 9998")]
    LocalTime,
    /// The zone's data can't be read.
    #[error("the zone's data are damaged")]
    Data,
}

impl ZoneError {
    /// Zones don't mend by themselves.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unknown { .. } | Self::LocalTime | Self::Data => Remedy::Stop,
        }
    }
}

fn offered(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; the nearest known: {}", names.join(", ")) }
}
