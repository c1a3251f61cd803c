//! Moments between two steps that a fault wants to hit: a process that comes there is killed, or freezes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_courier::pause::{Pauses, Point};
use curfew_domain::Key;
use curfew_testkit::sim::Process;
use tokio::time::sleep;

use crate::fleet::{Fleet, Place};
use crate::ports::Role;

/// What befalls a process at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Befalls {
    Killed,
    Frozen(Duration),
    /// The delivery panics: its worker goes on.
    Panics,
}

impl Befalls {
    pub const fn word(self) -> &'static str {
        match self {
            Befalls::Killed => "killed",
            Befalls::Frozen(_) => "frozen",
            Befalls::Panics => "panics",
        }
    }
}

/// What a planned panic carries.
struct Planned;

/// Planned panics are not printed; every other one is, as before.
pub fn keep_quiet_about_planned_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Planned>() {
                before(info);
            }
        }));
    });
}

/// The moments in a role's work.
pub const fn points_of(role: Role) -> &'static [Point] {
    match role {
        Role::Scheduler => &[Point::BeforeStaging],
        Role::Worker => &[
            Point::AfterClaim,
            Point::BeforeIntent,
            Point::AfterIntent,
            Point::AfterIntent,
            Point::LastLook,
            Point::LastLook,
            Point::AfterVerdict,
            Point::AfterVerdict,
            Point::AfterReport,
        ],
        Role::DeadLetter => &[Point::BeforeRecord],
    }
}

/// A process whose moments may be hit.
pub struct Moments {
    pub fleet: Arc<Fleet>,
    pub place: Place,
    pub process: Arc<Process>,
}

#[async_trait]
impl Pauses for Moments {
    async fn at(&self, point: Point, _key: &Key) {
        let Some(befalls) = self.fleet.hit(self.place, point) else { return };
        self.fleet.world.count(&format!("at {}: {}", point.word(), befalls.word()));
        self.fleet.world.note(&format!("{} at {}: {befalls:?}", self.process.name(), point.word()));
        match befalls {
            Befalls::Killed => self.process.kill(),
            Befalls::Panics => std::panic::panic_any(Planned),
            Befalls::Frozen(lasts) => {
                self.process.freeze();
                let process = Arc::clone(&self.process);
                tokio::spawn(async move {
                    sleep(lasts).await;
                    process.thaw();
                });
            }
        }
        self.process.gate().await;
    }
}
