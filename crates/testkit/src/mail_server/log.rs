//! The judge: what the server accepted, counted before any reply leaves.
//!
//! Promises
//! - A message is in the log, and in its file if there is one, before the first byte of its reply is written.
//! - With `Config::idempotent`, a second submission of one idempotency key is a duplicate: answered, counted apart, never in `accepted`.
//!
//! The file holds no address and no content, for tests search everything a run wrote for them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How much of each accepted message is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// Envelope, headers' names for it, and every byte of the content.
    #[default]
    Everything,
    /// All but the content.
    Envelopes,
    /// Counts alone, by job where the job is named: memory stays flat in a load test.
    Counts,
}

/// A recipient the server said yes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// As written between the angle brackets.
    pub address: String,
    /// RCPT's parameters as written (`NOTIFY=…`), or empty.
    pub parameters: String,
}

/// A message the server took responsibility for.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Order at this server, from 1.
    pub number: u64,
    /// When the end marker was read.
    pub at: SystemTime,
    /// Number of its connection, from 1.
    pub connection: u64,
    /// Number of its transaction on that connection, from 1.
    pub message: u32,
    /// Whether the connection was under TLS.
    pub encrypted: bool,
    /// Who had logged in.
    pub user: Option<String>,
    /// As written between the angle brackets of MAIL.
    pub sender: String,
    /// MAIL's parameters as written (`SIZE=… BODY=…`), or empty.
    pub mail_parameters: String,
    /// Those the server said yes to, in order.
    pub recipients: Vec<Recipient>,
    /// `X-Curfew-Job`.
    pub job: Option<String>,
    /// `Message-ID`, angle brackets included.
    pub message_id: Option<String>,
    /// `Curfew-Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// Bytes of the content, unstuffed.
    pub size: u64,
    /// The content, unstuffed; empty unless `Keep::Everything`.
    pub content: Vec<u8>,
}

/// What became of a message offered to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    Accepted(u64),
    Duplicate,
}

/// Counts and messages; one lock, taken for a moment.
#[derive(Default)]
pub(super) struct Log {
    keep: Keep,
    idempotent: bool,
    count: u64,
    duplicates: u64,
    messages: Vec<Arc<Accepted>>,
    per_job: HashMap<String, u32>,
    per_recipient: HashMap<String, u32>,
    keys: HashSet<String>,
    file: Option<File>,
}

impl Log {
    /// Opens the file for appending; what stands in it is left alone.
    pub(super) fn open(keep: Keep, idempotent: bool, path: Option<&Path>) -> std::io::Result<Self> {
        let file = path.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        Ok(Self { keep, idempotent, file, ..Self::default() })
    }

    /// Enters a message. An error means the file couldn't be written and nothing was counted: the message must then be refused.
    pub(super) fn enter(&mut self, mut message: Accepted) -> std::io::Result<Entered> {
        if self.idempotent
            && let Some(key) = &message.idempotency_key
            && self.keys.contains(key)
        {
            let line = json_line(&message, "duplicate");
            self.write(&line)?;
            self.duplicates += 1;
            return Ok(Entered::Duplicate);
        }
        message.number = self.count + 1;
        if self.file.is_some() {
            let line = json_line(&message, "accepted");
            self.write(&line)?;
        }
        self.count += 1;
        if let Some(key) = &message.idempotency_key {
            self.keys.insert(key.clone());
        }
        if let Some(job) = &message.job {
            *self.per_job.entry(job.clone()).or_default() += 1;
        }
        let number = message.number;
        if self.keep != Keep::Counts {
            for recipient in &message.recipients {
                *self.per_recipient.entry(recipient.address.clone()).or_default() += 1;
            }
            self.messages.push(Arc::new(message));
        }
        Ok(Entered::Accepted(number))
    }

    /// One write for a line, so that a kill between two lines leaves whole lines.
    fn write(&mut self, line: &str) -> std::io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }

    pub(super) fn messages(&self) -> Vec<Arc<Accepted>> {
        self.messages.clone()
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    pub(super) fn per_job(&self) -> HashMap<String, u32> {
        self.per_job.clone()
    }

    pub(super) fn per_recipient(&self) -> HashMap<String, u32> {
        self.per_recipient.clone()
    }
}

fn json_line(message: &Accepted, event: &str) -> String {
    let at_ms = message.at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let (number, connection, size) = (message.number, message.connection, message.size);
    let mut line = format!("{{\"event\":\"{event}\",\"number\":{number},\"at_ms\":{at_ms},\"connection\":{connection},\"size\":{size}");
    let named = [("job", &message.job), ("message_id", &message.message_id), ("idempotency_key", &message.idempotency_key)];
    for (name, value) in named {
        match value {
            Some(value) => {
                let _ = write!(line, ",\"{name}\":\"{}\"", escape(value));
            }
            None => {
                let _ = write!(line, ",\"{name}\":null");
            }
        }
    }
    line.push_str("}\n");
    line
}

/// JSON string escapes (RFC 8259 §7), for the three values of a line that come from outside.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(control));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_break_a_line() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\u000ad");
    }
}
