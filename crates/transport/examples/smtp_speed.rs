//! Mails per second of the SMTP driver against a sink on this machine.
//!
//! `cargo run --release -p curfew-transport --example smtp_speed -- [mails] [connections] [body bytes]`; `taskset -c 0` puts client and sink
//! on one core.

use std::sync::Arc;
use std::time::Instant;

use curfew_testkit::{Config, MailServer};
use curfew_transport::conformance::{Fixed, ample, parcel};
use curfew_transport::smtp::{SmtpConfig, SmtpTransport, TlsMode};
use curfew_transport::{HandOff, Look, Transport};
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u32>().expect("arguments are whole numbers"));
    let (mails, connections, body_bytes) = (arguments.next().unwrap_or(100_000), arguments.next().unwrap_or(16), arguments.next().unwrap_or(2_000));
    let server = MailServer::start(Config::sink()).await;
    let mut config = SmtpConfig::new("127.0.0.1", server.addr().port());
    config.tls = TlsMode::None;
    config.max_connections = connections as usize;
    config.keep.messages = u32::MAX;
    let transport = Arc::new(SmtpTransport::new(config, None).expect("the defaults are good"));
    let body: Arc<[u8]> = b"The quick brown fox jumps over the lazy dog, once per line.\r\n".repeat(1 + body_bytes as usize / 61).into();
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..connections {
        let (transport, body) = (Arc::clone(&transport), Arc::clone(&body));
        workers.spawn(async move {
            for number in (worker..mails).step_by(connections as usize) {
                let mut parcel = parcel(number);
                parcel.bytes = Arc::clone(&body);
                let prepared = transport.prepare(&parcel, &ample()).await.unwrap_or_else(|outcome| panic!("{outcome:?}"));
                let verdict = prepared.hand_off(&mut Fixed::new(Look::Go)).await;
                assert!(matches!(verdict, HandOff::Accepted(_)), "{verdict:?}");
            }
        });
    }
    workers.join_all().await;
    let took = start.elapsed();
    assert_eq!(server.accepted_count(), u64::from(mails));
    println!(
        "{mails} mails of {} bytes over {connections} connections in {took:.2?}: {:.0} mails/s",
        body.len(),
        f64::from(mails) / took.as_secs_f64()
    );
}
