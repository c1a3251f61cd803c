//! One large tenant and many small ones in one shard; a tenant's limit in flight.

use std::time::Duration;

use curfew_courier::{TenantLimits, Tenants};
use curfew_domain::Shard;
use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Stage};

use crate::house::{House, Mail, Plan, Relay, Wish, full, in_any, in_virtual_time, p99};

const SHARDS: u8 = 16;
const SMALL_TENANTS: usize = 50;

/// Tenants of one shard, by their hash.
fn tenants(count: usize) -> Vec<String> {
    let of_shard = |name: &String| Shard::of_tenant(name, SHARDS) == Shard::of_tenant("large", SHARDS);
    let small: Vec<_> = (0..).map(|n| format!("small-{n}")).filter(of_shard).take(count).collect();
    assert_eq!(small.len(), count);
    assert!(small.iter().all(of_shard), "they stand in one shard");
    small
}

/// All are due together, 30 s from now; every mail takes the relay 100 ms.
fn due_together(large: usize, each: usize) -> Vec<Mail> {
    in_virtual_time(async {
        let house = House::start(1, Plan { shards: SHARDS, ..Plan::default() });
        house.script(
            "default",
            |event: &Event<'_>| {
                if event.stage == Stage::Dot { Action::After(Duration::from_millis(100)) } else { Action::Default }
            },
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now().plus(Duration::from_secs(60));
        let wish = |tenant: &str, n: usize| Wish { tenant: tenant.to_owned(), ..Wish::of(n, release_at, Duration::from_secs(4 * 3600)) };
        let larges: Vec<_> = (0..large).map(|n| wish("large", n)).collect();
        let smalls: Vec<_> = tenants(SMALL_TENANTS).iter().flat_map(|tenant| (0..each).map(|n| wish(tenant, n)).collect::<Vec<_>>()).collect();
        house.submit(0, &larges).await;
        house.submit(larges.len(), &smalls).await;
        let rows = house.ended(Duration::from_secs(3 * 3600)).await;
        assert_eq!(rows.len(), large + SMALL_TENANTS * each);
        house.mails("default")
    })
}

fn lateness(mails: &[Mail]) -> Vec<Duration> {
    mails.iter().filter(|mail| mail.tenant != "large").map(|mail| mail.at.since(mail.due)).collect()
}

/// 50,000 jobs of one tenant and 500 of fifty others in full, 2,500 and 100 otherwise: the others are served in turn, not behind it.
#[test]
fn small_tenants_are_not_late_behind_a_large_one() {
    let (large, each) = if full() { (50_000, 10) } else { (2_500, 10) };
    let (alone, beside) = (lateness(&due_together(0, each)), lateness(&due_together(large, each)));
    assert_eq!((alone.len(), beside.len()), (SMALL_TENANTS * each, SMALL_TENANTS * each));
    let (alone, beside) = (p99(alone), p99(beside));
    println!("p99 lateness of the small tenants: {alone:?} alone, {beside:?} beside {large} jobs of a large one");
    assert!(beside <= alone * 2, "{beside:?} beside {large} jobs, {alone:?} without them");
}

/// Eight at a time at 100 ms each are 80 a second; they came in bursts, one per look.
#[test]
fn a_limit_in_flight_is_used_to_the_full() {
    let mails = in_virtual_time(async {
        let limits = TenantLimits { max_in_flight: Some(8), ..TenantLimits::default() };
        let tenants = Tenants::from([("acme".to_owned(), limits)]);
        let relays = vec![Relay { name: "default", rate_per_s: None, max_connections: 20 }];
        let house = House::start(2, Plan { tenants, relays, ..Plan::default() });
        house.script(
            "default",
            |event: &Event<'_>| {
                if event.stage == Stage::Dot { Action::After(Duration::from_millis(100)) } else { Action::Default }
            },
        );
        // Any way takes no time here: what is measured is the limit, not the way.
        for service in [house.ledger.service(0), house.relays["default"].service()] {
            service.weather().latency = (Duration::ZERO, Duration::ZERO);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now();
        let wish = |n: usize| Wish { tenant: "acme".to_owned(), ..Wish::of(n, release_at, Duration::from_secs(3600)) };
        house.submit(0, &(0..1_200).map(wish).collect::<Vec<_>>()).await;
        house.ended(Duration::from_secs(1800)).await;
        house.mails("default")
    });
    let at: Vec<_> = mails.iter().map(|mail| mail.at).collect();
    let (most, least) = in_any(Duration::from_secs(10), &at);
    println!("a limit of 8 at 100 ms: {least} to {most} in any 10 s");
    assert!(least >= 720 && most <= 880, "{least} to {most} in any 10 s, 800 were expected");
}

/// Sixteen mails of 10 s under way and sixteen in line behind them were a shard's whole prefetch: what others had due waited until one gave up.
#[test]
fn a_tenant_at_its_limit_leaves_places_for_others() {
    let mails = in_virtual_time(async {
        let limits = TenantLimits { max_in_flight: Some(16), ..TenantLimits::default() };
        let relay = |name| Relay { name, rate_per_s: None, max_connections: 64 };
        let tenants = Tenants::from([("acme".to_owned(), limits)]);
        let house = House::start(7, Plan { concurrency: 32, tenants, relays: vec![relay("default"), relay("slow")], ..Plan::default() });
        let slowly = |event: &Event<'_>| if event.stage == Stage::Dot { Action::After(Duration::from_secs(10)) } else { Action::Default };
        house.script("slow", slowly);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now();
        let slow = |n: usize| Wish { tenant: "acme".to_owned(), transport: "slow", ..Wish::of(n, release_at, Duration::from_secs(3600)) };
        house.submit(0, &(0..100).map(slow).collect::<Vec<_>>()).await;
        let due = |n: usize| release_at.plus(Duration::from_millis(2_000 + 137 * n as u64));
        house.submit(100, &(0..200).map(|n| Wish::of(n, due(n), Duration::from_secs(600))).collect::<Vec<_>>()).await;
        house.ended(Duration::from_secs(1_800)).await;
        house.mails("default")
    });
    assert_eq!(mails.len(), 200);
    let late = p99(mails.iter().map(|mail| mail.at.since(mail.due)).collect());
    println!("p99 lateness beside a tenant at its limit: {late:?}");
    assert!(late <= Duration::from_secs(1), "{late:?}");
}
