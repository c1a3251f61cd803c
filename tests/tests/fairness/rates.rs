//! A provider's rate over several workers.

use std::time::Duration;

use crate::house::{House, Plan, Relay, Wish, in_any, in_virtual_time};

const WORKERS: u8 = 3;
const STRETCH: Duration = Duration::from_secs(10);

/// The most and the least mails in any ten seconds while so many jobs, due at once, go at a rate.
fn in_ten_seconds(rate: f64, jobs: usize) -> (usize, usize) {
    let mails = in_virtual_time(async {
        let relays = vec![Relay { name: "default", rate_per_s: Some(rate), max_connections: 20 }];
        let house = House::start(3, Plan { shards: 4, workers: WORKERS, relays, ..Plan::default() });
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now();
        house.submit(0, &(0..jobs).map(|n| Wish::of(n, release_at, Duration::from_secs(3600))).collect::<Vec<_>>()).await;
        house.ended(Duration::from_secs(600)).await;
        house.mails("default")
    });
    let at: Vec<_> = mails.iter().map(|mail| mail.at).collect();
    let (most, least) = in_any(STRETCH, &at);
    println!("{rate}/s over {WORKERS} workers: {least} to {most} in any 10 s");
    (most, least)
}

/// A bucket that kept a second's worth let 10 % more through whenever it was full.
#[test]
fn a_rate_is_kept_in_every_ten_seconds_over_three_workers() {
    let (most, least) = in_ten_seconds(14.0, 1_400);
    assert!(most <= 147 && least >= 133, "{least} to {most} in any 10 s, 140 were expected");
}

/// With a bucket of one permit each moment between two looks was lost for good.
#[test]
fn a_low_rate_is_used_to_the_full_and_never_exceeded() {
    let (most, least) = in_ten_seconds(4.0, 200);
    assert!(most <= 42 && least >= 38, "{least} to {most} in any 10 s, 40 were expected");
}

/// Permits that several took at once were thrown away but for the last one's.
#[test]
fn a_high_rate_is_used_to_the_full_and_never_exceeded() {
    let (most, least) = in_ten_seconds(200.0, 4_000);
    assert!(most <= 2_100 && least >= 1_900, "{least} to {most} in any 10 s, 2,000 were expected");
}
