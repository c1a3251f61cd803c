//! K3, K4 and evidence: what the ledger, workers and the provider tell.

use curfew_domain::outcome::Stage;
use curfew_domain::verb::Verb;
use curfew_domain::{Key, Outcome, OutcomeClass, State, Token};

use super::Bench;
use super::given::{accepted, ask, in_doubt, job, mark, minutes, now, receipt, record, shards, staged, story, token};
use crate::{Book, BookState, Evidence, EvidenceSource, EvidenceTaken, Fate, Row, Told};

pub(super) async fn row(book: &dyn Book, key: &Key) -> Row {
    book.by_key(key).await.expect("the book answers").expect("the row is there")
}

/// Planning gives the earliest due rows, without those ahead, staged, ended, of other shards, or with an open verb.
pub async fn planning_reads_what_is_due(bench: &dyn Bench) {
    let book = bench.empty().await;
    assert_eq!(book.next_release().await.expect("the book answers"), None);
    for n in 0..6 {
        let mut one = job("acme", n);
        one.release_at = minutes(60 - n);
        accepted(&*book, &one).await;
    }
    book.mark_staged(&[mark(&job("acme", 5).key, 1), mark(&job("acme", 4).key, 2), mark(&job("acme", 99).key, 1)]).await.expect("the book answers");
    let verb = book.open_verb(ask(&job("acme", 3).key, Verb::Cancel)).await.expect("the book answers");
    assert!(matches!(verb, crate::OpenedVerb::Done(_)), "far ahead");
    let mut near = ask(&job("acme", 2).key, Verb::Cancel);
    near.book_alone_from = minutes(100);
    assert!(matches!(book.open_verb(near).await.expect("the book answers"), crate::OpenedVerb::Open(..)));

    let planned = book.plan(&shards(), minutes(59), 10).await.expect("the book answers");
    let keys: Vec<_> = planned.iter().map(|p| &p.row.job.key).collect();
    assert_eq!(keys, [&job("acme", 4).key, &job("acme", 1).key], "a mark of another generation marks nothing");
    assert_eq!(planned[0].row.job.letter, job("acme", 4).letter, "staging needs the letter");
    assert_eq!(book.next_release().await.expect("the book answers"), Some(minutes(56)));
    assert_eq!(book.plan(&shards(), minutes(59), 1).await.expect("the book answers").len(), 1);
    assert_eq!(book.plan(&[], minutes(59), 10).await.expect("the book answers"), []);
    let walked = book.staged_after(None, 10).await.expect("the book answers");
    assert_eq!(walked.iter().map(|v| v.row.job.key.clone()).collect::<Vec<_>>(), [job("acme", 5).key]);
    assert!(walked[0].row.ever_staged);
}

/// A row keeps the highest (generation, incarnation, version) it has seen; an older story changes nothing and is answered `Older`.
pub async fn k3_an_older_story_changes_nothing(bench: &dyn Bench) {
    let book = bench.empty().await;
    let one = job("acme", 1);
    staged(&*book, &one).await;
    let dead = story(record(&one, 1, 7, State::DeadLetter));
    assert_eq!(book.settle(vec![dead.clone()], now()).await.expect("the book answers"), [Told::Written]);
    let stands = row(&*book, &one.key).await;
    assert_eq!((stands.state, stands.seen, stands.history.len()), (BookState::DeadLetter, (1, 0, 7), 7));
    assert_eq!(stands.pins, dead.record.pins);

    let older = story(record(&one, 1, 6, State::DeadLetter));
    let told = book.settle(vec![older.clone(), dead, older, story(record(&job("acme", 2), 1, 3, State::Sent))], now()).await;
    assert_eq!(told.expect("the book answers"), [Told::Older, Told::Written, Told::Older, Told::Unknown]);
    assert_eq!(row(&*book, &one.key).await, stands);

    let mut later = record(&one, 1, 2, State::Sent);
    later.incarnation = 1;
    assert_eq!(book.settle(vec![story(later)], now()).await.expect("the book answers"), [Told::Written], "a later incarnation outranks a version");
    assert_eq!(row(&*book, &one.key).await.seen, (1, 1, 2));
}

/// `sent` is final; `cancelled` and `suppressed` yield to `sent` alone.
pub async fn k3_sent_is_final(bench: &dyn Bench) {
    let book = bench.empty().await;
    let states = [State::Sent, State::Cancelled, State::Suppressed, State::DeadLetter];
    for (n, first) in states.into_iter().enumerate() {
        for (m, then) in states.into_iter().enumerate() {
            let one = job("acme", (n * 10 + m) as u64);
            staged(&*book, &one).await;
            book.settle(vec![story(record(&one, 1, 5, first))], now()).await.expect("the book answers");
            let told = book.settle(vec![story(record(&one, 1, 6, then))], now()).await.expect("the book answers");
            let yields = first == State::DeadLetter || then == State::Sent && first != State::Sent;
            let expected = if yields { then } else { first };
            assert_eq!(row(&*book, &one.key).await.state.word(), expected.word(), "{first}, then {then}");
            assert_eq!(told, [if yields { Told::Written } else { Told::Older }], "{first}, then {then}");
        }
    }
}

/// `sent` of an earlier generation counts only while the newer one has not been staged: a row that heard of the newer one keeps to it.
///
/// The planned half needs a replay, which is review's: `a_sent_of_the_earlier_generation_withdraws_a_planned_replay` in its suite.
pub async fn k4_an_earlier_sent_changes_nothing_once_the_newer_one_runs(bench: &dyn Bench) {
    let book = bench.empty().await;
    let one = job("acme", 1);
    staged(&*book, &one).await;
    book.settle(vec![story(record(&one, 2, 3, State::DeadLetter))], now()).await.expect("the book answers");
    let told = book.settle(vec![story(record(&one, 1, 9, State::Sent))], now()).await.expect("the book answers");
    assert_eq!(
        (told, row(&*book, &one.key).await.state),
        (vec![Told::Older], BookState::DeadLetter),
        "staged and told: the earlier generation is over"
    );
}

fn accepted_by(key: &Key, generation: u32, token: Option<Token>) -> Evidence {
    Evidence { key: key.clone(), generation, token, fate: Fate::Accepted(receipt()), source: EvidenceSource::LateVerdict, at: minutes(70) }
}

fn refused_by(key: &Key, generation: u32, token: Option<Token>) -> Evidence {
    let outcome = Outcome::new(OutcomeClass::Permanent, Stage::Dot, "dot-refused", "554 5.7.1");
    Evidence { fate: Fate::NotAccepted(Box::new(outcome)), ..accepted_by(key, generation, token) }
}

/// Evidence turns a dead letter in doubt into `sent`, ends its doubt, or is answered with what stands against it.
pub async fn evidence_is_weighed_where_no_record_stands(bench: &dyn Bench) {
    let book = bench.empty().await;
    let jobs: Vec<_> = (0..5).map(|n| job("acme", n)).collect();
    let take = async |evidence| book.evidence(evidence).await.expect("the book answers");
    assert_eq!(take(accepted_by(&jobs[0].key, 1, Some(token(1)))).await, EvidenceTaken::Unknown);
    for one in &jobs {
        staged(&*book, one).await;
    }
    assert_eq!(take(accepted_by(&jobs[0].key, 1, Some(token(1)))).await, EvidenceTaken::AskLedger, "staged");
    for one in &jobs[..4] {
        let mut record = in_doubt(one, 1, 5, token(1));
        record.doubts = vec![token(8)];
        book.settle(vec![story(record)], now()).await.expect("the book answers");
    }
    book.settle(vec![story(record(&jobs[4], 1, 5, State::DeadLetter))], now()).await.expect("the book answers");

    assert_eq!(take(accepted_by(&jobs[0].key, 1, Some(token(1)))).await, EvidenceTaken::Sent);
    let sent = row(&*book, &jobs[0].key).await;
    assert_eq!((sent.state, sent.doubt, sent.doubts, sent.receipt), (BookState::Sent, None, vec![token(8), token(1)], Some(receipt())));
    assert_eq!(take(accepted_by(&jobs[0].key, 1, Some(token(1)))).await, EvidenceTaken::Known);
    assert_eq!(take(refused_by(&jobs[0].key, 1, None)).await, EvidenceTaken::Conflicting, "refused, though accepted");

    assert_eq!(take(refused_by(&jobs[1].key, 1, Some(token(1)))).await, EvidenceTaken::DoubtEnded);
    assert_eq!(take(refused_by(&jobs[1].key, 1, Some(token(1)))).await, EvidenceTaken::Known);
    assert_eq!((row(&*book, &jobs[1].key).await.state, row(&*book, &jobs[1].key).await.doubt), (BookState::DeadLetter, None));
    assert_eq!(take(accepted_by(&jobs[2].key, 1, None)).await, EvidenceTaken::Sent, "a provider's event speaks of the one open doubt");
    assert_eq!(take(accepted_by(&jobs[3].key, 1, Some(token(8)))).await, EvidenceTaken::Sent, "an earlier token in doubt");
    assert_eq!(take(accepted_by(&jobs[4].key, 1, None)).await, EvidenceTaken::Conflicting, "accepted, though refused");
    assert_eq!(take(refused_by(&jobs[4].key, 1, None)).await, EvidenceTaken::Known);
}
