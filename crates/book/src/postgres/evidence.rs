//! Evidence where no record stands: one transaction in the book (R6).

use curfew_store::{Durability, Postgres};
use sqlx::PgConnection;

use super::Halt;
use super::items::{self, Circumstances};
use super::rows::{lock_row, save_histories, save_rows};
use super::transact::write;
use crate::judge::{self, evidence_source_word};
use crate::{BookError, Evidence, EvidenceTaken};

/// On the disk before the answer: who brings evidence may forget it then.
pub(super) async fn take(store: &Postgres, evidence: Evidence) -> Result<EvidenceTaken, BookError> {
    write(store, Durability::Disk, "take evidence", evidence, |conn, evidence| Box::pin(taken(conn, evidence))).await
}

async fn taken(conn: &mut PgConnection, evidence: &Evidence) -> Result<EvidenceTaken, Halt> {
    let Some(mut locked) = lock_row(conn, &evidence.key).await? else {
        return Ok(EvidenceTaken::Unknown);
    };
    let in_doubt = match locked.item {
        Some(item) => items::in_doubt(conn, item).await?,
        None => false,
    };
    let weighed = judge::weigh(&mut locked.row, in_doubt, evidence);
    if weighed.changed {
        let owners = std::collections::BTreeMap::new();
        let with = Circumstances { owners: &owners, record: None, actor: evidence_source_word(&evidence.source), at: evidence.at };
        items::carry_out(conn, &mut locked, &weighed.item, &with).await?;
        save_rows(conn, &[&locked]).await?;
        save_histories(conn, &[&locked]).await?;
    }
    Ok(weighed.taken)
}
