//! Verdicts: kept until the ledger or the book has them, and for ten minutes more, so that they can be asserted again after a reconnect.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use curfew_courier::{CourierError, Report, Reported, report};
use curfew_domain::limits::VERDICT_MEMORY;
use curfew_domain::outcome::{Outcome, Receipt};
use curfew_domain::transition::Verdict;
use curfew_domain::{Key, Token};
use tokio_util::sync::CancellationToken;

use crate::ports::Ports;

/// Between two tries while a store is away.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// What a worker knows of a token.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    Accepted(Receipt),
    NotAccepted(Outcome),
    Unknown(Outcome),
}

impl Known {
    pub(crate) fn as_verdict(&self) -> Verdict<'_> {
        match self {
            Known::Accepted(receipt) => Verdict::Accepted(receipt),
            Known::NotAccepted(outcome) => Verdict::NotAccepted(outcome),
            Known::Unknown(outcome) => Verdict::Unknown(outcome),
        }
    }
}

#[derive(Clone)]
struct Kept {
    key: Key,
    generation: u32,
    known: Known,
    at: Instant,
}

/// The last ten minutes of tokens and verdicts.
#[derive(Default)]
pub(crate) struct Verdicts {
    kept: Mutex<HashMap<Token, Kept>>,
}

impl Verdicts {
    pub(crate) fn keep(&self, key: &Key, generation: u32, token: Token, known: &Known) {
        let mut kept = self.kept.lock().expect("no holder panics");
        kept.insert(token, Kept { key: key.clone(), generation, known: known.clone(), at: Instant::now() });
    }

    /// Forgets what is older than ten minutes.
    pub(crate) fn forget_old(&self) {
        self.kept.lock().expect("no holder panics").retain(|_, kept| kept.at.elapsed() < VERDICT_MEMORY);
    }

    /// Asserts everything kept once more: a ledger that lost its tail learns it again. Known verdicts change nothing.
    pub(crate) async fn assert_again(&self, ports: &Ports) -> Result<usize, CourierError> {
        let all: Vec<_> = self.kept.lock().expect("no holder panics").iter().map(|(token, kept)| (*token, kept.clone())).collect();
        for (token, kept) in &all {
            let said = Report { key: &kept.key, generation: kept.generation, token: *token, verdict: kept.known.as_verdict() };
            report(&*ports.ledger, &*ports.book, &ports.rulebook, said, rand::random()).await?;
        }
        Ok(all.len())
    }
}

/// Reports until it is written or known. Ends without an answer only where the process is told to stop at once.
pub(crate) async fn insist(ports: &Ports, key: &Key, generation: u32, token: Token, known: &Known, kill: &CancellationToken) -> Option<Reported> {
    loop {
        let said = Report { key, generation, token, verdict: known.as_verdict() };
        match report(&*ports.ledger, &*ports.book, &ports.rulebook, said, rand::random()).await {
            Ok(Reported::Later) => {}
            Ok(done) => return Some(done),
            Err(error) => tracing::warn!(key = %key, error_class = "store", "a verdict waits to be written: {error}"),
        }
        tokio::select! {
            () = kill.cancelled() => return None,
            () = tokio::time::sleep(TRY_AGAIN) => {}
        }
    }
}
