//! What can be wrong with a transport's set-up. What happens to an attempt is an `Outcome`, never an error.

/// Errors at construction. None is worth a retry: a person has to change the set-up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A value out of its bounds.
    #[error("{field}: {problem}")]
    Config {
        /// The key, as it stands in the configuration.
        field: &'static str,
        /// What is wrong, with the bound.
        problem: String,
    },
    /// A file or folder that can't be used.
    #[error("{field}: {operation}: {source}")]
    File {
        /// The key that names it.
        field: &'static str,
        /// What was tried.
        operation: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// What the caller can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// The same call may succeed later.
    Retry,
    /// Somebody has to change something first.
    Stop,
    /// Nobody can say what was done.
    InDoubt,
}

impl TransportError {
    /// What the caller can do about it.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Config { .. } | Self::File { .. } => Remedy::Stop,
        }
    }
}
