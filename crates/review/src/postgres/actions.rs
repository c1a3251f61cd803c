//! The other human work on an item: correct, suppress, escalate, assign, note, resolve. Each is one transaction, audited.

use std::collections::BTreeMap;

use curfew_book::judge::{self, ItemFate, Opening};
use curfew_book::postgres::items::{Circumstances, carry_out, note};
use curfew_book::postgres::rows::text;
use curfew_book::postgres::{Halt, Locked, audit, save_histories, save_rows, write};
use curfew_book::{BookError, EvidenceTaken};
use curfew_domain::Moment;
use curfew_store::{Durability, Postgres, StoreError};
use sqlx::PgConnection;

use super::items::{LockedItem, lock};
use crate::act::{self, Act};
use crate::{Correction, Item, ReviewError};

pub(super) async fn correct(store: &Postgres, correction: Correction) -> Result<(), ReviewError> {
    let act = Act::of(&correction).reasoned()?;
    write(store, Durability::Disk, "correct", (act, correction), |conn, (act, correction)| Box::pin(corrected(conn, act, correction))).await
}

async fn corrected(conn: &mut PgConnection, act: &Act, correction: &Correction) -> Result<(), Halt> {
    let item = lock(conn, act.item).await?.open("correction")?;
    let mut locked = dead_letter(&item.item, item.row)?;
    let job = &locked.row.job;
    let (id, revision) = (job.id.as_bytes().to_vec(), job.content_revision + 1);
    let (recipient, masked) = correction.recipient.clone().unwrap_or_else(|| (job.recipient_ref.clone(), job.recipient_masked.clone()));
    let failed = StoreError::asking("correct");
    let query = sqlx::query(include_str!("queries/correct_letter.sql")).bind(id.as_slice()).bind(correction.letter.as_bytes());
    query.execute(&mut *conn).await.map_err(failed)?;
    let query = sqlx::query(include_str!("queries/correct_job.sql"))
        .bind(id.as_slice())
        .bind(revision.cast_signed())
        .bind(recipient.0.as_str())
        .bind(text(&masked));
    query.execute(&mut *conn).await.map_err(failed)?;
    let query = sqlx::query(include_str!("queries/correct_item.sql")).bind(item.n).bind(recipient.0.as_str()).bind(text(&masked));
    query.execute(&mut *conn).await.map_err(failed)?;
    if correction.forget_pins {
        locked.row.pins.clear();
        save_rows(conn, &[&locked]).await?;
    }
    remark(conn, act, item.n, &format!("corrected to revision {revision}: {}", act.reason)).await?;
    let detail = serde_json::json!({
        "content_revision": revision,
        "recipient_changed": correction.recipient.is_some(),
        "pins_forgotten": correction.forget_pins,
    });
    trail(conn, act, "correct", detail).await
}

pub(super) async fn suppress(store: &Postgres, act: Act) -> Result<(), ReviewError> {
    write(store, Durability::Disk, "suppress", act.reasoned()?, |conn, act| Box::pin(suppressed(conn, act))).await
}

async fn suppressed(conn: &mut PgConnection, act: &Act) -> Result<(), Halt> {
    let item = lock(conn, act.item).await?.open("suppression")?;
    if item.row.is_none() {
        close(conn, item.n, act).await?;
        return trail(conn, act, "suppress", serde_json::json!({})).await;
    }
    let mut locked = dead_letter(&item.item, item.row)?;
    let request = act.suppress(&locked.row);
    let Opening::Applied(fate) = judge::ask(&mut locked.row, &request) else {
        return Err(BookError::Conflict(format!("the job is {}", locked.row.state.word())).into());
    };
    end_job(conn, &mut locked, &fate, act).await?;
    trail(conn, act, "suppress", serde_json::json!({ "key": request.key.as_str() })).await
}

pub(super) async fn resolve(store: &Postgres, act: Act, receipt: Option<String>) -> Result<(), ReviewError> {
    write(store, Durability::Disk, "resolve", (act.reasoned()?, receipt), |conn, (act, receipt)| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?.open("resolution")?;
            match receipt {
                Some(text) => accepted_after_all(conn, item, act, text).await?,
                None => close(conn, item.n, act).await?,
            }
            trail(conn, act, "resolve", serde_json::json!({ "receipt": receipt.is_some() })).await
        })
    })
    .await
}

/// An operator's receipt is evidence: it counts where something is in doubt.
async fn accepted_after_all(conn: &mut PgConnection, item: LockedItem, act: &Act, text: &str) -> Result<(), Halt> {
    let no_doubt = || BookError::Invalid { field: "receipt", reason: "nothing of this item is in doubt".to_owned() };
    let mut locked = item.row.ok_or_else(no_doubt)?;
    let evidence = act.receipt(&locked.row, text.to_owned());
    let weighed = judge::weigh(&mut locked.row, item.item.in_doubt, &evidence);
    match weighed.taken {
        EvidenceTaken::Sent => end_job(conn, &mut locked, &weighed.item, act).await,
        EvidenceTaken::DoubtEnded | EvidenceTaken::Known | EvidenceTaken::AskLedger | EvidenceTaken::Unknown | EvidenceTaken::Conflicting => {
            Err(no_doubt().into())
        }
    }
}

pub(super) async fn escalate(store: &Postgres, act: Act, owner: String, due_at: Moment) -> Result<(), ReviewError> {
    write(store, Durability::Disk, "escalate", (act.reasoned()?, owner), move |conn, (act, owner)| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?.open("escalation")?;
            own(conn, item.n, owner, Some(due_at)).await?;
            remark(conn, act, item.n, &format!("escalated to {owner}: {}", act.reason)).await?;
            trail(conn, act, "escalate", serde_json::json!({ "owner": owner, "due_at": due_at.rfc3339() })).await
        })
    })
    .await
}

pub(super) async fn assign(store: &Postgres, act: Act, owner: String) -> Result<(), ReviewError> {
    write(store, Durability::Disk, "assign", (act, owner), |conn, (act, owner)| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?;
            own(conn, item.n, owner, None).await?;
            trail(conn, act, "assign", serde_json::json!({ "owner": owner })).await
        })
    })
    .await
}

pub(super) async fn add_note(store: &Postgres, act: Act, text: String) -> Result<(), ReviewError> {
    write(store, Durability::Disk, "note", (act, text), |conn, (act, text)| {
        Box::pin(async move {
            let item = lock(conn, act.item).await?;
            remark(conn, act, item.n, text).await
        })
    })
    .await
}

async fn own(conn: &mut PgConnection, item: i64, owner: &str, due_at: Option<Moment>) -> Result<(), Halt> {
    let query = sqlx::query(include_str!("queries/owner.sql")).bind(item).bind(text(owner)).bind(due_at.map(Moment::as_millis));
    Ok(query.execute(conn).await.map(drop).map_err(StoreError::asking("give an item an owner"))?)
}

/// The item alone is done; its job, if there is one, stays a dead letter.
async fn close(conn: &mut PgConnection, item: i64, act: &Act) -> Result<(), Halt> {
    let query = sqlx::query(include_str!("queries/resolve.sql")).bind(item).bind(act.at.as_millis());
    query.execute(&mut *conn).await.map_err(StoreError::asking("resolve"))?;
    remark(conn, act, item, &format!("resolved: {}", act.reason)).await
}

fn dead_letter(item: &Item, row: Option<Locked>) -> Result<Locked, BookError> {
    let locked = row.ok_or_else(|| BookError::Conflict("the item names no job".to_owned()))?;
    act::dead_letter(item, &locked.row)?;
    Ok(locked)
}

async fn end_job(conn: &mut PgConnection, locked: &mut Locked, fate: &ItemFate, act: &Act) -> Result<(), Halt> {
    let owners = BTreeMap::new();
    carry_out(conn, locked, fate, &Circumstances { owners: &owners, record: None, actor: &act.actor, at: act.at }).await?;
    save_rows(conn, &[locked]).await?;
    Ok(save_histories(conn, &[locked]).await?)
}

async fn trail(conn: &mut PgConnection, act: &Act, action: &str, detail: serde_json::Value) -> Result<(), Halt> {
    let (object, detail) = (act.item.hyphenated().to_string(), detail.to_string());
    audit::append(conn, audit::Entry { at: act.at, actor: &act.actor, action, object: &object, reason: &act.reason, detail: &detail }).await
}

async fn remark(conn: &mut PgConnection, act: &Act, item: i64, text: &str) -> Result<(), Halt> {
    note(conn, item, act.at, &act.actor, text).await
}
