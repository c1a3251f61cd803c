//! The judge: the mail server's count against what the stores say at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_book::{BookState, Row};
use curfew_domain::history::HistoryEntry;
use curfew_domain::{JobId, Moment, State};
use curfew_review::Item;

/// A broken promise, in words that name it.
pub type Broken = String;

/// One acceptance, in true time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handed {
    /// When the end marker was written.
    pub began: Moment,
    /// When the server had it.
    pub accepted: Moment,
}

/// What people and the provider know of a job, beside the stores.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// What the server accepted of it.
    pub accepted: Vec<Handed>,
    /// Doubts over which somebody replayed, knowing the risk.
    pub risks: u32,
    /// Somebody cancelled or suppressed it and was told that it is done, then.
    pub ended: Option<Moment>,
    /// Its times in each generation, as the book had them: release and deadline.
    pub times: Vec<(Moment, Moment)>,
}

/// All of a run's end.
pub struct End<'a> {
    /// By job.
    pub known: &'a BTreeMap<JobId, Known>,
    /// The book's.
    pub rows: &'a [Row],
    /// The review store's.
    pub items: &'a [Item],
    /// By how much a clock was off at the most, and what a way takes.
    pub slack: Duration,
}

impl End<'_> {
    /// Every promise that is broken.
    pub fn broken(&self) -> Vec<Broken> {
        let mut all = Vec::new();
        for (id, known) in self.known {
            let Some(row) = self.rows.iter().find(|row| row.job.id == *id) else {
                all.push(format!("P2: {id} is lost"));
                continue;
            };
            all.extend(self.of_job(row, known).into_iter().map(|what| format!("{what}: {} {known:?} {}", row.job.key, row.state.word())));
        }
        all
    }

    fn of_job(&self, row: &Row, known: &Known) -> Vec<&'static str> {
        let mut all = Vec::new();
        let times = known.accepted.len();
        if times > 1 + known.risks as usize {
            all.push("P1: accepted twice");
        }
        let fits = |at: &Moment, (release, deadline): &(Moment, Moment)| at.plus(self.slack) >= *release && *at < deadline.plus(self.slack);
        for Handed { began: at, .. } in &known.accepted {
            if known.times.iter().any(|times| fits(at, times)) {
                continue;
            }
            let early = known.times.iter().all(|(release, _)| at.plus(self.slack) < *release);
            all.push(if early { "P4: early" } else { "P3: late" });
        }
        if known.accepted.iter().any(|handed| lease_was_over(row, handed, self.slack)) {
            all.push("P1: an end marker left after its lease was over");
        }
        if known.ended.is_some_and(|ended| known.accepted.iter().any(|handed| handed.began > ended.plus(self.slack))) {
            all.push("P1: sent after a cancel was answered");
        }
        let items: Vec<_> = self.items.iter().filter(|item| item.job_id == Some(row.job.id)).collect();
        let ended_well = matches!(row.state, BookState::Cancelled | BookState::Suppressed | BookState::Sent);
        if known.ended.is_some() && !ended_well {
            all.push("P5: a cancel was answered, and the job is neither cancelled nor sent");
        }
        if row.reason.is_none() && row.state != BookState::Sent || row.receipt.is_none() && row.state == BookState::Sent {
            all.push("P5: nobody says why it ended");
        }
        match row.state {
            BookState::Planned | BookState::Staged => all.push("P2: not at its end"),
            BookState::Sent if times == 0 => all.push("P5: sent, and the server knows nothing of it"),
            BookState::Sent => {}
            BookState::Cancelled | BookState::Suppressed if times > 0 && !doubted(row, &items) => {
                all.push("P5: accepted, and nobody says so");
            }
            BookState::Cancelled | BookState::Suppressed => {}
            BookState::DeadLetter => {
                let newest = items.iter().max_by_key(|item| (item.generation, item.number));
                match newest {
                    None => all.push("P5: a dead letter without an item"),
                    Some(item) if Some(item.reason) != row.reason => all.push("P5: the item gives another reason"),
                    Some(item) if times > known.risks as usize && !item.in_doubt && row.doubt.is_none() && item.generation == row.generation => {
                        all.push("P5: accepted, and the item has no doubt");
                    }
                    Some(_) => {}
                }
            }
        }
        let per_generation = items.iter().fold(BTreeMap::<u32, u32>::new(), |mut all, item| {
            *all.entry(item.generation).or_default() += 1;
            all
        });
        if per_generation.values().any(|items| *items > 1) {
            all.push("P5: two items of one generation");
        }
        all
    }
}

/// Whether anything says that it may have been accepted.
fn doubted(row: &Row, items: &[&Item]) -> bool {
    row.doubt.is_some() || !row.doubts.is_empty() || !row.window_doubts.is_empty() || items.iter().any(|item| item.in_doubt)
}

/// Whether a job had been found in doubt, its lease over, clearly before its end marker left: the last look was to stop that. The scheduler finds
/// so, by the ledger's clock; a doubt that the worker itself came to, of the very attempt, bears the worker's idea of the time, which a slow way
/// to the ledger may hold back by more than the slack.
fn lease_was_over(row: &Row, handed: &Handed, slack: Duration) -> bool {
    let in_doubt = |entry: &&HistoryEntry| entry.from == Some(State::Handoff) && entry.to == State::DeadLetter && entry.actor == "scheduler";
    let Some(before) = row.history.iter().rev().find(|entry| entry.at.plus(slack) < handed.began).filter(in_doubt) else { return false };
    // A replay is another handoff.
    !row.history.iter().any(|entry| entry.generation > before.generation && entry.at <= handed.began.plus(slack))
}

/// A backlog must not multiply itself: wake-ups published again while one of the same job still waited in a queue. A reordered queue may look
/// passed, and a few repetitions are allowed.
pub fn multiplied(repeated_into_backlog: u64, jobs: u64) -> Option<Broken> {
    (repeated_into_backlog > jobs)
        .then(|| format!("backlog: {repeated_into_backlog} wake-ups of {jobs} jobs were published into a queue where one waited"))
}
