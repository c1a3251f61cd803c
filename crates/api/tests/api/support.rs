//! A door, and a job that it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use curfew_api::{Door, Known, TenantDefaults};
use curfew_content::{Artifacts, Templates, Zones};
use curfew_domain::sealed::Keyring;
use serde_json::{Value, json};

/// 2026-11-30T12:00:00Z.
pub const NOON: i64 = 1_796_040_000_000;

pub const SECRET: &[u8] = b"an events secret";

/// A folder with one template, `renewal@1`, and a door before it.
pub fn door(folder: &Path) -> Door {
    let template = folder.join("templates/renewal@1");
    std::fs::create_dir_all(&template).expect("a test's set-up works");
    std::fs::write(template.join("template.toml"), "description = \"renewal\"\n[params]\nplan = {}\ngreeting = { default = \"Hello\" }\n")
        .expect("a test's set-up works");
    std::fs::write(template.join("subject.txt"), "Your {{ plan }} plan\n").expect("a test's set-up works");
    std::fs::write(template.join("text.txt"), "{{ greeting }}, your {{ plan }} plan renews.\n").expect("a test's set-up works");
    let (templates, _warnings) = Templates::load(&folder.join("templates"), &BTreeMap::new()).expect("a test's set-up works");
    let artifacts = Artifacts::new(folder, &["file:reports/".to_owned()]).expect("a test's set-up works");
    let keyring = Keyring::new(BTreeMap::from([("k1".to_owned(), [7; 32])]), "k1", [9; 32]).expect("a test's set-up works");
    let patient = TenantDefaults { policy: Some("patient".to_owned()), transport: None };
    let known = Known {
        policies: BTreeSet::from(["default".to_owned(), "patient".to_owned()]),
        transports: BTreeSet::from(["default".to_owned(), "bulk".to_owned()]),
        tenants: BTreeMap::from([("slow".to_owned(), patient)]),
    };
    Door::new(keyring, Arc::new(templates), Arc::new(artifacts), Arc::new(Zones::load()), known, 16)
}

/// A job that the door takes at noon.
pub fn job() -> Value {
    json!({
        "tenant": "acme", "purpose": "renewal-reminder", "subject_ref": "R-1042", "business_date": "2026-12-01",
        "to": {"address": "ada.lovelace@customer.example", "name": "Ada Lovelace"},
        "content": {"template": "renewal@1", "params": {"plan": "Gold"}},
        "release_at": "2026-12-01T08:30:00Z", "deadline_at": "2026-12-01T09:00:00Z", "labels": {"region": "east"}
    })
}

/// The same, at a dotted path another value; null takes it away.
pub fn with(mut job: Value, path: &str, value: Value) -> Value {
    let mut at = &mut job;
    let parts: Vec<&str> = path.split('.').collect();
    for part in &parts[..parts.len() - 1] {
        at = &mut at[*part];
    }
    at[parts[parts.len() - 1]] = value;
    job
}
