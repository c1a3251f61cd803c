//! The sending: chunks of at most 500 lines, a few in flight, in an order that keeps equal keys apart.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::{Client, Path};
use super::submit_lines::{LineError, Row};
use crate::exit::Failure;

/// Lines of one request: what the book commits at once (DESIGN 7).
const CHUNK_LINES_MAX: usize = 500;
/// Bytes of one request, so that fat lines don't make giants.
const CHUNK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Requests at a time: while the disk waits for one, the door judges the next.
const IN_FLIGHT: usize = 4;
/// Errors that the object lists (CONTRACT); the rest are counted.
const ERRORS_MAX: usize = 1_000;

/// What became of the lines.
#[derive(Debug, Default)]
pub struct Summary {
    /// Accepted now.
    pub accepted: u64,
    /// Accepted before.
    pub duplicates: u64,
    /// Refused.
    pub rejected: u64,
    errors: Vec<(u64, LineError)>,
}

#[derive(Serialize)]
struct Object<'a> {
    accepted: u64,
    duplicates: u64,
    rejected: u64,
    errors: Vec<ErrorEntry<'a>>,
}

#[derive(Serialize)]
struct ErrorEntry<'a> {
    line: u64,
    field: &'a str,
    error: &'a str,
}

impl Summary {
    /// The contract's object, in its order.
    pub fn json(&self) -> String {
        let mut errors: Vec<(u64, &LineError)> = self.errors.iter().map(|(line, e)| (*line, e)).collect();
        errors.sort_by_key(|(line, _)| *line);
        let errors: Vec<ErrorEntry<'_>> = errors.into_iter().map(|(line, e)| ErrorEntry { line, field: &e.field, error: &e.error }).collect();
        let object = Object { accepted: self.accepted, duplicates: self.duplicates, rejected: self.rejected, errors };
        serde_json::to_string(&object).expect("figures and texts are JSON")
    }

    /// The first errors in the file's order as lines for people, and how many more there are.
    pub fn talk(&self, most: usize) -> Vec<String> {
        let mut errors: Vec<&(u64, LineError)> = self.errors.iter().collect();
        errors.sort_by_key(|(line, _)| *line);
        let mut lines: Vec<String> = errors.iter().take(most).map(|(line, e)| format!("line {line}: {}: {}", e.field, e.error)).collect();
        let all = self.rejected.max(errors.len() as u64);
        let more = all.saturating_sub(lines.len() as u64);
        if more > 0 {
            lines.push(format!("… {more} more"));
        }
        lines
    }

    fn list(&mut self, line: u64, error: LineError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push((line, error));
        }
    }

    /// Adds an import's answer; its lines count from 1 within the request.
    fn add(&mut self, answer: &Value, lines: &[u64]) -> Result<(), Failure> {
        let count = |name: &str| answer.get(name).and_then(Value::as_u64);
        let (Some(accepted), Some(duplicates), Some(rejected)) = (count("accepted"), count("duplicates"), count("rejected")) else {
            return Err(Failure::no_answer("the answer is not Curfew's: an import without its figures"));
        };
        self.accepted += accepted;
        self.duplicates += duplicates;
        self.rejected += rejected;
        for error in answer.get("errors").and_then(Value::as_array).into_iter().flatten() {
            let at = error.get("line").and_then(Value::as_u64).unwrap_or(0);
            let line = usize::try_from(at).ok().and_then(|n| lines.get(n.checked_sub(1)?)).copied().unwrap_or(at);
            let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
            self.list(line, LineError { field: text("field").unwrap_or_default(), error: text("error").unwrap_or_default() });
        }
        Ok(())
    }
}

#[derive(Default)]
struct Chunk {
    lines: Vec<u64>,
    body: Vec<u8>,
    keys: Vec<u64>,
}

/// What the threads share.
struct Shared<'a> {
    state: Mutex<Tally<'a>>,
    ended: Condvar,
}

struct Tally<'a> {
    summary: &'a mut Summary,
    /// Keys of the chunks that are queued or in flight.
    busy: HashSet<u64>,
    failure: Option<Failure>,
}

impl<'a> Shared<'a> {
    fn lock(&self) -> MutexGuard<'_, Tally<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends all rows; stops at the first failure, after the requests in flight have ended.
///
/// # Errors
/// The first failure: of reading, or of a request. The summary holds what was answered until then.
pub fn send(client: &Client, zone: Option<&str>, rows: impl Iterator<Item = Result<Row, Failure>>, summary: &mut Summary) -> Result<(), Failure> {
    let shared = Shared { state: Mutex::new(Tally { summary, busy: HashSet::new(), failure: None }), ended: Condvar::new() };
    let (queue, chunks) = sync_channel::<Chunk>(1);
    let chunks = Mutex::new(chunks);
    std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT {
            scope.spawn(|| carry(client, zone, &chunks, &shared));
        }
        // The queue moves in, so that its end ends the threads.
        feed(rows, queue, &shared);
    });
    let failure = shared.lock().failure.take();
    failure.map_or(Ok(()), Err)
}

fn feed(rows: impl Iterator<Item = Result<Row, Failure>>, queue: SyncSender<Chunk>, shared: &Shared<'_>) {
    let mut chunk = Chunk::default();
    for row in rows {
        let row = match row {
            Ok(row) => row,
            Err(failure) => {
                shared.lock().failure.get_or_insert(failure);
                break;
            }
        };
        let job = match row.job {
            Ok(job) => job,
            Err(error) => {
                let mut tally = shared.lock();
                tally.summary.rejected += 1;
                tally.summary.list(row.line, error);
                continue;
            }
        };
        let full = chunk.lines.len() >= CHUNK_LINES_MAX || chunk.body.len() + job.len() > CHUNK_BYTES_MAX;
        if full && !hand_over(std::mem::take(&mut chunk), &queue, shared) {
            return;
        }
        if let Some(key) = key_of(&job) {
            let tally = shared.lock();
            drop(shared.ended.wait_while(tally, |t| t.busy.contains(&key) && t.failure.is_none()));
            chunk.keys.push(key);
        }
        chunk.lines.push(row.line);
        chunk.body.extend_from_slice(&job);
        chunk.body.push(b'\n');
    }
    hand_over(chunk, &queue, shared);
}

/// Whether to go on.
fn hand_over(chunk: Chunk, queue: &SyncSender<Chunk>, shared: &Shared<'_>) -> bool {
    let mut tally = shared.lock();
    if tally.failure.is_some() {
        return false;
    }
    if chunk.lines.is_empty() {
        return true;
    }
    tally.busy.extend(&chunk.keys);
    drop(tally);
    queue.send(chunk).is_ok()
}

fn carry(client: &Client, zone: Option<&str>, chunks: &Mutex<Receiver<Chunk>>, shared: &Shared<'_>) {
    loop {
        let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(chunk) = next else { return };
        let answer = if shared.lock().failure.is_some() {
            Ok(None)
        } else {
            client.import(&Path::of("/v1/jobs/import").query("zone", zone), chunk.body).map(Some)
        };
        let mut tally = shared.lock();
        for key in &chunk.keys {
            tally.busy.remove(key);
        }
        let added = answer.and_then(|answer| answer.map_or(Ok(()), |answer| tally.summary.add(&answer, &chunk.lines)));
        if let Err(failure) = added {
            tally.failure.get_or_insert(failure);
        }
        drop(tally);
        shared.ended.notify_all();
    }
}

/// A line's key, hashed; a collision costs a wait and nothing else. Lines without one are the door's business.
fn key_of(job: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        key: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        tenant: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        purpose: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        subject_ref: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        business_date: Option<std::borrow::Cow<'a, str>>,
    }
    let named: Named<'_> = serde_json::from_slice(job).ok()?;
    let mut hasher = DefaultHasher::new();
    match named.key.filter(|k| !k.is_empty()) {
        Some(key) => key.hash(&mut hasher),
        None => format!("{}/{}/{}/{}", named.tenant?, named.purpose?, named.subject_ref?, named.business_date?).hash(&mut hasher),
    }
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answers_lines_become_the_files() {
        let mut summary = Summary::default();
        let answer = json!({"accepted": 1, "duplicates": 0, "rejected": 1, "errors": [{"line": 2, "field": "zone", "error": "unknown"}]});
        assert_eq!(summary.add(&answer, &[10, 17]), Ok(()));
        summary.list(3, LineError::of_line("has 2 cells"));
        let expected = r#"{"accepted":1,"duplicates":0,"rejected":1,"errors":[{"line":3,"field":"line","error":"has 2 cells"},{"line":17,"field":"zone","error":"unknown"}]}"#;
        assert_eq!(summary.json(), expected);
        summary.rejected = 2000;
        assert_eq!(summary.talk(1), ["line 3: line: has 2 cells", "… 1999 more"]);
        assert!(summary.add(&json!({}), &[]).is_err());
    }

    #[test]
    fn a_given_key_and_its_four_parts_are_one_key() {
        let parts = br#"{"tenant":"acme","purpose":"p","subject_ref":"R-1","business_date":"2026-12-01","to":{"address":"x"}}"#;
        assert_eq!(key_of(parts), key_of(br#"{"key":"acme/p/R-1/2026-12-01"}"#));
        assert!(key_of(parts).is_some() && key_of(b"{}").is_none() && key_of(b"not json").is_none());
    }
}
