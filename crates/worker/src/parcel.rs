//! From a sealed letter to the bytes that are handed over: opened, its artifacts read and hashed, built. All of it before any connection.

use std::sync::Arc;

use curfew_content::ArtifactError;
use curfew_domain::address;
use curfew_domain::job::{Attachment, Letter};
use curfew_domain::outcome::{Outcome, Stage};
use curfew_domain::sealed::{Keyring, Sealed};
use curfew_domain::{OutcomeClass, Reason, Record};
use curfew_transport::Parcel;
use curfew_transport::message::{Attached, Mailbox, MessageParts, ProviderKey, build};

use crate::lane::LaneSettings;

/// A parcel, and the hashes of its artifacts as read now.
pub(crate) struct Packed {
    pub(crate) parcel: Parcel,
    pub(crate) pins: Vec<String>,
}

impl Packed {
    /// The recipient's domain, as a keyed reference: it stands in holds, where nobody may read whom a customer writes to.
    pub(crate) fn domain(&self, keyring: &Keyring) -> Option<String> {
        let (_, domain) = self.parcel.to.rsplit_once('@')?;
        Some(keyring.recipient_ref(&format!("@{}", domain.to_ascii_lowercase())).0)
    }
}

/// Packs a claimed job's letter.
///
/// # Errors
/// An outcome of stage `artifact`: missing artifacts are transient, changed ones and what can't be built permanent, a key that is
/// missing from the keyring a matter of configuration.
pub(crate) async fn pack(
    record: &Record,
    letter: &Sealed,
    lane: &LaneSettings,
    keyring: &Keyring,
    artifacts: &curfew_content::Artifacts,
) -> Result<Packed, Outcome> {
    let plain = keyring.open(record.id.as_bytes(), letter).map_err(|e| configuration("letter-sealed", e.to_string()))?;
    let letter: Letter = rmp_serde::from_slice(&plain.0).map_err(|_form| permanent("letter-unreadable", "the letter can't be read"))?;
    let mut files = Vec::with_capacity(letter.attachments.len());
    let mut pins = Vec::with_capacity(letter.attachments.len());
    for (n, attachment) in letter.attachments.iter().enumerate() {
        let pinned = attachment.sha256.as_deref().or(record.pins.get(n).map(String::as_str));
        let artifact = artifacts.read(&attachment.uri, pinned).await.map_err(|e| artifact_outcome(attachment, &e))?;
        pins.push(artifact.sha256);
        files.push(artifact.bytes);
    }
    let parcel = parcel(record, &letter, &files, lane).map_err(|outcome| *outcome)?;
    Ok(Packed { parcel, pins })
}

fn parcel(record: &Record, letter: &Letter, files: &[Vec<u8>], lane: &LaneSettings) -> Result<Parcel, Box<Outcome>> {
    let to =
        address::check(&letter.to_address).map_err(|_fault| Box::new(permanent("recipient-malformed", "the recipient's address is no mailbox")))?;
    let from = address::check(&lane.from_address)
        .map_err(|_fault| Box::new(configuration("sender-malformed", "the transport's `from` is no mailbox".to_owned())))?;
    let key = provider_key(record);
    let attached: Vec<_> = letter.attachments.iter().zip(files).map(|(a, bytes)| Attached { name: &a.name, bytes }).collect();
    let built = build(&MessageParts {
        job_id: record.id,
        key: &record.key,
        content_revision: record.content_revision,
        release_at: record.release_at,
        from: Mailbox { name: lane.from_name.as_deref(), address: &from },
        to: Mailbox { name: letter.to_name.as_deref(), address: &to },
        subject: &letter.subject,
        text: letter.text.as_deref(),
        html: letter.html.as_deref(),
        list_unsubscribe: letter.list_unsubscribe.as_deref(),
        attachments: &attached,
        provider_key: lane.idempotency_header.as_deref().map(|header| ProviderKey { header, value: &key }),
    })
    .map_err(|e| Box::new(permanent("message-unbuildable", &e.to_string())))?;
    Ok(Parcel {
        job_id: record.id,
        generation: record.generation,
        dated: record.release_at,
        from: from.ascii(),
        to: to.ascii(),
        needs_smtputf8: built.needs_smtputf8,
        bytes: Arc::from(built.bytes),
        provider_key: lane.idempotency_header.is_some().then_some(key),
    })
}

/// The key under which the provider recognises a repetition: the job's, and from the first correction on its content's revision too. A
/// corrected letter under the old key would be answered as a duplicate and never leave.
fn provider_key(record: &Record) -> String {
    match record.content_revision {
        0 | 1 => record.key.as_str().to_owned(),
        revision => format!("{}/r{revision}", record.key),
    }
}

fn artifact_outcome(attachment: &Attachment, error: &ArtifactError) -> Outcome {
    let what = format!("{}: {error}", attachment.name);
    match error {
        ArtifactError::Mismatch { .. } => Outcome { cause: Some(Reason::ArtifactMismatch), ..permanent("artifact-mismatch", &what) },
        ArtifactError::Missing => {
            Outcome { cause: Some(Reason::ArtifactMissing), ..Outcome::new(OutcomeClass::Transient, Stage::Artifact, "artifact-missing", what) }
        }
        other => match other.remedy() {
            curfew_content::Remedy::Retry => {
                Outcome { cause: Some(Reason::ArtifactMissing), ..Outcome::new(OutcomeClass::Transient, Stage::Artifact, "artifact-missing", what) }
            }
            curfew_content::Remedy::Stop => permanent("artifact-refused", &what),
        },
    }
}

fn permanent(rule: &'static str, what: &str) -> Outcome {
    Outcome::new(OutcomeClass::Permanent, Stage::Artifact, rule, what)
}

fn configuration(rule: &'static str, what: String) -> Outcome {
    Outcome::new(OutcomeClass::Configuration, Stage::Artifact, rule, what)
}
