//! A server that is silent, resets, talks nonsense, repeats itself: every case ends in its class, nothing hangs, and no reply is read as
//! another mail's.
#![expect(clippy::unwrap_used, reason = "a test panics where what it arranged fails")]

mod smtp_support;

use std::sync::Arc;
use std::time::Duration;

use curfew_domain::OutcomeClass;
use curfew_domain::outcome::Stage as At;
use curfew_testkit::mail_server::{Credential, Event, Mechanism as Offer, Tls, scripts};
use curfew_testkit::{Action, Config, Dice, MailServer, Stage, seed};
use curfew_transport::conformance::{Fixed, ample, parcel};
use curfew_transport::smtp::{Login, Mechanism, Secret, TlsMode};
use curfew_transport::{Bounds, HandOff, HandOffStage, Look, Parcel, Transport};
use smtp_support::{Ended, attempt, class, compare, config, transport};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Everything that a case may take on a busy machine: all phases, each with its short bound.
const CASE_MAX: Duration = Duration::from_secs(60);

/// A parcel with a body of this many bytes, so that no buffer takes it whole.
fn large(number: u32, bytes: usize) -> Parcel {
    let mut parcel = parcel(number);
    let line = [&[b'x'; 70][..], b"\r\n"].concat();
    let body = line.repeat(bytes / line.len() + 1);
    parcel.bytes = Arc::from([&parcel.bytes[..], &body].concat());
    parcel
}

/// One attempt at a server with STARTTLS and a login, that does this at this stage; how it ended and how many mails the server counted.
async fn meet(stage: Stage, action: Action) -> (Ended, u64) {
    let (offer, user) = (Offer::Plain, "user");
    let mut server_config = Config::scripted(scripts::always_at(stage, action));
    server_config.tls = Tls::StartTls;
    server_config.extensions.auth = vec![offer];
    server_config.credentials = Some(vec![Credential { user: user.into(), secret: "secret".into() }]);
    server_config.receive_buffer_bytes = Some(64 * 1024);
    let server = MailServer::start(server_config).await;
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, server.ca_pem().unwrap()).unwrap();
    let mut config = config(&server);
    config.host = "localhost".into();
    config.tls = TlsMode::Required;
    config.ca_file = Some(ca_file);
    config.auth = Some(Login { mechanism: Mechanism::Plain, user: user.into(), password: Secret::new("secret") });
    let transport = transport(config);
    let parcel = if stage == Stage::Content { large(1, 16 << 20) } else { parcel(1) };
    let ended = timeout(CASE_MAX, attempt(&transport, &parcel)).await.unwrap_or_else(|_| panic!("hangs at {stage:?}"));
    (ended, server.accepted_count())
}

/// Every case at once: most of their time is waiting.
async fn table(cases: Vec<(Stage, Action, OutcomeClass, At)>) {
    let mut running = JoinSet::new();
    for (stage, action, expected, at) in cases {
        running.spawn(async move {
            let case = format!("{action:?} at {stage:?}");
            let (ended, accepted) = meet(stage, action).await;
            assert_eq!(class(&ended), expected, "{case}: {ended:?}");
            if let Err(outcome) = &ended {
                // A connection that is reset at once is met while connecting or while waiting for the greeting.
                let early = at == At::Greeting && outcome.stage == At::Connect;
                assert!(outcome.stage == at || early, "{case}: {outcome:?}");
            }
            assert!(accepted <= 1, "{case}");
            if !matches!(expected, OutcomeClass::Accepted | OutcomeClass::Ambiguous) {
                assert_eq!(accepted, 0, "{case}");
            }
        });
    }
    while let Some(case) = running.join_next().await {
        case.unwrap();
    }
}

const BEFORE_CONTENT: [(Stage, At); 9] = [
    (Stage::Connect, At::Greeting),
    (Stage::Greeting, At::Greeting),
    (Stage::Ehlo, At::Ehlo),
    (Stage::StartTls, At::Starttls),
    (Stage::TlsHandshake, At::Tls),
    (Stage::Auth, At::Auth),
    (Stage::Mail, At::Mail),
    (Stage::Rcpt, At::Rcpt),
    (Stage::Data, At::Data),
];

fn at_each(action: &Action) -> Vec<(Stage, Action, OutcomeClass, At)> {
    BEFORE_CONTENT.iter().map(|(stage, at)| (*stage, action.clone(), OutcomeClass::Transient, *at)).collect()
}

/// Incident 59 (mikel/mail#1427, sidekiq/sidekiq#184): a default without timeouts, stuck workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silence_ends_within_its_phase_and_is_in_doubt_only_after_the_marker() {
    let mut cases = at_each(&Action::Silence);
    cases.push((Stage::Content, Action::StopReading { after: 1 }, OutcomeClass::Transient, At::Content));
    cases.push((Stage::Dot, Action::Silence, OutcomeClass::Ambiguous, At::Dot));
    cases.push((Stage::Dot, Action::AcceptThenSilence, OutcomeClass::Ambiguous, At::Dot));
    cases.push((Stage::Quit, Action::Silence, OutcomeClass::Accepted, At::Quit));
    table(cases).await;
}

/// Incident 5 (pimalaya/core#46): the client couldn't tell the phase and resent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_is_transient_before_the_marker_and_in_doubt_after_it() {
    let mut cases = Vec::new();
    for action in [Action::Reset, Action::CloseQuietly] {
        cases.extend(at_each(&action));
        cases.push((Stage::Content, action.clone(), OutcomeClass::Transient, At::Content));
        cases.push((Stage::Dot, action.clone(), OutcomeClass::Ambiguous, At::Dot));
        cases.push((Stage::Quit, action, OutcomeClass::Accepted, At::Quit));
    }
    cases.push((Stage::Dot, Action::AcceptThenReset, OutcomeClass::Ambiguous, At::Dot));
    cases.push((Stage::Dot, Action::AcceptThenClose, OutcomeClass::Ambiguous, At::Dot));
    table(cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_no_verdict() {
    let garbage = || Action::Garbage(b"\xff\x00 <html>what?</html>\r\n".to_vec());
    let mut cases: Vec<_> =
        at_each(&garbage()).into_iter().filter(|case| !matches!(case.0, Stage::Connect | Stage::TlsHandshake | Stage::Greeting)).collect();
    cases.push((Stage::Greeting, garbage(), OutcomeClass::Configuration, At::Greeting));
    cases.push((Stage::Dot, garbage(), OutcomeClass::Ambiguous, At::Dot));
    // Digits that promise and words that never end.
    cases.push((Stage::Dot, Action::raw("250-first line\r\n251 another\r\n"), OutcomeClass::Ambiguous, At::Dot));
    cases.push((Stage::Dot, Action::raw("250-".repeat(40_000)), OutcomeClass::Ambiguous, At::Dot));
    cases.push((Stage::Dot, Action::reply("354 go on"), OutcomeClass::Ambiguous, At::Dot));
    cases.push((Stage::Dot, Action::reply("221 bye"), OutcomeClass::Ambiguous, At::Dot));
    table(cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_in_pieces_is_one_reply() {
    let pieces = [
        (Stage::Greeting, "220 mail.example ESMTP"),
        (Stage::StartTls, "220 2.0.0 go ahead"),
        (Stage::Auth, "235 2.7.0 welcome"),
        (Stage::Mail, "250 2.1.0 ok"),
        (Stage::Rcpt, "250 2.1.5 ok"),
        (Stage::Data, "354 go on"),
        (Stage::Dot, "250 2.0.0 Ok: queued as 4ZK3QH5xYz"),
    ];
    table(pieces.into_iter().map(|(stage, line)| (stage, Action::drip(line), OutcomeClass::Accepted, At::Dot)).collect()).await;
}

#[tokio::test]
async fn the_text_of_a_reply_may_be_anything_and_the_queue_id_is_kept() {
    let mut server = MailServer::start(Config::scripted(scripts::always_at(
        Stage::Dot,
        Action::raw(&b"250-caf\xe9 <ada@rcpt.example>\r\n250 queued as 4ZK3QH5xYz\r\n"[..]),
    )))
    .await;
    let acceptance = attempt(&transport(config(&server)), &parcel(1)).await.unwrap();
    assert_eq!((acceptance.code, acceptance.queue_id.as_deref()), (250, Some("4ZK3QH5xYz")));
    assert!(!acceptance.text.contains("ada"), "{acceptance:?}");
    server.shutdown().await;
}

/// Incident 1 (postalserver/postal#3016): delivered although logged as a soft failure, up to five copies.
#[tokio::test]
async fn an_answer_after_the_timeout_leaves_one_copy_and_a_doubt() {
    let server = MailServer::start(Config::scripted(scripts::first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let transport = transport(config(&server));
    let doubted = parcel(1);
    let ended = attempt(&transport, &doubted).await;
    assert_eq!(class(&ended), OutcomeClass::Ambiguous);
    server.release();
    assert_eq!((server.accepted_count(), server.connections()), (1, 1));
    let next = parcel(2);
    let later = attempt(&transport, &next).await;
    assert_eq!((class(&later), server.connections()), (OutcomeClass::Accepted, 2));
    compare(&server, &[(doubted, ended), (next, later)]);
}

/// Incident 2 (postalserver/postal#295): a slow receiver got the same mail nine times.
#[tokio::test]
async fn a_slow_answer_within_the_timeout_is_an_acceptance() {
    let server = MailServer::start(Config::scripted(scripts::always_at(Stage::Dot, Action::AcceptThenHold))).await;
    let mut config = config(&server);
    config.timeouts.end = CASE_MAX;
    let transport = transport(config);
    let slow = parcel(1);
    let (ended, _) = tokio::join!(attempt(&transport, &slow), async {
        server.held(Stage::Dot).await;
        server.release();
    });
    assert_eq!(class(&ended), OutcomeClass::Accepted);
    assert_eq!(server.accepted_count(), 1);
}

/// Incident 11 (foxcpp/maddy#23): the server delivered certain messages and never acknowledged them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_unacknowledged_mails_are_in_doubt_and_the_others_flow() {
    let unlucky: Vec<String> = [3, 7].map(|number| parcel(number).job_id.to_string()).into();
    let script = move |event: &Event<'_>| {
        let hit = event.stage == Stage::Dot && event.job.is_some_and(|job| unlucky.iter().any(|one| one == job));
        if hit { Action::AcceptThenSilence } else { Action::Default }
    };
    let server = MailServer::start(Config::scripted(script)).await;
    let transport = Arc::new(transport(config(&server)));
    let mut verdicts = Vec::new();
    for number in 1..=10 {
        let parcel = parcel(number);
        verdicts.push((parcel.clone(), attempt(&transport, &parcel).await));
    }
    for (at, (_, ended)) in verdicts.iter().enumerate() {
        let expected = if matches!(at + 1, 3 | 7) { OutcomeClass::Ambiguous } else { OutcomeClass::Accepted };
        assert_eq!(class(ended), expected, "{ended:?}");
    }
    assert_eq!(server.accepted_count(), 10);
    compare(&server, &verdicts);
}

/// Incident 59: fifty workers stall in each phase, and go on when the server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_stalled_workers_recover() {
    let server = MailServer::start(Config::default()).await;
    let mut config = config(&server);
    config.max_connections = 10;
    let transport = Arc::new(transport(config));
    let mut number = 0;
    for stage in [Some(Stage::Greeting), Some(Stage::Mail), Some(Stage::Data), None] {
        match stage {
            Some(stage) => server.set_script(scripts::always_at(stage, Action::Silence)),
            None => server.set_script(scripts::obedient()),
        }
        let mut workers = JoinSet::new();
        for _ in 0..50 {
            number += 1;
            let (transport, parcel) = (Arc::clone(&transport), parcel(number));
            workers.spawn(async move {
                let ended = timeout(CASE_MAX, attempt(&transport, &parcel)).await.expect("no worker hangs");
                (parcel, ended)
            });
        }
        let verdicts = workers.join_all().await;
        let expected = if stage.is_some() { OutcomeClass::Transient } else { OutcomeClass::Accepted };
        assert!(verdicts.iter().all(|(_, ended)| class(ended) == expected), "{stage:?}: {verdicts:?}");
        compare(&server, &verdicts);
    }
    assert!(server.open_connections() <= 10);
}

/// A reply that comes twice shifts every later one for whoever doesn't notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_comes_twice_is_never_read_as_another_mails() {
    for stage in [Stage::Greeting, Stage::Ehlo, Stage::Mail, Stage::Rcpt, Stage::Data, Stage::Dot, Stage::Rset, Stage::Noop] {
        for pipelining in [true, false] {
            let script = move |event: &Event<'_>| match event.stage {
                // Every third recipient is refused, so that a shifted 250 would make a refused mail a sent one.
                Stage::Rcpt if event.recipient.is_some_and(|to| to.starts_with("r3") || to.starts_with("r6")) => {
                    Action::reply("550 5.1.1 no such user")
                }
                at if at == stage && event.connection % 2 == 1 => Action::ReplyTwice,
                Stage::Connect | Stage::Greeting | Stage::Ehlo | Stage::StartTls | Stage::TlsHandshake | Stage::Auth | Stage::Mail | Stage::Rcpt => {
                    Action::Default
                }
                Stage::Data | Stage::Content | Stage::Dot | Stage::Noop | Stage::Rset | Stage::Quit | Stage::Other => Action::Default,
            };
            let mut server_config = Config::scripted(script);
            server_config.extensions.pipelining = pipelining;
            let server = MailServer::start(server_config).await;
            let mut config = config(&server);
            config.keep.unasked = if stage == Stage::Noop { Duration::ZERO } else { CASE_MAX };
            let transport = transport(config);
            let mut verdicts = Vec::new();
            for number in 1..=9 {
                let parcel = parcel(number);
                verdicts.push((parcel.clone(), timeout(CASE_MAX, attempt(&transport, &parcel)).await.expect("ends")));
            }
            eprintln!("{stage:?} twice, pipelining {pipelining}");
            compare(&server, &verdicts);
            let permanent = verdicts.iter().filter(|(_, ended)| class(ended) == OutcomeClass::Permanent).count();
            assert!(permanent <= 2, "only the refused are refused: {verdicts:?}");
        }
    }
}

/// Two acceptances too many would reach as far as the next mail's end marker, where the server refuses: that mail would be called sent.
#[tokio::test]
async fn surplus_acceptances_are_not_the_next_mails() {
    let thrice = "250 2.0.0 Ok: queued as 4ZK3QH5xYz\r\n".repeat(3);
    for pipelining in [true, false] {
        let thrice = thrice.clone();
        let script = move |event: &Event<'_>| match (event.stage, event.connection, event.message) {
            (Stage::Dot, 1, 1) => Action::raw(thrice.clone()),
            (Stage::Dot, _, _) => Action::reply("451 4.3.0 try later"),
            _ => Action::Default,
        };
        let mut server_config = Config::scripted(script);
        server_config.extensions.pipelining = pipelining;
        let server = MailServer::start(server_config).await;
        let transport = transport(config(&server));
        let mut verdicts = Vec::new();
        for number in 1..=3 {
            verdicts.push((parcel(number), attempt(&transport, &parcel(number)).await));
        }
        let classes: Vec<_> = verdicts.iter().map(|(_, ended)| class(ended)).collect();
        assert_eq!(classes, [OutcomeClass::Accepted, OutcomeClass::Transient, OutcomeClass::Transient]);
        compare(&server, &verdicts);
    }
}

/// Random faults on few connections: the server's log and our verdicts agree, whatever was late, cut, repeated or nonsense.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_random_faults_the_servers_log_and_our_verdicts_agree() {
    let dice = Dice::new(seed());
    let script = move |event: &Event<'_>| {
        let subject = format!("{:?}/{}/{}", event.stage, event.connection, event.message);
        if !dice.happens(6.0, "fault", subject.as_bytes(), event.attempt) {
            return Action::Default;
        }
        match (event.stage, dice.number("which", subject.as_bytes(), event.attempt) % 8) {
            (Stage::Quit | Stage::Connect, _) => Action::Default,
            (Stage::Dot, 0) => Action::AcceptThenReset,
            (Stage::Dot, 1) => Action::AcceptThenClose,
            (Stage::Dot, 2) => Action::CloseIdle(b"421 4.4.2 idle\r\n".to_vec()),
            (Stage::Dot, 3) => Action::reply("451 4.3.0 not now"),
            (Stage::Dot, 4) => Action::drip("250 2.0.0 Ok: queued as AB12CD"),
            (_, 5) => Action::Garbage(b"500-what\r\n250 ok\r\n".to_vec()),
            (_, 6) => Action::Reset,
            (_, 7) => Action::reply("421 4.3.2 going down"),
            (_, _) => Action::ReplyTwice,
        }
    };
    let server = MailServer::start(Config::scripted(script)).await;
    let mut config = config(&server);
    config.max_connections = 8;
    config.timeouts.connect = CASE_MAX;
    let transport = Arc::new(transport(config));
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let transport = Arc::clone(&transport);
        workers.spawn(async move {
            let mut verdicts = Vec::new();
            for number in 0..100 {
                let parcel = parcel(worker * 1_000 + number);
                verdicts.push((parcel.clone(), timeout(CASE_MAX, attempt(&transport, &parcel)).await.expect("ends")));
            }
            verdicts
        });
    }
    let verdicts: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    compare(&server, &verdicts);
    let accepted = verdicts.iter().filter(|(_, ended)| class(ended) == OutcomeClass::Accepted).count();
    assert!(accepted > 400, "{accepted}");
}

/// A refusal that is followed by an acceptance refuses nothing for certain.
#[tokio::test]
async fn a_refusal_with_an_acceptance_behind_it_is_in_doubt() {
    let both = Action::lines(&["451 4.3.0 try later", "250 2.0.0 Ok: queued as 4ZK3QH5xYz"]);
    let server = MailServer::start(Config::scripted(scripts::always_at(Stage::Dot, both))).await;
    let ended = attempt(&transport(config(&server)), &parcel(1)).await;
    assert_eq!(class(&ended), OutcomeClass::Ambiguous, "{ended:?}");
}

/// A server that answers before the end marker has given up: its words are the reason, and no marker is written.
#[tokio::test]
async fn an_early_refusal_of_the_content_is_read_for_its_reason() {
    let server = MailServer::start(Config::scripted(scripts::always_at(Stage::Content, Action::lines(&["552 5.3.4 message too large"])))).await;
    let ended = attempt(&transport(config(&server)), &large(1, 16 << 20)).await.unwrap_err();
    assert_eq!((ended.stage, server.accepted_count()), (At::Content, 0), "{ended:?}");
    assert!(ended.diagnostic.starts_with("552"), "{ended:?}");
}

/// An acceptance that stands there before the marker was written is another mail's.
#[tokio::test]
async fn an_acceptance_before_the_marker_is_nobodys() {
    let twice = Action::lines(&["354 go on", "250 2.0.0 Ok: queued as 4ZK3QH5xYz"]);
    let server = MailServer::start(Config::scripted(scripts::always_at(Stage::Data, twice))).await;
    let ended = attempt(&transport(config(&server)), &parcel(1)).await.unwrap_err();
    assert_eq!((ended.class, server.accepted_count()), (OutcomeClass::Transient, 0), "{ended:?}");
}

#[tokio::test]
async fn at_stop_the_server_sees_a_content_without_an_end() {
    let server = MailServer::start(Config::default()).await;
    let transport = transport(config(&server));
    let prepared = transport.prepare(&large(1, 1 << 20), &ample()).await.unwrap();
    let progress = prepared.stage();
    let verdict = prepared.hand_off(&mut Fixed::new(Look::Stop)).await;
    assert!(matches!(verdict, HandOff::NotAccepted(_)), "{verdict:?}");
    assert_eq!(progress.get(), HandOffStage::Content);
    server.wait_for("the connection's end", |all| all.iter().any(|one| one.what == curfew_testkit::mail_server::What::Closed).then_some(())).await;
    assert_eq!((server.cut_off(), server.accepted_count(), server.times_reached(Stage::Dot)), (1, 0, 0));
}

#[tokio::test]
async fn the_deadline_ends_every_phase_before_its_own_bound() {
    for stage in [Stage::Greeting, Stage::Ehlo, Stage::Rcpt] {
        let server = MailServer::start(Config::scripted(scripts::always_at(stage, Action::Silence))).await;
        let mut config = config(&server);
        config.timeouts.reply = 10 * CASE_MAX;
        let transport = transport(config);
        let bounds = Bounds { deadline: Instant::now() + Duration::from_millis(200) };
        let parcel = parcel(1);
        let ended = timeout(CASE_MAX, transport.prepare(&parcel, &bounds)).await.expect("the deadline ends it");
        assert_eq!(ended.err().map(|outcome| outcome.class), Some(OutcomeClass::Transient));
    }
}
