//! `submit`: lines of a file to the door, a few requests at a time, and one object that says what became of them.
//!
//! A line's number is its line in the file. Nothing is sent twice by itself; handing in a file again is safe, for what was accepted
//! counts as a duplicate. Of two lines with one key the earlier is handed in first.
//!
//! Read `submit_lines.rs` and `csv_rows.rs` for the reading, `submit_send.rs` for the sending.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::Path;

use curfew_content::Zones;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::{Format, Submit};
use super::client::Client;
use super::csv_rows::CsvRows;
use super::output;
use super::submit_lines::{Lines, Row};
use super::submit_send::{Summary, send};
use crate::exit::{Ended, Exit, Failure};

/// Errors that a person at a terminal is shown as lines; the object has more of them.
const ERRORS_TOLD: usize = 10;

/// Hands in a file. The object is printed always, after any failure is told: what stderr says explains its figures.
///
/// # Errors
/// Where stdout can't be written. A usage before anything is sent, and no answer, or not yet, in the midst of it, are the exit.
pub fn submit(client: &Client, args: &Submit) -> Ended {
    let mut summary = Summary::default();
    let ended = hand_in(client, args, &mut summary);
    let ended = ended.map_err(|failure| match failure.exit {
        // What was asked may have happened: the person has to know what to do now.
        Exit::NoAnswer | Exit::NotYet => Failure { says: format!("{}; handing in the file again is safe", failure.says), ..failure },
        Exit::Done | Exit::Refused | Exit::Usage => failure,
    });
    if let Err(failure) = &ended {
        output::tell(failure);
    }
    if io::stderr().is_terminal() {
        summary.talk(ERRORS_TOLD).iter().for_each(|line| eprintln!("{}", output::plain(line)));
    }
    output::line(&summary.json())?;
    if let Err(failure) = ended {
        return Ok(failure.exit);
    }
    Ok(if summary.rejected > 0 { Exit::Refused } else { Exit::Done })
}

fn hand_in(client: &Client, args: &Submit, summary: &mut Summary) -> Result<(), Failure> {
    if let Some(Err(e)) = args.zone.as_deref().map(|zone| Zones::load().check(zone)) {
        return Err(Failure::usage(format!("--zone: {e}")));
    }
    let (input, bytes): (Box<dyn Read>, u64) = if args.file.as_os_str() == "-" {
        (Box::new(io::stdin()), 0)
    } else {
        let unreadable = |e: io::Error| Failure::usage(format!("{}: {e}", args.file.display()));
        let file = File::open(&args.file).map_err(unreadable)?;
        let meta = file.metadata().map_err(unreadable)?;
        if meta.is_dir() {
            return Err(Failure::usage(format!("{}: is a folder", args.file.display())));
        }
        (Box::new(file), meta.len())
    };
    let input = BufReader::with_capacity(1 << 18, input);
    let rows: Box<dyn Iterator<Item = Result<Row, Failure>>> = match args.format.map_or_else(|| by_extension(&args.file), Ok)? {
        Format::Ndjson => Box::new(Lines::new(input)),
        Format::Csv => Box::new(CsvRows::new(input)?),
    };
    let bar = bar(bytes);
    let rows = rows.inspect(|row| {
        if let Ok(row) = row {
            bar.set_position(row.read_to);
        }
    });
    let sent = send(client, args.zone.as_deref(), rows, summary);
    bar.finish_and_clear();
    sent
}

/// A name without an extension is stdin, or a pipe's: NDJSON.
fn by_extension(file: &Path) -> Result<Format, Failure> {
    let Some(extension) = file.extension() else { return Ok(Format::Ndjson) };
    let is = |known: &str| extension.eq_ignore_ascii_case(known);
    if is("csv") {
        Ok(Format::Csv)
    } else if ["ndjson", "jsonl", "json"].into_iter().any(is) {
        Ok(Format::Ndjson)
    } else {
        let says = "give --format ndjson or --format csv; known without it: .csv, .ndjson, .jsonl, .json";
        Err(Failure::usage(format!("{}: {says}", file.display())))
    }
}

/// On a terminal a bar of the file's bytes, or a spinner for stdin; elsewhere nothing.
fn bar(bytes: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = if bytes > 0 {
        (ProgressBar::new(bytes), "{bar:40} {bytes}/{total_bytes} {eta} left")
    } else {
        (ProgressBar::new_spinner(), "{spinner} {bytes}")
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_invalid| ProgressStyle::default_bar()));
    bar
}
