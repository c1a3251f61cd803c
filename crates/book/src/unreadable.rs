//! Rows that can't be read. Each is left where it is and told; the others of its batch are staged, or recovered, all the same.
//!
//! Not promised: that such a job ends. A newer process may read it; else a person must, and the log names it once a minute.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use curfew_domain::Shard;

use crate::BookError;

/// Staging looks ten times a second; a person doesn't.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// When it was told last.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    told: Mutex<Option<Instant>>,
    told_of_others: Mutex<Option<Instant>>,
    told_of_schedules: Mutex<Option<Instant>>,
    newer: Mutex<BTreeSet<Shard>>,
}

impl Unreadable {
    /// Tells what a batch left: how many, and of the first of them its id and why.
    pub(crate) fn tell(&self, count: usize, first: Option<(&[u8], &BookError)>) {
        let Some((id, error)) = first else { return };
        if due(&self.told) {
            let job_id = named(id);
            tracing::error!(job_id, error_class = "book", "{count} planned jobs can't be read and aren't staged, this one among them: {error}");
        }
    }

    /// The same of rows that somebody asked for together with others.
    pub(crate) fn tell_others(&self, count: usize, first: Option<(&[u8], &BookError)>) {
        let Some((id, error)) = first else { return };
        if due(&self.told_of_others) {
            let job_id = named(id);
            tracing::error!(job_id, error_class = "book", "{count} jobs can't be read and are left as they stand, this one among them: {error}");
        }
    }

    /// The same of schedules that a list left out; the first of them by `tenant/name`.
    pub(crate) fn tell_schedules(&self, count: usize, first: Option<(&str, &BookError)>) {
        let Some((schedule, error)) = first else { return };
        if due(&self.told_of_schedules) {
            tracing::error!(schedule, error_class = "book", "{count} schedules can't be read and aren't listed, this one among them: {error}");
        }
    }

    /// Where planning met rows of a newer process.
    pub(crate) fn note_newer(&self, shards: BTreeSet<Shard>) {
        self.newer.lock().expect("nobody panics while holding it").extend(shards);
    }

    /// Where it did since this was asked last.
    pub(crate) fn take_newer(&self) -> BTreeSet<Shard> {
        std::mem::take(&mut self.newer.lock().expect("nobody panics while holding it"))
    }

    /// The same of verbs.
    pub(crate) fn tell_verb(&self, error: &BookError) {
        if due(&self.told_of_others) {
            tracing::error!(error_class = "book", "a verb can't be read and is left as it stands: {error}");
        }
    }
}

fn due(told: &Mutex<Option<Instant>>) -> bool {
    let mut told = told.lock().expect("nobody panics while holding it");
    let due = told.is_none_or(|at| at.elapsed() >= TOLD_EVERY);
    if due {
        *told = Some(Instant::now());
    }
    due
}

fn named(id: &[u8]) -> String {
    crate::forms::id(id).map_or_else(|_length| hex::encode(id), |id| id.to_string())
}
