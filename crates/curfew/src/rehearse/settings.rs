//! What the rehearsal's processes are configured with.

use std::path::{Path, PathBuf};

use curfew_testkit::mail_server::MailServer;

use super::Provider;
use super::cast::EVENTS_SECRET;
use crate::config::{Book, BrokerUrl, Config, LedgerUrl, QueueType, Require, new_keys_table};
use crate::exit::Failure;

/// One tenant stands in one shard; a second one stands empty beside it.
const FLEET: &str = "[http]\nlisten = \"127.0.0.1:0\"\n\n[metrics]\nlisten = \"127.0.0.1:0\"\n\n[scheduler]\nclaim_grace = \"5s\"\n\n";
const SHARDS: u8 = 2;

/// The configuration in the rehearsal's folder.
pub fn file(folder: &Path) -> PathBuf {
    folder.join("rehearsal.toml")
}

/// For `up`.
///
/// # Errors
/// `Failure`, where the folder can't be written.
pub fn write_embedded(folder: &Path, server: &MailServer, provider: Provider) -> Result<(), Failure> {
    write(folder, &(own(folder, server, provider, "") + "\n[metrics]\nlisten = \"127.0.0.1:0\"\n"))
}

/// For `run`, with keys of its own; what the fleet's stores are and must reach is the fleet's.
///
/// # Errors
/// `Failure`, where the folder can't be written.
pub fn write_fleet(folder: &Path, config: &Config, server: &MailServer, provider: Provider) -> Result<(), Failure> {
    let require = match config.ledger.require {
        Require::None => "none",
        Require::Process => "process",
        Require::Fsync => "fsync",
        Require::Replicated => "replicated",
    };
    let queue_type = match config.broker.queue_type {
        QueueType::Quorum => "quorum",
        QueueType::Classic => "classic",
    };
    let stores = format!("[ledger]\nshards = {SHARDS}\nrequire = \"{require}\"\n\n[broker]\nqueue_type = \"{queue_type}\"\n\n");
    write(folder, &format!("{stores}{FLEET}{}\n{}", own(folder, server, provider, "concurrency = 1\n"), new_keys_table()))
}

/// Where the fleet's servers are, as variables: their passwords reach no file.
pub fn servers(config: &Config) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if let Book::Postgres(url) = &config.book {
        all.push(("CURFEW_BOOK__URL", url.expose().to_owned()));
    }
    if let LedgerUrl::Redis(url) = &config.ledger.url {
        all.push(("CURFEW_LEDGER__URL", url.expose().to_owned()));
    }
    if let BrokerUrl::Amqp(url) = &config.broker.url {
        all.push(("CURFEW_BROKER__URL", url.expose().to_owned()));
    }
    all
}

fn own(folder: &Path, server: &MailServer, provider: Provider, worker: &str) -> String {
    let window = match provider {
        Provider::Forgets => "",
        Provider::KnowsKeys => "idempotency_window = \"24h\"\nidempotency_header = \"Curfew-Idempotency-Key\"\n",
    };
    format!(
        "[worker]\nlease = \"10s\"\n{worker}\n[policies.default]\ndelays = [\"1s\"]\njitter = \"0ms\"\n\n[transports.default]\nkind = \"smtp\"\n\
        url = \"smtp://{}\"\ntls = \"none\"\nfrom = \"Rehearsal <rehearsal@rehearsal.example>\"\nevents_secret_file = {:?}\n{window}",
        server.addr(),
        secret(folder).display().to_string()
    )
}

fn secret(folder: &Path) -> PathBuf {
    folder.join("events-secret")
}

fn write(folder: &Path, text: &str) -> Result<(), Failure> {
    let unwritable = |e: std::io::Error| Failure::usage(format!("the rehearsal's folder can't be written: {e}"));
    std::fs::write(secret(folder), EVENTS_SECRET).map_err(unwritable)?;
    std::fs::write(file(folder), text).map_err(unwritable)
}
