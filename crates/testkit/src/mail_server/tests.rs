//! The server against a raw client that says byte for byte what a test wants.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::scripts::{always_at, fail_first_rcpt, first_times_at, starttls_injection};
use super::*;

const ENVELOPE: &str = "MAIL FROM:<us@x.example>\r\nRCPT TO:<you@y.example>\r\nDATA\r\n";

struct Client<S> {
    stream: BufReader<S>,
}

impl Client<TcpStream> {
    async fn connect(server: &MailServer) -> Self {
        Self { stream: BufReader::new(TcpStream::connect(server.addr()).await.unwrap()) }
    }

    /// Connected, greeted, EHLO said.
    async fn ready(server: &MailServer) -> Self {
        let mut client = Self::connect(server).await;
        assert!(client.reply().await.starts_with("220 "));
        assert!(client.say("EHLO me.example\r\n").await.contains("PIPELINING"));
        client
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// One whole reply, all its lines; empty at the end of the connection.
    async fn reply(&mut self) -> String {
        self.try_reply().await.unwrap()
    }

    async fn try_reply(&mut self) -> std::io::Result<String> {
        let mut reply = String::new();
        loop {
            let start = reply.len();
            if self.stream.read_line(&mut reply).await? == 0 || reply.as_bytes().get(start + 3) == Some(&b' ') {
                return Ok(reply);
            }
        }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    async fn say(&mut self, text: &str) -> String {
        self.send(text).await;
        self.reply().await
    }

    /// MAIL, RCPT and DATA in one write; their three replies.
    async fn envelope(&mut self) -> [String; 3] {
        self.send(ENVELOPE).await;
        [self.reply().await, self.reply().await, self.reply().await]
    }
}

fn content(job: &str) -> String {
    format!("X-Curfew-Job: {job}\r\nMessage-ID: <{job}@x.example>\r\n\r\nhello\r\n.\r\n")
}

fn connector(pem: &str) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

async fn encrypt(server: &MailServer, stream: TcpStream) -> std::io::Result<Client<TlsStream<TcpStream>>> {
    let connector = connector(&server.ca_pem().unwrap());
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
    Ok(Client { stream: BufReader::new(stream) })
}

#[tokio::test]
async fn a_pipelined_transaction_is_answered_in_order_and_counted_with_its_whole_envelope() {
    let server = MailServer::start(Config::default()).await;
    let mut client = Client::ready(&server).await;
    client.send("MAIL FROM:<us@x.example> SIZE=100 BODY=8BITMIME\r\nRCPT TO:<you@y.example> NOTIFY=NEVER\r\nRCPT TO:<>\r\nDATA\r\n").await;
    for code in ["250 2.1.0", "250 2.1.5", "501", "354"] {
        assert!(client.reply().await.starts_with(code), "{code}");
    }
    assert!(client.say(&content("j1")).await.starts_with("250 2.0.0 Ok: queued as 1M1"));
    client.envelope().await;
    // The end marker and the next group in one write, as a pool under load sends them.
    client.send(&format!("{}RSET\r\n{ENVELOPE}", content("j2"))).await;
    for code in ["250", "250", "250", "250", "354"] {
        assert!(client.reply().await.starts_with(code), "{code}");
    }
    let accepted = server.accepted();
    assert_eq!(accepted.len(), 2);
    assert_eq!(accepted[0].sender, "us@x.example");
    assert_eq!(accepted[0].mail_parameters, "SIZE=100 BODY=8BITMIME");
    assert_eq!(accepted[0].recipients, [Recipient { address: "you@y.example".into(), parameters: "NOTIFY=NEVER".into() }]);
    assert_eq!(accepted[0].message_id.as_deref(), Some("<j1@x.example>"));
    assert_eq!(server.accepted_per_job(), HashMap::from([("j1".into(), 1), ("j2".into(), 1)]));
    assert_eq!(server.accepted_per_recipient(), HashMap::from([("you@y.example".into(), 2)]));
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn a_stuffed_dot_loses_one_and_the_content_is_kept_byte_for_byte() {
    let server = MailServer::start(Config::default()).await;
    let mut client = Client::ready(&server).await;
    client.envelope().await;
    assert!(client.say("A: b\r\n\r\n..\r\n..x\r\nlast .\r\n.\r\n").await.starts_with("250"));
    assert_eq!(String::from_utf8_lossy(&server.accepted()[0].content), "A: b\r\n\r\n.\r\n.x\r\nlast .\r\n");
    assert_eq!(server.accepted()[0].size, 23);
}

#[tokio::test]
async fn a_lost_reply_is_a_counted_message_and_a_real_reset() {
    let server = MailServer::start(Config::scripted(always_at(Stage::Dot, Action::AcceptThenReset))).await;
    let mut client = Client::ready(&server).await;
    client.envelope().await;
    client.send(&content("j1")).await;
    assert_eq!(client.try_reply().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(server.accepted_per_job()["j1"], 1);
}

#[tokio::test]
async fn a_reset_before_the_marker_counts_nothing_and_a_quiet_close_is_no_reset() {
    let server = MailServer::start(Config::scripted(always_at(Stage::Content, Action::Reset))).await;
    let mut client = Client::ready(&server).await;
    client.envelope().await;
    client.send("A: b\r\n").await;
    assert_eq!(client.try_reply().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    server.wait_for("a cut-off content", |all| all.iter().any(|one| one.what == What::CutOff).then_some(())).await;
    assert_eq!((server.accepted_count(), server.cut_off()), (0, 1));

    server.set_script(always_at(Stage::Dot, Action::CloseQuietly));
    let mut client = Client::ready(&server).await;
    client.envelope().await;
    assert_eq!(client.say(&content("j1")).await, "");
    assert_eq!(server.accepted_count(), 0);
}

#[tokio::test]
async fn a_server_that_stops_reading_blocks_the_writer_until_it_is_released() {
    let script = always_at(Stage::Content, Action::StopReading { after: 1_000 });
    let server = MailServer::start(Config { receive_buffer_bytes: Some(8 * 1024), ..Config::scripted(script) }).await;
    let mut client = Client::ready(&server).await;
    client.envelope().await;
    let line = format!("{}\r\n", "x".repeat(98));
    let mut body = line.repeat(200_000);
    body.push_str(".\r\n");
    let (mut from, mut to) = tokio::io::split(client.stream.into_inner());
    let writing = tokio::spawn(async move { to.write_all(body.as_bytes()).await.unwrap() });
    assert_eq!(server.held(Stage::Content).await, 1);
    assert!(!writing.is_finished(), "20 MB fit in no socket buffer");
    server.release();
    writing.await.unwrap();
    let mut reply = [0; 3];
    from.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"250");
    assert_eq!(server.accepted()[0].size, 20_000_000);
}

#[tokio::test]
async fn starttls_begins_anew_under_a_certificate_that_the_authority_signed() {
    let server = MailServer::start(Config { tls: Tls::StartTls, require_tls: true, ..Config::default() }).await;
    let mut client = Client::ready(&server).await;
    assert!(client.say("MAIL FROM:<us@x.example>\r\n").await.starts_with("530"));
    assert!(client.say("STARTTLS\r\n").await.starts_with("220"));
    let mut client = encrypt(&server, client.stream.into_inner()).await.unwrap();
    let offered = client.say("EHLO me.example\r\n").await;
    assert!(!offered.contains("STARTTLS"), "{offered}");
    client.envelope().await;
    assert!(client.say(&content("j1")).await.starts_with("250"));
    assert!(server.accepted()[0].encrypted);
}

#[tokio::test]
async fn implicit_tls_shakes_hands_first_and_wrong_certificates_are_wrong() {
    let server = MailServer::start(Config { tls: Tls::Implicit, ..Config::default() }).await;
    let mut client = encrypt(&server, TcpStream::connect(server.addr()).await.unwrap()).await.unwrap();
    assert!(client.reply().await.starts_with("220"));
    for certificate in [Certificate::WrongName, Certificate::UnknownIssuer, Certificate::Expired] {
        let server = MailServer::start(Config { tls: Tls::Implicit, certificate, ..Config::default() }).await;
        let refused = encrypt(&server, TcpStream::connect(server.addr()).await.unwrap()).await.err();
        let text = refused.expect("this certificate is refused").to_string();
        let wanted = match certificate {
            Certificate::Right => "",
            Certificate::WrongName => "not valid for name",
            Certificate::UnknownIssuer => "UnknownIssuer",
            Certificate::Expired => "expired",
        };
        assert!(text.contains(wanted), "{certificate:?}: {text}");
    }
}

#[tokio::test]
async fn an_injection_arrives_in_plaintext_behind_the_220() {
    let server = MailServer::start(Config { tls: Tls::StartTls, ..Config::scripted(starttls_injection("250 injected")) }).await;
    let mut client = Client::ready(&server).await;
    assert!(client.say("STARTTLS\r\n").await.starts_with("220"));
    assert_eq!(client.reply().await, "250 injected\r\n");
}

#[tokio::test]
async fn a_second_message_under_one_key_is_answered_and_counted_as_a_duplicate() {
    let server = MailServer::start(Config { idempotent: true, ..Config::default() }).await;
    let mut client = Client::ready(&server).await;
    for _ in 0..2 {
        client.envelope().await;
        assert!(client.say("Curfew-Idempotency-Key: k1\r\nX-Curfew-Job: j1\r\n\r\n.\r\n").await.starts_with("250"));
    }
    assert_eq!((server.accepted_count(), server.duplicates()), (1, 1));
    assert_eq!(server.accepted_per_job()["j1"], 1);
}

#[tokio::test]
async fn a_held_reply_comes_when_it_is_released_and_the_message_counts_before() {
    let server = MailServer::start(Config::scripted(first_times_at(Stage::Dot, 1, Action::AcceptThenHold))).await;
    let mut client = Client::ready(&server).await;
    client.envelope().await;
    client.send(&content("j1")).await;
    server.held(Stage::Dot).await;
    assert_eq!(server.accepted_count(), 1);
    server.release();
    assert!(client.reply().await.starts_with("250"));
    client.envelope().await;
    assert!(client.say(&content("j2")).await.starts_with("250"));
}

#[tokio::test]
async fn a_silent_server_notices_a_client_that_leaves() {
    let server = MailServer::start(Config::scripted(always_at(Stage::Rcpt, Action::Silence))).await;
    let mut client = Client::ready(&server).await;
    client.send(ENVELOPE).await;
    assert!(client.reply().await.starts_with("250"));
    server.held(Stage::Rcpt).await;
    drop(client);
    server.wait_for("the end of the connection", |all| all.iter().any(|one| one.what == What::Closed).then_some(())).await;
    server.wait_for("nobody", |_| (server.open_connections() == 0).then_some(())).await;
}

#[tokio::test]
async fn attempts_are_counted_by_recipient_across_connections() {
    let server = MailServer::start(Config::scripted(fail_first_rcpt(1, "451 4.7.1 later"))).await;
    for wanted in ["451", "250"] {
        let mut client = Client::ready(&server).await;
        assert!(client.envelope().await[1].starts_with(wanted));
    }
}

#[tokio::test]
async fn replies_come_in_pieces_twice_as_garbage_or_with_a_farewell() {
    let server = MailServer::start(Config::scripted(always_at(Stage::Noop, Action::drip("250 dripped")))).await;
    let mut client = Client::ready(&server).await;
    assert_eq!(client.say("NOOP\r\n").await, "250 dripped\r\n");
    server.set_script(always_at(Stage::Noop, Action::ReplyTwice));
    assert_eq!(client.say("NOOP\r\n").await, client.reply().await);
    server.set_script(always_at(Stage::Noop, Action::Garbage(b"\xff\xfe".to_vec())));
    client.send("NOOP\r\n").await;
    assert_eq!((client.stream.read_u8().await.unwrap(), client.stream.read_u8().await.unwrap()), (0xff, 0xfe));
    server.set_script(always_at(Stage::Dot, Action::CloseIdle(b"421 4.4.2 idle\r\n".to_vec())));
    client.envelope().await;
    assert!(client.say(&content("j1")).await.starts_with("250"));
    assert_eq!(client.reply().await, "421 4.4.2 idle\r\n");
    assert_eq!(client.reply().await, "");
}

#[tokio::test]
async fn logins_are_checked_and_mail_waits_for_them() {
    let credentials = Some(vec![Credential { user: "me".into(), secret: "secret".into() }]);
    let extensions = Extensions { auth: vec![Mechanism::Plain, Mechanism::Login, Mechanism::XOAuth2], ..Extensions::default() };
    let server = MailServer::start(Config { credentials, extensions, require_auth: true, ..Config::default() }).await;
    let mut client = Client::ready(&server).await;
    assert!(client.say("MAIL FROM:<us@x.example>\r\n").await.starts_with("530"));
    assert!(client.say("AUTH PLAIN AG1lAHdyb25n\r\n").await.starts_with("535"));
    assert!(client.say("AUTH XOAUTH2 dXNlcj1tZQFhdXRoPUJlYXJlciB4AQE=\r\n").await.starts_with("334 "));
    assert!(client.say("\r\n").await.starts_with("535"));
    assert!(client.say("AUTH LOGIN\r\n").await.starts_with("334 "));
    assert!(client.say("bWU=\r\n").await.starts_with("334 "));
    assert!(client.say("c2VjcmV0\r\n").await.starts_with("235"));
    client.envelope().await;
    client.say(&content("j1")).await;
    assert_eq!(server.accepted()[0].user.as_deref(), Some("me"));
}

#[tokio::test]
async fn a_client_that_talks_out_of_turn_is_noted() {
    let server = MailServer::start(Config { extensions: Extensions::none(), ..Config::default() }).await;
    let mut client = Client::connect(&server).await;
    client.reply().await;
    client.say("HELO me.example\r\n").await;
    client.send("MAIL FROM:<us@x.example>\r\nRCPT TO:<you@y.example>\r\n").await;
    client.reply().await;
    client.reply().await;
    let noted = server.violations();
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0].what, What::Violation("a command before the reply to the last one, without PIPELINING"));
}

#[tokio::test]
async fn the_log_file_has_a_line_before_the_reply_and_no_address() {
    let path = std::env::temp_dir().join(format!("curfew-testkit-{}-{}.log", std::process::id(), rand::random::<u64>()));
    let script = always_at(Stage::Dot, Action::AcceptThenSilence);
    let server = MailServer::start(Config { log_file: Some(path.clone()), ..Config::scripted(script) }).await;
    let mut client = Client::ready(&server).await;
    client.envelope().await;
    client.send(&content("j1")).await;
    server.held(Stage::Dot).await;
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(log.starts_with("{\"event\":\"accepted\",\"number\":1,"), "{log}");
    assert!(log.contains("\"job\":\"j1\"") && log.ends_with("}\n"), "{log}");
    assert!(!log.contains("you@y.example"));
}

#[tokio::test]
async fn after_a_shutdown_the_port_is_free_and_the_log_still_speaks() {
    let mut server = MailServer::start(Config::default()).await;
    let mut client = Client::ready(&server).await;
    client.envelope().await;
    client.say(&content("j1")).await;
    server.shutdown().await;
    assert!(matches!(client.try_reply().await, Ok(end) if end.is_empty()));
    assert_eq!(server.accepted_count(), 1);
    let again = MailServer::start(Config { listen: server.addr(), ..Config::default() }).await;
    Client::ready(&again).await;
}

#[tokio::test]
#[should_panic(expected = "stage Quit")]
async fn a_wait_for_what_never_comes_ends_and_says_so() {
    let server = MailServer::start(Config { patience: Duration::from_millis(1), ..Config::default() }).await;
    server.reached(Stage::Quit).await;
}
