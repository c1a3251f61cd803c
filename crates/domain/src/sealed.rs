//! Sealing: what names or speaks to a person rests as XChaCha20-Poly1305, key id in front, the job's id as AAD (DESIGN 9).
//!
//! A sealed value has no `Display`, and its `Debug` is redacted. The nonce comes in from outside: this crate draws no randomness.

use std::collections::BTreeMap;
use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Bytes nobody reads without the keyring: key id length, key id, 24-byte nonce, ciphertext with tag.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(#[serde(with = "bytes")] Vec<u8>);

/// A plaintext on its way in or out. No `Display`; `Debug` shows its length.
#[derive(Clone, PartialEq, Eq)]
pub struct Plain(pub Vec<u8>);

/// Why something can't be opened or a keyring can't be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// No key of that id in the keyring.
    #[error("sealed under a key that is not configured")]
    UnknownKey,
    /// Cut short, changed, or sealed for another job.
    #[error("the sealed bytes are not what was sealed for this job")]
    Broken,
    /// A key that isn't 32 bytes, or an id that isn't 1 to 32 of letters, digits, `_` and `-`.
    #[error("a key is not 32 bytes, or its id is not 1 to 32 letters, digits, _ and -")]
    BadKey,
}

/// Sealing keys by id, the one in use, and the reference key for recipients.
#[derive(Clone)]
pub struct Keyring {
    keys: BTreeMap<String, [u8; 32]>,
    current: String,
    reference: [u8; 32],
}

/// A recipient's reference: a keyed hash of the normal form of its address, as 32 hex digits. Safe to list, useless to guess from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct RecipientRef(pub String);

impl Keyring {
    /// A keyring of 32-byte keys; `current` seals, all open.
    ///
    /// # Errors
    /// `BadKey` for an id out of form or a `current` that isn't among the keys.
    pub fn new(keys: BTreeMap<String, [u8; 32]>, current: &str, reference: [u8; 32]) -> Result<Self, SealError> {
        let well_formed = |id: &String| (1..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !keys.contains_key(current) || !keys.keys().all(well_formed) {
            return Err(SealError::BadKey);
        }
        Ok(Self { keys, current: current.to_owned(), reference })
    }

    /// Seals under the current key. `nonce` must be random and never used twice; 24 bytes make chance enough.
    pub fn seal(&self, nonce: [u8; 24], aad: &[u8], plain: &[u8]) -> Sealed {
        let key = &self.keys[&self.current];
        let cipher = XChaCha20Poly1305::new(key.into());
        let body = cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad }).expect("XChaCha20-Poly1305 seals anything under 256 GiB");
        let mut out = Vec::with_capacity(1 + self.current.len() + 24 + body.len());
        out.push(self.current.len() as u8);
        out.extend_from_slice(self.current.as_bytes());
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&body);
        Sealed(out)
    }

    /// Opens what was sealed with the same AAD.
    ///
    /// # Errors
    /// `UnknownKey`, `Broken`.
    pub fn open(&self, aad: &[u8], sealed: &Sealed) -> Result<Plain, SealError> {
        let (id, rest) = sealed.split().ok_or(SealError::Broken)?;
        let key = std::str::from_utf8(id).ok().and_then(|id| self.keys.get(id)).ok_or(SealError::UnknownKey)?;
        let (nonce, body) = rest.split_first_chunk::<24>().ok_or(SealError::Broken)?;
        let cipher = XChaCha20Poly1305::new(key.into());
        cipher.decrypt(&XNonce::from(*nonce), Payload { msg: body, aad }).map(Plain).map_err(|_mac| SealError::Broken)
    }

    /// The reference of an address in its normal form (local part as given, domain as lower-case A-labels).
    pub fn recipient_ref(&self, normal_address: &str) -> RecipientRef {
        RecipientRef(hex(&self.keyed_hash(b"recipient", normal_address.as_bytes())[..16]))
    }

    /// A keyed hash for comparing contents without keeping them.
    pub fn keyed_hash(&self, purpose: &[u8], data: &[u8]) -> [u8; 32] {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.reference).expect("HMAC takes a key of any length");
        mac.update(purpose);
        mac.update(&[0]);
        mac.update(data);
        mac.finalize().into_bytes().into()
    }

    /// The ids of the keys, for `curfew check`; never the keys.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }
}

impl Sealed {
    /// The stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From its stored form; what isn't one fails to open.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    fn split(&self) -> Option<(&[u8], &[u8])> {
        let (len, rest) = self.0.split_first()?;
        rest.split_at_checked(usize::from(*len))
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plain({} bytes)", self.0.len())
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({} keys)", self.keys.len())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut s, b| {
        use fmt::Write;
        let _infallible = write!(s, "{b:02x}");
        s
    })
}

/// Byte strings as MessagePack `bin`, not as arrays of numbers.
mod bytes {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: Error>(self, v: &[u8]) -> Result<Vec<u8>, E> {
                Ok(v.to_vec())
            }
            fn visit_byte_buf<E: Error>(self, v: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(v)
            }
        }
        d.deserialize_byte_buf(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Keyring {
        Keyring::new(BTreeMap::from([("k1".into(), [7; 32])]), "k1", [9; 32]).expect("well formed")
    }

    #[test]
    fn what_is_sealed_for_one_job_opens_for_no_other() {
        let sealed = ring().seal([1; 24], b"job-1", b"ada@example.com");
        assert_eq!(ring().open(b"job-1", &sealed).map(|p| p.0), Ok(b"ada@example.com".to_vec()));
        assert_eq!(ring().open(b"job-2", &sealed), Err(SealError::Broken));
        assert!(!format!("{sealed:?} {:?}", ring().open(b"job-1", &sealed)).contains("ada"));
    }

    #[test]
    fn a_cut_or_foreign_value_is_an_error_not_a_panic() {
        let sealed = ring().seal([1; 24], b"j", b"x");
        for n in 0..sealed.as_bytes().len() {
            assert!(ring().open(b"j", &Sealed::from_bytes(sealed.as_bytes()[..n].to_vec())).is_err());
        }
        let other = Keyring::new(BTreeMap::from([("k2".into(), [7; 32])]), "k2", [9; 32]).expect("well formed");
        assert_eq!(other.open(b"j", &sealed), Err(SealError::UnknownKey));
    }
}
