//! A transport's circuit: opens on a wrong set-up or on silence, closes by a probe, an acceptance or an operator. Pure.
//!
//! Configuration at connect, TLS, greeting, EHLO or AUTH opens it at once; at MAIL, RCPT, DATA or later when three different jobs met it with
//! no acceptance between. Five results in doubt from different jobs with no verdict between them open it too.

use std::collections::BTreeSet;
use std::time::Duration;

use curfew_domain::outcome::Stage;
use curfew_domain::{JobId, OutcomeClass};
use tokio::time::Instant;

/// Different jobs that must meet a wrong set-up after the login.
const JOBS_TO_OPEN: usize = 3;
/// Different jobs in doubt, with no verdict between.
const DOUBTS_TO_OPEN: usize = 5;
/// The first probe's wait; doubles up to the last.
const PROBE_FIRST: Duration = Duration::from_secs(30);
const PROBE_LAST: Duration = Duration::from_secs(5 * 60);

/// How it can be closed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// Connect to AUTH, without a job.
    Login,
    /// One job: what is wrong shows only after the login.
    OneJob,
}

#[derive(Debug)]
enum State {
    Closed,
    Open {
        probe: Probe,
        wait: Duration,
        next: Instant,
    },
    /// One job is let through.
    Trying {
        wait: Duration,
    },
}

/// One transport's circuit.
#[derive(Debug)]
pub(crate) struct Circuit {
    state: State,
    misconfigured: BTreeSet<JobId>,
    in_doubt: BTreeSet<JobId>,
}

/// What an outcome did to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing.
    Stays,
    /// It is open now; look again after this.
    Opened(Duration),
    /// It is closed now.
    Closed,
}

impl Circuit {
    pub(crate) fn new() -> Self {
        Self { state: State::Closed, misconfigured: BTreeSet::new(), in_doubt: BTreeSet::new() }
    }

    /// An attempt of a job ended.
    pub(crate) fn outcome(&mut self, job: JobId, class: OutcomeClass, stage: Stage, now: Instant) -> Turn {
        match class {
            OutcomeClass::Ambiguous => {
                self.in_doubt.insert(job);
                // The one job that tries the circuit says enough: five more would be five more review items.
                let trying = matches!(self.state, State::Trying { .. });
                if trying || self.in_doubt.len() >= DOUBTS_TO_OPEN { self.open(Probe::OneJob, now) } else { Turn::Stays }
            }
            // Our own preparation (a letter's key, an artifact) says nothing about the transport: other jobs go on.
            OutcomeClass::Configuration if stage == Stage::Artifact => Turn::Stays,
            OutcomeClass::Configuration => {
                self.misconfigured.insert(job);
                let late = matches!(stage, Stage::Mail | Stage::Rcpt | Stage::Data | Stage::Content | Stage::Dot);
                let trying = matches!(self.state, State::Trying { .. });
                if !late {
                    self.open(Probe::Login, now)
                } else if trying || self.misconfigured.len() >= JOBS_TO_OPEN {
                    self.open(Probe::OneJob, now)
                } else {
                    Turn::Stays
                }
            }
            OutcomeClass::Accepted => self.close(),
            OutcomeClass::Transient | OutcomeClass::Throttled | OutcomeClass::Permanent | OutcomeClass::Suppressed => {
                // A verdict is the provider's word after the end marker; a refusal before it says nothing about the doubts.
                if stage == Stage::Dot {
                    self.in_doubt.clear();
                }
                Turn::Stays
            }
        }
    }

    fn open(&mut self, probe: Probe, now: Instant) -> Turn {
        let wait = match self.state {
            State::Open { .. } => return Turn::Stays,
            State::Closed => PROBE_FIRST,
            State::Trying { wait } => (wait * 2).min(PROBE_LAST),
        };
        self.state = State::Open { probe, wait, next: now + wait };
        Turn::Opened(wait)
    }

    fn close(&mut self) -> Turn {
        self.misconfigured.clear();
        self.in_doubt.clear();
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => Turn::Stays,
            State::Open { .. } | State::Trying { .. } => Turn::Closed,
        }
    }

    /// The probe that is due, if one is.
    pub(crate) fn due(&self, now: Instant) -> Option<Probe> {
        match self.state {
            State::Open { probe, next, .. } if now >= next => Some(probe),
            State::Open { .. } | State::Closed | State::Trying { .. } => None,
        }
    }

    /// A login probe ended.
    pub(crate) fn probed(&mut self, good: bool, now: Instant) -> Turn {
        if good {
            return self.close();
        }
        if let State::Open { probe, wait, .. } = self.state {
            let wait = (wait * 2).min(PROBE_LAST);
            self.state = State::Open { probe, wait, next: now + wait };
            return Turn::Opened(wait);
        }
        Turn::Stays
    }

    /// One job is let through now.
    pub(crate) fn try_one(&mut self) {
        if let State::Open { wait, .. } = self.state {
            self.state = State::Trying { wait };
            self.in_doubt.clear();
        }
    }

    /// Somebody else found it open (another worker, or this one before it was restarted): it is probed from here, too. Nobody knows any
    /// more at which stage it opened, so one job is let through, and only where a login succeeds.
    pub(crate) fn adopt(&mut self, now: Instant) {
        if !self.is_open() {
            self.state = State::Open { probe: Probe::OneJob, wait: PROBE_FIRST, next: now + PROBE_FIRST };
        }
    }

    /// Its hold was lifted, by an operator or by another worker's probe: one job at a time tries it until one is accepted.
    pub(crate) fn half_open(&mut self) {
        self.try_one();
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: u8) -> JobId {
        JobId(uuid::Uuid::from_bytes([n; 16]))
    }

    #[test]
    fn a_wrong_login_opens_it_at_once_and_a_good_probe_closes_it() {
        let (mut circuit, now) = (Circuit::new(), Instant::now());
        assert_eq!(circuit.outcome(job(1), OutcomeClass::Configuration, Stage::Auth, now), Turn::Opened(PROBE_FIRST));
        assert_eq!(circuit.due(now), None);
        assert_eq!(circuit.due(now + PROBE_FIRST), Some(Probe::Login));
        assert_eq!(circuit.probed(false, now), Turn::Opened(PROBE_FIRST * 2));
        assert_eq!(circuit.probed(true, now), Turn::Closed);
    }

    #[test]
    fn a_refused_sender_opens_it_after_three_different_jobs_without_an_acceptance_between() {
        let (mut circuit, now) = (Circuit::new(), Instant::now());
        for _same in 0..5 {
            assert_eq!(circuit.outcome(job(1), OutcomeClass::Configuration, Stage::Mail, now), Turn::Stays);
        }
        circuit.outcome(job(2), OutcomeClass::Configuration, Stage::Mail, now);
        circuit.outcome(job(9), OutcomeClass::Accepted, Stage::Dot, now);
        for n in [1, 2] {
            assert_eq!(circuit.outcome(job(n), OutcomeClass::Configuration, Stage::Mail, now), Turn::Stays);
        }
        assert_eq!(circuit.outcome(job(3), OutcomeClass::Configuration, Stage::Rcpt, now), Turn::Opened(PROBE_FIRST));
    }

    #[test]
    fn a_relay_that_never_answers_opens_it_after_five_jobs() {
        let (mut circuit, now) = (Circuit::new(), Instant::now());
        for n in 1..5 {
            assert_eq!(circuit.outcome(job(n), OutcomeClass::Ambiguous, Stage::Dot, now), Turn::Stays);
        }
        assert_eq!(circuit.outcome(job(5), OutcomeClass::Ambiguous, Stage::Dot, now), Turn::Opened(PROBE_FIRST));
        circuit.try_one();
        assert_eq!(circuit.outcome(job(6), OutcomeClass::Accepted, Stage::Dot, now), Turn::Closed);
    }

    #[test]
    fn one_job_in_doubt_while_it_is_tried_opens_it_again_for_twice_as_long() {
        let (mut circuit, now) = (Circuit::new(), Instant::now());
        for n in 1..=5 {
            circuit.outcome(job(n), OutcomeClass::Ambiguous, Stage::Dot, now);
        }
        circuit.try_one();
        assert!(!circuit.is_open());
        assert_eq!(circuit.outcome(job(6), OutcomeClass::Ambiguous, Stage::Dot, now), Turn::Opened(PROBE_FIRST * 2));
    }

    #[test]
    fn only_a_verdict_after_the_end_marker_ends_a_row_of_doubts() {
        let (mut circuit, now) = (Circuit::new(), Instant::now());
        for n in 1..5 {
            circuit.outcome(job(n), OutcomeClass::Ambiguous, Stage::Dot, now);
            circuit.outcome(job(n + 100), OutcomeClass::Permanent, Stage::Rcpt, now);
        }
        assert_eq!(circuit.outcome(job(5), OutcomeClass::Ambiguous, Stage::Dot, now), Turn::Opened(PROBE_FIRST));
    }

    #[test]
    fn a_letter_that_cant_be_opened_leaves_the_circuit_alone() {
        let (mut circuit, now) = (Circuit::new(), Instant::now());
        for n in 1..9 {
            assert_eq!(circuit.outcome(job(n), OutcomeClass::Configuration, Stage::Artifact, now), Turn::Stays);
        }
    }

    #[test]
    fn a_circuit_that_somebody_left_open_is_probed_by_whoever_finds_it() {
        let (mut circuit, now) = (Circuit::new(), Instant::now());
        circuit.adopt(now);
        assert!(circuit.is_open());
        assert_eq!(circuit.due(now + PROBE_FIRST), Some(Probe::OneJob));
    }
}
