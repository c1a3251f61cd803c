//! Sealing at the door: ids, the letter, the recipient's reference, and fingerprints of what was said.

use std::sync::{Mutex, PoisonError};

use curfew_domain::job::{Job, Letter};
use curfew_domain::sealed::{Keyring, Sealed};
use curfew_domain::{JobId, Moment, Shard};
use uuid::{ContextV7, Timestamp, Uuid};

use super::Door;
use super::judge::Judged;

/// Bytes of a fingerprint: two contents of one key are told apart, nothing is guessed back.
const FINGERPRINT_BYTES: usize = 12;

/// Draws job ids: UUIDv7 by the ledger's clock, rising within one process.
pub struct Ids(Mutex<ContextV7>);

impl Default for Ids {
    fn default() -> Self {
        Self(Mutex::new(ContextV7::new()))
    }
}

impl Ids {
    /// The next id.
    pub fn next(&self, now: Moment) -> JobId {
        let context = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ms = u64::try_from(now.as_millis()).unwrap_or(0);
        JobId(Uuid::new_v7(Timestamp::from_unix(&*context, ms / 1000, (ms % 1000) as u32 * 1_000_000)))
    }
}

/// A letter as it rests: MessagePack with named fields, sealed for its job.
pub fn seal_letter(keyring: &Keyring, id: JobId, letter: &Letter) -> Sealed {
    keyring.seal(rand::random(), id.as_bytes(), &curfew_domain::form::encode(letter))
}

/// The letter of a job; `None` where it was deleted, or sealed under a key that is no longer configured.
pub fn open_letter(keyring: &Keyring, id: JobId, sealed: &Sealed) -> Option<Letter> {
    let plain = keyring.open(id.as_bytes(), sealed).ok()?;
    rmp_serde::from_slice(&plain.0).ok()
}

pub(super) fn seal(door: &Door, job: Judged, id: JobId, now: Moment) -> Job {
    let keyring = &door.keyring;
    let fingerprint = |field: &str, value: &str| {
        let data = [job.key.as_str().as_bytes(), &[0], value.as_bytes()].concat();
        hex::encode(&keyring.keyed_hash(field.as_bytes(), &data)[..FINGERPRINT_BYTES])
    };
    let fingerprints = job.said.iter().map(|(field, value)| (field.clone(), fingerprint(field, value))).collect();
    Job {
        id,
        shard: Shard::of_tenant(&job.tenant, door.shards),
        recipient_ref: keyring.recipient_ref(&job.address.folded()),
        recipient_masked: job.address.masked(),
        letter: seal_letter(keyring, id, &job.letter),
        content_revision: 1,
        fingerprints,
        key: job.key,
        tenant: job.tenant,
        purpose: job.purpose,
        subject_ref: job.subject_ref,
        business_date: job.business_date,
        release_at: job.release_at,
        deadline_at: job.deadline_at,
        local: job.local,
        policy: job.policy,
        transport: job.transport,
        labels: job.labels,
        accepted_at: now,
        trace: None,
    }
}
