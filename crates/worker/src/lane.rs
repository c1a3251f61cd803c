//! A lane: one transport with its slots, its rate, its window and pace after a throttle, and its circuit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curfew_domain::outcome::{Outcome, Scope};
use curfew_domain::{JobId, Moment, OutcomeClass};
use curfew_ledger::Hold;
use curfew_transport::Transport;
use tokio::time::Instant;

use crate::circuit::{Circuit, Probe, Turn};
use crate::pace::Pace;
use crate::trouble::{Tidings, Trouble};

/// A throttle without a hint cools down this long; doubles while no acceptance comes between.
const COOL_DOWN_FIRST: Duration = Duration::from_secs(10);
const COOL_DOWN_LAST: Duration = Duration::from_secs(10 * 60);
/// Domains whose cool-downs are known at once; beyond that the one that ended first is forgotten, and would begin anew.
const DOMAINS_MAX: usize = 1_000;
/// How long permits that were taken may be used.
const PERMITS_KEPT: Duration = Duration::from_secs(1);

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
    state: Mutex<State>,
}

struct State {
    circuit: Circuit,
    /// How many attempts may be under way; shrinks to one after a throttle, grows by one with each acceptance.
    window: usize,
    under_way: usize,
    pace: Pace,
    cool: Cool,
    /// Of recipients' domains, where the provider spoke of one.
    domains: BTreeMap<String, Cool>,
    permits: (u32, Option<Instant>),
    hold: OpenHold,
    trouble: Trouble,
}

/// One's cool-downs.
struct Cool {
    /// How long the next one lasts without a hint.
    next: Duration,
    /// The end of the running one: throttles met until then are of the same episode.
    until: Option<Moment>,
}

/// Whether the open circuit's hold stands in the book; until it does, its absence there says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenHold {
    /// To be written.
    Owed,
    /// Written, or found there.
    Written,
}

/// What a job that wants to be tried is told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Entry {
    /// It was counted.
    Entered,
    /// The circuit is open.
    Open,
    /// As many as the window holds are under way.
    Crowded,
    /// The pace after a throttle: the next place comes after so long, and so many come each second.
    Paced(Duration, f64),
}

/// What an outcome asks of the lane's holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Consequence {
    /// Nothing.
    None,
    /// Hold the transport for so long.
    CoolDown(Duration),
    /// Hold mail to the recipient's domain for so long.
    DomainCoolDown(Duration),
    /// The circuit opened, or stays open.
    Opened,
    /// The circuit closed.
    Closed,
}

impl Lane {
    /// A lane with a closed circuit and a full window.
    pub fn new(settings: LaneSettings, transport: Arc<dyn Transport>) -> Self {
        let slots = transport.max_connections();
        let state = State {
            circuit: Circuit::new(),
            window: slots,
            under_way: 0,
            pace: Pace::default(),
            cool: Cool::default(),
            domains: BTreeMap::new(),
            permits: (0, None),
            hold: OpenHold::Owed,
            trouble: Trouble::default(),
        };
        Self { settings, transport, state: Mutex::new(state) }
    }

    /// Its place among the holds.
    pub(crate) fn hold(&self) -> Hold {
        Hold::Transport(self.settings.name.clone())
    }

    /// Whether its circuit is open, as this worker sees it.
    pub fn circuit_is_open(&self) -> bool {
        self.is_open()
    }

    /// Whether another attempt fits window and pace; counts it if so.
    pub(crate) fn enter(&self, now: Instant) -> Entry {
        let mut state = self.lock();
        if state.circuit.is_open() {
            return Entry::Open;
        }
        if state.under_way >= state.window {
            return Entry::Crowded;
        }
        if let Err((wait, per_s)) = state.pace.take(now) {
            return Entry::Paced(wait, per_s);
        }
        state.under_way += 1;
        Entry::Entered
    }

    /// An attempt that entered is over.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.under_way = state.under_way.saturating_sub(1);
    }

    /// An attempt came to this; `domain` is the recipient's, where its letter was opened; `now` is the ledger's, by which cool-downs are held.
    pub(crate) fn outcome(&self, job: JobId, outcome: &Outcome, domain: Option<&str>, now: Moment) -> Consequence {
        let mut state = self.lock();
        match state.circuit.outcome(job, outcome.class, outcome.stage, Instant::now()) {
            Turn::Opened(_wait) => {
                state.window = 1;
                state.hold = OpenHold::Owed;
                return Consequence::Opened;
            }
            Turn::Closed => return Consequence::Closed,
            Turn::Stays => {}
        }
        match outcome.class {
            OutcomeClass::Throttled if outcome.scope == Scope::Transport => {
                state.window = 1;
                state.pace.throttled(Instant::now());
                state.cool.throttled(outcome.retry_after, now).map_or(Consequence::None, Consequence::CoolDown)
            }
            OutcomeClass::Throttled if outcome.scope == Scope::Domain => {
                let wait = domain.and_then(|domain| state.domain(domain, now).throttled(outcome.retry_after, now));
                wait.map_or(Consequence::None, Consequence::DomainCoolDown)
            }
            OutcomeClass::Accepted => {
                state.window = (state.window + 1).min(self.transport.max_connections());
                state.cool.next = COOL_DOWN_FIRST;
                // The provider takes mail to it: its next throttle is a new story.
                if let Some(domain) = domain {
                    state.domains.remove(domain);
                }
                state.pace.accepted(Instant::now());
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

    /// What a person is to hear of this outcome, if anything.
    pub(crate) fn tidings(&self, outcome: &Outcome, now: Moment) -> Option<Tidings> {
        self.lock().trouble.outcome(outcome, now)
    }

    /// The probe that is due.
    pub(crate) fn probe_due(&self, now: Instant) -> Option<Probe> {
        self.lock().circuit.due(now)
    }

    /// A login probe ended.
    pub(crate) fn probed(&self, good: bool, now: Instant) -> Consequence {
        match self.lock().circuit.probed(good, now) {
            Turn::Opened(_wait) => Consequence::Opened,
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

    /// Its hold was lifted: one job at a time tries it, more with each acceptance.
    pub(crate) fn half_open(&self) {
        let mut state = self.lock();
        state.circuit.half_open();
        state.window = 1;
    }

    /// Its hold stands in the book though it isn't open here.
    pub(crate) fn adopt(&self, now: Instant) {
        let mut state = self.lock();
        state.circuit.adopt(now);
        state.window = 1;
        state.hold = OpenHold::Written;
    }

    /// Whether the open circuit's hold stands in the book.
    pub(crate) fn open_hold(&self) -> OpenHold {
        self.lock().hold
    }

    /// The open circuit's hold stands in the book now.
    pub(crate) fn hold_written(&self) {
        self.lock().hold = OpenHold::Written;
    }

    /// Whether the circuit is open here.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().circuit.is_open()
    }

    /// A permit that was taken before, within a second, if one is left.
    pub(crate) fn take_permit(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let fresh = state.permits.1.is_some_and(|at| now.duration_since(at) < PERMITS_KEPT);
        if fresh && state.permits.0 > 0 {
            state.permits.0 -= 1;
            return true;
        }
        false
    }

    /// Keeps permits for a second, one of them used at once. Others may have asked at the same time: what they keep stays, and all of it goes with
    /// the oldest, for permits that are used late come on top of the rate.
    pub(crate) fn store_permits(&self, given: u32, now: Instant) {
        let mut state = self.lock();
        let (kept, since) = match state.permits {
            (kept @ 1.., Some(at)) if now.duration_since(at) < PERMITS_KEPT => (kept, at),
            _used_or_old => (0, now),
        };
        state.permits = (kept + given.saturating_sub(1), Some(since));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl State {
    /// A domain's cool-downs.
    fn domain(&mut self, domain: &str, now: Moment) -> &mut Cool {
        if self.domains.len() >= DOMAINS_MAX && !self.domains.contains_key(domain) {
            let over = self.domains.iter().min_by_key(|(_, cool)| cool.until.unwrap_or(now)).map(|(name, _)| name.clone());
            over.and_then(|name| self.domains.remove(&name));
        }
        self.domains.entry(domain.to_owned()).or_default()
    }
}

impl Default for Cool {
    fn default() -> Self {
        Self { next: COOL_DOWN_FIRST, until: None }
    }
}

impl Cool {
    /// A throttle. Those that come while it cools down belong to the same episode: twenty attempts that were under way together must not
    /// double it twenty times. Only a longer hint of the provider's lengthens it. How long to hold, if anything is to be held.
    fn throttled(&mut self, hint: Option<Duration>, now: Moment) -> Option<Duration> {
        let running = self.until.filter(|until| now < *until);
        let wait = match (running, hint) {
            (Some(until), Some(hint)) if now.plus(hint) > until => hint,
            (Some(_), _) => return None,
            (None, hint) => {
                let own = self.next;
                self.next = (own * 2).min(COOL_DOWN_LAST);
                hint.unwrap_or(own)
            }
        };
        self.until = Some(now.plus(wait));
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use curfew_domain::outcome::Stage;
    use curfew_transport::{Bounds, Parcel, Prepared};

    use super::*;

    struct Nowhere;

    #[async_trait::async_trait]
    impl Transport for Nowhere {
        async fn prepare(&self, _parcel: &Parcel, _bounds: &Bounds) -> Result<Box<dyn Prepared>, Outcome> {
            Err(throttle(None))
        }
        async fn probe(&self) -> Result<(), Outcome> {
            Ok(())
        }
        fn max_connections(&self) -> usize {
            20
        }
        fn attempt_max(&self) -> Duration {
            Duration::from_secs(1)
        }
        async fn close(&self) {}
    }

    fn lane() -> Lane {
        let settings =
            LaneSettings { name: "smtp".into(), from_address: "a@example.org".into(), from_name: None, rate_per_s: None, idempotency_header: None };
        Lane::new(settings, Arc::new(Nowhere))
    }

    fn throttle(retry_after: Option<Duration>) -> Outcome {
        Outcome { retry_after, scope: Scope::Transport, ..Outcome::new(OutcomeClass::Throttled, Stage::Mail, "too-many", "") }
    }

    fn job(n: u128) -> JobId {
        JobId(uuid::Uuid::from_u128(n))
    }

    /// Incident 42: twenty attempts under way meet one throttle; doubled by each of them the pause was ten minutes.
    #[test]
    fn attempts_that_meet_one_throttle_together_make_one_cool_down() {
        let (lane, now) = (lane(), Moment::from_millis(1_000_000));
        assert_eq!(lane.outcome(job(1), &throttle(None), None, now), Consequence::CoolDown(COOL_DOWN_FIRST));
        for n in 2..20 {
            assert_eq!(lane.outcome(job(n), &throttle(None), None, now), Consequence::None);
        }
        let later = now.plus(COOL_DOWN_FIRST);
        assert_eq!(lane.outcome(job(20), &throttle(None), None, later), Consequence::CoolDown(COOL_DOWN_FIRST * 2));
        let hint = Duration::from_secs(90);
        assert_eq!(lane.outcome(job(21), &throttle(Some(hint)), None, later), Consequence::CoolDown(hint), "the provider knows better");
    }

    /// Thirteen that found none asked at once, and the last one's answer was all that was left.
    #[test]
    fn permits_that_were_taken_at_once_add_up_and_go_with_the_oldest() {
        let (lane, began) = (lane(), Instant::now());
        let later = began + PERMITS_KEPT / 2;
        lane.store_permits(20, began);
        lane.store_permits(20, later);
        assert_eq!((0..50).filter(|_| lane.take_permit(later)).count(), 38, "one of each was used at once");
        lane.store_permits(20, began);
        lane.store_permits(20, later);
        assert!(!lane.take_permit(began + PERMITS_KEPT), "those that came later go too: never too many");
        lane.store_permits(3, began + PERMITS_KEPT);
        assert_eq!((0..50).filter(|_| lane.take_permit(began + PERMITS_KEPT)).count(), 2);
    }

    #[test]
    fn a_throttle_of_one_domain_holds_that_domain_alone() {
        let (lane, now) = (lane(), Moment::from_millis(1_000_000));
        let of_domain = Outcome { scope: Scope::Domain, ..throttle(None) };
        assert_eq!(lane.outcome(job(1), &of_domain, Some("elm.example"), now), Consequence::DomainCoolDown(COOL_DOWN_FIRST));
        assert_eq!(lane.outcome(job(2), &of_domain, Some("elm.example"), now), Consequence::None);
        assert_eq!(lane.outcome(job(3), &of_domain, Some("oak.example"), now), Consequence::DomainCoolDown(COOL_DOWN_FIRST));
        assert!((0..20).all(|_| lane.enter(Instant::now()) == Entry::Entered), "the transport is as it was");
        let later = now.plus(COOL_DOWN_FIRST);
        assert_eq!(lane.outcome(job(4), &of_domain, Some("elm.example"), later), Consequence::DomainCoolDown(COOL_DOWN_FIRST * 2));
        lane.outcome(job(5), &Outcome::new(OutcomeClass::Accepted, Stage::Dot, "accepted", ""), Some("elm.example"), later);
        assert_eq!(lane.outcome(job(6), &of_domain, Some("elm.example"), later), Consequence::DomainCoolDown(COOL_DOWN_FIRST));
    }

    #[test]
    fn after_a_throttle_one_attempt_goes_at_a_time_and_more_with_each_acceptance() {
        let (lane, now) = (lane(), Moment::from_millis(1_000_000));
        lane.outcome(job(1), &throttle(None), None, now);
        let moment = Instant::now();
        assert_eq!(lane.enter(moment), Entry::Entered);
        assert_eq!(lane.enter(moment), Entry::Crowded);
        lane.outcome(job(2), &Outcome::new(OutcomeClass::Accepted, Stage::Dot, "accepted", ""), None, now);
        assert!(matches!(lane.enter(moment), Entry::Paced(..)), "there is room, and it isn't time");
        assert_eq!(lane.enter(moment + Duration::from_secs(1)), Entry::Entered);
        assert_eq!(lane.enter(moment + Duration::from_secs(2)), Entry::Crowded);
    }
}
