//! What stands before a claim: holds, the transport's rate and window, the tenant's rate. A limit gives the job back, no attempt used.

use std::time::{Duration, Instant};

use curfew_courier::held;
use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Record};
use curfew_ledger::LedgerError;

use crate::lane::Lane;
use crate::ports::{Ports, Settings};

/// How soon a job that a pause, a circuit or a full window gave back looks again, where nothing says better.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How soon a job looks again that found the window after a throttle full.
const WINDOW_AGAIN: Duration = Duration::from_secs(1);

/// The answer.
pub(crate) enum Gate {
    /// The claim may be tried; the lane was entered.
    Open,
    /// Give back: which limit, and not before.
    Limited(WaitingFor, Moment),
}

/// Asks every limit but the tenant's jobs in flight, which the claim's swap checks.
pub(crate) async fn ask(ports: &Ports, settings: &Settings, lane: &Lane, record: &Record, now: Moment) -> Result<Gate, LedgerError> {
    let holds = ports.ledger.holds().await?;
    if let Some((by, until)) = held(&holds, record, now) {
        return Ok(Gate::Limited(by, until.unwrap_or(now.plus(LOOK_AGAIN)).min(now.plus(LOOK_AGAIN * 6))));
    }
    if !lane.enter() {
        let by = if lane.is_open() { WaitingFor::Circuit } else { WaitingFor::CoolDown };
        return Ok(Gate::Limited(by, now.plus(WINDOW_AGAIN)));
    }
    match rates(ports, settings, lane, record).await {
        Ok(None) => Ok(Gate::Open),
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
async fn rates(ports: &Ports, settings: &Settings, lane: &Lane, record: &Record) -> Result<Option<(WaitingFor, Moment)>, LedgerError> {
    if let Some(rate) = settings.limits(record.tenant()).rate_per_s {
        let (given, next) = ports.ledger.permits(&format!("tenant/{}", record.tenant()), rate, 1).await?;
        if given == 0 {
            return Ok(Some((WaitingFor::TenantRate, next)));
        }
    }
    if let Some(rate) = lane.settings.rate_per_s {
        let now = Instant::now();
        if !lane.take_permit(now) {
            let (given, next) = ports.ledger.permits(&format!("transport/{}", lane.settings.name), rate, (rate / 4.0).max(1.0) as u32).await?;
            if given == 0 {
                return Ok(Some((WaitingFor::TransportRate, next)));
            }
            lane.store_permits(given, now);
        }
    }
    Ok(None)
}
