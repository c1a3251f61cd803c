//! A job as it was accepted at the door, and the letter it carries.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sealed::{RecipientRef, Sealed};
use crate::trace::TraceContext;
use crate::{JobId, Key, Moment, Shard};

/// One business email, accepted. What names or speaks to a person is in `letter`, sealed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Given at the door.
    pub id: JobId,
    /// The idempotency key.
    pub key: Key,
    /// Whose it is; the key's first part.
    pub tenant: String,
    /// What it is for, for instance `renewal-reminder`.
    pub purpose: String,
    /// The submitter's opaque reference.
    pub subject_ref: String,
    /// `YYYY-MM-DD`, or with a slot: nominal, in the customer's zone.
    pub business_date: String,
    /// The tenant's shard.
    pub shard: Shard,
    /// The recipient's keyed hash.
    pub recipient_ref: RecipientRef,
    /// The recipient as lists show it.
    pub recipient_masked: String,
    /// The sealed [`Letter`], AAD = the job's id.
    pub letter: Sealed,
    /// Rises with each `review correct`; 1 at first.
    pub content_revision: u32,
    /// Keyed hashes of the submitted fields by name, so that a conflict can name what differs without keeping it.
    pub fingerprints: BTreeMap<String, String>,
    /// No handoff before this.
    pub release_at: Moment,
    /// No automated handoff at or after this.
    pub deadline_at: Moment,
    /// The zone and local times as given, where they were local: resolved again when zone data change.
    pub local: Option<LocalTimes>,
    /// The policy's name.
    pub policy: String,
    /// The transport's name.
    pub transport: String,
    /// The submitter's labels.
    pub labels: BTreeMap<String, String>,
    /// When the door accepted it.
    pub accepted_at: Moment,
    /// Who asked for it, where somebody did in a trace. No part of what is compared when a key comes again.
    pub trace: Option<TraceContext>,
}

/// Local times as the submitter wrote them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalTimes {
    /// IANA zone name.
    pub zone: String,
    /// The release's wall-clock reading, where it was local.
    pub release: Option<String>,
    /// The deadline's wall-clock reading, where it was local.
    pub deadline: Option<String>,
}

/// What the recipient gets: rendered at the door, so that each attempt sends the same bytes. Only ever stored sealed.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    /// The envelope recipient as given, checked.
    pub to_address: String,
    /// The display name.
    pub to_name: Option<String>,
    /// The rendered subject.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML alternative.
    pub html: Option<String>,
    /// An https or mailto URI, where the template asks for List-Unsubscribe.
    #[serde(default)]
    pub list_unsubscribe: Option<String>,
    /// Attachments by reference.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// The template and its parameters (JSON), kept so that `review correct` can render anew.
    #[serde(default)]
    pub template: Option<TemplateUse>,
}

/// An attachment by reference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attachment {
    /// Where it is read from, for instance `file:reports/R-1042.pdf`, under an allowed root.
    pub uri: String,
    /// The file name that the recipient sees.
    pub name: String,
    /// The pinned SHA-256, lower-case hex; `None`: the first reading fixes it.
    pub sha256: Option<String>,
}

/// Which template made a letter, and from what.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct TemplateUse {
    /// `name@version`.
    pub template: String,
    /// The parameters, as JSON text.
    pub params: String,
}

impl std::fmt::Debug for Letter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Letter(redacted, {} attachments)", self.attachments.len())
    }
}

impl std::fmt::Debug for TemplateUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TemplateUse({})", self.template)
    }
}
