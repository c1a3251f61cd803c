//! The dialogue with a server that does its part: the port's promises, TLS, logins, extensions, and connections that are used again.
#![expect(clippy::unwrap_used, reason = "a test panics where what it arranged fails")]

mod smtp_support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::outcome::Stage as At;
use curfew_domain::{JobId, OutcomeClass};
use curfew_testkit::mail_server::{Certificate, Credential, Event, Mechanism as Offer, Tls, scripts};
use curfew_testkit::{Action, Config, MailServer, Passage, Stage, TcpProxy, eventually};
use curfew_transport::conformance::{self, Provider, ample, parcel};
use curfew_transport::smtp::{Login, Mechanism, Secret, SmtpConfig, SmtpTransport, TlsMode};
use curfew_transport::{Desync, OnDesync, Transport};
use smtp_support::{attempt, class, compare, config, transport};

/// A mail server as the conformance suite sees it.
struct Smtp {
    server: MailServer,
    transport: SmtpTransport,
}

#[async_trait]
impl Provider for Smtp {
    fn transport(&self) -> &dyn Transport {
        &self.transport
    }
    async fn accepted(&self, job: JobId) -> u32 {
        self.server.accepted_per_job().get(&job.to_string()).copied().unwrap_or(0)
    }
    fn can_hold(&self) -> bool {
        true
    }
    async fn hold_verdicts(&self) {
        self.server.set_script(scripts::always_at(Stage::Dot, Action::AcceptThenHold));
    }
    async fn verdict_awaited(&self) {
        self.server.held(Stage::Dot).await;
    }
    async fn release_verdicts(&self) {
        self.server.set_script(scripts::obedient());
        self.server.release();
    }
    fn can_fall_silent(&self) -> bool {
        true
    }
    async fn fall_silent(&self) {
        self.server.set_script(|event: &Event<'_>| if event.stage == Stage::Quit { Action::Default } else { Action::Silence });
    }
}

#[tokio::test]
async fn smtp_keeps_the_ports_promises() {
    for pipelining in [true, false] {
        let mut server_config = Config::default();
        server_config.extensions.pipelining = pipelining;
        let server = MailServer::start(server_config).await;
        let transport = transport(config(&server));
        let provider = Smtp { server, transport };
        conformance::all(&provider).await;
        assert_eq!(provider.server.violations(), []);
    }
}

#[tokio::test]
async fn the_mail_arrives_byte_for_byte_and_the_server_finds_nothing_to_complain_about() {
    for extensions in [curfew_testkit::mail_server::Extensions::default(), curfew_testkit::mail_server::Extensions::none()] {
        let server = MailServer::start(Config { extensions, ..Config::default() }).await;
        let transport = transport(config(&server));
        for number in 1..=3 {
            let mut sent = parcel(number);
            sent.bytes = Arc::from(&b".\r\n..\r\nSubject: x\r\n\r\n.dot\r\nlast.\r\n.\r\n"[..]);
            assert_eq!(class(&attempt(&transport, &sent).await), OutcomeClass::Accepted);
            let got = &server.accepted()[number as usize - 1];
            assert_eq!(
                (&got.content[..], got.sender.as_str(), got.recipients[0].address.as_str()),
                (&sent.bytes[..], sent.from.as_str(), sent.to.as_str())
            );
        }
        assert_eq!((server.violations(), server.connections()), (vec![], 1));
    }
}

/// Incident 69 (upyo#38, MailKit#309, async-smtp#72): one refused recipient aborted all.
#[tokio::test]
async fn a_refused_recipient_is_refused_alone_and_the_connection_serves_on() {
    for pipelining in [true, false] {
        for data in [Action::Default, Action::reply("354 go on, for nobody")] {
            let script = scripts::first_of(vec![
                Box::new(scripts::refuse_recipient("r2@rcpt.example", "550 5.1.1 no such user")),
                Box::new(
                    move |event: &Event<'_>| if event.stage == Stage::Data && event.recipient.is_none() { data.clone() } else { Action::Default },
                ),
            ]);
            let mut server_config = Config::scripted(script);
            server_config.extensions.pipelining = pipelining;
            let server = MailServer::start(server_config).await;
            let transport = transport(config(&server));
            let mut verdicts = Vec::new();
            for number in 1..=4 {
                verdicts.push((parcel(number), attempt(&transport, &parcel(number)).await));
            }
            let classes: Vec<_> = verdicts.iter().map(|(_, ended)| class(ended)).collect();
            assert_eq!(classes, [OutcomeClass::Accepted, OutcomeClass::Permanent, OutcomeClass::Accepted, OutcomeClass::Accepted]);
            assert_eq!((server.violations(), server.connections()), (vec![], 1));
            compare(&server, &verdicts);
        }
    }
}

/// Incident 52 (mox#375): missing SMTPUTF8 was retried for hours.
#[tokio::test]
async fn a_recipient_that_needs_smtputf8_is_refused_at_once_where_it_is_missing_and_named() {
    let mut server_config = Config::default();
    server_config.extensions.smtp_utf8 = false;
    let server = MailServer::start(server_config).await;
    let transport = transport(config(&server));
    let mut müller = parcel(1);
    müller.to = "müller@rcpt.example".into();
    müller.needs_smtputf8 = true;
    let refused = attempt(&transport, &müller).await.unwrap_err();
    assert_eq!((refused.class, refused.rule), (OutcomeClass::Permanent, "smtputf8-missing"));
    assert_eq!(class(&attempt(&transport, &parcel(2)).await), OutcomeClass::Accepted);
    assert_eq!((server.connections(), server.times_reached(Stage::Mail)), (1, 1));
}

#[tokio::test]
async fn extensions_are_used_where_offered() {
    let server = MailServer::start(Config::default()).await;
    let transport = transport(config(&server));
    let mut müller = parcel(1);
    müller.to = "müller@rcpt.example".into();
    müller.needs_smtputf8 = true;
    müller.bytes = Arc::from("Subject: Grüße\r\n\r\nx\r\n".as_bytes());
    assert_eq!(class(&attempt(&transport, &müller).await), OutcomeClass::Accepted);
    let got = &server.accepted()[0];
    assert_eq!(got.mail_parameters, format!("SIZE={} BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID={}", got.size, müller.job_id));
    assert_eq!(got.recipients[0].parameters, "NOTIFY=FAILURE,DELAY");
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn what_would_inject_a_command_or_a_second_mail_never_leaves() {
    let server = MailServer::start(Config::default()).await;
    let transport = transport(config(&server));
    let spoilt: [fn(&mut curfew_transport::Parcel); 5] = [
        |p| p.to = "a@b.example>\r\nRCPT TO:<c@d.example".into(),
        |p| p.from = "a@b.example\r\nDATA".into(),
        |p| p.bytes = Arc::from(&b"x\n.\nMAIL FROM:<>\n"[..]),
        |p| p.bytes = Arc::from(&b"x\r.\r\n"[..]),
        |p| p.to = String::new(),
    ];
    for spoil in spoilt {
        let mut parcel = parcel(1);
        spoil(&mut parcel);
        let refused = attempt(&transport, &parcel).await.unwrap_err();
        assert_eq!(refused.class, OutcomeClass::Permanent, "{refused:?}");
    }
    assert_eq!(server.connections(), 0);
}

/// A server with TLS of this kind, and a transport that trusts its authority.
async fn under_tls(
    server_tls: Tls,
    certificate: Certificate,
    mode: TlsMode,
    change: impl FnOnce(&mut Config, &mut SmtpConfig),
) -> (MailServer, SmtpTransport) {
    let mut server_config = Config { tls: server_tls, certificate, ..Config::default() };
    let mut client = SmtpConfig::new("localhost", 1);
    client.auth = None;
    change(&mut server_config, &mut client);
    let server = MailServer::start(server_config).await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&server);
    config.host = "localhost".into();
    config.tls = mode;
    config.auth = client.auth;
    if let Some(pem) = server.ca_pem() {
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, pem).unwrap();
        config.ca_file = Some(file);
    }
    let transport = transport(config);
    (server, transport)
}

#[tokio::test]
async fn each_way_to_tls_ends_encrypted_or_not_at_all() {
    let rows = [
        (Tls::Implicit, Certificate::Right, TlsMode::Implicit, Ok(true)),
        (Tls::StartTls, Certificate::Right, TlsMode::Required, Ok(true)),
        (Tls::StartTls, Certificate::Right, TlsMode::Opportunistic, Ok(true)),
        (Tls::StartTls, Certificate::UnknownIssuer, TlsMode::Opportunistic, Ok(true)),
        (Tls::None, Certificate::Right, TlsMode::Opportunistic, Ok(false)),
        (Tls::StartTls, Certificate::Right, TlsMode::None, Ok(false)),
        (Tls::None, Certificate::Right, TlsMode::Required, Err(At::Ehlo)),
        (Tls::Implicit, Certificate::WrongName, TlsMode::Implicit, Err(At::Tls)),
        (Tls::StartTls, Certificate::UnknownIssuer, TlsMode::Required, Err(At::Tls)),
        (Tls::StartTls, Certificate::Expired, TlsMode::Required, Err(At::Tls)),
        (Tls::None, Certificate::Right, TlsMode::Implicit, Err(At::Tls)),
    ];
    for (server_tls, certificate, mode, expected) in rows {
        let (server, transport) = under_tls(server_tls, certificate, mode, |_, _| {}).await;
        let ended = attempt(&transport, &parcel(1)).await;
        let case = format!("{server_tls:?} {certificate:?} {mode:?}: {ended:?}");
        match expected {
            Ok(encrypted) => {
                assert!(ended.is_ok(), "{case}");
                assert_eq!(server.accepted()[0].encrypted, encrypted, "{case}");
            }
            Err(stage) => {
                let outcome = ended.unwrap_err();
                assert_eq!((outcome.class, outcome.stage), (OutcomeClass::Configuration, stage), "{case}");
            }
        }
    }
}

/// CVE-2011-0411: plaintext behind the 220 would be read as the answer to the first command under TLS.
#[tokio::test]
async fn plaintext_behind_the_answer_to_starttls_ends_the_connection() {
    let inject = |server: &mut Config, _: &mut SmtpConfig| server.script = Some(Arc::new(scripts::starttls_injection("250 forged")));
    let (server, transport) = under_tls(Tls::StartTls, Certificate::Right, TlsMode::Required, inject).await;
    let outcome = attempt(&transport, &parcel(1)).await.unwrap_err();
    assert_eq!((outcome.class, outcome.stage), (OutcomeClass::Configuration, At::Starttls), "{outcome:?}");
    assert_eq!(server.times_reached(Stage::Mail), 0);
}

#[tokio::test]
async fn each_mechanism_logs_in_and_a_wrong_password_is_a_matter_of_the_set_up() {
    for (mechanism, offer) in [(Mechanism::Plain, Offer::Plain), (Mechanism::Login, Offer::Login), (Mechanism::XOAuth2, Offer::XOAuth2)] {
        for (password, expected) in [("right", OutcomeClass::Accepted), ("wrong", OutcomeClass::Configuration)] {
            let log_in = |server: &mut Config, client: &mut SmtpConfig| {
                server.extensions.auth = vec![offer];
                server.credentials = Some(vec![Credential { user: "user".into(), secret: "right".into() }]);
                (server.require_auth, server.require_tls) = (true, true);
                client.auth = Some(Login { mechanism, user: "user".into(), password: Secret::new(password) });
            };
            let (server, transport) = under_tls(Tls::StartTls, Certificate::Right, TlsMode::Required, log_in).await;
            let ended = attempt(&transport, &parcel(1)).await;
            assert_eq!(class(&ended), expected, "{mechanism:?}: {ended:?}");
            if let Err(outcome) = &ended {
                assert_eq!(outcome.stage, At::Auth);
                assert!(!format!("{outcome:?}").contains("wrong"));
            }
            assert_eq!(server.violations(), []);
        }
    }
}

#[tokio::test]
async fn a_mechanism_that_is_not_offered_is_a_matter_of_the_set_up() {
    let log_in = |_: &mut Config, client: &mut SmtpConfig| {
        client.auth = Some(Login { mechanism: Mechanism::Plain, user: "u".into(), password: Secret::new("p") })
    };
    let (_server, transport) = under_tls(Tls::StartTls, Certificate::Right, TlsMode::Required, log_in).await;
    let outcome = transport.probe().await.unwrap_err();
    assert_eq!((outcome.class, outcome.stage), (OutcomeClass::Configuration, At::Auth));
}

#[tokio::test]
async fn refused_connections_and_unknown_names_have_their_classes() {
    let server = MailServer::start(Config::default()).await;
    let mut gone = config(&server);
    drop(server);
    let refused = attempt(&transport(gone.clone()), &parcel(1)).await.unwrap_err();
    assert_eq!((refused.class, refused.stage), (OutcomeClass::Transient, At::Connect));
    gone.host = "no-such-relay.invalid".into();
    let unknown = transport(gone).probe().await.unwrap_err();
    // A machine without a resolver answers "for now" where one with it answers "never".
    assert!(matches!(unknown.class, OutcomeClass::Configuration | OutcomeClass::Transient), "{unknown:?}");
    assert_eq!(unknown.stage, At::Connect);
}

#[tokio::test]
async fn a_probe_goes_as_far_as_the_login_and_leaves_its_connection_to_the_next_job() {
    let server = MailServer::start(Config::default()).await;
    let transport = transport(config(&server));
    transport.probe().await.unwrap();
    assert_eq!((server.connections(), server.times_reached(Stage::Mail)), (1, 0));
    assert_eq!(class(&attempt(&transport, &parcel(1)).await), OutcomeClass::Accepted);
    assert_eq!(server.connections(), 1);
}

/// Incident 61 (lettre#743): the server closed the idle connection, and the next mail failed.
#[tokio::test]
async fn an_idle_connection_that_the_server_closed_costs_the_next_job_nothing() {
    for farewell in ["421 4.4.2 idle for too long\r\n", "221 closing\r\n", ""] {
        let server = MailServer::start(Config::scripted(scripts::first_times_at(Stage::Dot, 1, Action::CloseIdle(farewell.into())))).await;
        let (desyncs, on_desync) = listener();
        let transport = SmtpTransport::with_any_timeouts(config(&server), Some(on_desync)).unwrap();
        for number in 1..=3 {
            assert_eq!(class(&attempt(&transport, &parcel(number)).await), OutcomeClass::Accepted, "{farewell:?}");
        }
        assert_eq!((server.accepted_count(), server.connections()), (3, 2));
        assert_eq!(desyncs.lock().unwrap().len(), 0);
    }
}

/// The same where the server answers NOOP with its farewell, with nonsense, or not at all, or the first command with a 421.
#[tokio::test]
async fn a_pooled_connection_that_proves_dead_costs_the_next_job_nothing() {
    let noop = Duration::ZERO;
    let never = Duration::from_secs(3_600);
    let rows = [
        (noop, Stage::Noop, Action::reply("221 2.0.0 idle timeout")),
        (noop, Stage::Noop, Action::reply("421 4.4.2 idle timeout")),
        (noop, Stage::Noop, Action::reply("500 what?")),
        (noop, Stage::Noop, Action::Silence),
        (noop, Stage::Noop, Action::Reset),
        (never, Stage::Mail, Action::Reset),
        (never, Stage::Mail, Action::CloseQuietly),
        (never, Stage::Mail, Action::Silence),
        (never, Stage::Mail, Action::reply("421 4.7.0 too many mails on this connection")),
    ];
    for (unasked, stage, action) in rows {
        let case = format!("{action:?} at {stage:?}");
        let script = move |event: &Event<'_>| {
            if event.stage == stage && event.connection == 1 && (stage == Stage::Noop || event.message > 1) {
                action.clone()
            } else {
                Action::Default
            }
        };
        let server = MailServer::start(Config::scripted(script)).await;
        let mut config = config(&server);
        config.keep.unasked = unasked;
        let transport = transport(config);
        let mut verdicts = Vec::new();
        for number in 1..=3 {
            verdicts.push((parcel(number), attempt(&transport, &parcel(number)).await));
        }
        assert!(verdicts.iter().all(|(_, ended)| ended.is_ok()), "{case}: {verdicts:?}");
        assert_eq!(server.connections(), 2, "{case}");
        compare(&server, &verdicts);
    }
}

/// Incident 60 (nodemailer-smtp-pool#7): dead connections filled the pool, and nothing was sent until a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_half_open_connections_recovers_by_itself() {
    let server = MailServer::start(Config::default()).await;
    let proxy = TcpProxy::start(server.addr()).await.unwrap();
    let mut config = config(&server);
    config.port = proxy.addr().port();
    config.keep.unasked = Duration::ZERO;
    let transport = Arc::new(transport(config));
    let round = |from: u32| {
        let transport = Arc::clone(&transport);
        async move {
            let attempts: tokio::task::JoinSet<_> = (from..from + 8)
                .map(|number| {
                    let transport = Arc::clone(&transport);
                    async move { attempt(&transport, &parcel(number)).await.map_err(|outcome| outcome.class) }
                })
                .collect();
            attempts.join_all().await
        }
    };
    assert!(round(0).await.iter().all(Result::is_ok));
    proxy.set(Passage::HalfOpen);
    let dead = round(100).await;
    assert!(dead.iter().all(|ended| matches!(ended, Err(OutcomeClass::Transient))), "{dead:?}");
    proxy.set(Passage::Open);
    let again = round(200).await;
    assert!(again.iter().all(Result::is_ok), "{again:?}");
    assert_eq!(server.accepted_count(), 16);
}

fn listener() -> (Arc<Mutex<Vec<Desync>>>, OnDesync) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&heard);
    (heard, Arc::new(move |desync| into.lock().unwrap().push(desync)))
}

/// A late verdict in the answer to NOOP or RSET, or unasked, belongs to the job before.
#[tokio::test]
async fn a_late_verdict_is_told_about_the_job_before_and_never_read_as_the_next_ones() {
    let late = "250 2.0.0 Ok: queued as 4ZK3QH5xYz";
    let rows =
        [(Duration::ZERO, Stage::Noop, Stage::Dot, Action::reply(late)), (Duration::from_secs(3_600), Stage::Rset, Stage::Rcpt, Action::reply(late))];
    for (unasked, stage, refused_at, action) in rows {
        let script = move |event: &Event<'_>| match event.stage {
            at if at == stage => action.clone(),
            at if at == refused_at && event.recipient == Some("r1@rcpt.example") => Action::reply("451 4.3.0 try later"),
            _ => Action::Default,
        };
        let server = MailServer::start(Config::scripted(script)).await;
        let mut config = config(&server);
        config.keep.unasked = unasked;
        let (desyncs, on_desync) = listener();
        let transport = SmtpTransport::with_any_timeouts(config, Some(on_desync)).unwrap();
        let first = attempt(&transport, &parcel(1)).await;
        assert_eq!(class(&first), OutcomeClass::Transient);
        assert_eq!(class(&attempt(&transport, &parcel(2)).await), OutcomeClass::Accepted);
        assert_eq!(server.connections(), 2);
        let told = desyncs.lock().unwrap().clone();
        // Before the first handoff on a connection there is no job to be told about.
        let expected = if refused_at == Stage::Dot { vec![(parcel(1).job_id, false)] } else { vec![] };
        assert_eq!(told.iter().map(|desync| (desync.job_id, desync.accepted)).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn a_connection_ends_after_its_share_of_mails_and_when_it_idles() {
    let server = MailServer::start(Config::default()).await;
    let mut config = config(&server);
    config.keep.messages = 2;
    config.keep.idle = Duration::from_millis(100);
    let transport = transport(config);
    for number in 1..=4 {
        assert_eq!(class(&attempt(&transport, &parcel(number)).await), OutcomeClass::Accepted);
    }
    assert_eq!(server.connections(), 2);
    transport.probe().await.unwrap();
    eventually(Duration::from_secs(30), "the idle connection's end", || async { (server.open_connections() == 0).then_some(()) }).await;
    assert_eq!(server.times_reached(Stage::Quit), 3);
}

#[tokio::test]
async fn closing_waits_for_no_server_and_takes_no_new_job() {
    let server = MailServer::start(Config::scripted(scripts::always_at(Stage::Quit, Action::Silence))).await;
    let transport = transport(config(&server));
    assert_eq!(class(&attempt(&transport, &parcel(1)).await), OutcomeClass::Accepted);
    tokio::time::timeout(Duration::from_secs(30), transport.close()).await.expect("close ends");
    let refused = transport.prepare(&parcel(2), &ample()).await.err().unwrap();
    assert_eq!(refused.class, OutcomeClass::Transient);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_never_more_connections_than_the_most() {
    let server = MailServer::start(Config::default()).await;
    let mut config = config(&server);
    config.max_connections = 3;
    config.timeouts.connect = Duration::from_secs(60);
    let transport = Arc::new(transport(config));
    let most = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&most);
    server.set_script(move |event: &Event<'_>| {
        let mut most = seen.lock().unwrap();
        *most = event.open_connections.max(*most);
        Action::Default
    });
    let workers: tokio::task::JoinSet<_> = (0..60)
        .map(|number| {
            let transport = Arc::clone(&transport);
            async move { class(&attempt(&transport, &parcel(number)).await) }
        })
        .collect();
    assert!(workers.join_all().await.iter().all(|class| *class == OutcomeClass::Accepted));
    assert_eq!((*most.lock().unwrap(), server.connections()), (3, 3));
}
