//! Evidence about a token where no record can take it (R6).

use curfew_domain::history::HistoryEntry;
use curfew_domain::outcome::Receipt;
use curfew_domain::{Reason, State, Token};

use super::story::{ItemFate, keep};
use crate::{BookState, Evidence, EvidenceSource, EvidenceTaken, Fate, Row};

/// What came of evidence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weighed {
    /// The answer.
    pub taken: EvidenceTaken,
    /// Whether the row changed and must be saved, its history too.
    pub changed: bool,
    /// The item's part.
    pub item: ItemFate,
}

/// Weighs evidence against a row. `item_in_doubt`: its item is in doubt, perhaps about a token that the row doesn't know by name.
pub fn weigh(row: &mut Row, item_in_doubt: bool, evidence: &Evidence) -> Weighed {
    let same = |taken| Weighed { taken, changed: false, item: ItemFate::Keep };
    let doubted = doubted(row, item_in_doubt, evidence);
    match (row.state, &evidence.fate) {
        (BookState::Planned, Fate::Accepted(_)) if row.generation > evidence.generation || doubted != Doubted::No => same(EvidenceTaken::AskLedger),
        (BookState::Planned, Fate::Accepted(_) | Fate::NotAccepted(_)) => same(EvidenceTaken::Known),
        (BookState::Staged, Fate::Accepted(_) | Fate::NotAccepted(_)) => same(EvidenceTaken::AskLedger),
        (BookState::Sent, Fate::Accepted(_)) => same(EvidenceTaken::Known),
        // A refusal of one token says nothing against the acceptance of another; a refusal of the job does.
        (BookState::Sent, Fate::NotAccepted(_)) => same(if evidence.token.is_none() { EvidenceTaken::Conflicting } else { EvidenceTaken::Known }),
        // They yield to `sent` alone, where the acceptance is one that was in doubt.
        (BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed, Fate::Accepted(receipt)) => match doubted {
            Doubted::No => same(EvidenceTaken::Conflicting),
            Doubted::Present | Doubted::Window(_) | Doubted::Earlier(_) => sent(row, doubted, receipt, evidence),
        },
        (BookState::Cancelled | BookState::Suppressed, Fate::NotAccepted(_)) => same(EvidenceTaken::Known),
        (BookState::DeadLetter, Fate::NotAccepted(_)) => not_accepted(row, doubted, evidence),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubted {
    No,
    /// The one in front, or one that nobody knows by name.
    Present,
    /// One of the same generation, hidden behind it.
    Window(Token),
    /// One of an earlier generation.
    Earlier(Token),
}

fn doubted(row: &Row, item_in_doubt: bool, evidence: &Evidence) -> Doubted {
    let accepted = matches!(evidence.fate, Fate::Accepted(_));
    match (evidence.token, row.doubt) {
        // A provider's event names the job alone: it speaks of the one open doubt.
        (None, Some(_)) => Doubted::Present,
        (Some(token), Some(doubt)) if token == doubt => Doubted::Present,
        (Some(token), _other) if row.window_doubts.contains(&token) => Doubted::Window(token),
        (Some(token), _other) if row.doubts.contains(&token) => Doubted::Earlier(token),
        // A ledger lost its latest part: each acceptance of that generation settles the doubt about all its tokens; a refusal settles none.
        (Some(_), Some(Token::ANY)) if accepted && evidence.generation == row.generation => Doubted::Present,
        (Some(_), _other) if accepted && row.doubts.contains(&Token::ANY) => Doubted::Earlier(Token::ANY),
        (_nameless, None) if item_in_doubt && evidence.generation == row.generation => Doubted::Present,
        (None, None) => match row.doubts.as_slice() {
            [one] => Doubted::Earlier(*one),
            _none_or_many => Doubted::No,
        },
        (Some(_), Some(_) | None) => Doubted::No,
    }
}

/// The doubt about one token ends; another of its generation, which it hid, comes to the front.
fn not_accepted(row: &mut Row, doubted: Doubted, evidence: &Evidence) -> Weighed {
    let item = match doubted {
        Doubted::No => return Weighed { taken: EvidenceTaken::Known, changed: false, item: ItemFate::Keep },
        Doubted::Present => {
            row.doubt = row.window_doubts.pop();
            if row.doubt.is_none() { ItemFate::EndDoubt("evidence: not accepted; the doubt ended") } else { ItemFate::Note(ONE_ENDED) }
        }
        Doubted::Window(token) => {
            row.window_doubts.retain(|t| *t != token);
            ItemFate::Note(ONE_ENDED)
        }
        Doubted::Earlier(token) => {
            row.doubts.retain(|t| *t != token);
            ItemFate::Note(ONE_ENDED)
        }
    };
    note(row, State::DeadLetter, evidence, "late: not accepted");
    Weighed { taken: EvidenceTaken::DoubtEnded, changed: true, item }
}

const ONE_ENDED: &str = "evidence: one handoff was not accepted; another's fate stays open";

/// The end. Its own token stays on record; those of other provider keys stay in doubt, for they may have made a second delivery.
fn sent(row: &mut Row, doubted: Doubted, receipt: &Receipt, evidence: &Evidence) -> Weighed {
    let from = match row.state {
        BookState::Cancelled => State::Cancelled,
        BookState::Suppressed => State::Suppressed,
        BookState::Planned | BookState::Staged | BookState::Sent | BookState::DeadLetter => State::DeadLetter,
    };
    row.state = BookState::Sent;
    row.reason = Some(Reason::Accepted);
    row.receipt = Some(receipt.clone());
    let (present, hidden) = (row.doubt.take(), std::mem::take(&mut row.window_doubts));
    let kept: Vec<Token> = match doubted {
        Doubted::No => Vec::new(),
        Doubted::Present => present.or(evidence.token).into_iter().collect(),
        Doubted::Window(token) => vec![token],
        Doubted::Earlier(_) => hidden.into_iter().chain(present).collect(),
    };
    for token in kept {
        keep(row, token);
    }
    note_from(row, from, State::Sent, evidence, "evidence: accepted");
    Weighed { taken: EvidenceTaken::Sent, changed: true, item: ItemFate::Resolve("evidence: the provider accepted") }
}

fn note(row: &mut Row, to: State, evidence: &Evidence, detail: &str) {
    note_from(row, State::DeadLetter, to, evidence, detail);
}

fn note_from(row: &mut Row, from: State, to: State, evidence: &Evidence, detail: &str) {
    let reason = row.reason;
    let actor = source_word(&evidence.source).to_owned();
    let entry =
        HistoryEntry { at: evidence.at, actor, from: Some(from), to, reason, attempt: 0, generation: row.generation, detail: detail.to_owned() };
    row.history = super::history::merged(&row.history, &[entry.bounded()]);
}

/// Who speaks, as history and notes show it.
pub fn source_word(source: &EvidenceSource) -> &str {
    match source {
        EvidenceSource::LateVerdict => "worker",
        EvidenceSource::ProviderEvent => "provider",
        EvidenceSource::Operator(name) => name,
    }
}
