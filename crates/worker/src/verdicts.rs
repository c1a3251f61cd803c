//! Verdicts: kept until the ledger or the book has them, and for ten minutes more, so that they can be asserted again after a reconnect.
//! Nothing is forgotten while a report may be owed: an outage prolongs the memory.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use curfew_courier::recover::{Assertable, Known as Asserted};
use curfew_courier::{By, CourierError, Report, Reported, report};
use curfew_domain::limits::VERDICT_MEMORY;
use curfew_domain::outcome::{Outcome, Receipt};
use curfew_domain::transition::Verdict;
use curfew_domain::{Key, Record, Shard, Token};
use tokio::time::Instant;

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
    /// Since when the ledger or the book has it.
    written: Option<Instant>,
}

impl Kept {
    /// Whether a ledger that lost what it took within `since` may lack it.
    fn may_be_lost(&self, since: Duration) -> bool {
        self.written.is_none_or(|at| at.elapsed() <= since)
    }
}

/// The last ten minutes of tokens and verdicts, every older one that isn't written, and what an outage may have made worth asserting.
#[derive(Default)]
pub(crate) struct Verdicts {
    kept: Mutex<BTreeMap<Token, Kept>>,
    /// When the latest of those that are forgotten was written.
    forgotten: Mutex<Option<Instant>>,
}

/// What a report to a shard says of verdicts.
pub(crate) struct Remembered {
    pub(crate) asserted: Vec<Assertable>,
    /// Whether nothing is forgotten that the shard may have lost.
    pub(crate) whole: bool,
}

impl Verdicts {
    pub(crate) fn keep(&self, key: &Key, generation: u32, token: Token, known: &Known) {
        let kept = Kept { key: key.clone(), generation, known: known.clone(), at: Instant::now(), written: None };
        self.lock().insert(token, kept);
    }

    /// What is known of a token.
    pub(crate) fn of(&self, token: Token) -> Option<Known> {
        self.lock().get(&token).map(|kept| kept.known.clone())
    }

    /// The ledger or the book has it. A ledger that lives in this process's own file never loses its tail by itself: nothing is remembered.
    fn written(&self, token: Token, ports: &Ports, said: &Reported) {
        let mut all = self.lock();
        if ports.ledger.leases_die_with_process() {
            all.remove(&token);
        } else if let Some(kept) = all.get_mut(&token)
            && (kept.written.is_none() || matches!(said, Reported::Written(_)))
        {
            kept.written = Some(Instant::now());
        }
    }

    /// Forgets what was written ten minutes ago. Only for whoever has just seen every shard at work, and told all that it owed it: what a
    /// ledger that is away lost is known once it is back.
    pub(crate) fn forget_old(&self) {
        self.forget(VERDICT_MEMORY);
    }

    fn forget(&self, older: Duration) {
        let mut forgotten = self.forgotten.lock().expect("no holder panics");
        self.lock().retain(|_, kept| {
            let old = kept.written.filter(|at| at.elapsed() >= older);
            *forgotten = old.max(*forgotten);
            old.is_none()
        });
    }

    /// Asserts everything kept once more: a ledger that lost its tail learns it again. Known verdicts change nothing.
    pub(crate) async fn assert_again(&self, ports: &Ports) -> Result<usize, CourierError> {
        self.assert(ports, |_| true).await
    }

    /// Reports what no delivery reports any more.
    pub(crate) async fn report_owed(&self, ports: &Ports) -> Result<usize, CourierError> {
        self.assert(ports, |kept| kept.written.is_none() && kept.at.elapsed() >= OWED_AFTER).await
    }

    /// What is known of a shard's tokens, as far back as `since`; of every one where nobody can tell how much is lost.
    pub(crate) fn of_shard(&self, shard: Shard, since: Option<Duration>, shard_of: impl Fn(&Key) -> Shard) -> Remembered {
        let forgotten = self.forgotten.lock().expect("no holder panics");
        let whole = forgotten.is_none_or(|at| since.is_some_and(|since| at.elapsed() > since));
        let all = self.lock();
        let recent = all.iter().filter(|(_, kept)| since.is_none_or(|since| kept.may_be_lost(since)));
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
        Remembered { asserted: asserted.collect(), whole }
    }

    async fn assert(&self, ports: &Ports, which: impl Fn(&Kept) -> bool) -> Result<usize, CourierError> {
        let all: Vec<_> = self.lock().iter().filter(|(_, kept)| which(kept)).map(|(token, kept)| (*token, kept.clone())).collect();
        let mut failed = Ok(());
        for (token, kept) in &all {
            let said =
                Report { key: &kept.key, generation: kept.generation, token: *token, verdict: kept.known.as_verdict(), by: By::Worker, own: None };
            match report(&*ports.ledger, &*ports.book, &ports.rulebook, said, ports.machine.fraction()).await {
                Ok(Reported::Later) => {}
                Ok(said @ (Reported::Written(_) | Reported::Evidence(_) | Reported::Known)) => self.written(*token, ports, &said),
                // One that can't be told must not keep the others silent.
                Err(error) => failed = Err(error),
            }
        }
        failed.map(|()| all.len())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Token, Kept>> {
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
        match report(&*ports.ledger, &*ports.book, &ports.rulebook, said, ports.machine.fraction()).await {
            Ok(Reported::Later) if later < LATER_TRIES => later += 1,
            Ok(Reported::Later) => return Some(Reported::Later),
            Ok(done @ (Reported::Written(_) | Reported::Evidence(_) | Reported::Known)) => {
                worker.verdicts.written(token, ports, &done);
                return Some(done);
            }
            Err(error) => tracing::warn!(key = %key, error_class = "store", "a verdict waits to be written: {error}"),
        }
        tokio::select! {
            biased;
            () = worker.kill.cancelled() => return None,
            () = tokio::time::sleep(TRY_AGAIN) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: Shard = Shard(3);

    fn with(written: bool) -> Verdicts {
        let verdicts = Verdicts::default();
        let token = Token(uuid::Uuid::from_u128(1));
        verdicts.keep(&Key::parse("acme/1").expect("a key"), 1, token, &Known::Accepted(receipt()));
        if written {
            verdicts.lock().get_mut(&token).expect("kept").written = Some(Instant::now());
        }
        verdicts
    }

    fn receipt() -> Receipt {
        Receipt { at: curfew_domain::Moment::from_millis(0), code: 250, text: "ok".to_owned(), queue_id: None }
    }

    /// Both stores were away for longer than verdicts were kept: what the ledger then lacked was sent again.
    #[test]
    fn a_report_that_cannot_reach_back_far_enough_is_not_whole() {
        let verdicts = with(true);
        let of = |verdicts: &Verdicts, since| verdicts.of_shard(SHARD, since, |_| SHARD);
        let kept = of(&verdicts, Some(Duration::from_secs(60)));
        assert!(kept.whole && kept.asserted.len() == 1);
        verdicts.forget(Duration::ZERO);
        let after = of(&verdicts, Some(Duration::from_secs(60)));
        assert!(after.asserted.is_empty() && !after.whole, "what is lost of the last minute may be what is forgotten");
        assert!(!of(&verdicts, None).whole, "nobody can tell how much is lost");
        assert!(of(&verdicts, Some(Duration::ZERO)).whole, "it lost nothing");
    }

    #[test]
    fn what_is_not_written_is_never_forgotten() {
        let verdicts = with(false);
        verdicts.forget(Duration::ZERO);
        let kept = verdicts.of_shard(SHARD, Some(Duration::ZERO), |_| SHARD);
        assert!(kept.whole && kept.asserted.len() == 1);
    }
}
