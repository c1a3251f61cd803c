//! Who asks. With operators: a bearer token. Without: this machine alone, by the Host it names, and no web page through a browser.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::api::Api;
use crate::problem::Problem;

/// A person or a program with a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Operator {
    /// Stands in the audit trail.
    pub name: String,
    /// SHA-256 of the token.
    pub token_hash: [u8; 32],
    /// What it may do; kept, not yet told apart.
    pub roles: Vec<String>,
    /// Whose jobs it may see; kept, not yet told apart.
    pub tenants: Vec<String>,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("name", &self.name).field("roles", &self.roles).field("tenants", &self.tenants).finish_non_exhaustive()
    }
}

/// Who asked: an operator's name, or `local`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Actor(pub String);

/// Without operators the API listens on loopback only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is not a loopback address, and no operator is configured: name one ([operators.NAME]), or listen on 127.0.0.1")]
pub struct ListenRefused(pub SocketAddr);

/// Whether the API may listen there.
///
/// # Errors
/// `ListenRefused`: not a loopback address, and nobody needs a token.
pub fn may_listen(addr: SocketAddr, operators: &[Operator]) -> Result<(), ListenRefused> {
    if operators.is_empty() && !addr.ip().is_loopback() { Err(ListenRefused(addr)) } else { Ok(()) }
}

/// Lets a request pass with its actor, or answers it.
pub(crate) async fn guard(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // Probes hold nothing; a provider's event brings its own proof, and comes under its public name.
    if matches!(path, "/healthz" | "/readyz") || path.starts_with("/v1/provider-events/") {
        return next.run(request).await;
    }
    let open = matches!(path, "/metrics" | "/openapi.json");
    let actor = if api.operators.is_empty() { local(&request) } else { by_token(&api.operators, request.headers(), open) };
    match actor {
        Ok(actor) => {
            request.extensions_mut().insert(actor);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn by_token(operators: &[Operator], headers: &HeaderMap, open: bool) -> Result<Actor, Problem> {
    if open {
        return Ok(Actor("nobody".to_owned()));
    }
    let refused = || Problem::unauthorized("an operator's bearer token is needed");
    let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).ok_or_else(refused)?;
    let (scheme, token) = given.split_once(' ').ok_or_else(refused)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(refused());
    }
    let hash: [u8; 32] = Sha256::digest(token.trim().as_bytes()).into();
    // Every operator is compared, so that the time says nothing about whose token is nearly right.
    let (mut found, mut at) = (Choice::from(0), 0_u32);
    for (n, operator) in operators.iter().enumerate() {
        let same = operator.token_hash.ct_eq(&hash);
        at = u32::conditional_select(&at, &(n as u32), same);
        found |= same;
    }
    if bool::from(found) { Ok(Actor(operators[at as usize].name.clone())) } else { Err(refused()) }
}

/// A browser on this machine can be made to ask us by any page; it then names the page's host, or its origin.
fn local(request: &Request) -> Result<Actor, Problem> {
    let host = request.headers().get(header::HOST).and_then(|v| v.to_str().ok()).or_else(|| request.uri().authority().map(|a| a.as_str()));
    let host = host.ok_or_else(|| Problem::forbidden("the request has no Host"))?;
    if !is_loopback_host(host) {
        return Err(Problem::forbidden("without operators the API answers to localhost, 127.0.0.1 and [::1] only"));
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let origin = request.headers().get(header::ORIGIN);
    if let Some(origin) = origin.filter(|_| !reads) {
        let ours = origin.to_str().ok().and_then(|o| o.strip_prefix("http://")).is_some_and(|o| o.eq_ignore_ascii_case(host));
        if !ours {
            return Err(Problem::forbidden("a page of another origin asks"));
        }
    }
    Ok(Actor("local".to_owned()))
}

fn is_loopback_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (name, port.strip_prefix(':').or(port.is_empty().then_some("80"))),
            None => return false,
        },
        None => host.split_once(':').map_or((host, Some("80")), |(name, port)| (name, Some(port))),
    };
    let port_fits = port.is_some_and(|p| p.parse::<u16>().is_ok_and(|p| p > 0));
    port_fits && (name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for good in ["localhost", "localhost:7420", "LOCALHOST:7420", "127.0.0.1:7420", "[::1]:7420", "[::1]"] {
            assert!(is_loopback_host(good), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "localhost.example.com",
            "localhost:",
            "localhost:x",
            "127.0.0.1.nip.io:7420",
            "10.0.0.1:7420",
            "[::1",
            "[::2]:1",
            "localhost:0",
            "localhost@evil:1",
        ] {
            assert!(!is_loopback_host(bad), "{bad}");
        }
    }

    #[test]
    fn without_operators_nobody_listens_beyond_loopback() {
        let operator = Operator { name: "alice".into(), token_hash: [0; 32], roles: vec![], tenants: vec![] };
        let (near, far) = (SocketAddr::from(([127, 0, 0, 1], 7420)), SocketAddr::from(([0, 0, 0, 0], 7420)));
        assert_eq!(may_listen(near, &[]), Ok(()));
        assert_eq!(may_listen(far, &[]), Err(ListenRefused(far)));
        assert_eq!(may_listen(far, &[operator]), Ok(()));
    }
}
