//! The way to a collector: one POST, on the exporter's own thread, so that no task of ours ever waits for it.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ureq::Agent;

/// What a collector answers is a few words.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// A client that blocks.
pub(crate) struct Post {
    agent: Agent,
    authorization: Option<String>,
}

impl Post {
    pub(crate) fn new(within: Duration, authorization: Option<String>) -> Self {
        let config = Agent::config_builder().timeout_global(Some(within)).http_status_as_error(false).max_redirects(0).build();
        Self { agent: config.into(), authorization }
    }
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Post")
    }
}

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let mut post = self.agent.post(parts.uri.to_string());
        for (name, value) in &parts.headers {
            post = post.header(name, value);
        }
        if let Some(authorization) = &self.authorization {
            post = post.header("authorization", authorization);
        }
        let mut answer = post.send(&body[..])?;
        let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::builder().status(answer.status()).body(bytes.into())?)
    }
}
