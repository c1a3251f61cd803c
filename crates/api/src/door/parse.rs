//! The form of a submitted job: every field by name and type, nothing unknown, all faults at once.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::limits::{ATTACHMENTS_MAX, LABELS_MAX};
use crate::problem::FieldError;

/// A job as submitted. No `Debug`: it holds an address and a body.
pub(super) struct Submitted {
    pub tenant: String,
    pub purpose: String,
    pub subject_ref: String,
    pub business_date: String,
    pub key: Option<String>,
    pub to_address: String,
    pub to_name: Option<String>,
    pub content: Content,
    pub attachments: Vec<SubmittedAttachment>,
    pub release_at: Option<String>,
    pub deadline_at: String,
    pub zone: Option<String>,
    pub policy: Option<String>,
    pub transport: Option<String>,
    pub labels: BTreeMap<String, String>,
}

/// Where the words come from.
pub(super) enum Content {
    Template { name: String, params: Map<String, Value> },
    Inline { subject: Option<String>, text: Option<String>, html: Option<String> },
}

/// An attachment as submitted.
pub(super) struct SubmittedAttachment {
    pub uri: String,
    pub name: Option<String>,
    pub sha256: Option<String>,
}

pub(super) fn submitted(value: Value) -> Result<Submitted, Vec<FieldError>> {
    let mut f = Fields::of("", value).map_err(|e| vec![e])?;
    // In the contract's order, so that the first fault is the first field.
    let [tenant, purpose, subject_ref, business_date] = ["tenant", "purpose", "subject_ref", "business_date"].map(|name| f.required(name));
    let (to_address, to_name) = recipient(&mut f);
    let job = Submitted {
        tenant,
        purpose,
        subject_ref,
        business_date,
        key: f.text("key"),
        to_address,
        to_name,
        content: content(&mut f),
        attachments: attachments(&mut f),
        release_at: given(f.text("release_at")),
        deadline_at: f.required("deadline_at"),
        zone: given(f.text("zone")),
        policy: given(f.text("policy")),
        transport: given(f.text("transport")),
        labels: labels(&mut f),
    };
    let faults = f.finish();
    if faults.is_empty() { Ok(job) } else { Err(faults) }
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|t| !t.is_empty())
}

fn recipient(f: &mut Fields) -> (String, Option<String>) {
    let Some(value) = f.take("to") else {
        f.fault("to.address", "is required");
        return (String::new(), None);
    };
    match Fields::of("to", value) {
        Ok(mut to) => {
            let found = (to.required("address"), given(to.text("name")));
            f.faults(to.finish());
            found
        }
        Err(e) => {
            f.faults(vec![e]);
            (String::new(), None)
        }
    }
}

pub(super) fn content(f: &mut Fields) -> Content {
    let nothing = Content::Inline { subject: None, text: None, html: None };
    let Some(value) = f.take("content") else {
        f.fault("content", "is required: a template with its parameters, or subject with text or html");
        return nothing;
    };
    let mut c = match Fields::of("content", value) {
        Ok(fields) => fields,
        Err(e) => {
            f.faults(vec![e]);
            return nothing;
        }
    };
    let (template, params) = (given(c.text("template")), c.map("params"));
    let (subject, text, html) = (c.text("subject"), c.text("text"), c.text("html"));
    let inline = subject.is_some() || text.is_some() || html.is_some();
    if template.is_some() && inline {
        c.fault("template", "stands beside inline content; give one of the two");
    }
    if template.is_none() && params.is_some() {
        c.fault("template", "is required where there are params");
    }
    f.faults(c.finish());
    match template {
        Some(name) => Content::Template { name, params: params.unwrap_or_default() },
        None => Content::Inline { subject, text, html },
    }
}

pub(super) fn attachments(f: &mut Fields) -> Vec<SubmittedAttachment> {
    let items = f.list("attachments").unwrap_or_default();
    if items.len() > ATTACHMENTS_MAX {
        f.fault("attachments", format!("are more than {ATTACHMENTS_MAX}"));
        return Vec::new();
    }
    let mut all = Vec::with_capacity(items.len());
    for (n, item) in items.into_iter().enumerate() {
        match Fields::of(&format!("attachments.{n}"), item) {
            Ok(mut a) => {
                all.push(SubmittedAttachment { uri: a.required("uri"), name: given(a.text("name")), sha256: given(a.text("sha256")) });
                f.faults(a.finish());
            }
            Err(e) => f.faults(vec![e]),
        }
    }
    all
}

fn labels(f: &mut Fields) -> BTreeMap<String, String> {
    let map = f.map("labels").unwrap_or_default();
    if map.len() > LABELS_MAX {
        f.fault("labels", format!("are more than {LABELS_MAX}"));
        return BTreeMap::new();
    }
    let mut all = BTreeMap::new();
    for (n, (name, value)) in map.into_iter().enumerate() {
        // A name out of form is not repeated: it may be anything.
        if let Err(e) = curfew_domain::key::check_part(&name) {
            f.fault("labels", format!("the name of label {} {e}", n + 1));
            continue;
        }
        match value {
            Value::String(text) => drop(all.insert(name, text)),
            Value::Number(number) => drop(all.insert(name, number.to_string())),
            Value::Bool(flag) => drop(all.insert(name, flag.to_string())),
            Value::Null => {}
            Value::Array(_) | Value::Object(_) => f.fault(&format!("labels.{name}"), "must be a text"),
        }
    }
    all
}
