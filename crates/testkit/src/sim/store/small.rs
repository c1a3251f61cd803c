//! Small tables that live in the book: suppressions, holds, constants, beats, and the audit trail (K7).

use curfew_book::trail::{self, BEFORE_THE_FIRST, CURFEW, hold_object};
use curfew_book::{AuditEntry, BookError, HoldRow, Page, SuppressionRow, paging};
use curfew_domain::Moment;
use curfew_domain::sealed::RecipientRef;
use serde_json::json;

use super::server::Tx;
use super::tables::{AuditRow, Tables};

impl Tx<'_> {
    /// Appends to the audit trail: actor, action, object, reason, detail.
    pub(super) fn trail(&mut self, at: Moment, [actor, action, object, reason, detail]: [&str; 5]) {
        let last = self.tables.audit.iter().next_back();
        let (number, before) = last.map_or((1, BEFORE_THE_FIRST.to_vec()), |(number, row)| (number + 1, row.hash.clone()));
        let hash = trail::hash(&before, number.cast_signed(), trail::Entry { at, actor, action, object, reason, detail });
        let [actor, action, object, reason, detail] = [actor, action, object, reason, detail].map(str::to_owned);
        self.tables.audit.put(number, AuditRow { entry: AuditEntry { number, at, actor, action, object, reason, detail }, hash });
    }

    pub(super) fn suppress_recipient(&mut self, row: SuppressionRow) -> bool {
        let key = (row.recipient_ref.0.clone(), row.tenant.clone().unwrap_or_default());
        let new = self.tables.suppressions.insert(key, row.clone());
        if new && row.actor != CURFEW {
            let detail = json!({ "tenant": row.tenant }).to_string();
            self.trail(row.since, [&row.actor, "suppress_recipient", &row.recipient_ref.0, &row.reason, &detail]);
        }
        new
    }

    pub(super) fn unsuppress_recipient(&mut self, tenant: Option<&str>, recipient: &RecipientRef, by: (&str, &str), at: Moment) -> bool {
        let gone = self.tables.suppressions.remove(&(recipient.0.clone(), tenant.unwrap_or_default().to_owned()));
        if gone && by.0 != CURFEW {
            let detail = json!({ "tenant": tenant }).to_string();
            self.trail(at, [by.0, "unsuppress_recipient", &recipient.0, by.1, &detail]);
        }
        gone
    }

    pub(super) fn hold(&mut self, row: HoldRow) {
        if row.actor != CURFEW {
            let detail = json!({ "until": row.until.map(Moment::rfc3339) }).to_string();
            self.trail(row.since, [&row.actor, &row.by, &hold_object(&row.kind, &row.name), &row.reason, &detail]);
        }
        self.tables.holds.put((row.kind.clone(), row.name.clone(), row.by.clone()), row);
    }

    pub(super) fn lift(&mut self, [kind, name, cause]: [&str; 3], by: (&str, &str), at: Moment) -> bool {
        let gone = self.tables.holds.remove(&(kind.to_owned(), name.to_owned(), cause.to_owned()));
        if gone && by.0 != CURFEW {
            let detail = json!({ "by": cause }).to_string();
            self.trail(at, [by.0, "lift", &hold_object(kind, name), by.1, &detail]);
        }
        gone
    }

    pub(super) fn constants(&mut self, given: &[(String, String)]) -> Vec<(String, String)> {
        for (name, value) in given {
            self.tables.constants.insert(name.clone(), value.clone());
        }
        self.tables.constants.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

pub(super) fn suppressions(tables: &Tables) -> Vec<SuppressionRow> {
    let mut found: Vec<SuppressionRow> = tables.suppressions.values().cloned().collect();
    found.sort_by(|a, b| (a.since, &a.recipient_ref.0, &a.tenant).cmp(&(b.since, &b.recipient_ref.0, &b.tenant)));
    found
}

/// The trail, newest first.
pub(super) fn audit_list(tables: &Tables, cursor: Option<&str>, limit: u32) -> Result<Page<AuditEntry>, BookError> {
    let limit = limit.clamp(1, paging::PAGE_MAX);
    let below = cursor.map_or(Ok(u64::MAX), |cursor| cursor.parse().map_err(|_form| paging::not_a_cursor()))?;
    let newest = tables.audit.range(..below).rev().map(|(_number, row)| row.entry.clone());
    let mut items: Vec<AuditEntry> = newest.take(limit as usize + 1).collect();
    Ok(Page { next_cursor: paging::cut_page(&mut items, limit, |entry| entry.number.to_string()), items })
}

/// The number of entries, or the first that doesn't fit.
pub(super) fn audit_verify(tables: &Tables) -> Result<u64, u64> {
    let (mut number, mut before) = (0, BEFORE_THE_FIRST.to_vec());
    for row in tables.audit.values() {
        if row.entry.number != number + 1 || !trail::follows(&row.entry, &before, &row.hash) {
            return Err(number + 1);
        }
        (number, before) = (number + 1, row.hash.clone());
    }
    Ok(number)
}
