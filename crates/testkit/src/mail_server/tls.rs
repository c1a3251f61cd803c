//! Certificates for a mail server on loopback: right ones, and wrong ones of each kind.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What the server shows of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Certificate {
    /// Signed by the authority, for `localhost` and 127.0.0.1.
    #[default]
    Right,
    /// Signed by the authority, for `elsewhere.example` alone.
    WrongName,
    /// For the right names, signed by an authority nobody trusts.
    UnknownIssuer,
    /// Right but for its dates: it ended in 2001.
    Expired,
}

/// A certificate authority made for one test; share it between servers to restart one under the same trust.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority with a new key.
    pub fn new() -> Arc<Self> {
        Self::named("Curfew test authority")
    }

    fn named(name: &str) -> Arc<Self> {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("the system gives randomness");
        Arc::new(Self { issuer: CertifiedIssuer::self_signed(params, key).expect("an authority may sign itself") })
    }

    /// The authority's certificate, to write where a client looks for trusted ones.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// What a server needs to shake hands with a certificate of this kind.
    pub(super) fn server_config(&self, certificate: Certificate) -> Arc<ServerConfig> {
        let names: &[&str] = match certificate {
            Certificate::Right | Certificate::UnknownIssuer | Certificate::Expired => &["localhost", "127.0.0.1"],
            Certificate::WrongName => &["elsewhere.example"],
        };
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("these names are valid");
        params.distinguished_name.push(DnType::CommonName, "Curfew test server");
        if certificate == Certificate::Expired {
            params.not_before = rcgen::date_time_ymd(2000, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate().expect("the system gives randomness");
        let signed = match certificate {
            Certificate::UnknownIssuer => params.signed_by(&key, &Authority::named("Curfew untrusted authority").issuer),
            Certificate::Right | Certificate::WrongName | Certificate::Expired => params.signed_by(&key, &self.issuer),
        }
        .expect("an authority may sign");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_no_client_auth()
            .with_single_cert(vec![signed.der().clone()], key)
            .expect("the key belongs to the certificate");
        Arc::new(config)
    }
}
