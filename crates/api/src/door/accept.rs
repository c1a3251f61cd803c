//! From the door into the book, and what the submitter is told.

use curfew_book::{Accepted, Book, BookState, Door as DoorLog, Row};
use curfew_domain::job::Job;
use curfew_domain::{JobId, Moment, Reason};
use curfew_telemetry::metrics;
use serde::Serialize;
use utoipa::ToSchema;

use crate::limits::ERRORS_LISTED_MAX;
use crate::problem::{FieldError, Problem};

/// A rejected line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct LineError {
    /// Its number, counted from 1 (or from `first_line`).
    pub line: u64,
    /// The field at fault, dotted; `line` where the line itself can't be read.
    pub field: String,
    /// Why, without the value.
    pub error: String,
}

/// What became of an import (CONTRACT, `submit`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, ToSchema)]
pub struct Summary {
    /// New jobs.
    pub accepted: u64,
    /// Lines whose job stood there with the same content.
    pub duplicates: u64,
    /// Lines refused.
    pub rejected: u64,
    /// One entry per refused line, the first 1,000.
    pub errors: Vec<LineError>,
}

impl Summary {
    /// Counts refused lines.
    pub(super) fn reject(&mut self, mut errors: Vec<LineError>) {
        errors.sort_by_key(|e| e.line);
        self.rejected += errors.len() as u64;
        let room = ERRORS_LISTED_MAX.saturating_sub(self.errors.len());
        self.errors.extend(errors.into_iter().take(room));
    }
}

/// What the door says to one submitter.
pub enum Answer {
    /// Accepted now.
    New(Box<Row>),
    /// The same key with the same content: the job as it stands.
    Duplicate(Box<Row>),
}

/// Accepts one job.
///
/// # Errors
/// 409 with the fields that differ; 503 where the book doesn't answer: submitting again is safe.
pub async fn accept_one(book: &dyn Book, job: Job, actor: &str, at: Moment) -> Result<Answer, Problem> {
    let (id, purpose) = (job.id, job.purpose.clone());
    let answer = book.accept(vec![job], &DoorLog { at, actor: actor.to_owned() }).await?.pop();
    match answer.expect("the book answers each job") {
        Accepted::New(state) => {
            accepted(&purpose, state);
            let row = book.by_id(id).await?.ok_or_else(|| Problem::unavailable("the job is accepted, but can't be read"))?;
            Ok(Answer::New(Box::new(row)))
        }
        Accepted::Duplicate(row) => {
            metrics::duplicate_suppressed(metrics::Where::Door);
            Ok(Answer::Duplicate(row))
        }
        Accepted::Conflict(id, fields) => Err(Problem::other_content(id.to_string(), fields)),
    }
}

/// Counts a new job; one to a recipient on a list has ended at the door.
fn accepted(purpose: &str, state: BookState) {
    metrics::job_accepted(purpose);
    if state == BookState::Suppressed {
        metrics::job_settled(state.word(), Reason::SuppressionList);
    }
}

/// What accepting would do, without doing it; `None`: it would be new.
///
/// # Errors
/// As `accept_one`.
pub async fn dry_run_one(book: &dyn Book, job: &Job) -> Result<Option<Box<Row>>, Problem> {
    let Some(row) = book.by_key(&job.key).await? else { return Ok(None) };
    let fields = differing(job, &row.job);
    if fields.is_empty() { Ok(Some(Box::new(row))) } else { Err(Problem::other_content(row.job.id.to_string(), fields)) }
}

/// The fields whose fingerprints differ.
fn differing(new: &Job, old: &Job) -> Vec<String> {
    let all = new.fingerprints.keys().chain(old.fingerprints.keys());
    let differ: std::collections::BTreeSet<&String> = all.filter(|f| new.fingerprints.get(*f) != old.fingerprints.get(*f)).collect();
    differ.into_iter().cloned().collect()
}

/// Accepts a batch of numbered jobs and counts it in.
pub(super) async fn accept_batch(
    book: &dyn Book,
    jobs: Vec<(u64, Job)>,
    mut errors: Vec<LineError>,
    door: &DoorLog,
    sum: &mut Summary,
) -> Result<(), Problem> {
    let (lines, jobs): (Vec<u64>, Vec<Job>) = jobs.into_iter().unzip();
    let purposes: Vec<String> = jobs.iter().map(|j| j.purpose.clone()).collect();
    let answers = if jobs.is_empty() { Vec::new() } else { book.accept(jobs, door).await? };
    for ((line, purpose), answer) in lines.into_iter().zip(&purposes).zip(answers) {
        match answer {
            Accepted::New(state) => {
                sum.accepted += 1;
                accepted(purpose, state);
            }
            Accepted::Duplicate(_) => {
                sum.duplicates += 1;
                metrics::duplicate_suppressed(metrics::Where::Door);
            }
            Accepted::Conflict(id, fields) => errors.push(conflict(line, id, &fields)),
        }
    }
    sum.reject(errors);
    Ok(())
}

/// The same without writing.
pub(super) async fn try_batch(book: &dyn Book, jobs: Vec<(u64, Job)>, mut errors: Vec<LineError>, sum: &mut Summary) -> Result<(), Problem> {
    for (line, job) in jobs {
        match book.by_key(&job.key).await? {
            None => sum.accepted += 1,
            Some(row) => match differing(&job, &row.job) {
                same if same.is_empty() => sum.duplicates += 1,
                fields => errors.push(conflict(line, row.job.id, &fields)),
            },
        }
    }
    sum.reject(errors);
    Ok(())
}

fn conflict(line: u64, id: JobId, fields: &[String]) -> LineError {
    LineError {
        line,
        field: "key".to_owned(),
        error: format!("conflict: job {id} has this key with other content; these differ: {}", fields.join(", ")),
    }
}

/// Fields that an entry names besides its first.
const ALSO_MAX: usize = 8;

/// One refused line is one entry: its first fault, and the fields of the others, so that a line is mended in one go.
pub(super) fn rejected(line: u64, faults: Vec<FieldError>) -> LineError {
    let mut faults = faults.into_iter();
    let first = faults.next().unwrap_or_else(|| FieldError::new("line", "is refused"));
    let others: Vec<String> = faults.map(|f| f.field).collect();
    let mut error = first.error;
    if !others.is_empty() {
        let more = if others.len() > ALSO_MAX { ", …" } else { "" };
        error.push_str(&format!("; also at fault: {}{more}", others[..others.len().min(ALSO_MAX)].join(", ")));
    }
    LineError { line, field: first.field, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_line_is_one_entry_that_names_every_field_at_fault() {
        let fault = |field: &str| FieldError::new(field, "is required");
        let entry = rejected(7, vec![fault("tenant"), fault("to.address"), fault("deadline_at")]);
        assert_eq!((entry.line, entry.field.as_str(), entry.error.as_str()), (7, "tenant", "is required; also at fault: to.address, deadline_at"));
        assert_eq!(rejected(1, vec![fault("tenant")]).error, "is required");
        let many = rejected(1, (0..20).map(|n| fault(&format!("labels.{n}"))).collect()).error;
        assert!(many.ends_with("labels.8, …") && !many.contains("labels.9"), "{many}");
    }
}
