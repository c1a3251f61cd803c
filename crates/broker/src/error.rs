//! What a caller can do about a broker's failure.

/// Errors of every adapter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// Not connected, or the connection is gone: try again later.
    #[error("the broker is unreachable: {0}")]
    Unreachable(String),
    /// Connected, but it takes no publishes at the moment.
    #[error("the broker is blocked: {0}")]
    Blocked(String),
    /// The stream of deliveries ended though nobody cancelled it.
    #[error("the consumer ended")]
    ConsumerEnded,
    /// The topology there isn't ours.
    #[error("topology: {0}")]
    Topology(String),
    /// What it was started with makes no sense.
    #[error("broker settings: {0}")]
    Settings(String),
}
