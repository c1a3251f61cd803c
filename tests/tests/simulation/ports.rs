//! What a process of a simulated fleet has in its hands, whatever fleet it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use curfew_book::Book;
use curfew_broker::Broker;
use curfew_content::Artifacts;
use curfew_courier::pause::Pauses;
use curfew_courier::{Machine, Rulebook};
use curfew_domain::sealed::Keyring;
use curfew_ledger::Ledger;
use curfew_review::Review;
use curfew_testkit::sim::{SimBroker, SimLedger, SimStore, World};
use curfew_worker::Lane;
use uuid::Uuid;

/// What a process does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    Scheduler,
    Worker,
    DeadLetter,
}

impl Role {
    pub const fn word(self) -> &'static str {
        match self {
            Role::Scheduler => "scheduler",
            Role::Worker => "worker",
            Role::DeadLetter => "deadletter",
        }
    }
}

/// What one process reaches the servers by.
#[derive(Clone)]
pub struct Ports {
    pub ledger: Arc<SimLedger>,
    pub store: Arc<SimStore>,
    pub broker: Arc<SimBroker>,
}

/// What every process knows, beside the servers.
#[derive(Clone)]
pub struct Hands {
    pub rulebook: Arc<Rulebook>,
    pub keyring: Arc<Keyring>,
    pub machine: Arc<dyn Machine>,
    pub pauses: Arc<dyn Pauses>,
}

impl Ports {
    pub fn scheduler(&self, hands: Hands) -> curfew_scheduler::Ports {
        curfew_scheduler::Ports {
            ledger: Arc::clone(&self.ledger) as Arc<dyn Ledger>,
            book: Arc::clone(&self.store) as Arc<dyn Book>,
            review: Arc::clone(&self.store) as Arc<dyn Review>,
            broker: Arc::clone(&self.broker) as Arc<dyn Broker>,
            rulebook: hands.rulebook,
            machine: hands.machine,
            pauses: hands.pauses,
        }
    }

    pub fn worker(&self, hands: Hands, lanes: BTreeMap<String, Arc<Lane>>) -> curfew_worker::Ports {
        curfew_worker::Ports {
            ledger: Arc::clone(&self.ledger) as Arc<dyn Ledger>,
            book: Arc::clone(&self.store) as Arc<dyn Book>,
            broker: Arc::clone(&self.broker) as Arc<dyn Broker>,
            rulebook: hands.rulebook,
            keyring: hands.keyring,
            artifacts: Arc::new(Artifacts::new(std::path::Path::new("."), &[]).expect("no roots are good roots")),
            lanes: Arc::new(lanes),
            machine: hands.machine,
            pauses: hands.pauses,
        }
    }

    pub fn deadletter(&self, hands: Hands) -> curfew_deadletter::Ports {
        curfew_deadletter::Ports {
            ledger: Arc::clone(&self.ledger) as Arc<dyn Ledger>,
            book: Arc::clone(&self.store) as Arc<dyn Book>,
            review: Arc::clone(&self.store) as Arc<dyn Review>,
            broker: Arc::clone(&self.broker) as Arc<dyn Broker>,
            keyring: hands.keyring,
            owners: Arc::default(),
            pauses: hands.pauses,
        }
    }
}

/// Chance from the seed; the system's clock is the true one.
pub struct SimMachine {
    pub world: World,
}

impl Machine for SimMachine {
    fn fraction(&self) -> f64 {
        self.world.fraction()
    }

    fn uuid(&self) -> Uuid {
        self.world.uuid()
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(self.world.now().as_millis()).expect("after 1970"))
    }
}
