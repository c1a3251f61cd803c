//! The auditor walks the book's ledger-owned rows and the ledger's indexes: each row has a live record, each live record its timer, each
//! counter its recount. It repairs what is safe and counts each repair; what isn't safe becomes a finding. So does what can't be read, by its key and
//! its store and nothing else; it keeps nothing else from being looked at.

use std::time::Duration;

use curfew_book::{BookError, BookState, Planned, WrittenBy};
use curfew_courier::CourierError;
use curfew_domain::form::FormError;
use curfew_domain::{Key, Moment, Reason, Record, State};
use curfew_ledger::LedgerError;
use curfew_review::Quarantined;
use curfew_telemetry::metrics::{self, AuditKind, Store};
use sha2::{Digest, Sha256};

use crate::{Ports, Settings};

const ROWS_MAX: u32 = 500;
const RECORDS_MAX: usize = 500;
/// Rows of a shard that can't be read and are named; a store with more is broken as a whole.
const UNREADABLE_MAX: usize = 1_000;
/// How far ahead a role's own audit looks at planned rows: each of them is looked at on its last day.
const PLANNED_AHEAD: Duration = Duration::from_secs(86_400);

const BOOK_UNREADABLE: &str = "the book's row can't be read";
const BOOK_NEWER: &str = "the book's row can only be read by a newer process";
const LEDGER_UNREADABLE: &str = "the ledger's record can't be read";
const LEDGER_NEWER: &str = "the ledger's record can only be read by a newer process";

/// What an audit saw and did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audited {
    /// Ledger-owned rows looked at.
    pub rows: u64,
    /// Records looked at.
    pub records: u64,
    /// Repairs made, by kind: record, timer, counter, row.
    pub repairs: u64,
    /// What a person must look at.
    pub findings: Vec<AuditFinding>,
}

/// Something that no repair is safe for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditFinding {
    /// Whose: a job's key.
    pub key: String,
    /// What was seen.
    pub seen: &'static str,
}

/// Walks everything once. Repeatable; the roles go on meanwhile.
///
/// # Errors
/// `CourierError`: what was repaired stays repaired.
pub async fn audit(ports: &Ports, settings: &Settings) -> Result<Audited, CourierError> {
    let until = ports.ledger.now().await?.plus(PLANNED_AHEAD);
    audit_until(ports, settings, until).await
}

/// The same, with all planned rows that are released by a moment.
///
/// # Errors
/// `CourierError`: what was repaired stays repaired.
pub async fn audit_until(ports: &Ports, settings: &Settings, until: Moment) -> Result<Audited, CourierError> {
    let mut audited = Audited::default();
    rows(ports, &mut audited).await?;
    unreadable_rows(ports, settings, until, &mut audited).await?;
    records(ports, settings, &mut audited).await?;
    for shard in &settings.shards {
        let mended = ports.ledger.recount(*shard).await?;
        repaired(&mut audited, AuditKind::Counter, mended);
    }
    Ok(audited)
}

/// Each ledger-owned row has a record. A missing one whose release is ahead is staged again; any other is a finding.
async fn rows(ports: &Ports, audited: &mut Audited) -> Result<(), CourierError> {
    let mut after: Option<Key> = None;
    loop {
        let read_at = ports.ledger.now().await?;
        let staged = ports.book.staged_after(after.as_ref(), ROWS_MAX).await?;
        let Some(last) = staged.last() else { return Ok(()) };
        after = Some(last.row.job.key.clone());
        let keys: Vec<Key> = staged.iter().map(|v| v.row.job.key.clone()).collect();
        let stands = stands(ports, &keys).await?;
        audited.rows += keys.len() as u64;
        for (key, _missing) in keys.iter().zip(&stands).filter(|(_, stands)| matches!(stands, Stands::Nothing)) {
            read_past(missing(ports, key, read_at, audited).await)?;
        }
        let closed = stands.into_iter().filter_map(|stands| match stands {
            Stands::Record(record) if record.closed => Some(*record),
            Stands::Record(_) | Stands::Nothing | Stands::Unreadable => None,
        });
        read_past(told_again(ports, closed.collect(), audited).await)?;
    }
}

/// What the ledger has of a job.
enum Stands {
    Record(Box<Record>),
    Nothing,
    Unreadable,
}

/// All at once, and one by one where one of them can't be read.
async fn stands(ports: &Ports, keys: &[Key]) -> Result<Vec<Stands>, LedgerError> {
    let stands = |found: Option<Record>| found.map_or(Stands::Nothing, |record| Stands::Record(Box::new(record)));
    match ports.ledger.records(keys).await {
        Err(LedgerError::Unreadable(_)) => {}
        found => return Ok(found?.into_iter().map(stands).collect()),
    }
    let mut all = Vec::with_capacity(keys.len());
    for key in keys {
        all.push(match ports.ledger.records(std::slice::from_ref(key)).await {
            Err(LedgerError::Unreadable(_)) => Stands::Unreadable,
            found => stands(found?.pop().flatten()),
        });
    }
    Ok(all)
}

/// What can't be read became so in the middle, or by what a light look leaves out: the next audit names it.
fn read_past(done: Result<(), CourierError>) -> Result<(), CourierError> {
    match done {
        Err(CourierError::Book(BookError::Unreadable(_)) | CourierError::Ledger(LedgerError::Unreadable(_))) => Ok(()),
        done => done,
    }
}

/// Planned and staged rows that can't be read: nobody stages or settles them.
async fn unreadable_rows(ports: &Ports, settings: &Settings, until: Moment, audited: &mut Audited) -> Result<(), CourierError> {
    let mut count = 0;
    for shard in &settings.shards {
        for (state, until) in [(BookState::Planned, until), (BookState::Staged, Moment::from_millis(i64::MAX))] {
            let left = ports.book.unreadable_of(*shard, state, until, UNREADABLE_MAX).await?;
            count += left.len() as u64;
            audited.findings.extend(left.into_iter().map(|(key, by)| {
                let seen = match by {
                    WrittenBy::Newer => BOOK_NEWER,
                    WrittenBy::Nobody => BOOK_UNREADABLE,
                };
                AuditFinding { key, seen }
            }));
        }
    }
    metrics::unreadable(Store::Book, count);
    Ok(())
}

/// A closed record whose row is still the ledger's: the book lost the story, and is told it again.
async fn told_again(ports: &Ports, closed: Vec<Record>, audited: &mut Audited) -> Result<(), CourierError> {
    let (mut dead, mut settled) = (Vec::new(), Vec::new());
    for record in closed {
        // Looked at once more: most rows were settled between the two reads.
        let row = match ports.book.by_key(&record.key).await {
            // It stands among the unreadable rows, and keeps no other from being told.
            Err(BookError::Unreadable(_)) => continue,
            row => row?,
        };
        if row.is_some_and(|row| row.state == BookState::Staged && row.generation == record.generation) {
            repaired(audited, AuditKind::Row, 1);
            if record.state == State::DeadLetter { dead.push(record) } else { settled.push(record) }
        }
    }
    let now = ports.ledger.now().await?;
    read_past(curfew_courier::settle(&*ports.ledger, &*ports.book, settled, now).await.map(drop))?;
    curfew_courier::record_dead_letters(&*ports.ledger, &*ports.review, dead, ports.rulebook.owners(), now).await?;
    Ok(())
}

async fn missing(ports: &Ports, key: &Key, read_at: Moment, audited: &mut Audited) -> Result<(), CourierError> {
    let Some(row) = ports.book.by_key(key).await? else { return Ok(()) };
    if row.state != BookState::Staged || ports.ledger.records(std::slice::from_ref(key)).await?.pop().flatten().is_some() {
        return Ok(());
    }
    if row.job.release_at > read_at {
        let begun = curfew_courier::begin(&*ports.ledger, &[row.job.shard]).await?;
        let rows = ports.book.by_key(key).await?.filter(|row| row.state == BookState::Staged).map(|row| Planned { row });
        curfew_courier::stage(&*ports.ledger, &*ports.book, &*ports.review, &ports.rulebook, rows.into_iter().collect(), &begun).await?;
        repaired(audited, AuditKind::Record, 1);
    } else {
        let seen = "the ledger has no record of a staged job whose release has passed";
        ports
            .review
            .quarantine(Quarantined {
                reason: Reason::LedgerRecordMissing,
                key: Some(key.clone()),
                body: None,
                // As the dead-letter consumer makes it, so that both make one item.
                fingerprint: hex::encode(Sha256::digest(key.as_str())),
                diagnostic: seen.to_owned(),
                at: read_at,
            })
            .await?;
        audited.findings.push(AuditFinding { key: key.to_string(), seen });
    }
    Ok(())
}

/// Each live record has its timer, and a scheduled one its place in line.
async fn records(ports: &Ports, settings: &Settings, audited: &mut Audited) -> Result<(), CourierError> {
    let mut unreadable = 0;
    for shard in &settings.shards {
        let mut after: Option<Key> = None;
        loop {
            let page = ports.ledger.walk_past(*shard, after.as_ref(), RECORDS_MAX).await?;
            audited.records += page.records.len() as u64;
            unreadable += page.unreadable.len() as u64;
            audited.findings.extend(page.unreadable.into_iter().map(|(key, error)| {
                let seen = if matches!(error, FormError::Newer(_)) { LEDGER_NEWER } else { LEDGER_UNREADABLE };
                AuditFinding { key: key.to_string(), seen }
            }));
            for (record, timer, line) in &page.records {
                let lacks = record.is_live() && timer.is_none() || record.state == State::Scheduled && line.is_none();
                if lacks && ports.ledger.restore_timer(&record.key).await? {
                    repaired(audited, AuditKind::Timer, 1);
                }
            }
            let Some(next) = page.next else { break };
            after = Some(next);
        }
    }
    metrics::unreadable(Store::Ledger, unreadable);
    Ok(())
}

fn repaired(audited: &mut Audited, kind: AuditKind, count: u64) {
    audited.repairs += count;
    for _ in 0..count {
        metrics::audit_repair(kind);
    }
}
