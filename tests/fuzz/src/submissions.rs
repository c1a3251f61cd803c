//! Submitted files: NDJSON lines and CSV rows, up to the sealed job and the mail that it becomes.

use curfew::cli::csv_rows::CsvRows;
use curfew::cli::submit_lines::{Lines, Row};
use curfew_domain::address;
use curfew_domain::job::Job;
use curfew_domain::{Key, Moment};
use curfew_transport::message::{Mailbox, MessageParts, build};
use serde_json::Value;

use super::house::{DOOR, NOON, letter_of};
use super::told;

/// A file of lines: each line is admitted or refused by its fields, and what is admitted can be written as a mail.
pub fn ndjson(bytes: &[u8]) {
    let mut last = (0, 0);
    for row in Lines::new(bytes) {
        let row = row.expect("memory reads");
        in_order(&mut last, &row, bytes);
        if let Ok(line) = row.job {
            admit(&line);
        }
    }
}

/// The same for CSV: a file that is refused as a whole tells nobody's address, a row becomes one JSON object.
pub fn csv(bytes: &[u8]) {
    let rows = match CsvRows::new(bytes) {
        Ok(rows) => rows,
        Err(failure) => return told::repeats_none(&failure.says, &told::addresses_of(&String::from_utf8_lossy(bytes))),
    };
    let mut last = (0, 0);
    for row in rows {
        let Ok(row) = row else { return };
        in_order(&mut last, &row, bytes);
        match row.job {
            Ok(line) => {
                assert!(serde_json::from_slice::<Value>(&line).is_ok_and(|value| value.is_object()), "a row is no object");
                admit(&line);
            }
            Err(e) => {
                told::is_refusal(&e.field, &e.error);
                told::repeats_none(&e.error, &told::addresses_of(&String::from_utf8_lossy(bytes)));
            }
        }
    }
}

fn in_order(last: &mut (u64, u64), row: &Row, bytes: &[u8]) {
    assert!(row.line > last.0 && row.read_to >= last.1 && row.read_to <= bytes.len() as u64 + 1, "line {} after {}", row.line, last.0);
    *last = (row.line, row.read_to);
}

fn admit(line: &[u8]) {
    let now = Moment::from_millis(NOON);
    match DOOR.admit(line, Some("Europe/Berlin"), now) {
        Ok(job) => is_whole(&job, line, now),
        Err(faults) => {
            assert!(!faults.is_empty(), "a refusal without a fault");
            let secrets = serde_json::from_slice(line).map(|value| told::secrets(&value)).unwrap_or_default();
            for fault in &faults {
                told::is_refusal(&fault.field, &fault.error);
                told::repeats_none(&fault.field, &secrets);
                told::repeats_none(&fault.error, &secrets);
            }
        }
    }
}

/// What the door promises of a job that it takes.
fn is_whole(job: &Job, line: &[u8], now: Moment) {
    assert!(job.deadline_at > now && job.deadline_at > job.release_at);
    assert_eq!((Key::parse(job.key.as_str()).as_ref(), job.key.tenant()), (Ok(&job.key), job.tenant.as_str()));
    let letter = letter_of(job);
    let to = address::check(&letter.to_address).expect("the door took the address");
    let clear = format!("{job:?}");
    assert!(to.given().len() < 8 || !clear.contains(to.given()), "what lies beside the letter shows the address");
    // Saying the same again is the same job.
    let again = DOOR.admit(line, Some("Europe/Berlin"), now).expect("it was taken before");
    assert_eq!((&again.key, &again.fingerprints, &again.recipient_ref), (&job.key, &job.fingerprints, &job.recipient_ref));
    assert_eq!(letter_of(&again), letter);

    let from = address::check("reports@sender.example").expect("an address");
    let parts = MessageParts {
        job_id: job.id,
        key: &job.key,
        content_revision: job.content_revision,
        release_at: job.release_at,
        from: Mailbox { name: None, address: &from },
        to: Mailbox { name: letter.to_name.as_deref(), address: &to },
        subject: &letter.subject,
        text: letter.text.as_deref(),
        html: letter.html.as_deref(),
        list_unsubscribe: letter.list_unsubscribe.as_deref(),
        attachments: &[],
        provider_key: None,
    };
    let built = build(&parts).unwrap_or_else(|e| panic!("the door took what can't be written: {e}"));
    assert!(is_crlf(&built.bytes), "a bare CR or LF in a mail");
}

fn is_crlf(bytes: &[u8]) -> bool {
    let ends = bytes.windows(2).filter(|w| *w == b"\r\n").count();
    let (cr, lf) = bytes.iter().fold((0, 0), |(cr, lf), b| (cr + usize::from(*b == b'\r'), lf + usize::from(*b == b'\n')));
    cr == ends && lf == ends && bytes.ends_with(b"\r\n")
}
