//! A wake-up: what the broker carries. Never the truth; whoever gets one asks the ledger (DESIGN 3.4).

use serde::{Deserialize, Serialize};

use crate::form::{self, FormError};
use crate::{Key, Record, Shard};

/// Format, shard, key, generation, version: no address, no content, under 512 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WakeUp {
    /// The form's number, for readers.
    pub format: u16,
    /// The ready queue it is for.
    pub shard: Shard,
    /// The job's key.
    pub key: Key,
    /// The generation that was released.
    pub generation: u32,
    /// The version that the release makes: the one read, plus one.
    pub version: u64,
    /// When the job is due, in milliseconds: lets a worker see an early arrival without a look.
    pub due_ms: i64,
    /// Whether its record has ever been written in the next format; not said in an older one.
    #[cfg(feature = "next-format")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<bool>,
}

impl WakeUp {
    /// What the release of this version of a record sends, in the format that this process writes.
    pub fn of(record: &Record) -> Self {
        Self {
            format: form::written(),
            shard: record.shard,
            key: record.key.clone(),
            generation: record.generation,
            version: record.version + 1,
            due_ms: record.due().as_millis(),
            #[cfg(feature = "next-format")]
            next: (form::written() == form::FORMAT).then_some(record.kept.next > 0),
        }
    }

    /// The bytes to publish.
    pub fn encode(&self) -> Vec<u8> {
        form::encode(self)
    }

    /// Reads a body. A key that no door of ours gave out is no wake-up of ours: it could hold an address, and it would be logged.
    ///
    /// # Errors
    /// `FormError`: what can't be read (`malformed_message`), and what a newer process wrote (leave it alone).
    pub fn decode(body: &[u8]) -> Result<Self, FormError> {
        let wake_up: Self = form::decode(body)?;
        match Key::parse(wake_up.key.as_str()) {
            Ok(_well_formed) => Ok(wake_up),
            Err(_address_or_noise) => Err(FormError::Malformed),
        }
    }
}
