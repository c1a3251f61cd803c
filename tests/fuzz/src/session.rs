//! Two attempts against a server that says what the fuzzer made up, over a real socket and in virtual time.
//!
//! `~` ends a piece. The first piece is the greeting; each further one answers whatever the client wrote, or comes by itself when nothing
//! was written for a while. When all is said the server listens on.

use std::time::Duration;

use curfew_domain::outcome::{Outcome, OutcomeClass};
use curfew_transport::conformance::{Fixed, ample, parcel};
use curfew_transport::smtp::{SmtpConfig, SmtpTransport, Timeouts, TlsMode};
use curfew_transport::{Acceptance, HandOff, Look, Parcel, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

const PHASE: Duration = Duration::from_secs(2);
/// After this silence of the client the server says its next piece unasked.
const UNASKED: Duration = Duration::from_millis(200);
const CONNECTIONS_MAX: usize = 8;
const MARKER: &[u8] = b"\r\n.\r\n";

/// No attempt hangs, and none is called accepted that the server can't have accepted.
pub fn smtp_session(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(session(bytes.to_vec()));
}

async fn session(says: Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let script = says.clone();
    let server = tokio::spawn(async move { serve(listener, script).await });
    let transport = transport(port);
    let mut accepted = 0;
    for number in 1..=2 {
        let began = Instant::now();
        let ended = attempt(&transport, &parcel(number)).await;
        assert!(began.elapsed() <= transport.attempt_max(), "an attempt took {:?}", began.elapsed());
        accepted += usize::from(ended.is_some_and(|acceptance| is_plausible(&acceptance)));
    }
    transport.close().await;
    drop(transport);
    let heard = timeout(Duration::from_secs(60), server).await.expect("the server ends").expect("the server doesn't panic");
    // Pieces are said again on each connection, so what one connection offers bounds nothing; what was written does.
    let markers = heard.windows(MARKER.len()).filter(|w| *w == MARKER).count();
    assert!(accepted <= markers, "{accepted} accepted, {markers} end markers written");
    assert!(accepted == 0 || offers(&says, b"354") && offers(&says, b"25"), "accepted by a server that never said so");
}

fn offers(says: &[u8], code: &[u8]) -> bool {
    says.split(|b| matches!(b, b'\n' | b'~')).any(|line| line.starts_with(code))
}

fn is_plausible(acceptance: &Acceptance) -> bool {
    assert!((250..=252).contains(&acceptance.code) && acceptance.text.len() <= 200 && !acceptance.text.contains('@'), "{acceptance:?}");
    true
}

fn transport(port: u16) -> SmtpTransport {
    let mut config = SmtpConfig::new("127.0.0.1", port);
    config.tls = TlsMode::None;
    config.hello = "client.example".into();
    config.timeouts = Timeouts { connect: PHASE, tls: PHASE, reply: PHASE, block: PHASE, end: PHASE, noop: PHASE, quit: UNASKED };
    SmtpTransport::with_any_timeouts(config, None).expect("the configuration is good")
}

async fn attempt(transport: &SmtpTransport, parcel: &Parcel) -> Option<Acceptance> {
    let prepared = match transport.prepare(parcel, &ample()).await {
        Ok(prepared) => prepared,
        Err(outcome) => return certain(&outcome),
    };
    match prepared.hand_off(&mut Fixed::new(Look::Go)).await {
        HandOff::Accepted(acceptance) => Some(acceptance),
        HandOff::NotAccepted(outcome) => certain(&outcome),
        HandOff::Unknown(outcome) => {
            assert_eq!(outcome.class, OutcomeClass::Ambiguous);
            None
        }
    }
}

fn certain(outcome: &Outcome) -> Option<Acceptance> {
    assert!(!matches!(outcome.class, OutcomeClass::Accepted | OutcomeClass::Ambiguous), "{outcome:?}");
    assert!(!outcome.diagnostic.contains('@'), "{outcome:?}");
    None
}

/// Everything that clients wrote.
async fn serve(listener: TcpListener, says: Vec<u8>) -> Vec<u8> {
    let mut heard = Vec::new();
    for _connection in 0..CONNECTIONS_MAX {
        match timeout(Duration::from_secs(5), listener.accept()).await {
            Ok(Ok((stream, _peer))) => converse(stream, &says, &mut heard).await,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    heard
}

async fn converse(mut stream: TcpStream, says: &[u8], heard: &mut Vec<u8>) {
    let mut room = [0; 4096];
    for piece in says.split(|b| *b == b'~') {
        if stream.write_all(piece).await.is_err() {
            return;
        }
        match timeout(UNASKED, stream.read(&mut room)).await {
            Ok(Ok(0)) | Ok(Err(_)) => return,
            Ok(Ok(read)) => heard.extend_from_slice(&room[..read]),
            Err(_silence) => {}
        }
    }
    drop(stream.shutdown().await);
    while let Ok(Ok(read @ 1..)) = timeout(2 * PHASE, stream.read(&mut room)).await {
        heard.extend_from_slice(&room[..read]);
    }
}
