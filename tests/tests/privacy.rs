//! Section 9 of the design: what a run writes holds neither an address nor a name nor a body, in any encoding.
//!
//! Searched: logs, metrics, the database and its write-ahead log, every answer of the HTTP API and of the command line but a preview, refusals
//! and the console's pages. That the search finds what is there, a planted address proves.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Config, MailServer, Stage};
use curfew_tests::http::part;
use curfew_tests::jobs::{job, key, ndjson};
use curfew_tests::leaks::{Haystack, Needle, in_folder};
use curfew_tests::{Curfew, Settings, until};
use serde_json::{Value, json};

/// Whom the run writes to: accepted, accepted after a retry, refused with the address in the reply, left in doubt, corrected, suppressed.
const PEOPLE: [(&str, &str, &str); 7] = [
    ("ok", "zdenka.ok-kvapilova@private-mail.example", "Zdenka Kvapilová"),
    ("late", "o'late+plus@private-mail.example", "Séamus O'Latewell"),
    ("gone", "gone.wolanin@private-mail.example", "Ignacy Wolanin"),
    ("doubt", "doubt.xanthos@private-mail.example", "Xanthippe Doubtful"),
    ("idn", "idn.quimby@bücher-privat.example", "Quimby Ünverwechselbar"),
    ("stopped", "stopped.yxan@private-mail.example", "Yxan Stoppedby"),
    ("mended", "mended.vroom@private-mail.example", "Vroom Mendedsen"),
];
/// In the content of every job.
const BODY: &str = "Your salary of 48,213.77 is under review by Mx Body-Secretive.";
const SUBJECT: &str = "Strictly between us: the Subject-Secretive affair";
/// In lines that the door refuses.
const REFUSED: &str = "refused.umlauf@private-mail.example";

fn needles() -> Vec<Needle> {
    let people = PEOPLE.iter().flat_map(|(_, address, name)| [*address, *name]);
    let parts = PEOPLE.iter().filter_map(|(_, address, _)| address.split_once('@')).map(|(local, _)| local);
    let more = [BODY, SUBJECT, "Body-Secretive", "Subject-Secretive", REFUSED, "idn.quimby@xn--bcher-privat-thb.example"];
    people.chain(parts).chain(more).map(Needle::new).collect()
}

/// Replies quote the address, as real servers' do.
fn indiscreet(event: &Event<'_>) -> Action {
    let to = event.recipient.unwrap_or_default();
    let is = |name: &str| to.contains(name);
    match event.stage {
        Stage::Rcpt if is("gone") => Action::reply(&format!("550 5.1.1 <{to}>: Recipient address rejected: User unknown in virtual mailbox table")),
        Stage::Rcpt if is("late") && event.attempt == 1 => Action::reply(&format!("451 4.3.0 <{to}> is busy")),
        Stage::Dot if is("doubt") => Action::AcceptThenReset,
        Stage::Dot if is("ok") => Action::reply(&format!("250 2.0.0 Ok: queued as 4F2A for {to}")),
        _ => Action::Default,
    }
}

fn letter(subject: &str, address: &str, name: &str) -> Value {
    let mut job = job(subject, address);
    job["to"]["name"] = name.into();
    job["content"] = json!({"subject": SUBJECT, "text": BODY, "html": format!("<p>{BODY}</p>")});
    job
}

/// Everything that was answered, for the search.
#[derive(Default)]
struct Answers(Vec<(String, String)>);

impl Answers {
    fn get(&mut self, curfew: &Curfew, path: &str) -> String {
        let answer = curfew.get(path);
        self.0.push((format!("GET {path}"), answer.text.clone()));
        answer.text
    }

    fn post(&mut self, curfew: &Curfew, path: &str, body: &Value) -> Value {
        let answer = curfew.post(path, body);
        self.0.push((format!("POST {path}"), answer.text));
        answer.json
    }

    fn cli(&mut self, curfew: &Curfew, args: &[&str], stdin: &[u8]) {
        let ran = curfew.cli_with(args, stdin);
        self.0.push((args[..2.min(args.len())].join(" "), format!("{}\n{}", ran.stdout, ran.stderr)));
    }
}

/// The door, what it refuses, and what it finds twice.
fn submit(curfew: &Curfew, answers: &mut Answers) {
    for (subject, address, name) in PEOPLE {
        answers.post(curfew, "/v1/jobs", &letter(subject, address, name));
    }
    let (subject, address, name) = PEOPLE[0];
    answers.post(curfew, "/v1/jobs", &letter(subject, address, name));
    answers.post(curfew, "/v1/jobs", &letter(subject, PEOPLE[1].1, name));
    let mut misplaced = letter("misplaced", REFUSED, "");
    misplaced["policy"] = REFUSED.into();
    misplaced[REFUSED] = BODY.into();
    misplaced["deadline_at"] = REFUSED.into();
    answers.post(curfew, "/v1/jobs", &misplaced);
    answers.post(curfew, "/v1/jobs", &letter(REFUSED, REFUSED, "x"));
    answers.post(curfew, "/v1/jobs", &letter("no-address", &format!("{REFUSED} "), "two\r\nlines"));
    answers.cli(curfew, &["submit", "-"], &ndjson(&[misplaced.clone(), letter("line", REFUSED.trim_end_matches(".example"), "x")]));
    let csv = format!("tenant,purpose,to.address,{REFUSED}\nacme,test,{REFUSED},x\n");
    answers.cli(curfew, &["submit", "-", "--format", "csv"], csv.as_bytes());
    answers.cli(curfew, &["submit", "-"], format!("{{\"to\": \"{REFUSED}\n").as_bytes());
}

/// What operators ask and do.
fn operate(curfew: &Curfew, answers: &mut Answers) {
    for (subject, address, _) in PEOPLE {
        answers.get(curfew, &format!("/v1/jobs/{}", part(&key(subject))));
        answers.get(curfew, &format!("/v1/jobs?recipient={}", part(address)));
        answers.cli(curfew, &["jobs", "explain", &key(subject)], b"");
        answers.cli(curfew, &["jobs", "list", "--recipient", address], b"");
    }
    let gone = curfew.item_of(&key("gone"));
    let id = gone["id"].as_str().unwrap_or_default().to_owned();
    answers.0.push(("the item".into(), gone.to_string()));
    answers.get(curfew, &format!("/v1/review/{id}"));
    answers.post(curfew, &format!("/v1/review/{id}/correct"), &json!({"to": PEOPLE[6].1, "reason": "a better address"}));
    answers.post(curfew, &format!("/v1/review/{id}/correct"), &json!({"to": REFUSED.replace('@', " at "), "reason": "a wrong one"}));
    answers.cli(curfew, &["review", "show", &id], b"");
    answers.cli(curfew, &["review", "list"], b"");
    answers.cli(curfew, &["jobs", "list", "--json"], b"");
    answers.cli(curfew, &["audit", "list", "--json"], b"");
    answers.cli(curfew, &["fleet", "status", "--json"], b"");
    answers.cli(curfew, &["day", "2026-12-01", "--json"], b"");
    for path in ["/metrics", "/openapi.json", "/v1/fleet", "/v1/audit", "/v1/review", "/v1/suppressions", "/v1/jobs", "/v1/days/2026-12-01", "/"] {
        answers.get(curfew, path);
    }
    console(curfew, answers);
}

/// Every page that the console links to.
fn console(curfew: &Curfew, answers: &mut Answers) {
    let mut seen = vec!["/".to_owned()];
    let mut next = 0;
    while next < seen.len() && seen.len() < 100 {
        let page = answers.get(curfew, &seen[next].clone());
        next += 1;
        for quoted in page.split("href=\"").skip(1).chain(page.split("src=\"").skip(1)) {
            let link = quoted.split('"').next().unwrap_or_default().to_owned();
            if link.starts_with('/') && !link.starts_with("//") && !seen.contains(&link) {
                seen.push(link);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_run_writes_holds_an_address_a_name_or_a_body() {
    let server = MailServer::start(Config::scripted(indiscreet)).await;
    let mut curfew = Curfew::start(Settings::smtp(server.addr()).text("metrics.listen", "127.0.0.1:0"));
    let mut answers = Answers::default();
    answers.cli(&curfew, &["suppressions", "add", PEOPLE[5].1, "--reason", "asked us to"], b"");
    submit(&curfew, &mut answers);
    for (subject, state) in
        [("ok", "sent"), ("late", "sent"), ("idn", "sent"), ("gone", "dead_letter"), ("doubt", "dead_letter"), ("stopped", "suppressed")]
    {
        curfew.job_in(&key(subject), state);
    }
    until("review items", || (curfew.all_items("").len() >= 2).then_some(()));
    operate(&curfew, &mut answers);
    let first = curfew.log();
    curfew.kill9();
    let needles = needles();
    let mut found = in_folder(curfew.folder(), &needles);
    curfew.restart();
    operate(&curfew, &mut answers);
    curfew.terminate();
    found.extend(in_folder(curfew.folder(), &needles));
    assert!(!first.is_empty() && curfew.data().join("curfew.db").is_file(), "there is something to search");
    assert!(found.is_empty(), "in files: {found:#?}");
    for (asked, text) in &answers.0 {
        let haystack = Haystack::new(text.as_bytes());
        for needle in &needles {
            assert_eq!(needle.found_in(&haystack), None, "{:?} in the answer to {asked}:\n{text}", needle.text());
        }
    }
    plant(&curfew, &needles);
}

/// The same search finds an address that is there.
fn plant(curfew: &Curfew, needles: &[Needle]) {
    for (n, before) in ["", "a", "ab"].iter().enumerate() {
        let planted = curfew.data().join(format!("planted-{n}"));
        fs::write(&planted, STANDARD.encode(format!("{before}{} and more", PEOPLE[1].1))).expect("a file can be written");
        let found = in_folder(curfew.folder(), needles);
        assert!(found.iter().any(|(file, text, _)| *file == planted && text == PEOPLE[1].1), "{found:?}");
        fs::remove_file(planted).expect("a file can be removed");
    }
}

#[test]
fn a_preview_shows_the_content_and_the_trail_says_who_looked() {
    // A transport that nobody listens on: the job is set aside by its deadline.
    let settings = Settings::smtp(([127, 0, 0, 1], 9).into()).set("policies.default.delays", "[]");
    let curfew = Curfew::start(settings);
    let (_, address, name) = PEOPLE[0];
    curfew.submit(&letter("R-1", address, name));
    curfew.job_in(&key("R-1"), "dead_letter");
    let item = curfew.item_of(&key("R-1"));
    let id = item["id"].as_str().unwrap_or_default();
    let shown = curfew.cli(&["review", "preview", id]).expect(0).stdout;
    assert!(shown.contains("Body-Secretive"), "{shown}");
    let trail = curfew.cli(&["audit", "list", "--json", "--limit", "0"]).expect(0).lines();
    assert!(trail.iter().any(|entry| entry["action"] == "preview" && entry["actor"] == "local"), "{trail:#?}");
}
