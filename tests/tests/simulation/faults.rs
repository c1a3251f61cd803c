//! The faults of a run: which, when, for how long. Drawn from the seed, carried out at their moments, mended at the end.

use std::sync::Arc;
use std::time::Duration;

use curfew_courier::pause::Point;
use curfew_testkit::sim::{BrokerFaults, QueueKind, Service, Standing, Survives, Weather, World};
use tokio::time::sleep;

use crate::fleet::{Fleet, Place, places};
use crate::moments::{Befalls, points_of};
use crate::ports::Role;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Kill,
    KillAll,
    Freeze,
    KilledAtMoment,
    FrozenAtMoment,
    DeliveryPanics,
    Drain,
    CutOff,
    CallsLost,
    AnswersLost,
    Slow,
    NodeDown,
    LedgerRestarts,
    LedgerLosesItsTail,
    LedgerWiped,
    StoreDown,
    StoreKilled,
    BrokerDown,
    BrokerRestarts,
    QueuesPurged,
    QueuesDeleted,
    BrokerBlocked,
    ConfirmsLost,
    PublishesLost,
    WakeUpsRepeated,
    WakeUpsReordered,
    RungsLate,
    RungsEarly,
    ClockOff,
    ClockJumps,
    BookClockOff,
    MailDown,
    ConnectionsReset,
}

impl Fault {
    pub const ALL: [Fault; 33] = [
        Fault::Kill,
        Fault::KillAll,
        Fault::Freeze,
        Fault::KilledAtMoment,
        Fault::FrozenAtMoment,
        Fault::DeliveryPanics,
        Fault::Drain,
        Fault::CutOff,
        Fault::CallsLost,
        Fault::AnswersLost,
        Fault::Slow,
        Fault::NodeDown,
        Fault::LedgerRestarts,
        Fault::LedgerLosesItsTail,
        Fault::LedgerWiped,
        Fault::StoreDown,
        Fault::StoreKilled,
        Fault::BrokerDown,
        Fault::BrokerRestarts,
        Fault::QueuesPurged,
        Fault::QueuesDeleted,
        Fault::BrokerBlocked,
        Fault::ConfirmsLost,
        Fault::PublishesLost,
        Fault::WakeUpsRepeated,
        Fault::WakeUpsReordered,
        Fault::RungsLate,
        Fault::RungsEarly,
        Fault::ClockOff,
        Fault::ClockJumps,
        Fault::BookClockOff,
        Fault::MailDown,
        Fault::ConnectionsReset,
    ];

    /// How heavy it is in the draw: what concerns one process comes most often.
    const fn weight(self) -> u64 {
        match self {
            Fault::Kill => 5,
            Fault::FrozenAtMoment => 10,
            Fault::KilledAtMoment => 7,
            Fault::Freeze => 5,
            Fault::AnswersLost => 4,
            Fault::Drain | Fault::CutOff | Fault::CallsLost | Fault::ConnectionsReset => 3,
            Fault::KillAll
            | Fault::Slow
            | Fault::NodeDown
            | Fault::LedgerRestarts
            | Fault::LedgerLosesItsTail
            | Fault::StoreDown
            | Fault::StoreKilled
            | Fault::DeliveryPanics
            | Fault::BrokerDown
            | Fault::BrokerRestarts
            | Fault::QueuesPurged
            | Fault::ConfirmsLost
            | Fault::PublishesLost
            | Fault::WakeUpsRepeated
            | Fault::WakeUpsReordered
            | Fault::RungsLate
            | Fault::RungsEarly
            | Fault::MailDown => 2,
            Fault::LedgerWiped | Fault::QueuesDeleted | Fault::BrokerBlocked | Fault::ClockOff | Fault::ClockJumps | Fault::BookClockOff => 1,
        }
    }

    fn draw(world: &World) -> Self {
        let mut at = world.below(Fault::ALL.iter().map(|fault| fault.weight()).sum());
        for fault in Fault::ALL {
            match at.checked_sub(fault.weight()) {
                Some(rest) => at = rest,
                None => return fault,
            }
        }
        Fault::Kill
    }
}

/// Lets so many faults happen between two moments; returns when the last one is over.
pub async fn happen(fleet: &Arc<Fleet>, count: u64, from: Duration, until: Duration) {
    let world = &fleet.world;
    let mut moments: Vec<Duration> = (0..count).map(|_| world.between(from, until)).collect();
    moments.sort_unstable();
    let mut under_way = Vec::new();
    for moment in moments {
        sleep(moment.saturating_sub(world.elapsed())).await;
        let favoured = fleet.planted.favours().filter(|_| world.happens(50.0));
        let fault = favoured.map_or_else(|| Fault::draw(world), |(fault, _)| fault);
        let lasts = world.between(Duration::from_millis(200), Duration::from_secs(if world.happens(25.0) { 40 } else { 8 }));
        world.count(&format!("fault: {fault:?}"));
        world.note(&format!("{fault:?} for {lasts:?}"));
        under_way.push(tokio::spawn(happens(Arc::clone(fleet), fault, favoured.map(|(_, role)| role), lasts)));
    }
    for one in under_way {
        one.await.expect("a fault goes as planned");
    }
}

async fn happens(fleet: Arc<Fleet>, fault: Fault, favoured: Option<Role>, lasts: Duration) {
    let world = fleet.world.clone();
    let drawn = *world.one_of(&places()).expect("some");
    let place = favoured.map_or(drawn, |role| (role, drawn.1));
    let node = world.below(2) as usize;
    match fault {
        Fault::Kill => killed(&fleet, place, lasts / 4).await,
        Fault::KillAll => {
            places().into_iter().for_each(|place| fleet.kill(place));
            sleep(lasts / 4).await;
            places().into_iter().for_each(|place| revive(&fleet, place));
        }
        Fault::Freeze => frozen(&fleet, place, lasts).await,
        Fault::KilledAtMoment => {
            let place = if favoured.is_some() { place } else { mostly_a_worker(&world, place) };
            let point = *world.one_of(points_of(place.0)).expect("some");
            fleet.arm(place, point, Befalls::Killed);
            sleep(lasts).await;
            revive(&fleet, place);
        }
        Fault::FrozenAtMoment => {
            let place = if favoured.is_some() { place } else { mostly_a_worker(&world, place) };
            let point = *world.one_of(points_of(place.0)).expect("some");
            let long = place.0 == Role::Scheduler || world.happens(20.0);
            let frozen = match point {
                // Longer, and the look's own bound would answer for it: timers run while a simulated process is frozen.
                Point::LastLook => world.between(Duration::from_millis(200), Duration::from_millis(4_900)),
                _other if long => world.between(Duration::from_secs(60), Duration::from_secs(150)),
                _other => lasts.max(Duration::from_secs(4)) * 2,
            };
            fleet.arm(place, point, Befalls::Frozen(frozen));
            sleep(lasts).await;
        }
        Fault::DeliveryPanics => {
            let point = if world.happens(70.0) { Point::AfterClaim } else { Point::AfterIntent };
            for _ in 0..3 {
                fleet.arm((Role::Worker, place.1), point, Befalls::Panics);
                sleep(lasts / 3).await;
            }
        }
        Fault::Drain => {
            fleet.drain(place).await;
            sleep(lasts / 8).await;
            revive(&fleet, place);
        }
        Fault::CutOff => cut_off(&fleet, place, lasts).await,
        Fault::CallsLost => weather(&fleet, lasts, |weather, world| weather.lost_calls = world.fraction() * 40.0).await,
        Fault::AnswersLost => weather(&fleet, lasts, |weather, world| weather.lost_answers = world.fraction() * 40.0).await,
        Fault::Slow => {
            weather(&fleet, lasts, |weather, world| weather.latency.1 = world.between(Duration::from_millis(20), Duration::from_secs(2))).await
        }
        Fault::NodeDown => down(fleet.ledger.service(node), lasts).await,
        Fault::LedgerRestarts => restart(&fleet, node, Duration::ZERO, lasts).await,
        Fault::LedgerLosesItsTail => {
            let tail = world.between(Duration::from_millis(50), Duration::from_secs(4));
            restart(&fleet, node, tail, lasts).await;
        }
        Fault::LedgerWiped => fleet.ledger.wipe(node),
        Fault::StoreDown => down(fleet.store.service(), lasts).await,
        Fault::StoreKilled => {
            fleet.store.kill();
            down(fleet.store.service(), lasts / 4).await;
        }
        Fault::BrokerDown => down(fleet.broker.service(), lasts).await,
        Fault::BrokerRestarts => fleet.broker.restart(if world.happens(50.0) { Survives::All } else { Survives::Nothing }),
        Fault::QueuesPurged => fleet.broker.purge(),
        Fault::QueuesDeleted => fleet.broker.delete_queues(if world.happens(50.0) { QueueKind::Ready } else { QueueKind::Delay }),
        Fault::BrokerBlocked => {
            fleet.broker.block();
            sleep(lasts).await;
            fleet.broker.unblock();
        }
        Fault::ConfirmsLost => messages(&fleet, lasts, |faults| faults.confirms_lost = 30.0).await,
        Fault::PublishesLost => messages(&fleet, lasts, |faults| faults.publishes_lost = 30.0).await,
        Fault::WakeUpsRepeated => messages(&fleet, lasts, |faults| faults.duplicated = 40.0).await,
        Fault::WakeUpsReordered => messages(&fleet, lasts, |faults| faults.reordered = 50.0).await,
        Fault::RungsLate => messages(&fleet, lasts, |faults| (faults.late, faults.late_max) = (50.0, Duration::from_secs(5))).await,
        Fault::RungsEarly => messages(&fleet, lasts, |faults| (faults.early, faults.early_max) = (50.0, Duration::from_secs(20))).await,
        Fault::ClockOff => clock(&fleet, node, if world.happens(50.0) { 1_500 } else { -1_500 }, lasts).await,
        Fault::ClockJumps => clock(&fleet, node, if world.happens(50.0) { 40_000 } else { -40_000 }, lasts).await,
        Fault::BookClockOff => {
            fleet.store.set_clock_offset(20_000);
            sleep(lasts).await;
            fleet.store.set_clock_offset(0);
        }
        Fault::MailDown => down(fleet.relay.service(), lasts).await,
        Fault::ConnectionsReset => fleet.relay.reset_all(),
    }
}

/// Most moments that matter are a worker's.
fn mostly_a_worker(world: &World, place: Place) -> Place {
    if world.happens(60.0) { (Role::Worker, place.1) } else { place }
}

/// A new process takes a dead one's place.
fn revive(fleet: &Arc<Fleet>, place: Place) {
    if fleet.process(place).is_none_or(|process| process.standing() == Standing::Dead) {
        fleet.start(place);
    }
}

async fn killed(fleet: &Arc<Fleet>, place: Place, away: Duration) {
    fleet.kill(place);
    sleep(away).await;
    revive(fleet, place);
}

async fn frozen(fleet: &Arc<Fleet>, place: Place, lasts: Duration) {
    let Some(process) = fleet.process(place) else { return };
    process.freeze();
    fleet.world.note(&format!("{} freezes", process.name()));
    sleep(lasts).await;
    process.thaw();
}

/// One process can't reach one server; the others can.
async fn cut_off(fleet: &Arc<Fleet>, place: Place, lasts: Duration) {
    let Some(process) = fleet.process(place) else { return };
    let services = services(fleet);
    let service = fleet.world.one_of(&services).expect("some");
    service.weather().cut_off.insert(process.name().to_owned());
    sleep(lasts).await;
    service.weather().cut_off.remove(process.name());
}

async fn weather(fleet: &Arc<Fleet>, lasts: Duration, change: impl FnOnce(&mut Weather, &World)) {
    let services = services(fleet);
    let service = fleet.world.one_of(&services).expect("some");
    change(&mut service.weather(), &fleet.world);
    sleep(lasts).await;
    let (down, cut_off) = {
        let weather = service.weather();
        (weather.down, weather.cut_off.clone())
    };
    *service.weather() = Weather { down, cut_off, ..Weather::default() };
}

async fn down(service: &Arc<Service>, lasts: Duration) {
    service.weather().down = true;
    sleep(lasts).await;
    service.weather().down = false;
}

/// kill -9 of a node, which is away for a while; what it wrote last may be lost.
async fn restart(fleet: &Arc<Fleet>, node: usize, lost_tail: Duration, away: Duration) {
    fleet.ledger.restart(node, lost_tail);
    down(fleet.ledger.service(node), away / 4).await;
}

async fn messages(fleet: &Arc<Fleet>, lasts: Duration, change: impl FnOnce(&mut BrokerFaults)) {
    change(&mut fleet.broker.faults());
    sleep(lasts).await;
    *fleet.broker.faults() = calm(fleet);
}

async fn clock(fleet: &Arc<Fleet>, node: usize, off_ms: i64, lasts: Duration) {
    fleet.ledger.set_clock_offset(node, off_ms);
    sleep(lasts).await;
    fleet.ledger.set_clock_offset(node, 0);
}

fn services(fleet: &Arc<Fleet>) -> Vec<Arc<Service>> {
    vec![
        Arc::clone(fleet.ledger.service(0)),
        Arc::clone(fleet.ledger.service(1)),
        Arc::clone(fleet.store.service()),
        Arc::clone(fleet.broker.service()),
        Arc::clone(fleet.relay.service()),
    ]
}

/// A broker as it always is in this run: in one half of them it takes a frozen process for a dead one, as a heartbeat does.
pub fn calm(fleet: &Fleet) -> BrokerFaults {
    BrokerFaults { gives_up_frozen: fleet.world.seed().is_multiple_of(2), ..BrokerFaults::default() }
}

/// Everything answers again, and each place is filled.
pub fn mend(fleet: &Arc<Fleet>) {
    for service in services(fleet) {
        *service.weather() = Weather::default();
    }
    *fleet.broker.faults() = calm(fleet);
    fleet.broker.unblock();
    fleet.disarm();
    fleet.store.set_clock_offset(0);
    (0..2).for_each(|node| fleet.ledger.set_clock_offset(node, 0));
    for place in places() {
        revive(fleet, place);
    }
    fleet.world.note("all is mended");
}
