//! The example in `deploy/examples/renewals`: every row of the good file passes every check of the door, and the bad file is refused where it says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use curfew_content::artifact::check_sha256;
use curfew_content::header_text::check_line;
use curfew_content::{Artifacts, Templates, Zones, render};
use curfew_domain::address;
use serde_json::{Map, Value};

type Row = BTreeMap<String, String>;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/renewals")
}

/// The rows with their lines; an empty cell is absent.
fn rows(file: &str) -> Vec<(u64, Row)> {
    let mut reader = csv::Reader::from_path(folder().join(file)).expect("the file");
    let columns = reader.headers().expect("a header").clone();
    let row = |record: csv::StringRecord| {
        let line = record.position().expect("read from a file").line();
        let cells = columns.iter().zip(&record).filter(|(_, cell)| !cell.is_empty()).map(|(c, cell)| (c.to_owned(), cell.to_owned()));
        (line, cells.collect::<Row>())
    };
    reader.records().map(|r| row(r.expect("a row"))).collect()
}

/// The first field that the checks of domain and content refuse.
fn refused(row: &Row, templates: &Templates, artifacts: &Artifacts, zones: &Zones) -> Option<String> {
    let cell = |name: &str| row.get(name).map_or("", String::as_str);
    let params: Map<String, Value> =
        row.iter().filter_map(|(c, v)| c.strip_prefix("content.params.").map(|name| (name.to_owned(), Value::from(v.clone())))).collect();
    let field = |result: Result<(), String>| result.err();
    field(address::check(cell("to.address")).map(|_a| ()).map_err(|_| "to.address".into()))
        .or_else(|| field(check_line("to.name", cell("to.name")).map_err(|e| e.field)))
        .or_else(|| field(render(templates, cell("content.template"), &params).map(|_r| ()).map_err(|e| e.field)))
        .or_else(|| field(artifacts.check_uri(cell("attachments.0.uri")).map_err(|_| "attachments.0.uri".into())))
        .or_else(|| field(check_line("attachments.0.name", cell("attachments.0.name")).map_err(|e| e.field)))
        .or_else(|| {
            row.get("attachments.0.sha256").and_then(|sha| field(check_sha256("attachments.0.sha256", sha).map(|_s| ()).map_err(|e| e.field)))
        })
        .or_else(|| field(zones.resolve(cell("zone"), cell("deadline_at")).map(|_at| ()).map_err(|_| "zone".into())))
}

fn door() -> (Templates, Artifacts, Zones) {
    let (templates, warnings) = Templates::load(&folder().join("templates"), &BTreeMap::new()).expect("loads");
    assert_eq!(warnings, []);
    (templates, Artifacts::new(&folder(), &["file:reports/".into()]).expect("a root"), Zones::load())
}

#[tokio::test]
async fn a_thousand_reminders_pass_the_door() {
    let (templates, artifacts, zones) = door();
    let rows = rows("renewals.csv");
    assert_eq!(rows.len(), 1_000);
    let keys: std::collections::BTreeSet<&str> = rows.iter().map(|(_, r)| r["subject_ref"].as_str()).collect();
    assert_eq!(keys.len(), 1_000);
    let (mut idn, mut utf8, mut plus, mut pinned) = (0, 0, 0, 0);
    for (line, row) in &rows {
        assert_eq!(refused(row, &templates, &artifacts, &zones), None, "line {line}");
        let to = address::check(&row["to.address"]).expect("checked");
        assert!(to.warnings().contains(&"reserved domain"), "line {line} would reach somebody");
        idn += usize::from(to.domain().contains("xn--"));
        utf8 += usize::from(to.needs_smtputf8());
        plus += usize::from(to.local().contains('+'));
        pinned += usize::from(row.contains_key("attachments.0.sha256"));
        let sha = row.get("attachments.0.sha256").map(String::as_str);
        if *line < 10 {
            artifacts.read(&row["attachments.0.uri"], sha).await.expect("the pinned bytes");
        }
    }
    assert!(idn > 30 && utf8 > 30 && plus > 80 && pinned == 500, "{idn} {utf8} {plus} {pinned}");
}

#[test]
fn seven_lines_are_refused_by_the_field_that_is_wrong() {
    let (templates, artifacts, zones) = door();
    let expected: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(folder().join("expected-rejects.json")).expect("the file")).expect("JSON");
    let expected: Vec<(u64, String)> =
        expected.iter().map(|e| (e["line"].as_u64().expect("a line"), e["field"].as_str().expect("a field").to_owned())).collect();
    let found: Vec<(u64, String)> =
        rows("renewals-with-errors.csv").iter().filter_map(|(line, row)| refused(row, &templates, &artifacts, &zones).map(|f| (*line, f))).collect();
    assert_eq!(found, expected);
    assert_eq!(found.len(), 7);
}

#[test]
fn a_reminder_reads_as_it_should() {
    let (templates, _artifacts, _zones) = door();
    let params = serde_json::json!({"customer": "Zoë <O'Brien>", "plan": "Gold & Silver", "renews_on": "9. Dezember 2026", "price": "12,00 €", "seats": "2", "token": "a/b",
        "greeting": "Guten Tag", "note": "Two seats are unused."});
    let letter = render(&templates, "renewal@1", params.as_object().expect("an object")).expect("rendered");
    assert_eq!(letter.subject, "Gold & Silver renews on 9. Dezember 2026, Zoë <O'Brien>");
    assert_eq!(letter.list_unsubscribe.as_deref(), Some("https://www.acme.example/reminders/off?t=a%2Fb"));
    let text = letter.text.expect("text");
    assert!(
        text.starts_with("Guten Tag Zoë <O'Brien>,\n\nyour Gold & Silver plan renews") && text.contains("\n\nTwo seats are unused.\n\nThe terms"),
        "{text}"
    );
    let html = letter.html.expect("html");
    assert!(
        html.contains("Zoë &lt;O&#x27;Brien&gt;") && html.contains("<p style=\"margin:0 0 24px\" dir=\"auto\">Two seats are unused.</p>"),
        "{html}"
    );
    assert!(html.lines().all(|l| l.len() < 900), "no line that a relay would break");
}
