//! Three ledgers, one story: random calls, some lost, some sent twice or again later, to the SQLite, the Redis and the simulated adapter. Their
//! answers are the same, and so are records, letters, histories, timers, lines and counters after each call.
//!
//! `CURFEW_DIFF_SEED=n` plays one story; `CURFEW_DIFF_RUNS=n` plays so many instead of 200. A story that finds a difference is cut down to the
//! calls that are needed for it.
//!
//! Not compared: what no port promises (the order of equals; of what stopped before the first moment asked for, how much is counted), clocks that
//! are put back, and recoveries, which SQLite has none of.

mod call;
mod compare;
mod event;
mod pair;
mod story;
mod tally;
mod trio;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use curfew_domain::transition::Index;
use curfew_domain::{Key, Moment, Shard};
use curfew_testkit::sim::LedgerBugs;
use curfew_testservers::redis::{Options, Redis};

use call::{Answer, Call};
use event::Kind;
use story::{Fate, Story};
use tally::Tally;
use trio::{NAMES, Runtimes, SHARDS, Standing as _, Trio};

const RUNS: u64 = 200;
const STEPS: u32 = 70;
/// All that a shard shows is looked at after so many steps; what a call touches, after each.
const WHOLE_EVERY: u32 = 23;
/// How long a failing story is cut down.
const CUT_MAX: Duration = Duration::from_secs(60);

/// A difference: after which calls, in which, between whom.
struct Difference {
    history: Vec<Call>,
    told: String,
}

/// One story's course: what was sent, and whether all agreed.
struct Course<'a> {
    trio: Trio<'a>,
    history: Vec<Call>,
    tally: Tally,
    /// Timers that were moved on: what SQLite counts deadlines by.
    moved_on: bool,
}

impl<'a> Course<'a> {
    fn new(trio: Trio<'a>) -> Self {
        Self { trio, history: Vec::new(), tally: Tally::default(), moved_on: false }
    }

    /// Sends a call and looks at what it touched.
    fn take(&mut self, call: Call) -> Result<(), String> {
        self.history.push(call.clone());
        self.moved_on |= matches!(call, Call::Postpone(_) | Call::LoseTimer { .. });
        let (answers, kinds) = self.trio.send(&call);
        self.tally.count("call", call.name());
        kinds.iter().for_each(|kind| self.tally.count("answer", kind));
        self.agree(&call, &answers)?;
        let mut shards: Vec<Shard> = call.keys().iter().map(trio::shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let of_shard = |shard| [Call::Walk(shard, None, 1_000), Call::Counts(shard, story::counters())];
        let touched: Vec<Call> = shards.into_iter().flat_map(of_shard).chain(call.keys().into_iter().map(Call::Get)).collect();
        self.look(&touched)
    }

    /// Reads on which all must agree.
    fn look(&self, calls: &[Call]) -> Result<(), String> {
        self.trio.send_all(calls).iter().zip(calls).try_for_each(|((answers, _), call)| self.agree(call, answers))
    }

    fn agree(&self, call: &Call, answers: &[Answer; 3]) -> Result<(), String> {
        // A timer that was moved on doesn't say any more when its record stops.
        let comparable = |n: usize| n > 0 || !(self.moved_on && matches!(call, Call::Deadlines(..)));
        match (0..2).find(|n| comparable(*n) && !compare::same(&answers[*n], &answers[2])) {
            Some(n) => Err(format!("{}\n  {}: {:?}\n  {}: {:?}", call.brief(), NAMES[n], answers[n], NAMES[2], answers[2])),
            None => Ok(()),
        }
    }

    /// All that the ledgers show.
    fn whole(&self) -> Result<(), String> {
        let now = self.trio.now();
        let far = now.plus(Duration::from_secs(1_000_000));
        let mut all = vec![Call::Now, Call::Holds, Call::LastBeat, Call::LiveByState, Call::Agenda((0..SHARDS).map(Shard).collect(), now)];
        for shard in (0..SHARDS).map(Shard) {
            all.extend(Index::ALL.iter().map(|index| Call::Overdue(shard, *index, far, 1_000)));
            all.push(Call::Lines { shard, now: far, per_tenant: 1_000, limit: 1_000, skip: Vec::new() });
            all.extend([Call::Walk(shard, None, 1_000), Call::Counts(shard, story::counters()), Call::Recount(shard)]);
            all.extend([Call::OldestDue(shard, far), Call::Deadlines(shard, story::fives(now))]);
        }
        self.look(&all)
    }

    fn play(&mut self, story: &mut Story) -> Result<(), String> {
        for step in 1..=STEPS {
            let pause = story.pause();
            if pause > 0 {
                self.take(Call::Pass(pause))?;
            }
            if let Some(call) = story.after(pause, self.trio.now()) {
                self.take(call)?;
            }
            let (call, fate) = story.next(&self.trio, &mut self.tally);
            match fate {
                Fate::Lost => {}
                Fate::Sent { times } => (0..times).try_for_each(|_| self.take(call.clone()))?,
            }
            if step % WHOLE_EVERY == 0 {
                self.whole()?;
            }
        }
        Ok(())
    }
}

struct Stage {
    runtimes: Runtimes,
    server: SocketAddr,
    begins: Moment,
    /// Planted into the simulated one.
    bugs: LedgerBugs,
}

impl Stage {
    fn course(&self) -> Course<'_> {
        Course::new(Trio::fresh(&self.runtimes, self.server, self.begins, self.bugs))
    }

    fn play(&self, seed: u64) -> Result<Tally, Difference> {
        let mut course = self.course();
        match course.play(&mut Story::new(seed)) {
            Ok(()) => Ok(course.tally),
            Err(told) => Err(self.cut(Difference { history: course.history, told })),
        }
    }

    /// Leaves out what isn't needed for a difference, the latest first.
    fn cut(&self, mut found: Difference) -> Difference {
        let began = Instant::now();
        let mut place = found.history.len();
        while place > 0 && began.elapsed() < CUT_MAX {
            place -= 1;
            let mut without = found.history.clone();
            without.remove(place);
            let mut course = self.course();
            let told = without.into_iter().try_for_each(|call| course.take(call)).and_then(|()| course.whole());
            if let Err(told) = told {
                found = Difference { history: course.history, told };
                place = place.min(found.history.len());
            }
        }
        found
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.trim().parse().unwrap_or_else(|_misfit| panic!("{variable} is a whole number")))
}

/// Plays every seed, in as many threads as there are cores; what occurred.
fn play_all(seeds: std::ops::Range<u64>, server: SocketAddr) -> Tally {
    let (next, all, begins) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()), trio::begins());
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    let player = || {
        let stage = Stage { runtimes: Runtimes::new(), server, begins, bugs: LedgerBugs::default() };
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            match stage.play(seed) {
                Ok(tally) => all.lock().expect("nobody panics while holding it").add(tally),
                Err(Difference { history, told }) => {
                    next.store(seeds.end, Ordering::Relaxed);
                    let calls: Vec<String> = history.iter().map(|call| format!("  {}", call.brief())).collect();
                    let replay = format!("CURFEW_DIFF_SEED={seed} cargo test -p curfew-ledger --test differential");
                    panic!("seed {seed}: the ledgers differ in {told}\nafter these calls:\n{}\nto see it again: {replay}", calls.join("\n"));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let players: Vec<_> = (0..threads).map(|_| scope.spawn(player)).collect();
        let broken = players.into_iter().filter_map(|player| player.join().err()).next();
        if let Some(panic) = broken {
            std::panic::resume_unwind(panic);
        }
    });
    all.into_inner().expect("nobody panics while holding it")
}

#[test]
fn the_adapters_answer_the_same_to_the_same_story() {
    let keeper = tokio::runtime::Runtime::new().expect("a runtime");
    let server = keeper.block_on(Redis::start(Options { appendfsync: "no", ..Options::default() }));
    let began = Instant::now();
    if let Some(seed) = number("CURFEW_DIFF_SEED") {
        return play_all(seed..seed + 1, server.addr()).print();
    }
    let runs = number("CURFEW_DIFF_RUNS").unwrap_or(RUNS);
    let tally = play_all(0..runs, server.addr());
    tally.print();
    println!("{runs} stories in {:?}", began.elapsed());
    let events: Vec<String> = Kind::ALL.iter().map(|kind| format!("{kind:?}")).collect();
    let mut missing = tally.missing("event", &events.iter().map(String::as_str).collect::<Vec<_>>());
    missing.extend(tally.missing("answer", call::KINDS));
    missing.extend(tally.missing("refusal", &story::REFUSALS));
    missing.extend(tally.missing("fate", &["sent once", "sent twice or more", "sent again later", "lost"]));
    missing.extend(tally.missing("call", call::NAMES));
    assert!(runs < RUNS || missing.is_empty(), "never occurred: {missing:#?}");
}

/// What finds nothing where something is wrong proves nothing.
#[test]
fn a_planted_bug_is_found() {
    let keeper = tokio::runtime::Runtime::new().expect("a runtime");
    let server = keeper.block_on(Redis::start(Options { appendfsync: "no", ..Options::default() }));
    let no_version_check = LedgerBugs { no_version_check: true, ..LedgerBugs::default() };
    let create_without_read_at = LedgerBugs { create_without_read_at: true, ..LedgerBugs::default() };
    for bugs in [no_version_check, create_without_read_at] {
        let stage = Stage { runtimes: Runtimes::new(), server: server.addr(), begins: trio::begins(), bugs };
        let found = (0..20).find(|seed| stage.course().play(&mut Story::new(*seed)).is_err());
        assert!(found.is_some(), "{bugs:?}");
    }
}

#[test]
fn the_redis_and_the_simulated_ledger_recover_alike() {
    if let Some(seed) = number("CURFEW_DIFF_SEED") {
        return pair::play(seed..seed + 1).print();
    }
    // A tenth as many: a server's restart takes its time.
    let runs = number("CURFEW_DIFF_RUNS").unwrap_or(RUNS) / 10;
    let tally = pair::play(0..runs);
    tally.print();
    let missing = pair::missing(&tally);
    assert!(runs < RUNS / 10 || missing.is_empty(), "never occurred: {missing:#?}");
}

/// A difference of one word is a difference, and the order of equals isn't.
#[test]
fn a_comparison_sees_what_differs() {
    let text = |text: &str| Answer::Text(text.to_owned());
    assert!(compare::same(&text("1"), &text("1")) && !compare::same(&text("1"), &text("2")));
    let record = |name: &str| {
        let key = Key::parse(name).expect("a key");
        story::record(&key, 1, Moment::from_millis(0), Duration::from_secs(60))
    };
    let timer = |name: &str, at| curfew_ledger::TimerEntry { record: record(name), at: Moment::from_millis(at), postponed: 0 };
    let overdue = |all: &[(&str, i64)], limit| Answer::Overdue(all.iter().map(|(name, at)| timer(name, *at)).collect(), limit);
    assert!(compare::same(&overdue(&[("a/1", 1), ("a/2", 1)], 9), &overdue(&[("a/2", 1), ("a/1", 1)], 9)));
    assert!(compare::same(&overdue(&[("a/1", 1)], 1), &overdue(&[("a/2", 1)], 1)), "cut among equals");
    assert!(!compare::same(&overdue(&[("a/1", 1)], 9), &overdue(&[("a/2", 1)], 9)));
    assert!(!compare::same(&overdue(&[("a/1", 1)], 1), &overdue(&[("a/1", 2)], 1)));
    let head = |name: &str, at| curfew_ledger::LineEntry { record: record(name), line_at: Moment::from_millis(at) };
    let lines = |all: &[(&str, i64)], limit| Answer::Lines(all.iter().map(|(name, at)| head(name, *at)).collect(), 9, limit);
    assert!(compare::same(&lines(&[("a/1", 1), ("b/1", 1), ("a/2", 1)], 9), &lines(&[("b/1", 1), ("a/2", 1), ("a/1", 1)], 9)));
    assert!(!compare::same(&lines(&[("a/1", 1), ("b/1", 2)], 9), &lines(&[("a/1", 1), ("b/2", 2)], 9)));
    assert!(!compare::same(&lines(&[("a/1", 1), ("b/1", 2)], 9), &lines(&[("a/1", 1)], 9)));
    assert!(!compare::same(&lines(&[("a/1", 1), ("a/2", 2), ("b/1", 2)], 9), &lines(&[("a/1", 1), ("b/1", 2), ("a/2", 2)], 9)), "round robin");
}
