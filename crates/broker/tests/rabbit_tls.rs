//! TLS to the broker: a certificate signed by the configured authority, and none that isn't.

use std::time::Duration;

use curfew_broker::rabbit::{Rabbit, Settings};
use curfew_broker::{Broker, BrokerError, Published, Rung};
use curfew_domain::Shard;
use curfew_testservers::rabbit::Rabbit as Server;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_server_of_the_configured_authority_is_talked_to() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let server = tokio::task::spawn_blocking(move || Server::start_with_tls(&certificate, &key)).await.unwrap();

    let mut settings = Settings::new(server.tls_url(), 1);
    let stranger = Rabbit::start(settings.clone()).unwrap();
    let refused = || async {
        let error = stranger.ready(Duration::from_millis(50)).await.expect_err("the public authorities didn't sign it");
        matches!(&error, BrokerError::Unreachable(why) if why.contains("certificate")).then_some(())
    };
    curfew_testkit::eventually(Duration::from_secs(60), "the certificate is refused", refused).await;

    settings.ca_pem = Some(authority.pem());
    let broker = Rabbit::start(settings).unwrap();
    broker.ready(Duration::from_secs(60)).await.unwrap();
    assert_eq!(broker.publish(Shard(0), vec![(Rung::Now, b"sealed on the way".to_vec())]).await.unwrap(), [Published::Confirmed]);
    let consumer = broker.consume(Shard(0), 1).await.unwrap();
    assert_eq!(consumer.next().await.unwrap().unwrap().body, b"sealed on the way");
}
