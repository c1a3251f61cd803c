//! Stories reach the book: one guarded transaction, few statements however many stories (K3, K4, R1, R2).

use std::collections::{BTreeMap, HashMap};

use curfew_domain::{JobId, Key, Moment};
use curfew_store::{Durability, Postgres, StoreError};
use sqlx::PgConnection;

use super::Halt;
use super::items::{self, Circumstances};
use super::recovery::guard;
use super::rows::{Locked, lock_rows, save_histories, save_rows};
use super::transact::write;
use crate::judge::recovery::BegunIn;
use crate::judge::{ItemFate, tell};
use crate::{BookError, Story, Told};

/// Tells the book stories of ended records; dead letters become review items, owned by their reason's owner.
///
/// # Errors
/// `BookError` for all: nothing is known; repeating is safe.
pub async fn tell_stories(store: &Postgres, stories: Vec<Story>, owners: BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, BookError> {
    if stories.is_empty() {
        return Ok(Vec::new());
    }
    write(store, Durability::Disk, "tell stories", (stories, owners), move |conn, (stories, owners)| Box::pin(told(conn, stories, owners, at))).await
}

async fn told(conn: &mut PgConnection, stories: &[Story], owners: &BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, Halt> {
    guard(conn, &BegunIn::of_stories(stories)).await?;
    let mut rows: HashMap<Key, (Locked, bool)> =
        lock_rows(conn, stories.iter().map(|s| &s.record.key)).await?.into_iter().map(|l| (l.row.job.key.clone(), (l, false))).collect();
    let mut answers = Vec::with_capacity(stories.len());
    for story in stories {
        let Some((locked, dirty)) = rows.get_mut(&story.record.key) else {
            answers.push(Told::Unknown);
            continue;
        };
        if !story.record.verbs.is_empty() {
            apply_verbs(conn, locked.row.job.id, &story.record.verbs, at).await?;
        }
        let telling = tell(&mut locked.row, story);
        answers.push(telling.told);
        *dirty |= telling.changed;
        if telling.item != ItemFate::Keep {
            let with = Circumstances { owners, record: Some(&story.record), actor: "curfew", at };
            items::carry_out(conn, locked, &telling.item, &with).await?;
        }
    }
    let changed: Vec<&Locked> = rows.values().filter(|(_, dirty)| *dirty).map(|(locked, _)| locked).collect();
    save_rows(conn, &changed).await?;
    save_histories(conn, &changed).await?;
    Ok(answers)
}

/// Who swapped closes a verb's row as applied, even over a refusal.
async fn apply_verbs(conn: &mut PgConnection, job: JobId, numbers: &[u64], at: Moment) -> Result<(), StoreError> {
    let numbers: Vec<i64> = numbers.iter().map(|number| number.cast_signed()).collect();
    let apply = sqlx::query(include_str!("queries/apply_verbs.sql")).bind(numbers).bind(job.as_bytes().as_slice()).bind(at.as_millis());
    apply.execute(conn).await.map(drop).map_err(StoreError::asking("close applied verbs"))
}
