//! Where deliveries wait whose tenant has all the jobs in flight that it may have.
//!
//! They wait here, with neither a slot nor a claim: given back at once they would come again after a second, in a burst of which one finds a
//! place. One of a tenant looks at a time; it looks again when a job of that tenant ends here, and now and then for those that end elsewhere.
//! What waits takes at most half of a shard's prefetch, and none of its last quarter: so other tenants' wake-ups come past it, however many run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::Shard;
use tokio::sync::{Mutex as FairMutex, Notify, OwnedMutexGuard};
use tokio::time::{Instant, timeout, timeout_at};

/// How often the first one looks for places that another worker's jobs left.
const LOOK: Duration = Duration::from_millis(100);

/// All tenants' turns.
#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Default)]
struct State {
    tenants: BTreeMap<String, (usize, Arc<Turn>)>,
    shards: BTreeMap<Shard, Places>,
}

/// What of a shard's prefetch is taken.
#[derive(Clone, Copy, Default)]
struct Places {
    /// By deliveries that aren't answered yet, those that wait among them.
    in_hand: usize,
    /// By those that wait.
    waiting: usize,
}

/// One tenant's: in the order in which they came.
#[derive(Default)]
pub(crate) struct Turn {
    first: Arc<FairMutex<()>>,
    freed: Notify,
}

/// A delivery that isn't answered yet, until it is dropped.
pub(crate) struct InHand<'a> {
    turns: &'a Turns,
    shard: Shard,
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

    /// Counts a delivery of a shard while it is in hand.
    pub(crate) fn in_hand(&self, shard: Shard) -> InHand<'_> {
        self.state().shards.entry(shard).or_default().in_hand += 1;
        InHand { turns: self, shard }
    }

    /// A place among those that wait, of `max` for the tenant and half of the shard's prefetch; `None`: there is none, or three quarters of the
    /// prefetch are in hand.
    pub(crate) fn join(&self, tenant: &str, shard: Shard, max: u64, prefetch: u16) -> Option<InLine<'_>> {
        let mut state = self.state();
        let of_tenant = state.tenants.get(tenant).map_or(0, |(count, _)| *count);
        let (places, prefetch) = (state.shards.entry(shard).or_default(), usize::from(prefetch));
        if of_tenant as u64 >= max || places.waiting >= prefetch / 2 || places.in_hand > prefetch * 3 / 4 {
            return None;
        }
        places.waiting += 1;
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
    /// Returns when it is its turn, and nobody else of this tenant looks meanwhile; `false`: it wasn't by `until`. The one in front may wait for a
    /// slot of another transport.
    pub(crate) async fn be_first(&mut self, until: Instant) -> bool {
        if self.first.is_none() {
            self.first = timeout_at(until, Arc::clone(&self.turn.first).lock_owned()).await.ok();
        }
        self.first.is_some()
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
        if let Some(places) = state.shards.get_mut(&self.shard) {
            places.waiting -= 1;
        }
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if let Some(places) = self.turns.state().shards.get_mut(&self.shard) {
            places.in_hand -= 1;
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

    /// Sixteen that ran and sixteen that waited were the whole prefetch of 32.
    #[test]
    fn nobody_waits_in_the_last_quarter_of_a_shards_prefetch() {
        let turns = Turns::default();
        let mut running: Vec<_> = (0..6).map(|_| turns.in_hand(Shard(1))).collect();
        assert!(turns.join("acme", Shard(1), 3, 8).is_some());
        running.push(turns.in_hand(Shard(1)));
        assert!(turns.join("acme", Shard(1), 3, 8).is_none());
        assert!(turns.join("acme", Shard(2), 3, 8).is_some(), "each shard by itself");
        running.pop();
        assert!(turns.join("acme", Shard(1), 3, 8).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_waited_for_until_a_moment() {
        let turns = Turns::default();
        let [mut first, mut second] = [(); 2].map(|()| turns.join("acme", Shard(1), 3, 8).expect("a place"));
        let until = Instant::now() + Duration::from_secs(5);
        assert!(first.be_first(until).await);
        assert!(!second.be_first(until).await, "the first one is still there");
        assert_eq!(Instant::now(), until);
        drop(first);
        assert!(second.be_first(until + LOOK).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_hears_of_a_place_that_is_free() {
        let turns = Turns::default();
        let mut place = turns.join("acme", Shard(1), 3, 8).expect("a place");
        assert!(place.be_first(Instant::now() + LOOK).await);
        turns.freed("acme");
        let began = Instant::now();
        place.freed().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "also where it was told before");
        place.freed().await;
        assert_eq!(began.elapsed(), LOOK, "and looks by itself");
    }
}
