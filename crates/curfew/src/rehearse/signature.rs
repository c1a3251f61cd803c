//! Signs a provider's event as CONTRACT says: HMAC-SHA256 over `t + "." + body`.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of `Curfew-Signature`.
pub fn sign(secret: &[u8], t: u64, body: &str) -> String {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(format!("{t}.{body}").as_bytes());
    format!("t={t},v1={}", hex::encode(mac.finalize().into_bytes()))
}
