//! Deliveries that stop, break, or lose the ledger's answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use curfew_broker::Broker;
use curfew_domain::history::HistoryEntry;
use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Counter, Index};
use curfew_domain::{Key, Moment, Reason, Record, Shard, State, WorkerId};
use curfew_ledger::lead::{Lead, Wish};
use curfew_ledger::{Agenda, Beat, Create, Created, Entry, Hold, Holds, Ledger, LedgerError, LineEntry, Suppression, Swap, Swapped, TimerEntry};
use curfew_testkit::MailServer;
use curfew_testkit::mail_server::scripts::first_times_at;
use curfew_testkit::mail_server::{Action, Config, Stage};
use curfew_worker::pause::{Pauses, Point};
use tokio::sync::watch;

use crate::house::{House, PATIENCE, Plan, SHARDS, lane};

/// Holds every delivery that comes to one point, until it is let go.
pub struct Stops {
    point: Point,
    reached: watch::Sender<u32>,
    open: watch::Sender<bool>,
}

impl Stops {
    pub fn at(point: Point) -> Arc<Self> {
        Arc::new(Self { point, reached: watch::channel(0).0, open: watch::channel(false).0 })
    }

    /// Waits until a delivery is held.
    pub async fn reached(&self) {
        let mut seen = self.reached.subscribe();
        tokio::time::timeout(PATIENCE, seen.wait_for(|n| *n > 0)).await.expect("a delivery comes").expect("it lives");
    }

    /// From now on nothing is held.
    pub fn let_go(&self) {
        self.open.send_replace(true);
    }
}

#[async_trait]
impl Pauses for Stops {
    async fn at(&self, point: Point, _key: &Key) {
        if point == self.point {
            self.reached.send_modify(|n| *n += 1);
            let mut open = self.open.subscribe();
            let _gone = open.wait_for(|open| *open).await;
        }
    }
}

/// Panics at one point, so many times.
struct Breaks(Point, AtomicU32);

#[async_trait]
impl Pauses for Breaks {
    async fn at(&self, point: Point, _key: &Key) {
        if point == self.0 && self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            panic!("a delivery breaks, as this test wants it to");
        }
    }
}

async fn broken(point: Point, times: u32, server: &MailServer) -> (House, Key) {
    let house = House::new(Plan { pauses: Arc::new(Breaks(point, AtomicU32::new(times))), ..Plan::new(vec![lane("smtp", server, 1)]) }).await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    (house, key)
}

/// A struck job rests 5 s: time is moved on until the job has ended.
async fn until_ended(house: &House, key: &Key) {
    curfew_testkit::eventually(PATIENCE, "the job ends", || async {
        if house.shown(key).await == "scheduled" {
            house.advance(Duration::from_secs(1));
        }
        ["sent", "dead_letter"].contains(&house.row(key).await.state.word()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_panic_before_the_intent_gives_the_job_back_without_an_attempt() {
    let server = MailServer::start(Config::default()).await;
    let (house, key) = broken(Point::BeforeIntent, 1, &server).await;
    let _roles = house.all().await;
    until_ended(&house, &key).await;
    let row = house.row(&key).await;
    assert_eq!((row.state.word(), row.attempts), ("sent", 1));
    assert_eq!(server.accepted_count(), 1);
}

#[tokio::test]
async fn the_third_panic_makes_a_poison_message() {
    let server = MailServer::start(Config::default()).await;
    let (house, key) = broken(Point::AfterClaim, 99, &server).await;
    let _roles = house.all().await;
    until_ended(&house, &key).await;
    house.item(&key, Reason::PoisonMessage).await;
    assert_eq!(server.accepted_count(), 0);
}

#[tokio::test]
async fn a_panic_after_the_intent_and_before_the_content_proves_that_nothing_was_handed_over() {
    let server = MailServer::start(Config::default()).await;
    let (house, key) = broken(Point::AfterIntent, 1, &server).await;
    let _roles = house.all().await;
    house.until(&key, &["sent"]).await;
    assert_eq!(house.row(&key).await.attempts, 2);
    assert_eq!(server.accepted_count(), 1);
}

#[tokio::test]
async fn a_panic_after_the_verdict_leaves_a_doubt_and_after_the_report_nothing() {
    let server = MailServer::start(Config::default()).await;
    let (house, key) = broken(Point::AfterVerdict, 1, &server).await;
    let _roles = house.all().await;
    assert!(house.item(&key, Reason::ReconciliationRequired).await.in_doubt);
    let (house, key) = broken(Point::AfterReport, 1, &server).await;
    let _roles = house.all().await;
    house.until(&key, &["sent"]).await;
    assert_eq!(server.accepted_count(), 2);
}

/// A ledger that does what it is asked and, at chosen swaps, says nothing of it.
struct Forgetful {
    ledger: Arc<dyn Ledger>,
    which: fn(&Swap) -> bool,
    /// Whether the swap is written before the answer is lost.
    written: bool,
    left: AtomicU32,
    happened: Arc<AtomicBool>,
    /// Rounds of swaps (the scheduler's and the dead-letter consumer's) that panic.
    breaks: AtomicU32,
    /// Whether every shard is halted in who uses it.
    halted: Arc<AtomicBool>,
    /// A shard whose server is away.
    away: Option<Shard>,
}

impl Forgetful {
    /// One that forgets nothing.
    fn over(ledger: Arc<dyn Ledger>) -> Self {
        let (left, breaks) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { ledger, which: |_| false, written: false, left, happened: Arc::default(), breaks, halted: Arc::default(), away: None }
    }

    fn there(&self, shard: Shard) -> Result<(), LedgerError> {
        if self.away == Some(shard) { Err(LedgerError::Unavailable { operation: "connect" }) } else { Ok(()) }
    }

    async fn swapped(&self, swap: Swap) -> Result<Swapped, LedgerError> {
        if self.halted.load(Ordering::SeqCst) && [State::Claimed, State::Handoff].contains(&swap.change.record.state) {
            return Err(LedgerError::Halted);
        }
        let hit = (self.which)(&swap) && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if hit {
            self.happened.store(true, Ordering::SeqCst);
            if self.written {
                self.ledger.swap(swap).await?;
            }
            return Err(LedgerError::Unavailable { operation: "swap" });
        }
        self.ledger.swap(swap).await
    }
}

async fn forgetful(server: &MailServer, which: fn(&Swap) -> bool, written: bool) -> (House, Key, Arc<AtomicBool>) {
    let happened = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&happened);
    let plan = Plan::new(vec![lane("smtp", server, 1)]);
    let house =
        House::over(plan, |ledger| Arc::new(Forgetful { which, written, left: AtomicU32::new(1), happened: seen, ..Forgetful::over(ledger) })).await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    (house, key, happened)
}

/// Sent once, on the attempt given, whatever answer is lost.
async fn sent_once(which: fn(&Swap) -> bool, written: bool, attempts: u32) {
    let server = MailServer::start(Config::default()).await;
    let (house, key, happened) = forgetful(&server, which, written).await;
    let _roles = house.all().await;
    house.until(&key, &["sent"]).await;
    assert!(happened.load(Ordering::SeqCst), "an answer was lost");
    assert_eq!(house.row(&key).await.attempts, attempts);
    assert_eq!(server.accepted_count(), 1);
}

fn to(state: State) -> impl Fn(&Swap) -> bool {
    move |swap| swap.change.record.state == state
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_asked_again_and_is_one_claim() {
    sent_once(|swap| to(State::Claimed)(swap), true, 1).await;
    sent_once(|swap| to(State::Claimed)(swap), false, 1).await;
}

#[tokio::test]
async fn an_intent_whose_answer_is_lost_hands_nothing_over_and_is_told_so() {
    sent_once(|swap| to(State::Handoff)(swap), true, 2).await;
    sent_once(|swap| to(State::Handoff)(swap), false, 1).await;
}

#[tokio::test]
async fn a_verdict_whose_answer_is_lost_is_reported_again() {
    sent_once(|swap| to(State::Sent)(swap), true, 1).await;
    sent_once(|swap| to(State::Sent)(swap), false, 1).await;
}

/// A renewal is written and its answer lost; the outcome that follows is written over it, not dropped until the lease is over.
#[tokio::test]
async fn a_renewal_whose_answer_is_lost_hides_no_outcome() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Rcpt, 1, Action::Silence))).await;
    let renewal = |swap: &Swap| swap.change.record.state == State::Claimed && swap.change.record.version > 3;
    let (house, key, happened) = forgetful(&server, renewal, true).await;
    let (_scheduler, worker, _deadletter) = house.all().await;
    server.held(Stage::Rcpt).await;
    curfew_testkit::eventually(PATIENCE, "a renewal's answer is lost", || async { happened.load(Ordering::SeqCst).then_some(()) }).await;
    worker.finish().await;
    let record = house.record(&key).await.expect("it lives");
    assert_eq!((record.state, record.attempts, record.reason), (State::Scheduled, 0, Some(Reason::GivenBack)), "the drain gave it back");
}

/// A role whose loop panicked did nothing ever after, and nobody noticed.
#[tokio::test]
async fn a_scheduler_and_a_dead_letter_consumer_that_panic_begin_anew() {
    let server =
        MailServer::start(Config::scripted(curfew_testkit::mail_server::scripts::refuse_recipient("r2@acme.example", "550 5.1.1 No such user")))
            .await;
    let plan = Plan::new(vec![lane("smtp", &server, 1)]);
    let house = House::over(plan, |ledger| Arc::new(Forgetful { breaks: AtomicU32::new(8), ..Forgetful::over(ledger) })).await;
    let _roles = house.all().await;
    let keys = house.submit(&[house.mail("acme", 1), house.mail("acme", 2)]).await;
    house.until(&keys[0], &["sent"]).await;
    house.item(&keys[1], Reason::PermanentFailure).await;
    assert_eq!(server.accepted_count(), 1);
}

/// A worker that alone distrusts the clock answered every claim in a millisecond: it ate its neighbours' wake-ups.
#[tokio::test]
async fn a_worker_whose_shards_are_halted_leaves_the_queue_to_others_and_gives_back_what_it_claimed() {
    let server = MailServer::start(Config::default()).await;
    let (stops, halted) = (Stops::at(Point::BeforeIntent), Arc::new(AtomicBool::new(false)));
    let plan = Plan { pauses: Arc::clone(&stops) as Arc<dyn Pauses>, ..Plan::new(vec![lane("smtp", &server, 1)]) };
    let (mut trusting, in_the_worker) = (None, Arc::clone(&halted));
    let house = House::over(plan, |ledger| {
        trusting = Some(Arc::clone(&ledger));
        Arc::new(Forgetful { halted: in_the_worker, ..Forgetful::over(ledger) })
    })
    .await;
    let (mut ports, settings) = house.scheduler_parts();
    ports.ledger = trusting.expect("there is a ledger");
    let stop = tokio_util::sync::CancellationToken::new();
    let scheduler = Arc::new(curfew_scheduler::Scheduler::new(ports, settings, Arc::default()));
    let scheduling = tokio::spawn(scheduler.run(stop.clone()));
    let _worker = house.worker().await;
    let shard = Shard::of_tenant("acme", SHARDS);
    let first = house.submit_one(&house.mail("acme", 1)).await;
    stops.reached().await;
    halted.store(true, Ordering::SeqCst);
    stops.let_go();
    curfew_testkit::eventually(PATIENCE, "the worker's consumer is gone", || async {
        (house.broker.ready_state(shard).await.expect("the broker is open").consumers == 0).then_some(())
    })
    .await;
    let second = house.submit_one(&house.mail("acme", 2)).await;
    curfew_testkit::eventually(PATIENCE, "both wait in the queue", || async {
        (house.broker.ready_state(shard).await.expect("the broker is open").ready >= 2).then_some(())
    })
    .await;
    for key in [&first, &second] {
        // The swap follows the wake-up.
        curfew_testkit::eventually(PATIENCE, "it is queued", || async {
            let record = house.record(key).await.expect("it lives");
            (record.state == State::Queued).then(|| assert_eq!(record.attempts, 0))
        })
        .await;
    }
    halted.store(false, Ordering::SeqCst);
    for key in [&first, &second] {
        house.until(key, &["sent"]).await;
        assert_eq!(house.row(key).await.attempts, 1);
    }
    assert_eq!(server.accepted_count(), 2);
    stop.cancel();
    scheduling.await.expect("it ends by itself");
}

/// One node of a Cluster that was away stopped the staging, the releases and the settling of all.
#[tokio::test]
async fn a_shard_whose_server_is_away_holds_up_no_other() {
    let server = MailServer::start(Config::default()).await;
    let here = Shard::of_tenant("acme", SHARDS);
    let away = Shard(1 - here.0);
    let house =
        House::over(Plan::new(vec![lane("smtp", &server, 1)]), |ledger| Arc::new(Forgetful { away: Some(away), ..Forgetful::over(ledger) })).await;
    let _roles = house.all().await;
    let key = house.submit_one(&house.mail("acme", 1)).await;
    house.until(&key, &["sent"]).await;
}

macro_rules! passes_on {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)+) => {
        #[async_trait]
        impl Ledger for Forgetful {
            async fn swap(&self, swap: Swap) -> Result<Swapped, LedgerError> {
                self.swapped(swap).await
            }
            async fn swap_all(&self, swaps: Vec<Swap>) -> Result<Vec<Swapped>, LedgerError> {
                let breaks = !swaps.is_empty() && self.breaks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
                assert!(!breaks, "a round breaks, as this test wants it to");
                self.ledger.swap_all(swaps).await
            }
            fn is_halted(&self, _shard: Shard) -> bool {
                self.halted.load(Ordering::SeqCst)
            }
            async fn incarnation(&self, shard: Shard) -> Result<u32, LedgerError> {
                self.there(shard)?;
                self.ledger.incarnation(shard).await
            }
            async fn lead(&self, shard: Shard, who: WorkerId, lease: Duration, wish: Wish) -> Result<Lead, LedgerError> {
                self.there(shard)?;
                self.ledger.lead(shard, who, lease, wish).await
            }
            fn leases_die_with_process(&self) -> bool {
                self.ledger.leases_die_with_process()
            }
            $(async fn $name(&self, $($arg: $type),*) -> Result<$out, LedgerError> {
                self.ledger.$name($($arg),*).await
            })+
        }
    };
}

passes_on! {
    now() -> Moment;
    create(creates: Vec<Create>) -> Vec<Created>;
    get(key: &Key) -> Option<Entry>;
    records(keys: &[Key]) -> Vec<Option<Record>>;
    overdue(shard: Shard, index: Index, now: Moment, limit: usize) -> Vec<TimerEntry>;
    agenda(shards: &[Shard], now: Moment) -> Vec<Agenda>;
    histories(keys: &[Key]) -> Vec<Vec<HistoryEntry>>;
    postpone(timers: Vec<(Key, u64, Moment)>) -> ();
    move_in_line(places: Vec<(Key, u64, Moment)>) -> ();
    lines(shard: Shard, now: Moment, per_tenant: usize, limit: usize, skip: &[String]) -> Vec<LineEntry>;
    counts(shard: Shard, counters: &[Counter]) -> Vec<u64>;
    oldest_due(shard: Shard, now: Moment) -> Option<Moment>;
    walk(shard: Shard, after: Option<&Key>, limit: usize) -> Vec<(Record, Option<TimerEntry>, Option<Moment>)>;
    recount(shard: Shard) -> u64;
    restore_timer(key: &Key) -> bool;
    expire(now: Moment, limit: usize) -> u64;
    set_suppressions(all: Vec<Suppression>) -> ();
    set_hold(hold: Hold, by: Option<(WaitingFor, Option<Moment>)>) -> ();
    holds() -> Holds;
    permits(name: &str, per_second: f64, n: u32) -> (u32, Moment);
    beat(count: u64) -> ();
    last_beat() -> Option<Beat>;
    live_by_state() -> BTreeMap<State, u64>;
}
