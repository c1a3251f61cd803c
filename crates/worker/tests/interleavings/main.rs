//! The record protocol on the real stores: ledger, book, review, couriers and `transition` under random interleavings of several workers,
//! schedulers, dead-letter consumers and operators, with crashes between any two calls, lost replies, freezes of any length, whole-process
//! restarts, and a clock set by hand. The model's invariants I1 to I6 are checked against what the provider knows.
//!
//! A failure prints its seed: `CURFEW_SIM_SEED=n` runs that one alone, `CURFEW_SIM_LIVES=n` runs so many.

mod actors;
mod gate;
mod truth;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use curfew_book::{Book as _, BookState};
use curfew_domain::{Key, State};
use curfew_ledger::Ledger as _;
use curfew_review::Review as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use actors::Errand;
use gate::{Gate, Heard, Pass};
use truth::Fate;
use world::{DATE, SHARD, World};

/// Actors at once.
const ACTORS_MAX: usize = 7;
/// Steps with faults; then the fair end.
const STEPS: u64 = 900;
/// Fair rounds until everything must have ended (I3).
const ROUNDS_MAX: u32 = 400;

type Task = JoinHandle<Result<(), String>>;
/// Who waits at a gate, and its task.
type Standing = (oneshot::Sender<Pass>, Task);

struct Driver {
    world: Arc<World>,
    heard: mpsc::UnboundedReceiver<Heard>,
    driver: mpsc::UnboundedSender<Heard>,
    standing: BTreeMap<usize, Standing>,
    next: usize,
    faults: bool,
    trace: Vec<String>,
    names: BTreeMap<usize, Errand>,
    verbose: bool,
}

impl Driver {
    fn new(world: Arc<World>) -> Self {
        let (driver, heard) = mpsc::unbounded_channel();
        let verbose = std::env::var("CURFEW_SIM_SEED").is_ok();
        Self { world, heard, driver, standing: BTreeMap::new(), next: 0, faults: true, trace: Vec::new(), names: BTreeMap::new(), verbose }
    }

    async fn spawn(&mut self, errand: Errand) -> Result<(), String> {
        let actor = self.next;
        self.next += 1;
        self.names.insert(actor, errand);
        let gate = Gate { actor, driver: self.driver.clone() };
        let (world, done) = (Arc::clone(&self.world), self.driver.clone());
        let task = tokio::spawn(async move {
            let ended = actors::run(world, gate, errand).await;
            let _driver_gone = done.send(Heard::Done);
            ended
        });
        self.hear(task).await
    }

    /// Waits until the actor that runs stands at a gate again, or is done.
    async fn hear(&mut self, task: Task) -> Result<(), String> {
        match tokio::time::timeout(Duration::from_secs(60), self.heard.recv()).await {
            Ok(Some(Heard::At(actor, go))) => {
                self.standing.insert(actor, (go, task));
                Ok(())
            }
            Ok(Some(Heard::Done)) => task.await.map_err(|e| format!("an actor broke: {e}"))?,
            Ok(None) => Err("nobody speaks".to_owned()),
            Err(_elapsed) => Err("an actor hangs between two gates".to_owned()),
        }
    }

    async fn step(&mut self) -> Result<(), String> {
        let ids: Vec<usize> = self.standing.keys().copied().collect();
        let Some(actor) = self.world.dice.of(&ids).copied() else { return Ok(()) };
        let (go, task) = self.standing.remove(&actor).expect("it stands there");
        let pass = match self.world.dice.below(60) {
            0 | 1 if self.faults => Pass::FailBefore,
            2..=4 if self.faults => Pass::FailAfter,
            5 | 6 if self.faults => {
                self.note(|| format!("{actor} crashes"));
                task.abort();
                let _aborted = task.await;
                return Ok(());
            }
            _fair => Pass::Go,
        };
        let _gone = go.send(pass);
        self.hear(task).await?;
        if self.verbose {
            let state = self.state().await;
            let errand = self.names[&actor];
            self.note(|| format!("{actor} {errand:?} {pass:?} -> {state}"));
        }
        Ok(())
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.verbose {
            self.trace.push(what());
        }
    }

    async fn state(&self) -> String {
        let mut all = Vec::new();
        for key in &self.world.keys {
            let row = self.world.book.by_key(key).await.expect("the book answers").expect("accepted");
            let record = self.world.record(key).await.map(|r| {
                format!(
                    "{} g{} v{} closed={} token={:?} doubts={:?} verbs={:?}",
                    r.state, r.generation, r.version, r.closed, r.token, r.doubts, r.verbs
                )
            });
            all.push(format!(
                "[{} g{} seen={:?} doubt={:?} doubts={:?} verb={:?} | {record:?}]",
                row.state.word(),
                row.generation,
                row.seen,
                row.doubt,
                row.doubts,
                row.open_verb
            ));
        }
        all.join(" ")
    }

    /// The process dies with everybody in it, and starts again.
    async fn restart(&mut self) {
        for (_, (_, task)) in std::mem::take(&mut self.standing) {
            task.abort();
            let _aborted = task.await;
        }
        self.world.ledger.take_over(self.world.now()).await.expect("the ledger answers");
        self.note(|| "restart".to_owned());
    }

    async fn live(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            let dice = &self.world.dice;
            match dice.below(60) {
                0..=2 => self.world.advance(Duration::from_millis(*dice.of(&[100, 1_000, 2_000, 4_000, 11_000]).expect("some"))),
                3 if dice.one_in(3) => self.world.advance(Duration::from_secs(30)),
                4 if dice.one_in(10) => self.world.advance(Duration::from_secs(16 * 60)),
                5 if dice.one_in(20) => {
                    self.world.advance(Duration::from_secs(49 * 3_600));
                    self.world.ledger.expire(self.world.now(), 100).await.expect("the ledger answers");
                }
                6 if dice.one_in(4) => self.restart().await,
                7..=25 if self.standing.len() < ACTORS_MAX => {
                    let errand = *dice.of(&Errand::ALL).expect("some");
                    self.spawn(errand).await?;
                }
                _step => self.step().await?,
            }
        }
        self.rest().await
    }

    /// No more faults: from here an end must be reached (I3).
    async fn rest(&mut self) -> Result<(), String> {
        self.faults = false;
        for round in 0..ROUNDS_MAX {
            while !self.standing.is_empty() {
                self.step().await?;
            }
            if self.ended().await {
                return self.check().await;
            }
            self.world.advance(Duration::from_secs(if round % 4 == 0 { 15 } else { 2 }));
            for errand in Errand::ALL {
                if errand != Errand::Operate {
                    self.spawn(errand).await?;
                }
            }
        }
        Err(format!("I3: no end is reached: {}", self.state().await))
    }

    async fn ended(&self) -> bool {
        for key in &self.world.keys {
            let row = self.world.book.by_key(key).await.expect("the book answers").expect("accepted");
            let open = matches!(row.state, BookState::Planned | BookState::Staged) || row.open_verb.is_some();
            if open || self.world.record(key).await.is_some_and(|r| r.is_live()) {
                return false;
            }
        }
        true
    }

    /// I4 and what belongs to it, at rest.
    async fn check(&self) -> Result<(), String> {
        for key in &self.world.keys {
            self.check_job(key).await.map_err(|e| format!("{key}: {e}\n  {:?}", self.world.truths.of(key)))?;
        }
        let mended = self.world.ledger.recount(SHARD).await.expect("the ledger answers");
        if mended > 0 {
            return Err(format!("{mended} counters had drifted"));
        }
        let day = self.world.book.day(DATE, None).await.expect("the book answers");
        let sum = day.sent + day.dead_letter + day.cancelled + day.suppressed + day.planned + day.staged;
        if day.accepted != sum || sum != self.world.keys.len() as u64 {
            return Err(format!("P2: the day doesn't add up: {day:?}"));
        }
        Ok(())
    }

    async fn check_job(&self, key: &Key) -> Result<(), String> {
        let truth = self.world.truths.of(key);
        let row = self.world.book.by_key(key).await.expect("the book answers").expect("accepted");
        let item = self.world.review.open_item_of(key).await.expect("review answers");
        let fate = |wanted: Fate| truth.tokens.iter().filter(move |(_, _, f)| *f == wanted);
        if row.state == BookState::Sent && truth.mails() == 0 {
            return Err("I4: sent in the book, nothing accepted".to_owned());
        }
        for (token, _, _) in fate(Fate::Accepted) {
            let known = row.doubt == Some(*token) || row.doubts.contains(token) || row.window_doubts.contains(token);
            let taken = truth.accepted_risk.contains(token) || truth.closed_by_person;
            if row.state != BookState::Sent && !known && !taken {
                return Err(format!("I4: {token:?} was accepted, the book says {} and knows no doubt", row.state.word()));
            }
        }
        if row.state != BookState::DeadLetter && item.is_some() {
            return Err(format!("I4: an open item on a job that is {}", row.state.word()));
        }
        if row.state == BookState::DeadLetter && item.is_none() && !truth.closed_by_person {
            return Err("I4: a dead letter without an item".to_owned());
        }
        let in_doubt = row.doubt.is_some();
        if item.as_ref().is_some_and(|item| item.in_doubt != in_doubt) {
            return Err(format!("I4: the item says in doubt = {}, the row {in_doubt}", !in_doubt));
        }
        if truth.ended && !matches!(row.state, BookState::Cancelled | BookState::Suppressed | BookState::Sent) {
            return Err(format!("I5: a cancel was answered as applied, and the job is {}", row.state.word()));
        }
        if row.state == BookState::Cancelled && !truth.may_have_ended {
            return Err("I5: cancelled, and nobody asked".to_owned());
        }
        let told: Vec<State> = row.history.iter().map(|entry| entry.to).collect();
        let end = State::from_word(row.state.word()).expect("an end");
        if !told.contains(&end) {
            return Err(format!("P5: the story of a job that is {end} doesn't say so: {told:?}"));
        }
        let first = row.history.iter().any(|entry| entry.generation == 1 && entry.from.is_none());
        if !first && row.ever_staged {
            return Err(format!("P5: the beginning of the story is lost: {:?}", row.history));
        }
        Ok(())
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[tokio::test]
async fn whatever_dies_or_freezes_no_mail_goes_twice_late_or_early_and_no_job_is_lost() {
    let lives = number("CURFEW_SIM_LIVES").unwrap_or(60);
    let start = number("CURFEW_SIM_SEED").unwrap_or_else(|| number("CURFEW_SIM_FROM").unwrap_or(1));
    let lives = if number("CURFEW_SIM_SEED").is_some() { 1 } else { lives };
    let (mut markers, mut mails, mut states) = (0, 0, BTreeMap::new());
    for seed in start..start + lives {
        let world = Arc::new(World::new(seed).await);
        let mut driver = Driver::new(Arc::clone(&world));
        if let Err(broken) = driver.live().await {
            for line in &driver.trace {
                println!("{line}");
            }
            panic!("CURFEW_SIM_SEED={seed}: {broken}");
        }
        for key in &world.keys {
            markers += world.truths.of(key).tokens.len();
            mails += world.truths.of(key).mails();
            let row = world.book.by_key(key).await.expect("the book answers").expect("accepted");
            *states.entry(row.state).or_insert(0) += 1;
        }
    }
    println!("{lives} lives, {markers} end markers, {mails} mails, ends {states:?}");
    assert!(lives < 20 || states.len() >= 4, "the lives are too much alike: {states:?}");
}
