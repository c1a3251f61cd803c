//! Schedule files: `[[schedule]]` tables of TOML, with the CSV files of recipients and the lists of holidays that they name, as bodies for HTTP.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::exit::Failure;

/// A schedule as a file gives it.
#[derive(Debug)]
pub struct ScheduleFile {
    /// Whose.
    pub tenant: String,
    /// Which.
    pub name: String,
    /// The body that is put.
    pub body: Value,
}

/// Reads all files, and what they name relative to their own folder. Nothing is sent before.
///
/// # Errors
/// Usage: a file that can't be read, no schedule, one without tenant or name, one that stands there twice, an unknown CSV column.
pub fn read(files: &[PathBuf]) -> Result<Vec<ScheduleFile>, Failure> {
    let (mut all, mut met) = (Vec::new(), BTreeSet::new());
    for file in files {
        let text = text_of(file)?;
        for one in of_text(file, &text)? {
            if !met.insert((one.tenant.clone(), one.name.clone())) {
                return Err(at(file, format!("{}/{} stands there twice", one.tenant, one.name)));
            }
            all.push(one);
        }
    }
    Ok(all)
}

fn at(file: &Path, says: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("{}: {says}", file.display()))
}

fn text_of(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|e| at(file, e))
}

fn of_text(file: &Path, text: &str) -> Result<Vec<ScheduleFile>, Failure> {
    let mut whole: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        // The library's own text quotes the line, which may hold an address.
        let line = e.span().map_or(0, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
        at(file, format!("line {line}: {}", e.message()))
    })?;
    let schedules = whole.remove("schedule");
    if let Some(other) = whole.keys().next() {
        return Err(at(file, format!("{other}: unknown; a schedule file holds [[schedule]] tables alone")));
    }
    let Some(toml::Value::Array(schedules)) = schedules else { return Err(at(file, "has no [[schedule]] table")) };
    schedules.into_iter().enumerate().map(|(n, schedule)| one(file, n + 1, schedule)).collect()
}

fn one(file: &Path, number: usize, schedule: toml::Value) -> Result<ScheduleFile, Failure> {
    let Value::Object(mut body) = json_of(schedule) else { return Err(at(file, "schedule: must be a list of tables, [[schedule]]")) };
    let required = |field: &str| {
        let text = body.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| at(file, format!("schedule {number}: {field}: is required")))
    };
    let (tenant, name) = (required("tenant")?, required("name")?);
    let beside = |named: &str| file.parent().unwrap_or_else(|| Path::new("")).join(named);
    if let Some(named) = body.remove("recipients_file") {
        let named = named.as_str().ok_or_else(|| at(file, format!("{tenant}/{name}: recipients_file: must be a text")))?.to_owned();
        let recipients = body.entry("recipients").or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(recipients) = recipients else { return Err(at(file, format!("{tenant}/{name}: recipients: must be a list"))) };
        recipients.extend(recipients_of(&beside(&named))?);
    }
    if let Some(Value::Object(calendar)) = body.get_mut("calendar")
        && let Some(named) = calendar.remove("holidays_file")
    {
        let named = named.as_str().ok_or_else(|| at(file, format!("{tenant}/{name}: calendar.holidays_file: must be a text")))?.to_owned();
        let text = text_of(&beside(&named))?;
        let dates = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
        let holidays = calendar.entry("holidays").or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(holidays) = holidays else { return Err(at(file, format!("{tenant}/{name}: calendar.holidays: must be a list"))) };
        holidays.extend(dates.map(Value::from));
    }
    Ok(ScheduleFile { tenant, name, body: Value::Object(body) })
}

/// Dates and times of TOML as the texts that they are written in.
fn json_of(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => json!(number),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(json_of).collect(),
        toml::Value::Table(fields) => Value::Object(fields.into_iter().map(|(name, value)| (name, json_of(value))).collect()),
    }
}

/// A header row with `subject_ref`, `address`, `name` and `params.*`; an empty cell is absent.
fn recipients_of(file: &Path) -> Result<Vec<Value>, Failure> {
    let text = text_of(file)?;
    let mut rows = csv::Reader::from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let header = rows.headers().map_err(|_e| at(file, "line 1: no header row"))?.clone();
    for column in &header {
        let known = matches!(column, "subject_ref" | "address" | "name") || column.strip_prefix("params.").is_some_and(|param| !param.is_empty());
        if !known {
            let shown = curfew_telemetry::logs::redacted(column);
            return Err(at(file, format!("line 1: unknown column {shown:?}; known: subject_ref, address, name, params.*")));
        }
    }
    let mut all = Vec::new();
    for row in rows.records() {
        let row =
            row.map_err(|e| at(file, format!("line {}: can't be read, or has not the header's cells", e.position().map_or(0, csv::Position::line))))?;
        let (mut one, mut params) = (Map::new(), Map::new());
        for (column, cell) in header.iter().zip(&row).filter(|(_, cell)| !cell.is_empty()) {
            match column.strip_prefix("params.") {
                Some(param) => params.insert(param.to_owned(), cell.into()),
                None => one.insert(column.to_owned(), cell.into()),
            };
        }
        if !params.is_empty() {
            one.insert("params".to_owned(), Value::Object(params));
        }
        all.push(Value::Object(one));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[[schedule]]
name = "daily-report"
tenant = "acme"
purpose = "daily-report"
cron = "30 8 * * 1-5"
zone = "America/New_York"
deadline = "09:00"
start = 2027-01-01
content = { template = "daily@4" }
recipients = [{ subject_ref = "R-1", address = "ada@example.com" }]
recipients_file = "more.csv"
calendar = { week = ["MON"], holidays_file = "holidays.txt" }
"#;

    fn folder(csv: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("s.toml"), FILE).expect("written");
        std::fs::write(folder.path().join("more.csv"), csv).expect("written");
        std::fs::write(folder.path().join("holidays.txt"), "# 2027\n2027-01-01 # New Year\n\n").expect("written");
        folder
    }

    #[test]
    fn a_file_brings_its_recipients_and_holidays_from_beside_it() {
        let folder = folder("subject_ref,address,name,params.plan\nR-2,bob@example.com,,Gold\nR-3,eve@example.com,\"Eve, E\",\n");
        let read = read(&[folder.path().join("s.toml")]).expect("read");
        assert_eq!((read.len(), read[0].tenant.as_str(), read[0].name.as_str()), (1, "acme", "daily-report"));
        let body = &read[0].body;
        assert_eq!(body["start"], "2027-01-01");
        assert_eq!(body["recipients"][1], json!({"subject_ref": "R-2", "address": "bob@example.com", "params": {"plan": "Gold"}}));
        assert_eq!(body["recipients"][2], json!({"subject_ref": "R-3", "address": "eve@example.com", "name": "Eve, E"}));
        assert_eq!(body["calendar"], json!({"week": ["MON"], "holidays": ["2027-01-01"]}));
        assert!(body.get("recipients_file").is_none());
    }

    #[test]
    fn what_can_not_be_read_is_usage_and_names_its_place_without_an_address() {
        for (csv, names) in [
            ("subject_ref,email\nR-2,bob@example.com\n", "more.csv: line 1: unknown column \"email\""),
            ("subject_ref,address\nR-2,bob@example.com,3\n", "more.csv: line 2"),
        ] {
            let folder = folder(csv);
            let failure = read(&[folder.path().join("s.toml")]).expect_err("refused");
            assert!(failure.exit == crate::exit::Exit::Usage && failure.says.contains(names) && !failure.says.contains("bob"), "{failure:?}");
        }
        for (text, names) in [
            ("", "no [[schedule]]"),
            ("[other]\n", "other: unknown"),
            ("[[schedule]]\nname = \"x\"\n", "schedule 1: tenant: is required"),
            ("[[schedule]]\nname = \"x\n", "line 2"),
        ] {
            let failure = of_text(Path::new("s.toml"), text).expect_err("refused");
            assert!(failure.says.contains(names), "{failure:?}");
        }
        let folder = folder("subject_ref,address\n");
        let file = folder.path().join("s.toml");
        assert!(read(&[file.clone(), file]).is_err_and(|f| f.says.contains("stands there twice")));
    }
}
