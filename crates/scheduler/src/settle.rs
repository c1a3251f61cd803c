//! Settle: what ended as sent, cancelled or suppressed is told to the book, then closed.

use curfew_courier::{CourierError, Portion};
use curfew_domain::transition::Index;
use curfew_domain::{Reason, Record, Shard, State};
use curfew_telemetry::metrics;
use tokio::sync::Mutex;

use crate::Ports;
use crate::served::Served;

/// Stories per round and shard.
pub(crate) const STORIES_MAX: usize = 200;

/// One round in one shard; whether more wait. What was sent tells what the shard's queue has served.
pub(crate) async fn step(ports: &Ports, shard: Shard, served: &Mutex<Served>, portion: &Portion) -> Result<bool, CourierError> {
    let now = ports.ledger.now().await?;
    let size = portion.size();
    let records: Vec<Record> = ports.ledger.overdue(shard, Index::Settle, now, size).await?.into_iter().map(|t| t.record).collect();
    let more = records.len() == size;
    learn(&mut *served.lock().await, shard, &records);
    let ended: Vec<_> =
        records.iter().map(|r| (r.state, r.reason, r.deadline_at, r.receipt.as_ref().map(|receipt| receipt.at), r.generation)).collect();
    let closed = portion.learn(curfew_courier::settle(&*ports.ledger, &*ports.book, records, now).await)?;
    for (state, reason, deadline_at, accepted_at, generation) in ended {
        metrics::job_settled(state.word(), reason.unwrap_or(Reason::Accepted));
        // A person's or a list's decision is no missed deadline; a policy's, at the deadline, is one.
        if state == State::Sent || reason == Some(Reason::Policy) || reason == Some(Reason::BusinessDeadlineReached) {
            metrics::deadline_outcome(state == State::Sent && accepted_at.is_some_and(|at| at < deadline_at));
        }
        if state == State::Sent && generation > 1 {
            metrics::replay(metrics::ReplayResult::Sent);
        }
    }
    if closed.kept > 0 {
        tracing::error!(shard = %shard, error_class = "book", "{} ended jobs can't be told to the book; they stay in the ledger", closed.kept);
    }
    Ok(more && closed.closed + closed.kept > 0)
}

/// What ended tells what the shard's queue has served.
fn learn(served: &mut Served, shard: Shard, ended: &[Record]) {
    ended.iter().filter(|record| was_served(record)).for_each(|record| served.ended(shard, &record.key, record.due()));
}

/// Whether a sent job's wake-up was served at its next time. A late verdict ends a job that waits for a retry or a replay: of a time to come
/// no queue has served anything.
fn was_served(record: &Record) -> bool {
    record.state == State::Sent && record.receipt.as_ref().is_some_and(|receipt| record.due() <= receipt.at)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use curfew_book::conformance::given;
    use curfew_domain::Moment;
    use curfew_domain::outcome::Receipt;

    use super::*;

    /// A job whose next time is `due`, ended, accepted at `accepted`.
    fn ended(state: State, due: Moment, accepted: Option<Moment>) -> Record {
        let mut record = given::record(&given::job("acme", 1), 1, 5, state);
        (record.release_at, record.next_attempt_at) = (given::minutes(0), due);
        record.receipt = accepted.map(|at| Receipt { at, code: 250, text: "ok".to_owned(), queue_id: None });
        record
    }

    #[test]
    fn a_wake_up_was_served_where_its_job_was_accepted_at_its_next_time_or_later() {
        let due = given::minutes(60);
        let second = Duration::from_secs(1);
        for (accepted, served) in [(due.minus(second), false), (due, true), (due.plus(second), true)] {
            assert_eq!(was_served(&ended(State::Sent, due, Some(accepted))), served, "{accepted}");
        }
        assert!(!was_served(&ended(State::Sent, due, None)), "without a receipt nobody knows when");
        for state in [State::Cancelled, State::Suppressed, State::DeadLetter] {
            assert!(!was_served(&ended(state, due, Some(due))), "{state}: no queue need have served it");
        }
    }

    /// A retry stood an hour ahead when a late verdict ended it; by its next time alone every wake-up of that hour seemed lost, and was repeated.
    #[test]
    fn a_late_verdict_on_a_retry_that_waits_tells_nothing_of_its_queue() {
        let (shard, mut served) = (Shard(3), Served::default());
        let now = given::minutes(60);
        let in_time = ended(State::Sent, now.minus(Duration::from_secs(30)), Some(now));
        let late = ended(State::Sent, now.plus(Duration::from_secs(3600)), Some(now));
        learn(&mut served, shard, &[in_time.clone(), late]);
        assert_eq!(served.latest(shard), Some(in_time.due()));
    }
}
