//! `[book]`, `[ledger]` and `[broker]`, and what `up` and `run` allow of them.

use std::path::{Path, PathBuf};

use super::error::{Fault, Origin};
use super::reader::{self, Reader};
use super::secret::{Secret, without_password};
use super::settings::{Book, Broker, BrokerUrl, Deployment, Ledger, LedgerUrl, QueueType, Require};

/// The data folder, unless `--data` says otherwise.
pub const DATA_DEFAULT: &str = "curfew-data";
/// The database in it.
const DATABASE: &str = "curfew.db";
/// Less would stop staging after a few hundred jobs.
const MAX_LIVE_BYTES_MIN: u64 = 1 << 20;

const REQUIRE: &[(&str, Require)] =
    &[("none", Require::None), ("process", Require::Process), ("fsync", Require::Fsync), ("replicated", Require::Replicated)];
const QUEUE_TYPE: &[(&str, QueueType)] = &[("quorum", QueueType::Quorum), ("classic", QueueType::Classic)];

/// Reads the three tables; the deployment comes back as the URLs decide it where the verb doesn't.
pub fn read(reader: &mut Reader, deployment: Deployment, data: Option<&Path>) -> (Book, Ledger, Broker, Deployment) {
    let book_url = reader.secret(&["book", "url"]);
    let ledger_url = reader.secret(&["ledger", "url"]);
    let broker_url = reader.secret(&["broker", "url"]);
    let urls = [&book_url, &ledger_url, &broker_url];
    let server = |url: &Option<(Secret, Origin)>| url.as_ref().is_some_and(|(u, _)| u.expose().contains("://"));
    let deployment = match deployment {
        Deployment::AsGiven if urls.into_iter().any(server) => Deployment::Fleet,
        Deployment::AsGiven => Deployment::Embedded,
        Deployment::Embedded | Deployment::Fleet => deployment,
    };
    let book = book(reader, book_url, deployment, data);
    let url = ledger(reader, ledger_url, deployment);
    let ledger = Ledger {
        url,
        shards: reader.or(&["ledger", "shards"], &reader::integer(1..=u32::from(curfew_domain::limits::SHARDS_MAX)), 16) as u8,
        require: reader.or(&["ledger", "require"], &reader::word(REQUIRE, |v| word_of(REQUIRE, v)), Require::Fsync),
        max_live_bytes: reader.or(&["ledger", "max_live_bytes"], &reader::size(MAX_LIVE_BYTES_MIN), 512 << 20),
    };
    let url = broker(reader, broker_url, deployment);
    let queue_type = reader.or(&["broker", "queue_type"], &reader::word(QUEUE_TYPE, |v| word_of(QUEUE_TYPE, v)), QueueType::Quorum);
    (book, ledger, Broker { url, queue_type }, deployment)
}

/// The word of a value in its closed set.
pub fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> String {
    words.iter().find(|(_, v)| v == value).map(|(w, _)| (*w).to_owned()).unwrap_or_default()
}

fn book(reader: &mut Reader, url: Option<(Secret, Origin)>, deployment: Deployment, data: Option<&Path>) -> Book {
    let folder = data.map_or_else(|| PathBuf::from(DATA_DEFAULT), Path::to_owned);
    let of_folder = Book::Sqlite { file: folder.join(DATABASE), data: folder.clone() };
    let Some((url, origin)) = url else {
        match deployment {
            Deployment::Fleet => missing(reader, "book.url", "\"postgres://…\" or \"sqlite:FILE\""),
            Deployment::Embedded | Deployment::AsGiven => {
                let of = if data.is_some() { Origin::Flag("--data") } else { Origin::Default };
                reader.note(&["book", "url"], format!("sqlite:{}", folder.join(DATABASE).display()), of);
            }
        }
        return of_folder;
    };
    let text = url.expose();
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        if deployment == Deployment::Embedded {
            server_in_up(reader, "book.url", &url, &origin);
        }
        return Book::Postgres(url);
    }
    let Some(file) = text.strip_prefix("sqlite:").map(|f| f.strip_prefix("//").unwrap_or(f)).filter(|f| !f.is_empty()) else {
        wrong(reader, "book.url", &url, origin, "allowed: \"postgres://…\" or \"sqlite:FILE\"");
        return of_folder;
    };
    let file = PathBuf::from(file);
    if data.is_some() && !same_file(&file, &folder.join(DATABASE)) {
        let says = format!("names another file than --data, which means sqlite:{}", folder.join(DATABASE).display());
        wrong(reader, "book.url", &url, origin, &says);
    }
    let data = file.parent().filter(|p| !p.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_owned);
    Book::Sqlite { file, data }
}

/// Whether two paths mean one file, which may not be there yet.
fn same_file(a: &Path, b: &Path) -> bool {
    let whole = |p: &Path| {
        let absolute = std::path::absolute(p).unwrap_or_else(|_| p.to_owned());
        absolute
            .parent()
            .and_then(|parent| parent.canonicalize().ok())
            .map_or(absolute.clone(), |parent| parent.join(p.file_name().unwrap_or_default()))
    };
    whole(a) == whole(b)
}

fn ledger(reader: &mut Reader, url: Option<(Secret, Origin)>, deployment: Deployment) -> LedgerUrl {
    const ALLOWED: &str = "\"redis://…\", \"rediss://…\", \"redis+sentinel://…\", \"redis+cluster://…\" or \"sqlite\"";
    let Some((url, origin)) = url else {
        match deployment {
            Deployment::Fleet => missing(reader, "ledger.url", ALLOWED),
            Deployment::Embedded | Deployment::AsGiven => reader.note(&["ledger", "url"], "sqlite".into(), Origin::Default),
        }
        return LedgerUrl::Sqlite;
    };
    if url.expose() == "sqlite" {
        return LedgerUrl::Sqlite;
    }
    if !["redis://", "rediss://", "redis+sentinel://", "redis+cluster://"].iter().any(|s| url.expose().starts_with(s)) {
        wrong(reader, "ledger.url", &url, origin, &format!("allowed: {ALLOWED}"));
        return LedgerUrl::Sqlite;
    }
    if deployment == Deployment::Embedded {
        server_in_up(reader, "ledger.url", &url, &origin);
    }
    LedgerUrl::Redis(url)
}

fn broker(reader: &mut Reader, url: Option<(Secret, Origin)>, deployment: Deployment) -> BrokerUrl {
    const ALLOWED: &str = "\"amqp://…\", \"amqps://…\" or \"in-process\"";
    let Some((url, origin)) = url else {
        match deployment {
            Deployment::Fleet => missing(reader, "broker.url", ALLOWED),
            Deployment::Embedded | Deployment::AsGiven => reader.note(&["broker", "url"], "in-process".into(), Origin::Default),
        }
        return BrokerUrl::InProcess;
    };
    if url.expose() == "in-process" {
        return BrokerUrl::InProcess;
    }
    if !["amqp://", "amqps://"].iter().any(|s| url.expose().starts_with(s)) {
        wrong(reader, "broker.url", &url, origin, &format!("allowed: {ALLOWED}"));
        return BrokerUrl::InProcess;
    }
    if deployment == Deployment::Embedded {
        server_in_up(reader, "broker.url", &url, &origin);
    }
    BrokerUrl::Amqp(url)
}

fn missing(reader: &mut Reader, key: &str, allowed: &str) {
    let path: Vec<&str> = key.split('.').collect();
    reader.refuse(&path, format!("is missing; a fleet needs it. Allowed: {allowed}"));
}

fn server_in_up(reader: &mut Reader, key: &str, url: &Secret, origin: &Origin) {
    wrong(reader, key, url, origin.clone(), "names a server; `curfew up` keeps its own stores. Use `curfew run` with this configuration");
}

fn wrong(reader: &mut Reader, key: &str, url: &Secret, origin: Origin, says: &str) {
    let value = Some(format!("{:?}", without_password(url.expose())));
    reader.faults.push(Fault { origin, key: key.to_owned(), value, says: says.to_owned() });
}
