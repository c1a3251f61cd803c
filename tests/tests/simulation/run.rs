//! One run of one seed.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_book::BookState;
use curfew_domain::simulation::{self, Seen};
use curfew_testkit::sim::World;
use tokio::time::sleep;

use crate::fleet::{Fleet, places};
use crate::judge::{Broken, End};
use crate::people::People;
use crate::plant::Planted;
use crate::{faults, moments, net};

/// Faults happen until then.
const FAULTS_UNTIL: Duration = Duration::from_secs(75);
/// Once all is mended every recovery has begun, and nothing stands still, after so long.
const CALM_AFTER: Duration = Duration::from_secs(60);
/// Once all is mended everything ends by then: the longest lease counts from a recovery on, and a deadline may lie far ahead.
const ENDS_WITHIN: Duration = Duration::from_secs(45 * 60);
/// What a way takes.
const SLACK: Duration = Duration::from_millis(50);
/// The same, and by how much clocks that nobody distrusts, or nobody has yet, may be off.
const SLACK_OF_CLOCKS: Duration = Duration::from_millis(3_000);

/// What a run came to.
#[derive(PartialEq)]
pub struct Came {
    pub seed: u64,
    pub hash: u64,
    pub lines: u64,
    pub broken: Vec<Broken>,
    pub counts: BTreeMap<String, u64>,
    pub seen: Seen,
    /// Jobs by their end, and what the server accepted.
    pub ends: BTreeMap<&'static str, u64>,
    pub accepted: u64,
    pub lasted: Duration,
}

/// Runs a seed on a runtime of its own, whose clock is virtual.
pub fn run(seed: u64, planted: Planted, verbose: bool) -> Came {
    moments::keep_quiet_about_planned_panics();
    planted.in_this_thread();
    let _of_before = simulation::take_seen();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime is made");
    let mut came = runtime.block_on(live(seed, planted, verbose));
    // Tasks of dead processes wait for ever: they go with the runtime.
    drop(runtime);
    came.seen = simulation::take_seen();
    Planted::Nothing.in_this_thread();
    came
}

async fn live(seed: u64, planted: Planted, verbose: bool) -> Came {
    let world = World::new(seed, verbose);
    let fleet = Fleet::new(&world, planted);
    *fleet.broker.faults() = faults::calm(&fleet);
    places().into_iter().for_each(|place| fleet.start(place));
    let people = People::new(&fleet);
    let releases = tokio::spawn(net::release_now_and_then(fleet.clone()));
    let (jobs, count) = (20 + world.below(20), 5 + world.below(8));
    let operating = tokio::spawn(people.clone().operate(FAULTS_UNTIL));
    tokio::join!(people.submit(jobs, Duration::from_secs(40)), faults::happen(&fleet, count, Duration::from_secs(1), FAULTS_UNTIL));
    operating.await.expect("people don't panic");
    faults::mend(&fleet);
    let mended = world.elapsed();
    // A shard that is still to be recovered can't tell whether what is due now was claimed before.
    sleep(CALM_AFTER).await;
    let bystanders = people.submit_bystanders(jobs).await;
    let jobs = jobs + bystanders.len() as u64;
    let mut broken = Vec::new();
    loop {
        sleep(Duration::from_secs(5)).await;
        let rows = fleet.store.rows();
        if rows.iter().all(|row| !matches!(row.state, BookState::Planned | BookState::Staged))
            && owes_nothing(&fleet)
            && fleet.store.verbs().open == 0
        {
            break;
        }
        if world.elapsed() > mended + ENDS_WITHIN {
            broken.push("P2: it doesn't end".to_owned());
            break;
        }
    }
    releases.abort();
    let (known, rows, items) = (people.known_at_the_end(), fleet.store.rows(), fleet.store.items());
    let clocks = ["fault: ClockOff", "fault: ClockJumps", "fault: BookClockOff"].iter().any(|fault| world.counts().contains_key(*fault));
    let slack = if clocks { SLACK_OF_CLOCKS } else { SLACK };
    broken.extend(End { known: &known, rows: &rows, items: &items, slack }.broken());
    let unsent = rows.iter().filter(|row| bystanders.contains(&row.job.id) && row.state != BookState::Sent);
    broken.extend(unsent.map(|row| format!("P2: all is mended, and {} is {} ({:?})", row.job.key, row.state.word(), row.reason)));
    broken.extend(net::misdirected(&fleet));
    let day = fleet.store.day(crate::jobs::DATE);
    let ended = day.sent + day.dead_letter + day.cancelled + day.suppressed;
    if day.accepted != jobs || ended + day.planned + day.staged != jobs || rows.len() as u64 != jobs {
        broken.push(format!("P2: the day has a difference: {day:?}"));
    }
    broken.extend(net::violations(&fleet));
    broken.extend(fleet.store.broken());
    broken.extend(crate::judge::multiplied(fleet.broker.multiplied(), jobs));
    let mut ends = BTreeMap::new();
    for row in &rows {
        *ends.entry(row.state.word()).or_default() += 1;
    }
    let (hash, lines) = world.trace();
    let accepted = known.values().map(|known| known.accepted.len() as u64).sum();
    Came { seed, hash, lines, broken, counts: world.counts(), seen: Seen::new(), ends, accepted, lasted: world.elapsed() }
}

/// Whether every record is closed: the book and the review store know all that the ledger knows.
fn owes_nothing(fleet: &Fleet) -> bool {
    fleet.ledger.records().iter().all(|record| record.closed)
}
