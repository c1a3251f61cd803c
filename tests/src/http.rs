//! What `curl` would do: one request, one answer, whatever its status.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

/// A client of one Curfew.
#[derive(Clone)]
pub struct Http {
    agent: Agent,
    base: String,
    token: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body as it came.
    pub text: String,
    /// The body as JSON; null where it is none.
    pub json: Value,
}

impl Answer {
    /// The JSON of an answer with this status.
    ///
    /// # Panics
    /// With any other status, showing the body.
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "the answer: {}", self.text);
        self.json
    }
}

impl Http {
    /// A client of `http://HOST:PORT`.
    pub fn new(base: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_global(Some(Duration::from_secs(120)));
        Self { agent: config.build().new_agent(), base: base.to_owned(), token: None }
    }

    /// The same client with a bearer token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// `http://HOST:PORT`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Asks.
    ///
    /// # Errors
    /// Where nobody answers.
    pub fn try_get(&self, path: &str) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call().and_then(read)
    }

    /// Asks.
    ///
    /// # Panics
    /// Where nobody answers.
    pub fn get(&self, path: &str) -> Answer {
        self.try_get(path).unwrap_or_else(|e| panic!("GET {path}: {e}"))
    }

    /// Tells, with a JSON body.
    ///
    /// # Panics
    /// Where nobody answers.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_bytes(path, "application/json", &[], body.to_string().as_bytes())
    }

    /// Tells, with any body and further headers.
    ///
    /// # Panics
    /// Where nobody answers.
    pub fn post_bytes(&self, path: &str, content_type: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = self.agent.post(format!("{}{path}", self.base)).header("content-type", content_type);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send(body).and_then(read).unwrap_or_else(|e| panic!("POST {path}: {e}"))
    }

    /// The status of a GET that names another host: what a web page of a stranger makes a browser send.
    ///
    /// # Panics
    /// Where nobody answers.
    pub fn status_under_host(&self, path: &str, host: &str) -> u16 {
        let address = self.base.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("the API listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("the API reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the API answers");
        let line = String::from_utf8_lossy(&answer);
        line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status line in {line}"))
    }
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer, ureq::Error> {
    let status = response.status().as_u16();
    let text = response.body_mut().with_config().limit(256 * 1024 * 1024).read_to_string()?;
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Answer { status, text, json })
}

/// A part of a path, percent-encoded.
pub fn part(text: &str) -> String {
    text.bytes().map(|b| if b.is_ascii_alphanumeric() || b == b'-' { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
