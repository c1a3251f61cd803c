//! A provider that throttles: what it costs in attempts, with jitter and without.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use curfew_book::{BookState, Row};
use curfew_domain::policy::{Backoff, Jitter};
use curfew_testkit::mail_server::{Event, Script};
use curfew_testkit::sim::World;
use curfew_testkit::{Action, Stage};

use crate::house::{House, Plan, Wish, full, in_virtual_time};

/// What the provider takes in one second; the rest is refused.
const PER_SECOND: u64 = 20;

/// A provider that takes so many mails a second and answers the others in its own ways; for its second minute it hangs up on everybody.
struct Provider {
    world: World,
    taken: Mutex<BTreeMap<u64, u64>>,
}

impl Script for Provider {
    fn act(&self, event: &Event<'_>) -> Action {
        if event.stage != Stage::Mail {
            return Action::Default;
        }
        let second = self.world.elapsed().as_secs();
        if (60..120).contains(&second) {
            return Action::reply("421 4.7.0 Try again later, closing connection");
        }
        let mut taken = self.taken.lock().expect("nobody panics with it");
        let taken = taken.entry(second).or_default();
        *taken += 1;
        match *taken {
            n if n <= PER_SECOND => Action::Default,
            n if n % 2 == 0 => Action::reply("450 4.7.1 Too many messages, try again in 60 seconds"),
            _odd => Action::reply("451 4.7.500 Server busy, please try again later"),
        }
    }
}

fn throttled(jitter: Jitter, jobs: usize) -> Vec<Row> {
    in_virtual_time(async {
        let delays = Backoff::Delays(vec![Duration::from_secs(60), Duration::from_secs(120), Duration::from_secs(300), Duration::from_secs(600)]);
        let house = House::start(4, Plan { shards: 4, workers: 2, policy: (delays, jitter), ..Plan::default() });
        house.script("default", Provider { world: house.world.clone(), taken: Mutex::default() });
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now().plus(Duration::from_secs(49));
        let wish = |n: usize| Wish { tenant: format!("tenant-{}", n % 7), ..Wish::of(n, release_at, Duration::from_secs(4 * 3600)) };
        house.submit(0, &(0..jobs).map(wish).collect::<Vec<_>>()).await;
        house.ended(Duration::from_secs(4 * 3600)).await
    })
}

/// Every one of them can be sent before its deadline, and is; a throttle holds the transport, and those that wait under it use no attempt. Afterwards
/// it is used at the pace that it bore (RFC 5681's, in mails a second), so that jitter makes no difference to the attempts.
#[test]
fn a_provider_that_throttles_meets_no_storm_of_retries() {
    let jobs = if full() { 1_000 } else { 600 };
    let each = [("with", 30_000), ("without", 0)].map(|(word, hi_ms)| {
        let rows = throttled(Jitter { lo_ms: 0, hi_ms, percent: None }, jobs);
        let attempts: u64 = rows.iter().map(|row| u64::from(row.attempts)).sum();
        let each = attempts as f64 / rows.len() as f64;
        let most = rows.iter().map(|row| row.attempts).max().unwrap_or(0);
        let last = rows.iter().filter_map(|row| Some(row.receipt.as_ref()?.at.since(row.job.release_at))).max().unwrap_or_default();
        println!("{word} jitter: {each:.3} attempts per job, {most} at the most, all sent {} s after their release", last.as_secs());
        let unsent = rows.iter().filter(|row| row.state != BookState::Sent).count();
        assert_eq!(unsent, 0, "{word} jitter: deadlines that could be met");
        each
    });
    assert!(each.iter().all(|attempts| *attempts < 1.5), "attempts per job with jitter and without: {each:?}");
}
