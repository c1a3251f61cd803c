//! An import: lines come in as a stream, a few batches are judged ahead, the book writes one after another.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use curfew_book::Door as DoorLog;
use curfew_domain::job::Job;
use futures::StreamExt;
use tokio::task::JoinHandle;

use super::accept::{LineError, Summary, accept_batch, rejected, try_batch};
use super::batch::{Batch, Cutter};
use crate::api::Api;
use crate::limits::{BATCHES_AHEAD, BODY_BYTES_MAX, IMPORT_IDLE_MAX};
use crate::problem::Problem;

/// How an import is to be read.
pub struct Import {
    /// Stands in where a line names no zone.
    pub zone: Option<String>,
    /// The number of the first line, so that a file sent in parts keeps its numbers.
    pub first_line: u64,
    /// Judge and count, write nothing.
    pub dry_run: bool,
    /// Who submits.
    pub actor: String,
}

struct Prepared {
    jobs: Vec<(u64, Job)>,
    errors: Vec<LineError>,
    door: DoorLog,
}

/// Reads the whole body. What was accepted before an error stays accepted; sending all of it again is safe.
///
/// # Errors
/// 503 where a store doesn't answer or the sender fell silent; the detail says what was counted until then.
pub async fn import(api: &Arc<Api>, body: Body, how: Import) -> Result<Summary, Problem> {
    let how = Arc::new(how);
    let mut sum = Summary::default();
    let mut ahead: VecDeque<JoinHandle<Prepared>> = VecDeque::new();
    let mut cutter = Cutter::new(how.first_line);
    let mut stream = body.into_data_stream();
    loop {
        let piece = match tokio::time::timeout(IMPORT_IDLE_MAX, stream.next()).await {
            Ok(Some(Ok(piece))) => piece,
            Ok(None) => break,
            Ok(Some(Err(_))) | Err(_) => return Err(broken_off(&sum)),
        };
        for batch in cutter.push(&piece) {
            ahead.push_back(prepare(api, &how, batch).await?);
            if ahead.len() > BATCHES_AHEAD {
                write_next(api, &how, &mut ahead, &mut sum).await?;
            }
        }
    }
    if let Some(last) = cutter.finish() {
        ahead.push_back(prepare(api, &how, last).await?);
    }
    while !ahead.is_empty() {
        write_next(api, &how, &mut ahead, &mut sum).await?;
    }
    Ok(sum)
}

async fn prepare(api: &Arc<Api>, how: &Arc<Import>, batch: Batch) -> Result<JoinHandle<Prepared>, Problem> {
    let now = api.ledger.now().await?;
    let (api, how) = (Arc::clone(api), Arc::clone(how));
    Ok(tokio::task::spawn_blocking(move || {
        let mut prepared = Prepared { jobs: Vec::new(), errors: Vec::new(), door: DoorLog { at: now, actor: how.actor.clone() } };
        for (number, line) in batch.lines() {
            let Some(line) = line else {
                let error = format!("the line is longer than {BODY_BYTES_MAX} bytes");
                prepared.errors.push(LineError { line: number, field: "content".to_owned(), error });
                continue;
            };
            match api.door.admit(line, how.zone.as_deref(), now) {
                Ok(job) => prepared.jobs.push((number, job)),
                Err(faults) => prepared.errors.push(rejected(number, faults)),
            }
        }
        prepared
    }))
}

async fn write_next(api: &Api, how: &Import, ahead: &mut VecDeque<JoinHandle<Prepared>>, sum: &mut Summary) -> Result<(), Problem> {
    let Some(handle) = ahead.pop_front() else { return Ok(()) };
    let prepared = handle.await.map_err(|_panicked| Problem::internal())?;
    let book = api.book.as_ref();
    let written = if how.dry_run {
        try_batch(book, prepared.jobs, prepared.errors, sum).await
    } else {
        accept_batch(book, prepared.jobs, prepared.errors, &prepared.door, sum).await
    };
    if !how.dry_run {
        (api.on_accepted)();
    }
    written.map_err(|mut problem| {
        problem.detail = format!("{}; {}", problem.detail, so_far(sum));
        problem
    })
}

fn broken_off(sum: &Summary) -> Problem {
    Problem::unavailable(format!("the import broke off; {}", so_far(sum)))
}

fn so_far(sum: &Summary) -> String {
    format!("until then {} accepted, {} duplicates, {} rejected; sending all of it again is safe", sum.accepted, sum.duplicates, sum.rejected)
}
