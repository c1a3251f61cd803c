//! A provider's rate over several workers.

use std::time::Duration;

use crate::house::{House, Plan, Relay, Wish, in_any, in_virtual_time};

/// 14 a second over three workers. A bucket that kept a second's worth let 10 % more through whenever it was full.
#[test]
fn a_rate_is_kept_in_every_ten_seconds_over_three_workers() {
    let mails = in_virtual_time(async {
        let relays = vec![Relay { name: "default", rate_per_s: Some(14.0), max_connections: 20 }];
        let house = House::start(3, Plan { shards: 4, workers: 3, relays, ..Plan::default() });
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now();
        let wish = |n: usize| Wish {
            tenant: format!("tenant-{}", n % 7),
            transport: "default",
            to: format!("{n}@example.com"),
            release_at,
            deadline_at: release_at.plus(Duration::from_secs(3600)),
        };
        house.submit(0, &(0..1_400).map(wish).collect::<Vec<_>>()).await;
        house.ended(Duration::from_secs(600)).await;
        house.mails("default")
    });
    let at: Vec<_> = mails.iter().map(|mail| mail.at).collect();
    let (most, least) = in_any(Duration::from_secs(10), &at);
    println!("14/s over three workers: {least} to {most} in any 10 s");
    assert!(most <= 147 && least >= 133, "{least} to {most} in any 10 s, 140 were expected");
}
