//! How connections are set up: every setting, once, with its reason.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, PgPool};
use tokio::time::timeout;

use super::PostgresOptions;
use crate::StoreError;
use crate::limits::{POSTGRES_VERSION_MIN, STATEMENT_CACHE};

/// The parameters that the client knows: others it would ignore, and write into the log with their values.
const PARAMETERS: [&str; 17] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "options",
];

pub(super) fn options(url: &str, options: &PostgresOptions) -> Result<PgConnectOptions, StoreError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(refused("the URL doesn't begin with postgres://"));
    }
    let given = url.split_once('?').map_or("", |(_server, parameters)| parameters);
    let mut names = given.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
    if !names.all(|name| PARAMETERS.contains(&name) || name.starts_with("options[") || name.starts_with("options%5B")) {
        return Err(refused("the URL has an unknown parameter; known are sslmode, sslrootcert, sslcert, sslkey, host, port, options[SETTING], …"));
    }
    let parsed: PgConnectOptions =
        url.parse().map_err(|_quotes| refused("the URL is none of the form postgres://user:password@host:port/database?sslmode=…"))?;
    let ms = |bound: Duration| bound.as_millis().to_string();
    let mut connect = parsed
        .application_name(&options.application_name)
        .statement_cache_capacity(STATEMENT_CACHE)
        .options([
            ("statement_timeout", ms(options.statement_timeout)),
            ("lock_timeout", ms(options.lock_timeout)),
            ("idle_in_transaction_session_timeout", ms(options.idle_in_transaction_timeout)),
        ])
        // Every statement here reads few rows by an index. These plans would read a month of jobs, and are chosen where statistics are old:
        // after a morning's import, or for a month that was empty when the statement was planned. Compiling pays for statements of seconds;
        // many partitions make it look worthwhile.
        .options([("enable_seqscan", "off"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off"), ("jit", "off")])
        // A statement whose client is gone ends within this.
        .options([("client_connection_check_interval", "5s")])
        // A client that is gone without a word lets its locks go after half a minute.
        .options([("tcp_keepalives_idle", "15"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")])
        .disable_statement_logging();
    if let Some(schema) = &options.schema {
        connect = connect.options([("search_path", quoted(schema))]);
    }
    Ok(connect)
}

/// A name as SQL wants it quoted.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Opened on use. The ping at check-out costs a round trip and finds what a restarted server left behind.
pub(super) fn pool(connect: PgConnectOptions, options: &PostgresOptions) -> PgPool {
    PgPoolOptions::new()
        .max_connections(options.connections.max(1))
        .acquire_timeout(options.acquire_timeout)
        .test_before_acquire(true)
        .idle_timeout(Duration::from_secs(10 * 60))
        .max_lifetime(Duration::from_secs(30 * 60))
        .connect_lazy_with(connect)
}

/// The first connection: the server answers, and is new enough.
pub(super) async fn first(pool: &PgPool, options: &PostgresOptions) -> Result<(), StoreError> {
    let version = sqlx::query_scalar::<_, i32>(include_str!("version.sql")).fetch_one(pool);
    let found = timeout(options.connect_timeout, version).await.map_err(|_elapsed| refused("the server didn't answer in time"))?;
    let version = found.map_err(|error| refused(reason(&error)))?;
    if version < POSTGRES_VERSION_MIN {
        let (major, least) = (version / 10_000, POSTGRES_VERSION_MIN / 10_000);
        return Err(StoreError::Connect { reason: format!("the server is PostgreSQL {major}; {least} or later is needed") });
    }
    Ok(())
}

fn refused(reason: &str) -> StoreError {
    StoreError::Connect { reason: reason.to_owned() }
}

/// In words of our own: the client's and the server's name hosts, users and databases.
fn reason(error: &sqlx::Error) -> &'static str {
    match error {
        sqlx::Error::Database(found) => match found.code().as_deref().unwrap_or_default() {
            "28000" | "28P01" => "the server refused the login",
            "3D000" => "the server has no such database",
            "42501" => "the role may not use the database",
            "53300" => "the server has no connection left",
            "57P03" => "the server is starting or stopping",
            _ => "the server refused the connection",
        },
        sqlx::Error::Tls(_) => "the server's TLS doesn't agree with sslmode or the root certificate",
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => "the server can't be reached",
        // A foreign enum that may grow.
        _ => "the connection failed",
    }
}
