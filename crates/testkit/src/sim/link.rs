//! The way from a process to a service: it takes time, and loses calls and answers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::sleep;

use super::{Process, World};

/// What the ways to a service are like at the moment.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Nobody answers: the service is down.
    pub down: bool,
    /// Processes that can't reach it, by name.
    pub cut_off: BTreeSet<String>,
    /// One way takes from so long to so long.
    pub latency: (Duration, Duration),
    /// Calls that are lost before they are served, in percent.
    pub lost_calls: f64,
    /// Answers that are lost after the call was served, in percent.
    pub lost_answers: f64,
}

impl Default for Weather {
    fn default() -> Self {
        let latency = (Duration::from_millis(0), Duration::from_millis(2));
        Self { down: false, cut_off: BTreeSet::new(), latency, lost_calls: 0.0, lost_answers: 0.0 }
    }
}

/// A service that processes call: a store's node, the broker, a mail server's host.
pub struct Service {
    name: String,
    /// After so long without an answer a caller gives up.
    answer_max: Duration,
    weather: Mutex<Weather>,
}

impl Service {
    /// One that answers.
    pub fn new(name: impl Into<String>, answer_max: Duration) -> Arc<Self> {
        Arc::new(Self { name: name.into(), answer_max, weather: Mutex::default() })
    }

    /// For the trace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its ways are like, to read and to change.
    pub fn weather(&self) -> MutexGuard<'_, Weather> {
        self.weather.lock().expect("nobody panics while holding it")
    }

    fn refuses(&self, process: &Process) -> bool {
        let weather = self.weather();
        weather.down || weather.cut_off.contains(process.name())
    }
}

/// No answer came: it may have been served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost;

/// One process's way to one service.
#[derive(Clone)]
pub struct Link {
    /// The run.
    pub world: World,
    /// Who calls.
    pub process: Arc<Process>,
    /// Who is called.
    pub service: Arc<Service>,
}

impl Link {
    /// Between these two.
    pub fn new(world: &World, process: &Arc<Process>, service: &Arc<Service>) -> Self {
        Self { world: world.clone(), process: Arc::clone(process), service: Arc::clone(service) }
    }

    /// One call: `serve` happens once or never, at one moment, and its answer comes or not. A dropped future may have been served.
    ///
    /// # Errors
    /// `Lost`: nothing is known.
    pub async fn call<T>(&self, operation: &str, serve: impl FnOnce() -> T) -> Result<T, Lost> {
        self.process.gate().await;
        let (latency, lost_calls, lost_answers) = {
            let weather = self.service.weather();
            (weather.latency, weather.lost_calls, weather.lost_answers)
        };
        sleep(self.world.between(latency.0, latency.1)).await;
        if self.service.refuses(&self.process) {
            self.told("call refused", operation);
            sleep(latency.1).await;
            self.process.gate().await;
            return Err(Lost);
        }
        if self.world.happens(lost_calls) {
            self.told("call lost", operation);
            return self.give_up().await;
        }
        let answer = serve();
        self.world.note(&format!("{} {} {operation}", self.process.name(), self.service.name));
        if self.world.happens(lost_answers) {
            self.told("answer lost", operation);
            return self.give_up().await;
        }
        sleep(self.world.between(latency.0, latency.1)).await;
        // An answer that is under way when the service goes is lost with its connection.
        let refused = self.service.refuses(&self.process);
        self.process.gate().await;
        if refused {
            self.told("answer cut off", operation);
            return Err(Lost);
        }
        Ok(answer)
    }

    /// A connection that breaks is noticed at once, one that goes silent after a while.
    async fn give_up<T>(&self) -> Result<T, Lost> {
        if self.world.happens(50.0) {
            sleep(self.service.answer_max).await;
        }
        self.process.gate().await;
        Err(Lost)
    }

    fn told(&self, what: &str, operation: &str) {
        self.world.count(&format!("{what}: {}", self.service.name));
        self.world.note(&format!("{} {} {operation}: {what}", self.process.name(), self.service.name));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn link(world: &World) -> Link {
        Link::new(world, &Process::start("worker"), &Service::new("ledger", Duration::from_secs(5)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_call_is_not_served_and_a_lost_answer_was() {
        let world = World::new(3, false);
        let (link, served) = (link(&world), AtomicU32::new(0));
        let serve = || served.fetch_add(1, Ordering::SeqCst);
        assert_eq!(link.call("get", serve).await, Ok(0));
        link.service.weather().lost_calls = 100.0;
        assert_eq!((link.call("get", serve).await, served.load(Ordering::SeqCst)), (Err(Lost), 1));
        *link.service.weather() = Weather { lost_answers: 100.0, ..Weather::default() };
        assert_eq!((link.call("get", serve).await, served.load(Ordering::SeqCst)), (Err(Lost), 2));
        *link.service.weather() = Weather { cut_off: ["worker".to_owned()].into(), ..Weather::default() };
        assert_eq!((link.call("get", serve).await, served.load(Ordering::SeqCst)), (Err(Lost), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_of_a_dead_process_is_never_answered() {
        let world = World::new(3, false);
        let link = link(&world);
        link.process.kill();
        let called = link.call("get", || ());
        assert!(tokio::time::timeout(Duration::from_secs(3600), called).await.is_err());
    }
}
