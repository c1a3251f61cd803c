//! Jobs for a load test: real in form, small in content, one NDJSON line each.

use std::io::Write;
use std::path::Path;

use chrono::{DateTime, SecondsFormat, Utc};

/// When a plan's jobs run.
#[derive(Clone, Copy)]
pub struct When {
    pub release_at: DateTime<Utc>,
    pub deadline_at: DateTime<Utc>,
}

/// Writes `count` jobs under `purpose` into a file.
pub fn write(file: &Path, purpose: &str, count: u32, tenants: u32, when: When) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    let at = |t: DateTime<Utc>| t.to_rfc3339_opts(SecondsFormat::Millis, true);
    let (release, deadline) = (at(when.release_at), at(when.deadline_at));
    for n in 0..count {
        let line = serde_json::json!({
            "tenant": format!("tenant-{}", n % tenants.max(1)), "purpose": purpose, "subject_ref": format!("R-{n}"), "business_date": "2026-12-01",
            "to": {"address": format!("customer-{n}@load.example"), "name": format!("Customer {n}")},
            "content": {"subject": format!("Your report {n}"), "text": TEXT},
            "release_at": release, "deadline_at": deadline,
        });
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// About as long as a short reminder is.
const TEXT: &str = "Good morning,\n\nyour report for today is ready. It has three pages, and nothing in it needs your attention before noon.\n\n\
If you would rather get it at another time, answer this mail and say when.\n\nWith kind regards\nThe reports team\n";
