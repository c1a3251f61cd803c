//! deadletter
