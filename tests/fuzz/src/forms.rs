//! Stored and sent forms: wake-ups, records, history, and what a row of the book holds in its binary columns.

use curfew_book::forms::{Column, written_again};
use curfew_domain::explain::explain;
use curfew_domain::form::{FORMAT, FormError, decode, encode};
use curfew_domain::history::{HistoryEntry, fold};
use curfew_domain::limits::WAKE_UP_BYTES_MAX;
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};
use curfew_domain::sealed::{Keyring, Sealed};
use curfew_domain::transition::{Event, Rules, transition};
use curfew_domain::wake_up::WakeUp;
use curfew_domain::{Moment, Record, WorkerId};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3600);

/// A wake-up is read again as the same, keeps its bound, and names no person.
pub fn wake_up(bytes: &[u8]) {
    let wake_up = match WakeUp::decode(bytes) {
        Ok(wake_up) => wake_up,
        Err(FormError::Newer(n)) => return assert!(n > FORMAT),
        Err(_malformed) => return,
    };
    let body = wake_up.encode();
    assert!(body.len() < WAKE_UP_BYTES_MAX, "{} bytes", body.len());
    assert!(!wake_up.key.as_str().contains('@'));
    assert_eq!(WakeUp::decode(&body), Ok(wake_up));
}

/// A record is written back as it was read, explains itself, and has an answer to every event.
pub fn record(bytes: &[u8]) {
    let Ok(record) = decode::<Record>(bytes) else { return };
    let numbers = [record.generation, record.attempts, record.strikes, record.configuration_met];
    // The last rise makes a record that nobody reads: billions of transitions away.
    if record.version > u64::MAX - 2 || numbers.iter().any(|n| *n > u32::MAX - 2) {
        return;
    }
    let written = encode(&record);
    let again: Record = decode(&written).expect("what was written is read");
    assert_eq!(encode(&again), written);
    let mut cut = record.clone();
    cut.fit();
    assert_eq!((&cut.key, cut.generation, cut.version, cut.state), (&record.key, record.generation, record.version, record.state));
    assert!(encode(&cut).len() <= written.len());

    let _readings = (record.tenant(), record.due(), record.open_tokens(), record.stops_at());
    let far = Duration::from_secs(10 * 365 * 24 * 3600);
    for now in [Moment::default(), record.due(), record.deadline_at, record.deadline_at.plus(HOUR), record.due().plus(far)] {
        assert!(!explain(&record, Some(3), now).is_empty());
        every_event(&record, now);
    }
}

fn every_event(record: &Record, now: Moment) {
    let policy = Policy {
        name: "default".into(),
        version: 1,
        backoff: Backoff::Delays(vec![Duration::from_secs(300), Duration::from_secs(600)]),
        max_attempts: None,
        jitter: Jitter::default(),
        at_deadline: AtDeadline::Review,
    };
    let rules = Rules { policy: &policy, jitter: 0.5, idempotency_window: Some(24 * HOUR), attempt_max: HOUR };
    let worker = record.worker.unwrap_or(WorkerId(Uuid::from_u128(1)));
    let token = record.token.unwrap_or(curfew_domain::Token(Uuid::from_u128(2)));
    let lease = Duration::from_secs(60);
    for event in [
        Event::Release { claim_grace: lease },
        Event::Claim { worker, lease },
        Event::Renew { worker, lease },
        Event::Intent { worker, token, lease, pins: Vec::new() },
        Event::GiveBack { worker, waits_for: None, until: now },
        Event::LeaseOver { rules },
        Event::DeadlineReached,
        Event::Strike { until: now },
        Event::RecipientSuppressed,
        Event::Closed,
    ] {
        let Ok(change) = transition(record, &event, now) else { continue };
        assert_eq!(change.record.version, record.version + 1);
        assert_eq!(change.timer.is_none(), change.record.closed, "what owes something has its timer");
        let written = encode(&change.record);
        assert_eq!(decode::<Record>(&written).map(|read| encode(&read)), Ok(written));
    }
}

/// The first byte chooses: history, a column of the book, or a sealed value.
pub fn row(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind {
        b'h' => history(bytes),
        b'f' => column(Column::Facts, bytes),
        b't' => column(Column::Told, bytes),
        b'e' => column(Column::History, bytes),
        b'v' => column(Column::Verb, bytes),
        b'l' => column(Column::Last, bytes),
        _sealed => sealed(bytes),
    }
}

fn history(bytes: &[u8]) {
    let Ok(entry) = rmp_serde::from_slice::<HistoryEntry>(bytes) else { return };
    let written = encode(&entry);
    assert_eq!(rmp_serde::from_slice::<HistoryEntry>(&written).ok(), Some(entry.clone()));
    let bounded = entry.clone().bounded();
    assert_eq!(bounded.clone().bounded(), bounded);
    assert!(fold(vec![entry; 100]).len() <= curfew_domain::limits::HISTORY_ENTRIES_MAX);
}

fn column(column: Column, bytes: &[u8]) {
    let Ok(written) = written_again(column, bytes) else { return };
    let again = written_again(column, &written).expect("what was written is read");
    assert_eq!(again, written);
}

fn sealed(bytes: &[u8]) {
    let keyring = Keyring::new(BTreeMap::from([("k1".to_owned(), [7; 32])]), "k1", [9; 32]).expect("a keyring");
    let opened = keyring.open(&[0; 16], &Sealed::from_bytes(bytes.to_vec()));
    assert!(opened.is_err(), "nobody sealed this");
    let text = keyring.seal([3; 24], &[0; 16], bytes);
    assert_eq!(keyring.open(&[0; 16], &text).map(|plain| plain.0), Ok(bytes.to_vec()));
}
