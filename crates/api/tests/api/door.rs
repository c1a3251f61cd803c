//! Every refusal of the door names its field; what it accepts is sealed; no input breaks it.

use crate::support::{NOON, door, job, with};
use curfew_api::Door;
use curfew_domain::Moment;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: Moment = Moment::from_millis(NOON);

fn faults(door: &Door, job: &Value) -> Vec<(String, String)> {
    match door.admit(job.to_string().as_bytes(), None, NOW) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.into_iter().map(|f| (f.field, f.error)).collect(),
    }
}

#[test]
fn each_refusal_of_the_contract_names_its_field() {
    let folder = tempfile::tempdir().expect("a test's set-up works");
    let door = door(folder.path());
    let inline = |subject: &str, text: &str| json!({"subject": subject, "text": text});
    let file = |uri: &str, name: &str, hash: Value| json!([{"uri": uri, "name": name, "sha256": hash}]);
    let rows: Vec<(&str, Value, &str, &str)> = vec![
        ("colour", json!(1), "colour", "unknown field"),
        ("dedline_at", json!("x"), "dedline_at", "nearest is `deadline_at`"),
        ("to.adress", json!("x"), "to.adress", "nearest is `address`"),
        ("tenant", Value::Null, "tenant", "is required"),
        ("purpose", Value::Null, "purpose", "is required"),
        ("subject_ref", Value::Null, "subject_ref", "is required"),
        ("business_date", Value::Null, "business_date", "is required"),
        ("to", Value::Null, "to.address", "is required"),
        ("to.address", Value::Null, "to.address", "is required"),
        ("content", Value::Null, "content", "is required"),
        ("deadline_at", Value::Null, "deadline_at", "is required"),
        ("tenant", json!(5), "tenant", "must be a text"),
        ("to", json!("ada@customer.example"), "to", "must be an object"),
        ("labels", json!([]), "labels", "must be an object"),
        ("attachments", json!({}), "attachments", "must be a list"),
        ("tenant", json!("a/b"), "tenant", "has the character"),
        ("subject_ref", json!("ada@customer.example"), "subject_ref", "has the character '@'"),
        ("subject_ref", json!("x".repeat(65)), "subject_ref", "longer than 64"),
        ("business_date", json!("2026-02-30"), "business_date", "is no date"),
        ("business_date", json!("01.12.2026"), "business_date", "is no date"),
        ("key", json!("other/x"), "key", "does not start with the tenant"),
        ("key", json!("acme/ada@customer.example"), "key", "has the character '@'"),
        ("key", json!(format!("acme/{}", "x".repeat(252))), "key", "longer than 256"),
        ("release_at", json!("tomorrow"), "release_at", "is no time"),
        ("release_at", json!("2026-12-01T08:30:00"), "release_at", "no zone is given"),
        ("deadline_at", json!("2026-12-01T08:30:00Z"), "deadline_at", "not after the release"),
        ("deadline_at", json!("2026-11-30T12:00:00Z"), "deadline_at", "already past"),
        ("deadline_at", json!("9999-12-31T00:00:00Z"), "deadline_at", "outside the years"),
        ("zone", json!("America/New_Yrok"), "zone", "America/New_York"),
        ("zone", json!("../../etc/passwd"), "zone", "unknown zone"),
        ("policy", json!("patent"), "policy", "nearest is `patient`"),
        ("transport", json!("x"), "transport", "unknown transport"),
        ("content.template", json!("renewal@2"), "content.template", "renewal@1"),
        ("content.template", json!("nothing@1"), "content.template", "unknown template"),
        ("content.params", json!({}), "content.params.plan", "is required by the template"),
        ("content.params.plam", json!("x"), "content.params.plam", "no such parameter"),
        ("content.params.plan", json!("Gold\r\nBcc: x"), "content.params.plan", "carriage return"),
        ("content.subject", json!("both"), "content.template", "inline"),
        ("content", json!({"params": {}}), "content.template", "is required where there are params"),
        ("content", json!({"text": "no subject"}), "content.subject", "is required"),
        ("content", json!({"subject": "no body"}), "content.text", "text or html is required"),
        ("content", inline("s", "  "), "content.text", "empty"),
        ("content", inline("a\nb", "x"), "content.subject", "line feed"),
        ("content", inline("s", &"x".repeat(256 * 1024)), "content", "larger than"),
        ("to.name", json!("Ada\r\nBcc: eve@x.example"), "to.name", "carriage return"),
        ("to.address", json!("nobody"), "to.address", "local part"),
        ("to.address", json!("ada@@customer.example"), "to.address", ""),
        ("to.address", json!("ada@customer.example\r\nRCPT TO:<x@y.example>"), "to.address", ""),
        ("to.address", json!(""), "to.address", "empty"),
        ("attachments", file("file:secret/x.pdf", "x.pdf", Value::Null), "attachments.0.uri", "root"),
        ("attachments", file("file:reports/../x.pdf", "x.pdf", Value::Null), "attachments.0.uri", ""),
        ("attachments", file("https://x.example/x", "x.pdf", Value::Null), "attachments.0.uri", "file:"),
        ("attachments", file("file:reports/x.pdf", "a/b.pdf", Value::Null), "attachments.0.name", "without a folder"),
        ("attachments", file("file:reports/x.pdf", "a\nb.pdf", Value::Null), "attachments.0.name", "line feed"),
        ("attachments", file("file:reports/x.pdf", "x.pdf", json!("abc")), "attachments.0.sha256", "64 hexadecimal"),
        ("attachments", json!([{"name": "x"}]), "attachments.0.uri", "is required"),
        ("attachments", json!([{"uri": "file:reports/x", "mime": "x"}]), "attachments.0.mime", "unknown field"),
        ("labels.region", json!("a\rb"), "labels.region", "carriage return"),
        ("labels.region", json!("ada@customer.example"), "labels.region", "looks like an address"),
        ("labels.region", json!("x".repeat(129)), "labels.region", "longer than 128"),
        ("labels", json!({"a b": "x"}), "labels", "has the character"),
    ];
    for (path, value, field, words) in rows {
        let job = if path.starts_with("content.") && path.contains("params") && value.is_null() { job() } else { with(job(), path, value) };
        let found = faults(&door, &job);
        assert!(found.iter().any(|(f, e)| f == field && e.contains(words)), "{path}: {field} {words:?} not in {found:?}");
        assert!(!found.iter().any(|(_, e)| e.contains("customer.example") || e.contains("eve@")), "{path}: an address in {found:?}");
        assert_eq!(found[0].0, field, "the most telling fault comes first: {found:?}");
    }
    assert_eq!(faults(&door, &job()), vec![]);
}

#[test]
fn a_field_given_twice_and_a_broken_line_are_refused() {
    let folder = tempfile::tempdir().expect("a test's set-up works");
    let door = door(folder.path());
    for line in [&b"{\"tenant\":\"a\",\"tenant\":\"b\"}"[..], b"{", b"", b"[]", b"null", b"\"x\"", b"\xff\xfe", b"{}{}"] {
        let faults = door.admit(line, None, NOW).expect_err("refused");
        assert_eq!(faults[0].field, "line", "{line:?}");
    }
}

#[test]
fn a_release_defaults_to_now_and_a_past_one_stands() {
    let folder = tempfile::tempdir().expect("a test's set-up works");
    let door = door(folder.path());
    let admit = |job: Value| door.admit(job.to_string().as_bytes(), None, NOW).expect("accepted");
    assert_eq!(admit(with(job(), "release_at", Value::Null)).release_at, NOW);
    assert_eq!(admit(with(job(), "release_at", json!("2020-01-01T00:00:00Z"))).release_at.date(), "2020-01-01");
}

#[test]
fn a_local_time_is_resolved_in_its_zone_and_kept() {
    let folder = tempfile::tempdir().expect("a test's set-up works");
    let door = door(folder.path());
    let local = with(with(job(), "release_at", json!("2026-12-01T08:30:00")), "deadline_at", json!("2026-12-01T09:00"));
    let own = door.admit(with(local.clone(), "zone", json!("America/New_York")).to_string().as_bytes(), Some("Asia/Tokyo"), NOW).expect("accepted");
    assert_eq!(own.release_at.rfc3339(), "2026-12-01T13:30:00.000Z");
    let kept = own.local.clone().expect("kept");
    assert_eq!(
        (kept.zone.as_str(), kept.release.as_deref(), kept.deadline.as_deref()),
        ("America/New_York", Some("2026-12-01T08:30:00"), Some("2026-12-01T09:00"))
    );
    let lent = door.admit(local.to_string().as_bytes(), Some("Asia/Tokyo"), NOW).expect("accepted");
    assert_eq!(lent.release_at.rfc3339(), "2026-11-30T23:30:00.000Z");
    let offset = door.admit(job().to_string().as_bytes(), Some("Asia/Tokyo"), NOW).expect("accepted");
    assert_eq!(offset.local, None);
}

#[test]
fn a_tenant_that_names_nothing_gets_its_defaults() {
    let folder = tempfile::tempdir().expect("a test's set-up works");
    let door = door(folder.path());
    let admit = |job: Value| door.admit(job.to_string().as_bytes(), None, NOW).expect("accepted");
    let plain = admit(with(job(), "tenant", json!("slow")));
    assert_eq!((plain.policy.as_str(), plain.transport.as_str()), ("patient", "default"));
    let spelt = admit(with(with(job(), "tenant", json!("slow")), "policy", json!("patient")));
    assert_eq!(plain.fingerprints, spelt.fingerprints, "a default that is spelt out is the same content");
    assert_ne!(plain.fingerprints, admit(with(with(job(), "tenant", json!("slow")), "policy", json!("default"))).fingerprints);
}

#[test]
fn the_same_content_has_the_same_fingerprints_and_another_differs_by_field() {
    let folder = tempfile::tempdir().expect("a test's set-up works");
    let door = door(folder.path());
    let prints = |job: Value| door.admit(job.to_string().as_bytes(), None, NOW).expect("accepted").fingerprints;
    let first = prints(job());
    assert_eq!(first, prints(with(job(), "release_at", json!("2026-12-01T09:30:00+01:00"))));
    assert_eq!(first, prints(with(job(), "to.address", json!("ada.lovelace@CUSTOMER.example"))));
    for (path, value) in [
        ("to.address", json!("bob@customer.example")),
        ("content.params.plan", json!("Silver")),
        ("labels.region", json!("west")),
        ("deadline_at", json!("2026-12-01T09:01:00Z")),
    ] {
        let second = prints(with(job(), path, value));
        let differ: Vec<_> = first.iter().filter(|(f, v)| second.get(*f) != Some(v)).map(|(f, _)| f.as_str()).collect();
        assert_eq!(differ, vec![path]);
    }
    assert!(!first.values().any(|v| v.contains("customer")));
}

#[test]
fn what_names_a_person_is_sealed_and_the_rest_is_a_reference() {
    let folder = tempfile::tempdir().expect("a test's set-up works");
    let door = door(folder.path());
    let job = door.admit(job().to_string().as_bytes(), None, NOW).expect("accepted");
    let shown = format!("{job:?}");
    assert!(!shown.contains("lovelace") && !shown.contains("Ada") && !shown.contains("Gold"), "{shown}");
    assert!(job.recipient_masked.ends_with(".example") && !job.recipient_masked.contains("customer"));
    assert_eq!(job.id.0.get_version_num(), 7);
    let bytes = job.letter.as_bytes();
    assert!(!bytes.windows(8).any(|w| w == b"lovelace"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|f| json!(f)),
        ".{0,12}".prop_map(Value::from),
        Just(json!("2026-12-01T08:30:00")),
        Just(json!("renewal@1")),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,6}", inner, 0..4).prop_map(|m| json!(m))
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().expect("a test's set-up works");
        let door = door(folder.path());
        prop_assert!(door.admit(&bytes, Some("Europe/Berlin"), NOW).is_err());
    }

    #[test]
    fn no_value_in_any_field_panics(field in 0_usize..16, value in any_json()) {
        let folder = tempfile::tempdir().expect("a test's set-up works");
        let door = door(folder.path());
        let paths = ["tenant", "purpose", "subject_ref", "business_date", "key", "to", "to.address", "to.name", "content", "content.template", "content.params", "content.params.plan", "attachments", "release_at", "deadline_at", "labels"];
        let line = with(job(), paths[field], value).to_string();
        let _either = door.admit(line.as_bytes(), Some("Europe/Berlin"), NOW);
    }
}
