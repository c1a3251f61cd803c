//! The idempotency key: the stable name of one business action. The attempt is never part of it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{KEY_BYTES_MAX, KEY_PART_BYTES_MAX};

/// `tenant/purpose/subject_ref/business_date`, or a given key that starts with `tenant/`.
///
/// 1 to 256 of letters, digits, `._:-` and `/`. It holds opaque references, never an address: `@` is outside its alphabet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<str>);

/// Why a text is no key, or no part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// Nothing there.
    #[error("is empty")]
    Empty,
    /// More than 64 characters in a part, or more than 256 in a key.
    #[error("is longer than {0} characters")]
    TooLong(usize),
    /// A character outside the alphabet; `@` gets this too.
    #[error("has the character {0:?}; allowed are letters, digits and . _ : -")]
    Character(char),
    /// A key that doesn't begin with its tenant and a slash.
    #[error("does not start with the tenant and a slash")]
    OtherTenant,
}

impl Key {
    /// The key of four checked parts.
    ///
    /// # Errors
    /// The part's name and what is wrong with it.
    pub fn from_parts(tenant: &str, purpose: &str, subject_ref: &str, business_date: &str) -> Result<Self, (&'static str, KeyError)> {
        for (name, part) in [("tenant", tenant), ("purpose", purpose), ("subject_ref", subject_ref), ("business_date", business_date)] {
            check_part(part).map_err(|e| (name, e))?;
        }
        Ok(Self(format!("{tenant}/{purpose}/{subject_ref}/{business_date}").into()))
    }

    /// A key that the submitter chose.
    ///
    /// # Errors
    /// `KeyError`, where it is empty, too long, has another character, or belongs to another tenant.
    pub fn given(tenant: &str, key: &str) -> Result<Self, KeyError> {
        let parsed = Self::parse(key)?;
        match key.strip_prefix(tenant).and_then(|rest| rest.strip_prefix('/')) {
            Some(rest) if !rest.is_empty() => Ok(parsed),
            _ => Err(KeyError::OtherTenant),
        }
    }

    /// Any well-formed key, as a message or a path brings it.
    ///
    /// # Errors
    /// `KeyError`, but never `OtherTenant`.
    pub fn parse(key: &str) -> Result<Self, KeyError> {
        check(key, KEY_BYTES_MAX, true)?;
        Ok(Self(key.into()))
    }

    /// The tenant: what stands before the first slash.
    pub fn tenant(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks one part of a key: 1 to 64 of letters, digits and `._:-`.
///
/// # Errors
/// `KeyError`, where it isn't.
pub fn check_part(part: &str) -> Result<(), KeyError> {
    check(part, KEY_PART_BYTES_MAX, false)
}

fn check(text: &str, bytes_max: usize, slashes: bool) -> Result<(), KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty);
    }
    if let Some(other) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || "._:-".contains(*c) || slashes && *c == '/')) {
        return Err(KeyError::Character(other));
    }
    if text.len() > bytes_max {
        return Err(KeyError::TooLong(bytes_max));
    }
    Ok(())
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_no_address() {
        assert_eq!(Key::from_parts("acme", "daily", "ada@example.com", "2026-12-01"), Err(("subject_ref", KeyError::Character('@'))));
        assert_eq!(Key::given("acme", "acme/ada@example.com"), Err(KeyError::Character('@')));
    }

    #[test]
    fn a_given_key_starts_with_its_tenant() {
        assert!(Key::given("acme", "acme/x/1").is_ok());
        assert_eq!(Key::given("acme", "acmes/x"), Err(KeyError::OtherTenant));
        assert_eq!(Key::given("acme", "acme/"), Err(KeyError::OtherTenant));
    }
}
