//! The human work on an item, replays, and what can't be read: each is one transaction, audited.

use curfew_book::judge::{self, ItemFate, Opening};
use curfew_book::{BookError, BookState, EvidenceTaken};
use curfew_domain::history::cut;
use curfew_domain::limits::DIAGNOSTIC_BYTES_MAX;
use curfew_domain::{Moment, Reason};
use curfew_review::act::{self, Act};
use curfew_review::{Correction, Item, ItemStatus, Quarantined, Replay, Replayed, judge as review};
use serde_json::{Value, json};
use uuid::Uuid;

use super::items::new_id;
use super::server::Tx;
use super::tables::{ItemRow, Locked};

/// An item, and its job's row, where it names a job.
struct Found {
    n: u64,
    item: Item,
    row: Option<Locked>,
}

impl Found {
    fn dead_letter(&self) -> Result<Locked, BookError> {
        let locked = self.row.clone().ok_or_else(|| BookError::Conflict("the item names no job".to_owned()))?;
        act::dead_letter(&self.item, &locked.row).map(|()| locked)
    }
}

impl Tx<'_> {
    fn find(&self, id: Uuid) -> Result<Found, BookError> {
        let (n, row) = self.tables.items.iter().find(|(_n, row)| row.item.id == id).ok_or(BookError::NotFound)?;
        let job = row.item.job_id.map(|job| self.tables.locked(&job).ok_or(BookError::NotFound)).transpose()?;
        Ok(Found { n: *n, item: row.item.clone(), row: job })
    }

    fn find_open(&self, id: Uuid, wanted: &str) -> Result<Found, BookError> {
        let found = self.find(id)?;
        review::open(&found.item, wanted).map(|()| found)
    }

    /// A replay (R3, R4, R5).
    pub(super) fn replay(&mut self, replay: &Replay) -> Result<Replayed, BookError> {
        let found = self.find_open(replay.item, "replay")?;
        let mut locked = found.row.ok_or_else(|| BookError::Conflict("the item names no job that could run again".to_owned()))?;
        review::check(&found.item, &locked.row, replay)?;
        let generation = locked.row.generation + 1;
        if replay.dry_run {
            return Ok(Replayed { row: locked.row, generation });
        }
        let over_a_doubt = locked.row.doubt.is_some() || found.item.in_doubt;
        review::raise(&mut locked.row, replay, generation);
        self.world.count(if over_a_doubt { "review: replayed over a doubt" } else { "review: replayed" });
        self.tables.save(&locked.row);
        self.item_mut(found.n).item.status = ItemStatus::Replaying;
        self.note(found.n, replay.at, &replay.actor, &format!("replayed as generation {generation}: {}", replay.reason));
        let detail = review::replayed(&locked.row, replay, over_a_doubt);
        self.trail(replay.at, [&replay.actor, "replay", &replay.item.hyphenated().to_string(), &replay.reason, &detail]);
        Ok(Replayed { row: locked.row, generation })
    }

    pub(super) fn correct(&mut self, act: &Act, correction: &Correction) -> Result<(), BookError> {
        let found = self.find_open(act.item, "correction")?;
        let locked = found.dead_letter()?;
        let row = self.tables.rows.get_mut(&locked.row.job.id).expect("a locked row stands");
        let revision = row.job.content_revision + 1;
        (row.job.content_revision, row.job.letter) = (revision, correction.letter.clone());
        if let Some((recipient, masked)) = &correction.recipient {
            (row.job.recipient_ref, row.job.recipient_masked) = (recipient.clone(), masked.clone());
        }
        if correction.forget_pins {
            row.pins.clear();
        }
        let (recipient, masked) = (row.job.recipient_ref.clone(), row.job.recipient_masked.clone());
        let item = &mut self.item_mut(found.n).item;
        (item.recipient_ref, item.recipient_masked) = (Some(recipient), Some(masked));
        self.note(found.n, act.at, &act.actor, &format!("corrected to revision {revision}: {}", act.reason));
        let detail = json!({
            "content_revision": revision,
            "recipient_changed": correction.recipient.is_some(),
            "pins_forgotten": correction.forget_pins,
        });
        self.act_trail(act, "correct", &detail);
        Ok(())
    }

    pub(super) fn suppress(&mut self, act: &Act) -> Result<(), BookError> {
        let found = self.find_open(act.item, "suppression")?;
        if found.row.is_none() {
            self.resolve_item(found.n, act);
            self.act_trail(act, "suppress", &json!({}));
            return Ok(());
        }
        let mut locked = found.dead_letter()?;
        let request = act.suppress(&locked.row);
        let Opening::Applied(fate) = judge::ask(&mut locked.row, &request) else {
            return Err(BookError::Conflict(format!("the job is {}", locked.row.state.word())));
        };
        self.end_job(&mut locked, &fate, &act.actor, act.at);
        self.act_trail(act, "suppress", &json!({ "key": request.key.as_str() }));
        Ok(())
    }

    pub(super) fn resolve(&mut self, act: &Act, receipt: Option<&str>) -> Result<(), BookError> {
        let found = self.find_open(act.item, "resolution")?;
        match receipt {
            Some(text) => self.accepted_after_all(found, act, text)?,
            None => self.resolve_item(found.n, act),
        }
        self.act_trail(act, "resolve", &json!({ "receipt": receipt.is_some() }));
        Ok(())
    }

    /// An operator's receipt is evidence: it counts where something is in doubt.
    fn accepted_after_all(&mut self, found: Found, act: &Act, text: &str) -> Result<(), BookError> {
        let no_doubt = || BookError::Invalid { field: "receipt", reason: "nothing of this item is in doubt".to_owned() };
        let mut locked = found.row.ok_or_else(no_doubt)?;
        let evidence = act.receipt(&locked.row, text.to_owned());
        let weighed = judge::weigh(&mut locked.row, found.item.in_doubt, &evidence);
        if weighed.taken != EvidenceTaken::Sent {
            return Err(no_doubt());
        }
        self.end_job(&mut locked, &weighed.item, &act.actor, act.at);
        Ok(())
    }

    pub(super) fn escalate(&mut self, act: &Act, owner: &str, due_at: Moment) -> Result<(), BookError> {
        let found = self.find_open(act.item, "escalation")?;
        let item = &mut self.item_mut(found.n).item;
        (item.owner, item.due_at) = (Some(owner.to_owned()), Some(due_at));
        self.note(found.n, act.at, &act.actor, &format!("escalated to {owner}: {}", act.reason));
        self.act_trail(act, "escalate", &json!({ "owner": owner, "due_at": due_at.rfc3339() }));
        Ok(())
    }

    pub(super) fn assign(&mut self, act: &Act, owner: &str) -> Result<(), BookError> {
        let found = self.find(act.item)?;
        self.item_mut(found.n).item.owner = Some(owner.to_owned());
        self.act_trail(act, "assign", &json!({ "owner": owner }));
        Ok(())
    }

    pub(super) fn add_note(&mut self, act: &Act, text: &str) -> Result<(), BookError> {
        let found = self.find(act.item)?;
        self.note(found.n, act.at, &act.actor, text);
        Ok(())
    }

    /// Keeps what can't be sent and names no readable job, once.
    pub(super) fn quarantine(&mut self, mut message: Quarantined) -> Uuid {
        cut(&mut message.diagnostic, DIAGNOSTIC_BYTES_MAX);
        let known = self.tables.items.values().find(|row| row.fingerprint.as_ref() == Some(&message.fingerprint));
        if let Some(row) = known {
            return row.item.id;
        }
        if let Some(id) = self.lost_record(&message) {
            return id;
        }
        let item = Item {
            id: new_id(self.world, message.at),
            job_id: None,
            tenant: message.key.as_ref().map(|key| key.tenant().to_owned()),
            key: message.key,
            recipient_ref: None,
            recipient_masked: None,
            release_at: None,
            deadline_at: None,
            attempts: 0,
            last: None,
            reason: message.reason,
            diagnostic: message.diagnostic,
            owner: None,
            due_at: None,
            status: ItemStatus::Open,
            generation: 0,
            number: 0,
            replay_of: None,
            in_doubt: false,
            lease_ended_at: None,
            created_at: message.at,
            notes: Vec::new(),
            history: Vec::new(),
        };
        let id = item.id;
        self.world.count("review: quarantined");
        self.put_item(ItemRow { item, closed_at: None, fingerprint: Some(message.fingerprint) });
        id
    }

    /// A wake-up whose record is missing while its row is still the ledger's: the row becomes a dead letter, in doubt.
    fn lost_record(&mut self, message: &Quarantined) -> Option<Uuid> {
        let key = message.key.as_ref().filter(|_| message.reason == Reason::LedgerRecordMissing)?;
        let mut locked = self.tables.locked_key(key).filter(|locked| locked.row.state == BookState::Staged)?;
        review::lost(&mut locked.row, message.at);
        self.world.count("review: a record was lost");
        self.end_job(&mut locked, &ItemFate::Record, "curfew", message.at);
        let row = self.item_mut(locked.item.expect("it was just recorded"));
        row.fingerprint = Some(message.fingerprint.clone());
        row.item.diagnostic.clone_from(&message.diagnostic);
        Some(row.item.id)
    }

    /// The item alone is done; its job, if there is one, stays a dead letter.
    fn resolve_item(&mut self, n: u64, act: &Act) {
        let row = self.item_mut(n);
        (row.item.status, row.closed_at) = (ItemStatus::Resolved, Some(act.at));
        self.note(n, act.at, &act.actor, &format!("resolved: {}", act.reason));
    }

    fn act_trail(&mut self, act: &Act, action: &str, detail: &Value) {
        self.world.count(&format!("review: {action}"));
        self.trail(act.at, [&act.actor, action, &act.item.hyphenated().to_string(), &act.reason, &detail.to_string()]);
    }
}
