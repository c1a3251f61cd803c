//! A correction: another address, other parameters, another artifact. A new content revision, the same key.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use curfew_content::header_text::check_line;
use curfew_content::render;
use curfew_domain::address;
use curfew_domain::job::Letter;
use curfew_domain::sealed::RecipientRef;
use curfew_review::Correction;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Who;
use super::review::{item, job_of};
use crate::api::Api;
use crate::door::attachment;
use crate::extract::Sent;
use crate::fields::Fields;
use crate::problem::{FieldError, Problem};
use crate::view::ItemBody;

/// A correction. `to` is an address, or an object with address and name; `artifacts` maps an attachment's name to its new URI, or to an object
/// with uri and sha256; `params` are laid over those submitted.
#[derive(Serialize, ToSchema)]
pub(crate) struct CorrectBody {
    to: Option<Value>,
    params: Option<std::collections::BTreeMap<String, Value>>,
    artifacts: Option<std::collections::BTreeMap<String, Value>>,
    reason: String,
}

/// Corrects an open item's letter. Nothing is sent until it is replayed.
#[utoipa::path(post, path = "/v1/review/{item}/correct", tag = "review", params(("item" = String, Path)), request_body = CorrectBody,
    responses((status = 200, body = ItemBody), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn correct_item(
    State(api): State<Arc<Api>>,
    who: Who,
    Path(id): Path<String>,
    Sent(mut f): Sent,
) -> Result<Json<ItemBody>, Problem> {
    let to = f.take("to");
    let params = f.map("params");
    let artifacts = f.map("artifacts");
    if to.is_none() && params.is_none() && artifacts.is_none() {
        f.fault("to", "nothing to correct: give to, params or artifacts");
    }
    let reason = f.words("reason");
    f.done()?;
    let item = item(&api, &id).await?;
    let row = job_of(&api, &item).await?;
    let mut letter = api.door.open(&row.job).ok_or_else(|| Problem::conflict("the letter is gone, or sealed under a key that is not configured"))?;
    let recipient = to.map(|to| correct_to(&api, &mut letter, to)).transpose().map_err(Problem::invalid)?;
    if let Some(params) = params {
        correct_params(&api, &mut letter, params).map_err(|e| Problem::invalid(vec![e]))?;
    }
    let forget_pins = artifacts.is_some();
    if let Some(artifacts) = artifacts {
        correct_artifacts(&api, &mut letter, artifacts).map_err(Problem::invalid)?;
    }
    let at = api.ledger.now().await?;
    let letter = api.door.reseal(row.job.id, &letter);
    let correction = Correction { item: item.id, letter, recipient, forget_pins, actor: who.0.0.clone(), reason, at };
    Ok(Json(ItemBody::of(&api.review.correct(correction).await?)))
}

fn correct_to(api: &Api, letter: &mut Letter, to: Value) -> Result<(RecipientRef, String), Vec<FieldError>> {
    let given = match to {
        Value::String(address) => address,
        object => {
            let mut f =
                Fields::of("to", object).map_err(|_other| vec![FieldError::new("to", "must be an address, or an object with address and name")])?;
            let (address, name) = (f.required("address"), f.text("name"));
            if let Some(Err(e)) = name.as_ref().map(|n| check_line("to.name", n)) {
                f.fault("name", e.reason);
            }
            let faults = f.finish();
            if !faults.is_empty() {
                return Err(faults);
            }
            letter.to_name = name.filter(|n| !n.is_empty()).or(letter.to_name.take());
            address
        }
    };
    let checked = address::check(&given).map_err(|e| vec![FieldError::new("to.address", e.to_string())])?;
    letter.to_address = given;
    Ok((api.door.keyring.recipient_ref(&checked.folded()), checked.masked()))
}

fn correct_params(api: &Api, letter: &mut Letter, params: Map<String, Value>) -> Result<(), FieldError> {
    let Some(template) = letter.template.as_mut() else {
        return Err(FieldError::new("params", "the job's content is inline; it has no parameters"));
    };
    let mut all: Map<String, Value> = serde_json::from_str(&template.params).unwrap_or_default();
    all.extend(params);
    let rendered = render(&api.door.templates, &template.template, &all).map_err(|e| {
        let field = e.field.strip_prefix("content.").map_or(e.field.clone(), str::to_owned);
        FieldError::new(field, e.reason)
    })?;
    template.params = Value::Object(all).to_string();
    letter.subject = rendered.subject;
    letter.text = rendered.text;
    letter.html = rendered.html;
    letter.list_unsubscribe = rendered.list_unsubscribe;
    Ok(())
}

fn correct_artifacts(api: &Api, letter: &mut Letter, artifacts: Map<String, Value>) -> Result<(), Vec<FieldError>> {
    let mut faults = Vec::new();
    for (name, value) in artifacts {
        let prefix = format!("artifacts.{}", crate::free_text::shown_name(&name));
        let Some(standing) = letter.attachments.iter_mut().find(|a| a.name == name) else {
            faults.push(FieldError::new(prefix, "the letter has no attachment of that name"));
            continue;
        };
        let (uri, sha256) = match value {
            Value::String(uri) => (uri, None),
            object => match Fields::of(&prefix, object) {
                Ok(mut f) => {
                    let found = (f.required("uri"), f.text("sha256"));
                    faults.extend(f.finish());
                    found
                }
                Err(_other) => {
                    faults.push(FieldError::new(prefix, "must be a URI, or an object with uri and sha256"));
                    continue;
                }
            },
        };
        match attachment(&api.door, &prefix, &uri, Some(&name), sha256.as_deref()) {
            Ok(good) => *standing = good,
            Err(e) => faults.extend(e),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
