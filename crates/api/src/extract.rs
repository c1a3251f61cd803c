//! How handlers get at a request: its query and its body as fields to be read, nothing unknown left over.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::json;
use crate::limits::{BODY_BYTES_MAX, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};
use crate::problem::Problem;

/// The query.
pub(crate) struct Asked(pub Fields);

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let query = Query::<BTreeMap<String, String>>::try_from_uri(&parts.uri).map_err(|_misfit| Problem::field("query", "can't be read"))?;
        let given = query.0.into_iter().filter(|(_, v)| !v.is_empty());
        let map: Map<String, Value> = given.map(|(name, value)| (name, Value::String(value))).collect();
        Ok(Self(Fields::of("", Value::Object(map)).expect("a map is an object")))
    }
}

impl Asked {
    /// `limit`, 1 to 500.
    pub(crate) fn limit(&mut self) -> u32 {
        let Some(text) = self.0.text("limit") else { return LIST_LIMIT_DEFAULT };
        match text.parse() {
            Ok(limit) if (1..=LIST_LIMIT_MAX).contains(&limit) => limit,
            Ok(_) | Err(_) => {
                self.0.fault("limit", format!("must be 1 to {LIST_LIMIT_MAX}"));
                LIST_LIMIT_DEFAULT
            }
        }
    }
}

/// A JSON object as the body; an empty body is an empty object. The content type is not asked for: what a button can do, curl can do.
pub(crate) struct Sent(pub Fields);

impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = whole(request, state).await?;
        let value =
            if bytes.trim_ascii().is_empty() { Value::Object(Map::new()) } else { json::read(&bytes).map_err(|e| Problem::field("body", e))? };
        Fields::of("", value).map(Self).map_err(|e| Problem::field("body", e.error))
    }
}

/// The body's bytes, at most 1 MiB.
pub(crate) struct Raw(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        whole(request, state).await.map(Self)
    }
}

async fn whole<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    Bytes::from_request(request, state).await.map_err(|e| match e.status() {
        axum::http::StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::http(axum::http::StatusCode::PAYLOAD_TOO_LARGE).because(format!("the body is larger than {BODY_BYTES_MAX} bytes"))
        }
        other => Problem::http(other),
    })
}
