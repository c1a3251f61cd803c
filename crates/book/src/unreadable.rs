//! Planned rows that can't be read. Each is left where it is and told; the others of its batch are staged all the same.
//!
//! Not promised: that such a job ends. A newer process may read it; else a person must, and the log names it once a minute.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::BookError;

/// Staging looks ten times a second; a person doesn't.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// When it was told last.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    told: Mutex<Option<Instant>>,
}

impl Unreadable {
    /// Tells what a batch left: how many, and of the first of them its id and why.
    pub(crate) fn tell(&self, count: usize, first: Option<(&[u8], &BookError)>) {
        let Some((id, error)) = first else { return };
        let mut told = self.told.lock().expect("nobody panics while holding it");
        if told.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
            *told = Some(Instant::now());
            let job_id = crate::forms::id(id).map_or_else(|_length| hex::encode(id), |id| id.to_string());
            tracing::error!(job_id, error_class = "book", "{count} planned jobs can't be read and aren't staged, this one among them: {error}");
        }
    }
}
