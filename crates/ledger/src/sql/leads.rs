//! Soft leases in memory: all who may ask are in this process.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use curfew_domain::{Shard, WorkerId};
use tokio::time::Instant;

use crate::lead::{Lead, Standing, Wish};

/// The soft leases of all shards.
#[derive(Default)]
pub(super) struct Leads(Mutex<BTreeMap<Shard, OneShard>>);

#[derive(Default)]
struct OneShard {
    holder: Option<(WorkerId, Instant)>,
    seekers: BTreeMap<WorkerId, Instant>,
}

impl Leads {
    pub(super) fn wish(&self, shard: Shard, who: WorkerId, lease: Duration, wish: Wish) -> Lead {
        let mut all = self.0.lock().expect("no code panics while it holds the leads");
        let (one, now) = (all.entry(shard).or_default(), Instant::now());
        one.holder.take_if(|(_, until)| *until <= now);
        one.seekers.retain(|_, until| *until > now);
        one.seekers.insert(who, now + lease);
        let ours = one.holder.is_some_and(|(holder, _)| holder == who);
        match wish {
            Wish::Lead if ours || one.holder.is_none() => one.holder = Some((who, now + lease)),
            Wish::Lead | Wish::Ask => {}
            Wish::HandBack => one.give_back(who),
            Wish::Leave => {
                one.give_back(who);
                one.seekers.remove(&who);
            }
        }
        let standing = match one.holder {
            Some((holder, _)) if holder == who => Standing::Ours,
            Some(_) => Standing::Anothers,
            None => Standing::Free,
        };
        Lead { standing, seekers: u32::try_from(one.seekers.len()).unwrap_or(u32::MAX) }
    }

    pub(super) fn unled(&self, shards: &[Shard]) -> Vec<Shard> {
        let all = self.0.lock().expect("no code panics while it holds the leads");
        let led = |shard: &Shard| all.get(shard).and_then(|one| one.holder).is_some_and(|(_, until)| until > Instant::now());
        shards.iter().filter(|shard| !led(shard)).copied().collect()
    }
}

impl OneShard {
    fn give_back(&mut self, who: WorkerId) {
        self.holder.take_if(|(holder, _)| *holder == who);
    }
}
