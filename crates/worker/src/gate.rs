//! What stands before a claim: holds, the transport's rate and window, the tenant's rate. A limit gives the job back, no attempt used.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use curfew_courier::held;
use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Record};
use curfew_ledger::{Hold, Holds, LedgerError};
use tokio::time::Instant;

use crate::lane::{Entry, Lane};
use crate::run::Worker;

/// How soon a job that a pause, a circuit or a full window gave back looks again, where nothing says better.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How soon a job looks again that found the window after a throttle full.
const WINDOW_AGAIN: Duration = Duration::from_secs(1);
/// What a worker takes of a rate at a time, in seconds of it, at least one permit: ten workers that use what they took late stay within a
/// fiftieth of ten seconds' worth.
const TAKEN_S: f64 = 0.02;
/// The farthest place that a job gets behind others at a rate: rates change, and so do holds.
const SPACED_MAX: Duration = Duration::from_secs(30);

/// The answer.
pub(crate) enum Gate {
    /// The claim may be tried; the lane was entered. These recipients' domains cool down.
    Open(Cooling),
    /// Give back: which limit, and not before.
    Limited(WaitingFor, Moment),
}

/// Recipients' domains that cool down, and until when. The recipient is sealed: whoever opens the letter looks here.
#[derive(Default)]
pub(crate) struct Cooling(BTreeMap<String, Moment>);

impl Cooling {
    fn of(holds: &Holds, now: Moment) -> Self {
        let domain = |(place, (_, until)): (&Hold, &(WaitingFor, Option<Moment>))| match place {
            Hold::Domain(name) => Some((name.clone(), until.unwrap_or(now.plus(LOOK_AGAIN)))).filter(|(_, until)| now < *until),
            Hold::Transport(_) | Hold::Tenant(_) | Hold::Shard(_) | Hold::Fleet => None,
        };
        Self(holds.iter().filter_map(domain).collect())
    }

    /// Until when mail to this domain waits, if it does.
    pub(crate) fn until(&self, domain: &str) -> Option<Moment> {
        self.0.get(domain).copied()
    }
}

/// Where jobs that a rate refused stand one behind the other. All of them sent to the next permit's moment, five hundred would come back
/// for one permit, and again for the next.
#[derive(Default)]
pub(crate) struct Spacing(Mutex<BTreeMap<String, Moment>>);

impl Spacing {
    /// When the next refused job of this rate looks again; `next` is when the next permit comes.
    pub(crate) fn after(&self, bucket: &str, next: Moment, per_second: f64, now: Moment) -> Moment {
        let mut all = self.0.lock().expect("no holder panics");
        let gap = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(SPACED_MAX);
        let at = all.get(bucket).map_or(next, |last| last.plus(gap).max(next)).min(now.plus(SPACED_MAX).max(next));
        all.insert(bucket.to_owned(), at);
        at
    }
}

/// Asks every limit but the tenant's jobs in flight, which the claim's swap checks.
pub(crate) async fn ask(worker: &Worker, lane: &Lane, record: &Record, now: Moment) -> Result<Gate, LedgerError> {
    let holds = worker.ports.ledger.holds().await?;
    if let Some((by, until)) = held(&holds, record, now) {
        return Ok(Gate::Limited(by, until.unwrap_or(now.plus(LOOK_AGAIN)).min(now.plus(LOOK_AGAIN * 6))));
    }
    match lane.enter(Instant::now()) {
        Entry::Entered => {}
        Entry::Open => return Ok(Gate::Limited(WaitingFor::Circuit, now.plus(WINDOW_AGAIN))),
        Entry::Crowded => return Ok(Gate::Limited(WaitingFor::CoolDown, now.plus(WINDOW_AGAIN))),
        Entry::Paced(wait, per_s) => {
            let bucket = format!("pace/{}", lane.settings.name);
            return Ok(Gate::Limited(WaitingFor::CoolDown, worker.spacing.after(&bucket, now.plus(wait), per_s, now)));
        }
    }
    match rates(worker, lane, record, now).await {
        Ok(None) => Ok(Gate::Open(Cooling::of(&holds, now))),
        Ok(Some((by, until))) => {
            lane.leave();
            Ok(Gate::Limited(by, until))
        }
        Err(error) => {
            lane.leave();
            Err(error)
        }
    }
}

/// The tenant's rate, then the transport's: a permit of the transport is spent only on a job that may run.
async fn rates(worker: &Worker, lane: &Lane, record: &Record, now: Moment) -> Result<Option<(WaitingFor, Moment)>, LedgerError> {
    let ledger = &worker.ports.ledger;
    if let Some(rate) = worker.settings.tenants.limits(record.tenant()).rate_per_s {
        let bucket = format!("tenant/{}", record.tenant());
        let (given, next) = ledger.permits(&bucket, rate, 1).await?;
        if given == 0 {
            return Ok(Some((WaitingFor::TenantRate, worker.spacing.after(&bucket, next, rate, now))));
        }
    }
    if let Some(rate) = lane.settings.rate_per_s {
        let moment = Instant::now();
        if !lane.take_permit(moment) {
            let bucket = format!("transport/{}", lane.settings.name);
            let (given, next) = ledger.permits(&bucket, rate, (rate * TAKEN_S).max(1.0) as u32).await?;
            if given == 0 {
                return Ok(Some((WaitingFor::TransportRate, worker.spacing.after(&bucket, next, rate, now))));
            }
            lane.store_permits(given, moment);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_a_rate_refuses_come_back_one_after_the_other() {
        let (spacing, at) = (Spacing::default(), Moment::from_millis);
        assert_eq!(spacing.after("a", at(500), 2.0, at(0)), at(500));
        assert_eq!(spacing.after("a", at(500), 2.0, at(0)), at(1_000));
        assert_eq!(spacing.after("b", at(500), 2.0, at(0)), at(500));
        assert_eq!(spacing.after("a", at(9_000), 2.0, at(8_500)), at(9_000), "nobody waits behind those that are gone");
        for _ in 0..200 {
            assert!(spacing.after("a", at(9_000), 2.0, at(8_500)) <= at(8_500).plus(SPACED_MAX));
        }
    }
}
