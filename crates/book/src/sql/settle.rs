//! Stories reach the book: one guarded transaction, few statements however many stories (K3, K4, R1, R2).

use std::collections::{BTreeMap, HashMap};

use curfew_domain::{Key, Moment};
use curfew_store::{Durability, Queue, Sqlite, StoreError};
use sqlx::SqliteConnection;

use super::items;
use super::recovery::guard;
use super::rows::{Locked, lock_rows, save_histories, save_rows};
use super::transact::{Halt, write};
use crate::judge::recovery::BegunIn;
use crate::judge::{ItemFate, tell};
use crate::{BookError, Story, Told};

/// Tells the book stories of ended records; dead letters become review items, owned by their reason's owner.
///
/// A story lost with the machine is told again, for its record is closed after it: so it doesn't wait for the disk.
///
/// # Errors
/// `BookError` for all: nothing is known; repeating is safe.
pub async fn tell_stories(store: &Sqlite, stories: Vec<Story>, owners: BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, BookError> {
    if stories.is_empty() {
        return Ok(Vec::new());
    }
    write(store, Queue::Ledger, Durability::Process, "tell stories", move |conn| Box::pin(told(conn, stories, owners, at))).await
}

async fn told(conn: &mut SqliteConnection, stories: Vec<Story>, owners: BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, Halt> {
    guard(conn, &BegunIn::of_stories(&stories)).await?;
    let mut rows: HashMap<Key, (Locked, bool)> =
        lock_rows(conn, stories.iter().map(|s| &s.record.key)).await?.into_iter().map(|l| (l.row.job.key.clone(), (l, false))).collect();
    let mut answers = Vec::with_capacity(stories.len());
    for story in &stories {
        let Some((locked, dirty)) = rows.get_mut(&story.record.key) else {
            answers.push(Told::Unknown);
            continue;
        };
        if !story.record.verbs.is_empty() {
            apply_verbs(conn, locked.n, &story.record.verbs, at).await?;
        }
        let telling = tell(&mut locked.row, story);
        answers.push(telling.told);
        *dirty |= telling.changed;
        if telling.item != ItemFate::Keep {
            items::carry_out(
                conn,
                locked,
                &telling.item,
                &items::Circumstances { owners: &owners, record: Some(&story.record), actor: "curfew", at },
            )
            .await?;
        }
    }
    let changed: Vec<&Locked> = rows.values().filter(|(_, dirty)| *dirty).map(|(locked, _)| locked).collect();
    save_rows(conn, &changed).await?;
    save_histories(conn, &changed).await?;
    Ok(answers)
}

/// Who swapped closes a verb's row as applied, even over a refusal.
async fn apply_verbs(conn: &mut SqliteConnection, n: i64, numbers: &[u64], at: Moment) -> Result<(), StoreError> {
    let numbers = serde_json::to_string(numbers).expect("numbers always serialise");
    let apply = sqlx::query(include_str!("queries/apply_verbs.sql")).bind(numbers).bind(n).bind(at.as_millis());
    apply.execute(conn).await.map(drop).map_err(StoreError::during("close applied verbs"))
}
