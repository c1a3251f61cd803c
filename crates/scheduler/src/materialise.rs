//! Schedules become jobs in the book, a day ahead. The unique name of a slot and the keys of its jobs decide, not a leader and not the moment of
//! the scan: any number of schedulers may do this side by side.
//!
//! A task of its own, which releases don't wait for. What can't be read, planned or written puts off its own schedule alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use curfew_book::{Batch, BookError, Door, Due, Materialised, ScheduleRow, Schedules, SlotJobs};
use curfew_courier::CourierError;
use curfew_domain::Moment;
use curfew_domain::job::Job;
use curfew_domain::recurrence::{Ask, Plan, Slot, What};
use curfew_ledger::Ledger;
use curfew_telemetry::metrics;
use futures::FutureExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::run::{failed, kept, next, ticks};

/// How long ahead slots are made.
const AHEAD: Duration = Duration::from_secs(24 * 3600);
/// How often it looks for schedules whose scan is due.
const EVERY: Duration = Duration::from_secs(1);
/// Schedules of one round: each brings its recipients and its content, up to a MiB.
const DUE_MAX: u32 = 32;
/// Jobs of one round: the book's bound.
const JOBS_MAX: usize = 500;
/// Bytes of letters at which a round is closed early.
const LETTER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Slots of one schedule in a round.
const SLOTS_MAX: usize = 64;
/// When a schedule that can't be planned is looked at again: whoever mends its template or its key waits no longer for it.
const PUT_OFF: Duration = Duration::from_secs(60);
/// Who stands in the door's log.
const ACTOR: &str = "schedule";

/// What plans a schedule and writes its jobs: it has the zone data, the templates and the keys.
pub trait Scribe: Send + Sync {
    /// The schedule's next slots.
    ///
    /// # Errors
    /// Why it can't be planned; no address in it.
    fn plan(&self, row: &ScheduleRow, ask: &Ask) -> Result<Plan, String>;

    /// Its letters.
    ///
    /// # Errors
    /// Why they can't be written; no address in it.
    fn open<'a>(&'a self, row: &ScheduleRow) -> Result<Box<dyn Letters + 'a>, String>;
}

/// The letters of one schedule.
pub trait Letters {
    /// The job of recipient `n`, counted from 0, in a slot that is made.
    ///
    /// # Errors
    /// Why it can't be written; no address in it.
    fn job(&self, n: u32, slot: &Slot, now: Moment) -> Result<Job, String>;
}

/// Makes jobs of schedules.
pub struct Materialiser {
    ledger: Arc<dyn Ledger>,
    schedules: Arc<dyn Schedules>,
    scribe: Arc<dyn Scribe>,
    nudge: Arc<Notify>,
}

/// A round's work, before it is written.
#[derive(Default)]
struct Round {
    batches: Vec<Batch>,
    purposes: Vec<String>,
    bad: Vec<Bad>,
    /// Some schedule has more, or there was no room for it.
    more: bool,
}

/// A schedule that is put off, and why.
struct Bad {
    tenant: String,
    name: String,
    revision: u64,
    why: String,
}

/// What is left of a round's bounds.
struct Room {
    jobs: usize,
    bytes: usize,
}

impl Materialiser {
    /// One that doesn't run yet. `nudge`: jobs were made that may be due.
    pub fn new(ledger: Arc<dyn Ledger>, schedules: Arc<dyn Schedules>, scribe: Arc<dyn Scribe>, nudge: Arc<Notify>) -> Self {
        Self { ledger, schedules, scribe, nudge }
    }

    /// Runs until `stop`. A dropped future leaves nothing half done that another scheduler doesn't go on with.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        kept("materialise", &stop, || self.rounds(&stop).boxed()).await;
    }

    async fn rounds(&self, stop: &CancellationToken) {
        let (mut ticks, unheard) = (ticks(EVERY), Notify::new());
        while next(&mut ticks, &unheard, stop).await {
            loop {
                match self.step().await {
                    Ok(true) if !stop.is_cancelled() => {}
                    Ok(_done) => break,
                    Err(error) => {
                        failed("materialise", &error).await;
                        break;
                    }
                }
            }
        }
    }

    /// One round; whether there is more to do at once. May be repeated by anybody.
    ///
    /// # Errors
    /// A store that doesn't answer.
    pub async fn step(&self) -> Result<bool, CourierError> {
        let now = self.ledger.now().await?;
        let due = self.schedules.due_schedules(now, DUE_MAX).await?;
        if due.is_empty() {
            return Ok(false);
        }
        let scribe = Arc::clone(&self.scribe);
        let planned = tokio::task::spawn_blocking(move || plan_round(&*scribe, due, now)).await;
        let round = planned.expect("each schedule is planned behind a guard of its own");
        for bad in round.bad {
            self.put_off(bad, now).await?;
        }
        let (wrote, more) = (!round.batches.is_empty(), round.more);
        self.write(round.batches, round.purposes, now).await?;
        if wrote {
            self.nudge.notify_one();
        }
        Ok(more && wrote)
    }

    /// Writes all batches at once; where the book refuses the call for what one of them holds, each by itself.
    async fn write(&self, batches: Vec<Batch>, purposes: Vec<String>, now: Moment) -> Result<(), CourierError> {
        let door = Door { at: now, actor: ACTOR.to_owned() };
        if batches.is_empty() {
            return Ok(());
        }
        match self.schedules.materialise(batches.clone(), &door).await {
            Ok(answers) => {
                counted(&answers, &purposes);
                return Ok(());
            }
            Err(error) if is_the_stores(&error) => return Err(error.into()),
            Err(_of_some_batch) => {}
        }
        for (batch, purpose) in batches.into_iter().zip(purposes) {
            let (tenant, name, revision) = (batch.tenant.clone(), batch.name.clone(), batch.revision);
            match self.schedules.materialise(vec![batch], &door).await {
                Ok(answers) => counted(&answers, &[purpose]),
                Err(error) if is_the_stores(&error) => return Err(error.into()),
                Err(error) => self.put_off(Bad { tenant, name, revision, why: error.to_string() }, now).await?,
            }
        }
        Ok(())
    }

    async fn put_off(&self, bad: Bad, now: Moment) -> Result<(), CourierError> {
        let Bad { tenant, name, revision, why } = bad;
        tracing::warn!(role = "scheduler", error_class = "schedule", tenant, schedule = name, "a schedule is put off: {why}");
        self.schedules.put_off(&tenant, &name, revision, now.plus(PUT_OFF), &why).await?;
        Ok(())
    }
}

/// Nothing that another batch could mend.
fn is_the_stores(error: &BookError) -> bool {
    matches!(error, BookError::Unavailable { .. } | BookError::Store(_))
}

fn counted(answers: &[Materialised], purposes: &[String]) {
    for (answer, purpose) in answers.iter().zip(purposes) {
        if let Materialised::Done { made, .. } = answer {
            (0..*made).for_each(|_job| metrics::job_accepted(purpose));
        }
    }
}

fn plan_round(scribe: &dyn Scribe, due: Vec<Due>, now: Moment) -> Round {
    let (mut round, mut room) = (Round { more: due.len() >= DUE_MAX as usize, ..Round::default() }, Room { jobs: JOBS_MAX, bytes: LETTER_BYTES_MAX });
    for Due { tenant, name, revision, row } in due {
        if room.jobs == 0 || room.bytes == 0 {
            round.more = true;
            break;
        }
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                round.bad.push(Bad { tenant, name, revision, why: error.to_string() });
                continue;
            }
        };
        // A panic is a fault of ours; it costs this schedule its turn, and no other its own.
        let planned = catch_unwind(AssertUnwindSafe(|| batch(scribe, &row, &mut room, now)));
        match planned.unwrap_or_else(|_panic| Err("planning it panicked".to_owned())) {
            Ok(batch) => {
                round.more |= batch.next_scan.is_some_and(|next| next <= now) || batch.slots.iter().any(|slot| is_unfinished(slot, &row));
                round.purposes.push(row.definition.purpose.clone());
                round.batches.push(batch);
            }
            Err(why) => round.bad.push(Bad { tenant, name, revision, why }),
        }
    }
    round
}

fn is_unfinished(slot: &SlotJobs, row: &ScheduleRow) -> bool {
    matches!(slot.slot.what, What::Make { .. }) && slot.gone_through < row.definition.recipients
}

/// The next part of one schedule, as much as there is room for.
fn batch(scribe: &dyn Scribe, row: &ScheduleRow, room: &mut Room, now: Moment) -> Result<Batch, String> {
    let recipients = row.definition.recipients;
    let fit = room.jobs.div_ceil(usize::try_from(recipients.max(1)).unwrap_or(usize::MAX));
    let plan = scribe.plan(row, &Ask { now, horizon: AHEAD, slots_max: fit.clamp(1, SLOTS_MAX) })?;
    let mut letters = None;
    let (mut slots, mut full) = (Vec::with_capacity(plan.slots.len()), false);
    for slot in plan.slots {
        if full || matches!(slot.what, What::Skip(_)) {
            slots.push(SlotJobs { slot, jobs: Vec::new(), gone_through: 0 });
            continue;
        }
        let letters = match &letters {
            Some(letters) => letters,
            None => letters.insert(scribe.open(row)?),
        };
        let begun = row.open.as_ref().filter(|(name, _)| *name == slot.name.slot).map_or(0, |(_, made)| *made);
        let (mut jobs, mut gone_through) = (Vec::new(), begun);
        while gone_through < recipients && room.jobs > 0 && room.bytes > 0 {
            let job = letters.job(gone_through, &slot, now)?;
            room.jobs -= 1;
            room.bytes = room.bytes.saturating_sub(job.letter.as_bytes().len());
            jobs.push(job);
            gone_through += 1;
        }
        full = gone_through < recipients;
        slots.push(SlotJobs { slot, jobs, gone_through });
    }
    let (tenant, name) = (row.tenant.clone(), row.name.clone());
    Ok(Batch { tenant, name, revision: row.revision, from: row.progress.cursor, slots, cursor: plan.cursor, next_scan: plan.next_scan })
}

#[cfg(test)]
mod tests;
