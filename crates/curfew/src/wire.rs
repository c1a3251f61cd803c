//! The wiring: with `fleet.rs`, `namespace.rs` and `survey.rs` beside it the only code that names adapters. From a checked configuration to the ports that the roles work with.

mod consumer_timeout;
mod fleet;
mod namespace;
mod survey;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use curfew_book::sql::SqlBook;
use curfew_book::{Book, Schedules};
use curfew_broker::Broker;
use curfew_broker::in_process::InProcess;
use curfew_content::{Artifacts, Templates, Zones};
use curfew_courier::{Rulebook, TransportRules};
use curfew_domain::sealed::Keyring;
use curfew_domain::{Key, Shard};
use curfew_ledger::Ledger;
use curfew_ledger::redis::RedisLedger;
use curfew_ledger::sql::{Options, SqlLedger};
use curfew_review::Review;
use curfew_review::sql::SqlReview;
use curfew_store::{OpenOptions, Postgres, Sqlite, StoreError};
use curfew_telemetry::metrics::{Durability, Store};
use curfew_transport::smtp::{Login, Mechanism, Secret, SmtpConfig, SmtpTransport, Timeouts, TlsMode};
use curfew_transport::{CaptureTransport, Desync, Transport};
use curfew_worker::{Lane, LaneSettings};

use crate::config::{self, Auth, Book as BookUrl, Config, KEYS_FILE, Require, SmtpSettings, Tls, TransportKind};

pub use namespace::Namespace;
pub use survey::{Found, Survey};

/// The constant that tells which reference key a book was begun with.
const REFERENCE_KEY: &str = "reference_key";

/// Why the parts can't be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Another process has the data folder (exit 75).
    #[error("the data folder is in use by another process: {0}")]
    Locked(String),
    /// Something else; one line (exit 2 or 1).
    #[error("{0}")]
    Other(String),
}

impl From<StoreError> for WireError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Locked { path } => Self::Locked(path.display().to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}

fn other(error: impl std::fmt::Display) -> WireError {
    WireError::Other(error.to_string())
}

/// The parts that every role shares.
pub struct Parts {
    /// What is behind the ports, to be closed at the end.
    pub stores: Stores,
    /// What each store survives.
    pub durability: [(Store, Durability); 3],
    /// Who may send now.
    pub ledger: Arc<dyn Ledger>,
    /// What was accepted.
    pub book: Arc<dyn Book>,
    /// What is repeated: the same book.
    pub schedules: Arc<dyn Schedules>,
    /// Dead letters.
    pub review: Arc<dyn Review>,
    /// Wake-ups.
    pub broker: Arc<dyn Broker>,
    /// Policies and transports' properties.
    pub rulebook: Arc<Rulebook>,
    /// Opens letters.
    pub keyring: Arc<Keyring>,
    /// Attachments.
    pub artifacts: Arc<Artifacts>,
    /// Templates.
    pub templates: Arc<Templates>,
    /// Zone data.
    pub zones: Arc<Zones>,
    /// Transports by name.
    pub lanes: Arc<BTreeMap<String, Arc<Lane>>>,
    /// The shards of the fleet.
    pub shards: Vec<Shard>,
}

/// What is behind the ports.
pub enum Stores {
    /// One file.
    Embedded {
        /// The file.
        store: Sqlite,
        /// Its folder.
        data: PathBuf,
    },
    /// Servers.
    Fleet {
        /// The book's.
        book: Postgres,
        /// The ledger's.
        ledger: Arc<RedisLedger>,
    },
}

impl Stores {
    /// Ends only where the process can't go on: an embedded file whose disk failed. A server that is away comes back.
    pub async fn stopped(&self) -> String {
        match self {
            Stores::Embedded { store, .. } => store.stopped().await.to_string(),
            Stores::Fleet { .. } => std::future::pending().await,
        }
    }

    /// Finishes what was asked, and lets go.
    ///
    /// # Errors
    /// What the file said at its last copy; nothing is lost.
    pub async fn close(&self) -> Result<(), WireError> {
        match self {
            Stores::Embedded { store, .. } => store.close().await.map_err(WireError::from),
            Stores::Fleet { book, .. } => {
                book.close().await;
                Ok(())
            }
        }
    }

    /// For the greeting.
    pub fn place(&self) -> String {
        match self {
            Stores::Embedded { data, .. } => format!("data in {}", data.display()),
            Stores::Fleet { .. } => "stores on their servers".to_owned(),
        }
    }
}

/// Opens the servers' stores and everything around them, for `curfew run`.
///
/// # Errors
/// What is in the way, in one line.
pub async fn fleet(config: &Config) -> Result<Parts, WireError> {
    fleet::open(config).await
}

/// Opens the embedded stores and everything around them. The data folder is locked until the parts are dropped.
///
/// # Errors
/// `Locked`, or what else is in the way, in one line.
pub async fn embedded(config: &Config) -> Result<Parts, WireError> {
    durable_enough(config)?;
    let (store, data) = open_store(config).await?;
    let ledger = Arc::new(SqlLedger::open(store.clone(), Options { horizon: config.scheduler.horizon, ..Options::default() }).await.map_err(other)?);
    let book = Arc::new(SqlBook::open(store.clone()).await.map_err(other)?);
    let review = Arc::new(SqlReview::open(Arc::clone(&book)).await.map_err(other)?);
    let keyring = match &config.keys {
        Some(keyring) => keyring.clone(),
        None => embedded_keys(&*book, &data).await?,
    };
    constants(&*book, config, &keyring, &data).await?;
    let now = ledger.now().await.map_err(other)?;
    let ended = ledger.take_over(now).await.map_err(other)?;
    if ended > 0 {
        tracing::warn!("took over {ended} jobs that a former process had in hand");
    }
    let lanes = lanes(config, &data)?;
    Ok(Parts {
        rulebook: Arc::new(rulebook(config, &lanes)),
        keyring: Arc::new(keyring),
        artifacts: Arc::new(artifacts(config)?),
        templates: Arc::new(templates(config)?),
        zones: Arc::new(Zones::load()),
        broker: Arc::new(InProcess::new(config.ledger.shards)),
        shards: (0..config.ledger.shards).map(Shard).collect(),
        lanes: Arc::new(lanes),
        stores: Stores::Embedded { store, data },
        durability: [(Store::Book, Durability::Fsync), (Store::Ledger, Durability::Fsync), (Store::Broker, Durability::None)],
        ledger,
        schedules: Arc::clone(&book) as Arc<dyn Schedules>,
        book,
        review,
    })
}

/// Opens the file alone, for `backup`, `book migrate` and the like.
///
/// # Errors
/// As [`embedded`].
pub async fn open_store(config: &Config) -> Result<(Sqlite, PathBuf), WireError> {
    let BookUrl::Sqlite { file, data } = &config.book else {
        return Err(WireError::Other("[book] url: this build runs on SQLite; a server's URL needs `curfew run`".to_owned()));
    };
    let mut options = OpenOptions::new(data);
    if let Some(name) = file.file_name() {
        options.file = name.to_string_lossy().into_owned();
    }
    Ok((Sqlite::open(options).await?, data.clone()))
}

/// The keys beside the book. Where a book has begun they are never made anew: its letters would stay shut.
async fn embedded_keys(book: &dyn Book, data: &Path) -> Result<Keyring, WireError> {
    let file = data.join(KEYS_FILE);
    let begun = book.constants(&[]).await.map_err(other)?.iter().any(|(name, _)| name == REFERENCE_KEY);
    if begun && !file.exists() {
        let says = "is missing, and without it nothing that this book sealed can be read; bring it back from where you keep it";
        return Err(WireError::Other(format!("{}: {says}", file.display())));
    }
    config::load_or_create_keys(data).map_err(other)
}

/// What safety rests on stands in the book since the first start; a process configured otherwise stops.
async fn constants(book: &dyn Book, config: &Config, keyring: &Keyring, data: &Path) -> Result<(), WireError> {
    let standing = book.constants(&given(config, keyring)).await.map_err(other)?;
    differs(&standing, config, keyring, data).map_or(Ok(()), Err)
}

fn given(config: &Config, keyring: &Keyring) -> [(String, String); 2] {
    // A print of the reference key, not the key: under another one no recipient is found again, and letters can't be opened.
    let print = hex::encode(&keyring.keyed_hash(b"constant", b"reference key")[..16]);
    [("shards".to_owned(), config.ledger.shards.to_string()), (REFERENCE_KEY.to_owned(), print)]
}

/// The first constant in which this configuration isn't the book's.
fn differs(standing: &[(String, String)], config: &Config, keyring: &Keyring, data: &Path) -> Option<WireError> {
    let given = given(config, keyring);
    let (name, stands, wanted) = standing.iter().find_map(|(name, stands)| {
        let (_, wanted) = given.iter().find(|(n, wanted)| n == name && wanted != stands)?;
        Some((name, stands, wanted))
    })?;
    Some(WireError::Other(if name == REFERENCE_KEY {
        let keys = config.keys.as_ref().map_or_else(|| data.join(KEYS_FILE).display().to_string(), |_| "[keys] reference".to_owned());
        format!(
            "{keys}: this book was begun with another key, and what it sealed can't be read with this one; bring back the keys of its first start"
        )
    } else {
        format!("[ledger] {name} = {wanted}: this book was begun with {stands}, and that can't be changed")
    }))
}

/// The durability that the configuration asks of the ledger, against what the server reaches; and what no ledger may be set to.
fn durable_as_required(config: &Config, found: &curfew_ledger::redis::Durability) -> Result<(), WireError> {
    if let Some(why) = &found.refused {
        return Err(WireError::Other(format!("[ledger] url: {why}")));
    }
    let (required, reached) = (crate::up::roles::required(config), fleet::ledger_level(found.level));
    if reached.figure() < required.figure() {
        let (required, reached) = (required.word(), reached.word());
        return Err(WireError::Other(format!("[ledger] require = \"{required}\": the ledger reaches {reached} ({})", found.reasons.join("; "))));
    }
    Ok(())
}

/// What the servers survive as they are set now; nothing of one that doesn't say.
pub async fn reached(stores: &Stores) -> Vec<(Store, Durability)> {
    match stores {
        Stores::Embedded { .. } => Vec::new(),
        Stores::Fleet { book, ledger } => fleet::reached(book, ledger).await,
    }
}

/// Looks at a fleet's servers, and changes nothing.
pub async fn survey(config: &Config) -> Survey {
    survey::survey(config).await
}

/// The durability that the configuration asks of the ledger, against what SQLite reaches.
///
/// # Errors
/// `Other`, where it is less.
pub fn durable_enough(config: &Config) -> Result<(), WireError> {
    match config.ledger.require {
        Require::None | Require::Process | Require::Fsync => Ok(()),
        Require::Replicated => Err(WireError::Other(
            "[ledger] require = \"replicated\": SQLite reaches fsync; allowed here: \"none\", \"process\" or \"fsync\"".to_owned(),
        )),
    }
}

/// The templates of the folder; none where there is no folder.
///
/// # Errors
/// `Other`, where one can't be read.
pub fn templates(config: &Config) -> Result<Templates, WireError> {
    let dir = config.near_file(&config.templates.dir);
    if !dir.exists() {
        return Ok(Templates::default());
    }
    let (templates, warnings) = Templates::load(&dir, &BTreeMap::new()).map_err(other)?;
    for warning in warnings {
        tracing::warn!("template {}: {}", warning.template, warning.message);
    }
    Ok(templates)
}

/// The allowed roots.
///
/// # Errors
/// `Other`, where one isn't there.
pub fn artifacts(config: &Config) -> Result<Artifacts, WireError> {
    let roots = &config.artifacts.roots;
    let base = roots.iter().find_map(|root| config.folder_of(Path::new(root.strip_prefix("file:")?))).unwrap_or_else(|| PathBuf::from("."));
    Artifacts::new(&base, roots).map_err(other)
}

fn rulebook(config: &Config, lanes: &BTreeMap<String, Arc<Lane>>) -> Rulebook {
    let transports = config.transports.iter().map(|(name, transport)| {
        let idempotency_window = match &transport.kind {
            TransportKind::Smtp(smtp) => smtp.idempotency.as_ref().map(|(window, _)| *window),
            TransportKind::Capture => None,
        };
        let attempt_max = lanes.get(name).map_or(Duration::from_secs(1800), |lane| lane.transport.attempt_max());
        (name.clone(), TransportRules { idempotency_window, attempt_max })
    });
    let owners = config.review.owners.iter().map(|(reason, owner)| (reason.word().to_owned(), owner.clone())).collect();
    Rulebook::new(config.policies.clone(), transports.collect()).owned_by(owners)
}

fn lanes(config: &Config, data: &Path) -> Result<BTreeMap<String, Arc<Lane>>, WireError> {
    config.transports.iter().map(|(name, transport)| Ok((name.clone(), Arc::new(lane(transport, data)?)))).collect()
}

fn lane(transport: &config::Transport, data: &Path) -> Result<Lane, WireError> {
    let (port, idempotency_header): (Arc<dyn Transport>, _) = match &transport.kind {
        TransportKind::Smtp(smtp) => (self::smtp(smtp)?, smtp.idempotency.as_ref().map(|(_, header)| header.clone())),
        TransportKind::Capture => (Arc::new(CaptureTransport::new(data).map_err(other)?), None),
    };
    let settings = LaneSettings {
        name: transport.name.clone(),
        from_address: transport.from.address.clone(),
        from_name: transport.from.name.clone(),
        rate_per_s: transport.rate.map(|rate| rate_per_s(rate.count, rate.per)),
        idempotency_header,
    };
    Ok(Lane::new(settings, port))
}

/// A mail server as a transport; connects to nothing yet.
///
/// # Errors
/// `Other`, where a value is out of its bounds.
pub fn smtp(smtp: &SmtpSettings) -> Result<Arc<dyn Transport>, WireError> {
    Ok(Arc::new(SmtpTransport::new(smtp_config(smtp), Some(Arc::new(desync))).map_err(other)?))
}

/// A connection fell out of step with its replies: it is destroyed, and its last refusal is worth a person's look.
fn desync(seen: Desync) {
    if seen.accepted {
        tracing::warn!(job_id = %seen.job_id, generation = seen.generation, "a connection fell out of step after this job was accepted ({})", seen.rule);
    } else {
        tracing::error!(job_id = %seen.job_id, generation = seen.generation, "a connection fell out of step: this job's refusal may not be its own ({})", seen.rule);
    }
}

/// The `Message-ID` of a content revision, without its brackets, as the transport's sender makes it.
pub fn message_id(key: &Key, revision: u32, from_address: &str) -> String {
    let domain = curfew_domain::address::check(from_address).map(|a| a.domain().to_owned()).unwrap_or_default(); // the configuration checked it
    curfew_transport::message::message_id_of(key, revision, &domain)
}

/// A rate as a figure per second.
pub fn rate_per_s(count: u32, per: Duration) -> f64 {
    f64::from(count) / per.as_secs_f64()
}

fn smtp_config(smtp: &SmtpSettings) -> SmtpConfig {
    let mut made = SmtpConfig::new(smtp.host.clone(), smtp.port);
    made.tls = match smtp.tls {
        Tls::None => TlsMode::None,
        Tls::Opportunistic => TlsMode::Opportunistic,
        Tls::Required => TlsMode::Required,
        Tls::Implicit => TlsMode::Implicit,
    };
    made.ca_file.clone_from(&smtp.ca_file);
    made.auth = smtp.user.as_ref().zip(smtp.password.as_ref()).map(|(user, password)| Login {
        mechanism: match smtp.auth {
            Auth::Plain => Mechanism::Plain,
            Auth::Login => Mechanism::Login,
            Auth::Xoauth2 => Mechanism::XOAuth2,
        },
        user: user.clone(),
        password: Secret::new(password.expose()),
    });
    if let Some(hello) = &smtp.hello {
        made.hello.clone_from(hello);
    }
    made.max_connections = smtp.max_connections as usize;
    let wait = &smtp.timeouts;
    made.timeouts = Timeouts { connect: wait.connect, tls: wait.tls, reply: wait.reply, block: wait.block, end: wait.end, ..Timeouts::default() };
    made
}

/// Applies pending migrations, or names them; the names.
///
/// # Errors
/// As [`embedded`].
pub async fn migrate(config: &Config, only_check: bool) -> Result<Vec<String>, WireError> {
    if let BookUrl::Postgres(url) = &config.book {
        return fleet::migrate(url.expose(), only_check).await;
    }
    let (store, _data) = open_store(config).await?;
    let all: Vec<_> = [curfew_ledger::sql::MIGRATIONS, &curfew_book::sql::MIGRATIONS[..], &curfew_review::sql::MIGRATIONS[..]].concat();
    let pending: Vec<String> = store.pending(&all).await?.into_iter().map(|m| m.to_string()).collect();
    if !only_check {
        store.migrate(&all).await?;
    }
    store.close().await?;
    Ok(pending)
}
