//! Which connection serves a slot: a few lanes to each node, a shard always on the same one.
//!
//! A lane is a pool of one multiplexed connection, lent for the moment it takes to clone it: callers share it, and their commands leave in the
//! order in which they were asked. That keeps swaps of one shard in their callers' order, and a slow answer holds up one lane alone.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use deadpool::Runtime;
use deadpool::managed::{Pool, PoolError, Timeouts};

use super::address::{Address, At, Node};
use super::connect::{Connected, Connector, Patience};
use crate::LedgerError;

type Lanes = HashMap<(Option<Node>, usize), Pool<Connector>>;
type Slots = Arc<Vec<(u16, u16, Node)>>;

/// All connections of a ledger.
pub(super) struct Nodes {
    address: Arc<Address>,
    patience: Patience,
    lanes: Mutex<Lanes>,
    /// A Cluster's primaries; `None` until they are asked for, and again after any doubt.
    slots: Mutex<Option<Slots>>,
    /// One caller asks; the others wait for its answer.
    asking: tokio::sync::Mutex<Connector>,
}

impl Nodes {
    pub(super) fn new(address: Address, patience: Patience) -> Self {
        let address = Arc::new(address);
        let asker = Connector { address: Arc::clone(&address), node: None, patience, turn: AtomicUsize::new(0) };
        Self { address, patience, lanes: Mutex::default(), slots: Mutex::default(), asking: tokio::sync::Mutex::new(asker) }
    }

    /// Which of the three shapes it is.
    pub(super) fn at(&self) -> &At {
        &self.address.at
    }

    /// The connection of a lane to the primary of a slot.
    pub(super) async fn connection(&self, slot: u16, lane: usize) -> Result<Arc<Connected>, LedgerError> {
        let node = self.node_of(slot).await?;
        match self.lane(node, lane).get().await {
            Ok(lent) => Ok(Arc::clone(&lent)),
            Err(error) => {
                self.doubt();
                Err(match error {
                    PoolError::Backend(error) => error,
                    PoolError::Timeout(_) | PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                        LedgerError::Unavailable { operation: "connect" }
                    }
                })
            }
        }
    }

    /// The node that serves a slot; `None` where one server serves all.
    pub(super) async fn node_of(&self, slot: u16) -> Result<Option<Node>, LedgerError> {
        match &self.address.at {
            At::Single(_) | At::Sentinel { .. } => Ok(None),
            At::Cluster(seeds) => self.primary(slot, seeds).await.map(Some),
        }
    }

    /// After a lost connection, a MOVED or a refused identity, a Cluster is asked again who serves what.
    pub(super) fn doubt(&self) {
        *self.slots() = None;
    }

    fn lane(&self, node: Option<Node>, lane: usize) -> Pool<Connector> {
        let mut lanes = self.lanes.lock().expect("no code panics while it holds the lanes");
        let new = |node: Option<Node>| {
            let connector = Connector { address: Arc::clone(&self.address), node, patience: self.patience, turn: AtomicUsize::new(lane) };
            let create = self.patience.connect * 2 + self.patience.response;
            let timeouts = Timeouts { wait: Some(create), create: Some(create), recycle: None };
            Pool::builder(connector).max_size(1).timeouts(timeouts).runtime(Runtime::Tokio1).build().expect("timeouts have their runtime")
        };
        lanes.entry((node.clone(), lane)).or_insert_with(|| new(node)).clone()
    }

    async fn primary(&self, slot: u16, seeds: &[Node]) -> Result<Node, LedgerError> {
        let found = |slots: &Slots| slots.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(_, _, node)| node.clone());
        let unserved = || LedgerError::Unavailable { operation: "connect: nobody serves the slot" };
        let known = self.slots().clone();
        if let Some(slots) = known {
            return found(&slots).ok_or_else(unserved);
        }
        let asker = self.asking.lock().await;
        let known = self.slots().clone();
        let slots = match known {
            Some(slots) => slots,
            None => {
                let slots = Arc::new(asker.slots(&self.known(seeds)).await?);
                *self.slots() = Some(Arc::clone(&slots));
                slots
            }
        };
        let node = found(&slots);
        if node.is_none() {
            self.doubt();
        }
        node.ok_or_else(unserved)
    }

    /// The configured nodes, and those that served since.
    fn known(&self, seeds: &[Node]) -> Vec<Node> {
        let lanes = self.lanes.lock().expect("no code panics while it holds the lanes");
        let mut all = seeds.to_vec();
        for node in lanes.keys().filter_map(|(node, _)| node.as_ref()) {
            if !all.contains(node) {
                all.push(node.clone());
            }
        }
        all
    }

    fn slots(&self) -> MutexGuard<'_, Option<Slots>> {
        self.slots.lock().expect("no code panics while it holds the slots")
    }
}
