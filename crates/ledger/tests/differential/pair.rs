//! The Redis and the simulated adapter through restarts and recoveries, which SQLite has none of: two processes, in the roles' and in recovery's
//! hands, and a server that starts anew.
//!
//! How many calls it takes until a connection has noticed a restart depends on real time; before each call that is compared, both processes
//! ask until they know.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use curfew_domain::{Key, Moment, Record, Shard, WorkerId};
use curfew_ledger::redis::RedisLedger;
use curfew_ledger::{Create, Ledger, LedgerError, Recoverable};
use curfew_testkit::sim::{EPOCH, LedgerBugs, Process, SimLedger, SimLedgerOptions, SimLedgerServer, Weather, World};
use curfew_testservers::redis::{Options, Redis};

use super::call::{Answer, Call};
use super::compare;
use super::story::Story;
use super::tally::Tally;
use super::trio::{Runtimes, SHARDS, Standing, begins, shard};

const STEPS: u32 = 120;

/// What recovery asks, and what makes it necessary.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Restart,
    Call(Call),
    Adopt(Shard, u32, Moment),
    Recovered(Shard, u32),
    Meta(Shard),
    Survivors(Vec<Key>),
    WalkSurvivors(Shard, Option<Key>, usize),
    Supplant(Box<Create>, Option<(u32, u64)>),
    Hear(WorkerId),
    Heard(Shard, Moment),
    LastBeatOf(Shard),
    TimeOf(Shard),
}

/// Everything that must have occurred.
const OCCURS: &[&str] = &[
    "server restarts",
    "adopted",
    "adopted: later",
    "adopted: stale",
    "recovered",
    "recovered: refused",
    "supplanted",
    "supplant: refused",
    "a call is refused: the shard was on another server, or in another incarnation, when this began",
    "a call is refused: the shard recovers",
    "a call is taken",
    "a call of recovery is taken",
    "survivors: found",
    "heard: somebody",
];

struct Pair<'a> {
    runtimes: &'a Runtimes,
    clock: Arc<AtomicI64>,
    redis: [RedisLedger; 2],
    sims: [SimLedger; 2],
    sim_server: Arc<SimLedgerServer>,
    tally: Tally,
    /// Whose a shard is may have changed since the processes asked.
    changed: bool,
}

impl Standing for Pair<'_> {
    fn now(&self) -> Moment {
        Moment::from_millis(self.clock.load(Ordering::Relaxed))
    }

    fn stands(&self, key: &Key) -> Option<Record> {
        self.sim_server.entry(key).map(|entry| entry.record)
    }
}

impl<'a> Pair<'a> {
    fn fresh(runtimes: &'a Runtimes, url: &str, seed: u64) -> Self {
        let begins = begins();
        let clock = Arc::new(AtomicI64::new(begins.as_millis()));
        let by_hand: curfew_ledger::redis::Clock = {
            let clock = Arc::clone(&clock);
            Arc::new(move || Moment::from_millis(clock.load(Ordering::Relaxed)))
        };
        let options = curfew_ledger::redis::Options {
            prefix: format!("pair-{seed}"),
            shards: SHARDS,
            connections: 1,
            response_timeout: Duration::from_secs(30),
            clock: Some(by_hand),
            ..curfew_ledger::redis::Options::default()
        };
        let redis = std::array::from_fn(|_| RedisLedger::open(url, options.clone()).expect("well formed"));
        runtimes.real.block_on(redis[0].initialise()).expect("it answers");
        let (sims, sim_server) = runtimes.virtual_time.block_on(async {
            let options = SimLedgerOptions { shards: SHARDS, nodes: 1, ..SimLedgerOptions::default() };
            let server = SimLedgerServer::start(&World::new(0, false), options);
            *server.service(0).weather() = Weather { latency: (Duration::ZERO, Duration::ZERO), ..Weather::default() };
            server.set_clock_offset(0, begins.as_millis() - EPOCH.as_millis());
            let sims = ["one", "other"].map(|name| SimLedger::new(&server, &Process::start(name), LedgerBugs::default()));
            sims[0].initialise().await.expect("it answers");
            (sims, server)
        });
        Self { runtimes, clock, redis, sims, sim_server, tally: Tally::default(), changed: false }
    }

    /// Until both processes know each shard's server and incarnation, or that they are refused.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let keys: Vec<Key> = ["acme", "big", "corp", "d"].iter().map(|tenant| Key::parse(&format!("{tenant}/none")).expect("a key")).collect();
        for _ in 0..3 {
            self.runtimes.real.block_on(async {
                for (ledger, key) in self.redis.iter().flat_map(|ledger| keys.iter().map(move |key| (ledger, key))) {
                    let _refused_or_not = ledger.histories(std::slice::from_ref(key)).await;
                }
            });
            self.runtimes.virtual_time.block_on(async {
                for (ledger, key) in self.sims.iter().flat_map(|ledger| keys.iter().map(move |key| (ledger, key))) {
                    let _refused_or_not = ledger.histories(std::slice::from_ref(key)).await;
                }
            });
        }
    }

    fn meta(&self, shard: Shard) -> Option<curfew_ledger::Meta> {
        self.runtimes.virtual_time.block_on(self.sims[0].meta(shard)).expect("it answers")
    }

    /// Takes a step on both, in the hands of one of the processes.
    fn take(&mut self, server: &mut Redis, step: &Step, who: usize, recovers: bool) -> Result<(), String> {
        match step {
            Step::Pass(ms) => {
                self.clock.fetch_add(*ms as i64, Ordering::Relaxed);
                self.runtimes.virtual_time.block_on(tokio::time::advance(Duration::from_millis(*ms)));
                return Ok(());
            }
            Step::Restart => {
                server.kill9();
                self.runtimes.real.block_on(server.restart());
                self.sim_server.restart(0, Duration::ZERO);
                self.tally.count("pair", "server restarts");
                self.changed = true;
                self.settle();
                return Ok(());
            }
            Step::Adopt(..) | Step::Recovered(..) => {
                self.settle();
                self.changed = true;
            }
            _asked => self.settle(),
        }
        let (redis, sim): (Arc<dyn Ledger>, Arc<dyn Ledger>) = match recovers {
            true => (self.redis[who].in_recovery(), self.sims[who].in_recovery()),
            false => (Arc::new(self.redis[who].clone()), Arc::new(self.sims[who].clone())),
        };
        let (of_redis, word) = self.runtimes.real.block_on(step.asked(&*redis));
        let (of_sim, _) = self.runtimes.virtual_time.block_on(step.asked(&*sim));
        self.tally.count(
            "pair",
            &match (step, word.as_str()) {
                (Step::Call(_), "a call is taken") if recovers => "a call of recovery is taken".to_owned(),
                (_, word) => word.to_owned(),
            },
        );
        match compare::same(&of_redis, &of_sim) {
            true => Ok(()),
            false => Err(format!("{} by {who}, recovers: {recovers}\n  Redis: {of_redis:?}\n  simulated: {of_sim:?}", step.brief())),
        }
    }
}

impl Step {
    fn brief(&self) -> String {
        match self {
            Step::Call(call) => call.brief(),
            Step::Supplant(create, over) => format!("over {over:?}: {}", Call::Create(vec![Create::clone(create)]).brief()),
            other => format!("{other:?}"),
        }
    }

    /// The answer, and a word on it for the table.
    async fn asked(&self, ledger: &dyn Ledger) -> (Answer, String) {
        let recovery = ledger.recoverable().expect("both may lose their latest part");
        let plain = |word: &str, answer: String| (Answer::Text(answer), word.to_owned());
        match self {
            Step::Pass(_) | Step::Restart => unreachable!("nobody is asked"),
            Step::Call(call) => {
                let (answer, _) = call.send(ledger).await;
                let refused = match &answer {
                    Answer::Text(text) => text.strip_prefix("error: ").map(|error| format!("a call is refused: {error}")),
                    Answer::Entry(_) | Answer::Walked(_) | Answer::Overdue(..) | Answer::Lines(..) => None,
                };
                (answer, refused.unwrap_or_else(|| "a call is taken".to_owned()))
            }
            Step::Adopt(shard, incarnation, looked_at) => {
                let adopted = recovery.adopt(*shard, *incarnation, *looked_at).await;
                let word = match &adopted {
                    Ok(curfew_ledger::Adopted::Adopted) => "adopted",
                    Ok(curfew_ledger::Adopted::Later) => "adopted: later",
                    Ok(curfew_ledger::Adopted::Stale) => "adopted: stale",
                    Err(_) => "adopted: unknown",
                };
                plain(word, told(adopted))
            }
            Step::Recovered(shard, incarnation) => {
                let recovered = recovery.recovered(*shard, *incarnation).await;
                plain(if recovered.is_ok() { "recovered" } else { "recovered: refused" }, told(recovered))
            }
            Step::Meta(shard) => {
                // The ids are each server's own.
                let meta = recovery.meta(*shard).await.map(|meta| meta.map(|m| (m.incarnation, m.recovering, m.since, m.of_this_server)));
                plain("meta", told(meta))
            }
            Step::Survivors(keys) => {
                let survivors = recovery.survivors(keys).await;
                let found = survivors.as_ref().is_ok_and(|all| all.iter().any(Option::is_some));
                plain(if found { "survivors: found" } else { "survivors: none" }, told(survivors))
            }
            Step::WalkSurvivors(shard, after, limit) => plain("walk survivors", told(recovery.walk_survivors(*shard, after.as_ref(), *limit).await)),
            Step::Supplant(create, over) => {
                let supplanted = recovery.supplant(Create::clone(create), *over).await;
                let done = matches!(&supplanted, Ok(curfew_ledger::Created::Created));
                plain(if done { "supplanted" } else { "supplant: refused" }, told(supplanted))
            }
            Step::Hear(worker) => {
                let shards: Vec<Shard> = (0..SHARDS).map(Shard).collect();
                let heard: Vec<String> = recovery.hear(*worker, &shards).await.into_iter().map(told).collect();
                plain("hear", format!("{heard:?}"))
            }
            Step::Heard(shard, since) => {
                let heard = recovery.heard(*shard, *since).await;
                let word = if heard.as_ref().is_ok_and(|heard| !heard.is_empty()) { "heard: somebody" } else { "heard: nobody" };
                plain(word, told(heard))
            }
            Step::LastBeatOf(shard) => plain("last beat of", told(recovery.last_beat_of(*shard).await)),
            Step::TimeOf(shard) => plain("time of", told(recovery.time_of(*shard).await)),
        }
    }
}

fn told<T: std::fmt::Debug>(answer: Result<T, LedgerError>) -> String {
    answer.map_or_else(|error| format!("error: {error}"), |answer| format!("{answer:?}"))
}

/// The next step that chance picks.
fn step(story: &Story, pair: &Pair<'_>, tally: &mut Tally) -> Step {
    let (world, now, shard_of) = (&story.world, pair.now(), story.shard());
    let incarnation = |shard: Shard| pair.meta(shard).map_or(0, |meta| meta.incarnation);
    let needs = |what: fn(&curfew_ledger::Meta) -> bool| {
        let found = (0..SHARDS).map(Shard).find(|shard| pair.meta(*shard).is_some_and(|meta| what(&meta)));
        found.filter(|_| world.happens(70.0)).unwrap_or(shard_of)
    };
    match world.below(100) {
        0 => Step::Restart,
        1..=9 => {
            let shard_of = needs(|meta| !meta.of_this_server);
            let looked_at = now.minus(Duration::from_millis(*world.one_of(&[0, 1_000, 5_000, 5_001]).expect("there are some")));
            let raised = incarnation(shard_of) + *world.one_of(&[0, 1, 1, 1, 2]).expect("there are some");
            Step::Adopt(shard_of, raised, looked_at)
        }
        10..=15 => {
            let shard_of = needs(|meta| meta.recovering);
            Step::Recovered(shard_of, incarnation(shard_of) + u32::from(world.happens(10.0)))
        }
        16..=18 => Step::Meta(shard_of),
        19..=22 => Step::Survivors(vec![story.key(), story.key(), story.key()]),
        23..=26 => Step::WalkSurvivors(shard_of, world.happens(30.0).then(|| story.key()), 1 + world.below(5) as usize),
        27..=31 => {
            let mut create = story.create(pair);
            let key = create.change.record.key.clone();
            let stands = pair.stands(&key);
            create.change.record.incarnation = incarnation(shard(&key));
            create.change.record.generation = stands.as_ref().map_or(1, |record| record.generation + 1);
            let over = stands.map(|record| (record.generation, record.version + u64::from(world.happens(20.0))));
            Step::Supplant(Box::new(create), over)
        }
        32..=34 => Step::Hear(story.worker()),
        35..=37 => Step::Heard(shard_of, now.minus(Duration::from_secs(world.below(30)))),
        38 => Step::LastBeatOf(shard_of),
        39 => Step::TimeOf(shard_of),
        40..=45 => Step::Pass(world.below(3_000)),
        _calls => {
            let behind = u32::from(world.happens(10.0));
            let call = match story.call(pair, tally) {
                // A timer is lost behind a server's back, which the three-sided story does.
                Call::LoseTimer { key, .. } => Call::RestoreTimer(key),
                call => call,
            };
            Step::Call(call.begun_in(|key| incarnation(shard(key)).saturating_sub(behind)))
        }
    }
}

/// Plays so many stories; what occurred.
pub fn play(seeds: std::ops::Range<u64>) -> Tally {
    let runtimes = Runtimes::new();
    let mut server = runtimes.real.block_on(Redis::start(Options::default()));
    let mut all = Tally::default();
    for seed in seeds {
        let url = server.url();
        let mut pair = Pair::fresh(&runtimes, &url, seed);
        let (mut story, mut told) = (Story::new(seed), Vec::new());
        for n in 0..STEPS {
            story.step = n / 3; // jobs stay in play for longer, for only every other step moves one
            let step = step(&story, &pair, &mut all);
            let (who, recovers) = (story.world.below(2) as usize, story.world.happens(35.0));
            told.push(format!("  {} by {who}, recovers: {recovers}", step.brief()));
            if let Step::Call(call) = &step {
                story.keep(call);
            }
            if let Err(difference) = pair.take(&mut server, &step, who, recovers) {
                let replay = format!("CURFEW_DIFF_SEED={seed} cargo test -p curfew-ledger --test differential recover");
                panic!("seed {seed}: the ledgers differ in {difference}\nafter these steps:\n{}\nto see it again: {replay}", told.join("\n"));
            }
        }
        all.add(pair.tally);
    }
    all
}

/// What of all that must occur never did.
pub fn missing(tally: &Tally) -> Vec<String> {
    tally.missing("pair", OCCURS)
}
