//! The auditor walks the book's ledger-owned rows and the ledger's indexes: each row has a live record, each live record its timer, each
//! counter its recount. It repairs what is safe and counts each repair; what isn't safe becomes a finding.

use curfew_book::{BookState, Planned};
use curfew_courier::CourierError;
use curfew_domain::{Key, Reason, Record, State};
use curfew_review::Quarantined;
use curfew_telemetry::metrics::{self, AuditKind};
use sha2::{Digest, Sha256};

use crate::{Ports, Settings};

const ROWS_MAX: u32 = 500;
const RECORDS_MAX: usize = 500;

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
    /// Whose.
    pub key: Key,
    /// What was seen.
    pub seen: &'static str,
}

/// Walks everything once. Repeatable; the roles go on meanwhile.
///
/// # Errors
/// `CourierError`: what was repaired stays repaired.
pub async fn audit(ports: &Ports, settings: &Settings) -> Result<Audited, CourierError> {
    let mut audited = Audited::default();
    rows(ports, &mut audited).await?;
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
        let records = ports.ledger.records(&keys).await?;
        audited.rows += keys.len() as u64;
        for (key, _missing) in keys.iter().zip(&records).filter(|(_, record)| record.is_none()) {
            missing(ports, key, read_at, audited).await?;
        }
        let closed = records.into_iter().flatten().filter(|record| record.closed).collect();
        told_again(ports, closed, audited).await?;
    }
}

/// A closed record whose row is still the ledger's: the book lost the story, and is told it again.
async fn told_again(ports: &Ports, closed: Vec<Record>, audited: &mut Audited) -> Result<(), CourierError> {
    let (mut dead, mut settled) = (Vec::new(), Vec::new());
    for record in closed {
        // Looked at once more: most rows were settled between the two reads.
        let row = ports.book.by_key(&record.key).await?;
        if row.is_some_and(|row| row.state == BookState::Staged && row.generation == record.generation) {
            repaired(audited, AuditKind::Row, 1);
            if record.state == State::DeadLetter { dead.push(record) } else { settled.push(record) }
        }
    }
    let now = ports.ledger.now().await?;
    curfew_courier::settle(&*ports.ledger, &*ports.book, settled, now).await?;
    curfew_courier::record_dead_letters(&*ports.ledger, &*ports.review, dead, ports.rulebook.owners(), now).await?;
    Ok(())
}

async fn missing(ports: &Ports, key: &Key, read_at: curfew_domain::Moment, audited: &mut Audited) -> Result<(), CourierError> {
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
        audited.findings.push(AuditFinding { key: key.clone(), seen });
    }
    Ok(())
}

/// Each live record has its timer, and a scheduled one its place in line.
async fn records(ports: &Ports, settings: &Settings, audited: &mut Audited) -> Result<(), CourierError> {
    for shard in &settings.shards {
        let mut after: Option<Key> = None;
        loop {
            let page = ports.ledger.walk(*shard, after.as_ref(), RECORDS_MAX).await?;
            let Some((last, _, _)) = page.last() else { break };
            after = Some(last.key.clone());
            audited.records += page.len() as u64;
            for (record, timer, line) in &page {
                let lacks = record.is_live() && timer.is_none() || record.state == State::Scheduled && line.is_none();
                if lacks && ports.ledger.restore_timer(&record.key).await? {
                    repaired(audited, AuditKind::Timer, 1);
                }
            }
        }
    }
    Ok(())
}

fn repaired(audited: &mut Audited, kind: AuditKind, count: u64) {
    audited.repairs += count;
    for _ in 0..count {
        metrics::audit_repair(kind);
    }
}
