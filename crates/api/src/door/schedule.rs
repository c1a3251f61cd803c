//! A schedule at the door: read, judged against its zone's clock, its recipients and content sealed; and later its jobs, made of what was sealed.
//!
//! A job of a schedule goes through the same judgement as one that is submitted, so whatever could not be sent is refused when the schedule is put.

mod form;

pub(crate) use form::spread_text;

use curfew_book::{Definition, PutSchedule, ScheduleRow, aad};
use curfew_content::ZoneClock;
use curfew_domain::job::Job;
use curfew_domain::key::check_part;
use curfew_domain::recurrence::{CatchUp, Occurrence, Recurrence, SlotName, spread};
use curfew_domain::{Key, Moment};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::parse::{Content, Submitted, SubmittedAttachment};
use super::{Door, judge, seal};
use crate::problem::FieldError;

/// Faults that a refusal lists; of a thousand recipients with one fault the first few tell.
const FAULTS_MAX: usize = 20;
/// Bytes of a fingerprint.
const FINGERPRINT_BYTES: usize = 16;
/// Stands for the business date in an attachment's place and name.
const DATE: &str = "{date}";
/// Stands for the recipient's reference there.
const SUBJECT_REF: &str = "{subject_ref}";

/// A schedule that may be put.
pub struct AdmittedSchedule {
    /// For the book.
    pub put: PutSchedule,
    /// Its rule.
    pub recurrence: Recurrence,
    /// Its zone's clock.
    pub clock: ZoneClock,
    /// Dates without a window, where its author allows them.
    pub without_window: Vec<Occurrence>,
    pub(crate) private: Private,
}

/// What of a schedule names or speaks to a person. Only ever stored sealed; no `Debug`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Private {
    pub(crate) recipients: Vec<Recipient>,
    pub(crate) content: Words,
    pub(crate) attachments: Vec<Enclosed>,
}

/// One who gets a job of each slot.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recipient {
    subject_ref: String,
    address: String,
    name: Option<String>,
    /// Parameters of its own, over those of the content.
    params: Map<String, Value>,
}

/// Where the words come from.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Words {
    /// A template and the parameters that all recipients share.
    Template { name: String, params: Map<String, Value> },
    /// The words themselves.
    Inline { subject: Option<String>, text: Option<String>, html: Option<String> },
}

/// An attachment as written, placeholders and all.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Enclosed {
    uri: String,
    name: Option<String>,
    sha256: Option<String>,
}

/// A schedule whose private part is open.
pub struct OpenSchedule {
    tenant: String,
    definition: Definition,
    private: Private,
}

/// A slot's window, before it is spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotWindow<'a> {
    /// The slot.
    pub name: &'a SlotName,
    /// Nobody is sent anything before.
    pub release_at: Moment,
    /// Nor at or after this.
    pub deadline_at: Moment,
}

impl Door {
    /// A schedule as it is written, judged and sealed. Renders a letter for each recipient: call it where blocking is allowed.
    ///
    /// # Errors
    /// The fields at fault, 20 at most; that it never fires; the dates without a window.
    pub fn admit_schedule(&self, tenant: &str, name: &str, value: Value, now: Moment) -> Result<AdmittedSchedule, Vec<FieldError>> {
        let mut faults = Vec::new();
        for (field, part) in [("tenant", tenant), ("name", name)] {
            if let Err(e) = check_part(part) {
                faults.push(FieldError::new(field, e.to_string()));
            }
        }
        let (definition, private) = match form::read(tenant, name, value) {
            Ok(read) => read,
            Err(found) => return Err(cut(faults.into_iter().chain(found))),
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        let clock = self.zones.clock(&definition.timetable.zone).map_err(|e| vec![FieldError::new("zone", e.to_string())])?;
        let admitted = definition.timetable.admit(&clock, now).map_err(|e| vec![FieldError::new(e.field, e.reason)]);
        let open = OpenSchedule { tenant: tenant.to_owned(), definition, private };
        let (recurrence, without_window) = match (admitted, self.tried(&open, now)) {
            (Ok(admitted), faults) if faults.is_empty() => admitted,
            (admitted, faults) => return Err(cut(admitted.err().unwrap_or_default().into_iter().chain(faults))),
        };
        let OpenSchedule { definition, private, .. } = open;
        let plain = serde_json::to_vec(&private).expect("texts and maps serialise");
        let aad = aad(tenant, name);
        let fingerprint = hex::encode(&self.keyring.keyed_hash(&aad, &plain)[..FINGERPRINT_BYTES]);
        let put = PutSchedule { definition, private: self.keyring.seal(rand::random(), &aad, &plain), fingerprint };
        Ok(AdmittedSchedule { put, recurrence, clock, without_window, private })
    }

    /// A letter to each recipient, as a slot of tomorrow would have it.
    fn tried(&self, open: &OpenSchedule, now: Moment) -> Vec<FieldError> {
        let date = curfew_domain::recurrence::Local::from_millis(now.as_millis()).date();
        let name = SlotName { date, slot: date.to_string() };
        let hour = std::time::Duration::from_secs(3600);
        let slot = SlotWindow { name: &name, release_at: now.plus(hour), deadline_at: now.plus(2 * hour) };
        let mut faults: Vec<FieldError> = Vec::new();
        for n in 0..open.private.recipients.len() {
            for fault in self.judged(open, n, slot).err().unwrap_or_default() {
                // What all recipients share is told once.
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
            if faults.len() >= FAULTS_MAX {
                break;
            }
        }
        faults
    }

    /// Opens a schedule; `None` where it was sealed under a key that is no longer configured.
    pub fn open_schedule(&self, row: &ScheduleRow) -> Option<OpenSchedule> {
        let private = self.private(row)?;
        Some(OpenSchedule { tenant: row.tenant.clone(), definition: row.definition.clone(), private })
    }

    pub(crate) fn private(&self, row: &ScheduleRow) -> Option<Private> {
        let plain = self.keyring.open(&aad(&row.tenant, &row.name), &row.private).ok()?;
        serde_json::from_slice(&plain.0).ok()
    }

    /// The job of recipient `n`, counted from 0, in a slot. Each call draws another id; the key is the slot's and the recipient's.
    ///
    /// # Errors
    /// What keeps it from being written by now, for instance a template that is gone; no address among it.
    pub fn scheduled_job(&self, open: &OpenSchedule, n: usize, slot: SlotWindow<'_>, now: Moment) -> Result<Job, Vec<FieldError>> {
        let judged = self.judged(open, n, slot)?;
        Ok(seal::seal(self, judged, self.ids.next(now), now))
    }

    fn judged(&self, open: &OpenSchedule, n: usize, slot: SlotWindow<'_>) -> Result<judge::Judged, Vec<FieldError>> {
        let Some(recipient) = open.private.recipients.get(n) else { return Err(vec![FieldError::new("recipients", "has fewer entries")]) };
        let submitted = open.submitted(recipient, slot);
        // A missed slot's job is made past its deadline and ends by it, visibly: the door's own clock has no say.
        judge::judge(self, submitted, None, slot.release_at).map_err(|faults| faults.into_iter().map(|fault| of_recipient(n, fault)).collect())
    }
}

/// A fault of the recipient's own carries its place in the list.
fn of_recipient(n: usize, fault: FieldError) -> FieldError {
    let own = match fault.field.as_str() {
        "to.address" => Some("address"),
        "to.name" => Some("name"),
        "subject_ref" => Some("subject_ref"),
        _ => None,
    };
    FieldError { field: own.map_or(fault.field, |own| format!("recipients.{n}.{own}")), ..fault }
}

fn cut(faults: impl Iterator<Item = FieldError>) -> Vec<FieldError> {
    faults.take(FAULTS_MAX).collect()
}

impl OpenSchedule {
    /// How many recipients it has.
    pub fn recipients(&self) -> usize {
        self.private.recipients.len()
    }

    fn submitted(&self, to: &Recipient, slot: SlotWindow<'_>) -> Submitted {
        let Definition { purpose, timetable, policy, transport, .. } = &self.definition;
        let date = slot.name.date.to_string();
        let filled = |text: &String| text.replace(DATE, &date).replace(SUBJECT_REF, &to.subject_ref);
        let key = Key::from_parts(&self.tenant, purpose, &to.subject_ref, &slot.name.slot);
        // A key out of form is refused by the judgement that follows.
        let release_at = key.map_or(slot.release_at, |key| spread(key.as_str(), slot.release_at, Some(slot.deadline_at), timetable.spread()));
        let content = match &self.private.content {
            Words::Template { name, params } => {
                let mut params = params.clone();
                params.extend(to.params.clone());
                Content::Template { name: name.clone(), params }
            }
            Words::Inline { subject, text, html } => Content::Inline { subject: subject.clone(), text: text.clone(), html: html.clone() },
        };
        let attachments = self.private.attachments.iter();
        Submitted {
            tenant: self.tenant.clone(),
            purpose: purpose.clone(),
            subject_ref: to.subject_ref.clone(),
            business_date: slot.name.slot.clone(),
            key: None,
            to_address: to.address.clone(),
            to_name: to.name.clone(),
            content,
            attachments: attachments
                .map(|a| SubmittedAttachment { uri: filled(&a.uri), name: a.name.as_ref().map(filled), sha256: a.sha256.clone() })
                .collect(),
            release_at: Some(release_at.rfc3339()),
            deadline_at: slot.deadline_at.rfc3339(),
            zone: None,
            policy: policy.clone(),
            transport: transport.clone(),
            labels: std::collections::BTreeMap::new(),
        }
    }
}

impl Private {
    /// The template's name, where there is one.
    pub(crate) fn template(&self) -> Option<&str> {
        match &self.content {
            Words::Template { name, .. } => Some(name),
            Words::Inline { .. } => None,
        }
    }
}

/// The word of a catch-up rule, or what is allowed.
fn catch_up(word: &str) -> Result<CatchUp, &'static str> {
    CatchUp::from_word(word).ok_or("allowed: one, each, none")
}
