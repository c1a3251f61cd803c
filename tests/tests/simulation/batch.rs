//! A batch of seeds: each twice, the traces compared; what occurred, counted; what never did, named.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use curfew_domain::simulation::{CHANGED, EVENTS, REFUSALS, Seen};

use crate::faults::Fault;
use crate::plant::Planted;
use crate::run::{Came, run};

/// The environment variable that asks for one seed alone.
const SEED: &str = "CURFEW_SIM_SEED";
/// How many seeds a batch has.
const SEEDS: &str = "CURFEW_SIM_SEEDS";
/// The environment variable that asks for one planted bug alone, by a part of its name.
const PLANTED: &str = "CURFEW_SIM_PLANTED";
/// In each run of the tests: what two cores do beside the other tests.
const SEEDS_DEFAULT: u64 = 2_000;
/// From so many on, nothing that is drawn may have failed to occur.
const SEEDS_COVERING: u64 = 2_000;
/// A planted bug is caught within so many.
const PLANTED_MAX: u64 = 600;

/// Refusals that no run meets, and why.
const UNMET: &[(&str, &str)] = &[
    ("TooManyDoubts", "it takes nine handoffs in doubt of one job"),
    ("NotOwner", "who lost its lease hears it from the swap, which comes before the next transition"),
    ("LeaseRuns", "the healer looks at the lease before it asks"),
];

/// Events that no run meets, and why.
const UNMET_EVENTS: &[(&str, &str)] = &[("SentInGeneration", "it takes a lost tail over a replay of a job that was accepted: the model reaches it")];

/// Effects without which a fault was drawn in vain.
const EFFECTS: &[&str] = &[
    "at after-claim: killed",
    "at after-claim: panics",
    "at before-intent: killed",
    "at after-intent: killed",
    "at after-intent: frozen",
    "at last-look: killed",
    "at last-look: frozen",
    "at after-verdict: killed",
    "at after-verdict: frozen",
    "at after-report: killed",
    "at before-staging: killed",
    "at before-staging: frozen",
    "at before-record: killed",
    "at before-record: frozen",
    "call lost: ledger-0",
    "call lost: book",
    "call lost: broker",
    "answer lost: ledger-0",
    "answer lost: book",
    "answer lost: broker",
    "ledger restarted, its tail lost",
    "ledger wiped",
    "confirm lost",
    "publish lost",
    "message duplicated",
    "message reordered",
    "rung early",
    "rung late",
    "ledger: handoff -> sent",
    "ledger: handoff -> dead_letter",
    "ledger: dead_letter, recorded -> sent",
    "ledger: claimed -> scheduled",
    "ledger: queued -> cancelled",
    "ledger: scheduled -> suppressed",
];

#[derive(Default)]
struct Batch {
    seeds: u64,
    accepted: u64,
    virtual_s: u64,
    lines: u64,
    counts: BTreeMap<String, u64>,
    ends: BTreeMap<&'static str, u64>,
    seen: Seen,
    broken: Vec<String>,
}

impl Batch {
    fn add(&mut self, came: Came) {
        self.seeds += 1;
        self.accepted += came.accepted;
        self.virtual_s += came.lasted.as_secs();
        self.lines += came.lines;
        came.counts.into_iter().for_each(|(name, n)| *self.counts.entry(name).or_default() += n);
        came.ends.into_iter().for_each(|(name, n)| *self.ends.entry(name).or_default() += n);
        came.seen.into_iter().for_each(|(name, n)| *self.seen.entry(name).or_default() += n);
        if !came.broken.is_empty() {
            self.broken.push(failure(came.seed, &came.broken));
        }
    }

    fn print(&self) {
        println!(
            "{} seeds, each twice: {} mails accepted, {} h of virtual time, {} lines of trace",
            self.seeds,
            self.accepted,
            self.virtual_s / 3600,
            self.lines
        );
        println!("ends: {:?}", self.ends);
        for (name, n) in &self.counts {
            println!("{n:>9}  {name}");
        }
        for ((event, came), n) in &self.seen {
            println!("{n:>9}  {event}: {came}");
        }
    }

    /// What should have occurred and didn't.
    fn never(&self) -> Vec<String> {
        let faults = Fault::ALL.iter().map(|fault| format!("fault: {fault:?}")).filter(|name| !self.counts.contains_key(name));
        let known = |event: &&&str| UNMET_EVENTS.iter().any(|(name, _)| name == *event);
        let events = EVENTS.iter().filter(|event| !self.seen.contains_key(&(*event, CHANGED)) && !known(event)).map(|event| format!("event {event}"));
        let refused = |refusal: &&str| self.seen.keys().any(|(_, came)| **refusal == **came);
        let excused = |refusal: &&&str| UNMET.iter().any(|(name, _)| name == *refusal);
        let refusals = REFUSALS.iter().filter(|refusal| !refused(refusal) && !excused(refusal)).map(|refusal| format!("refusal {refusal}"));
        let effects = EFFECTS.iter().filter(|effect| !self.counts.contains_key(**effect)).map(|effect| format!("effect {effect}"));
        faults.chain(events).chain(refusals).chain(effects).collect()
    }
}

fn failure(seed: u64, broken: &[String]) -> String {
    let repeat = format!("{SEED}={seed} cargo test --locked -p curfew-tests --test simulation every_seed -- --nocapture");
    format!("seed {seed}:\n  {}\n  again: {repeat}", broken.join("\n  "))
}

/// Runs on every core until all seeds are done or some have failed.
fn all(first: u64, count: u64) -> Batch {
    let (next, batch) = (AtomicU64::new(first), Mutex::new(Batch::default()));
    std::thread::scope(|scope| {
        for _core in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || batch.lock().expect("nobody panics with it").broken.len() >= 5 {
                        return;
                    }
                    let (mut once, again) = (run(seed, Planted::Nothing, false), run(seed, Planted::Nothing, false));
                    if once != again {
                        once.broken.push(format!("two runs differ: {} and {} lines", once.lines, again.lines));
                    }
                    batch.lock().expect("nobody panics with it").add(once);
                }
            });
        }
    });
    batch.into_inner().expect("nobody panics with it")
}

#[test]
fn every_seed_keeps_the_promises() {
    if let Ok(seed) = std::env::var(SEED) {
        let came = run(seed.parse().expect("CURFEW_SIM_SEED is a whole number"), Planted::Nothing, true);
        assert!(came.broken.is_empty(), "{}", failure(came.seed, &came.broken));
        return;
    }
    let count = std::env::var(SEEDS).map_or(SEEDS_DEFAULT, |text| text.parse().expect("CURFEW_SIM_SEEDS is a whole number"));
    let began = Instant::now();
    let batch = all(1, count);
    batch.print();
    println!("{:.1} s", began.elapsed().as_secs_f64());
    assert!(batch.broken.is_empty(), "{}", batch.broken.join("\n"));
    if count >= SEEDS_COVERING {
        let never = batch.never();
        assert!(never.is_empty(), "never occurred: {never:#?}");
    }
}

#[test]
fn every_planted_bug_is_caught() {
    let asked = std::env::var(PLANTED).unwrap_or_default();
    let all: Vec<_> = Planted::ALL.into_iter().filter(|(planted, _)| format!("{planted:?}").contains(&asked)).collect();
    assert!(!all.is_empty(), "{PLANTED}={asked} is no bug that can be planted");
    let next = AtomicU64::new(0);
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _core in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((planted, breaks)) = all.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let caught = (1..=PLANTED_MAX).find_map(|seed| {
                        let came = run(seed, *planted, false);
                        came.broken.into_iter().find(|broken| broken.starts_with(breaks)).map(|broken| (seed, broken))
                    });
                    match caught {
                        Some((seed, broken)) => println!("{planted:?}: seed {seed}: {broken}"),
                        None => missed.lock().expect("nobody panics with it").push(format!("{planted:?}")),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("nobody panics with it");
    assert!(missed.is_empty(), "not caught within {PLANTED_MAX} seeds: {missed:?}");
}
