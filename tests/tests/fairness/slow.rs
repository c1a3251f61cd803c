//! A slow transport beside a good one, in one shard and one worker.

use std::time::Duration;

use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Stage};

use crate::house::{House, Plan, Relay, Wish, in_virtual_time, p99};

const JOBS: usize = 1_000;

/// The good transport's lateness, and the slow one's mails meanwhile. All are due together; the good relay takes 20 ms a mail, the slow one 10 s.
fn good_beside(slow: usize) -> (Vec<Duration>, usize) {
    in_virtual_time(async {
        let relay = |name| Relay { name, rate_per_s: None, max_connections: 64 };
        let house = House::start(6, Plan { concurrency: 32, relays: vec![relay("good"), relay("slow")], ..Plan::default() });
        for (name, takes) in [("good", Duration::from_millis(20)), ("slow", Duration::from_secs(10))] {
            house.script(name, move |event: &Event<'_>| if event.stage == Stage::Dot { Action::After(takes) } else { Action::Default });
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now().plus(Duration::from_secs(40));
        let wish = |transport: &'static str, n: usize| Wish { transport, ..Wish::of(n, release_at, Duration::from_secs(3600)) };
        let slows: Vec<_> = (0..slow).map(|n| wish("slow", n)).collect();
        house.submit(0, &slows).await;
        house.submit(slow, &(0..JOBS).map(|n| wish("good", n)).collect::<Vec<_>>()).await;
        house.ended(Duration::from_secs(3600)).await;
        let good = house.mails("good");
        let last = good.iter().map(|mail| mail.at).max().expect("some were sent");
        let meanwhile = house.mails("slow").iter().filter(|mail| mail.at <= last).count();
        (good.iter().map(|mail| mail.at.since(mail.due)).collect(), meanwhile)
    })
}

/// Three quarters of the slots are the most that one transport gets, so the good one keeps a quarter of its own pace at least.
#[test]
fn a_slow_transport_takes_no_more_than_its_share() {
    let ((alone, _), (beside, meanwhile)) = (good_beside(0), good_beside(600));
    assert_eq!((alone.len(), beside.len()), (JOBS, JOBS));
    let (alone, beside) = (p99(alone), p99(beside));
    println!(
        "p99 lateness of the good transport: {alone:?} alone, {beside:?} beside 600 mails of 10 s each, {meanwhile} of which were begun meanwhile"
    );
    assert!(beside <= alone * 4, "{beside:?} beside the slow one, {alone:?} alone");
}
