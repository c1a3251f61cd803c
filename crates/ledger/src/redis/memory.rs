//! How much memory the servers use for what they hold. A node that doesn't answer counts as the mean of the others: it holds up none of them.

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
        let answers: Vec<Result<u64, LedgerError>> = futures::future::join_all(asked).await;
        let (all, answered) = (answers.len() as u64, answers.iter().filter(|answer| answer.is_ok()).count() as u64);
        let told: u64 = answers.iter().flatten().sum();
        match answers.into_iter().find_map(Result::err) {
            Some(error) if answered == 0 => Err(error),
            Some(_) | None => Ok(if answered == all { told } else { told / answered * all }),
        }
    }
}
