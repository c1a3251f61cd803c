//! Templates as an operator writes them, and parameters as a submitter gives them.

use std::collections::BTreeMap;
use std::fs;

use curfew_content::limits::CONTENT_BYTES_MAX;
use curfew_content::{Templates, render};
use serde_json::{Map, Value};

use super::house::{DOOR, TEMPLATE};
use super::told;

/// The files of one version, each behind a line `--- name`; `--- params` holds the parameters as JSON. Only names of plain files count.
pub fn template(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let version = folder.path().join("fuzzed@1");
    fs::create_dir(&version).expect("made");
    let mut params = Map::new();
    for section in text.split("--- ").skip(1) {
        let Some((name, content)) = section.split_once('\n') else { continue };
        match name.trim() {
            "params" => params = serde_json::from_str(content).unwrap_or_default(),
            name if plain(name) => fs::write(version.join(name), content).expect("written"),
            _other => {}
        }
    }
    match Templates::load(folder.path(), &BTreeMap::new()) {
        Ok((templates, _warnings)) => fill(&templates, "fuzzed@1", &params),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}

fn plain(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'.' | b'_')) && !name.starts_with('.')
}

/// Parameters as JSON, for the template that the door's tests use.
pub fn template_params(bytes: &[u8]) {
    let Ok(params) = serde_json::from_slice::<Map<String, Value>>(bytes) else { return };
    fill(&DOOR.templates, TEMPLATE, &params);
}

/// The same letter each time; one line where a header is; a refusal that names its field and repeats nothing.
fn fill(templates: &Templates, name: &str, params: &Map<String, Value>) {
    let first = render(templates, name, params);
    assert_eq!(first, render(templates, name, params), "a letter depends on something else");
    match first {
        Ok(letter) => {
            let headers = [Some(&letter.subject), letter.list_unsubscribe.as_ref()];
            assert!(!headers.into_iter().flatten().any(|h| h.chars().any(char::is_control)), "a header with a control character");
            let bodies = [letter.text.as_ref(), letter.html.as_ref()];
            let bytes: usize = letter.subject.len() + bodies.into_iter().flatten().map(String::len).sum::<usize>();
            assert!(!letter.subject.trim().is_empty() && bytes <= CONTENT_BYTES_MAX && bodies.iter().any(Option::is_some));
        }
        Err(e) => {
            told::is_refusal(&e.field, &e.reason);
            assert!(e.field.starts_with("content"), "{}", e.field);
            told::repeats_none(&e.to_string(), &told::secrets(&Value::Object(params.clone())));
        }
    }
}
