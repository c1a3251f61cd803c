//! A provider's signature: `Curfew-Signature: t=<unix s>,v1=<hex HMAC-SHA256(secret, t + "." + body)>`, `t` within five minutes.

use curfew_domain::Moment;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::limits::SIGNATURE_AGE_MAX;

/// The header's name.
pub(crate) const HEADER: &str = "curfew-signature";

/// The header's value for a body sent at `t`, in seconds since the epoch: for providers' bridges and for tests.
pub fn sign(secret: &[u8], t: i64, body: &[u8]) -> String {
    format!("t={t},v1={}", hex::encode(mac(secret, &t.to_string(), body).finalize().into_bytes()))
}

/// Whether the header fits the body, by the ledger's clock. Compared in constant time.
pub(crate) fn is_valid(secret: &[u8], header: &str, body: &[u8], now: Moment) -> bool {
    let mut t = None;
    let mut signatures = Vec::new();
    for part in header.split(',') {
        match part.trim().split_once('=') {
            Some(("t", value)) if t.is_none() => t = Some(value),
            Some(("v1", value)) => signatures.push(value),
            Some(_) | None => {}
        }
    }
    let Some((t, at)) = t.and_then(|t| t.parse::<i64>().ok().map(|s| (t, Moment::from_millis(s.saturating_mul(1000))))) else { return false };
    let near = at.since(now).max(now.since(at)) <= SIGNATURE_AGE_MAX;
    near && signatures.iter().take(4).any(|s| hex::decode(s).is_ok_and(|s| mac(secret, t, body).verify_slice(&s).is_ok()))
}

fn mac(secret: &[u8], t: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(t.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_body_its_secret_and_five_minutes() {
        let now = Moment::from_millis(1_800_000_000_000);
        let t = 1_800_000_000;
        let good = sign(b"s", t, b"{}");
        assert!(is_valid(b"s", &good, b"{}", now));
        assert!(is_valid(b"s", &sign(b"s", t - 300, b"{}"), b"{}", now));
        assert!(is_valid(b"s", &sign(b"s", t + 300, b"{}"), b"{}", now));
        assert!(!is_valid(b"s", &sign(b"s", t - 301, b"{}"), b"{}", now));
        assert!(!is_valid(b"s", &sign(b"s", t + 301, b"{}"), b"{}", now));
        assert!(!is_valid(b"x", &good, b"{}", now));
        assert!(!is_valid(b"s", &good, b"{ }", now));
        assert!(is_valid(b"s", &good.replace("v1=", "v1=00,v1="), b"{}", now));
        for bad in
            ["", "t=1", "v1=00", &good.replace("t=1800000000", "t=1800000001"), "t=x,v1=y", "t=9223372036854775807,v1=00", &good[..good.len() - 2]]
        {
            assert!(!is_valid(b"s", bad, b"{}", now), "{bad}");
        }
    }
}
