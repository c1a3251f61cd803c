//! The roles and people, each from one errand to its end; every call of a store may be the last one that its actor makes.

use std::sync::Arc;
use std::time::Duration;

use curfew_book::{Book as _, Evidence, EvidenceSource, Fate as BookFate, SuppressionRow, VerbRequest};
use curfew_courier::{Report, Reported, VerbOutcome, report};
use curfew_domain::limits::{LAST_LOOK_MARGIN, VERB_OPEN_MAX};
use curfew_domain::outcome::{Outcome, Receipt, Stage};
use curfew_domain::transition::{Event, Guard, Index, Verdict, transition};
use curfew_domain::verb::Verb;
use curfew_domain::{Key, OutcomeClass, Record, State, Token, WorkerId};
use curfew_ledger::{Suppression, Swap, Swapped};
use curfew_review::Replay;
use curfew_scheduler::tick::{Leases, Overdue, Ready, View, overdue};
use uuid::Uuid;

use crate::gate::{Gate, Pass};
use crate::truth::Fate;
use crate::world::{LEASE, SHARD, STAGING_WINDOW, Stores, World};

/// What an actor does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
    Stage,
    Release,
    Heal,
    Settle,
    Bury,
    Finish,
    Work,
    Operate,
}

impl Errand {
    /// By their weight: deliveries are what matters most.
    pub const ALL: [Errand; 12] = [
        Errand::Stage,
        Errand::Release,
        Errand::Heal,
        Errand::Settle,
        Errand::Bury,
        Errand::Finish,
        Errand::Work,
        Errand::Work,
        Errand::Work,
        Errand::Work,
        Errand::Work,
        Errand::Operate,
    ];
}

/// Runs one errand; an error of a store ends it, as it ends a round of the real role.
pub async fn run(world: Arc<World>, gate: Gate, errand: Errand) -> Result<(), String> {
    let stores = world.stores(&gate);
    let _ended = match errand {
        Errand::Stage => stage(&world, &stores).await,
        Errand::Release => release(&world, &stores).await,
        Errand::Heal => heal(&world, &stores).await,
        Errand::Settle => tell(&world, &stores, Index::Settle).await,
        Errand::Bury => tell(&world, &stores, Index::Review).await,
        Errand::Finish => finish(&world, &stores).await,
        Errand::Work => return work(&world, &stores, &gate).await,
        Errand::Operate => operate(&world, &stores).await,
    };
    Ok(())
}

type Done = Result<(), curfew_courier::CourierError>;

async fn stage(world: &World, s: &Stores) -> Done {
    let begun = curfew_courier::begin(&*s.ledger, &[SHARD]).await?;
    let rows = s.book.plan(&[SHARD], begun.at.plus(STAGING_WINDOW), 100).await?;
    curfew_courier::stage(&*s.ledger, &*s.book, &*s.review, &world.rulebook, rows, &begun).await.map(drop)
}

async fn release(world: &World, s: &Stores) -> Done {
    let now = world.now();
    let mut swaps = Vec::new();
    for head in s.ledger.lines(SHARD, now, 10, 10, &[]).await? {
        let event = Event::Release { claim_grace: Duration::from_secs(2) };
        swaps.extend(transition(&head.record, &event, now).ok().map(|change| Swap::of(&head.record, change)));
    }
    s.ledger.swap_all(swaps).await?;
    Ok(())
}

async fn heal(world: &World, s: &Stores) -> Done {
    let now = world.now();
    let view = View { now, leases: Leases::Trusted, ready: Ready::Silent, claim_grace: Duration::from_secs(2) };
    let mut swaps = Vec::new();
    let mut later = Vec::new();
    for timer in s.ledger.overdue(SHARD, Index::Watch, now, 10).await? {
        let rules = world.rulebook.rules(&timer.record, world.dice.unit());
        let event = match overdue(&timer.record, timer.postponed, view) {
            Overdue::Deadline => Event::DeadlineReached,
            Overdue::LeaseOver => Event::LeaseOver { rules },
            Overdue::Republish => Event::Release { claim_grace: Duration::from_secs(2) },
            Overdue::Postpone(at) => {
                later.push((timer.record.key.clone(), timer.record.version, at));
                continue;
            }
        };
        swaps.extend(transition(&timer.record, &event, now).ok().map(|change| Swap::of(&timer.record, change)));
    }
    s.ledger.postpone(later).await?;
    s.ledger.swap_all(swaps).await?;
    Ok(())
}

async fn tell(world: &World, s: &Stores, index: Index) -> Done {
    let now = world.now();
    let records: Vec<Record> = s.ledger.overdue(SHARD, index, now, 10).await?.into_iter().map(|t| t.record).collect();
    if index == Index::Settle {
        curfew_courier::settle(&*s.ledger, &*s.book, records, now).await.map(drop)
    } else {
        curfew_courier::record_dead_letters(&*s.ledger, &*s.review, records, world.rulebook.owners(), now).await.map(drop)
    }
}

async fn finish(world: &World, s: &Stores) -> Done {
    for open in s.book.open_verbs(world.now().minus(VERB_OPEN_MAX), 10).await? {
        let _stays_open = curfew_courier::finish(&*s.ledger, &*s.book, &*s.review, &world.rulebook, &open.key, &open.verb, "operator").await;
    }
    Ok(())
}

/// One delivery: claim, prepare, intent, last look, marker, verdict.
async fn work(world: &World, s: &Stores, gate: &Gate) -> Result<(), String> {
    let Some(key) = world.dice.of(&world.keys) else { return Ok(()) };
    let me = WorkerId(Uuid::from_u128(u128::from(world.dice.below(u64::MAX))));
    let Some(claimed) = claim(world, s, key, me).await else { return Ok(()) };
    let rules = world.rulebook.rules(&claimed, world.dice.unit());
    let early = match world.dice.below(12) {
        0 => Some(OutcomeClass::Transient),
        1 => Some(OutcomeClass::Permanent),
        2 => Some(OutcomeClass::Configuration),
        3 => {
            let event = Event::GiveBack { worker: me, waits_for: None, until: world.now() };
            let _fenced = swap(s, &claimed, &event, world).await;
            return Ok(());
        }
        _prepared => None,
    };
    if let Some(class) = early {
        let outcome = Outcome::new(class, Stage::Rcpt, "early", "before the content");
        let _fenced = swap(s, &claimed, &Event::Prepared { worker: me, outcome: &outcome, rules, pins: Vec::new() }, world).await;
        return Ok(());
    }
    let token = Token(Uuid::from_u128(u128::from(world.dice.below(u64::MAX))));
    let asked = world.now();
    let intent = Event::Intent { worker: me, token, lease: LEASE, pins: Vec::new() };
    let Some(handoff) = swap(s, &claimed, &intent, world).await else { return Ok(()) };
    // The content is written; a freeze may be as long as it likes.
    if gate.pass().await != Pass::Go {
        return insist(world, s, gate, &handoff, token, Said::NotHandedOff).await;
    }
    let look = world.now() < handoff.stops_at() && world.now().plus(LAST_LOOK_MARGIN) <= asked.plus(LEASE);
    if !look {
        return insist(world, s, gate, &handoff, token, Said::NotHandedOff).await;
    }
    let (fate, said) = match world.dice.below(8) {
        0..=2 => (Fate::Accepted, Said::Accepted),
        3 | 4 => (Fate::Accepted, Said::Unknown),
        5 => (Fate::Refused, Said::Transient),
        6 => (Fate::Refused, Said::Permanent),
        _lost => (Fate::Lost, Said::Unknown),
    };
    let row = world.book.by_key(key).await.expect("the book answers").expect("accepted");
    world.truths.marker(&handoff, &row, token, fate, world.window, world.now()).map_err(|e| format!("{key} {token:?}: {e}"))?;
    insist(world, s, gate, &handoff, token, said).await
}

async fn claim(world: &World, s: &Stores, key: &Key, me: WorkerId) -> Option<Record> {
    let mut record = s.ledger.get(key).await.ok()??.record;
    for _ in 0..4 {
        let change = transition(&record, &Event::Claim { worker: me, lease: LEASE }, world.now()).ok()?;
        let next = change.record.clone();
        match s.ledger.swap(Swap::of(&record, change)).await {
            Ok(Swapped::Swapped) => return Some(next),
            Ok(Swapped::Conflict(standing)) => record = *standing,
            Ok(Swapped::Refused(Guard::NotSuppressed(_))) => {
                swap(s, &record, &Event::RecipientSuppressed, world).await;
                return None;
            }
            Ok(Swapped::Missing | Swapped::Refused(_) | Swapped::Full) => return None,
            // Asked again in the same bytes: found there, it is ours.
            Err(_unanswered) => {}
        }
    }
    None
}

/// A swap that is repeated where its reply was lost.
async fn swap(s: &Stores, record: &Record, event: &Event<'_>, world: &World) -> Option<Record> {
    let change = transition(record, event, world.now()).ok()?;
    for _ in 0..4 {
        match s.ledger.swap(Swap::of(record, change.clone()).on_disk()).await {
            Ok(Swapped::Swapped) => return Some(change.record),
            Ok(Swapped::Conflict(_) | Swapped::Missing | Swapped::Refused(_) | Swapped::Full) => return None,
            Err(_unanswered) => {}
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Accepted,
    Transient,
    Permanent,
    NotHandedOff,
    Unknown,
}

async fn insist(world: &World, s: &Stores, gate: &Gate, handoff: &Record, token: Token, said: Said) -> Result<(), String> {
    let receipt = Receipt { at: world.now(), code: 250, text: "ok".to_owned(), queue_id: None };
    let class = match said {
        Said::Permanent => OutcomeClass::Permanent,
        Said::Unknown => OutcomeClass::Ambiguous,
        Said::Accepted | Said::Transient | Said::NotHandedOff => OutcomeClass::Transient,
    };
    let outcome = Outcome::new(class, Stage::Dot, "said", "the provider's word");
    let verdict = match said {
        Said::Accepted => Verdict::Accepted(&receipt),
        Said::Transient | Said::Permanent | Said::NotHandedOff => Verdict::NotAccepted(&outcome),
        Said::Unknown => Verdict::Unknown(&outcome),
    };
    let twice = world.dice.one_in(6);
    for _ in 0..40 {
        let told = Report { key: &handoff.key, generation: handoff.generation, token, verdict, by: curfew_courier::By::Worker, own: Some(handoff) };
        match report(&*s.ledger, &*s.book, &world.rulebook, told, world.dice.unit()).await {
            Ok(Reported::Written(_) | Reported::Evidence(_) | Reported::Known) if twice => {
                let told =
                    Report { key: &handoff.key, generation: handoff.generation, token, verdict, by: curfew_courier::By::Worker, own: Some(handoff) };
                let _again = report(&*s.ledger, &*s.book, &world.rulebook, told, world.dice.unit()).await;
                return Ok(());
            }
            Ok(Reported::Written(_) | Reported::Evidence(_) | Reported::Known) => return Ok(()),
            Ok(Reported::Later) | Err(_) => {
                gate.pass().await;
            }
        }
    }
    Ok(())
}

async fn operate(world: &World, s: &Stores) -> Done {
    let Some(key) = world.dice.of(&world.keys) else { return Ok(()) };
    let verb = match world.dice.below(9) {
        0 => Verb::Cancel,
        1 => Verb::Suppress,
        2 | 3 => {
            let release_at = world.now().plus(Duration::from_secs(world.dice.below(30))).minus(Duration::from_secs(5));
            Verb::Move { release_at, deadline_at: release_at.plus(Duration::from_secs(5 + world.dice.below(60))) }
        }
        4 => return provider_event(world, s, key).await,
        5 if world.dice.one_in(12) => return suppress_recipient(world, s, key).await,
        6 if world.dice.one_in(3) => return on_item(world, s, key).await,
        _replay => return replay(world, s, key).await,
    };
    if matches!(verb, Verb::Cancel | Verb::Suppress) {
        if !world.dice.one_in(6) {
            return Ok(());
        }
        world.truths.with(key, |truth| (truth.may_have_ended, truth.closed_by_person) = (true, true));
    } else {
        world.truths.with(key, |truth| (truth.moved, truth.moves_begun) = (None, truth.moves_begun + 1));
    }
    let (now, begun) = (world.now(), world.truths.of(key).moves_begun);
    let request = VerbRequest {
        key: key.clone(),
        verb: verb.clone(),
        actor: "alice".to_owned(),
        reason: "asked".to_owned(),
        at: now,
        book_alone_from: now.plus(STAGING_WINDOW + Duration::from_secs(120)),
    };
    if let VerbOutcome::Applied(row) = curfew_courier::carry_out(&*s.ledger, &*s.book, &*s.review, &world.rulebook, request).await? {
        // Another move that was asked for meanwhile may be in force, whatever it is answered.
        if matches!(verb, Verb::Cancel | Verb::Suppress) || world.truths.of(key).moves_begun == begun {
            world.truths.answered(key, &verb, row.generation);
        }
    }
    Ok(())
}

async fn replay(world: &World, s: &Stores, key: &Key) -> Done {
    let Some(item) = s.review.open_item_of(key).await? else { return Ok(()) };
    let at = world.now();
    let replay = Replay {
        item: item.id,
        deadline_at: at.plus(Duration::from_secs(10 + world.dice.below(90))),
        actor: "alice".to_owned(),
        reason: "mended".to_owned(),
        accept_duplicate_risk: !world.dice.one_in(4),
        dry_run: false,
        at,
    };
    s.review.replay(replay).await?;
    Ok(())
}

/// The item is closed, or its job suppressed: a person takes what is in doubt upon themselves.
async fn on_item(world: &World, s: &Stores, key: &Key) -> Done {
    let Some(item) = s.review.open_item_of(key).await? else { return Ok(()) };
    let suppress = world.dice.one_in(2);
    world.truths.with(key, |truth| (truth.closed_by_person, truth.may_have_ended) = (true, truth.may_have_ended || suppress));
    if suppress {
        s.review.suppress(item.id, "alice", "no longer wanted", world.now()).await?;
    } else {
        s.review.resolve(item.id, None, "alice", "done by telephone", world.now()).await?;
    }
    Ok(())
}

/// The provider speaks the truth about a job, by its name alone.
async fn provider_event(world: &World, s: &Stores, key: &Key) -> Done {
    let truth = world.truths.of(key);
    if truth.tokens.is_empty() || world.record(key).await.is_some_and(|r| r.is_live() || !matches!(r.state, State::DeadLetter)) {
        return Ok(());
    }
    let outcome = Outcome::new(OutcomeClass::Permanent, Stage::Dot, "provider-event", "refused");
    let fate = if truth.mails() > 0 {
        BookFate::Accepted(Receipt { at: world.now(), code: 0, text: "event".to_owned(), queue_id: None })
    } else {
        BookFate::NotAccepted(Box::new(outcome))
    };
    let Some(row) = s.book.by_key(key).await? else { return Ok(()) };
    // Said once, it is no doubt any more whether our side hears it or not.
    world.truths.with(key, |truth| truth.provider_spoke());
    let evidence =
        Evidence { key: key.clone(), generation: row.generation, token: None, fate, source: EvidenceSource::ProviderEvent, at: world.now() };
    s.book.evidence(evidence).await?;
    Ok(())
}

async fn suppress_recipient(world: &World, s: &Stores, key: &Key) -> Done {
    let Some(row) = s.book.by_key(key).await? else { return Ok(()) };
    world.truths.with(key, |truth| truth.may_have_ended = true);
    let suppression = SuppressionRow {
        tenant: None,
        recipient_ref: row.job.recipient_ref.clone(),
        recipient_masked: String::new(),
        reason: "asked".to_owned(),
        actor: "alice".to_owned(),
        since: world.now(),
    };
    s.book.suppress_recipient(suppression).await?;
    let all = s.book.suppressions().await?;
    let copies = all.into_iter().map(|row| Suppression { tenant: row.tenant, recipient_ref: row.recipient_ref }).collect();
    s.ledger.set_suppressions(copies).await?;
    Ok(())
}
