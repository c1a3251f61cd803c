//! Every key that a configuration may have. `*` stands for a name: of an operator, transport, policy, tenant, key or reason.

/// Whether a value may be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// As it is.
    Plain,
    /// Without its password.
    Url,
    /// Not at all. Such a key may also be given as `KEY_file`, and so may a `Url`.
    Never,
}

use Show::{Never, Plain, Url};

/// The keys, in the order of the contract.
pub const KEYS: &[(&str, Show)] = &[
    ("book.url", Url),
    ("ledger.url", Url),
    ("ledger.shards", Plain),
    ("ledger.require", Plain),
    ("ledger.max_live_bytes", Plain),
    ("broker.url", Url),
    ("broker.queue_type", Plain),
    ("http.listen", Plain),
    ("metrics.listen", Plain),
    ("scheduler.tick", Plain),
    ("scheduler.horizon", Plain),
    ("scheduler.staging_window", Plain),
    ("scheduler.claim_grace", Plain),
    ("worker.concurrency", Plain),
    ("worker.lease", Plain),
    ("templates.dir", Plain),
    ("artifacts.roots", Plain),
    ("keys.current", Plain),
    ("keys.reference", Never),
    ("keys.*", Never),
    ("operators.*.token_hash", Never),
    ("operators.*.roles", Plain),
    ("operators.*.tenants", Plain),
    ("transports.*.kind", Plain),
    ("transports.*.url", Plain),
    ("transports.*.from", Plain),
    ("transports.*.rate", Plain),
    ("transports.*.max_connections", Plain),
    ("transports.*.tls", Plain),
    ("transports.*.ca_file", Plain),
    ("transports.*.user", Plain),
    ("transports.*.password", Never),
    ("transports.*.auth", Plain),
    ("transports.*.hello", Plain),
    ("transports.*.timeouts.connect", Plain),
    ("transports.*.timeouts.tls", Plain),
    ("transports.*.timeouts.reply", Plain),
    ("transports.*.timeouts.block", Plain),
    ("transports.*.timeouts.end", Plain),
    ("transports.*.events_secret", Never),
    ("transports.*.idempotency_window", Plain),
    ("transports.*.idempotency_header", Plain),
    ("policies.*.delays", Plain),
    ("policies.*.base", Plain),
    ("policies.*.factor", Plain),
    ("policies.*.cap", Plain),
    ("policies.*.max_attempts", Plain),
    ("policies.*.jitter", Plain),
    ("policies.*.at_deadline", Plain),
    ("tenants.*.max_in_flight", Plain),
    ("tenants.*.rate", Plain),
    ("tenants.*.credit", Plain),
    ("tenants.*.policy", Plain),
    ("tenants.*.transport", Plain),
    ("retention.content", Plain),
    ("retention.settled", Plain),
    ("retention.review", Plain),
    ("retention.audit", Plain),
    ("slo.target", Plain),
    ("slo.window", Plain),
    ("slo.lead", Plain),
    ("traces.endpoint", Plain),
    ("traces.sample", Plain),
    ("traces.authorization", Never),
    ("review.owners.*", Plain),
];

/// The pattern that a path fits, a secret's `_file` form included.
pub fn known(path: &[String]) -> Option<(&'static str, Show)> {
    let fits = |path: &[String]| KEYS.iter().find(|(pattern, _)| matches(pattern, path)).copied();
    let exact = fits(path);
    let (last, head) = path.split_last()?;
    let by_file = last.strip_suffix("_file").and_then(|stem| {
        let stem: Vec<String> = head.iter().cloned().chain([stem.to_owned()]).collect();
        fits(&stem).filter(|(_, show)| matches!(show, Never | Url)).map(|(pattern, _)| (pattern, Plain))
    });
    by_file.or(exact)
}

/// Whether a path lies inside the schema as a table, for instance `transports.default`.
pub fn is_table(path: &[String]) -> bool {
    KEYS.iter().any(|(pattern, _)| {
        let segments: Vec<&str> = pattern.split('.').collect();
        segments.len() > path.len() && segments.iter().zip(path).all(|(s, p)| *s == "*" || s == p)
    })
}

/// Which segments of a path are names: the stars of the first pattern whose other segments fit.
pub fn stars(path: &[String]) -> Vec<usize> {
    let pattern = known(path).map(|(pattern, _)| pattern).unwrap_or_default();
    pattern.split('.').enumerate().filter(|(_, s)| *s == "*").map(|(n, _)| n).collect()
}

/// The known key that a wrong one most resembles, where one does.
pub fn nearest(path: &[String]) -> Option<String> {
    let wrong = path.join(".");
    let candidates = KEYS.iter().map(|(pattern, _)| {
        let segments = pattern.split('.').enumerate();
        let filled: Vec<&str> = segments.map(|(n, s)| if s == "*" { path.get(n).map_or("*", String::as_str) } else { s }).collect();
        filled.join(".")
    });
    closest_of(&wrong, candidates)
}

/// The word that a wrong one most resembles, where one does.
pub fn closest<'a>(wrong: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    closest_of(wrong, words)
}

fn closest_of<T: AsRef<str> + Ord>(wrong: &str, words: impl Iterator<Item = T>) -> Option<T> {
    let (distance, word) = words.map(|w| (distance(wrong, w.as_ref()), w)).min()?;
    (distance <= 2.max(wrong.len() / 3)).then_some(word)
}

fn matches(pattern: &str, path: &[String]) -> bool {
    let mut segments = pattern.split('.');
    path.iter().all(|p| segments.next().is_some_and(|s| s == "*" || s == p)) && segments.next().is_none()
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn a_slip_of_the_pen_is_answered_with_the_nearest_key() {
        for (wrong, right) in [
            ("worker.concurency", "worker.concurrency"),
            ("workers.lease", "worker.lease"),
            ("transports.ses.max_connection", "transports.ses.max_connections"),
            ("policies.x.delay", "policies.x.delays"),
            ("http.listne", "http.listen"),
        ] {
            assert_eq!(known(&path(wrong)), None);
            assert_eq!(nearest(&path(wrong)).as_deref(), Some(right));
        }
        assert_eq!(nearest(&path("zzzzzzzzzzzzzz")), None);
    }

    #[test]
    fn a_secret_has_a_file_form_and_others_have_none() {
        assert_eq!(known(&path("transports.default.password_file")), Some(("transports.*.password", Plain)));
        assert_eq!(known(&path("book.url_file")), Some(("book.url", Plain)));
        assert_eq!(known(&path("keys.k1_file")).map(|k| k.1), Some(Plain));
        assert_eq!(known(&path("http.listen_file")), None);
    }
}
