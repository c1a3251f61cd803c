//! The configuration: one TOML file, variables and flags in, typed and checked values out, before any connection.
//!
//! Promises
//! - K1  Flags rule over variables, variables over the file, the file over defaults; each value's origin is remembered.
//! - K2  An unknown key, a value out of its range and a missing service are one line each, naming file, key, value and what is
//!   allowed. All of them are told at once.
//! - K3  A secret is shown nowhere: not in `config show`, not in a fault, not in a `Debug`.
//!
//! Not promised: that a service answers. `curfew check` asks them. A relative path in the file starts at the file's folder where
//! something is there, else at the working directory.
//!
//! Read `settings.rs` first, then `schema.rs`.

mod error;
mod keys;
mod people;
mod policies;
mod reader;
mod rehearsal;
mod roles;
mod schema;
mod secret;
mod settings;
mod source;
mod stores;
mod transports;
pub mod units;

use reader::Reader;

pub use error::{Fault, Faults, Origin};
pub use keys::{KEYS_FILE, KeysError, load_or_create_keys, new_keys_table};
pub use people::{Operator, ROLES as OPERATOR_ROLES, Role, configuration_lines, new_token, token_hash};
pub use policies::{Tenant, Tenants};
pub use reader::Shown;
pub use rehearsal::RehearsalId;
pub use schema::closest;
pub use secret::Secret;
pub use settings::*;
pub use source::Sources;
pub use transports::{Auth, From, SmtpSettings, Timeouts, Tls, Transport, TransportKind};

impl Config {
    /// Reads, merges and checks everything.
    ///
    /// # Errors
    /// Every fault found; nothing was connected to.
    pub fn load(sources: &Sources, deployment: Deployment) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let given = source::gather(sources, &mut faults);
        let mut reader = Reader { given, faults, shown: Vec::new() };
        let (book, ledger, broker, deployment) = stores::read(&mut reader, deployment, sources.data.as_deref());
        let operators = people::read(&mut reader);
        let http = roles::http(&mut reader, operators.is_empty());
        let metrics = roles::metrics(&mut reader);
        let scheduler = roles::scheduler(&mut reader);
        let worker = roles::worker(&mut reader);
        let templates = roles::templates(&mut reader);
        let artifacts = roles::artifacts(&mut reader);
        let keys = keys::read(&mut reader, deployment);
        let transports = transports::read(&mut reader, deployment);
        let policies = policies::policies(&mut reader);
        let tenants = policies::tenants(&mut reader, &policies, &transports);
        let retention = roles::retention(&mut reader);
        let slo = roles::slo(&mut reader);
        let traces = roles::traces(&mut reader);
        let review = roles::review(&mut reader);
        if !reader.faults.is_empty() {
            return Err(Faults(reader.faults));
        }
        let file = sources.file.clone();
        let shown = reader.shown;
        Ok(Self {
            file,
            deployment,
            book,
            ledger,
            broker,
            http,
            metrics,
            scheduler,
            worker,
            templates,
            artifacts,
            keys,
            operators,
            transports,
            policies,
            tenants,
            retention,
            slo,
            traces,
            review,
            rehearsal: None,
            shown,
        })
    }
}

#[cfg(test)]
mod tests;
