//! The door as the scheduler's scribe: a schedule's slots by its zone's clock, and its jobs by the same judgement as submitted ones.

use curfew_api::{Door, OpenSchedule, SlotWindow};
use curfew_book::ScheduleRow;
use curfew_domain::Moment;
use curfew_domain::job::Job;
use curfew_domain::recurrence::{Ask, Plan, Slot, What, plan};
use curfew_scheduler::Letters;

/// A door that writes for schedules.
pub struct Scribe {
    door: Door,
}

struct Opened<'a> {
    door: &'a Door,
    schedule: OpenSchedule,
}

impl Scribe {
    /// Of a door with the fleet's keys, templates and zone data.
    pub fn new(door: Door) -> Self {
        Self { door }
    }
}

impl curfew_scheduler::Scribe for Scribe {
    fn plan(&self, row: &ScheduleRow, ask: &Ask) -> Result<Plan, String> {
        let timetable = &row.definition.timetable;
        let clock = self.door.zones.clock(&timetable.zone).map_err(|e| format!("zone: {e}"))?;
        let rule = timetable.read().map_err(|e| e.to_string())?;
        Ok(plan(&rule, &clock, row.definition.catch_up, &row.progress, ask))
    }

    fn open<'a>(&'a self, row: &ScheduleRow) -> Result<Box<dyn Letters + 'a>, String> {
        let schedule = self.door.open_schedule(row).ok_or("its recipients can't be opened: sealed under a key that is not configured")?;
        Ok(Box::new(Opened { door: &self.door, schedule }))
    }
}

impl Letters for Opened<'_> {
    fn job(&self, n: u32, slot: &Slot, now: Moment) -> Result<Job, String> {
        let What::Make { release_at, deadline_at } = slot.what else { return Err("a skipped slot has no jobs".to_owned()) };
        let window = SlotWindow { name: &slot.name, release_at, deadline_at };
        let written = self.door.scheduled_job(&self.schedule, n as usize, window, now);
        written.map_err(|faults| faults.iter().map(|fault| format!("{}: {}", fault.field, fault.error)).collect::<Vec<_>>().join("; "))
    }
}
