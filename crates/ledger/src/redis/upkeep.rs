//! What the auditor asks: the walk, recounts, lost timers; and tombstones whose time is over.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use curfew_domain::form::FormError;
use curfew_domain::transition::{Index, timer};
use curfew_domain::{Key, Moment, Record, Shard, State};
use redis::Value;
use sha2::{Digest, Sha256};

use super::RedisLedger;
use super::call::{Call, bytes, number, read, unknown_answer};
use super::scripts::Script;
use super::stored::{FRONT_BYTES_MAX, fence};
use super::write::text;
use crate::{LedgerError, TimerEntry, Walk, Walked};

/// Records met by one script.
const WALK_MAX: usize = 1_000;
/// A recovery walks every half second; a person doesn't.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What a walk met.
pub(super) struct Met<T> {
    /// A stand-in where the index's member is none.
    key: Key,
    is_key: bool,
    /// Made of the record.
    made: Result<T, FormError>,
    /// With how often it was postponed.
    timer: Option<(Moment, u32)>,
    line: Option<Moment>,
}

impl Met<Record> {
    fn walked(self) -> Result<Walked, (Key, FormError)> {
        let record = self.made.map_err(|error| (self.key, error))?;
        let timer = self.timer.map(|(at, postponed)| TimerEntry { record: record.clone(), at, postponed });
        Ok((record, timer, self.line))
    }
}

impl RedisLedger {
    pub(super) async fn read_walk(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Vec<Walked>, LedgerError> {
        let walked = self.walked(shard, after, limit, read).await?;
        walked.into_iter().map(|met| met.walked().map_err(|(_, error)| LedgerError::Unreadable(error))).collect()
    }

    pub(super) async fn read_walk_past(&self, shard: Shard, after: Option<&Key>, limit: usize) -> Result<Walk, LedgerError> {
        let met = self.walked(shard, after, limit, read).await?;
        let mut walk = Walk { next: met.last().filter(|met| met.is_key).map(|met| met.key.clone()), ..Walk::default() };
        for met in met {
            match met.walked() {
                Ok(walked) => walk.records.push(walked),
                Err(unreadable) => walk.unreadable.push(unreadable),
            }
        }
        Ok(walk)
    }

    /// What `made` makes of each record, with what stands beside it. The last has a key, unless none of them has and the shard ends here.
    async fn walked<T>(
        &self,
        shard: Shard,
        after: Option<&Key>,
        limit: usize,
        made: impl Fn(&[u8], u32) -> Result<T, LedgerError>,
    ) -> Result<Vec<Met<T>>, LedgerError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut from = after.map_or_else(|| text("-"), |key| text(format_args!("({}", key.as_str())));
        let mut walked: Vec<Met<T>> = Vec::new();
        loop {
            let mut keys = vec![self.keys.all(shard)];
            keys.extend(Index::ALL.iter().map(|index| self.keys.index(shard, *index)));
            keys.extend([self.keys.postponed(shard), self.keys.jobs(shard), self.keys.lines(shard)]);
            let args = vec![from, text(limit.min(WALK_MAX))];
            let reply = self.call(Call { script: Script::Walk, shard, incarnation: None, keys, args }).await?;
            let incarnation = reply.incarnation;
            let mut last = None;
            for list in reply.lists()? {
                let [name, record, timer, postponed, line] = <[Value; 5]>::try_from(list).map_err(|_misfit| unknown_answer(Script::Walk))?;
                let name = bytes(name).ok_or_else(|| unknown_answer(Script::Walk))?;
                let key = std::str::from_utf8(&name).ok().and_then(|name| Key::parse(name).ok());
                let is_key = key.is_some();
                let made = match made(&bytes(record).unwrap_or_default(), incarnation) {
                    _whatever if !is_key => Err(FormError::Malformed),
                    Err(LedgerError::Unreadable(error)) => Err(error),
                    other => Ok(other?),
                };
                let postponed = number(postponed, Script::Walk)?;
                let timer = moment(timer)?.map(|at| (at, postponed));
                walked.push(Met { key: key.unwrap_or_else(|| stand_in(&name)), is_key, made, timer, line: moment(line)? });
                last = Some(name);
            }
            let named = walked.iter().rposition(|met| met.is_key);
            match (named, last) {
                // The next page begins after the last key: what follows it here comes again there.
                (Some(place), _) => walked.truncate(place + 1),
                (None, Some(name)) => {
                    from = [b"(".as_slice(), &name].concat();
                    continue;
                }
                (None, None) => {}
            }
            return Ok(walked);
        }
    }

    /// The same of those that can be read, and without what stands beside them. The others are left as they stand and told: a page in which none can
    /// be read is passed by, so that an empty answer is the end.
    pub(super) async fn walk_readable<T>(
        &self,
        shard: Shard,
        after: Option<&Key>,
        limit: usize,
        made: impl Fn(&[u8], u32) -> Result<T, LedgerError>,
    ) -> Result<Vec<T>, LedgerError> {
        let mut after = after.cloned();
        loop {
            let walked = self.walked(shard, after.as_ref(), limit, &made).await?;
            let next = walked.last().filter(|met| met.is_key).map(|met| met.key.clone());
            let (mut readable, mut left) = (Vec::with_capacity(walked.len()), Vec::new());
            for met in walked {
                match met.made {
                    Ok(one) => readable.push(one),
                    Err(error) => left.push(error),
                }
            }
            tell_unreadable(shard, &left);
            if !readable.is_empty() || next.is_none() {
                return Ok(readable);
            }
            after = next;
        }
    }

    pub(super) async fn mend_counters(&self, shard: Shard) -> Result<u64, LedgerError> {
        let keys = vec![self.keys.all(shard), self.keys.counts(shard), self.keys.due(shard), self.keys.jobs(shard)];
        let mut reply = self.call(Call { script: Script::Recount, shard, incarnation: None, keys, args: vec![text(FRONT_BYTES_MAX)] }).await?;
        number(reply.part()?, Script::Recount)
    }

    pub(super) async fn mend_timer(&self, key: &Key) -> Result<bool, LedgerError> {
        let Some(record) = self.read_records(std::slice::from_ref(key)).await?.pop().flatten() else { return Ok(false) };
        let now = self.node_time().await?;
        // The grace it was released with isn't known any more: it is looked at as soon as it is due.
        let owed = timer(&record, Duration::ZERO, now);
        let (index, at) = owed.map_or((Vec::new(), Vec::new()), |timer| (text(timer.index.word()), text(timer.at.as_millis())));
        let line = if record.state == State::Scheduled { text(record.due().as_millis()) } else { Vec::new() };
        let args = [fence(record.generation, record.version), index, at, line, text(self.options.horizon.as_secs())];
        let reply = self.call(self.place_call(Script::Restore, Some(record.incarnation), key, [], args)).await?;
        match reply.word.as_str() {
            "restored" => Ok(true),
            "nothing" => Ok(false),
            _unknown => Err(reply.unknown()),
        }
    }

    /// Each shard has its part of `limit`, so that none waits for another. A shard that recovers keeps what it has.
    pub(super) async fn delete_expired(&self, now: Moment, limit: usize) -> Result<u64, LedgerError> {
        let part = limit.div_ceil(usize::from(self.options.shards)).min(WALK_MAX);
        let calls = self.shards().map(|shard| {
            let mut keys = vec![self.keys.expiry(shard), self.keys.all(shard), self.keys.jobs(shard)];
            keys.extend([self.keys.letters(shard), self.keys.histories(shard)]);
            Call { script: Script::Expire, shard, incarnation: None, keys, args: vec![text(now.as_millis()), text(part)] }
        });
        let mut expired = 0;
        for answer in self.call_all(calls.collect()).await {
            match answer {
                Ok(mut reply) => expired += number::<u64>(reply.part()?, Script::Expire)?,
                Err(LedgerError::Recovering | LedgerError::Halted | LedgerError::OtherServer) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }
}

/// Names a member that is no key, and may be anything, without saying it.
fn stand_in(member: &[u8]) -> Key {
    let digest = hex::encode(Sha256::digest(member));
    Key::parse(&format!("no-key/{}", &digest[..16])).expect("letters, digits, a hyphen and a slash")
}

/// Milliseconds, or nothing.
fn moment(value: Value) -> Result<Option<Moment>, LedgerError> {
    match bytes(value).filter(|digits| !digits.is_empty()) {
        Some(digits) => Ok(Some(Moment::from_millis(number(Value::BulkString(digits), Script::Walk)?))),
        None => Ok(None),
    }
}

/// How many, and what is wrong with the first, once a minute.
fn tell_unreadable(shard: Shard, left: &[FormError]) {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let Some(error) = left.first() else { return };
    let mut told = TOLD.lock().expect("nobody panics while holding it");
    if told.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
        *told = Some(Instant::now());
        tracing::error!(shard = %shard, error_class = "ledger", "{} records can't be read and are left as they stand: {error}", left.len());
    }
}
