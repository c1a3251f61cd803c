//! What a person hears of a transport that can't be reached or used: one warning at a time, and one word when it works again. Pure.
//!
//! Hundreds of jobs meet a mail server that is down within a second, and each of them runs again by itself. So the first failure is told at
//! once, the rest are counted and told together, and an acceptance ends the trouble. A refusal of one job says nothing either way.

use std::fmt;
use std::time::Duration;

use curfew_domain::outcome::{Outcome, Stage};
use curfew_domain::{Moment, OutcomeClass};

/// Between two warnings about one transport: often enough for somebody who watches, seldom enough for a night's log.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// One transport's running trouble, if there is one.
#[derive(Default)]
pub(crate) struct Trouble(Option<Running>);

struct Running {
    since: Moment,
    failed: u64,
    told: Moment,
}

/// What is to be told now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tidings {
    /// Attempts fail, the last of them with this.
    Failing {
        /// Attempts that failed since.
        failed: u64,
        /// The first failure.
        since: Moment,
        /// Where the last one failed.
        stage: Stage,
        /// Its words, redacted.
        diagnostic: String,
    },
    /// An attempt was accepted after such failures.
    Working {
        /// Attempts that failed since.
        failed: u64,
        /// The first failure.
        since: Moment,
    },
}

impl Trouble {
    /// An attempt ended with this at `now`.
    pub(crate) fn outcome(&mut self, outcome: &Outcome, now: Moment) -> Option<Tidings> {
        if outcome.class == OutcomeClass::Accepted {
            return self.0.take().map(|was| Tidings::Working { failed: was.failed, since: was.since });
        }
        if !is_the_transports(outcome) {
            return None;
        }
        let first = self.0.is_none();
        let running = self.0.get_or_insert(Running { since: now, failed: 0, told: now });
        running.failed += 1;
        if !first && now.since(running.told) < WARN_EVERY {
            return None;
        }
        running.told = now;
        let (failed, since) = (running.failed, running.since);
        Some(Tidings::Failing { failed, since, stage: outcome.stage, diagnostic: outcome.diagnostic.clone() })
    }
}

/// Whether it failed before the content for a reason that isn't its job's. Up to AUTH no job has been named to the server; after that only a
/// wrong set-up is the transport's. `NOOP`, `RSET` and `QUIT` end a pooled connection, not an attempt.
fn is_the_transports(outcome: &Outcome) -> bool {
    match outcome.stage {
        Stage::Connect | Stage::Tls | Stage::Greeting | Stage::Ehlo | Stage::Starttls | Stage::Auth => true,
        Stage::Mail | Stage::Rcpt | Stage::Data => outcome.class == OutcomeClass::Configuration,
        Stage::Artifact | Stage::Content | Stage::Dot | Stage::Noop | Stage::Rset | Stage::Quit => false,
    }
}

impl fmt::Display for Tidings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tidings::Failing { failed, since, stage, diagnostic } => {
                write!(f, "{failed} {} failed since {}: {stage}: {diagnostic}", attempts(*failed), since.rfc3339())
            }
            Tidings::Working { failed, since } => {
                write!(f, "works again; {failed} {} failed since {}", attempts(*failed), since.rfc3339())
            }
        }
    }
}

fn attempts(n: u64) -> &'static str {
    if n == 1 { "attempt" } else { "attempts" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Moment {
        Moment::from_millis(s * 1000)
    }

    fn ended(class: OutcomeClass, stage: Stage) -> Outcome {
        Outcome::new(class, stage, "a-rule", "connection refused")
    }

    fn says(trouble: &mut Trouble, outcome: &Outcome, s: i64) -> Option<String> {
        trouble.outcome(outcome, at(s)).map(|tidings| tidings.to_string())
    }

    /// People saw nothing in the log while the mail server was down and every job ran again.
    #[test]
    fn a_transport_that_is_down_is_told_at_once_then_every_half_minute_and_once_when_it_works() {
        let (mut trouble, down) = (Trouble::default(), ended(OutcomeClass::Transient, Stage::Connect));
        let sent = ended(OutcomeClass::Accepted, Stage::Dot);
        assert_eq!(says(&mut trouble, &sent, 0), None, "nothing failed");
        assert_eq!(says(&mut trouble, &down, 0).as_deref(), Some("1 attempt failed since 1970-01-01T00:00:00.000Z: connect: connection refused"));
        for s in 1..30 {
            assert_eq!(says(&mut trouble, &down, s), None);
        }
        assert_eq!(says(&mut trouble, &down, 30).as_deref(), Some("31 attempts failed since 1970-01-01T00:00:00.000Z: connect: connection refused"));
        assert_eq!(says(&mut trouble, &down, 59), None);
        assert_eq!(says(&mut trouble, &sent, 60).as_deref(), Some("works again; 32 attempts failed since 1970-01-01T00:00:00.000Z"));
        assert_eq!(says(&mut trouble, &sent, 61), None, "told once");
        assert!(says(&mut trouble, &down, 62).is_some_and(|says| says.starts_with("1 attempt failed")), "a new trouble is told at once");
    }

    #[test]
    fn what_is_a_jobs_own_is_no_trouble_of_the_transports() {
        for &stage in Stage::ALL {
            let before_mail = matches!(stage, Stage::Connect | Stage::Tls | Stage::Greeting | Stage::Ehlo | Stage::Starttls | Stage::Auth);
            let in_transaction = matches!(stage, Stage::Mail | Stage::Rcpt | Stage::Data);
            for class in [OutcomeClass::Transient, OutcomeClass::Throttled, OutcomeClass::Permanent, OutcomeClass::Configuration] {
                let told = Trouble::default().outcome(&ended(class, stage), at(0)).is_some();
                assert_eq!(told, before_mail || (in_transaction && class == OutcomeClass::Configuration), "{class} at {stage}");
            }
        }
    }
}
