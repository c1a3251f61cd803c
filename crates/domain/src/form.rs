//! Stored and sent forms: MessagePack maps with named fields and a format number.
//!
//! A reader takes its own format and the one before, keeps the fields it doesn't know, and leaves newer forms alone. A writer stays on the
//! older format until every registered process reads the new one ([`written`]).
//!
//! With the feature `next-format` this is the next release: its format is one higher, and record, wake-up and the book's forms have a field
//! more, `next`. What is raised one day is raised as it is there.

use std::sync::atomic::{AtomicU16, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The newest format that this build reads, and the one it writes as soon as it may.
#[cfg(not(feature = "next-format"))]
pub const FORMAT: u16 = 1;
/// The newest format that this build reads, and the one it writes as soon as it may.
#[cfg(feature = "next-format")]
pub const FORMAT: u16 = 2;
/// The oldest format this build reads, and writes for the sake of others.
pub const FORMAT_OLDEST: u16 = FORMAT - 1;

/// The one setting of this crate: which of its two formats the process writes. It isn't handed down, because every form of a process is
/// written in the same one, wherever that is; no decision rests on it.
static WRITTEN: AtomicU16 = AtomicU16::new(FORMAT);

/// The format in which this process writes: its own, unless [`write_in`] said otherwise.
pub fn written() -> u16 {
    WRITTEN.load(Ordering::Relaxed)
}

/// Lets this process write in the newest of its two formats that isn't above `readable`, the newest that every process of its fleet reads.
/// Which one that is. Only the process itself calls this, at its start and with each heartbeat.
pub fn write_in(readable: u16) -> u16 {
    let format = readable.clamp(FORMAT_OLDEST, FORMAT);
    WRITTEN.store(format, Ordering::Relaxed);
    format
}

/// How deep a field that we don't know may nest; deeper bytes are malformed, for a reader's stack has an end.
const DEPTH_MAX: usize = 64;

/// Why bytes can't be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// Not a form of ours.
    #[error("the bytes are no form that Curfew writes")]
    Malformed,
    /// Written by a newer process: not ours to touch.
    #[error("format {0} is newer than this process reads")]
    Newer(u16),
}

/// The bytes of a form.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("our own types always serialise")
}

/// Reads a form.
///
/// # Errors
/// `Newer` where its format number is above ours, `Malformed` for anything else that doesn't fit.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormError> {
    match peek_format(bytes) {
        Some(n) if n > FORMAT => Err(FormError::Newer(n)),
        Some(_readable) => {
            let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
            reader.set_max_depth(DEPTH_MAX);
            T::deserialize(&mut reader).map_err(|_misfit| FormError::Malformed)
        }
        None => Err(FormError::Malformed),
    }
}

/// Whether a form is one that only a newer process reads.
pub fn is_newer(bytes: &[u8]) -> bool {
    peek_format(bytes).is_some_and(|format| format > FORMAT)
}

/// The format number: the first field of every form, so that it is read without reading the rest.
fn peek_format(bytes: &[u8]) -> Option<u16> {
    let rest = match bytes {
        [0x80..=0x8f, rest @ ..] | [0xde, _, _, rest @ ..] | [0xdf, _, _, _, _, rest @ ..] => rest,
        _no_map => return None,
    };
    match rest.strip_prefix(b"\xa6format")? {
        [n @ 0x00..=0x7f, ..] | [0xcc, n, ..] => Some(u16::from(*n)),
        [0xcd, high, low, ..] => Some(u16::from_be_bytes([*high, *low])),
        _no_format => None,
    }
}
