//! The door: a submitted line becomes a sealed job, or refusals that name their fields.
//!
//! `parse` reads the form, `judge` the meaning, `seal` closes what names a person; `accept` brings batches to the book, and `import` reads
//! a stream of lines. Nothing here looks at a file or a network but the book.

mod accept;
mod batch;
mod import;
mod judge;
mod parse;
mod schedule;
mod seal;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use curfew_content::{Artifacts, Templates, Zones};
use curfew_domain::job::Job;
use curfew_domain::sealed::Keyring;
use curfew_domain::{JobId, Moment};

use crate::json;
use crate::problem::FieldError;

pub use accept::{Answer, LineError, Summary, accept_one, dry_run_one};
pub use import::{Import, import};
pub(crate) use judge::attachment;
pub use schedule::{AdmittedSchedule, OpenSchedule, SlotWindow};
pub(crate) use schedule::{Private, spread_text};
pub use seal::{Ids, open_letter, seal_letter};

/// What the door knows by name.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Policies of the configuration.
    pub policies: BTreeSet<String>,
    /// Transports of the configuration.
    pub transports: BTreeSet<String>,
    /// What a tenant's jobs get where they name nothing; `default` is for the unnamed.
    pub tenants: BTreeMap<String, TenantDefaults>,
}

/// A tenant's choices.
#[derive(Clone, Debug, Default)]
pub struct TenantDefaults {
    /// The policy of jobs that name none.
    pub policy: Option<String>,
    /// The transport of jobs that name none.
    pub transport: Option<String>,
}

impl Known {
    fn tenant(&self, tenant: &str) -> Option<&TenantDefaults> {
        self.tenants.get(tenant).or_else(|| self.tenants.get("default"))
    }

    fn policy_of(&self, tenant: &str) -> &str {
        self.tenant(tenant).and_then(|t| t.policy.as_deref()).unwrap_or("default")
    }

    fn transport_of(&self, tenant: &str) -> &str {
        self.tenant(tenant).and_then(|t| t.transport.as_deref()).unwrap_or("default")
    }
}

/// What judges and seals. Shared by every request.
pub struct Door {
    /// Seals letters, refers to recipients.
    pub keyring: Keyring,
    /// Templates by name and version.
    pub templates: Arc<Templates>,
    /// Allowed roots.
    pub artifacts: Arc<Artifacts>,
    /// The one resolver of local times.
    pub zones: Arc<Zones>,
    /// Policies, transports, tenants.
    pub known: Known,
    /// Shards of the fleet, 1 to 64.
    pub shards: u8,
    ids: Ids,
}

impl Door {
    /// A door.
    pub fn new(keyring: Keyring, templates: Arc<Templates>, artifacts: Arc<Artifacts>, zones: Arc<Zones>, known: Known, shards: u8) -> Self {
        Self { keyring, templates, artifacts, zones, known, shards, ids: Ids::default() }
    }

    /// One submitted line, judged and sealed. `zone` stands in where the line names none.
    ///
    /// # Errors
    /// Every fault found, the most telling first.
    pub fn admit(&self, line: &[u8], zone: Option<&str>, now: Moment) -> Result<Job, Vec<FieldError>> {
        let value = json::read(line).map_err(|e| vec![FieldError::new("line", e)])?;
        let submitted = parse::submitted(value)?;
        let judged = judge::judge(self, submitted, zone, now)?;
        Ok(seal::seal(self, judged, self.ids.next(now), now))
    }

    /// A job's sealed letter, opened.
    pub(crate) fn open(&self, job: &Job) -> Option<curfew_domain::job::Letter> {
        open_letter(&self.keyring, job.id, &job.letter)
    }

    /// A letter sealed anew for its job.
    pub(crate) fn reseal(&self, id: JobId, letter: &curfew_domain::job::Letter) -> curfew_domain::sealed::Sealed {
        seal_letter(&self.keyring, id, letter)
    }
}
