//! The name of one rehearsal, and of all that it makes on a fleet's servers.

use std::str::FromStr;

/// Long enough that two never meet.
const BYTES: usize = 6;

/// Twelve hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RehearsalId(String);

impl RehearsalId {
    /// One that nobody had.
    pub fn random() -> Self {
        Self(hex::encode(rand::random::<[u8; BYTES]>()))
    }

    /// The digits; in the broker's names too.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The book's schema.
    pub fn schema(&self) -> String {
        format!("curfew_rehearsal_{}", self.0)
    }

    /// In front of the ledger's keys.
    pub fn prefix(&self) -> String {
        format!("curfew:rehearsal:{}", self.0)
    }

    /// The ledger's keys, for people.
    pub fn keys(&self) -> String {
        format!("keys {}:*", self.prefix())
    }

    /// The broker's queues and exchanges, for people.
    pub fn queues(&self) -> String {
        format!("queues and exchanges curfew.rehearsal.{}.*", self.0)
    }

    /// All of it, for people.
    pub fn place(&self) -> String {
        format!("schema {}, {}, {}", self.schema(), self.keys(), self.queues())
    }
}

impl FromStr for RehearsalId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_id = text.len() == BYTES * 2 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if is_id { Ok(Self(text.to_owned())) } else { Err("12 hexadecimal digits".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rehearsals_names_are_none_of_a_fleets() {
        let id: RehearsalId = "0a1b2c3d4e5f".parse().expect("an id");
        assert_eq!((id.schema().as_str(), id.prefix().as_str()), ("curfew_rehearsal_0a1b2c3d4e5f", "curfew:rehearsal:0a1b2c3d4e5f"));
        assert_ne!(RehearsalId::random(), RehearsalId::random());
        for wrong in ["", "0a1b2c3d4e5", "0A1B2C3D4E5F", "0a1b2c3d4e5*"] {
            assert!(wrong.parse::<RehearsalId>().is_err(), "{wrong}");
        }
    }
}
