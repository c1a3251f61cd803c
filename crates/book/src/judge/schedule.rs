//! What the book makes of a schedule's changes and of planned batches (S1 to S4): pure, shared by every adapter.

use std::collections::{BTreeMap, BTreeSet};

use curfew_domain::history::HistoryEntry;
use curfew_domain::recurrence::{Change, Date, Phase, Progress, Skip, SlotName, What};
use curfew_domain::{Moment, Reason, State};

use crate::schedules::checked_name;
use crate::{Batch, BookError, ChangeRequest, PutSchedule, ScheduleRow, SlotState};

/// What becomes of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ruling {
    /// The row as it is written; what the change takes back is up to the caller.
    Write(Box<ScheduleRow>, Change),
    /// It is made anew: there is none, or a deleted one.
    Make(Box<ScheduleRow>),
    /// It stands so already.
    Same,
    /// Another revision stands, or there is none.
    Lost(Option<u64>),
}

/// Whether a request is well formed.
///
/// # Errors
/// `Invalid`.
pub fn check(request: &ChangeRequest) -> Result<(), BookError> {
    checked_name(&request.tenant, &request.name)?;
    if request.reason.trim().is_empty() {
        return Err(BookError::Invalid { field: "reason", reason: "is empty".to_owned() });
    }
    Ok(())
}

/// A definition that is put.
pub fn put(stands: Option<&ScheduleRow>, request: &ChangeRequest, schedule: &PutSchedule) -> Ruling {
    let is_new = stands.is_none_or(|row| row.progress.phase == Phase::Deleted);
    let row = |revision, progress: Progress| {
        Box::new(ScheduleRow {
            tenant: request.tenant.clone(),
            name: request.name.clone(),
            revision,
            progress,
            definition: schedule.definition.clone(),
            private: schedule.private.clone(),
            fingerprint: schedule.fingerprint.clone(),
            open: None,
            next_scan: Some(request.at),
            trouble: None,
            changed_at: request.at,
            changed_by: request.actor.clone(),
        })
    };
    match (stands, request.expected) {
        (_, None) if is_new => Ruling::Make(row(stands.map_or(0, |s| s.revision) + 1, Progress::begun(request.at))),
        (None, _) => Ruling::Lost(None),
        // One who repeats after a lost answer finds what it put, whatever revision it names.
        (Some(stands), _) if !is_new && stands.definition == schedule.definition && stands.fingerprint == schedule.fingerprint => Ruling::Same,
        (Some(stands), Some(expected)) if !is_new && expected == stands.revision => {
            Ruling::Write(row(stands.revision + 1, stands.progress.after(Change::Edit, request.at)), Change::Edit)
        }
        (Some(_), _) if is_new => Ruling::Lost(None),
        (Some(stands), _) => Ruling::Lost(Some(stands.revision)),
    }
}

/// A pause, a resume or a deletion.
pub fn turn(stands: Option<&ScheduleRow>, request: &ChangeRequest, change: Change) -> Ruling {
    let Some(stands) = stands else { return Ruling::Lost(None) };
    let (phase, to) = (stands.progress.phase, stands.progress.after(change, request.at));
    if phase == to.phase {
        return Ruling::Same;
    }
    if phase == Phase::Deleted {
        return Ruling::Lost(None);
    }
    if request.expected.is_some_and(|expected| expected != stands.revision) {
        return Ruling::Lost(Some(stands.revision));
    }
    let next_scan = (to.phase != Phase::Deleted).then_some(request.at);
    let changed = ScheduleRow {
        revision: stands.revision + 1,
        progress: to,
        open: None,
        next_scan,
        trouble: None,
        changed_at: request.at,
        changed_by: request.actor.clone(),
        ..stands.clone()
    };
    Ruling::Write(Box::new(changed), change)
}

/// The line in the story of a job that a change takes back.
pub fn withdrawn(change: Change, request: &ChangeRequest) -> HistoryEntry {
    let (actor, detail) = (request.actor.clone(), format!("taken back: {}", change.word()));
    let reason = Some(Reason::Operator);
    HistoryEntry { at: request.at, actor, from: None, to: State::Cancelled, reason, attempt: 0, generation: 1, detail }.bounded()
}

/// What a change says of itself in the audit trail.
pub fn detail(revision: u64, withdrawn: u64, left: u64) -> String {
    serde_json::json!({ "revision": revision, "withdrawn": withdrawn, "left": left }).to_string()
}

/// How a schedule stands, as a batch needs it.
#[derive(Clone, Debug)]
pub struct Stands {
    /// Its number or id in the store.
    pub n: i64,
    /// Its revision.
    pub revision: u64,
    /// Its cursor.
    pub cursor: Moment,
    /// Its recipients.
    pub recipients: u32,
    /// Slots of the batch's dates.
    pub slots: BTreeMap<SlotName, SlotState>,
}

/// A slot as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotRow {
    /// The schedule's number.
    pub schedule: i64,
    /// The business date.
    pub date: String,
    /// Its name.
    pub slot: String,
    /// Where it stands among the others.
    pub at: Moment,
    /// Its window.
    pub window: Option<(Moment, Moment)>,
    /// How it stands now.
    pub state: SlotState,
    /// Why it was skipped.
    pub why: Option<&'static str>,
    /// The revision that made it.
    pub revision: u64,
    /// Jobs that it should have.
    pub expected: u32,
    /// Where its jobs are in the call: batch and slot.
    pub place: (usize, usize),
}

/// A schedule's progress as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advance {
    /// The schedule's number.
    pub schedule: i64,
    /// Its cursor from now on.
    pub cursor: Moment,
    /// The slot that is being made.
    pub open: Option<(String, u32)>,
    /// When it is scanned next.
    pub next_scan: Option<Moment>,
}

/// What is written of a call's batches.
#[derive(Default, Debug)]
pub struct Written {
    /// New or renewed slots.
    pub slots: Vec<SlotRow>,
    /// Schedules that go on.
    pub advances: Vec<Advance>,
    /// For each batch how many of its slots stood; `None`: it is outdated.
    pub stood: Vec<Option<u32>>,
}

/// What is written of batches now; `stands` in their order. A schedule has one batch in a call: a second one is outdated.
pub fn batches(batches: &[Batch], stands: &[Option<Stands>], now: Moment) -> Written {
    let (mut written, mut met) = (Written::default(), BTreeSet::new());
    for (place, (batch, stands)) in batches.iter().zip(stands).enumerate() {
        let stands = stands.as_ref().filter(|s| s.revision == batch.revision && batch.from <= s.cursor && met.insert(s.n));
        let stood = stands.map(|stands| one(batch, stands, place, now, &mut written));
        written.stood.push(stood);
    }
    written
}

fn one(batch: &Batch, stands: &Stands, place: usize, now: Moment, written: &mut Written) -> u32 {
    let mut slots = stands.slots.clone();
    let mut advance = Advance { schedule: stands.n, cursor: batch.cursor, open: None, next_scan: batch.next_scan };
    let mut stood = 0;
    for (number, planned) in batch.slots.iter().enumerate() {
        let slot = &planned.slot;
        let taken = slots.iter().find(|(name, state)| **state != SlotState::Cancelled && name.collides(&slot.name));
        let is_skip = matches!(slot.what, What::Skip(_));
        match taken.map(|(name, state)| (*name == slot.name, *state)) {
            // Somebody is making what this plan skips: it is theirs to finish. Or it has jobs, and there was no room for one.
            Some((true, SlotState::Open)) if is_skip => {
                stop_before(&mut advance, slot.at, now);
                break;
            }
            None | Some((true, SlotState::Open)) if !is_skip && planned.gone_through == 0 && stands.recipients > 0 => {
                stop_before(&mut advance, slot.at, now);
                break;
            }
            None | Some((true, SlotState::Open)) => {}
            Some((_, SlotState::Open | SlotState::Made | SlotState::Skipped | SlotState::Cancelled)) => {
                stood += 1;
                continue;
            }
        }
        let (window, why) = match slot.what {
            What::Make { release_at, deadline_at } => (Some((release_at, deadline_at)), None),
            What::Skip(skip) => (None, Some(skip.word())),
        };
        let state = match why {
            Some(_) => SlotState::Skipped,
            None if planned.gone_through >= stands.recipients => SlotState::Made,
            None => SlotState::Open,
        };
        if state == SlotState::Open {
            advance.open = Some((slot.name.slot.clone(), planned.gone_through));
            stop_before(&mut advance, slot.at, now);
        }
        slots.insert(slot.name.clone(), state);
        let expected = if is_skip { 0 } else { stands.recipients };
        let (date, name) = (slot.name.date.to_string(), slot.name.slot.clone());
        let row = SlotRow {
            schedule: stands.n,
            date,
            slot: name,
            at: slot.at,
            window,
            state,
            why,
            revision: batch.revision,
            expected,
            place: (place, number),
        };
        written.slots.push(row);
        if state == SlotState::Open {
            break;
        }
    }
    advance.cursor = advance.cursor.max(stands.cursor);
    written.advances.push(advance);
    stood
}

/// The scan goes on with a slot, at once.
fn stop_before(advance: &mut Advance, at: Moment, now: Moment) {
    advance.cursor = advance.cursor.min(Moment::from_millis(at.as_millis().saturating_sub(1)));
    advance.next_scan = Some(now);
}

/// A slot's name as a table has it.
///
/// # Errors
/// `Unreadable`.
pub fn name(date: &str, slot: &str) -> Result<SlotName, BookError> {
    let date = Date::parse(date).ok_or_else(|| BookError::Unreadable("a slot's date".to_owned()))?;
    Ok(SlotName { date, slot: slot.to_owned() })
}

/// How a slot stands, by its code in the table.
///
/// # Errors
/// `Unreadable`.
pub fn slot_state(code: i64) -> Result<SlotState, BookError> {
    let all = [SlotState::Open, SlotState::Made, SlotState::Skipped, SlotState::Cancelled];
    all.into_iter().find(|s| slot_code(*s) == code).ok_or_else(|| BookError::Unreadable(format!("a slot's state {code}")))
}

/// The code of a slot's state in the table.
pub const fn slot_code(state: SlotState) -> i64 {
    match state {
        SlotState::Open => 0,
        SlotState::Made => 1,
        SlotState::Skipped => 2,
        SlotState::Cancelled => 3,
    }
}

/// What lies before a schedule's rule is skipped as this, by its code in the table.
///
/// # Errors
/// `Unreadable`.
pub fn progress(phase: i64, cursor: i64, in_force_from: i64, resumed: bool) -> Result<Progress, BookError> {
    let phase = match phase {
        0 => Phase::Active,
        1 => Phase::Paused,
        2 => Phase::Deleted,
        other => return Err(BookError::Unreadable(format!("a schedule's phase {other}"))),
    };
    let before = if resumed { Skip::Pause } else { Skip::Edit };
    Ok(Progress { phase, cursor: Moment::from_millis(cursor), in_force_from: Moment::from_millis(in_force_from), before })
}
