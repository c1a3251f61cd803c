//! What became of a token, in time or late: the ledger decides as long as a record stands; where none does, the book takes it as evidence.

use curfew_book::{Book, Evidence, EvidenceSource, EvidenceTaken, Fate};
use curfew_domain::transition::{Event, Refusal, Verdict, transition};
use curfew_domain::{Key, Moment, Record, State, Token};
use curfew_ledger::{Ledger, LedgerError, Swap, Swapped};

use crate::{CourierError, Rulebook};

/// Where a verdict ended up.
#[derive(Clone, PartialEq, Debug)]
pub enum Reported {
    /// The ledger wrote it: the record after it.
    Written(Box<Record>),
    /// The book took it as evidence.
    Evidence(EvidenceTaken),
    /// It changes nothing: known, or of no consequence.
    Known,
    /// Not now: a later handoff is under way, or a replay isn't staged yet. Report again.
    Later,
}

/// What is reported, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Whose.
    pub key: &'a Key,
    /// The token's generation.
    pub generation: u32,
    /// The token.
    pub token: Token,
    /// What became of it.
    pub verdict: Verdict<'a>,
    /// Who says so.
    pub by: By,
    /// The version that its owner wrote last, if the owner reports: it is tried first, without a read.
    pub own: Option<&'a Record>,
}

/// Who brings a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The worker that held the handoff.
    Worker,
    /// The provider, by an event of its own.
    Provider,
}

impl By {
    /// As history shows it.
    const fn actor(self) -> &'static str {
        match self {
            By::Worker => "worker",
            By::Provider => "provider",
        }
    }

    const fn source(self) -> EvidenceSource {
        match self {
            By::Worker => EvidenceSource::LateVerdict,
            By::Provider => EvidenceSource::ProviderEvent,
        }
    }
}

const TRIES_MAX: u32 = 32;

/// Reports a verdict. Repeating is free: a verdict that was written is known.
///
/// # Errors
/// `CourierError`: nothing is known; report again.
pub async fn report(ledger: &dyn Ledger, book: &dyn Book, rulebook: &Rulebook, report: Report<'_>, jitter: f64) -> Result<Reported, CourierError> {
    // Of a version without that handoff nothing can be concluded: the intent may have been written all the same.
    let mut own = report.own.filter(|own| own.state == State::Handoff && own.token == Some(report.token)).cloned();
    for _ in 0..TRIES_MAX {
        let now = ledger.now().await?;
        let of_its_owner = own.is_some();
        let found = match own.take() {
            Some(own) => Some(own),
            None => ledger.records(std::slice::from_ref(report.key)).await?.pop().flatten(),
        };
        let Some(record) = found.filter(|r| r.generation >= report.generation) else { return to_the_book(book, report, now).await };
        let rules = rulebook.rules(&record, jitter);
        let token = doubted(&record, &report);
        match transition(&record, &Event::Verdict { token, verdict: report.verdict, rules }, now) {
            Ok(mut change) => {
                if let Some(entry) = &mut change.history {
                    report.by.actor().clone_into(&mut entry.actor);
                }
                let next = change.record.clone();
                match ledger.swap(Swap::of(&record, change)).await {
                    Ok(Swapped::Swapped) => return Ok(Reported::Written(Box::new(next))),
                    Ok(Swapped::Conflict(_) | Swapped::Missing | Swapped::Refused(_) | Swapped::Full) => {}
                    // Its shard was recovered meanwhile: a verdict crosses over, by the record as it stands there.
                    Err(LedgerError::OtherServer) if of_its_owner => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(Refusal::ForTheBook) => return to_the_book(book, report, now).await,
            Err(Refusal::WrongState | Refusal::TooManyDoubts) => return Ok(Reported::Later),
            Err(
                Refusal::NothingToChange
                | Refusal::NotOwner
                | Refusal::NotDue(_)
                | Refusal::TooLate
                | Refusal::LeaseEnded
                | Refusal::LeaseRuns(_)
                | Refusal::AppliedAlready
                | Refusal::Superseded
                | Refusal::Conflict(_),
            ) => return Ok(Reported::Known),
        }
    }
    Err(CourierError::Contended)
}

/// Where the ledger lost its latest part, the record doubts every token of its generation at once: any acceptance of it is the one.
fn doubted(record: &Record, report: &Report<'_>) -> Token {
    let known = record.token == Some(report.token) || record.window_doubts.contains(&report.token) || record.doubts.contains(&report.token);
    let all = match record.token {
        Some(Token::ANY) if record.generation == report.generation => true,
        _other => record.generation > report.generation && record.doubts.contains(&Token::ANY),
    };
    // Behind a doubt about all tokens stands one that is known by name: the job is in handoff under the former.
    let hidden = record.state == State::Handoff && record.token == Some(Token::ANY);
    if all && (!known || hidden) && matches!(report.verdict, Verdict::Accepted(_)) { Token::ANY } else { report.token }
}

async fn to_the_book(book: &dyn Book, report: Report<'_>, at: Moment) -> Result<Reported, CourierError> {
    let fate = match report.verdict {
        Verdict::Accepted(receipt) => Fate::Accepted(receipt.clone()),
        Verdict::NotAccepted(outcome) => Fate::NotAccepted(Box::new(outcome.clone())),
        Verdict::Unknown(_) => return Ok(Reported::Known),
    };
    let evidence =
        Evidence { key: report.key.clone(), generation: report.generation, token: Some(report.token), fate, source: report.by.source(), at };
    Ok(match book.evidence(evidence).await? {
        EvidenceTaken::AskLedger => Reported::Later,
        taken @ (EvidenceTaken::Sent | EvidenceTaken::DoubtEnded | EvidenceTaken::Known | EvidenceTaken::Unknown | EvidenceTaken::Conflicting) => {
            Reported::Evidence(taken)
        }
    })
}
