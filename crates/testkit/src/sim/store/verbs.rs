//! Operators' verbs: a row, which is the audit entry, before any transition (K5).

use curfew_book::judge::recovery::BegunIn;
use curfew_book::judge::{self, Closing, ItemFate, Opening};
use curfew_book::{BookError, OpenVerb, OpenedVerb, VerbEnd, VerbRequest, VerbSeen};
use curfew_domain::verb::NumberedVerb;
use curfew_domain::{Key, Moment};

use super::server::Tx;
use super::tables::{Locked, Tables, VerbRow};

impl Tx<'_> {
    /// Opens a verb's row, or applies it in the book alone.
    pub(super) fn open_verb(&mut self, request: &VerbRequest) -> OpenedVerb {
        let Some(mut locked) = self.tables.locked_key(&request.key) else {
            return OpenedVerb::NotFound;
        };
        let opening = judge::ask(&mut locked.row, request);
        let how = match &opening {
            Opening::Open => "opened",
            Opening::Applied(_) => "done in the book",
            Opening::Refused => "refused in the book",
        };
        self.world.count(&format!("book: {} {how}", request.verb.word()));
        match opening {
            Opening::Refused => OpenedVerb::Refused(locked.row.state),
            Opening::Open => {
                let verb = self.insert_verb(&locked, request, None);
                locked.row.open_verb = locked.row.open_verb.or(Some(verb.number));
                OpenedVerb::Open(verb, Box::new(locked.row))
            }
            Opening::Applied(item) => {
                self.end_job(&mut locked, &item, &request.actor, request.at);
                self.insert_verb(&locked, request, Some(true));
                OpenedVerb::Done(Box::new(locked.row))
            }
        }
    }

    /// Writes the verb's row and its audit entry.
    fn insert_verb(&mut self, locked: &Locked, request: &VerbRequest, applied: Option<bool>) -> NumberedVerb {
        let number = self.tables.verb_numbers.draw();
        let verb = NumberedVerb { number, generation: locked.row.generation, verb: request.verb.clone() };
        let row = VerbRow { job: locked.row.job.id, verb: verb.clone(), actor: request.actor.clone(), at: request.at, applied };
        self.tables.verbs.put(number, row);
        let detail = judge::detail(number.cast_signed(), verb.generation, &verb.verb);
        self.trail(request.at, [&request.actor, verb.verb.word(), request.key.as_str(), &request.reason, &detail]);
        verb
    }

    /// Applies and closes a verb's row. Whether it stands applied.
    pub(super) fn close_verb(&mut self, number: u64, end: &VerbEnd, at: Moment) -> Result<bool, BookError> {
        if let VerbEnd::Applied(record) = end {
            self.guard(&BegunIn::of([(record.shard, record.incarnation)].into_iter()))?;
        }
        let VerbRow { job, verb, actor, applied, .. } = self.tables.verbs.get(&number).ok_or(BookError::NotFound)?.clone();
        let mut locked = self.tables.locked(&job).ok_or(BookError::NotFound)?;
        let (outcome, changed, item) = match judge::close(&mut locked.row, &verb, applied, end, (&actor, at))? {
            Closing::Closed => return Ok(applied == Some(true)),
            Closing::Refused => (false, false, ItemFate::Keep),
            Closing::Applied(changed, item) => (true, changed, item),
        };
        if let Some(row) = self.tables.verbs.get_mut(&number) {
            row.applied = Some(outcome);
        }
        self.world.count(&format!("book: {} closed as {}", verb.verb.word(), if outcome { "applied" } else { "refused" }));
        if changed {
            self.end_job(&mut locked, &item, &actor, at);
        }
        Ok(outcome)
    }
}

/// Verbs' rows open since before a moment.
pub(super) fn open_verbs(tables: &Tables, before: Moment, limit: u32) -> Vec<OpenVerb> {
    let open = tables.verbs.values().filter(|verb| verb.applied.is_none() && verb.at < before);
    let mut found: Vec<OpenVerb> = open
        .filter_map(|row| tables.rows.get(&row.job).map(|job| OpenVerb { verb: row.verb.clone(), key: job.job.key.clone(), at: row.at }))
        .collect();
    found.sort_by_key(|open| (open.at, open.verb.number));
    found.truncate(limit as usize);
    found
}

/// Verbs open or applied on these jobs, by number.
pub(super) fn verbs_of(tables: &Tables, keys: &[Key]) -> Vec<(Key, VerbSeen)> {
    let seen = tables.verbs.values().filter(|row| row.applied != Some(false)).filter_map(|row| {
        let key = &tables.rows.get(&row.job)?.job.key;
        let seen = VerbSeen { verb: row.verb.clone(), actor: row.actor.clone(), applied: row.applied.is_some() };
        keys.contains(key).then(|| (key.clone(), seen))
    });
    seen.collect()
}
