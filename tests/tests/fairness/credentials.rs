//! A credential that is broken for ten minutes.

use std::time::Duration;

use curfew_book::BookState;
use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Stage};

use crate::house::{House, Plan, Wish, full, in_virtual_time};

const BROKEN_FOR: Duration = Duration::from_secs(600);

/// Where the provider says that it doesn't know us: at the door, where a probe sees it, or only at the first mail.
fn jobs_outlive_it(at: Stage) {
    let jobs = if full() { 20_000 } else { 1_000 };
    let (rows, mended, release_at) = in_virtual_time(async {
        let house = House::start(5, Plan { shards: 4, workers: 2, ..Plan::default() });
        house.script(
            "default",
            move |event: &Event<'_>| {
                if event.stage == at { Action::reply("535 5.7.8 Username and Password not accepted") } else { Action::Default }
            },
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now();
        // A tenth of them can't wait that long.
        let lasts = |n: usize| if n.is_multiple_of(10) { BROKEN_FOR / 2 } else { BROKEN_FOR + Duration::from_secs(3600) };
        let wish = |n: usize| Wish::of(n, release_at, lasts(n));
        house.submit(0, &(0..jobs).map(wish).collect::<Vec<_>>()).await;
        tokio::time::sleep(BROKEN_FOR).await;
        let mended = house.world.now();
        house.script("default", |_event: &Event<'_>| Action::Default);
        (house.ended(Duration::from_secs(3600)).await, mended, release_at)
    });
    let patient = || rows.iter().filter(|row| row.job.deadline_at > mended);
    let unsent = patient().filter(|row| row.state != BookState::Sent).count();
    let last = patient().filter_map(|row| Some(row.receipt.as_ref()?.at.since(mended))).max().unwrap_or_default();
    let attempts = patient().map(|row| row.attempts).max().unwrap_or(0);
    let of_all = patient().count();
    println!(
        "broken at {at:?} for {BROKEN_FOR:?}: {unsent} of {of_all} unsent, the last {} s after the repair, {attempts} attempts at the most",
        last.as_secs()
    );
    assert_eq!(of_all, jobs - jobs / 10);
    assert_eq!(unsent, 0, "of those whose deadline lies beyond the repair");
    assert_eq!(attempts, 1, "a broken credential uses no attempt");
    let ended = rows.iter().filter(|row| row.job.deadline_at < mended);
    assert!(ended.clone().all(|row| row.state == BookState::DeadLetter && row.job.deadline_at < release_at.plus(BROKEN_FOR)));
    // The longest wait of a probe, the longest look of a line, and the time that all of them take.
    assert!(last < Duration::from_secs(300 + 60) + Duration::from_millis(jobs as u64 * 5), "the last went {last:?} after the repair");
}

#[test]
fn a_credential_that_is_refused_at_the_door_ends_no_job_that_can_wait() {
    jobs_outlive_it(Stage::Ehlo);
}

#[test]
fn a_credential_that_is_refused_at_the_first_mail_ends_no_job_that_can_wait() {
    jobs_outlive_it(Stage::Mail);
}
