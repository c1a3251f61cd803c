//! Finds the server's own id for a message in the words of its acceptance: the best key for asking the provider later.

/// Longer ids are cut off nowhere, they are none.
const ID_BYTES_MAX: usize = 128;

/// The queue id in a reply's text, where one of the known forms is there. Never an address.
pub fn queue_id(text: &str) -> Option<String> {
    named(text).or_else(|| bare(text))
}

/// Whether the text is beyond doubt about a queued message: Gmail ends its answer to NOOP with a session id, which is none.
pub(super) fn names_message(text: &str) -> bool {
    let groups = |id: &str| id.split('-').count() >= 6 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'); // Amazon SES
    named(text).is_some() || bare(text).is_some_and(|id| groups(&id))
}

fn named(text: &str) -> Option<String> {
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let lower: Vec<String> = tokens.iter().map(|t| t.to_ascii_lowercase()).collect();
    let after = |words: &[&str]| {
        let at = lower.windows(words.len()).position(|w| w.iter().zip(words).all(|(have, want)| have.trim_end_matches(':') == *want))?;
        id(tokens.get(at + words.len())?)
    };
    let labelled = |label: &str| {
        lower.iter().position(|t| t.trim_start_matches(['<', '[', '(']).starts_with(label)).and_then(|at| {
            let token = tokens[at].trim_start_matches(['<', '[', '(']);
            id(&token[label.len()..])
        })
    };
    let before = |words: &[&str]| {
        let at = lower.windows(words.len()).position(|w| w.iter().zip(words).all(|(have, want)| have == want))?;
        id(tokens.get(at.checked_sub(1)?)?)
    };
    after(&["queued", "as"]) // Postfix, Mimecast, Haraka, Amavis
        .or_else(|| labelled("id=")) // Exim
        .or_else(|| labelled("internalid=")) // Exchange
        .or_else(|| before(&["message", "accepted", "for"])) // Sendmail, Proofpoint: `1AbCd message accepted for delivery`
        .or_else(|| after(&["queued", "mail", "for", "delivery", "id"]))
        .or_else(|| after(&["queue", "id"]))
        .or_else(|| after(&["message", "id"]))
}

/// Amazon SES, Gmail, Yahoo: `Ok <id>`, `OK  <time> <id> - gsmtp`, `ok dirdel`. The id is long, and holds a digit.
fn bare(text: &str) -> Option<String> {
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let at = tokens.iter().position(|t| t.trim_end_matches([':', ',']).eq_ignore_ascii_case("ok"))?;
    tokens[at + 1..].iter().take(3).filter(|t| t.len() >= 16 && t.contains(|c: char| c.is_ascii_digit())).find_map(|t| id(t))
}

/// A token as an id: without brackets and full stops around it, of the characters that ids are made of.
fn id(token: &str) -> Option<String> {
    let bare = token.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let good = (4..=ID_BYTES_MAX).contains(&bare.len()) || (!bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit()));
    (good && bare.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))).then(|| bare.to_owned())
}
