//! Brings the topology about, or looks whether it is there.

use lapin::{Channel, Connection};

use super::calls::{self, Failed};
use super::settings::{Management, Times};
use crate::topology::Topology;

/// Declares or verifies all of it; repeating is safe. The first failure closes the channel it happened on, so it ends the round.
pub(super) async fn ensure(connection: &Connection, topology: &Topology, management: Management, times: &Times) -> Result<(), Failed> {
    let channel = calls::channel(connection, times).await?;
    match management {
        Management::Declare => declare(&channel, topology, times).await?,
        Management::Verify => verify(&channel, topology, times).await?,
    }
    calls::close_channel(&channel, times).await
}

async fn declare(channel: &Channel, topology: &Topology, times: &Times) -> Result<(), Failed> {
    for exchange in &topology.exchanges {
        calls::declare_exchange(channel, exchange, false, times).await?;
    }
    for queue in &topology.queues {
        calls::declare_queue(channel, queue, times).await?;
    }
    for binding in &topology.bindings {
        calls::bind(channel, binding, times).await?;
    }
    Ok(())
}

async fn verify(channel: &Channel, topology: &Topology, times: &Times) -> Result<(), Failed> {
    for exchange in &topology.exchanges {
        calls::declare_exchange(channel, exchange, true, times).await?;
    }
    for queue in &topology.queues {
        calls::counts(channel, &queue.name, times).await?;
    }
    Ok(())
}

/// Deletes all of it, with what it holds.
pub(super) async fn remove(connection: &Connection, topology: &Topology, times: &Times) -> Result<(), Failed> {
    let channel = calls::channel(connection, times).await?;
    for queue in &topology.queues {
        calls::delete_queue(&channel, &queue.name, times).await?;
    }
    for exchange in topology.exchanges.iter().rev() {
        calls::delete_exchange(&channel, &exchange.name, times).await?;
    }
    calls::close_channel(&channel, times).await
}
