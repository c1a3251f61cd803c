//! The classification table against every known reply, as it was written down and as other servers would spell it.

use std::collections::BTreeSet;

use curfew_domain::outcome::{OutcomeClass, Reason, Stage};
use curfew_transport::classify::{FAMILIES, Heard, TABLE, Verdict, WORDS_MAX, classify};

const CASES: &str = include_str!("../../../tests/cases/smtp_cases.csv");
const NON_FAILURES: &str = include_str!("../../../tests/cases/smtp_nonfailures.csv");
/// Replies of our own, from the meaning of the codes (RFC 3463, RFC 5248) and the wording of servers at large.
const MORE: &str = include_str!("../../../tests/cases/smtp_more.csv");

/// A line of one of the tables.
struct Case {
    stage: Stage,
    code: Option<u16>,
    enhanced: String,
    text: String,
    expected: String,
}

fn cases(table: &str) -> Vec<Case> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let rows = reader.records().map(|row| {
        let row = row.expect("a row");
        Case {
            stage: Stage::from_word(&row[0]).expect("a stage"),
            code: row[1].parse().ok(),
            enhanced: row[2].to_owned(),
            text: row[3].to_owned(),
            expected: row[4].to_owned(),
        }
    });
    rows.collect()
}

fn all() -> Vec<Case> {
    [CASES, NON_FAILURES, MORE].into_iter().flat_map(cases).collect()
}

impl Case {
    fn judged(&self, text: &str) -> (&'static str, &'static str) {
        let enhanced = Some(self.enhanced.as_str()).filter(|e| !e.is_empty());
        let judgement = classify(&Heard::described(self.stage, self.code, enhanced, text));
        (judgement.verdict.word(), judgement.rule)
    }

    fn fault(&self, how: &str, text: &str) -> Option<String> {
        let (found, rule) = self.judged(text);
        (found != self.expected)
            .then(|| format!("{how}: {} {:?} {} {text:?}: {found} by {rule}, not {}", self.stage, self.code, self.enhanced, self.expected))
    }
}

fn holds(table: &str, rows_min: usize) {
    let cases = cases(table);
    assert!(cases.len() >= rows_min, "{} rows", cases.len());
    let wrong: Vec<String> = cases.iter().filter_map(|case| case.fault("as written", &case.text)).collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len());
}

#[test]
fn every_known_reply_has_its_class() {
    holds(CASES, 160);
}

#[test]
fn every_known_non_failure_is_none() {
    holds(NON_FAILURES, 16);
}

#[test]
fn more_replies_of_each_family_have_their_class() {
    holds(MORE, 60);
}

/// Applies a change to each token of a text.
fn each_token(text: &str, change: impl Fn(&str) -> String) -> String {
    text.split(' ').map(change).collect::<Vec<_>>().join(" ")
}

fn is_code(token: &str) -> bool {
    token.split('.').count() == 3 && token.split('.').all(|p| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()))
}

fn other_digits(text: &str) -> String {
    let other = |c: char| c.to_digit(10).map_or(c, |d| char::from_digit((d * 7 + 3) % 10, 10).expect("a digit"));
    each_token(text, |token| if is_code(token) { token.to_owned() } else { token.chars().map(other).collect() })
}

fn other_hosts(text: &str) -> String {
    each_token(text, |token| {
        let bare = token.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let last = bare.rsplit('.').next().unwrap_or_default();
        let host = bare.contains('.') && last.len() > 1 && last.bytes().all(|b| b.is_ascii_alphabetic()) && !bare.contains('@');
        let address = bare.split('.').count() == 4 && bare.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        match (host, address, bare.contains('@')) {
            (true, _, _) => token.replace(bare, "mx-17.Zulu.quebec.invalid"),
            (_, true, _) => token.replace(bare, "203.0.113.77"),
            (_, _, true) => token.replace(bare, "someone.else@elsewhere.example.org"),
            _kept => token.to_owned(),
        }
    })
}

/// Without the bracket that says who spoke: real replies have none.
fn without_provider(text: &str) -> String {
    match text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((tag, rest)) if tag.chars().next().is_some_and(|c| c.is_ascii_lowercase()) => rest.to_owned(),
        Some(_) | None => text.to_owned(),
    }
}

/// How another server would spell a text.
type Change = fn(&str) -> String;

#[test]
fn other_hosts_ids_addresses_digits_case_and_blanks_change_nothing() {
    let changes: [(&str, Change); 9] = [
        ("upper case", |t| t.to_uppercase()),
        ("lower case", |t| t.to_lowercase()),
        ("doubled spaces", |t| t.replace(' ', "  ")),
        ("other digits", other_digits),
        ("other hosts and addresses", other_hosts),
        ("without provider", without_provider),
        ("a session id behind", |t| format!("{t} d2e1a72fcca58-3a4f9c1b2d7si812345.41 - xsmtp")),
        ("a web page behind", |t| format!("{t} https://support.example.net/mail/answer/81126")),
        ("all of them", |t| other_digits(&other_hosts(&without_provider(t))).to_uppercase().replace(' ', "  ")),
    ];
    let cases = all();
    let wrong: Vec<String> = cases.iter().flat_map(|case| changes.iter().filter_map(|(how, change)| case.fault(how, &change(&case.text)))).collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len() * changes.len());
}

#[test]
fn no_pattern_is_longer_than_six_words() {
    for pattern in FAMILIES.iter().flat_map(|family| family.split(", ")) {
        let words = pattern.split(' ').filter(|slot| *slot != "~").count();
        assert!((1..=WORDS_MAX).contains(&words), "{pattern:?}");
        assert_eq!(pattern.to_lowercase(), pattern, "{pattern:?} is compared with lower case");
        assert!(!pattern.contains(|c: char| c.is_ascii_digit()), "{pattern:?}: digits are taken out of texts");
        assert!(pattern.split(' ').all(|slot| !slot.is_empty()), "{pattern:?} has an empty slot");
    }
}

#[test]
fn every_row_has_a_source_and_its_own_name_and_decides_some_case() {
    let cases = all();
    let reached: BTreeSet<&str> = cases.iter().map(|case| case.judged(&case.text).1).collect();
    let names: BTreeSet<&str> = TABLE.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), TABLE.len(), "two rows share a name");
    assert!(TABLE.iter().all(|row| row.source.len() > 5));
    let idle: Vec<&str> = names.difference(&reached).copied().collect();
    assert!(idle.is_empty(), "no case reaches {idle:?}");
}

#[test]
fn accepted_comes_from_the_end_marker_alone() {
    for stage in Stage::ALL {
        for code in 0..1000 {
            let judgement = classify(&Heard::reply(*stage, code, "2.0.0 Ok: queued as 4ZK3QH5xYz"));
            let accepted = judgement.verdict == Verdict::Class(OutcomeClass::Accepted);
            assert_eq!(accepted, *stage == Stage::Dot && matches!(code, 250..=252), "{stage} {code}");
            assert_eq!(accepted, judgement.reason == Some(Reason::Accepted));
        }
    }
}

#[test]
fn after_the_end_marker_only_a_whole_refusal_refuses() {
    for case in all().iter().filter(|c| c.stage == Stage::Dot) {
        let refusal = case.code.is_some_and(|c| matches!(c / 100, 4 | 5));
        let certain = matches!(case.expected.as_str(), "accepted" | "ambiguous");
        assert!(refusal || certain, "{}", case.text);
    }
}
