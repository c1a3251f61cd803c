//! People and letters that must show nowhere, and a day's work with them: what a door takes and refuses, what operators ask and do.
//!
//! Every answer is kept for the search. `leaks.rs` searches.

use std::collections::BTreeSet;

use curfew_testkit::mail_server::Event;
use curfew_testkit::{Action, Stage};
use serde_json::{Value, json};

use crate::http::{Http, part};
use crate::jobs::{in_time, job, key, ndjson};
use crate::leaks::{Found, Needles};
use crate::process::{binary, command, finish};

/// Whom a run writes to: accepted, accepted after a retry, refused with the address in the reply, left in doubt, on the suppressions list,
/// corrected, cancelled.
pub const PEOPLE: [(&str, &str, &str); 8] = [
    ("ok", "zdenka.ok-kvapilova@private-mail.example", "Zdenka Kvapilová"),
    ("late", "o'late+plus@private-mail.example", "Séamus O'Latewell"),
    ("gone", "gone.wolanin@private-mail.example", "Ignacy Wolanin"),
    ("doubt", "doubt.xanthos@private-mail.example", "Xanthippe Doubtful"),
    ("idn", "idn.quimby@bücher-privat.example", "Quimby Ünverwechselbar"),
    ("stopped", "stopped.yxan@private-mail.example", "Yxan Stoppedby"),
    ("mended", "mended.vroom@private-mail.example", "Vroom Mendedsen"),
    ("dropped", "Dropped.Zweig@Private-Mail.example", "Zweig Droppedova"),
];
/// The corrected address.
const MENDED: &str = PEOPLE[6].1;
/// In the content of every job.
const BODY: &str = "Your salary of 48,213.77 is under review by Mx Body-Secretive.";
const SUBJECT: &str = "Strictly between us: the Subject-Secretive affair";
/// In lines that the door refuses.
const REFUSED: &str = "refused.umlauf@private-mail.example";

/// Everything of theirs, whole and in parts.
pub fn needles() -> Needles {
    let mut texts: BTreeSet<&str> = [BODY, SUBJECT, "48,213.77", "Body-Secretive", "Subject-Secretive", REFUSED].into();
    texts.extend(["idn.quimby@xn--bcher-privat-thb.example", "xn--bcher-privat-thb", "bücher-privat", "private-mail", "refused.umlauf"]);
    for (_, address, name) in PEOPLE {
        texts.extend([address, name]);
        texts.extend(address.split_once('@').map(|(local, _)| local));
        // A short name is somebody else's word, too.
        texts.extend(name.split(' ').filter(|part| part.len() > 6));
    }
    Needles::new(texts)
}

/// Replies quote the address, as real servers' do.
pub fn indiscreet(event: &Event<'_>) -> Action {
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

/// A letter that nobody else may read.
pub fn letter(subject: &str, address: &str, name: &str) -> Value {
    let mut job = job(subject, address);
    job["to"]["name"] = name.into();
    job["content"] = json!({"subject": SUBJECT, "text": BODY, "html": format!("<p>{BODY}</p>")});
    job
}

/// Who asks, and everything that was answered.
pub struct Desk {
    http: Http,
    token: Option<String>,
    answers: Vec<(String, String)>,
}

impl Desk {
    /// Asks this API, with this token.
    pub fn new(http: &Http, token: Option<&str>) -> Self {
        let http = token.map_or_else(|| http.clone(), |token| http.with_token(token));
        Self { http, token: token.map(str::to_owned), answers: Vec::new() }
    }

    /// Asks another process's API from now on.
    pub fn turn_to(&mut self, http: &Http) {
        self.http = self.token.as_deref().map_or_else(|| http.clone(), |token| http.with_token(token));
    }

    /// The API that it asks.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// Keeps what was answered somewhere else.
    pub fn keep(&mut self, asked: &str, answer: String) {
        self.answers.push((asked.to_owned(), answer));
    }

    /// GET.
    pub fn get(&mut self, path: &str) -> String {
        let answer = self.http.get(path);
        self.keep(&format!("GET {path}"), answer.text.clone());
        answer.text
    }

    /// POST.
    pub fn post(&mut self, path: &str, body: &Value) {
        let answer = self.http.post(path, body);
        self.keep(&format!("POST {path}"), answer.text);
    }

    /// A verb.
    pub fn cli(&mut self, args: &[&str], stdin: &[u8]) {
        let mut verb = command(&binary(), args, Some(self.http.base()));
        if let Some(token) = &self.token {
            verb.env("CURFEW_TOKEN", token);
        }
        let ran = finish(&mut verb, stdin);
        self.keep(&args[..2.min(args.len())].join(" "), format!("{}\n{}", ran.stdout, ran.stderr));
    }

    /// The door, what it refuses, and what it finds twice; and a job that is cancelled before it is due.
    pub fn submit(&mut self) {
        self.cli(&["suppressions", "add", PEOPLE[5].1, "--reason", "asked us to"], b"");
        for (subject, address, name) in PEOPLE {
            let mut letter = letter(subject, address, name);
            if subject == "dropped" {
                letter["release_at"] = in_time(std::time::Duration::from_secs(1800)).into();
            }
            self.post("/v1/jobs", &letter);
        }
        self.cli(&["jobs", "cancel", &key("dropped"), "--reason", "no longer wanted"], b"");
        let (subject, address, name) = PEOPLE[0];
        self.post("/v1/jobs", &letter(subject, address, name));
        self.post("/v1/jobs", &letter(subject, PEOPLE[1].1, name));
        let mut misplaced = letter("misplaced", REFUSED, "");
        misplaced["policy"] = REFUSED.into();
        misplaced[REFUSED] = BODY.into();
        misplaced["deadline_at"] = REFUSED.into();
        self.post("/v1/jobs", &misplaced);
        self.post("/v1/jobs", &letter(REFUSED, REFUSED, "x"));
        self.post("/v1/jobs", &letter("no-address", &format!("{REFUSED} "), "two\r\nlines"));
        self.cli(&["submit", "-"], &ndjson(&[misplaced, letter("line", REFUSED.trim_end_matches(".example"), "x")]));
        let csv = format!("tenant,purpose,to.address,{REFUSED}\nacme,test,{REFUSED},x\n");
        self.cli(&["submit", "-", "--format", "csv"], csv.as_bytes());
        self.cli(&["submit", "-"], format!("{{\"to\": \"{REFUSED}\n").as_bytes());
    }

    /// Waits until each has come to its end. The corrected address has a job of its own.
    pub fn ended(&self) {
        let sent = ["ok", "late", "idn", "mended"].map(|subject| (subject, "sent"));
        let others = [("gone", "dead_letter"), ("doubt", "dead_letter"), ("stopped", "suppressed"), ("dropped", "cancelled")];
        for (subject, state) in sent.into_iter().chain(others) {
            self.http.job_in(&key(subject), state);
        }
        crate::until("review items", || (self.http.all_items("").len() >= 2).then_some(()));
    }

    /// What operators ask and do.
    pub fn operate(&mut self) {
        for (subject, address, _) in PEOPLE {
            self.get(&format!("/v1/jobs/{}", part(&key(subject))));
            self.get(&format!("/v1/jobs?recipient={}", part(address)));
            self.cli(&["jobs", "explain", &key(subject)], b"");
            self.cli(&["jobs", "list", "--recipient", address], b"");
        }
        let gone = self.http.item_of(&key("gone"));
        let id = gone["id"].as_str().unwrap_or_default().to_owned();
        self.keep("the item", gone.to_string());
        self.get(&format!("/v1/review/{id}"));
        self.post(&format!("/v1/review/{id}/correct"), &json!({"to": MENDED, "reason": "a better address"}));
        self.post(&format!("/v1/review/{id}/correct"), &json!({"to": REFUSED.replace('@', " at "), "reason": "a wrong one"}));
        self.cli(&["review", "show", &id], b"");
        self.cli(&["review", "list"], b"");
        self.cli(&["jobs", "list", "--json"], b"");
        self.cli(&["audit", "list", "--json"], b"");
        self.cli(&["fleet", "status", "--json"], b"");
        self.cli(&["day", "2026-12-01", "--json"], b"");
        for path in ["/metrics", "/openapi.json", "/v1/fleet", "/v1/audit", "/v1/review", "/v1/suppressions", "/v1/jobs", "/v1/days/2026-12-01"] {
            self.get(path);
        }
        self.console();
    }

    /// Every page that the console links to.
    fn console(&mut self) {
        let mut seen = vec!["/".to_owned()];
        let mut next = 0;
        while next < seen.len() && seen.len() < 100 {
            let page = self.get(&seen[next].clone());
            next += 1;
            for quoted in page.split("href=\"").skip(1).chain(page.split("src=\"").skip(1)) {
                let link = quoted.split('"').next().unwrap_or_default().to_owned();
                if link.starts_with('/') && !link.starts_with("//") && !seen.contains(&link) {
                    seen.push(link);
                }
            }
        }
    }

    /// What was found in the answers, by what was asked.
    pub fn leaks(&self, needles: &Needles) -> Vec<(String, Found)> {
        let in_answer = |(asked, answer): &(String, String)| {
            let asked = asked.clone();
            needles.find_in(answer.as_bytes()).into_iter().map(move |found| (asked.clone(), found))
        };
        self.answers.iter().flat_map(in_answer).collect()
    }
}
