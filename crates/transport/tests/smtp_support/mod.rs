//! What the SMTP tests share: quick timeouts, one attempt from end to end, and the judge over many of them.

use std::collections::HashMap;
use std::time::Duration;

use curfew_domain::OutcomeClass;
use curfew_domain::outcome::Outcome;
use curfew_testkit::MailServer;
use curfew_transport::conformance::{Fixed, ample};
use curfew_transport::smtp::{SmtpConfig, SmtpTransport, Timeouts, TlsMode};
use curfew_transport::{Acceptance, HandOff, Look, Parcel, Transport};

/// Long enough for a busy machine to answer, short enough to wait for where nobody does.
pub const SHORT: Duration = Duration::from_secs(2);

/// To this server, without TLS, with short phases.
pub fn config(server: &MailServer) -> SmtpConfig {
    let mut config = SmtpConfig::new("127.0.0.1", server.addr().port());
    config.tls = TlsMode::None;
    config.hello = "client.example".into();
    config.timeouts = Timeouts {
        connect: SHORT,
        tls: SHORT,
        reply: SHORT,
        block: SHORT,
        end: SHORT,
        noop: Duration::from_millis(300),
        quit: Duration::from_millis(300),
    };
    config
}

/// A transport of this configuration, whatever its timeouts.
pub fn transport(config: SmtpConfig) -> SmtpTransport {
    SmtpTransport::with_any_timeouts(config, None).expect("the configuration is good")
}

/// What an attempt came to, from whichever step.
pub type Ended = Result<Acceptance, Box<Outcome>>;

/// One attempt, looking once and going on.
pub async fn attempt(transport: &SmtpTransport, parcel: &Parcel) -> Ended {
    let prepared = transport.prepare(parcel, &ample()).await.map_err(Box::new)?;
    match prepared.hand_off(&mut Fixed::new(Look::Go)).await {
        HandOff::Accepted(acceptance) => Ok(acceptance),
        HandOff::NotAccepted(outcome) => {
            assert!(!matches!(outcome.class, OutcomeClass::Accepted | OutcomeClass::Ambiguous), "{outcome:?}");
            Err(Box::new(outcome))
        }
        HandOff::Unknown(outcome) => {
            assert_eq!(outcome.class, OutcomeClass::Ambiguous, "{outcome:?}");
            Err(Box::new(outcome))
        }
    }
}

/// The class of an attempt.
pub fn class(ended: &Ended) -> OutcomeClass {
    ended.as_ref().map_or_else(|outcome| outcome.class, |_| OutcomeClass::Accepted)
}

/// Holds our verdicts against the server's log: what we call accepted is there once, what we call refused isn't there, and a doubt is at
/// most one mail.
pub fn compare(server: &MailServer, verdicts: &[(Parcel, Ended)]) {
    let accepted = server.accepted_per_job();
    let mut classes = HashMap::new();
    for (parcel, ended) in verdicts {
        let count = accepted.get(&parcel.job_id.to_string()).copied().unwrap_or(0);
        *classes.entry(class(ended)).or_insert(0) += 1;
        match class(ended) {
            OutcomeClass::Accepted => assert_eq!(count, 1, "{parcel:?}: accepted by us alone: {ended:?}"),
            OutcomeClass::Ambiguous => assert!(count <= 1, "{parcel:?}: {ended:?}"),
            OutcomeClass::Transient | OutcomeClass::Throttled | OutcomeClass::Permanent | OutcomeClass::Suppressed | OutcomeClass::Configuration => {
                assert_eq!(count, 0, "{parcel:?}: refused by us, accepted by the server: {ended:?}");
            }
        }
    }
    eprintln!("verdicts: {classes:?}");
}
