//! How much memory the servers use for what they hold.

use super::RedisLedger;
use super::connect::field;
use crate::LedgerError;

impl RedisLedger {
    /// Bytes of all primaries together, without what an empty server takes: everything that is stored there counts, for that is what fills it.
    pub(super) async fn used_bytes(&self) -> Result<u64, LedgerError> {
        let by_node = self.by_node().await?;
        let asked = by_node.iter().map(|(_, shards)| async {
            let conn = self.connection(shards[0]).await?;
            let info: String = conn.query(redis::cmd("INFO").arg("memory")).await.map_err(|error| conn.failed(&error, "memory"))?;
            let bytes = |name| field(&info, name).and_then(|value| value.parse::<u64>().ok());
            let used = bytes("used_memory").ok_or(LedgerError::Unavailable { operation: "memory" })?;
            Ok(used.saturating_sub(bytes("used_memory_startup").unwrap_or(0)))
        });
        futures::future::try_join_all(asked).await.map(|all| all.into_iter().sum())
    }
}
