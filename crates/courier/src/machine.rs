//! What a process takes from its machine besides monotonic time: chance, and the system's clock. A simulation gives its own, so that one seed
//! is one run.

use std::time::SystemTime;

use uuid::Uuid;

/// Chance and the system's clock.
pub trait Machine: Send + Sync {
    /// From 0.0 to 1.0, never 1.0: for jitter.
    fn fraction(&self) -> f64;

    /// A name that nobody else draws: a worker's, a token's.
    fn uuid(&self) -> Uuid;

    /// The system's clock, which may step.
    fn system_time(&self) -> SystemTime;
}

/// The machine that this process runs on: production.
#[derive(Clone, Copy, Default, Debug)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn fraction(&self) -> f64 {
        rand::random()
    }

    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }
}
