//! What `curfew check` finds on a fleet's servers: reached or not, how durable and why, whether they are this fleet's. It changes nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use curfew_book::Book;
use curfew_book::postgres::PostgresBook;
use curfew_broker::rabbit::{Found as Probed, Management, Rabbit};
use curfew_broker::{Broker, BrokerError};
use curfew_domain::Shard;
use curfew_ledger::redis::RedisLedger;
use curfew_ledger::{Ledger, Recoverable};
use curfew_store::{Postgres, PostgresOptions};
use curfew_telemetry::metrics::Durability;

use super::fleet::{Urls, begun, broker_settings, ledger_level, ledger_options, migrations, store_level};
use super::{consumer_timeout, differs, durable_as_required};
use crate::config::{Config, QueueType};

/// How long a broker that answers may take; its topology is looked at on the way.
const BROKER_WAIT: Duration = Duration::from_secs(8);
/// The highest rung that a look waits for: 4 s. What shortens a longer one alone is found by the schedulers.
const SHORT_RUNG_MAX: u8 = 2;
const SHORTEST: &str = "1, 2 and 4 s";
/// For those rungs on a busy server.
const DELAYS_WAIT: Duration = Duration::from_secs(8);
const DELAYS_LOOK: Duration = Duration::from_millis(50);

/// One thing that was looked at.
pub struct Found {
    /// What.
    pub what: String,
    /// Whether it is in the way of a start.
    pub ok: bool,
    /// What was found, for people.
    pub says: String,
}

/// Everything on the servers.
#[derive(Default)]
pub struct Survey {
    /// In the order in which a start meets it.
    pub found: Vec<Found>,
    /// The level reached, by store; one that wasn't reached isn't there.
    pub durability: BTreeMap<&'static str, &'static str>,
}

impl Survey {
    fn add(&mut self, what: &str, looked: Result<String, String>) {
        let ok = looked.is_ok();
        self.found.push(Found { what: what.to_owned(), ok, says: looked.unwrap_or_else(|why| why) });
    }
}

/// Looks at book, ledger and broker; each by itself, so that all that is in the way is told at once.
pub(super) async fn survey(config: &Config) -> Survey {
    let mut survey = Survey::default();
    let urls = match Urls::of(config) {
        Ok(urls) => urls,
        Err(error) => {
            survey.add("configuration", Err(error.to_string()));
            return survey;
        }
    };
    if config.keys.is_none() {
        survey.add("keys", Err("[keys]: a fleet shares its keys, so they must be configured; `curfew keys new` prints them".to_owned()));
    }
    let was_begun = book(config, &urls, &mut survey).await;
    ledger(config, &urls, was_begun, &mut survey).await;
    survey.durability.insert("broker", Durability::Process.word());
    broker(config, &urls, &mut survey).await;
    survey.found.push(consumer_timeout::found(config));
    survey
}

/// Whether the ledger was ever begun, as the book says.
async fn book(config: &Config, urls: &Urls<'_>, survey: &mut Survey) -> bool {
    let store = match Postgres::connect(urls.book, PostgresOptions::default()).await {
        Ok(store) => store,
        Err(error) => {
            survey.add("book", Err(error.to_string()));
            return false;
        }
    };
    let looked = store.durability().await.map_err(|error| error.to_string());
    let looked = looked.map(|reached| {
        survey.durability.insert("book", store_level(reached.level).word());
        format!("PostgreSQL answers; durability {} ({})", reached.level.word(), reached.reason)
    });
    survey.add("book", looked);
    let mut was_begun = false;
    let schema = match store.pending(&migrations()).await {
        Err(error) => Err(error.to_string()),
        Ok(pending) if !pending.is_empty() => {
            Ok(format!("pending: {}; the first process applies them, or `curfew book migrate`", pending.join(", ")))
        }
        Ok(_none) => constants(config, &store).await.map(|found| {
            was_begun = found;
            "up to date; shards and keys are those of its first start".to_owned()
        }),
    };
    survey.add("book's schema", schema);
    store.close().await;
    was_begun
}

/// Compares what stands, and writes nothing.
async fn constants(config: &Config, store: &Postgres) -> Result<bool, String> {
    let book = PostgresBook::open(store.clone()).await.map_err(|error| error.to_string())?;
    let standing = book.constants(&[]).await.map_err(|error| error.to_string())?;
    if let Some(keyring) = &config.keys {
        differs(&standing, config, keyring, Path::new("the configuration")).map_or(Ok(()), |error| Err(error.to_string()))?;
    }
    Ok(begun(&standing))
}

async fn ledger(config: &Config, urls: &Urls<'_>, was_begun: bool, survey: &mut Survey) {
    let ledger = match RedisLedger::open(urls.ledger, ledger_options(config)) {
        Ok(ledger) => ledger,
        Err(error) => return survey.add("ledger", Err(error.to_string())),
    };
    let found = match ledger.durability().await {
        Ok(found) => found,
        Err(error) => return survey.add("ledger", Err(error.to_string())),
    };
    let level = ledger_level(found.level);
    survey.durability.insert("ledger", level.word());
    let looked = durable_as_required(config, &found).map(|()| format!("Redis answers; durability {} ({})", level.word(), found.reasons.join("; ")));
    survey.add("ledger", looked.map_err(|error| error.to_string()));
    if !found.split_brain_safe {
        survey.add(
            "ledger's split brain",
            Ok("an old primary that is cut off goes on: two of them could each let a job be sent; see the reasons above".to_owned()),
        );
    }
    let meta = match ledger.meta(Shard(0)).await {
        Err(error) => Err(error.to_string()),
        Ok(Some(meta)) if meta.of_this_server && !meta.recovering => Ok(format!("this fleet's, incarnation {}", meta.incarnation)),
        Ok(Some(meta)) if meta.of_this_server => Err("it recovers: nothing is sent until every worker has reported what it holds".to_owned()),
        Ok(Some(_other)) => {
            Err("its server was restarted or replaced since the fleet last worked: nothing is sent until a scheduler has recovered it".to_owned())
        }
        Ok(None) if was_begun => {
            Err("it is empty, though the book says that it was begun: nothing is sent until a scheduler has recovered it".to_owned())
        }
        Ok(None) => Ok("empty; the first process begins it".to_owned()),
    };
    survey.add("ledger's records", meta);
    if let Err(error) = ledger.now().await {
        survey.add("ledger's clock", Err(error.to_string()));
    }
}

async fn broker(config: &Config, urls: &Urls<'_>, survey: &mut Survey) {
    let settings = curfew_broker::rabbit::Settings { management: Management::Verify, ..broker_settings(config, urls.broker) };
    let rabbit = match Rabbit::start(settings) {
        Ok(rabbit) => rabbit,
        Err(error) => return survey.add("broker", Err(error.to_string())),
    };
    let topology = rabbit.topology();
    let (exchanges, queues, bindings) = (topology.exchanges.len(), topology.queues.len(), topology.bindings.len());
    let kind = match config.broker.queue_type {
        QueueType::Quorum => "quorum",
        QueueType::Classic => "classic",
    };
    let wants = format!("{exchanges} exchanges, {queues} {kind} queues, {bindings} bindings");
    match rabbit.ready(BROKER_WAIT).await {
        Ok(()) => {
            survey.add("broker", Ok(format!("RabbitMQ answers; {wants} are there")));
            survey.add("broker's delays", delays(&rabbit).await);
        }
        // Nothing declared yet looks like this too, and each process declares at its start.
        Err(BrokerError::Topology(why)) => {
            survey.add("broker", Ok(format!("RabbitMQ answers; of {wants} not all are there, the first process declares them ({why})")));
        }
        Err(error) => survey.add("broker", Err(error.to_string())),
    }
    rabbit.close().await;
}

/// AMQP shows no policy, so the delays are measured: one that shortens a TTL makes every longer rung early.
async fn delays(rabbit: &Rabbit) -> Result<String, String> {
    let until = Instant::now() + DELAYS_WAIT;
    let short = || rabbit.rungs().into_iter().filter(|(n, _)| *n <= SHORT_RUNG_MAX).count();
    while short() <= usize::from(SHORT_RUNG_MAX) && Instant::now() < until {
        tokio::time::sleep(DELAYS_LOOK).await;
    }
    let found = rabbit.rungs();
    let early: Vec<String> = found
        .iter()
        .filter_map(|(n, probed)| match probed {
            Probed::Early(took) => Some(format!("rung {n} after {} ms instead of {} s", took.as_millis(), 1_u32 << n)),
            Probed::InTime(_) | Probed::Lost => None,
        })
        .collect();
    if !early.is_empty() {
        let why = "a policy shortens their TTL: `rabbitmqctl list_queues name effective_policy_definition` shows which";
        return Err(format!("{} arrive early ({}); {why}", early.len(), early.join(", ")));
    }
    let missing: Vec<String> = (0..=SHORT_RUNG_MAX).filter(|n| !matches!(found.get(n), Some(Probed::InTime(_)))).map(|n| n.to_string()).collect();
    if missing.len() > usize::from(SHORT_RUNG_MAX) {
        return match rabbit.is_open() {
            true => Ok("not measured: a probe needs a queue of its own, which this user may not have".to_owned()),
            false => Err("it takes nothing at the moment (blocked by an alarm)".to_owned()),
        };
    }
    if !missing.is_empty() {
        return Err(format!("rung {} delivers nothing: see its queue and the policies on it", missing.join(", ")));
    }
    Ok(format!("{SHORTEST} arrive at their moment; a scheduler measures the longer ones too"))
}
