//! Templates and inline content: what is filled, what is refused, and by which field's name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use curfew_content::{ContentError, Inline, TemplateError, Templates, check_inline, render};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const MANIFEST: &str = "
description = \"A reminder.\"
list_unsubscribe = \"https://example.com/off?r={{ token }}\"
[params]
name = {}
plan = {}
token = { default = \"none\" }
items = { default = [] }
";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "renewal@1", files);
    dir
}

fn write(dir: &Path, version: &str, files: &[(&str, &str)]) {
    fs::create_dir_all(dir.join(version)).expect("made");
    for (name, source) in files {
        fs::write(dir.join(version).join(name), source).expect("written");
    }
}

fn usual() -> TempDir {
    folder(&[
        ("template.toml", MANIFEST),
        ("subject.txt", "{{ plan }} renews, {{ name }}\n"),
        ("text.txt", "Dear {{ name }},\n{% for i in items %}- {{ i.label }}\n{% endfor %}{% include \"footer.txt\" %}\n"),
        ("html.html", "<p>Dear {{ name }}</p>{% for i in items %}<li>{{ i.label }}{% endfor %}"),
        ("footer.txt", "-- about {{ plan }}"),
    ])
}

fn load(dir: &TempDir) -> Templates {
    Templates::load(dir.path(), &BTreeMap::new()).expect("loads").0
}

fn params(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn refusal(templates: &Templates, value: Value) -> ContentError {
    render(templates, "renewal@1", &params(value)).expect_err("refused")
}

#[test]
fn a_template_fills_subject_text_html_and_list_unsubscribe() {
    let letter = render(
        &load(&usual()),
        "renewal@1",
        &params(json!({"name": "Zoë <O'Brien>", "plan": "Gold & Co", "token": "ä/1", "items": [{"label": "a<b"}]})),
    )
    .expect("rendered");
    assert_eq!(letter.subject, "Gold & Co renews, Zoë <O'Brien>");
    assert_eq!(letter.text.as_deref(), Some("Dear Zoë <O'Brien>,\n- a<b\n-- about Gold & Co"));
    assert_eq!(letter.html.as_deref(), Some("<p>Dear Zoë &lt;O&#x27;Brien&gt;</p><li>a&lt;b"));
    assert_eq!(letter.list_unsubscribe.as_deref(), Some("https://example.com/off?r=%C3%A4%2F1"));
}

#[test]
fn a_parameter_missing_unknown_or_broken_is_refused_by_name() {
    let templates = load(&usual());
    for (given, field) in [
        (json!({"name": "Ada"}), "content.params.plan"),
        (json!({"name": "Ada", "plan": null}), "content.params.plan"),
        (json!({"name": "Ada", "plan": "Gold", "paln": "x"}), "content.params.paln"),
        // Found by fuzzing: an address as a parameter's name stood in the refusal.
        (json!({"name": "Ada", "plan": "Gold", "ada@example.com": "x"}), "content.params"),
        (json!({"name": "Ada\r\nBcc: x@example.com", "plan": "Gold"}), "content.params.name"),
        (json!({"name": "Ada\u{2028}", "plan": "Gold"}), "content.params.name"),
        (json!({"name": "Ada", "plan": "Gold", "token": "a\u{0}b"}), "content.params.token"),
        (json!({"name": "Ada", "plan": "Gold", "items": [{"lable": "typo"}]}), "content.params"),
        (json!({"name": ["Ada\n"], "plan": "Gold"}), ""),
    ] {
        if field.is_empty() {
            // A list prints its line feed escaped, so the subject stays one line.
            assert!(!render(&templates, "renewal@1", &params(given)).expect("rendered").subject.contains('\n'));
            continue;
        }
        let e = refusal(&templates, given.clone());
        assert_eq!(e.field, field, "{given}: {e}");
        assert!(!e.reason.contains("Ada") && !e.reason.contains("example.com"), "no value in an error: {e}");
    }
}

#[test]
fn an_unknown_template_names_the_versions_there_are() {
    let templates = load(&usual());
    for name in ["renewal@2", "renewal", "../renewal@1", ""] {
        assert_eq!(render(&templates, name, &Map::new()).expect_err("unknown").field, "content.template");
    }
    assert!(render(&templates, "renewal@9", &Map::new()).expect_err("unknown").reason.contains("renewal@1"));
}

#[test]
fn a_letter_is_bounded_in_size_and_in_work() {
    let dir = folder(&[
        ("template.toml", "[params]\nn = {}\nx = { default = \"\" }"),
        ("subject.txt", "s"),
        ("text.txt", "{% for a in range(n) %}{% for b in range(n) %}{{ x }}.{% endfor %}{% endfor %}"),
    ]);
    let templates = load(&dir);
    assert!(render(&templates, "renewal@1", &params(json!({"n": 100}))).is_ok());
    for n in [600, 9_999] {
        assert_eq!(refusal(&templates, json!({"n": n, "x": "0123456789"})).field, "content.text");
    }
    assert_eq!(refusal(&templates, json!({"n": 1, "x": "y".repeat(300 * 1024)})).field, "content.text");
}

#[test]
fn a_folder_that_is_no_template_stops_the_start() {
    let text = ("text.txt", "t");
    let subject = ("subject.txt", "s");
    let toml = ("template.toml", "[params]\nplan = {}");
    for (files, word) in [
        (vec![subject, text], "template.toml"),
        (vec![toml, text], "subject.txt"),
        (vec![toml, subject], "text.txt"),
        (vec![toml, subject, ("text.txt", "{{ paln }}")], "paln"),
        (vec![toml, subject, ("text.txt", "{{ plan")], "text.txt"),
        (vec![("template.toml", "[params]\nPlan = {}"), subject, text], "Plan"),
        (vec![("template.toml", "[parms]\nplan = {}"), subject, text], "parms"),
        (vec![toml, subject, text, ("x.sh", "")], "x.sh"),
    ] {
        let e = Templates::load(folder(&files).path(), &BTreeMap::new()).expect_err("refused");
        assert!(matches!(e, TemplateError::Broken { .. }) && e.to_string().contains(word), "{e}");
    }
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["renewal", "renewal@", "renewal@0", "renewal@01", "re newal@1", "@1"] {
        let dir = dir.path().join(name.replace('@', "_at_"));
        write(&dir, name, &[toml, subject, text]);
        assert!(Templates::load(&dir, &BTreeMap::new()).is_err(), "{name}");
    }
}

#[test]
fn an_include_reaches_no_file_outside_its_version() {
    let dir = folder(&[("template.toml", ""), ("subject.txt", "s"), ("text.txt", "{% include \"../secret.txt\" %}")]);
    fs::write(dir.path().join("secret.txt"), "secret").expect("written");
    write(dir.path(), "other@1", &[("template.toml", ""), ("subject.txt", "s"), ("text.txt", "{% include \"renewal@1/text.txt\" %}")]);
    let templates = load(&dir);
    for name in ["renewal@1", "other@1"] {
        assert_eq!(render(&templates, name, &Map::new()).expect_err("refused").field, "content.text");
    }
}

#[test]
fn a_changed_file_neither_reaches_a_running_process_nor_passes_unnoticed() {
    let dir = usual();
    let templates = load(&dir);
    let known = templates.hashes();
    let given = params(json!({"name": "Ada", "plan": "Gold"}));
    let before = render(&templates, "renewal@1", &given).expect("rendered");
    fs::write(dir.path().join("renewal@1/text.txt"), "Something else {{ name }}").expect("written");
    assert_eq!(render(&templates, "renewal@1", &given).expect("rendered"), before);
    let (again, warnings) = Templates::load(dir.path(), &known).expect("loads");
    assert_eq!(warnings.iter().map(|w| w.template.as_str()).collect::<Vec<_>>(), ["renewal@1"]);
    assert_ne!(again.hashes(), known);
    assert_eq!(Templates::load(dir.path(), &again.hashes()).expect("loads").1, []);
}

/// Incident 13: a job with an empty body never finished.
#[test]
fn inline_content_has_a_subject_and_a_body() {
    let full = Inline { subject: Some("Hello"), text: Some("Text\n"), html: Some("<p>Text</p>") };
    assert_eq!(check_inline(full).expect("accepted").html.as_deref(), Some("<p>Text</p>"));
    let long = "x".repeat(256 * 1024);
    for (content, field) in [
        (Inline { subject: None, ..full }, "content.subject"),
        (Inline { subject: Some(" "), ..full }, "content.subject"),
        (Inline { subject: Some("a\nBcc: x"), ..full }, "content.subject"),
        (Inline { subject: Some("a\u{0}"), ..full }, "content.subject"),
        (Inline { subject: Some("a\u{2029}b"), ..full }, "content.subject"),
        (Inline { text: None, html: None, ..full }, "content.text"),
        (Inline { text: Some(" \r\n"), html: None, ..full }, "content.text"),
        (Inline { text: None, html: Some(""), ..full }, "content.html"),
        (Inline { text: Some("a\u{0}b"), ..full }, "content.text"),
        (Inline { html: Some("a\u{1b}b"), ..full }, "content.html"),
        (Inline { text: Some(&long), ..full }, "content"),
    ] {
        assert_eq!(check_inline(content).expect_err("refused").field, field);
    }
}
