//! Jobs as a test submits them, and what it asks about them afterwards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_domain::Moment;
use serde_json::{Value, json};

use crate::http::{Http, part};
use crate::wait::{PATIENCE, until, until_showing};

/// The tenant of every job that doesn't say otherwise.
pub const TENANT: &str = "acme";
/// The business date of every job that doesn't say otherwise.
pub const DATE: &str = "2026-12-01";

/// Now, by this machine's clock.
///
/// # Panics
/// Before 1970.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    Moment::from_millis(i64::try_from(since.as_millis()).expect("it is before the year 292277026596"))
}

/// A moment from now on, as a submitter writes it.
pub fn in_time(from_now: Duration) -> String {
    now().plus(from_now).rfc3339()
}

/// A job with inline content that runs at once and may run for an hour. Its key is `acme/test/SUBJECT/2026-12-01`.
pub fn job(subject: &str, address: &str) -> Value {
    json!({
        "tenant": TENANT, "purpose": "test", "subject_ref": subject, "business_date": DATE,
        "to": {"address": address},
        "content": {"subject": format!("Report {subject}"), "text": "The figures of the day.\n"},
        "deadline_at": in_time(Duration::from_secs(3600)),
    })
}

/// The key that `job` gives a subject.
pub fn key(subject: &str) -> String {
    format!("{TENANT}/test/{subject}/{DATE}")
}

/// Jobs as the lines of an import.
pub fn ndjson(jobs: &[Value]) -> Vec<u8> {
    jobs.iter().flat_map(|job| format!("{job}\n").into_bytes()).collect()
}

/// States out of which no job comes by itself.
pub fn is_terminal(state: &str) -> bool {
    matches!(state, "sent" | "dead_letter" | "cancelled" | "suppressed")
}

impl Http {
    /// Submits one job that must be new; it as it reads.
    ///
    /// # Panics
    /// Where it isn't accepted.
    pub fn submit(&self, job: &Value) -> Value {
        self.post("/v1/jobs", job).expect(201)
    }

    /// Submits many; the summary.
    ///
    /// # Panics
    /// Where the import is refused.
    pub fn import(&self, jobs: &[Value]) -> Value {
        self.post_bytes("/v1/jobs/import", "application/x-ndjson", &[], &ndjson(jobs)).expect(200)
    }

    /// A job, by key or id.
    ///
    /// # Panics
    /// Where there is none.
    pub fn job(&self, name: &str) -> Value {
        self.get(&format!("/v1/jobs/{}", part(name))).expect(200)
    }

    /// Waits until a job is in a state; the job.
    ///
    /// # Panics
    /// Past the patience, showing what it is instead.
    pub fn job_in(&self, name: &str, state: &str) -> Value {
        until_showing(PATIENCE, &format!("{name} in state {state}"), || {
            let job = self.job(name);
            if job["state"] == state { Ok(job) } else { Err(job) }
        })
    }

    /// Every job, page by page.
    ///
    /// # Panics
    /// Where a page is refused.
    pub fn all_jobs(&self, query: &str) -> Vec<Value> {
        self.pages("/v1/jobs", query)
    }

    /// Every review item, page by page.
    ///
    /// # Panics
    /// Where a page is refused.
    pub fn all_items(&self, query: &str) -> Vec<Value> {
        self.pages("/v1/review", query)
    }

    fn pages(&self, path: &str, query: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = None::<String>;
        loop {
            let next = cursor.as_deref().map(|c| format!("&cursor={}", part(c))).unwrap_or_default();
            let page = self.get(&format!("{path}?limit=500{query}{next}")).expect(200);
            all.extend(page["items"].as_array().expect("a page has items").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return all,
            }
        }
    }

    /// The one review item of a job.
    ///
    /// # Panics
    /// Where it has none, or several.
    pub fn item_of(&self, key: &str) -> Value {
        let items: Vec<Value> = until(&format!("a review item of {key}"), || {
            let items: Vec<Value> = self.all_items("").into_iter().filter(|item| item["key"] == key).collect();
            (!items.is_empty()).then_some(items)
        });
        assert_eq!(items.len(), 1, "{items:#?}");
        items[0].clone()
    }

    /// The day's reconciliation.
    ///
    /// # Panics
    /// Where it isn't answered.
    pub fn day(&self) -> Value {
        self.get(&format!("/v1/days/{DATE}")).expect(200)
    }

    /// Waits until so many jobs are accepted and none of them is planned or live; the day.
    ///
    /// # Panics
    /// Past the deadline, showing the day.
    pub fn all_ended(&self, count: u64, deadline: Duration) -> Value {
        until_showing(deadline, &format!("the end of {count} jobs"), || {
            let day = self.day();
            if day["accepted"] == count && day["planned"] == 0 && day["live"] == 0 { Ok(day) } else { Err(day) }
        })
    }
}
