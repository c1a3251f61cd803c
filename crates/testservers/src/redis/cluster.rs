//! A Cluster of three primaries; the slots are dealt in three thirds.

use super::{Options, Redis, Resp, reached};

const SLOTS: usize = 16_384;

/// Three processes. Dropping it ends them.
pub struct Cluster {
    /// The nodes, by their slots.
    pub nodes: Vec<Redis>,
}

impl Cluster {
    /// Starts three nodes and waits until each of them says that the Cluster is well.
    ///
    /// # Panics
    /// Where one of them doesn't come up in time.
    pub async fn start(options: Options) -> Self {
        let options = options.with(&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
        let mut nodes = Vec::new();
        for n in 0..3 {
            let node = Redis::start(options.clone()).await;
            let (first, last) = (n * SLOTS / 3, (n + 1) * SLOTS / 3 - 1);
            let dealt = node.ask(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await;
            assert_eq!(dealt, Resp::Text("OK".into()));
            // Each its own, so that no two nodes claim the same.
            node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]).await;
            nodes.push(node);
        }
        let port = nodes[0].addr().port().to_string();
        for node in &nodes[1..] {
            node.ask(&["CLUSTER", "MEET", "127.0.0.1", &port]).await;
        }
        let cluster = Self { nodes };
        cluster.is_well().await;
        cluster
    }

    /// Waits until each node says that all slots are served.
    ///
    /// # Panics
    /// Where one doesn't in time.
    pub async fn is_well(&self) {
        for node in &self.nodes {
            reached("a Cluster that is well", || async {
                let info = node.ask(&["CLUSTER", "INFO"]).await.text();
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            })
            .await;
        }
    }

    /// As a client takes it.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| node.addr().to_string()).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The node that serves a slot.
    pub fn node_of(&self, slot: u16) -> usize {
        (0..3).find(|n| usize::from(slot) < (n + 1) * SLOTS / 3).expect("a slot is below 16,384")
    }
}
