//! A lane: one transport with its slots, its rate, its window after a throttle, and its circuit.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use curfew_domain::outcome::{Outcome, Scope};
use curfew_domain::{JobId, OutcomeClass};
use curfew_transport::Transport;
use tokio::sync::Semaphore;

use crate::circuit::{Circuit, Probe, Turn};

/// A throttle without a hint cools down this long; doubles while no acceptance comes between.
const COOL_DOWN_FIRST: Duration = Duration::from_secs(10);
const COOL_DOWN_LAST: Duration = Duration::from_secs(10 * 60);

/// What the configuration says of a transport, as far as a worker needs it.
#[derive(Clone, Debug)]
pub struct LaneSettings {
    /// Its name.
    pub name: String,
    /// The sender's address, as written in `from`.
    pub from_address: String,
    /// The sender's display name.
    pub from_name: Option<String>,
    /// Messages per second, over all workers.
    pub rate_per_s: Option<f64>,
    /// The header that carries the provider's key.
    pub idempotency_header: Option<String>,
}

/// One transport as a worker uses it.
pub struct Lane {
    /// Its settings.
    pub settings: LaneSettings,
    /// The way to the provider.
    pub transport: Arc<dyn Transport>,
    /// As many as the transport serves at once; taken before the claim, so that nothing waits under a lease.
    pub(crate) slots: Arc<Semaphore>,
    state: Mutex<State>,
}

struct State {
    circuit: Circuit,
    /// How many attempts may be under way; shrinks to one after a throttle, grows by one with each acceptance.
    window: usize,
    under_way: usize,
    cool_down: Duration,
    permits: (u32, Option<Instant>),
}

/// What an outcome asks of the lane's holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Consequence {
    /// Nothing.
    None,
    /// Hold the transport for so long.
    CoolDown(Duration),
    /// The circuit opened; look again after so long.
    Opened(Duration),
    /// The circuit closed.
    Closed,
}

impl Lane {
    /// A lane with a closed circuit and a full window.
    pub fn new(settings: LaneSettings, transport: Arc<dyn Transport>) -> Self {
        let slots = transport.max_connections();
        let state = State { circuit: Circuit::new(), window: slots, under_way: 0, cool_down: COOL_DOWN_FIRST, permits: (0, None) };
        Self { settings, transport, slots: Arc::new(Semaphore::new(slots)), state: Mutex::new(state) }
    }

    /// Whether another attempt fits the window; counts it if so.
    pub(crate) fn enter(&self) -> bool {
        let mut state = self.lock();
        let fits = state.under_way < state.window && !state.circuit.is_open();
        state.under_way += usize::from(fits);
        fits
    }

    /// An attempt that entered is over.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.under_way = state.under_way.saturating_sub(1);
    }

    /// An attempt came to this.
    pub(crate) fn outcome(&self, job: JobId, outcome: &Outcome, now: Instant) -> Consequence {
        let mut state = self.lock();
        match state.circuit.outcome(job, outcome.class, outcome.stage, now) {
            Turn::Opened(wait) => {
                state.window = 1;
                return Consequence::Opened(wait);
            }
            Turn::Closed => return Consequence::Closed,
            Turn::Stays => {}
        }
        match outcome.class {
            OutcomeClass::Throttled if outcome.scope == Scope::Transport => {
                state.window = 1;
                let wait = outcome.retry_after.unwrap_or(state.cool_down);
                state.cool_down = (state.cool_down * 2).min(COOL_DOWN_LAST);
                Consequence::CoolDown(wait)
            }
            OutcomeClass::Accepted => {
                state.window = (state.window + 1).min(self.transport.max_connections());
                state.cool_down = COOL_DOWN_FIRST;
                Consequence::None
            }
            OutcomeClass::Throttled
            | OutcomeClass::Transient
            | OutcomeClass::Permanent
            | OutcomeClass::Suppressed
            | OutcomeClass::Ambiguous
            | OutcomeClass::Configuration => Consequence::None,
        }
    }

    /// The probe that is due.
    pub(crate) fn probe_due(&self, now: Instant) -> Option<Probe> {
        self.lock().circuit.due(now)
    }

    /// A login probe ended.
    pub(crate) fn probed(&self, good: bool, now: Instant) -> Consequence {
        match self.lock().circuit.probed(good, now) {
            Turn::Opened(wait) => Consequence::Opened(wait),
            Turn::Closed => Consequence::Closed,
            Turn::Stays => Consequence::None,
        }
    }

    /// Lets one job through.
    pub(crate) fn try_one(&self) {
        let mut state = self.lock();
        state.window = 1;
        state.circuit.try_one();
    }

    /// An operator resumed it.
    pub(crate) fn resume(&self) {
        let mut state = self.lock();
        let _closed = state.circuit.resume();
        state.window = self.transport.max_connections();
    }

    /// Whether the circuit is open here.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().circuit.is_open()
    }

    /// A permit taken for the running second, if one is left.
    pub(crate) fn take_permit(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let fresh = state.permits.1.is_some_and(|at| now.duration_since(at) < Duration::from_secs(1));
        if fresh && state.permits.0 > 0 {
            state.permits.0 -= 1;
            return true;
        }
        false
    }

    /// Permits for a second, one of them used at once.
    pub(crate) fn store_permits(&self, given: u32, now: Instant) {
        self.lock().permits = (given.saturating_sub(1), Some(now));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}
