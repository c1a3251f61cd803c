//! What holds jobs back (pauses, cool-downs, open circuits, rates), and the heartbeat that this store keeps of the book.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use curfew_domain::Moment;
use curfew_domain::record::WaitingFor;
use curfew_store::{Durability, Queue, Sqlite, StoreError};

use super::read::during;
use super::{Memory, failed};
use crate::{Beat, Hold, Holds, LedgerError, permits_kept};

const SET_HOLD: &str = include_str!("queries/set_hold.sql");
const DELETE_HOLD: &str = include_str!("queries/delete_hold.sql");
const HOLDS: &str = include_str!("queries/holds.sql");
const BEAT: &str = include_str!("queries/beat.sql");
const LAST_BEAT: &str = include_str!("queries/last_beat.sql");

/// Reads what stood at the last stop.
pub(super) async fn load(store: &Sqlite) -> Result<Holds, LedgerError> {
    let found: Vec<(String, String, String, Option<i64>)> = sqlx::query_as(HOLDS).fetch_all(store.read()).await.map_err(during("holds"))?;
    let known = found.into_iter().map(|(kind, name, waits, until)| {
        let hold = Hold::from_parts(&kind, &name).zip(WaitingFor::from_word(&waits));
        // A hold that this process can't read holds all the same: it stops instead of sending past it.
        let (hold, waits) = hold.ok_or_else(|| LedgerError::Store("a hold that this process doesn't know".to_owned()))?;
        Ok((hold, (waits, until.map(Moment::from_millis))))
    });
    known.collect()
}

pub(super) async fn set(store: &Sqlite, memory: &Arc<Memory>, hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> Result<(), LedgerError> {
    let memory = Arc::clone(memory);
    let set = store.write(Queue::Ledger, Durability::Process, move |conn| {
        Box::pin(async move {
            let (kind, name) = hold.parts();
            let query = match by {
                Some((waits, until)) => sqlx::query(SET_HOLD).bind(kind).bind(name).bind(waits.word()).bind(until.map(Moment::as_millis)),
                None => sqlx::query(DELETE_HOLD).bind(kind).bind(name),
            };
            query.execute(conn).await.map_err(StoreError::during("set hold"))?;
            // On the writer, so that memory and table change in the same order.
            let mut holds = memory.holds();
            match by {
                Some(by) => holds.insert(hold, by),
                None => holds.remove(&hold),
            };
            Ok(())
        })
    });
    set.await.map_err(failed("set hold"))
}

/// What is over by itself holds nobody.
pub(super) fn in_force(holds: &Holds, now: Moment) -> Holds {
    let stands = holds.iter().filter(|(_, (_, until))| until.is_none_or(|until| until > now));
    stands.map(|(hold, by)| (hold.clone(), *by)).collect()
}

pub(super) async fn beat(store: &Sqlite, count: u64, at: Moment) -> Result<(), LedgerError> {
    let beaten = store.write(Queue::Ledger, Durability::Process, move |conn| {
        Box::pin(async move {
            let query = sqlx::query(BEAT).bind(count as i64).bind(at.as_millis());
            query.execute(conn).await.map(drop).map_err(StoreError::during("beat"))
        })
    });
    beaten.await.map_err(failed("beat"))
}

pub(super) async fn last_beat(store: &Sqlite) -> Result<Option<Beat>, LedgerError> {
    let found: Option<(i64, i64)> = sqlx::query_as(LAST_BEAT).fetch_optional(store.read()).await.map_err(during("last beat"))?;
    Ok(found.map(|(count, at)| Beat { count: count as u64, at: Moment::from_millis(at) }))
}

/// Token buckets by transport. In memory: a restart gives a full bucket anew.
#[derive(Default)]
pub(super) struct Buckets(HashMap<String, Bucket>);

struct Bucket {
    permits: f64,
    at: Moment,
}

impl Buckets {
    /// Up to `n` whole permits; and when to ask again: now, or when the next one is there.
    pub(super) fn take(&mut self, name: &str, per_second: f64, n: u32, now: Moment) -> (u32, Moment) {
        // Also what isn't a number: a rate of nothing gives nothing, and is asked again after a second.
        if per_second.is_nan() || per_second <= 0.0 {
            return (0, now.plus(Duration::from_secs(1)));
        }
        let full = permits_kept(per_second);
        let bucket = self.0.entry(name.to_owned()).or_insert(Bucket { permits: full, at: now });
        bucket.permits = (bucket.permits + now.since(bucket.at).as_secs_f64() * per_second).min(full);
        // Also backwards: a clock that was set back by an hour must not stop a transport for one.
        bucket.at = now;
        // What is short of a whole one by less than rounding is whole: it comes when it was promised.
        let given = (bucket.permits + 1e-9).floor().min(f64::from(n));
        bucket.permits -= given;
        let missing_ms = ((1.0 - bucket.permits) / per_second * 1000.0 - 1e-6).ceil().clamp(1.0, 3_600_000.0);
        (given as u32, if given > 0.0 || n == 0 { now } else { now.plus(Duration::from_millis(missing_ms as u64)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_come_at_their_rate_and_at_most_a_quarter_of_a_second_at_once() {
        let mut buckets = Buckets::default();
        let at = Moment::from_millis;
        assert_eq!(buckets.take("smtp", 12.0, 50, at(0)), (3, at(0)), "a quarter of a second's worth");
        assert_eq!(buckets.take("smtp", 10.0, 1, at(0)), (0, at(100)), "the next in a tenth of a second");
        assert_eq!(buckets.take("other", 10.0, 1, at(0)).0, 1, "each transport by itself");
        assert_eq!(buckets.take("smtp", 10.0, 50, at(200)).0, 2);
        assert_eq!(buckets.take("smtp", 12.0, 50, at(60_500)).0, 3, "idle time doesn't pile up");
        assert_eq!(buckets.take("slow", 0.1, 1, at(0)).0, 1);
        assert_eq!(buckets.take("slow", 0.1, 1, at(0)), (0, at(9_900)));
        assert_eq!(buckets.take("none", 0.0, 1, at(0)).0, 0);
    }

    /// At three a second the next one was promised for 333 ms later, and wasn't there.
    #[test]
    fn a_permit_is_there_when_it_was_promised() {
        for rate in [0.3, 0.7, 3.0, 7.0, 30.0, 999.0] {
            let mut buckets = Buckets::default();
            let mut now = Moment::from_millis(0);
            for _ in 0..2_000 {
                let (given, again) = buckets.take("smtp", rate, 1, now);
                let (later, _) = if given == 0 { buckets.take("smtp", rate, 1, again) } else { (given, now) };
                assert_eq!(later, 1, "{rate} a second, asked again {:?} later", again.since(now));
                now = now.max(again);
            }
        }
    }

    /// A clock set back by an hour gave no permit until it had caught up.
    #[test]
    fn a_clock_that_is_set_back_stops_no_rate() {
        let mut buckets = Buckets::default();
        let at = Moment::from_millis;
        assert_eq!(buckets.take("smtp", 12.0, 50, at(3_600_000)).0, 3);
        assert_eq!(buckets.take("smtp", 10.0, 1, at(0)), (0, at(100)));
        assert_eq!(buckets.take("smtp", 10.0, 1, at(100)).0, 1);
    }
}
