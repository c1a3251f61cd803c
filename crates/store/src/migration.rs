//! Migrations: numbered texts of the crates that own tables, each applied once.
//!
//! In a fleet the old and the new processes run side by side: a migration expands (adds tables, columns with a default, indexes), and what
//! nothing reads any more is dropped by a later one, of the release after (`book/0007_contract_…`).

use sha2::{Digest, Sha256};

use crate::StoreError;

/// One step of a schema, in SQL: `Migration { name: "book/0001_jobs", sql: include_str!("migrations/0001_jobs.sql") }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Unique over all crates, so it starts with its own crate's noun. Never reused.
    pub name: &'static str,
    /// Any statements that may stand in a transaction (no BEGIN, COMMIT, VACUUM). Never changed once released.
    pub sql: &'static str,
}

impl Migration {
    pub(crate) fn sha256(&self) -> Vec<u8> {
        Sha256::digest(self.sql.as_bytes()).to_vec()
    }

    /// Whether it is applied, by the digest found under its name.
    pub(crate) fn is_applied(&self, found: Option<&[u8]>) -> Result<bool, StoreError> {
        match found {
            None => Ok(false),
            Some(sha256) if sha256 == self.sha256() => Ok(true),
            Some(_) => Err(self.error("another text was applied under this name; was a released migration edited?")),
        }
    }

    pub(crate) fn error(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Migrate { name: self.name.to_owned(), reason: reason.into() }
    }
}
