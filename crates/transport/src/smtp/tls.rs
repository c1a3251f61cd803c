//! TLS of the client's side: whom it trusts, and what a failed handshake says.

use std::io;
use std::sync::Arc;

use curfew_domain::outcome::Outcome;
use curfew_domain::outcome::Stage;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::config::{SmtpConfig, TlsMode};
use super::dial::Stream;
use super::judge;
use super::wire::Wire;
use crate::TransportError;
use crate::classify::Event;

/// What a handshake needs; `None` where the transport never uses TLS.
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads the trusted certificates once, at construction.
    pub(super) fn of(config: &SmtpConfig) -> Result<Option<Self>, TransportError> {
        let verified = match config.tls {
            TlsMode::None => return Ok(None),
            TlsMode::Implicit | TlsMode::Required => true,
            TlsMode::Opportunistic => config.auth.is_some(),
        };
        let name = ServerName::try_from(config.host.clone())
            .map_err(|_invalid| TransportError::Config { field: "url", problem: "the host is neither a domain nor an address".into() })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions");
        let client = if verified {
            builder.with_root_certificates(roots(config)?).with_no_client_auth()
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))).with_no_client_auth()
        };
        Ok(Some(Self { connector: TlsConnector::from(Arc::new(client)), name }))
    }

    /// Shakes hands.
    pub(super) async fn shake_hands(&self, stream: Box<dyn Stream>, until: Instant) -> Result<Wire, Box<Outcome>> {
        match timeout_at(until, self.connector.connect(self.name.clone(), stream)).await {
            Err(_elapsed) => Err(judge::met(Stage::Tls, Event::TimedOut)),
            Ok(Err(error)) => Err(judge::met(Stage::Tls, event_of(&error))),
            Ok(Ok(stream)) => Ok(Wire::Tls(Box::new(stream))),
        }
    }
}

fn roots(config: &SmtpConfig) -> Result<RootCertStore, TransportError> {
    let mut roots = RootCertStore::empty();
    let Some(file) = &config.ca_file else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    let unusable = |operation, source| TransportError::File { field: "ca_file", operation, source };
    let pem = std::fs::read(file).map_err(|error| unusable("reading it", error))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unusable("reading a certificate", io::Error::other(error.to_string())))?;
        roots.add(certificate).map_err(|error| unusable("trusting a certificate", io::Error::other(error)))?;
    }
    if roots.is_empty() {
        return Err(unusable("reading it", io::Error::other("no certificate in it")));
    }
    Ok(roots)
}

/// What a failed handshake says: our set-up is wrong, or the other side broke off.
fn event_of(error: &io::Error) -> Event {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return match super::dialogue::event_of(error) {
            Event::Closed => Event::HandshakeFailed,
            other => other,
        };
    };
    match tls {
        Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => Event::CertificateName,
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => Event::UnknownIssuer,
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented | Error::UnsupportedNameType => Event::CertificateInvalid,
        Error::PeerIncompatible(_) | Error::InvalidMessage(_) => Event::NoCommonTls,
        Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity) => {
            Event::NoCommonTls
        }
        _other => Event::HandshakeFailed,
    }
}

/// Takes any certificate: opportunistic TLS protects against listening, not against a forger, who could hide STARTTLS (RFC 7435).
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
