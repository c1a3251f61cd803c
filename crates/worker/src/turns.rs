//! Where deliveries wait whose tenant has all the jobs in flight that it may have.
//!
//! They wait here, with neither a slot nor a claim: given back at once they would come again after a second, in a burst of which one finds a
//! place. One of a tenant looks at a time; it looks again when a job of that tenant ends here, and now and then for those that end elsewhere.
//! What waits takes at most half of a shard's prefetch, so that other tenants' wake-ups come past it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::Shard;
use tokio::sync::{Mutex as FairMutex, Notify, OwnedMutexGuard};
use tokio::time::timeout;

/// How often the first one looks for places that another worker's jobs left.
const LOOK: Duration = Duration::from_millis(100);

/// All tenants' turns.
#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Default)]
struct State {
    tenants: BTreeMap<String, (usize, Arc<Turn>)>,
    shards: BTreeMap<Shard, usize>,
}

/// One tenant's: in the order in which they came.
#[derive(Default)]
pub(crate) struct Turn {
    first: Arc<FairMutex<()>>,
    freed: Notify,
}

/// A delivery that waits, until it is dropped: when its job is claimed.
pub(crate) struct InLine<'a> {
    turns: &'a Turns,
    tenant: String,
    shard: Shard,
    turn: Arc<Turn>,
    first: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Whether somebody waits: whoever comes later goes behind.
    pub(crate) fn has_line(&self, tenant: &str) -> bool {
        self.state().tenants.contains_key(tenant)
    }

    /// A place among those that wait, of `max` for the tenant and `prefetch / 2` for the shard; `None`: there is none.
    pub(crate) fn join(&self, tenant: &str, shard: Shard, max: u64, prefetch: u16) -> Option<InLine<'_>> {
        let mut state = self.state();
        let (of_tenant, of_shard) = (state.tenants.get(tenant).map_or(0, |(count, _)| *count), state.shards.get(&shard).copied().unwrap_or(0));
        if of_tenant as u64 >= max || of_shard >= usize::from(prefetch / 2) {
            return None;
        }
        *state.shards.entry(shard).or_default() += 1;
        let (count, turn) = state.tenants.entry(tenant.to_owned()).or_default();
        *count += 1;
        let turn = Arc::clone(turn);
        Some(InLine { turns: self, tenant: tenant.to_owned(), shard, turn, first: None })
    }

    /// A job of this tenant ended here.
    pub(crate) fn freed(&self, tenant: &str) {
        if let Some((_, turn)) = self.state().tenants.get(tenant) {
            turn.freed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }
}

impl InLine<'_> {
    /// Returns when it is its turn: nobody else of this tenant looks meanwhile.
    pub(crate) async fn be_first(&mut self) {
        if self.first.is_none() {
            self.first = Some(Arc::clone(&self.turn.first).lock_owned().await);
        }
    }

    /// Until a place may be free.
    pub(crate) async fn freed(&self) {
        let _heard_or_not = timeout(LOOK, self.turn.freed.notified()).await;
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        if let Some((count, _)) = state.tenants.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                state.tenants.remove(&self.tenant);
            }
        }
        if let Some(count) = state.shards.get_mut(&self.shard) {
            *count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_takes_what_its_tenant_may_have_and_half_of_the_prefetch() {
        let turns = Turns::default();
        let places: Vec<_> = (0..8).map_while(|_| turns.join("acme", Shard(1), 3, 8)).collect();
        assert_eq!(places.len(), 3, "no more than may run");
        assert!(turns.join("birch", Shard(1), 3, 8).is_some());
        let fourth = turns.join("birch", Shard(1), 3, 8);
        assert!(fourth.is_some() && turns.join("cedar", Shard(1), 3, 8).is_none(), "half of the shard's prefetch is left to others");
        assert!(turns.join("cedar", Shard(2), 3, 8).is_some());
        assert!(turns.has_line("acme"));
        drop(places);
        assert!(!turns.has_line("acme"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_hears_of_a_place_that_is_free() {
        let turns = Turns::default();
        let mut place = turns.join("acme", Shard(1), 3, 8).expect("a place");
        place.be_first().await;
        turns.freed("acme");
        let began = tokio::time::Instant::now();
        place.freed().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "also where it was told before");
        place.freed().await;
        assert_eq!(began.elapsed(), LOOK, "and looks by itself");
    }
}
