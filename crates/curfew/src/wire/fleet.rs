//! The fleet's adapters: PostgreSQL for book and review, Redis for the ledger, RabbitMQ for wake-ups.

use std::path::Path;
use std::sync::Arc;

use curfew_book::postgres::PostgresBook;
use curfew_book::{Book, Schedules};
use curfew_broker::rabbit::{Rabbit, Settings};
use curfew_broker::topology;
use curfew_content::Zones;
use curfew_domain::Shard;
use curfew_ledger::redis::{Level, Options, RedisLedger};
use curfew_ledger::{Ledger, LedgerError, Recoverable};
use curfew_review::postgres::PostgresReview;
use curfew_store::{DurabilityLevel, Migration, Postgres, PostgresOptions};
use curfew_telemetry::metrics::{Durability, Store};

use super::{Parts, Stores, WireError, artifacts, lanes, other, rulebook, templates};
use crate::config::{Book as BookUrl, BrokerUrl, Config, LedgerUrl, QueueType, RehearsalId};

/// The constant that tells whether this fleet's ledger was ever begun: an emptied one must not pass for a new one.
const LEDGER_BEGUN: &str = "ledger_begun";

/// Where the three servers are. No adapter's error repeats one: they hold passwords.
pub(super) struct Urls<'a> {
    pub book: &'a str,
    pub ledger: &'a str,
    pub broker: &'a str,
}

impl<'a> Urls<'a> {
    pub(super) fn of(config: &'a Config) -> Result<Self, WireError> {
        match (&config.book, &config.ledger.url, &config.broker.url) {
            (BookUrl::Postgres(book), LedgerUrl::Redis(ledger), BrokerUrl::Amqp(broker)) => {
                Ok(Self { book: book.expose(), ledger: ledger.expose(), broker: broker.expose() })
            }
            _some_embedded => {
                let wants = "needs [book] url = \"postgres://…\", [ledger] url = \"redis://…\" and [broker] url = \"amqp://…\"";
                Err(WireError::Other(format!("a fleet {wants}; one process alone: `curfew up`")))
            }
        }
    }
}

/// Opens everything. Migrations that are pending are applied under an advisory lock (expand steps only).
pub(super) async fn open(config: &Config) -> Result<Parts, WireError> {
    let urls = Urls::of(config)?;
    let Some(keyring) = config.keys.clone() else {
        return Err(WireError::Other("[keys]: a fleet shares its keys, so they must be configured (`curfew keys new` makes them)".to_owned()));
    };
    let store = Postgres::connect(urls.book, store_options(config)).await.map_err(other)?;
    store.migrate(&migrations()).await.map_err(other)?;
    let book = Arc::new(PostgresBook::open(store.clone()).await.map_err(other)?);
    let review = Arc::new(PostgresReview::open(Arc::clone(&book)).await.map_err(other)?);
    let ledger = Arc::new(RedisLedger::open(urls.ledger, ledger_options(config)).map_err(other)?);
    super::constants(&*book, config, &keyring, Path::new("the configuration")).await?;
    let durability = durable_enough(config, &store, &ledger).await?;
    begin(&*book, &ledger).await?;
    // Connects when a role asks for it, for what that role needs; whether it is there, readiness tells.
    let broker = Rabbit::start(broker_settings(config, urls.broker)).map_err(other)?;
    let lanes = lanes(config, Path::new("."))?;
    Ok(Parts {
        rulebook: Arc::new(rulebook(config, &lanes)),
        keyring: Arc::new(keyring),
        artifacts: Arc::new(artifacts(config)?),
        templates: Arc::new(templates(config)?),
        zones: Arc::new(Zones::load()),
        broker: Arc::new(broker),
        shards: (0..config.ledger.shards).map(Shard).collect(),
        lanes: Arc::new(lanes),
        stores: Stores::Fleet { book: store, ledger: Arc::clone(&ledger) },
        durability,
        ledger,
        schedules: Arc::clone(&book) as Arc<dyn Schedules>,
        book,
        review,
    })
}

pub(super) fn migrations() -> Vec<Migration> {
    [&curfew_book::postgres::MIGRATIONS[..], &curfew_review::postgres::MIGRATIONS[..]].concat()
}

/// In the schema that the URL or the role names; a rehearsal in its own.
pub(super) fn store_options(config: &Config) -> PostgresOptions {
    PostgresOptions { schema: config.rehearsal.as_ref().map(RehearsalId::schema), ..PostgresOptions::default() }
}

pub(super) fn ledger_options(config: &Config) -> Options {
    let mut options = Options { shards: config.ledger.shards, horizon: config.scheduler.horizon, ..Options::default() };
    if let Some(rehearsal) = &config.rehearsal {
        options.prefix = rehearsal.prefix();
    }
    options
}

pub(super) fn broker_settings(config: &Config, url: &str) -> Settings {
    let mut settings = Settings::new(url, config.ledger.shards);
    if let Some(rehearsal) = &config.rehearsal {
        settings.names = topology::Names::rehearsal(rehearsal.as_str());
    }
    settings.queue_type = match config.broker.queue_type {
        QueueType::Quorum => topology::QueueType::Quorum,
        QueueType::Classic => topology::QueueType::Classic,
    };
    settings
}

/// Whether the book's constants say that the ledger was begun.
pub(super) fn begun(constants: &[(String, String)]) -> bool {
    constants.iter().any(|(name, _)| name == LEDGER_BEGUN)
}

/// The first start ever writes whose the ledger is; every later one finds it, or says that the ledger is another.
async fn begin(book: &dyn Book, ledger: &RedisLedger) -> Result<(), WireError> {
    if !begun(&book.constants(&[]).await.map_err(other)?) {
        ledger.initialise().await.map_err(other)?;
        book.constants(&[(LEDGER_BEGUN.to_owned(), "yes".to_owned())]).await.map_err(other)?;
    }
    match ledger.now().await {
        Ok(_now) => {}
        Err(error @ LedgerError::Store(_)) => return Err(other(error)),
        Err(error) => tracing::warn!(error_class = "ledger", "the ledger isn't there yet: {error}"),
    }
    match ledger.meta(Shard(0)).await {
        Ok(Some(meta)) if meta.of_this_server => Ok(()),
        Ok(Some(_other_server)) => {
            tracing::error!(
                error_class = "ledger",
                "the ledger's server was restarted or replaced since the fleet last worked: nothing is sent until a scheduler has recovered it"
            );
            Ok(())
        }
        Ok(None) => {
            tracing::error!(
                error_class = "ledger",
                "the ledger is empty, though the book says that it was begun: nothing is sent until a scheduler has recovered it"
            );
            Ok(())
        }
        Err(error) => {
            tracing::warn!(error_class = "ledger", "the ledger isn't there yet: {error}");
            Ok(())
        }
    }
}

/// What each store survives, and whether that is enough.
async fn durable_enough(config: &Config, store: &Postgres, ledger: &RedisLedger) -> Result<[(Store, Durability); 3], WireError> {
    let book = store.durability().await.map_err(other)?;
    let found = ledger.durability().await.map_err(other)?;
    super::durable_as_required(config, &found)?;
    if !found.split_brain_safe {
        tracing::warn!(error_class = "ledger", "an old primary that is cut off goes on: {}", found.reasons.join("; "));
    }
    Ok([(Store::Book, store_level(book.level)), (Store::Ledger, ledger_level(found.level)), (Store::Broker, Durability::Process)])
}

/// The same while it runs, of those that say.
pub(super) async fn reached(store: &Postgres, ledger: &RedisLedger) -> Vec<(Store, Durability)> {
    let (book, found) = (store.durability().await, ledger.durability().await);
    let book = book.ok().map(|book| (Store::Book, store_level(book.level)));
    book.into_iter().chain(found.ok().map(|found| (Store::Ledger, ledger_level(found.level)))).collect()
}

pub(super) fn ledger_level(level: Level) -> Durability {
    match level {
        Level::None => Durability::None,
        Level::Process => Durability::Process,
        Level::Fsync => Durability::Fsync,
        Level::Replicated => Durability::Replicated,
    }
}

pub(super) fn store_level(level: DurabilityLevel) -> Durability {
    match level {
        DurabilityLevel::None => Durability::None,
        DurabilityLevel::Process => Durability::Process,
        DurabilityLevel::Fsync => Durability::Fsync,
        DurabilityLevel::Replicated => Durability::Replicated,
    }
}

/// Applies the book's pending migrations, or names them.
pub(super) async fn migrate(url: &str, only_check: bool) -> Result<Vec<String>, WireError> {
    let store = Postgres::connect(url, PostgresOptions::default()).await.map_err(other)?;
    let pending: Vec<String> = store.pending(&migrations()).await.map_err(other)?.into_iter().map(str::to_owned).collect();
    if !only_check {
        store.migrate(&migrations()).await.map_err(other)?;
    }
    store.close().await;
    Ok(pending)
}
