//! Verdicts: kept until the ledger or the book has them, and for ten minutes more, so that they can be asserted again after a reconnect.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use curfew_courier::recover::{Assertable, Known as Asserted};
use curfew_courier::{By, CourierError, Report, Reported, report};
use curfew_domain::limits::VERDICT_MEMORY;
use curfew_domain::outcome::{Outcome, Receipt};
use curfew_domain::transition::Verdict;
use curfew_domain::{Key, Record, Shard, Token};

use crate::ports::Ports;
use crate::run::Worker;

/// Between two tries while a store is away.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// A verdict that has to wait (a later handoff is under way, a replay isn't staged yet) keeps its delivery for so many tries; after them it
/// is reported beside, so that it holds no slot.
const LATER_TRIES: u32 = 4;
/// A verdict that isn't written after this is reported beside its delivery.
const OWED_AFTER: Duration = Duration::from_secs(5);

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
    /// Whether the ledger or the book has it.
    written: bool,
}

/// The last ten minutes of tokens and verdicts, and every older one that isn't written.
#[derive(Default)]
pub(crate) struct Verdicts {
    kept: Mutex<HashMap<Token, Kept>>,
}

impl Verdicts {
    pub(crate) fn keep(&self, key: &Key, generation: u32, token: Token, known: &Known) {
        let kept = Kept { key: key.clone(), generation, known: known.clone(), at: Instant::now(), written: false };
        self.lock().insert(token, kept);
    }

    /// What is known of a token.
    pub(crate) fn of(&self, token: Token) -> Option<Known> {
        self.lock().get(&token).map(|kept| kept.known.clone())
    }

    /// The ledger or the book has it. A ledger that lives in this process's own file never loses its tail by itself: nothing is remembered.
    fn written(&self, token: Token, ports: &Ports) {
        let mut all = self.lock();
        if ports.ledger.leases_die_with_process() {
            all.remove(&token);
        } else if let Some(kept) = all.get_mut(&token) {
            kept.written = true;
        }
    }

    /// Forgets what is written and older than ten minutes.
    pub(crate) fn forget_old(&self) {
        self.lock().retain(|_, kept| !kept.written || kept.at.elapsed() < VERDICT_MEMORY);
    }

    /// Asserts everything kept once more: a ledger that lost its tail learns it again. Known verdicts change nothing.
    pub(crate) async fn assert_again(&self, ports: &Ports) -> Result<usize, CourierError> {
        self.assert(ports, |_| true).await
    }

    /// Reports what no delivery reports any more.
    pub(crate) async fn report_owed(&self, ports: &Ports) -> Result<usize, CourierError> {
        self.assert(ports, |kept| !kept.written && kept.at.elapsed() >= OWED_AFTER).await
    }

    /// What is known of a shard's tokens, as far back as `since`; of every one where nobody can tell how much is lost.
    pub(crate) fn of_shard(&self, shard: Shard, since: Option<Duration>, shard_of: impl Fn(&Key) -> Shard) -> Vec<Assertable> {
        let all = self.lock();
        let recent = all.iter().filter(|(_, kept)| !kept.written || since.is_none_or(|since| kept.at.elapsed() <= since));
        let of_the_shard = recent.filter(|(_, kept)| shard_of(&kept.key) == shard);
        let asserted = of_the_shard.map(|(token, kept)| Assertable {
            key: kept.key.clone(),
            generation: kept.generation,
            token: *token,
            known: match &kept.known {
                Known::Accepted(receipt) => Asserted::Accepted(receipt.clone()),
                Known::NotAccepted(outcome) => Asserted::NotAccepted(Box::new(outcome.clone())),
                Known::Unknown(_) => Asserted::Unknown,
            },
        });
        asserted.collect()
    }

    async fn assert(&self, ports: &Ports, which: impl Fn(&Kept) -> bool) -> Result<usize, CourierError> {
        let all: Vec<_> = self.lock().iter().filter(|(_, kept)| which(kept)).map(|(token, kept)| (*token, kept.clone())).collect();
        let mut failed = Ok(());
        for (token, kept) in &all {
            let said =
                Report { key: &kept.key, generation: kept.generation, token: *token, verdict: kept.known.as_verdict(), by: By::Worker, own: None };
            match report(&*ports.ledger, &*ports.book, &ports.rulebook, said, rand::random()).await {
                Ok(Reported::Later) => {}
                Ok(Reported::Written(_) | Reported::Evidence(_) | Reported::Known) => self.written(*token, ports),
                // One that can't be told must not keep the others silent.
                Err(error) => failed = Err(error),
            }
        }
        failed.map(|()| all.len())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Token, Kept>> {
        self.kept.lock().expect("no holder panics")
    }
}

/// Keeps a verdict and reports it until it is written or known; `Later` after some tries: it goes on beside. `None`: the process is told to stop at once.
/// `own` is the version of the record that this worker wrote last.
pub(crate) async fn insist(worker: &Worker, own: &Record, token: Token, known: &Known) -> Option<Reported> {
    let (ports, key, generation) = (&worker.ports, &own.key, own.generation);
    worker.verdicts.keep(key, generation, token, known);
    worker.held.end(token);
    let mut later = 0;
    loop {
        let said = Report { key, generation, token, verdict: known.as_verdict(), by: By::Worker, own: Some(own) };
        match report(&*ports.ledger, &*ports.book, &ports.rulebook, said, rand::random()).await {
            Ok(Reported::Later) if later < LATER_TRIES => later += 1,
            Ok(Reported::Later) => return Some(Reported::Later),
            Ok(done @ (Reported::Written(_) | Reported::Evidence(_) | Reported::Known)) => {
                worker.verdicts.written(token, ports);
                return Some(done);
            }
            Err(error) => tracing::warn!(key = %key, error_class = "store", "a verdict waits to be written: {error}"),
        }
        tokio::select! {
            () = worker.kill.cancelled() => return None,
            () = tokio::time::sleep(TRY_AGAIN) => {}
        }
    }
}
