//! The longest that a worker holds a wake-up in its work, for RabbitMQ's `consumer_timeout`: past that the broker closes the channel and gives
//! the wake-up to another worker.
//!
//! No job is sent twice by it, for the ledger refuses the other claim; but a channel that goes takes every wake-up in hand with it, again and
//! again. Neither AMQP nor the management API shows what the server is set to, so it can be named here and not compared.

use std::time::Duration;

use super::survey::Found;
use crate::config::{Config, TransportKind};

/// What RabbitMQ is set to unless somebody changes it (since 3.8.17).
const DEFAULT: Duration = Duration::from_secs(30 * 60);
/// The server looks once a minute.
const LOOKS_EVERY: Duration = Duration::from_secs(60);

/// What the server must be set to at least, for people.
pub(super) fn found(config: &Config) -> Found {
    let longest = config.transports.values().filter_map(|transport| match &transport.kind {
        TransportKind::Smtp(smtp) => super::smtp(smtp).ok().map(|reached| reached.attempt_max()),
        TransportKind::Capture => None,
    });
    // Nothing is renewed past the longest attempt, and the last lease is waited out.
    let held = longest.max().unwrap_or_default() + config.worker.lease;
    Found { what: "broker's consumer timeout".to_owned(), ok: true, says: says(held) }
}

fn says(held: Duration) -> String {
    let (held_s, needs) = (held.as_secs(), held + LOOKS_EVERY);
    let set = match needs <= DEFAULT {
        true => "its default of 30 min is enough".to_owned(),
        false => format!("its default of 30 min is too short: set `consumer_timeout = {}` in rabbitmq.conf", needs.as_millis()),
    };
    format!("a worker holds a wake-up for up to {held_s} s (the longest attempt and a lease); {set}; `rabbitmqctl environment` shows what is set")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Deployment, Sources};

    #[test]
    fn the_figure_that_the_server_needs_is_named() {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        for (held, wants) in [
            (Duration::from_secs(70), "for up to 70 s (the longest attempt and a lease); its default of 30 min is enough;"),
            (minutes(29), "for up to 1740 s (the longest attempt and a lease); its default of 30 min is enough;"),
            (minutes(29) + Duration::from_secs(1), "too short: set `consumer_timeout = 1801000` in rabbitmq.conf;"),
            (minutes(45), "too short: set `consumer_timeout = 2760000` in rabbitmq.conf;"),
        ] {
            assert!(says(held).contains(wants), "{}", says(held));
        }
    }

    fn held_s(toml: &str) -> u64 {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("curfew.toml");
        std::fs::write(&file, toml).expect("written");
        let config = Config::load(&Sources { file: Some(file), ..Sources::default() }, Deployment::Embedded).expect("right");
        let says = found(&config).says;
        let (_, rest) = says.split_once("for up to ").expect("a figure");
        rest.split_once(" s ").expect("in seconds").0.parse().expect("whole")
    }

    #[test]
    fn the_longest_attempt_of_all_transports_and_the_lease_count() {
        let relay = |name: &str, end: &str| {
            format!("[transports.{name}]\nkind = \"smtp\"\nurl = \"smtp://127.0.0.1\"\nfrom = \"a@sender.example\"\ntls = \"none\"\n{end}")
        };
        let lease = |lease: &str| format!("[worker]\nlease = \"{lease}\"\n");
        let one = held_s(&(lease("1m") + &relay("relay", "")));
        assert_eq!(held_s(&(lease("15m") + &relay("relay", ""))) - one, 14 * 60);
        assert!(one > 10 * 60, "the wait for the last reply is in it");
        let two = lease("1m") + &relay("relay", "") + &relay("slow", "timeouts = { end = \"15m\" }\n");
        assert_eq!(held_s(&two) - one, 5 * 60);
        assert_eq!(held_s(&lease("1m")), 60, "a capture is done at once");
    }
}
