//! What a configuration says, in types. Names and defaults are the contract's.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use curfew_domain::Reason;
use curfew_domain::policy::Policy;
use curfew_domain::sealed::Keyring;

use super::people::Operator;
use super::policies::Tenants;
use super::reader::Shown;
use super::rehearsal::RehearsalId;
use super::secret::Secret;
use super::transports::Transport;

/// How the parts are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deployment {
    /// `curfew up`: every role in one process, stores in one folder.
    Embedded,
    /// `curfew run`: servers for stores, any number of processes.
    Fleet,
    /// A verb that only looks: what the URLs say.
    AsGiven,
}

/// Everything, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it came from.
    pub file: Option<PathBuf>,
    /// `Embedded` or `Fleet`.
    pub deployment: Deployment,
    /// `[book]`.
    pub book: Book,
    /// `[ledger]`.
    pub ledger: Ledger,
    /// `[broker]`.
    pub broker: Broker,
    /// `[http]`.
    pub http: Http,
    /// `[metrics]`.
    pub metrics: Metrics,
    /// `[scheduler]`.
    pub scheduler: Scheduler,
    /// `[worker]`.
    pub worker: Worker,
    /// `[templates]`.
    pub templates: Templates,
    /// `[artifacts]`.
    pub artifacts: Artifacts,
    /// `[keys]`; `None`: embedded mode makes them, see `load_or_create_keys`.
    pub keys: Option<Keyring>,
    /// `[operators.*]`, by name. Empty: loopback only, and the actor is `local`.
    pub operators: BTreeMap<String, Operator>,
    /// `[transports.*]`, by name.
    pub transports: BTreeMap<String, Transport>,
    /// `[policies.*]`, by name; `default` is always there.
    pub policies: BTreeMap<String, Policy>,
    /// `[tenants.*]`.
    pub tenants: Tenants,
    /// `[retention]`.
    pub retention: Retention,
    /// `[slo]`.
    pub slo: Slo,
    /// `[traces]`; `None`: no collector is named, and nothing is sent.
    pub traces: Option<Traces>,
    /// `[review.*]`.
    pub review: Review,
    /// Whose part of the servers a rehearsal's process works in; no file and no variable gives it.
    pub rehearsal: Option<RehearsalId>,
    /// Every value and its origin, secrets masked, in the order of the contract.
    pub shown: Vec<Shown>,
}

impl Config {
    /// A configured path: relative ones start at the configuration file's folder, or, where nothing is there, at the working directory.
    pub fn near_file(&self, path: &Path) -> PathBuf {
        self.folder_of(path).map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }

    /// The folder that a relative path starts at; `None` for the working directory and for absolute paths.
    pub fn folder_of(&self, path: &Path) -> Option<PathBuf> {
        let folder = self.file.as_ref()?.parent()?;
        (path.is_relative() && folder.join(path).exists()).then(|| folder.to_owned())
    }
}

/// The book and, embedded, everything else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Book {
    /// A file; its folder is the data folder.
    Sqlite {
        /// The database file.
        file: PathBuf,
        /// The data folder: lock, keys and captured mail.
        data: PathBuf,
    },
    /// A server.
    Postgres(Secret),
}

/// `[ledger]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ledger {
    /// Where it is.
    pub url: LedgerUrl,
    /// 1 to 64.
    pub shards: u8,
    /// The durability below which nothing starts.
    pub require: Require,
    /// Above it staging stops.
    pub max_live_bytes: u64,
}

/// Where the ledger is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LedgerUrl {
    /// In the book's file.
    Sqlite,
    /// `redis://`, `rediss://`, `redis+sentinel://` or `redis+cluster://`.
    Redis(Secret),
}

/// The durability that a store must reach.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Require {
    /// Nothing.
    None,
    /// It survives its process (everysec).
    Process,
    /// It survives the loss of power (always).
    Fsync,
    /// It survives the loss of its machine.
    Replicated,
}

/// `[broker]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broker {
    /// Where it is.
    pub url: BrokerUrl,
    /// What kind of queues are declared.
    pub queue_type: QueueType,
}

/// Where the broker is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BrokerUrl {
    /// In this process.
    InProcess,
    /// RabbitMQ.
    Amqp(Secret),
}

/// RabbitMQ's queue types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueType {
    /// Replicated by Raft.
    Quorum,
    /// On one node.
    Classic,
}

/// `[http]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http {
    /// Loopback, unless there are operators.
    pub listen: SocketAddr,
}

/// `[metrics]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// The first of ten ports to try.
    pub listen: SocketAddr,
}

/// `[scheduler]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduler {
    /// Between two looks.
    pub tick: Duration,
    /// A power of two from 1 to 64 s.
    pub horizon: Duration,
    /// How far ahead of its release a job is staged.
    pub staging_window: Duration,
    /// How long a wake-up may stay unanswered.
    pub claim_grace: Duration,
}

/// `[worker]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Worker {
    /// Deliveries at a time.
    pub concurrency: u32,
    /// 10 s to 15 min, renewed every third of it.
    pub lease: Duration,
}

/// `[templates]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Templates {
    /// Where they are.
    pub dir: PathBuf,
}

/// `[artifacts]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Artifacts {
    /// As given, each beginning with `file:`.
    pub roots: Vec<String>,
}

/// `[retention]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Of recipient and content, after the job's end.
    pub content: Duration,
    /// Of settled jobs.
    pub settled: Duration,
    /// Of resolved review items.
    pub review: Duration,
    /// Of the audit trail.
    pub audit: Duration,
}

/// `[slo]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slo {
    /// Percent of jobs.
    pub target_percent: f64,
    /// Over how long.
    pub window: Duration,
    /// How long before the deadline counts as met.
    pub lead: Duration,
}

/// `[traces]`: a collector for OpenTelemetry traces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traces {
    /// The whole URL to which spans are sent (OTLP over HTTP).
    pub endpoint: String,
    /// Of a hundred traces that began here, how many are sent.
    pub sample_percent: u8,
    /// The `Authorization` header's value.
    pub authorization: Option<Secret>,
}

/// `[review.owners]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Review {
    /// Whose work a reason is.
    pub owners: BTreeMap<Reason, String>,
}
