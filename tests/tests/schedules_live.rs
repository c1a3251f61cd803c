//! Recurring schedules on the whole binary: applied, materialised, sent, paused, and none in another's way.

use std::fs;
use std::time::Duration;

use curfew_testkit::{Config, MailServer};
use curfew_tests::fleet::{Servers, WHOLE};
use curfew_tests::jobs::in_time;
use curfew_tests::wait::until_within;
use curfew_tests::{Curfew, Fleet, Http, Settings, flow};
use serde_json::Value;

const PATH: &str = "/v1/schedules/acme/hourly";
const WAIT: Duration = Duration::from_secs(60);

/// Every hour from a moment on, with a deadline on the day after the next: whatever the time of the test's day.
fn hourly(name: &str, anchor: &str, content: &str, recipients: usize) -> String {
    let recipients: Vec<String> =
        (0..recipients).map(|n| format!("{{ subject_ref = \"{name}-{n}\", address = \"{name}-{n}@example.com\" }}")).collect();
    format!(
        "[[schedule]]\nname = \"{name}\"\ntenant = \"acme\"\npurpose = \"{name}\"\nevery_hours = 1\nanchor = \"{anchor}\"\nzone = \"UTC\"\n\
        deadline = \"12:00\"\ndeadline_days = 2\ncontent = {content}\nrecipients = [{}]\n",
        recipients.join(", ")
    )
}

const WORDS: &str = "{ subject = \"The hour's figures\", text = \"None.\" }";

/// The first slot of its board on the date of its first run.
fn first_run(http: &Http, anchor: &str) -> Value {
    http.get(&format!("{PATH}/runs?date={}", &anchor[..10])).expect(200)["runs"][0].clone()
}

fn put_over(http: &Http, revision: u32, body: &Value) -> u16 {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
    let request = agent.put(format!("{}{PATH}", http.base())).header("if-match", format!("\"{revision}\""));
    request.send(body.to_string().as_bytes()).expect("it answers").status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_applied_sent_once_each_and_paused_while_a_bad_one_stands_beside_it() {
    let mut curfew = Curfew::prepare(Settings::capture());
    let template = curfew.folder().join("templates/gone@1");
    fs::create_dir_all(&template).expect("a folder");
    for (name, text) in [("template.toml", "description = \"goes away\"\n"), ("subject.txt", "Gone\n"), ("text.txt", "Gone.\n")] {
        fs::write(template.join(name), text).expect("written");
    }
    curfew.restart();
    let file = |name: &str, text: &str| fs::write(curfew.folder().join(name), text).expect("written");
    // One whose template goes away while it is paused: it can't be planned any more.
    file("bad.toml", &hourly("bad", &in_time(Duration::from_secs(7200)), "{ template = \"gone@1\" }", 2));
    curfew.cli(&["schedules", "apply", "bad.toml"]).expect(0);
    curfew.cli(&["schedules", "pause", "acme/bad", "--reason", "a test"]).expect(0);
    curfew.kill9();
    fs::remove_dir_all(&template).expect("it goes away");
    curfew.restart();
    curfew.cli(&["schedules", "resume", "acme/bad", "--reason", "a test"]).expect(0);

    let anchor = in_time(Duration::from_secs(4));
    let text = hourly("hourly", &anchor, WORDS, 3);
    fs::write(curfew.folder().join("good.toml"), &text).expect("written");
    let dry = curfew.cli(&["schedules", "apply", "good.toml", "--dry-run", "--json"]).expect(0).json();
    assert_eq!((&dry["made"], curfew.get(PATH).status), (&1.into(), 404), "{dry}");
    let applied = curfew.cli(&["schedules", "apply", "good.toml", "--json"]).expect(0).json();
    assert_eq!((&applied["made"], &applied["refused"]), (&1.into(), &0.into()), "{applied}");
    let again = curfew.cli(&["schedules", "apply", "good.toml", "--json"]).expect(0).json();
    assert_eq!(again["same"], 1, "{again}");

    let run = until_within(WAIT, "the first run, sent", || Some(first_run(curfew.http(), &anchor)).filter(|run| run["sent"] == 3));
    assert_eq!((&run["state"], &run["expected"], &run["planned"], &run["staged"]), (&"made".into(), &3.into(), &0.into(), &0.into()), "{run}");
    let mails = fs::read_dir(curfew.data().join("mail")).expect("there is mail");
    assert_eq!(mails.filter(|m| m.as_ref().is_ok_and(|m| m.path().extension().is_some_and(|e| e == "eml"))).count(), 3);
    let listed = |name: &str| curfew.cli(&["jobs", "list", "--schedule", name, "--state", "sent", "--json"]).expect(0).lines().len();
    assert_eq!((listed("hourly"), listed("bad")), (3, 0));
    let trouble = until_within(WAIT, "the bad one's trouble", || {
        let shown = curfew.cli(&["schedules", "show", "acme/bad", "--json"]).expect(0).json();
        shown["trouble"].as_str().map(str::to_owned)
    });
    assert!(trouble.contains("template"), "{trouble}");

    // Somebody with an old revision in hand is told, and changes nothing.
    let mut body = serde_json::json!({"purpose": "hourly", "every_hours": 2, "anchor": anchor, "zone": "UTC", "deadline": "12:00", "deadline_days": 2,
        "content": {"subject": "The hour's figures", "text": "None."}, "recipients": [{"subject_ref": "hourly-0", "address": "hourly-0@example.com"}]});
    assert_eq!(put_over(curfew.http(), 1, &body), 200);
    body["every_hours"] = 3.into();
    assert_eq!(put_over(curfew.http(), 1, &body), 412);
    assert_eq!(curfew.get(PATH).expect(200)["every_hours"], 2);

    let later = until_within(WAIT, "jobs of later slots", || {
        let planned = curfew.all_jobs("&tenant=acme&state=planned");
        let ours = planned.iter().filter(|job| job["purpose"] == "hourly").count();
        (ours >= 10).then_some(ours)
    });
    let paused = curfew.cli(&["schedules", "pause", "acme/hourly", "--reason", "a test", "--json"]).expect(0).json();
    assert_eq!((&paused["withdrawn"], &paused["schedule"]["state"]), (&later.into(), &"paused".into()), "{paused}");
    assert_eq!(curfew.all_jobs("&tenant=acme&state=planned").len(), 0);
    assert_eq!(curfew.cli(&["schedules", "list", "--json"]).expect(0).lines().len(), 2);
    assert_eq!(curfew.cli(&["schedules", "preview", "acme/hourly", "--count", "4", "--json"]).expect(0).lines().len(), 4);
    let deleted = curfew.cli(&["schedules", "delete", "acme/hourly", "--reason", "a test", "--json"]).expect(0).json();
    assert_eq!(deleted["action"], "delete");
    curfew.cli(&["schedules", "show", "acme/hourly"]).expect(1);
    curfew.cli(&["schedules", "show", "hourly"]).expect(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schedulers_of_a_fleet_make_each_slot_once() {
    let _servers = Servers::shared();
    let server = MailServer::start(Config::sink()).await;
    let mut fleet = Fleet::start(flow::settings(&server), &WHOLE);
    let anchor = in_time(Duration::from_secs(10));
    fs::write(fleet.folder().join("hourly.toml"), hourly("hourly", &anchor, WORDS, 20)).expect("written");
    let applied = fleet.cli(&["schedules", "apply", "hourly.toml", "--json"]).expect(0).json();
    assert_eq!(applied["made"], 1, "{applied}");
    until_within(WAIT, "the first run, sent", || Some(first_run(&fleet, &anchor)).filter(|run| run["sent"] == 20));
    assert_eq!(server.accepted_count(), 20);
    let planned = until_within(WAIT, "a day of slots", || Some(fleet.all_jobs("&tenant=acme").len()).filter(|jobs| *jobs >= 24 * 20));
    let listed = |query: &str| fleet.all_jobs(&format!("&schedule={query}")).len();
    assert_eq!((listed("hourly&tenant=acme"), listed("hourly&tenant=other"), listed("daily")), (planned, 0, 0));
    assert_eq!(planned % 20, 0, "a slot has a job for each recipient, and no other");
    fleet.drains(&WHOLE);
}
