//! Reads a reply's text: its words in lower case without what varies (hosts, addresses, digits), its enhanced code, a named wait.
//!
//! A pattern is at most six slots, one word each: `quota/limit*` is either of two, the second by its beginning; `~` lets up to four
//! words stand between. Everything else must be adjacent.

use std::time::Duration;

use super::{Enhanced, enhanced_code};

/// Words that may stand where a pattern has `~`.
const GAP_WORDS_MAX: usize = 4;
/// Text beyond this many bytes is not read; RFC 5321 bounds a reply line at 512.
const READ_BYTES_MAX: usize = 8192;
/// A longer wait than this is no hint any more.
const WAIT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a text holds.
pub(super) struct Said {
    pub words: Vec<String>,
    pub enhanced: Option<Enhanced>,
    pub wait: Option<Duration>,
    pub queue_id: bool,
}

pub(super) fn read(text: &str) -> Said {
    let text = &text[..text.floor_char_boundary(READ_BYTES_MAX)];
    let bare = without_provenance(text);
    Said { words: words(bare), enhanced: leading_code(bare), wait: wait(bare), queue_id: super::queue_id::names_message(bare) }
}

/// Without a first bracket that only says who speaks, as `[gmail]` in lists of known replies. A bracket with a digit and no space is
/// the server's own (`[TSS04]`, an IP address).
fn without_provenance(text: &str) -> &str {
    let trimmed = text.trim_start();
    let tag = trimmed.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match tag {
        Some((tag, rest)) if tag.contains(char::is_alphabetic) && (tag.contains(' ') || !tag.contains(|c: char| c.is_ascii_digit())) => {
            rest.trim_start()
        }
        Some(_) | None => trimmed,
    }
}

fn leading_code(text: &str) -> Option<Enhanced> {
    enhanced_code(text.split_whitespace().next()?)
}

/// The words of a text. Tokens that name hosts, addresses or files say nothing; digits vary and are taken out.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for token in text.split(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '(' | ')' | '"' | ',' | ';' | '|')) {
        let token = token.trim_matches(|c: char| !c.is_alphanumeric());
        if token.contains('@') || token.contains("://") || is_host(token) {
            continue;
        }
        for word in token.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’') {
            let word: String = word.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect();
            if !word.is_empty() {
                found.push(word);
            }
        }
    }
    found
}

/// Labels with dots between them and letters last; a full stop with a capital behind it joins two sentences, not two labels.
fn is_host(token: &str) -> bool {
    let labels: Vec<&str> = token.split('.').collect();
    let last = labels.last().copied().unwrap_or_default();
    let ends_in_capital = last.starts_with(|c: char| c.is_ascii_uppercase()) && token.starts_with(|c: char| c.is_ascii_lowercase());
    labels.len() > 1
        && last.len() >= 2
        && last.bytes().all(|b| b.is_ascii_alphabetic())
        && !ends_in_capital
        && labels.iter().all(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'))
}

/// Whether the words say what a pattern describes.
pub(super) fn says(words: &[String], pattern: &str) -> bool {
    (0..words.len()).any(|from| follows(&words[from..], pattern))
}

fn follows(words: &[String], slots: &str) -> bool {
    let (slot, rest) = slots.split_once(' ').unwrap_or((slots, ""));
    if slot == "~" {
        return (0..=GAP_WORDS_MAX.min(words.len())).any(|skipped| follows(&words[skipped..], rest));
    }
    let Some((word, others)) = words.split_first() else { return false };
    slot.split('/').any(|one| is(word, one)) && (rest.is_empty() || follows(others, rest))
}

fn is(word: &str, one: &str) -> bool {
    match one.strip_suffix('*') {
        Some(beginning) => word.starts_with(beginning),
        None => word == one,
    }
}

/// A wait that the text names: `in 5 minutes`, `after 300 seconds`, `for 1 hour`, `wait 60s`, `in 00:04:59`. The longest of several.
fn wait(text: &str) -> Option<Duration> {
    let lower = text.to_lowercase();
    let tokens: Vec<&str> = lower
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')' | '=' | '<' | '>'))
        .map(|t| t.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
        .filter(|t| !t.is_empty())
        .collect();
    let named = |at: usize| {
        let lead = tokens[..at].iter().rev().take(3).any(|t| matches!(*t, "in" | "after" | "for" | "wait" | "least" | "another" | "within" | "next"));
        let asked = tokens[..at].iter().rev().take(8).any(|t| RETRY_WORDS.iter().any(|w| t.starts_with(w)));
        (lead && asked).then(|| span(tokens[at], tokens.get(at + 1).copied())).flatten()
    };
    (0..tokens.len()).filter_map(named).max().filter(|w| !w.is_zero()).map(|w| w.min(WAIT_MAX))
}

/// Words of which one must stand before a wait, so that "100 messages in 5 minutes" isn't read as one.
const RETRY_WORDS: &[&str] =
    &["retr", "try", "again", "come", "back", "wait", "later", "resend", "greylist", "graylist", "delay", "reconnect", "grey", "gray"];

fn span(number: &str, unit: Option<&str>) -> Option<Duration> {
    if let Some((hours, rest)) = number.split_once(':') {
        let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
        let part = |p: &str| p.parse::<u64>().ok().filter(|n| *n < 1000);
        return Some(Duration::from_secs(part(hours)? * 3600 + part(minutes)? * 60 + part(seconds)?));
    }
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    let count: u64 = number[..digits].parse().ok()?;
    let unit = if digits < number.len() { &number[digits..] } else { unit? };
    let seconds = match unit {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 24 * 3600,
        _no_unit => return None,
    };
    Some(Duration::from_secs(count.saturating_mul(seconds)))
}
