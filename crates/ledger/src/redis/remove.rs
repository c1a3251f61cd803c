//! Removal of everything under a prefix: a rehearsal's end.

use redis::Cmd;

use super::connect::Connected;
use super::{FLEET_PREFIX, RedisLedger};
use crate::LedgerError;

/// Names that one SCAN looks at: a few milliseconds of the server's one thread.
const LOOKED_AT: u32 = 1_000;
const OPERATION: &str = "remove";

impl RedisLedger {
    /// Deletes every key under this ledger's prefix, on each node, whoever the server is by now; how many there were. Repeating is safe.
    ///
    /// It walks all names of the database, which no errand may do: only for a rehearsal's end.
    ///
    /// # Errors
    /// `Store` under the fleet's own prefix, or under one that a pattern would read otherwise; `Unavailable`: repeat.
    pub async fn remove(&self) -> Result<u64, LedgerError> {
        let prefix = &self.options.prefix;
        let misfit = |what: &str| Err(LedgerError::Store(format!("the ledger's prefix: {what}")));
        if prefix == FLEET_PREFIX {
            return misfit("the fleet's own records are nothing to remove");
        }
        if !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_".contains(&byte)) {
            return misfit("letters, digits, `:`, `-` and `_` alone");
        }
        let (mut removed, mut walked) = (0, Vec::new());
        for shard in self.shards() {
            let conn = self.connection(shard).await?;
            if !walked.contains(&conn.run_id) {
                removed += remove_from(&conn, &format!("{prefix}:*")).await?;
                walked.push(conn.run_id.clone());
            }
        }
        Ok(removed)
    }
}

async fn remove_from(conn: &Connected, pattern: &str) -> Result<u64, LedgerError> {
    let (mut removed, mut cursor) = (0, 0_u64);
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(LOOKED_AT);
        let (next, names): (u64, Vec<Vec<u8>>) = ask(conn, &scan).await?;
        for name in names {
            // One by one: on a Cluster they stand in different slots.
            removed += ask::<u64>(conn, redis::cmd("UNLINK").arg(name)).await?;
        }
        if next == 0 {
            return Ok(removed);
        }
        cursor = next;
    }
}

async fn ask<T: redis::FromRedisValue>(conn: &Connected, cmd: &Cmd) -> Result<T, LedgerError> {
    conn.query(cmd).await.map_err(|error| conn.failed(&error, OPERATION))
}
