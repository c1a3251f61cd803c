//! Section 9 of the design, on a fleet: what its processes say and what their servers keep holds neither an address nor a name nor a body,
//! and no key, token or password of the configuration, in any encoding.
//!
//! Searched: each process's log, metrics and probes; every answer of the API and of the command line, refusals and pages included; Redis'
//! append-only file and a snapshot; RabbitMQ's data and logs; PostgreSQL's files, write-ahead log and log. A text that was planted in each of
//! them, through the server itself, is found: so the search sees through the way in which it keeps things.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curfew_testkit::mail_server::{Credential, Extensions, Mechanism};
use curfew_testkit::{Config, MailServer};
use curfew_tests::canaries::{Desk, indiscreet, needles};
use curfew_tests::fleet::WHOLE;
use curfew_tests::leaks::{Found, Needles, files, written_since};
use curfew_tests::{Fleet, Settings, process};
use curfew_testservers::redis::Resp;

const SMTP_PASSWORD: &str = "canary-of-smtp-9c41";
const EVENTS_SECRET: &str = "canary-of-events-5d7e";
const POSTGRES_PASSWORD: &str = "canary-of-postgres-1b83";
const REDIS_PASSWORD: &str = "canary-of-redis-77f0";
const RABBIT_PASSWORD: &str = "canary-of-rabbit-e2a6";
/// Where a text is planted.
const PLACES: [&str; 5] = ["an answer", "a log", "postgres", "redis", "rabbit"];

fn planted(place: &str) -> String {
    format!("planted.in-{}@leak.example", place.replace(' ', "-"))
}

/// The configuration's own secrets, and what must be found.
struct Secrets {
    needles: Needles,
    token: String,
}

/// Gives every server a password of its own in the configuration, and the API an operator.
fn secrets(fleet: &Fleet) -> Secrets {
    let operator = process::run(&["operators", "new", "alice", "--json"], b"").expect(0).json();
    let token = operator["token"].as_str().expect("a token").to_owned();
    let mut text = fs::read_to_string(fleet.config()).expect("the configuration can be read");
    let rabbit = fleet.servers.rabbit();
    rabbit.ctl(&["add_user", "fleet", RABBIT_PASSWORD]);
    rabbit.ctl(&["set_permissions", "-p", fleet.vhost(), "fleet", ".*", ".*", ".*"]);
    for (from, to) in [
        ("postgres://curfew@", format!("postgres://curfew:{POSTGRES_PASSWORD}@")),
        // A user without a password takes any.
        ("redis://", format!("redis://default:{REDIS_PASSWORD}@")),
        ("amqp://guest:guest@", format!("amqp://fleet:{RABBIT_PASSWORD}@")),
    ] {
        assert!(text.contains(from), "{from} stands in the configuration");
        text = text.replace(from, &to);
    }
    text.push_str(operator["config"].as_str().expect("lines for the configuration"));
    fs::write(fleet.config(), &text).expect("the configuration can be written");
    let mut found = needles().and_texts([SMTP_PASSWORD, EVENTS_SECRET, POSTGRES_PASSWORD, REDIS_PASSWORD, RABBIT_PASSWORD, &token]);
    found = found.and_texts(PLACES.map(planted));
    let keys = text.split_once("[keys]").expect("a fleet has keys").1;
    for line in keys.lines().take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with("current")) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let key = STANDARD.decode(value.trim().trim_matches('"')).expect("a key is base64");
        found = found.and_bytes(&format!("the key {}", name.trim()), &key);
    }
    Secrets { needles: found, token }
}

async fn mail_server() -> MailServer {
    let extensions = Extensions { auth: vec![Mechanism::Plain], ..Extensions::default() };
    let credentials = Some(vec![Credential { user: "reports".to_owned(), secret: SMTP_PASSWORD.to_owned() }]);
    MailServer::start(Config { extensions, credentials, require_auth: true, ..Config::scripted(indiscreet) }).await
}

fn settings(server: &MailServer) -> Settings {
    Settings::smtp(server.addr())
        .set("ledger.shards", "4")
        .text("worker.lease", "10s")
        .text("transports.default.user", "reports")
        .text("transports.default.password", SMTP_PASSWORD)
        .text("transports.default.events_secret", EVENTS_SECRET)
}

/// What the processes answer beside the API.
fn ask_each(fleet: &Fleet, desk: &mut Desk) {
    for (name, _) in WHOLE {
        for path in ["/metrics", "/readyz", "/healthz"] {
            desk.keep(&format!("{name} {path}"), fleet.probes(name).get(path).text);
        }
    }
    let config = fleet.config().display().to_string();
    for verb in [["check", "--config", &config].as_slice(), &["check", "--config", &config, "--json"], &["config", "show", "--config", &config]] {
        let ran = process::run(verb, b"").expect(0);
        desk.keep(&verb[..2].join(" "), ran.stdout + &ran.stderr);
    }
}

/// A leak in each place, in a form of its own.
async fn plant(fleet: &Fleet, desk: &mut Desk) {
    let [answer, log, postgres, redis, rabbit] = PLACES.map(planted);
    desk.keep("planted", answer.replace('@', "%40"));
    fs::write(fleet.folder().join("worker-9-1.log"), STANDARD.encode(format!("x{log}, and more"))).expect("a log can be written");
    let servers = &fleet.servers;
    servers.postgres.run(&format!("CREATE TABLE leak AS SELECT encode(convert_to('{postgres}', 'UTF8'), 'base64') AS text"));
    assert_eq!(servers.redis.ask(&["SET", "leak", &redis.to_uppercase()]).await, Resp::Text("OK".into()));
    let exchange = format!("rabbit_misc:r(<<\"{}\">>, exchange, <<>>)", fleet.vhost());
    let publish = format!("rabbit_basic:publish({exchange}, <<\"curfew.v1.parked\">>, [{{delivery_mode, 2}}], <<\"{}\">>).", hex::encode(rabbit));
    servers.rabbit().ctl(&["eval", &publish]);
}

/// Brings everything onto the disks.
async fn settle(fleet: &Fleet) {
    let servers = &fleet.servers;
    // A compressed snapshot would hide what it holds.
    servers.redis.ask(&["CONFIG", "SET", "rdbcompression", "no"]).await;
    assert_eq!(servers.redis.ask(&["SAVE"]).await, Resp::Text("OK".into()));
    servers.postgres.run("CHECKPOINT");
    servers.rabbit().stop();
}

/// Each file, by who wrote it; the configuration itself isn't a leak.
fn written(fleet: &Fleet, since: SystemTime) -> Vec<(&'static str, Vec<PathBuf>)> {
    let servers = &fleet.servers;
    let logs = files(fleet.folder()).into_iter().filter(|file| *file != fleet.config()).collect();
    let postgres = servers.postgres.data().parent().map(|folder| written_since(folder, since)).expect("the data folder stands in another");
    vec![
        ("a log", logs),
        ("postgres", postgres),
        ("redis", written_since(servers.redis.folder(), since)),
        ("rabbit", written_since(servers.rabbit().folder(), since)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_fleet_writes_anywhere_holds_an_address_a_body_or_a_secret() {
    let server = mail_server().await;
    let mut fleet = Fleet::prepare(settings(&server));
    let Secrets { needles, token } = secrets(&fleet);
    // A file's time may be a little behind the clock.
    let began = SystemTime::now() - Duration::from_secs(1);
    fleet.run(&WHOLE);
    let mut desk = Desk::new(&fleet, Some(&token));
    desk.submit();
    desk.ended();
    desk.operate();
    // Who starts again finds what was there.
    for name in ["worker-1", "api", "deadletter"] {
        fleet.kill9(name);
        fleet.spawn(name);
        fleet.ready(name);
    }
    desk.turn_to(&fleet);
    desk.operate();
    let stranger = fleet.get("/v1/jobs");
    assert_eq!(stranger.status, 401);
    desk.keep("a stranger", stranger.text);
    let forged = fleet.post_bytes("/v1/provider-events/default", "application/json", &[("curfew-signature", "t=1,v1=00")], b"{\"events\":[]}");
    assert_eq!(forged.status, 401);
    desk.keep("a forged event", forged.text);
    ask_each(&fleet, &mut desk);
    plant(&fleet, &mut desk).await;
    for (name, _) in WHOLE {
        fleet.terminate(name);
    }
    for (name, _) in WHOLE {
        assert_eq!(fleet.ended(name).code(), Some(0), "{name}: {}", fleet.log(name));
    }
    settle(&fleet).await;

    let mut leaks: Vec<(String, Found)> = desk.leaks(&needles);
    let mut seen = BTreeSet::from([("an answer", planted("an answer"))]);
    assert!(leaks.iter().any(|(asked, found)| asked == "planted" && found.text == planted("an answer")), "{leaks:#?}");
    leaks.retain(|(asked, _)| asked != "planted");
    for (place, files) in written(&fleet, began) {
        let bytes: u64 = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|meta| meta.len()).sum();
        println!("{place}: {} files, {bytes} bytes", files.len());
        for (file, found) in needles.in_files(files) {
            if found.text == planted(place) {
                seen.insert((place, found.text));
            } else {
                leaks.push((file.display().to_string(), found));
            }
        }
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
    assert_eq!(seen, PLACES.map(|place| (place, planted(place))).into(), "what was planted is found where it was");
}
