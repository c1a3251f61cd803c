//! The meaning of a submitted job: names that exist, times in order, an address that mail systems accept, a letter that can be written.
//!
//! All faults are found, so that a file is mended in one go. No fault repeats a value that may name a person.

use std::collections::BTreeMap;

use curfew_content::artifact::check_sha256;
use curfew_content::header_text::check_line;
use curfew_content::{ContentError, Inline, Rendered, check_inline, render};
use curfew_domain::address::{self, Address};
use curfew_domain::job::{Attachment, Letter, LocalTimes, TemplateUse};
use curfew_domain::key::{KeyError, check_part};
use curfew_domain::limits::RECORD_PINS_MAX;
use curfew_domain::{Key, Moment};

use super::Door;
use super::parse::{Content, Submitted, SubmittedAttachment};
use super::times::{self, ReadTime};
use crate::free_text::holds_address;
use crate::limits::LABEL_BYTES_MAX;
use crate::nearest::hint;
use crate::problem::FieldError;

/// A job that may come in, its letter still open. No `Debug`.
pub(super) struct Judged {
    pub key: Key,
    pub tenant: String,
    pub purpose: String,
    pub subject_ref: String,
    pub business_date: String,
    pub address: Address,
    pub letter: Letter,
    pub release_at: Moment,
    pub deadline_at: Moment,
    pub local: Option<LocalTimes>,
    pub policy: String,
    pub transport: String,
    pub labels: BTreeMap<String, String>,
    /// What was submitted, field by field, for fingerprints.
    pub said: Vec<(String, String)>,
}

struct Faults(Vec<FieldError>);

impl Faults {
    fn add(&mut self, field: impl Into<String>, error: impl Into<String>) {
        self.0.push(FieldError::new(field, error));
    }

    fn content(&mut self, e: ContentError) {
        self.0.push(FieldError::new(e.field, e.reason));
    }

    fn keep<T>(&mut self, found: Result<T, FieldError>) -> Option<T> {
        found.map_err(|e| self.0.push(e)).ok()
    }
}

pub(super) fn judge(door: &Door, job: Submitted, zone: Option<&str>, now: Moment) -> Result<Judged, Vec<FieldError>> {
    let mut faults = Faults(Vec::new());
    let key = key(&job, &mut faults);
    let address = recipient(&job, &mut faults);
    let times = all_times(door, &job, zone, now, &mut faults);
    let policy = named(&mut faults, "policy", &job.policy, door.known.policy_of(&job.tenant), &door.known.policies);
    let transport = named(&mut faults, "transport", &job.transport, door.known.transport_of(&job.tenant), &door.known.transports);
    labels(&job.labels, &mut faults);
    let attachments = attachments(door, &job.attachments, &mut faults);
    let said = said(door, &job, address.as_ref(), times.as_ref(), &attachments);
    let letter = letter(door, job.content, &mut faults);
    let (Some(key), Some(address), Some(times), Some((rendered, template))) = (key, address, times, letter) else { return Err(faults.0) };
    if !faults.0.is_empty() {
        return Err(faults.0);
    }
    let letter = Letter {
        to_address: job.to_address,
        to_name: job.to_name,
        subject: rendered.subject,
        text: rendered.text,
        html: rendered.html,
        list_unsubscribe: rendered.list_unsubscribe,
        attachments,
        template,
    };
    Ok(Judged {
        key,
        tenant: job.tenant,
        purpose: job.purpose,
        subject_ref: job.subject_ref,
        business_date: job.business_date,
        address,
        letter,
        release_at: times.release_at,
        deadline_at: times.deadline_at,
        local: times.local,
        policy,
        transport,
        labels: job.labels,
        said,
    })
}

fn key(job: &Submitted, faults: &mut Faults) -> Option<Key> {
    let before = faults.0.len();
    for (name, part) in [("tenant", &job.tenant), ("purpose", &job.purpose), ("subject_ref", &job.subject_ref), ("business_date", &job.business_date)]
    {
        if let Err(e) = check_part(part) {
            faults.add(name, e.to_string());
        } else if name == "business_date" && !is_business_date(part) {
            faults.add(name, "is no date: YYYY-MM-DD, or with a slot, YYYY-MM-DDTHHMM or YYYY-MM-DDTHHMMZ");
        }
    }
    let key = match &job.key {
        Some(given) => Key::given(&job.tenant, given).map_err(|e| faults.add("key", key_fault(e))).ok(),
        None => Key::from_parts(&job.tenant, &job.purpose, &job.subject_ref, &job.business_date).ok(),
    };
    key.filter(|_| faults.0.len() == before)
}

fn key_fault(e: KeyError) -> String {
    match e {
        KeyError::Character(c) => format!("has the character {c:?}; allowed are letters, digits and . _ : - /"),
        KeyError::Empty | KeyError::TooLong(_) | KeyError::OtherTenant => e.to_string(),
    }
}

/// A date of the calendar, alone or with a slot; its seconds stand there where a schedule has them.
fn is_business_date(text: &str) -> bool {
    let (date, slot) = text.split_at_checked(10).unwrap_or((text, ""));
    let shape = date.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    let day = shape && Moment::parse(&format!("{date}T00:00:00Z")).is_some();
    let slot_fits = match slot.strip_prefix('T').map(|s| s.strip_suffix('Z').unwrap_or(s)) {
        None => slot.is_empty(),
        Some(time) => {
            let part = |at: usize, below: &str| time.get(at..at + 2).is_some_and(|part| part < below);
            matches!(time.len(), 4 | 6)
                && time.bytes().all(|b| b.is_ascii_digit())
                && part(0, "24")
                && part(2, "60")
                && (time.len() == 4 || part(4, "60"))
        }
    };
    day && slot_fits
}

fn recipient(job: &Submitted, faults: &mut Faults) -> Option<Address> {
    if let Some(name) = &job.to_name
        && let Err(e) = check_line("to.name", name)
    {
        faults.content(e);
    }
    address::check(&job.to_address).map_err(|e| faults.add("to.address", e.to_string())).ok()
}

struct Times {
    release: Option<ReadTime>,
    deadline: ReadTime,
    release_at: Moment,
    deadline_at: Moment,
    local: Option<LocalTimes>,
}

fn all_times(door: &Door, job: &Submitted, zone: Option<&str>, now: Moment, faults: &mut Faults) -> Option<Times> {
    let before = faults.0.len();
    let zone = job.zone.as_deref().or(zone);
    if let Some(given) = &job.zone
        && let Err(e) = door.zones.check(given)
    {
        faults.add("zone", e.to_string());
        return None;
    }
    let release = job.release_at.as_deref().map(|text| faults.keep(times::read(&door.zones, "release_at", text, zone)));
    let deadline = faults.keep(times::read(&door.zones, "deadline_at", &job.deadline_at, zone));
    let (release, deadline) = match (release, deadline) {
        (None, Some(deadline)) => (None, deadline),
        (Some(Some(release)), Some(deadline)) => (Some(release), deadline),
        (_, None) | (Some(None), _) => return None,
    };
    let (release_at, deadline_at) = (release.as_ref().map_or(now, |r| r.at), deadline.at);
    if deadline_at <= now {
        faults.add("deadline_at", "is already past");
    } else if deadline_at <= release_at {
        faults.add("deadline_at", "is not after the release");
    }
    let (local_release, local_deadline) = (release.as_ref().and_then(|r| r.local.clone()), deadline.local.clone());
    let local = zone.filter(|_| local_release.is_some() || local_deadline.is_some()).map(|zone| LocalTimes {
        zone: zone.to_owned(),
        release: local_release,
        deadline: local_deadline,
    });
    (faults.0.len() == before).then_some(Times { release, deadline, release_at, deadline_at, local })
}

fn named(faults: &mut Faults, field: &str, given: &Option<String>, otherwise: &str, known: &std::collections::BTreeSet<String>) -> String {
    let name = given.as_deref().unwrap_or(otherwise);
    if !known.contains(name) {
        faults.add(field, format!("unknown {field}{}", hint(name, known.iter().map(String::as_str))));
    }
    name.to_owned()
}

fn labels(labels: &BTreeMap<String, String>, faults: &mut Faults) {
    for (name, value) in labels {
        let field = format!("labels.{name}");
        if let Err(e) = check_line(&field, value) {
            faults.content(e);
        } else if value.len() > LABEL_BYTES_MAX {
            faults.add(field, format!("is longer than {LABEL_BYTES_MAX} bytes"));
        } else if holds_address(value) {
            faults.add(field, "looks like an address; labels stand in lists, where no address may");
        }
    }
}

fn attachments(door: &Door, submitted: &[SubmittedAttachment], faults: &mut Faults) -> Vec<Attachment> {
    if submitted.iter().filter(|a| a.sha256.is_none()).count() > RECORD_PINS_MAX {
        faults.add("attachments", format!("more than {RECORD_PINS_MAX} have no sha256; give it for the others"));
    }
    let each =
        submitted.iter().enumerate().map(|(n, a)| attachment(door, &format!("attachments.{n}"), &a.uri, a.name.as_deref(), a.sha256.as_deref()));
    each.filter_map(|found| found.map_err(|e| faults.0.extend(e)).ok()).collect()
}

/// One attachment, checked without looking at its file.
pub(crate) fn attachment(door: &Door, prefix: &str, uri: &str, name: Option<&str>, sha256: Option<&str>) -> Result<Attachment, Vec<FieldError>> {
    let mut faults = Faults(Vec::new());
    if let Err(e) = door.artifacts.check_uri(uri) {
        faults.add(format!("{prefix}.uri"), e.to_string());
    }
    let field = format!("{prefix}.name");
    let name = name.unwrap_or_else(|| uri.rsplit(['/', ':']).next().unwrap_or_default());
    if name.trim().is_empty() || name.contains(['/', '\\']) {
        faults.add(&field, "must be a file name without a folder");
    } else if let Err(e) = check_line(&field, name) {
        faults.content(e);
    }
    let field = format!("{prefix}.sha256");
    let sha256 = sha256.and_then(|hash| check_sha256(&field, hash).map_err(|e| faults.content(e)).ok());
    if faults.0.is_empty() { Ok(Attachment { uri: uri.to_owned(), name: name.to_owned(), sha256 }) } else { Err(faults.0) }
}

fn letter(door: &Door, content: Content, faults: &mut Faults) -> Option<(Rendered, Option<TemplateUse>)> {
    let found = match content {
        Content::Template { name, params } => render(&door.templates, &name, &params).map(|rendered| {
            let params = serde_json::Value::Object(params).to_string();
            (rendered, Some(TemplateUse { template: name, params }))
        }),
        Content::Inline { subject, text, html } => {
            check_inline(Inline { subject: subject.as_deref(), text: text.as_deref(), html: html.as_deref() }).map(|rendered| (rendered, None))
        }
    };
    found.map_err(|e| faults.content(e)).ok()
}

/// What the submitter said, in a form in which saying the same twice reads the same. A default that is spelt out counts as not said.
fn said(door: &Door, job: &Submitted, address: Option<&Address>, times: Option<&Times>, attachments: &[Attachment]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::with_capacity(16);
    let mut say = |field: &str, value: Option<String>| all.extend(value.map(|v| (field.to_owned(), v)));
    say("purpose", Some(job.purpose.clone()));
    say("subject_ref", Some(job.subject_ref.clone()));
    say("business_date", Some(job.business_date.clone()));
    say("to.address", address.map(Address::normal));
    say("to.name", job.to_name.clone());
    match &job.content {
        Content::Template { name, params } => {
            say("content.template", Some(name.clone()));
            for (param, value) in params.iter().filter(|(_, v)| !v.is_null()) {
                say(&format!("content.params.{param}"), Some(value.to_string()));
            }
        }
        Content::Inline { subject, text, html } => {
            say("content.subject", subject.clone());
            say("content.text", text.clone());
            say("content.html", html.clone());
        }
    }
    let zone = times.and_then(|t| t.local.as_ref()).map(|l| l.zone.as_str()).unwrap_or_default();
    let time = |t: &ReadTime| t.local.as_ref().map_or_else(|| t.at.as_millis().to_string(), |local| format!("{local} {zone}"));
    say("release_at", times.and_then(|t| t.release.as_ref()).map(time));
    say("deadline_at", times.map(|t| time(&t.deadline)));
    say("attachments", (!attachments.is_empty()).then(|| serde_json::to_string(attachments).expect("attachments are plain texts")));
    say("policy", job.policy.clone().filter(|p| p != door.known.policy_of(&job.tenant)));
    say("transport", job.transport.clone().filter(|t| t != door.known.transport_of(&job.tenant)));
    for (label, value) in &job.labels {
        say(&format!("labels.{label}"), Some(value.clone()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_business_date_is_a_day_or_a_day_with_a_slot() {
        for good in ["2026-12-01", "2028-02-29", "2026-12-01T0900", "2026-12-01T0630Z", "2026-12-01T2359", "2026-12-01T063059Z"] {
            assert!(is_business_date(good), "{good}");
        }
        for bad in [
            "",
            "2026-02-29",
            "2026-13-01",
            "20261201",
            "2026-12-01T",
            "2026-12-01T2400",
            "2026-12-01T0960",
            "2026-12-01T090060",
            "2026-12-01T09000",
            "2026-12-01T09:00",
            "2026-12-01Z",
            "2026-1é-01",
        ] {
            assert!(!is_business_date(bad), "{bad}");
        }
    }
}
