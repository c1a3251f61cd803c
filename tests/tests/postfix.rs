//! A day's work through `curfew up` to a real mail server: a thousand reminders to Debian's Postfix, read back with a MIME parser.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use curfew_domain::address;
use curfew_tests::letters::{self, Letter};
use curfew_tests::postfix::Postfix;
use curfew_tests::{Curfew, Settings, until};
use serde_json::Value;
use sha2::{Digest, Sha256};

const DEADLINE: Duration = Duration::from_secs(180);

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").join("deploy/examples/renewals")
}

/// A Curfew in a copy of the example's folder, so that relative paths mean what they mean there.
fn curfew(postfix: &Postfix) -> Curfew {
    let settings = Settings::smtp(postfix.addr())
        .text("transports.default.from", "Acme Subscriptions <renewals@acme.example>")
        .text("templates.dir", "templates")
        .set("artifacts.roots", r#"["file:reports/"]"#);
    let mut curfew = Curfew::prepare(settings);
    copy(&example(), curfew.folder());
    curfew.restart();
    curfew
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("the example can be read") {
        let entry = entry.expect("an entry can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_name() != "curfew.toml" {
            fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}

/// The rows of a CSV file, by subject_ref.
fn rows(file: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(example().join(file)).expect("the CSV can be read");
    let headers = reader.headers().expect("the CSV has a header").clone();
    let row = |record: csv::StringRecord| headers.iter().map(str::to_owned).zip(record.iter().map(str::to_owned)).collect::<BTreeMap<_, _>>();
    reader.records().map(|record| row(record.expect("a row can be read"))).map(|row| (row["subject_ref"].clone(), row)).collect()
}

fn delivered(postfix: &Postfix, count: usize) -> Vec<Letter> {
    until(&format!("{count} delivered mails"), || (postfix.delivered() >= count).then_some(()));
    postfix.mails().iter().map(|bytes| letters::read(bytes)).collect()
}

/// The address as Postfix writes it: the domain as A-labels, and no quotes around a local part that needs none (RFC 5321, 4.1.2: the two are
/// the same mailbox).
fn on_the_wire(address: &str) -> String {
    let ascii = address::check(address).expect("the example's addresses are good").ascii();
    let Some((local, domain)) = ascii.strip_prefix('"').and_then(|rest| rest.split_once("\"@")) else { return ascii };
    let atoms = local
        .split('.')
        .all(|atom| !atom.is_empty() && atom.chars().all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)));
    if atoms { format!("{local}@{domain}") } else { ascii }
}

/// One mail against its row of the CSV.
fn assert_is_of_row(letter: &Letter, row: &BTreeMap<String, String>) {
    let of = |name: &str| row[&format!("content.params.{name}")].as_str();
    let greeting = if of("greeting").is_empty() { "Hello" } else { of("greeting") };
    let (customer, plan, renews_on) = (of("customer"), of("plan"), of("renews_on"));
    assert_eq!(letter.delivered_to, [on_the_wire(&row["to.address"])], "the envelope's recipient");
    assert_eq!(letter.to_name, row["to.name"]);
    assert_eq!(letter.subject, format!("{plan} renews on {renews_on}, {customer}"));
    let note = if of("note").is_empty() { String::new() } else { format!("\n{}\n", of("note")) };
    let text = format!(
        "{greeting} {customer},\n\nyour {plan} plan renews on {renews_on}.\n\n    Plan      {plan}\n    Seats     {}\n    Price     {}\n    Renewal   {renews_on}\n\n\
         You need not do anything. To change seats or plan, or to end it, go to:\n\nhttps://www.acme.example/plans?t={}\n{note}\nThe terms of renewal are attached.\n\n--\n",
        of("seats"),
        of("price"),
        of("token"),
    );
    assert!(letter.text.starts_with(&text), "want {text}\ngot {}", letter.text);
    assert!(letter.text.contains(&format!("https://www.acme.example/reminders/off?t={}", of("token"))));
    assert!(letter.html.contains(&format!("https://www.acme.example/plans?t={}\"", of("token"))), "{}", letter.html);
    assert!(letter.list_unsubscribe.replace(['\r', '\n', ' ', '\t'], "").contains(&format!("t={}", of("token"))), "{}", letter.list_unsubscribe);
    let pdf = hex::encode(Sha256::digest(fs::read(example().join("reports/renewal-terms.pdf")).expect("the report can be read")));
    assert_eq!(letter.attachments, [(row["attachments.0.name"].clone(), pdf)]);
}

#[test]
fn a_thousand_reminders_arrive_each_once_and_whole() {
    let postfix = Postfix::start();
    let curfew = curfew(&postfix);
    let rows = rows("renewals.csv");
    assert_eq!(rows.len(), 1000);

    let summary = curfew.cli(&["submit", "renewals.csv"]).expect(0).json();
    assert_eq!((&summary["accepted"], &summary["rejected"]), (&1000.into(), &0.into()), "{summary}");
    let day = curfew.all_ended(1000, DEADLINE);
    assert_eq!((&day["sent"], &day["difference"]), (&1000.into(), &0.into()), "{day}");
    let letters = delivered(&postfix, 1000);
    assert_eq!(letters.len(), 1000);

    let ids: BTreeMap<String, String> = curfew
        .all_jobs("")
        .iter()
        .map(|job| (job["id"].as_str().unwrap_or_default().to_owned(), job["subject_ref"].as_str().unwrap_or_default().to_owned()))
        .collect();
    let seen: BTreeSet<&str> = letters.iter().map(|letter| letter.job.as_str()).collect();
    assert_eq!(seen.len(), 1000, "each job once");
    assert_eq!(letters.iter().map(|letter| letter.message_id.as_str()).collect::<BTreeSet<_>>().len(), 1000);
    for letter in &letters {
        assert_is_of_row(letter, &rows[&ids[&letter.job]]);
        assert!(letter.headers.iter().any(|name| name == "Auto-Submitted"), "{:?}", letter.headers);
    }

    let again = curfew.cli(&["submit", "renewals.csv"]).expect(0).json();
    assert_eq!((&again["accepted"], &again["duplicates"]), (&0.into(), &1000.into()), "{again}");
    curfew.cli(&["day", "2026-12-01"]).expect(0);
    assert_eq!(postfix.delivered(), 1000, "handing in a file again sends nothing");
}

#[test]
fn bad_lines_are_named_and_stop_no_other() {
    let postfix = Postfix::start();
    let curfew = curfew(&postfix);
    let rows = rows("renewals-with-errors.csv");
    let expected: Value =
        serde_json::from_slice(&fs::read(example().join("expected-rejects.json")).expect("the expectation can be read")).expect("it is JSON");
    let expected: Vec<(u64, String)> = named(&expected);

    let summary = curfew.cli(&["submit", "renewals-with-errors.csv"]).expect(1).json();
    assert_eq!(named(&summary["errors"]), expected, "{summary}");
    assert_eq!(summary["rejected"], expected.len());
    let good = rows.len() - expected.len();
    assert_eq!(summary["accepted"], good);

    let day = curfew.all_ended(good as u64, DEADLINE);
    assert_eq!((&day["sent"], &day["difference"]), (&good.into(), &0.into()), "{day}");
    let letters = delivered(&postfix, good);
    assert_eq!(letters.len(), good);
    for letter in &letters {
        let job = curfew.job(&letter.job);
        assert_is_of_row(letter, &rows[job["subject_ref"].as_str().unwrap_or_default()]);
    }
}

/// Lines and fields, in order.
fn named(errors: &Value) -> Vec<(u64, String)> {
    let pair = |e: &Value| (e["line"].as_u64().unwrap_or_default(), e["field"].as_str().unwrap_or_default().to_owned());
    let mut all: Vec<_> = errors.as_array().expect("errors are a list").iter().map(pair).collect();
    all.sort();
    all
}
