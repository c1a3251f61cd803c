//! The audit trail's chain: each entry's hash covers the entry and the hash before it (K7). The same in every store.

use curfew_domain::Moment;
use sha2::{Digest, Sha256};

use crate::AuditEntry;

/// What the first entry's hash covers as the hash before it.
pub const BEFORE_THE_FIRST: [u8; 32] = [0; 32];
/// The actor that isn't a person: what Curfew does by itself is no entry of the audit trail.
pub const CURFEW: &str = "curfew";

/// An entry to be written.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When, by the ledger's clock.
    pub at: Moment,
    /// Who.
    pub actor: &'a str,
    /// What.
    pub action: &'a str,
    /// On what: a key, an item's id, a transport; never an address.
    pub object: &'a str,
    /// Why.
    pub reason: &'a str,
    /// Arguments as JSON, without addresses.
    pub detail: &'a str,
}

/// SHA-256 over the hash before, the number, the time, and each text with its length in front: no two entries share bytes.
pub fn hash(before: &[u8], number: i64, entry: Entry<'_>) -> Vec<u8> {
    let mut sha = Sha256::new();
    sha.update(before);
    sha.update(number.to_be_bytes());
    sha.update(entry.at.as_millis().to_be_bytes());
    for text in [entry.actor, entry.action, entry.object, entry.reason, entry.detail] {
        sha.update((text.len() as u64).to_be_bytes());
        sha.update(text.as_bytes());
    }
    sha.finalize().to_vec()
}

/// Whether a hash that was written is the entry's, after that of the entry before.
pub fn follows(stands: &AuditEntry, before: &[u8], written: &[u8]) -> bool {
    let entry =
        Entry { at: stands.at, actor: &stands.actor, action: &stands.action, object: &stands.object, reason: &stands.reason, detail: &stands.detail };
    written == hash(before, stands.number.cast_signed(), entry)
}

/// A hold's object in the audit trail.
pub fn hold_object(kind: &str, name: &str) -> String {
    if name.is_empty() { kind.to_owned() } else { format!("{kind}/{name}") }
}
