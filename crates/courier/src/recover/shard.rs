//! The steps of one shard's recovery, by whoever comes: look, adopt, wait for the workers' reports, judge every job, end.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_book::{Book, BookState, Mark, REMEMBERED, Row, VerbSeen};
use curfew_domain::limits::LEASE_MAX;
use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Change, Event, Refusal, transition};
use curfew_domain::{Key, Moment, Record, Shard, State, WorkerId};
use curfew_ledger::{Adopted, Create, Created, Ledger, LedgerError, Meta, Recoverable, Suppression, Survivor, Swap, Swapped};

use super::patience::Patience;
use super::ruling::{Facts, Ruling, lacking, rule};
use super::unreadable::{Stands, left, survivors};
use crate::{CourierError, Rulebook, copy_holds, first_version};

/// A worker that doesn't report for so long is missing.
const REPORT_MAX: Duration = Duration::from_secs(30);
/// Every worker that lives has told the book so within this: heartbeats come each 10 s.
const HEARD_WITHIN: Duration = Duration::from_secs(12);
/// Before the last heartbeat that survived: what a worker held that long before counts, too.
const BEFORE_THE_BEAT: Duration = Duration::from_secs(60);
/// An enrolment so long after T1 is of a worker that claimed nothing of before: the shard was adopted by then.
const ENROLLED_AFTER: Duration = Duration::from_secs(2);
/// A claim may have been made so long after the latest moment that any clock told of: nodes' clocks differ by less, or are halted.
const CLOCKS_APART: Duration = Duration::from_secs(4);
/// A worker that stopped cleanly so long before the last heartbeat that survived left nothing that could be lost.
const STOPPED_BEFORE: Duration = Duration::from_secs(5);
/// Jobs judged at once.
const JOBS_AT_ONCE: usize = 200;
/// Passes over the jobs that others keep changing; the next look begins anew.
const PASSES_MAX: u32 = 5;

/// What a look found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Nothing to recover.
    Works,
    /// The shard recovers: these workers haven't reported yet.
    Waits(Vec<String>),
    /// Others changed what was judged: look again.
    Unfinished,
    /// Recovered, just now.
    Recovered(Found),
}

/// What a recovery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// The incarnation that works now.
    pub incarnation: u32,
    /// Jobs in doubt: in review, or on their way there once the longest lease is over.
    pub in_doubt: usize,
    /// Rows that are staged again.
    pub taken_back: usize,
    /// Records that followed the book.
    pub from_the_book: usize,
    /// Workers that didn't report.
    pub missing: usize,
}

/// What recovery works with.
#[derive(Clone, Copy)]
pub struct Recovery<'a> {
    /// The ledger, in the roles' hands.
    pub ledger: &'a dyn Ledger,
    /// What was accepted, who works here, and each shard's incarnation.
    pub book: &'a dyn Book,
    /// Policies.
    pub rulebook: &'a Rulebook,
    /// How long this process has waited.
    pub patience: &'a Patience,
}

/// One look at a shard, and the next step where one is due. Repeating is free. `thorough`: the book is asked too where the ledger says that all
/// is well, for a recovery may have died between the two.
///
/// # Errors
/// `CourierError`: look again.
pub async fn look(recovery: Recovery<'_>, shard: Shard, thorough: bool) -> Result<Stage, CourierError> {
    let looked = looked(recovery, shard, thorough).await;
    match &looked {
        Ok(Stage::Works | Stage::Recovered(_)) => recovery.patience.works(shard),
        Ok(Stage::Waits(_) | Stage::Unfinished) => {}
        Err(CourierError::Book(error)) => recovery.patience.book_failed(error),
        Err(CourierError::Ledger(_) | CourierError::Contended) => {}
    }
    looked
}

async fn looked(recovery: Recovery<'_>, shard: Shard, thorough: bool) -> Result<Stage, CourierError> {
    let Some(recoverable) = recovery.ledger.recoverable() else { return Ok(Stage::Works) };
    if !thorough && recoverable.meta(shard).await?.is_some_and(|meta| meta.of_this_server && !meta.recovering) {
        return Ok(Stage::Works);
    }
    let looked_at = recoverable.time_of(shard).await?;
    // The book first: of two that find the same loss, one raises, and both adopt what it raised to.
    let raised = recovery.book.incarnations().await?.get(&shard).copied().unwrap_or(0);
    match recoverable.meta(shard).await? {
        Some(meta) if meta.of_this_server && meta.incarnation >= raised && !meta.recovering => Ok(Stage::Works),
        // T1 and every judgement go by a clock: none is made while nobody vouches for it.
        Some(_) | None if recovery.ledger.is_halted(shard) => Ok(Stage::Unfinished),
        Some(meta) if meta.of_this_server && meta.incarnation == raised => step(recovery, recoverable, shard, &meta).await,
        Some(meta) if meta.of_this_server && meta.incarnation < raised => adopt(recoverable, shard, raised, looked_at).await,
        Some(_) | None => {
            let incarnation = recovery.book.raise(shard, raised).await?;
            adopt(recoverable, shard, incarnation, looked_at).await
        }
    }
}

async fn adopt(recoverable: &dyn Recoverable, shard: Shard, incarnation: u32, looked_at: Moment) -> Result<Stage, CourierError> {
    match recoverable.adopt(shard, incarnation, looked_at).await? {
        Adopted::Adopted => Ok(Stage::Waits(Vec::new())),
        Adopted::Later | Adopted::Stale => Ok(Stage::Unfinished),
    }
}

/// The shard recovers: waits for reports, then judges.
async fn step(recovery: Recovery<'_>, recoverable: &dyn Recoverable, shard: Shard, meta: &Meta) -> Result<Stage, CourierError> {
    let now = recoverable.time_of(shard).await?;
    let workers = Workers::of(recovery, recoverable, shard, meta, now).await?;
    if !workers.awaited.is_empty() {
        return Ok(Stage::Waits(workers.awaited));
    }
    let hands = recoverable.in_recovery();
    let Some(hands_on) = hands.recoverable() else { return Ok(Stage::Works) };
    let mut found = Found { incarnation: meta.incarnation, missing: workers.missing, ..Found::default() };
    let lost_worker = workers.missing > 0;
    let shard_of = Judged { recovery, hands: &*hands, hands_on, shard, meta, until: workers.claimed_until, lost_worker, now };
    let mut settled = false;
    for _ in 0..PASSES_MAX {
        let contended = shard_of.survivors(&mut found).await? + shard_of.rows(&mut found).await?;
        if contended == 0 {
            settled = true;
            break;
        }
    }
    if !settled {
        return Ok(Stage::Unfinished);
    }
    let suppressed = recovery.book.suppressions().await?;
    let suppressed = suppressed.into_iter().map(|row| Suppression { tenant: row.tenant, recipient_ref: row.recipient_ref }).collect();
    hands.set_suppressions(suppressed).await?;
    copy_holds(&*hands, recovery.book).await?;
    hands.recount(shard).await?;
    // Whoever is still cut off from the book is known by this alone to a recovery that comes before it is heard again.
    for worker in workers.may_go_on {
        hands_on.hear(worker, &[shard]).await.into_iter().try_for_each(|heard| heard.map(drop))?;
    }
    recoverable.recovered(shard, meta.incarnation).await?;
    Ok(Stage::Recovered(found))
}

/// Who has to report.
struct Workers {
    /// By name; waited for.
    awaited: Vec<String>,
    /// Given up: they may have had any job.
    missing: usize,
    /// Reported or not, they may live, and claim as soon as the shard works again.
    may_go_on: Vec<WorkerId>,
    /// T1: nothing was claimed after it, by whatever clock.
    claimed_until: Moment,
}

impl Workers {
    async fn of(recovery: Recovery<'_>, recoverable: &dyn Recoverable, shard: Shard, meta: &Meta, now: Moment) -> Result<Self, CourierError> {
        let survived = recoverable.last_beat_of(shard).await?.map(|beat| beat.at);
        let kept = recovery.book.last_beat().await?.map(|(_, at)| at);
        // The clock that gave T1 may be behind those that claims went by.
        let claimed_until = survived.into_iter().chain(kept).fold(meta.since, Moment::max).plus(CLOCKS_APART);
        // Where nothing survived, the heartbeat that the book kept says when the ledger was there last.
        let beat = survived.or(kept).unwrap_or(Moment::from_millis(0)).min(meta.since);
        let reported = recovery.book.reports(shard, meta.incarnation).await?;
        let since = beat.minus(BEFORE_THE_BEAT);
        let (mut silent, mut may_go_on) = (Vec::new(), Vec::new());
        let mut unheard = false;
        // The book may not have heard a worker that worked on: what survived of the ledger did.
        let mut heard_here = recoverable.heard(shard, since).await?;
        for process in recovery.book.enrolled(meta.since.minus(REMEMBERED)).await? {
            let heard_at = heard_here.remove(&process.enrolment.id);
            let stopped = |at: Moment| at.plus(STOPPED_BEFORE) <= beat && heard_at.is_none_or(|heard| heard <= at.plus(STOPPED_BEFORE));
            let harmless = process.stopped_at.is_some_and(stopped);
            // A shard that recovers hears nobody: whom it heard was there before, and enrolled once more since.
            let too_late = heard_at.is_none() && process.enrolment.at >= claimed_until.plus(ENROLLED_AFTER);
            let works = process.enrolment.roles.iter().any(|role| role == "worker");
            // Who came too late is left out: heard once, it would be waited for by this recovery too.
            if works && !too_late && process.stopped_at.is_none() && (process.beat_at >= since || heard_at.is_some()) {
                may_go_on.push(process.enrolment.id);
            }
            if harmless || too_late || !works || reported.contains(&process.enrolment.id) {
                continue;
            }
            if process.beat_at >= since || heard_at.is_some() {
                let lives = process.beat_at > meta.since;
                silent.push((process.enrolment.name, process.stopped_at.is_none(), lives));
            } else if process.stopped_at.is_none() {
                unheard = true;
            }
        }
        // Of these the book knows nothing at all any more.
        may_go_on.extend(heard_here.keys());
        let unknown = heard_here.into_keys().filter(|id| !reported.contains(id));
        silent.extend(unknown.map(|id| (format!("worker {}", id.0), true, false)));
        // By the process's own clock too, for the node's may be set back meanwhile.
        let waited = now.since(meta.since).max(recovery.patience.recovering(shard, meta.incarnation));
        // Nobody could report to a book that was away.
        let heard = recovery.patience.book_answers();
        let waits_for_all = waited < REPORT_MAX || heard < HEARD_WITHIN;
        let waits_for = |may_report: bool, lives: bool| may_report && (waits_for_all || lives && heard < REPORT_MAX);
        let mut awaited: Vec<String> =
            silent.iter().filter(|(_, may_report, lives)| waits_for(*may_report, *lives)).map(|(name, ..)| name.clone()).collect();
        // Somebody may live whose heartbeats didn't reach the book: it has the time for one. Without any report, for all of it.
        let waits_for_more = unheard && (waited < HEARD_WITHIN || heard < HEARD_WITHIN) || waits_for_all && reported.is_empty();
        if awaited.is_empty() && waits_for_more {
            awaited.push("whoever was not heard of lately".to_owned());
        }
        Ok(Self { awaited, missing: silent.len(), may_go_on, claimed_until })
    }
}

/// One shard under judgement.
struct Judged<'a> {
    recovery: Recovery<'a>,
    hands: &'a dyn Ledger,
    hands_on: &'a dyn Recoverable,
    shard: Shard,
    meta: &'a Meta,
    /// Nothing was claimed after it.
    until: Moment,
    lost_worker: bool,
    now: Moment,
}

impl Judged<'_> {
    /// Every record that survived; how many changed under the judgement.
    async fn survivors(&self, found: &mut Found) -> Result<usize, CourierError> {
        let mut after: Option<Key> = None;
        let mut contended = 0;
        loop {
            let page = self.hands_on.walk_survivors(self.shard, after.as_ref(), JOBS_AT_ONCE).await?;
            let Some(last) = page.last() else { return Ok(contended) };
            after = Some(last.record.key.clone());
            let keys: Vec<Key> = page.iter().map(|survivor| survivor.record.key.clone()).collect();
            let rows: Vec<Option<Row>> = self.recovery.book.rows(&keys).await?.into_iter().map(|view| view.map(|view| view.row)).collect();
            contended += self.judge(page.iter().map(Some).zip(rows.iter().map(Option::as_ref)).collect(), found).await?;
        }
    }

    /// Every row whose record is missing, or of an earlier generation.
    async fn rows(&self, found: &mut Found) -> Result<usize, CourierError> {
        let mut contended = 0;
        for (state, until) in [(BookState::Staged, Moment::from_millis(i64::MAX)), (BookState::Planned, self.until)] {
            // A planned row matters where a worker is missing alone: its mark may be behind its create.
            if state == BookState::Planned && !self.lost_worker {
                continue;
            }
            let mut after: Option<Key> = None;
            loop {
                let page = self.recovery.book.rows_of(self.shard, state, until, after.as_ref(), JOBS_AT_ONCE as u32).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.row.job.key.clone());
                let keys: Vec<Key> = page.iter().map(|view| view.row.job.key.clone()).collect();
                let stands = survivors(self.hands_on, &keys).await?;
                let lost = stands.iter().zip(&page).filter(|(stands, _)| matches!(stands, Stands::Nothing));
                contended += self.judge(lost.map(|(_, view)| (None, Some(&view.row))).collect(), found).await?;
            }
        }
        Ok(contended)
    }

    async fn judge(&self, jobs: Vec<(Option<&Survivor>, Option<&Row>)>, found: &mut Found) -> Result<usize, CourierError> {
        // Another loss in the middle: what is read now is of another incarnation, which begins anew.
        if jobs.iter().any(|(survivor, _)| survivor.is_some_and(|survivor| survivor.record.incarnation != self.meta.incarnation)) {
            return Err(LedgerError::OtherServer.into());
        }
        let live = jobs.iter().filter_map(|(survivor, _)| survivor.filter(|s| s.record.is_live() && !s.record.state.is_terminal()));
        let keys: Vec<Key> = live.map(|survivor| survivor.record.key.clone()).collect();
        let mut verbs: BTreeMap<Key, Vec<VerbSeen>> = BTreeMap::new();
        if !keys.is_empty() {
            for (key, seen) in self.recovery.book.verbs_of(&keys).await? {
                verbs.entry(key).or_default().push(seen);
            }
        }
        let mut contended = 0;
        for (survivor, row) in jobs {
            let verbs = survivor.and_then(|survivor| verbs.get(&survivor.record.key)).map_or(&[][..], Vec::as_slice);
            let facts = Facts { survivor, row, verbs, incarnation: self.meta.incarnation, lost_worker: self.lost_worker, until: self.until };
            let done = self.carry_out(facts, rule(facts), found).await;
            let done = match survivor.map(|survivor| &survivor.record.key).or(row.map(|row| &row.job.key)) {
                Some(key) => left(key, done, true)?,
                None => done?,
            };
            contended += usize::from(!done);
        }
        Ok(contended)
    }

    /// Whether it is done; `false`: somebody changed it meanwhile.
    async fn carry_out(&self, facts: Facts<'_>, ruling: Ruling, found: &mut Found) -> Result<bool, CourierError> {
        let done = match (&ruling, facts.survivor) {
            (Ruling::Missing, _) => return self.missing(facts, found).await,
            (Ruling::TakeBack(earlier), survivor) => {
                if let (Some(story), Some(survivor)) = (earlier, survivor)
                    && self.moved(&survivor.record, &Event::BookWins(story)).await?.is_none()
                {
                    return Ok(false);
                }
                let Some(row) = facts.row else { return Ok(true) };
                let mark = Mark { key: row.job.key.clone(), generation: row.generation, shard: self.shard, incarnation: self.meta.incarnation };
                found.taken_back += usize::from(self.recovery.book.take_back(&mark, self.now).await?);
                return Ok(true);
            }
            (_, None) => return Ok(true),
            (Ruling::Stands, Some(survivor)) => Some(survivor.record.clone()),
            (Ruling::BookWins(story), Some(survivor)) => {
                let moved = self.moved(&survivor.record, &Event::BookWins(story)).await?;
                found.from_the_book += usize::from(moved.is_some());
                moved
            }
            (Ruling::Moved(release_at, deadline_at), Some(survivor)) => {
                let moved = self.moved(&survivor.record, &Event::MovedInBook { release_at: *release_at, deadline_at: *deadline_at }).await?;
                found.from_the_book += usize::from(moved.is_some());
                moved
            }
            (Ruling::SentIn(generation), Some(survivor)) => self.moved(&survivor.record, &Event::SentInGeneration(*generation)).await?,
            (Ruling::Doubt, Some(survivor)) => {
                let moved = self.moved(&survivor.record, &Event::RolledBack { until: self.lease_end() }).await?;
                found.in_doubt += usize::from(moved.is_some());
                moved
            }
            (Ruling::ClaimDropped, Some(survivor)) => self.moved(&survivor.record, &Event::ClaimDropped).await?,
        };
        match (done, facts.survivor) {
            (Some(record), Some(survivor)) => self.apply_verbs(facts, survivor, record).await,
            (_, _) => Ok(false),
        }
    }

    /// The verbs that the record lacks, open or applied, take effect again. An open one's row is closed by whoever finds it open.
    async fn apply_verbs(&self, facts: Facts<'_>, survivor: &Survivor, mut record: Record) -> Result<bool, CourierError> {
        let now_stands = Survivor { record: record.clone(), written_in: survivor.written_in };
        for verb in lacking(&facts, &now_stands) {
            if !matches!(record.state, State::Scheduled | State::Queued | State::Claimed) {
                break;
            }
            match self.moved(&record, &Event::Verb(verb)).await? {
                Some(moved) => record = moved,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The record after the event; as it was where the event changes nothing; `None` where somebody was first.
    async fn moved(&self, record: &Record, event: &Event<'_>) -> Result<Option<Record>, CourierError> {
        let change = match transition(record, event, self.now) {
            Ok(change) => change,
            Err(_nothing_to_change) => return Ok(Some(record.clone())),
        };
        let next = change.record.clone();
        match self.hands.swap(Swap::of(record, change).on_disk()).await? {
            Swapped::Swapped => Ok(Some(next)),
            Swapped::Conflict(_) | Swapped::Missing | Swapped::Refused(_) | Swapped::Full => Ok(None),
        }
    }

    /// A record in the row's generation, in doubt about every token of it.
    async fn missing(&self, facts: Facts<'_>, found: &mut Found) -> Result<bool, CourierError> {
        let Some(row) = facts.row else { return Ok(true) };
        let mut first = first_version(row, self.recovery.rulebook, self.meta.incarnation, self.now).record;
        if let Some(survivor) = facts.survivor {
            carry_doubts(&mut first, &survivor.record);
        }
        let change = transition(&first, &Event::RolledBack { until: self.lease_end() }, self.now);
        let Ok(change) = change.map(begun_by_recovery).map_err(|refusal: Refusal| refusal) else { return Ok(true) };
        let create = Create { change, letter: Sealed::from_bytes(Vec::new()), read_at: self.hands.now().await? };
        let over = facts.survivor.map(|survivor| (survivor.record.generation, survivor.record.version));
        match self.hands_on.supplant(create, over).await? {
            Created::Created => {
                found.in_doubt += 1;
                Ok(true)
            }
            Created::Exists(_) | Created::HigherGeneration | Created::EarlierUnclosed(_) | Created::StaleRead => Ok(false),
        }
    }

    /// While a worker is missing somebody's lease may still run: the longest since T1.
    fn lease_end(&self) -> Option<Moment> {
        let until = self.meta.since.plus(LEASE_MAX);
        (self.lost_worker && self.now < until).then_some(until)
    }
}

/// Tokens whose fate an earlier generation's record left open.
pub(super) fn carry_doubts(first: &mut Record, earlier: &Record) {
    let open = earlier.doubts.iter().chain(&earlier.window_doubts).chain(&earlier.token).copied();
    let open: Vec<_> = open.filter(|token| !first.doubts.contains(token)).collect();
    first.doubts.extend(open);
}

/// The story of a record that recovery makes begins with it.
pub(super) fn begun_by_recovery(mut change: Change) -> Change {
    if let Some(entry) = &mut change.history {
        entry.from = None;
    }
    change
}
