//! Refusals as RFC 9457 problem details. The type is a word for programs, the detail a sentence for people, without values.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use curfew_book::BookError;
use curfew_courier::CourierError;
use curfew_ledger::LedgerError;
use serde::Serialize;
use utoipa::ToSchema;

/// What is wrong with one field.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct FieldError {
    /// The field as the submitter writes it, dotted: `to.address`, `content.params.plan`.
    pub field: String,
    /// Why, without the value.
    pub error: String,
}

impl FieldError {
    /// What is wrong with `field`.
    pub fn new(field: impl Into<String>, error: impl Into<String>) -> Self {
        Self { field: field.into(), error: error.into() }
    }
}

/// Seconds after which a caller may ask a store again.
const RETRY_AFTER_S: u32 = 1;

/// An RFC 9457 problem.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// `/problems/` and a word: `invalid`, `conflict`, `not-yet`, `not-found`, `unauthorized`, `forbidden`, `unavailable`, `timeout`, `internal`, `http`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The type in words.
    pub title: &'static str,
    /// The HTTP status again.
    pub status: u16,
    /// This occurrence in a sentence.
    pub detail: String,
    /// The fields to mend, or those that conflict.
    pub errors: Vec<FieldError>,
    /// The job that stands in the way, at a conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(skip)]
    retry_after_s: Option<u32>,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, title, status: status.as_u16(), detail: detail.into(), errors: Vec::new(), job_id: None, retry_after_s: None }
    }

    /// 422: these fields are refused.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = errors.iter().map(|e| format!("{}: {}", e.field, e.error)).collect::<Vec<_>>().join("; ");
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "/problems/invalid", "The request is refused", detail) }
    }

    /// 422: this one field is refused.
    pub fn field(field: impl Into<String>, error: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError::new(field, error)])
    }

    /// 409: the state forbids it.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "/problems/conflict", "The state forbids it", detail)
    }

    /// 412: somebody else was first, or the revision isn't named.
    pub fn precondition(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, "/problems/conflict", "Another revision stands", detail)
    }

    /// 409: the same key was accepted with other content in these fields.
    pub fn other_content(job_id: String, fields: Vec<String>) -> Self {
        let errors = fields.into_iter().map(|f| FieldError::new(f, "differs from what was accepted under this key")).collect();
        let detail = "the key was accepted before with other content";
        Self { errors, job_id: Some(job_id), ..Self::conflict(detail) }
    }

    /// 409 of the type `not-yet`: later it may pass by itself. The CLI ends with 75.
    pub fn not_yet(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "/problems/not-yet", "Not yet", detail)
    }

    /// 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "/problems/not-found", "Not found", detail)
    }

    /// 401.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "/problems/unauthorized", "Not authorised", detail)
    }

    /// 403: asked from where nobody may ask.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "/problems/forbidden", "Refused", detail)
    }

    /// 503: a store doesn't answer; repeating is safe.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self {
            retry_after_s: Some(RETRY_AFTER_S),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "/problems/unavailable", "A store doesn't answer", detail)
        }
    }

    /// 503: the answer took too long; what was asked may have happened.
    pub fn timeout() -> Self {
        let detail = "no answer in time; what was asked may have happened, and asking again is safe";
        Self { retry_after_s: Some(RETRY_AFTER_S), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "/problems/timeout", "No answer in time", detail) }
    }

    /// 500: we are wrong.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "/problems/internal", "A fault of Curfew", "this should not happen; the log has more")
    }

    /// Any other refusal of the HTTP layer.
    pub fn http(status: StatusCode) -> Self {
        let title = status.canonical_reason().unwrap_or("Refused");
        Self::new(status, "/problems/http", title, title)
    }

    /// The same with a sentence of its own.
    #[must_use]
    pub fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Whether this is a problem of ours, already written.
    pub(crate) fn is_one(response: &Response) -> bool {
        response.headers().get(header::CONTENT_TYPE).is_some_and(|t| t == CONTENT_TYPE)
    }
}

const CONTENT_TYPE: &str = "application/problem+json";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("a problem is plain text and numbers");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<BookError> for Problem {
    fn from(e: BookError) -> Self {
        match e {
            BookError::Unavailable { .. } => Self::unavailable(e.to_string()),
            BookError::Store(_) => stopped(&e),
            BookError::NotFound => Self::not_found("there is none"),
            BookError::Conflict(why) => Self::conflict(why),
            BookError::NotYet(why) => Self::not_yet(why),
            BookError::Invalid { field, reason } => Self::field(field, reason),
            other => broken(&other),
        }
    }
}

impl From<LedgerError> for Problem {
    fn from(e: LedgerError) -> Self {
        match e {
            LedgerError::Unavailable { .. } => Self::unavailable(e.to_string()),
            LedgerError::Store(_) => stopped(&e),
            LedgerError::Recovering => Self::not_yet("the shard recovers"),
            LedgerError::Halted => Self::not_yet("the ledger's clock is distrusted; the shard stands still until clocks agree"),
            LedgerError::OtherServer => Self::not_yet("the ledger was restarted or replaced; the shard waits for its recovery"),
            other => broken(&other),
        }
    }
}

impl From<CourierError> for Problem {
    fn from(e: CourierError) -> Self {
        match e {
            CourierError::Ledger(e) => e.into(),
            CourierError::Book(e) => e.into(),
            CourierError::Contended => Self::unavailable("others kept changing the job; ask again"),
            other => broken(&other),
        }
    }
}

/// A store that is closed or broken: another process may serve, and this one should be looked at.
fn stopped(e: &dyn std::error::Error) -> Problem {
    tracing::error!(error = %e, "a store can't be used");
    Problem::unavailable("a store can't be used")
}

/// Logged here, where it is handled: the caller learns no more than that we are wrong.
fn broken(e: &dyn std::error::Error) -> Problem {
    tracing::error!(error = %e, "a request failed");
    Problem::internal()
}
