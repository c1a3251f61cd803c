//! The record protocol, explored exhaustively over the product's own functions: `transition`, the judges of book and review, staging's first
//! version, recovery's rulings. Breadth first; a broken invariant comes with the shortest trace to it.
//!
//! Promises
//! - Every run explores `EVERY_RUN`, whole, and prints its states; `CURFEW_MODEL=long` explores `LONG` besides (build it with `--release`), and
//!   `CURFEW_MODEL=NAME` those alone whose name begins so.
//! - A new event, refusal, verdict, verb or ruling has no name in `seen.rs`, and doesn't compile; each name must have occurred over the batch.
//! - Each bug of `config::Plant`, planted in the model's own surroundings, is caught by the invariant that stands beside it.
//!
//! Not promised: what lies beyond the bounds of a configuration, the margins of clocks (5 s, 60 s, 15 min are taken for enough), the SQL and the
//! scripts of the adapters (their suites), the loops (the simulation). A late sleep is a move that isn't chosen.
//!
//! Read `world.rs`, then `moves.rs`, then `rules.rs`.

mod ask;
mod batch;
mod book;
mod config;
mod engine;
mod moves;
mod probe;
mod real;
mod rules;
mod seen;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use config::{Config, Plant};
use engine::Found;
use seen::Seen;

/// Names that no bounded world reaches, and why.
const UNREACHED: &[(&str, &str)] = &[
    ("refusal TooManyDoubts", "it takes nine handoffs in doubt of one job"),
    ("told Unknown", "the book of the model loses no rows"),
    ("evidence Unknown", "the book of the model loses no rows"),
    ("evidence Conflicting", "what was accepted is doubted first; only a provider's own event could speak against the record"),
];

/// Names that only the long set reaches, and why.
const ONLY_LONG: &[(&str, &str)] = &[
    ("event SentInGeneration", "a worker, a replay and a lost tail make millions of states"),
    ("ruling SentIn", "a worker, a replay and a lost tail make millions of states"),
];

/// Configurations explored side by side, as many as there are cores; what each found, in their order.
fn explore_all(configs: &[Config]) -> Vec<Found> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _core in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(config) = configs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = Instant::now();
                    let one = engine::explore(*config);
                    let (seconds, whole) = (began.elapsed().as_secs_f32(), if one.complete { "whole" } else { "to its bound" });
                    println!("{}: {} states, {} steps, {} deep, {whole}, {seconds:.1} s", config.name, one.states, one.steps, one.depth);
                    found.lock().expect("nobody panics with it").push((config.name, one));
                }
            });
        }
    });
    let found = found.into_inner().expect("nobody panics with it");
    for (name, one) in &found {
        for (rule, trace) in &one.broken {
            println!("{name}: {rule}\n{trace}");
        }
    }
    let broken: Vec<_> = found.iter().flat_map(|(name, one)| one.broken.keys().map(move |rule| format!("{name}: {rule}"))).collect();
    assert!(broken.is_empty(), "broken: {broken:#?}");
    found.into_iter().map(|(_, one)| one).collect()
}

/// A planted bug breaks what is named, and a trace leads there.
fn caught(plant: Plant, config: Config, breaks: &str) {
    let found = engine::explore(Config { name: "planted", ..config.with(plant) });
    let rules: Vec<_> = found.broken.keys().collect();
    let Some((rule, trace)) = found.broken.iter().find(|(rule, _)| rule.starts_with(breaks)) else {
        panic!("{plant:?} isn't caught by {breaks}: {} states, complete: {}, broken: {rules:?}", found.states, found.complete);
    };
    println!("{plant:?} after {} states: {rule}\n{trace}", found.states);
}

#[test]
fn every_promise_holds_in_every_interleaving() {
    let set = std::env::var("CURFEW_MODEL").unwrap_or_default();
    let every_run = batch::EVERY_RUN.iter().copied();
    let all = every_run.clone().chain(batch::LONG.iter().map(|config| Config { states_max: Some(batch::BOUND), ..*config }));
    let configs: Vec<Config> = match set.as_str() {
        "" => every_run.collect(),
        "long" => all.collect(),
        name => all.filter(|config| config.name.starts_with(name)).collect(),
    };
    let found = explore_all(&configs);
    let (states, steps): (usize, u64) = found.iter().fold((0, 0), |(states, steps), one| (states + one.states, steps + one.steps));
    println!("{} configurations, {states} states, {steps} steps", found.len());
    let mut seen = Seen::default();
    found.iter().for_each(|one| seen.add(&one.seen));
    let names = [
        seen::EVENTS,
        seen::REFUSALS,
        seen::VERDICTS,
        seen::ASSERTIONS,
        seen::VERBS,
        seen::GUARDS,
        seen::STATES,
        seen::TOLD,
        seen::TAKEN,
        seen::OPENINGS,
        seen::CLOSINGS,
        seen::RULINGS,
    ];
    let names: Vec<&str> = names.concat();
    names.iter().for_each(|name| println!("{:>8}  {name}", seen.count(name)));
    if configs.len() < batch::EVERY_RUN.len() {
        return;
    }
    let known = |name: &str| UNREACHED.iter().chain(ONLY_LONG.iter().filter(|_| set != "long")).any(|(known, _)| *known == name);
    let never: Vec<_> = names.iter().filter(|name| seen.count(name) == 0 && !known(name)).collect();
    assert!(never.is_empty(), "never occurred: {never:?}");
    let reached: Vec<_> = UNREACHED.iter().filter(|(name, _)| seen.count(name) > 0).collect();
    assert!(reached.is_empty(), "occurred, so its reason is no longer one: {reached:?}");
}
