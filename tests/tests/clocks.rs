//! The clock witness (DESIGN 4): Redis' clock jumps by ten minutes under a fleet that sends. Nothing is done by it, somebody is told, and the
//! flow goes on by itself once clocks have agreed for half a minute.
//!
//! P1, P3 and P4: the mail server's own count. What jobs would meet by the wrong clock: some would be due, of some the deadline would be over.

use std::time::{Duration, Instant};

use curfew_testkit::{Config, MailServer};
use curfew_tests::fleet::WHOLE;
use curfew_tests::jobs::{in_time, job, key};
use curfew_tests::wait::{let_pass, until_showing};
use curfew_tests::{Fleet, Settings, until};
use curfew_testservers::redis::{Clock, Options, Redis};
use serde_json::Value;

const JUMP_S: i64 = 600;
/// Due one after the other, before, during and after the jump.
const FLOWING: usize = 300;
const FLOWING_FOR: Duration = Duration::from_secs(75);
/// Due, or past their deadline, by the wrong clock alone.
const FEW: usize = 20;
const AHEAD_S: u64 = 480;
const CLOSING_S: u64 = 540;
/// What was in hand ends within this.
const IN_HAND: Duration = Duration::from_secs(5);
const WRONG_FOR: Duration = Duration::from_secs(20);
/// How long all must have agreed (DESIGN 4).
const AGREE_FOR: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(100);
/// Who moves jobs.
const MOVERS: [&str; 5] = ["scheduler-1", "scheduler-2", "worker-1", "worker-2", "worker-3"];

/// With a rate: a bucket that the wrong clock filled must not stand still until that time has come.
fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr()).short()
}

fn jobs(name: &str, count: usize, release: impl Fn(usize) -> Duration, deadline: Duration) -> Vec<Value> {
    let one = |n: usize| {
        let mut job = job(&format!("{name}-{n:03}"), &format!("{name}-{n:03}@example.com"));
        job["release_at"] = in_time(release(n)).into();
        job["deadline_at"] = in_time(deadline).into();
        job
    };
    (0..count).map(one).collect()
}

fn sum(fleet: &Fleet, names: &[&str], metric: &str) -> f64 {
    names.iter().filter_map(|name| fleet.metric(name, metric)).sum()
}

/// Waits until a process says that it isn't ready, and why.
fn names_the_clock(fleet: &Fleet, name: &str) {
    until(&format!("{name} names the clock"), || {
        let told = fleet.probes(name).try_get("/readyz").ok()?;
        (told.status == 503 && told.text.contains("its clock") && told.text.contains("stand still")).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_whose_clock_jumps_ahead_stands_still_and_goes_on_when_it_is_right_again() {
    let server = MailServer::start(Config::default()).await;
    let redis = Redis::start(Options { clock: Clock::ByHand, ..Options::default() }).await;
    let mut fleet = Fleet::prepare_on(settings(&server), Some(&redis.url()));
    fleet.run(&WHOLE);
    let hour = Duration::from_secs(3600);
    let (ahead, closing) = (Duration::from_secs(AHEAD_S), Duration::from_secs(CLOSING_S));
    let all = [
        jobs("flowing", FLOWING, |n| FLOWING_FOR.mul_f64(n as f64 / FLOWING as f64), hour),
        jobs("ahead", FEW, |_| ahead, hour),
        jobs("closing", FEW, |_| ahead, closing),
    ]
    .concat();
    assert_eq!(fleet.import(&all)["accepted"], all.len());
    until("everything is staged", || (fleet.day()["planned"] == 0).then_some(()));
    server.accepted_at_least(20).await;

    redis.set_clock(JUMP_S);
    for name in MOVERS {
        names_the_clock(&fleet, name);
    }
    let_pass(IN_HAND);
    let (accepted, dead) = (server.accepted_count(), sum(&fleet, &["deadletter"], "curfew_dead_letters_total"));
    assert!(accepted < FLOWING as u64, "the jump came in the middle: {accepted}");
    let_pass(WRONG_FOR);
    assert_eq!(server.accepted_count(), accepted, "nothing is sent while nobody knows the time");
    assert_eq!((sum(&fleet, &["deadletter"], "curfew_dead_letters_total"), dead), (0.0, 0.0), "no deadline has passed");
    for name in MOVERS {
        names_the_clock(&fleet, name);
    }

    redis.set_clock(0);
    let right = Instant::now();
    until_showing(Duration::from_secs(60), "mails that flow again", || {
        if server.accepted_count() > accepted { Ok(()) } else { Err(fleet.all_jobs("&state=scheduled").first().cloned().unwrap_or_default()) }
    });
    let after = right.elapsed();
    println!("{accepted} accepted before; mails flow {:.1} s after the clock is right", after.as_secs_f64());
    assert!(after >= AGREE_FOR, "clocks that agreed for {after:?} aren't trusted yet");
    for (name, _) in WHOLE {
        fleet.ready(name);
    }
    fleet.submit(&job("afterwards", "afterwards@example.com"));
    fleet.job_in(&key("afterwards"), "sent");
    let day = until_showing(END, "the end of all that is due", || {
        let day = fleet.day();
        if day["sent"] == FLOWING + 1 { Ok(day) } else { Err(day) }
    });
    assert_eq!((&day["live"], &day["dead_letter"], &day["difference"]), (&(2 * FEW).into(), &0.into(), &0.into()), "{day}");
    let waits = |job: &Value| job["state"] == "scheduled" && job["attempts"] == 0;
    let early: Vec<Value> = fleet.all_jobs("").into_iter().filter(|job| job["state"] != "sent" && !waits(job)).collect();
    assert!(early.is_empty(), "released by the wrong clock: {early:#?}");
    let accepted = server.accepted_per_job();
    assert!(accepted.len() == FLOWING + 1 && accepted.values().all(|times| *times == 1), "accepted twice: {accepted:?}");
}
