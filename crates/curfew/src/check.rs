//! `curfew check`: reaches every service, says what is in the way, changes nothing.

mod embedded;

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::Moment;
use serde_json::{Value, json};

use crate::config::{Book, Config, TransportKind};
use crate::exit::{Ended, Exit, Failure};
use crate::up::roles;
use crate::wire::{self, Found as Line};

/// The longest that one service may take.
const PROBE_MAX: Duration = Duration::from_secs(20);

/// Looks at everything; exit 1 if anything is in the way. `audit`: compares book and ledger too, embedded on a folder that nobody has open.
///
/// # Errors
/// `not_yet`, where an audit meets a running process.
pub async fn check(config: &Config, audit: bool, json: bool) -> Ended {
    if !json {
        println!("configuration: {}", config.file.as_ref().map_or_else(|| "defaults (no --config)".to_owned(), |file| file.display().to_string()));
    }
    let mut lines = Vec::new();
    let durability = match &config.book {
        Book::Sqlite { file, data } => {
            lines.extend([embedded::folder(data), embedded::durability(config, file)]);
            BTreeMap::from([("book", "fsync"), ("ledger", "fsync"), ("broker", "none")])
        }
        Book::Postgres(_) => {
            let survey = wire::survey(config).await;
            lines.extend(survey.found);
            survey.durability
        }
    };
    content(config, &mut lines);
    transports(config, &mut lines).await;
    if audit {
        lines.push(audited(config).await?);
    }
    let ok = lines.iter().all(|line| line.ok);
    print(&lines, ok, &durability, json);
    Ok(if ok { Exit::Done } else { Exit::Refused })
}

fn content(config: &Config, lines: &mut Vec<Line>) {
    let templates = wire::templates(config);
    lines.push(Line {
        what: format!("templates {}", config.templates.dir.display()),
        ok: templates.is_ok(),
        says: templates.map_or_else(|e| e.to_string(), |t| format!("{} loaded", t.list().count())),
    });
    let artifacts = wire::artifacts(config);
    lines.push(Line {
        what: format!("artifacts {}", config.artifacts.roots.join(", ")),
        ok: artifacts.is_ok(),
        says: artifacts.map_or_else(|e| e.to_string(), |_| "roots are there".to_owned()),
    });
    lines.push(Line { what: "zone data".to_owned(), ok: true, says: curfew_content::Zones::load().version().to_owned() });
}

/// Each mail server is spoken to as far as the login, without a job.
async fn transports(config: &Config, lines: &mut Vec<Line>) {
    for (name, transport) in &config.transports {
        let what = format!("transport {name}");
        let line = match &transport.kind {
            TransportKind::Capture => Line { what, ok: true, says: "captures into mail/*.eml".to_owned() },
            TransportKind::Smtp(smtp) => match wire::smtp(smtp) {
                Err(error) => Line { what, ok: false, says: error.to_string() },
                Ok(reached) => match tokio::time::timeout(PROBE_MAX, reached.probe()).await {
                    Ok(Ok(())) => Line { what, ok: true, says: format!("{}:{} answers, the login works", smtp.host, smtp.port) },
                    Ok(Err(outcome)) => Line { what, ok: false, says: format!("{} at {}: {}", outcome.class, outcome.stage, outcome.diagnostic) },
                    Err(_late) => Line { what, ok: false, says: "no answer in time".to_owned() },
                },
            },
        };
        lines.push(line);
    }
}

async fn audited(config: &Config) -> Result<Line, Failure> {
    let opened = match &config.book {
        Book::Sqlite { .. } => wire::embedded(config).await,
        Book::Postgres(_) => wire::fleet(config).await,
    };
    let parts = opened.map_err(|error| match error {
        wire::WireError::Locked(_) => Failure::not_yet(format!("{error}; an audit needs the folder for itself (a running process audits by itself)")),
        wire::WireError::Other(says) => Failure::usage(says),
    })?;
    let (ports, settings) = roles::scheduler_parts(&parts, config);
    let audited =
        curfew_scheduler::audit_until(&ports, &settings, Moment::from_millis(i64::MAX)).await.map_err(|e| Failure::refused(e.to_string()))?;
    parts.stores.close().await.map_err(|e| Failure::refused(e.to_string()))?;
    let findings: Vec<_> = audited.findings.iter().map(|f| format!("{}: {}", f.key, f.seen)).collect();
    let says = format!(
        "{} rows, {} records, {} repairs, {} findings {}",
        audited.rows,
        audited.records,
        audited.repairs,
        findings.len(),
        findings.join("; ")
    );
    Ok(Line { what: "audit".to_owned(), ok: findings.is_empty(), says: says.trim_end().to_owned() })
}

fn print(lines: &[Line], ok: bool, durability: &BTreeMap<&str, &str>, json: bool) {
    if json {
        let checks: Vec<Value> = lines.iter().map(|l| json!({"check": l.what, "ok": l.ok, "detail": l.says})).collect();
        println!("{}", json!({"ok": ok, "checks": checks, "durability": durability}));
        return;
    }
    for line in lines {
        println!("{}  {}: {}", if line.ok { "ok  " } else { "FAIL" }, line.what, line.says);
    }
}
