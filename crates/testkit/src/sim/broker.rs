//! The simulated broker: RabbitMQ's rungs, queues and answers as the adapter shows them, with its faults.
//!
//! One server for a run, one client for each process. A process that is cut off, or dead, keeps its consumers until the server misses its
//! heartbeat; what it held is then delivered again. Read `broker_queues.rs` for the queues, `broker_client.rs` for a process's side.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use curfew_domain::Shard;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::broker_client::SimBroker;
use super::broker_queues::{Batch, Queues};
use super::{Process, Service, Standing, World};

/// From a publish to the moment its confirm is missed.
pub(super) const CONFIRM_MAX: Duration = Duration::from_secs(10);
/// A client that isn't heard of for so long is gone, at the latest.
const HEARTBEAT_MAX: Duration = Duration::from_secs(20);
/// How often the server looks after its clients.
const HEARTBEAT_LOOK: Duration = Duration::from_secs(1);

/// What goes wrong with messages, in percent of them.
#[derive(Clone, Debug, Default)]
pub struct BrokerFaults {
    /// Published, and not confirmed.
    pub confirms_lost: f64,
    /// Never arrived, and not confirmed.
    pub publishes_lost: f64,
    /// Confirmed, and lost between a rung and its ready queue (at-most-once dead-lettering).
    pub lost_on_the_way: f64,
    /// Refused by the broker (a nack).
    pub refused: f64,
    /// Published twice.
    pub duplicated: f64,
    /// Put anywhere in the ready queue instead of at its end.
    pub reordered: f64,
    /// Kept by its rung for up to `late_max` too long; so is what stands behind it.
    pub late: f64,
    /// See `late`.
    pub late_max: Duration,
    /// Let go by its rung up to `early_max` too soon, as a wildcard TTL policy would.
    pub early: f64,
    /// See `early`.
    pub early_max: Duration,
    /// Whether the server gives up a frozen process as it does a dead one.
    pub gives_up_frozen: bool,
}

/// What a restart leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survives {
    /// Every message: unanswered ones are delivered again.
    All,
    /// Nothing: a broker that came up with an empty disk.
    Nothing,
}

/// Queues to delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// All ready queues.
    Ready,
    /// All rungs' queues.
    Delay,
}

/// The broker of a run.
pub struct SimBrokerServer {
    core: Arc<Core>,
    tasks: [JoinHandle<()>; 2],
    clients: AtomicU64,
}

/// What server and clients share.
pub(super) struct Core {
    pub(super) world: World,
    pub(super) service: Arc<Service>,
    pub(super) queues: Mutex<Queues>,
    faults: Mutex<BrokerFaults>,
    timer_moved: Notify,
    alarm: Mutex<Alarm>,
}

/// Publishing is blocked, as by a broker that is short of memory.
#[derive(Default)]
struct Alarm {
    /// Alarms so far.
    number: u64,
    raised: bool,
    /// Written by clients that hadn't been told: read when the alarm ends.
    held: Vec<Batch>,
}

impl SimBrokerServer {
    /// A broker with ready queues 0 to `shards` - 1, on the current runtime.
    pub fn start(world: &World, shards: u8) -> Self {
        let core = Arc::new(Core {
            world: world.clone(),
            service: Service::new("broker", CONFIRM_MAX),
            queues: Mutex::new(Queues::new(shards)),
            faults: Mutex::default(),
            timer_moved: Notify::new(),
            alarm: Mutex::default(),
        });
        let tasks = [tokio::spawn(run_timer(Arc::clone(&core))), tokio::spawn(look_after(Arc::clone(&core)))];
        Self { core, tasks, clients: AtomicU64::new(0) }
    }

    /// The way of one process to it. A process that starts anew needs a new one.
    pub fn client(&self, process: &Arc<Process>) -> SimBroker {
        SimBroker::new(&self.core, process, self.clients.fetch_add(1, Ordering::SeqCst))
    }

    /// Its run.
    pub fn world(&self) -> &World {
        &self.core.world
    }

    /// The weather on its ways.
    pub fn service(&self) -> &Arc<Service> {
        &self.core.service
    }

    /// What goes wrong with messages, to read and to change.
    pub fn faults(&self) -> MutexGuard<'_, BrokerFaults> {
        self.core.faults.lock().expect("nobody panics while holding it")
    }

    /// Forgets every message that is in nobody's hand.
    pub fn purge(&self) {
        let lost = self.core.lock().purge();
        self.core.told("purged", lost);
    }

    /// Deletes queues with all they hold; their consumers end. They are declared again at the next use.
    pub fn delete_queues(&self, kind: QueueKind) {
        let lost = self.core.lock().delete(kind);
        self.core.told("queues deleted", lost);
    }

    /// Ends every consumer's stream, and gives back what it held.
    pub fn end_consumers(&self) {
        self.core.lock().end_consumers();
        self.core.told("consumers ended", 0);
    }

    /// Goes and comes again, at once; a longer absence is the weather's `down` between.
    pub fn restart(&self, survives: Survives) {
        self.core.lock().end_consumers();
        let lost = match survives {
            Survives::All => 0,
            Survives::Nothing => self.core.lock().purge(),
        };
        self.core.told("restarted", lost);
    }

    /// Raises the alarm: publishing waits. A client is told at its first publish; what that held is read when the alarm ends.
    pub fn block(&self) {
        {
            let mut alarm = self.core.alarm();
            if !std::mem::replace(&mut alarm.raised, true) {
                alarm.number += 1;
            }
        }
        self.core.told("blocked", 0);
    }

    /// Ends the alarm.
    pub fn unblock(&self) {
        let held = {
            let mut alarm = self.core.alarm();
            alarm.raised = false;
            std::mem::take(&mut alarm.held)
        };
        self.core.told("unblocked", held.len());
        for batch in held {
            // Whoever wrote it has given it up; its answers reach nobody.
            let _unheard = self.core.publish(batch.shard, &batch.messages);
        }
    }

    /// Messages anywhere in it, those in a consumer's hand among them.
    pub fn held(&self) -> usize {
        self.core.lock().held()
    }

    /// Wake-ups that were published into a ready queue where one of the same job and generation waited already: a backlog that multiplies.
    pub fn multiplied(&self) -> u64 {
        self.core.lock().multiplied()
    }

    /// Messages that the dead-letter consumer rejected, oldest first.
    pub fn parked(&self) -> Vec<Vec<u8>> {
        self.core.lock().parked().to_vec()
    }
}

impl Drop for SimBrokerServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Core {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().expect("nobody panics while holding it")
    }

    fn alarm(&self) -> MutexGuard<'_, Alarm> {
        self.alarm.lock().expect("nobody panics while holding it")
    }

    /// The number of the alarm that is raised.
    pub(super) fn alarm_raised(&self) -> Option<u64> {
        let alarm = self.alarm();
        alarm.raised.then_some(alarm.number)
    }

    /// Keeps what a client wrote under the alarm; false where none is raised.
    pub(super) fn hold(&self, shard: Shard, messages: &[(curfew_broker::Rung, Vec<u8>)]) -> bool {
        let mut alarm = self.alarm();
        if alarm.raised {
            alarm.held.push(Batch { shard, messages: messages.to_vec() });
        }
        alarm.raised
    }

    /// Takes messages in, each with its own luck.
    pub(super) fn publish(&self, shard: Shard, messages: &[(curfew_broker::Rung, Vec<u8>)]) -> Vec<curfew_broker::Published> {
        let faults = self.faults.lock().expect("nobody panics while holding it").clone();
        let answers = self.lock().publish(&self.world, &faults, shard, messages);
        self.timer_moved.notify_one();
        answers
    }

    /// Whether nothing passes between it and this process.
    pub(super) fn is_away_from(&self, process: &Process) -> bool {
        let weather = self.service.weather();
        weather.down || weather.cut_off.contains(process.name())
    }

    fn told(&self, what: &str, messages: usize) {
        self.world.count(&format!("broker {what}"));
        self.world.note(&format!("broker {what} ({messages} messages)"));
    }
}

/// Moves delayed messages at their moment.
async fn run_timer(core: Arc<Core>) {
    loop {
        let faults = core.faults.lock().expect("nobody panics while holding it").clone();
        let next = core.lock().arrive(&core.world, &faults, Instant::now());
        match next {
            Some(at) => tokio::select! {
                biased;
                () = core.timer_moved.notified() => {}
                () = sleep_until(at) => {}
            },
            None => core.timer_moved.notified().await,
        }
    }
}

/// Gives up clients that aren't heard of: their consumers end, and what they held is delivered again.
async fn look_after(core: Arc<Core>) {
    loop {
        sleep(HEARTBEAT_LOOK).await;
        let gives_up_frozen = core.faults.lock().expect("nobody panics while holding it").gives_up_frozen;
        let unheard = |process: &Process| match process.standing() {
            Standing::Runs => core.is_away_from(process),
            Standing::Frozen => gives_up_frozen || core.is_away_from(process),
            Standing::Dead => true,
        };
        let patience = || core.world.between(Duration::ZERO, HEARTBEAT_MAX);
        let given_up = core.lock().look_after(Instant::now(), unheard, patience);
        if given_up > 0 {
            core.told("gave up clients", given_up);
        }
    }
}
