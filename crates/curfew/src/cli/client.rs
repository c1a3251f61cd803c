//! The HTTP client: one request, one answer or one failure. It never repeats a request by itself.

use std::io;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Method, Request, StatusCode};
use ureq::{Agent, Proxy};

use crate::exit::{Exit, Failure};

/// Where the API is, unless somebody says.
const API_DEFAULT: &str = "http://127.0.0.1:7420";
/// To reach it; who doesn't answer the first byte within it is not there.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// From the last byte sent to the answer's first: an import of 500 lines on a slow disk takes seconds.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// An answer's size; a page of 500 jobs with history is under 10 MiB.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The largest page the API gives.
const PAGE_MAX: usize = 500;

/// A client of one API.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    authorization: Option<String>,
    signature: Option<String>,
    if_match: Option<String>,
}

/// A path under the API; its parts are percent-encoded.
pub struct Path(String);

impl Path {
    /// A path of fixed words.
    pub fn of(words: &'static str) -> Self {
        Self(words.to_owned())
    }

    /// One more part, whatever it holds.
    pub fn part(mut self, part: &str) -> Self {
        self.0.push('/');
        encode(&mut self.0, part);
        self
    }

    /// A query parameter, where there is a value.
    pub fn query(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.0.push(if self.0.contains('?') { '&' } else { '?' });
            self.0.push_str(name);
            self.0.push('=');
            encode(&mut self.0, value);
        }
        self
    }
}

/// Everything but RFC 3986's unreserved characters, so that neither `/` nor `%` nor `..` changes the path.
fn encode(out: &mut String, text: &str) {
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"-_~".contains(&b) || (b == b'.' && text.bytes().any(|b| b != b'.')) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
}

impl Client {
    /// The API by flag, variable or default; the token by `CURFEW_TOKEN`.
    ///
    /// # Errors
    /// Usage, where the URL is none.
    pub fn new(api: Option<&str>) -> Result<Self, Failure> {
        let from_variable = std::env::var("CURFEW_API").ok().filter(|v| !v.is_empty());
        let base = api.map(str::to_owned).or(from_variable).unwrap_or_else(|| API_DEFAULT.to_owned());
        let token = std::env::var("CURFEW_TOKEN").ok().filter(|t| !t.is_empty());
        Self::of(&base, token.as_deref())
    }

    fn of(base: &str, token: Option<&str>) -> Result<Self, Failure> {
        let wrong = || Failure::usage(format!("{base} is no API address; give http://HOST:PORT or https://HOST:PORT"));
        let uri: ureq::http::Uri = base.parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong());
        }
        let plain = host.trim_matches(['[', ']']);
        let loopback = plain == "localhost" || plain.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(if loopback { None } else { Proxy::try_from_env() })
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_recv_response(Some(ANSWER_MAX))
            .timeout_recv_body(Some(ANSWER_MAX))
            .user_agent(concat!("curfew/", env!("CARGO_PKG_VERSION")));
        let authorization = token.map(|t| format!("Bearer {t}"));
        Ok(Self { agent: config.build().new_agent(), base: base.trim_end_matches('/').to_owned(), authorization, signature: None, if_match: None })
    }

    /// Asks.
    ///
    /// # Errors
    /// As `send`.
    pub fn get(&self, path: Path) -> Result<Value, Failure> {
        self.send(&Method::GET, &path, "application/json", Vec::new())
    }

    /// Asks for what may not be there.
    ///
    /// # Errors
    /// As `send`, but for 404.
    pub fn find(&self, path: Path) -> Result<Option<Value>, Failure> {
        let (status, text) = self.ask(&Method::GET, &path, "application/json", Vec::new())?;
        if status == StatusCode::NOT_FOUND { Ok(None) } else { judge(status, &text).map(Some) }
    }

    /// Puts, over the revision that is named; none where nothing stands.
    ///
    /// # Errors
    /// As `send`.
    pub fn put(&self, path: Path, body: &Value, revision: Option<u64>) -> Result<Value, Failure> {
        let with = Self { if_match: revision.map(|revision| format!("\"{revision}\"")), ..self.clone() };
        with.send(&Method::PUT, &path, "application/json", body.to_string().into_bytes())
    }

    /// Tells.
    ///
    /// # Errors
    /// As `send`.
    pub fn post(&self, path: Path, body: &Value) -> Result<Value, Failure> {
        self.send(&Method::POST, &path, "application/json", body.to_string().into_bytes())
    }

    /// Tells what a provider tells, with its signature.
    ///
    /// # Errors
    /// As `send`.
    pub fn post_signed(&self, path: &Path, body: String, signature: &str) -> Result<Value, Failure> {
        let with = Self { signature: Some(signature.to_owned()), ..self.clone() };
        with.send(&Method::POST, path, "application/json", body.into_bytes())
    }

    /// Takes away.
    ///
    /// # Errors
    /// As `send`.
    pub fn delete(&self, path: Path, body: &Value) -> Result<Value, Failure> {
        self.send(&Method::DELETE, &path, "application/json", body.to_string().into_bytes())
    }

    /// Hands in lines.
    ///
    /// # Errors
    /// As `send`; where the answer got lost, the lines may have been accepted.
    pub fn import(&self, path: &Path, lines: Vec<u8>) -> Result<Value, Failure> {
        self.send(&Method::POST, path, "application/x-ndjson", lines)
    }

    /// Gives each item of a list to `item`, following pages, until `limit` (0: all); says whether the list goes on after it.
    ///
    /// # Errors
    /// As `send`, and `item`'s own.
    pub fn each(&self, path: impl Fn() -> Path, limit: usize, mut item: impl FnMut(Value) -> Result<(), Failure>) -> Result<Rest, Failure> {
        let mut left = if limit == 0 { usize::MAX } else { limit };
        let mut cursor: Option<String> = None;
        while left > 0 {
            let size = left.min(PAGE_MAX);
            let mut page = self.get(path().query("limit", Some(&size.to_string())).query("cursor", cursor.as_deref()))?;
            let items = match page.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => items,
                Some(_) | None => return Err(not_curfew("a list without items")),
            };
            let cut = items.len() > left;
            for one in items.into_iter().take(left) {
                left -= 1;
                item(one)?;
            }
            if cut {
                return Ok(Rest::More);
            }
            let next = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
            if next.is_none() || next == cursor {
                return Ok(Rest::Nothing);
            }
            cursor = next;
        }
        Ok(Rest::More)
    }

    /// # Errors
    /// By the answer's status, or `NoAnswer`.
    fn send(&self, method: &Method, path: &Path, content_type: &str, body: Vec<u8>) -> Result<Value, Failure> {
        let (status, text) = self.ask(method, path, content_type, body)?;
        judge(status, &text)
    }

    fn ask(&self, method: &Method, path: &Path, content_type: &str, body: Vec<u8>) -> Result<(StatusCode, String), Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{}", self.base, path.0)).header("accept", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(signature) = &self.signature {
            request = request.header("curfew-signature", signature);
        }
        if let Some(revision) = &self.if_match {
            request = request.header("if-match", revision);
        }
        if !body.is_empty() {
            request = request.header("content-type", content_type);
        }
        let odd = |e: ureq::http::Error| Failure::usage(format!("the request can't be built: {e}"));
        let answer = if body.is_empty() { self.agent.run(request.body(()).map_err(odd)?) } else { self.agent.run(request.body(body).map_err(odd)?) };
        let mut answer = answer.map_err(|e| self.unanswered(&e))?;
        let status = answer.status();
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(|e| self.unanswered(&e))?;
        Ok((status, text))
    }

    fn unanswered(&self, error: &ureq::Error) -> Failure {
        let says = match error {
            ureq::Error::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                format!("{} refuses the connection; is `curfew up` running there?", self.base)
            }
            ureq::Error::Timeout(_) => format!("{} gave no answer in time; what was asked may have happened", self.base),
            ureq::Error::HostNotFound => format!("{}: no such host", self.base),
            other => format!("{} gave no answer: {other}", self.base),
        };
        Failure::no_answer(says)
    }
}

/// What a list has beyond its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// All was given.
    Nothing,
    /// The limit cut it.
    More,
}

fn not_curfew(what: &str) -> Failure {
    Failure::no_answer(format!("the answer is not Curfew's: {what}"))
}

fn judge(status: StatusCode, text: &str) -> Result<Value, Failure> {
    let body: Option<Value> = if text.trim().is_empty() { Some(Value::Null) } else { serde_json::from_str(text).ok() };
    if status.is_success() {
        return body.ok_or_else(|| not_curfew("no JSON"));
    }
    let problem = body.unwrap_or_default();
    let field = |name: &str| problem.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
    let kind = field("type").unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let says = match (field("title"), field("detail")) {
        (_, Some(detail)) => detail.to_owned(),
        (Some(title), None) => title.to_owned(),
        (None, None) => status.to_string(),
    };
    Err(Failure { exit: exit_of(status, kind), says: format!("{says} ({})", status.as_u16()) })
}

/// What a status means for a script. A token that is missing or wrong is a refusal.
fn exit_of(status: StatusCode, kind: &str) -> Exit {
    match status.as_u16() {
        _ if kind == "not-yet" => Exit::NotYet,
        423 | 425 | 429 | 503 => Exit::NotYet,
        502 | 504 => Exit::NoAnswer,
        _ => Exit::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_path_is_one_part_of_it() {
        let path = Path::of("/v1/jobs").part("acme/renewal/R 1/2026-12-01").part("..").query("q", Some("ä&b")).query("none", None);
        assert_eq!(path.0, "/v1/jobs/acme%2Frenewal%2FR%201%2F2026-12-01/%2E%2E?q=%C3%A4%26b");
    }

    #[test]
    fn problems_end_with_the_contracts_codes() {
        let exit = |status: u16, text: &str| judge(StatusCode::from_u16(status).expect("a status"), text).map_err(|f| (f.exit.code(), f.says));
        assert_eq!(exit(409, r#"{"type":"/problems/not-yet","detail":"rests until 10:00"}"#), Err((75, "rests until 10:00 (409)".into())));
        assert_eq!(exit(409, r#"{"type":"/problems/conflict","title":"Conflict"}"#), Err((1, "Conflict (409)".into())));
        assert_eq!(exit(503, "busy"), Err((75, "503 Service Unavailable (503)".into())));
        assert_eq!(exit(404, "{}").map_err(|e| e.0), Err(1));
        assert_eq!(exit(401, "{}").map_err(|e| e.0), Err(1));
        assert_eq!(exit(200, "<html>").map_err(|e| e.0), Err(69));
        assert_eq!(exit(204, ""), Ok(Value::Null));
    }

    #[test]
    fn an_api_address_is_a_url() {
        assert!(Client::of("http://127.0.0.1:7420/", None).is_ok());
        for wrong in ["127.0.0.1:7420", "ftp://x", "", "/v1"] {
            assert_eq!(Client::of(wrong, None).err().map(|f| f.exit), Some(Exit::Usage), "{wrong}");
        }
    }
}
