//! The other human work on an item: correct, suppress, escalate, assign, note, resolve. Each is one transaction, audited.

use std::collections::BTreeMap;

use curfew_book::judge::{self, Opening};
use curfew_book::sql::items::{Circumstances, carry_out, note};
use curfew_book::sql::{Halt, Locked, audit, save_histories, save_rows, write};
use curfew_book::{BookError, EvidenceTaken};
use curfew_domain::Moment;
use curfew_store::{Durability, Queue, Sqlite, StoreError};
use sqlx::SqliteConnection;

use super::items::{LockedItem, lock};
use crate::act::{self, Act};
use crate::{Correction, ReviewError};

impl Act {
    async fn audit(&self, conn: &mut SqliteConnection, action: &str, detail: serde_json::Value) -> Result<(), Halt> {
        let (object, detail) = (self.item.hyphenated().to_string(), detail.to_string());
        audit::append(conn, audit::Entry { at: self.at, actor: &self.actor, action, object: &object, reason: &self.reason, detail: &detail }).await
    }

    async fn note(&self, conn: &mut SqliteConnection, item: &LockedItem, text: &str) -> Result<(), Halt> {
        note(conn, item.n, self.at, &self.actor, text).await
    }
}

pub(super) async fn correct(store: &Sqlite, correction: Correction) -> Result<(), ReviewError> {
    let act = Act::of(&correction).reasoned()?;
    write(store, Queue::Ledger, Durability::Disk, "correct", move |conn| Box::pin(corrected(conn, act, correction))).await
}

async fn corrected(conn: &mut SqliteConnection, act: Act, correction: Correction) -> Result<(), Halt> {
    let item = lock(conn, act.item).await?.open("correction")?;
    let mut locked = dead_letter(conn, &item).await?;
    let revision = locked.row.job.content_revision + 1;
    let job = &locked.row.job;
    let (recipient, masked) = correction.recipient.clone().unwrap_or_else(|| (job.recipient_ref.clone(), job.recipient_masked.clone()));
    let failed = StoreError::during("correct");
    sqlx::query(include_str!("queries/correct_letter.sql"))
        .bind(locked.n)
        .bind(correction.letter.as_bytes())
        .execute(&mut *conn)
        .await
        .map_err(failed)?;
    let query = sqlx::query(include_str!("queries/correct_job.sql")).bind(locked.n).bind(revision).bind(recipient.0.as_str()).bind(masked.as_str());
    query.execute(&mut *conn).await.map_err(failed)?;
    let query = sqlx::query(include_str!("queries/correct_item.sql")).bind(item.n).bind(recipient.0.as_str()).bind(masked.as_str());
    query.execute(&mut *conn).await.map_err(failed)?;
    if correction.forget_pins {
        locked.row.pins.clear();
        save_rows(conn, &[&locked]).await?;
    }
    act.note(conn, &item, &format!("corrected to revision {revision}: {}", act.reason)).await?;
    let detail = serde_json::json!({ "content_revision": revision, "recipient_changed": correction.recipient.is_some(), "pins_forgotten": correction.forget_pins });
    act.audit(conn, "correct", detail).await
}

pub(super) async fn suppress(store: &Sqlite, act: Act) -> Result<(), ReviewError> {
    let act = act.reasoned()?;
    write(store, Queue::Ledger, Durability::Disk, "suppress", move |conn| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?.open("suppression")?;
            if item.job.is_none() {
                close(conn, &item, &act).await?;
                return act.audit(conn, "suppress", serde_json::json!({})).await;
            }
            let mut locked = dead_letter(conn, &item).await?;
            let request = act.suppress(&locked.row);
            let Opening::Applied(fate) = judge::ask(&mut locked.row, &request) else {
                return Err(BookError::Conflict(format!("the job is {}", locked.row.state.word())).into());
            };
            end_job(conn, &mut locked, &fate, &act).await?;
            act.audit(conn, "suppress", serde_json::json!({ "key": request.key.as_str() })).await
        })
    })
    .await
}

pub(super) async fn resolve(store: &Sqlite, act: Act, receipt: Option<String>) -> Result<(), ReviewError> {
    let act = act.reasoned()?;
    write(store, Queue::Ledger, Durability::Disk, "resolve", move |conn| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?.open("resolution")?;
            let by_receipt = receipt.is_some();
            match receipt {
                Some(text) => accepted_after_all(conn, &item, &act, text).await?,
                None => close(conn, &item, &act).await?,
            }
            act.audit(conn, "resolve", serde_json::json!({ "receipt": by_receipt })).await
        })
    })
    .await
}

/// An operator's receipt is evidence: it counts where something is in doubt.
async fn accepted_after_all(conn: &mut SqliteConnection, item: &LockedItem, act: &Act, text: String) -> Result<(), Halt> {
    let no_doubt = || BookError::Invalid { field: "receipt", reason: "nothing of this item is in doubt".to_owned() };
    let mut locked = item.row(conn).await?.ok_or_else(no_doubt)?;
    let evidence = act.receipt(&locked.row, text);
    let weighed = judge::weigh(&mut locked.row, item.item.in_doubt, &evidence);
    match weighed.taken {
        EvidenceTaken::Sent => end_job(conn, &mut locked, &weighed.item, act).await,
        EvidenceTaken::DoubtEnded | EvidenceTaken::Known | EvidenceTaken::AskLedger | EvidenceTaken::Unknown | EvidenceTaken::Conflicting => {
            Err(no_doubt().into())
        }
    }
}

pub(super) async fn escalate(store: &Sqlite, act: Act, owner: String, due_at: Moment) -> Result<(), ReviewError> {
    let act = act.reasoned()?;
    write(store, Queue::Ledger, Durability::Disk, "escalate", move |conn| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?.open("escalation")?;
            own(conn, &item, &owner, Some(due_at)).await?;
            act.note(conn, &item, &format!("escalated to {owner}: {}", act.reason)).await?;
            act.audit(conn, "escalate", serde_json::json!({ "owner": owner, "due_at": due_at.rfc3339() })).await
        })
    })
    .await
}

pub(super) async fn assign(store: &Sqlite, act: Act, owner: String) -> Result<(), ReviewError> {
    write(store, Queue::Ledger, Durability::Disk, "assign", move |conn| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?;
            own(conn, &item, &owner, None).await?;
            act.audit(conn, "assign", serde_json::json!({ "owner": owner })).await
        })
    })
    .await
}

pub(super) async fn add_note(store: &Sqlite, act: Act, text: String) -> Result<(), ReviewError> {
    write(store, Queue::Ledger, Durability::Disk, "note", move |conn| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?;
            act.note(conn, &item, &text).await
        })
    })
    .await
}

async fn own(conn: &mut SqliteConnection, item: &LockedItem, owner: &str, due_at: Option<Moment>) -> Result<(), Halt> {
    let query = sqlx::query(include_str!("queries/owner.sql")).bind(item.n).bind(owner).bind(due_at.map(Moment::as_millis));
    Ok(query.execute(conn).await.map(drop).map_err(StoreError::during("give an item an owner"))?)
}

/// The item alone is done; its job, if there is one, stays a dead letter.
async fn close(conn: &mut SqliteConnection, item: &LockedItem, act: &Act) -> Result<(), Halt> {
    let query = sqlx::query(include_str!("queries/resolve.sql")).bind(item.n).bind(act.at.as_millis());
    query.execute(&mut *conn).await.map_err(StoreError::during("resolve"))?;
    act.note(conn, item, &format!("resolved: {}", act.reason)).await
}

async fn dead_letter(conn: &mut SqliteConnection, item: &LockedItem) -> Result<Locked, Halt> {
    let locked = item.row(conn).await?.ok_or_else(|| BookError::Conflict("the item names no job".to_owned()))?;
    act::dead_letter(&item.item, &locked.row)?;
    Ok(locked)
}

async fn end_job(conn: &mut SqliteConnection, locked: &mut Locked, fate: &judge::ItemFate, act: &Act) -> Result<(), Halt> {
    let owners = BTreeMap::new();
    carry_out(conn, locked, fate, &Circumstances { owners: &owners, record: None, actor: &act.actor, at: act.at }).await?;
    save_rows(conn, &[locked]).await?;
    Ok(save_histories(conn, &[locked]).await?)
}
