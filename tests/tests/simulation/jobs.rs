//! The jobs of a run, and what the mail server does with each: it is written in the address.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::job::{Job, Letter};
use curfew_domain::sealed::Keyring;
use curfew_domain::{JobId, Key, Moment, Shard, form};
use curfew_testkit::mail_server::Event;
use curfew_testkit::sim::World;
use curfew_testkit::{Action, Dice, Stage};
use uuid::Builder;

use crate::SHARDS;

/// All jobs are of this day.
pub const DATE: &str = "2026-12-01";
const TENANTS: [&str; 6] = ["acme", "birch", "cedar", "dogwood", "elm", "fir"];
/// Most are well; the rest meet each fate several times in a batch.
const FATES: [&str; 17] =
    ["ok", "ok", "ok", "ok", "ok", "late", "late", "gone", "lost", "mute", "slow", "slow", "flaky", "busy", "late-dot", "echo", "torn"];

/// A job as the door would accept it now.
pub fn draw(world: &World, keyring: &Keyring, n: u64, now: Moment) -> Job {
    let id = JobId(Builder::from_random_bytes(world.uuid().into_bytes()).into_uuid());
    let tenant = *world.one_of(&TENANTS).expect("some");
    let fate = *world.one_of(&FATES).expect("some");
    let seconds = Duration::from_secs;
    let release_at = match world.below(8) {
        0 | 1 => now.minus(seconds(world.below(5))),
        2..=5 => now.plus(world.between(Duration::ZERO, seconds(40))),
        _later => now.plus(world.between(seconds(40), seconds(120))),
    };
    let deadline_at = release_at.max(now).plus(match world.below(6) {
        0 => world.between(seconds(1), seconds(15)),
        1..=3 => world.between(seconds(15), seconds(90)),
        _patient => world.between(seconds(90), seconds(240)),
    });
    let address = format!("{n}-{fate}@example.com");
    let letter = letter(&address, n, fate);
    let policy = *world.one_of(&["default", "patient", "patient", "quiet"]).expect("some");
    Job {
        id,
        key: Key::parse(&format!("{tenant}/report/{n}/{DATE}")).expect("a key"),
        tenant: tenant.to_owned(),
        purpose: "report".to_owned(),
        subject_ref: n.to_string(),
        business_date: DATE.to_owned(),
        shard: Shard::of_tenant(tenant, SHARDS),
        recipient_ref: keyring.recipient_ref(&address),
        recipient_masked: "…@example.com".to_owned(),
        letter: keyring.seal([n as u8; 24], id.as_bytes(), &form::encode(&letter)),
        content_revision: 1,
        fingerprints: BTreeMap::new(),
        release_at,
        deadline_at,
        local: None,
        policy: policy.to_owned(),
        transport: "default".to_owned(),
        labels: BTreeMap::new(),
        accepted_at: now,
        trace: None,
    }
}

fn letter(address: &str, n: u64, fate: &str) -> Letter {
    Letter {
        to_address: address.to_owned(),
        to_name: None,
        subject: format!("Report {n}"),
        // A long one where the server is to stop reading in its midst: what buffers take doesn't stop it.
        text: Some("A line of the report, and some more of it, so that a small window closes.\n".repeat(if fate == "slow" { 600 } else { 20 })),
        html: None,
        list_unsubscribe: None,
        attachments: Vec::new(),
        template: None,
    }
}

/// A job of a calm time: due at once, with time enough for a circuit that stands open.
pub fn bystander(world: &World, keyring: &Keyring, n: u64, now: Moment) -> Job {
    let mut job = draw(world, keyring, n, now);
    let address = format!("{n}-fine@example.com");
    let letter = letter(&address, n, "fine");
    (job.release_at, job.deadline_at) = (now, now.plus(Duration::from_secs(15 * 60)));
    job.letter = keyring.seal([n as u8; 24], job.id.as_bytes(), &form::encode(&letter));
    job.recipient_ref = keyring.recipient_ref(&address);
    job
}

/// What the server does at a stage: by the fate in the address, and now and then whatever comes, by (seed, stage, subject, attempt) alone.
pub fn script(seed: u64) -> impl Fn(&Event<'_>) -> Action + Send + Sync {
    let dice = Dice::new(seed);
    move |event| {
        let local = event.recipient.and_then(|to| to.split_once('@')).map_or("", |(local, _)| local);
        let fate = local.split_once('-').map_or("", |(_, fate)| fate);
        let subject = if local.is_empty() { event.connection.to_string() } else { local.to_owned() };
        let first = event.attempt == 1;
        let of_fate = match (fate, event.stage) {
            ("late", Stage::Rcpt) if event.attempt <= 2 => Action::reply("451 4.3.0 Mailbox busy, try again later"),
            ("gone", Stage::Rcpt) => Action::reply("550 5.1.1 No such user here"),
            ("busy", Stage::Mail | Stage::Rcpt) if first => Action::reply("421 4.3.2 Service shutting down"),
            ("late-dot", Stage::Dot) if first => Action::reply("452 4.2.2 Mailbox full"),
            ("lost", Stage::Dot) if first => Action::AcceptThenReset,
            ("mute", Stage::Dot) if first => Action::AcceptThenHold,
            ("echo", Stage::Dot) if first => Action::ReplyTwice,
            ("slow", Stage::Content) if event.attempt <= 2 => Action::StopReading { after: 200 },
            ("torn", Stage::Content) if first => Action::Reset,
            ("flaky", stage) if dice.happens(12.0, "flaky", format!("{subject}{stage:?}").as_bytes(), event.attempt) => broken(dice, &subject, event),
            _well => Action::Default,
        };
        if fate != "fine" && of_fate == Action::Default && dice.happens(0.5, "any", format!("{subject}{:?}", event.stage).as_bytes(), event.attempt) {
            return broken(dice, &subject, event);
        }
        of_fate
    }
}

/// A server that dies or misbehaves at a stage.
fn broken(dice: Dice, subject: &str, event: &Event<'_>) -> Action {
    let at_the_end = event.stage == Stage::Dot;
    match dice.number("how", format!("{subject}{:?}", event.stage).as_bytes(), event.attempt) % 8 {
        0 | 1 => Action::Reset,
        2 => Action::CloseQuietly,
        3 => Action::Silence,
        4 if at_the_end => Action::AcceptThenClose,
        5 if at_the_end => Action::AcceptThenSilence,
        6 => Action::ReplyTwice,
        _garbage => Action::Garbage(b"\xff\xfe what?\r\n".to_vec()),
    }
}
