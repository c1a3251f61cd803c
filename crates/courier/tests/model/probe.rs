//! What holds of every record that a run meets, whoever asks and whenever: an owner is alone, a timer can be acted on, what ended stays ended.

use curfew_domain::transition::{Event, timer, transition};
use curfew_domain::{Moment, Record, State};

use crate::ask::Ask;
use crate::config::Said;
use crate::real::{Real, at};
use crate::seen;

/// Somebody who never holds anything.
const STRANGER: usize = 7;

/// Asks a record what no run asks, and fails where an answer breaks a rule.
pub fn probe(real: &mut Real, record: &Record) {
    for tick in 0..=real.config.end {
        let now = at(tick);
        nobody_elses(real, record, now);
        ended_stays(real, record, now);
        a_doubt_is_not_sent_over(real, record, now);
    }
    timers_can_be_acted_on(real, record);
}

fn nobody_elses(real: &mut Real, record: &Record, now: Moment) {
    for ask in [Ask::Renew(STRANGER), Ask::Intent(STRANGER, 7), Ask::Prepared(STRANGER, Said::Transient), Ask::GiveBack(STRANGER)] {
        match real.asked(record, ask, now).answer {
            Ok(_change) => panic!("a stranger may {ask:?} at {now}: {record:?}"),
            Err(refusal) => real.seen.note(seen::refusal(&refusal)),
        }
    }
}

/// A record that is closed moves only to `sent`, by an acceptance of what was in doubt, or by recovery.
fn ended_stays(real: &Real, record: &Record, now: Moment) {
    if !record.closed {
        return;
    }
    let asks = [Ask::Release, Ask::Claim(STRANGER), Ask::Limited, Ask::LeaseOver, Ask::Deadline, Ask::Strike, Ask::Suppressed, Ask::Closed];
    for ask in asks {
        assert!(real.asked(record, ask, now).answer.is_err(), "a closed record takes {ask:?}: {record:?}");
    }
    for (token, said) in (0..4).flat_map(|token| Said::ALL.map(|said| (token, said))) {
        if let Ok(change) = real.asked(record, Ask::Verdict(token, said), now).answer {
            assert!(change.record.state == State::Sent && said == Said::Accepted, "a closed record hears {said:?}: {record:?}");
        }
    }
}

/// A handoff whose lease is over runs again only inside a window.
fn a_doubt_is_not_sent_over(real: &Real, record: &Record, now: Moment) {
    if record.state != State::Handoff || real.config.window {
        return;
    }
    if let Ok(change) = real.asked(record, Ask::LeaseOver, now).answer {
        assert!(change.record.state == State::DeadLetter && change.record.in_doubt(), "sent again: {record:?}");
    }
}

/// Whoever finds a timer overdue can act on it.
fn timers_can_be_acted_on(real: &Real, record: &Record) {
    let Some(timer) = timer(record, std::time::Duration::ZERO, at(real.config.release)) else {
        assert!(record.closed, "no timer, and owed: {record:?}");
        return;
    };
    let rules = real.rulebook.rules(record, 0.0);
    let errands = [Event::LeaseOver { rules }, Event::DeadlineReached, Event::Release { claim_grace: std::time::Duration::ZERO }, Event::Closed];
    let now = timer.at.max(at(0));
    assert!(errands.iter().any(|event| transition(record, event, now).is_ok()), "nobody can act on the timer of {record:?}");
}
