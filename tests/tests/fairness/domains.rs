//! A relay that throttles one recipients' domain: that domain's mail waits, and no other.

use std::time::Duration;

use curfew_book::{BookState, Row};
use curfew_testkit::mail_server::{Event, Script};
use curfew_testkit::sim::World;
use curfew_testkit::{Action, Stage};

use crate::house::{House, Plan, Wish, in_virtual_time, p99};

/// For so long the relay takes nothing for the one.
const THROTTLED_S: u64 = 120;
const JOBS: usize = 300;

struct Relay(World);

impl Script for Relay {
    fn act(&self, event: &Event<'_>) -> Action {
        let throttled = event.stage == Stage::Rcpt && event.recipient.is_some_and(|to| to.ends_with("@elm.example"));
        if throttled && self.0.elapsed() < Duration::from_secs(60 + THROTTLED_S) {
            return Action::reply("450 4.7.1 Destination rate limit exceeded, try again later");
        }
        Action::Default
    }
}

#[test]
fn a_throttled_domain_holds_up_no_other_and_costs_few_attempts() {
    in_virtual_time(async {
        let house = House::start(8, Plan { shards: 4, workers: 2, ..Plan::default() });
        house.script("default", Relay(house.world.clone()));
        tokio::time::sleep(Duration::from_secs(10)).await;
        let release_at = house.world.now().plus(Duration::from_secs(50));
        let wish = |n: usize| {
            let domain = if n.is_multiple_of(2) { "elm.example" } else { "oak.example" };
            Wish { to: format!("{n}@{domain}"), ..Wish::of(n, release_at, Duration::from_secs(3_600)) }
        };
        house.submit(0, &(0..JOBS).map(wish).collect::<Vec<_>>()).await;
        tokio::time::sleep(release_at.since(house.world.now()) + Duration::from_secs(5)).await;
        let held = house.holds().await;
        let held: Vec<_> = held.iter().map(|row| (row.kind.as_str(), row.name.as_str(), row.by.as_str())).collect();
        let elm = house.keyring.recipient_ref("@elm.example").0;
        assert_eq!(held, [("domain", elm.as_str(), "cool_down")], "by its reference: nobody reads there whom a customer writes to");
        let rows = house.ended(Duration::from_secs(3_600)).await;
        assert!(rows.iter().all(|row| row.state == BookState::Sent));
        let of_elm = |row: &&Row| row.job.subject_ref.parse::<usize>().expect("its number").is_multiple_of(2);
        let (elm, oak): (Vec<_>, Vec<_>) = rows.iter().partition(of_elm);
        assert_eq!((elm.len(), oak.len()), (JOBS / 2, JOBS / 2));
        let late = p99(oak.iter().filter_map(|row| Some(row.receipt.as_ref()?.at.since(row.job.release_at))).collect());
        let attempts = elm.iter().map(|row| u64::from(row.attempts)).sum::<u64>() as f64 / elm.len() as f64;
        println!("p99 lateness of the other domain: {late:?}; {attempts:.3} attempts a job of the throttled one");
        assert!(late < Duration::from_secs(5), "{late:?}");
        assert!(oak.iter().all(|row| row.attempts == 1));
        assert!(attempts < 1.5, "{attempts}");
    });
}
