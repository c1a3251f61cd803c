//! Creating and swapping: what is checked and written is in `lua/create.lua` and `lua/swap.lua`.

use curfew_domain::history::fold;
use curfew_domain::limits::{HISTORY_ENTRIES_MAX, READ_AT_AGE_MAX};
use curfew_domain::transition::{Change, Guard, Letter};
use curfew_domain::{Key, Moment, form};

use super::RedisLedger;
use super::call::{Call, Reply, number};
use super::scripts::Script;
use super::stored::{counter_name, fence, stored};
use crate::{Create, Created, LedgerError, Swap, Swapped};

/// Calls sent at once: more would hold up the lane's other callers.
pub(super) const CALLS_MAX: usize = 100;
/// Bytes sent at once: letters can be long.
const CALLS_BYTES_MAX: usize = 4 * 1024 * 1024;

impl RedisLedger {
    pub(super) async fn create_records(&self, creates: Vec<Create>) -> Result<Vec<Created>, LedgerError> {
        let calls = creates.into_iter().map(|create| self.create_call(create)).collect();
        self.in_parts(calls).await?.into_iter().map(created).collect()
    }

    pub(super) async fn swap_records(&self, swaps: Vec<Swap>) -> Result<Vec<Swapped>, LedgerError> {
        let asked: Vec<_> = swaps.iter().map(|swap| (swap.change.record.key.clone(), swap.change.guards.clone())).collect();
        let fences: Vec<_> = swaps.iter().map(|swap| fence(swap.change.record.generation, swap.change.record.version)).collect();
        let calls = swaps.into_iter().map(|swap| self.swap_call(swap)).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for (reply, ((key, guards), fence)) in self.in_parts(calls).await?.into_iter().zip(asked.into_iter().zip(fences)) {
            let (answer, entries) = swapped(reply, guards)?;
            if entries >= 2 * HISTORY_ENTRIES_MAX && entries.is_multiple_of(HISTORY_ENTRIES_MAX) {
                self.fold_history(&key, fence).await;
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Moves timers (`timer`) or places in line (`line`) on, where they still belong to the version given.
    pub(super) async fn move_on(&self, moves: Vec<(Key, u64, Moment)>, what: &str) -> Result<(), LedgerError> {
        let calls = moves.into_iter().map(|(key, version, at)| {
            let args = [version.to_be_bytes().to_vec(), text(at.as_millis()), text(what)];
            self.place_call(Script::Postpone, None, &key, [], args)
        });
        for reply in self.in_parts(calls.collect()).await? {
            match reply.word.as_str() {
                "moved" | "stale" => {}
                _unknown => return Err(reply.unknown()),
            }
        }
        Ok(())
    }

    /// Calls in bounded parts. An error of one is told for all: nothing is known.
    pub(super) async fn in_parts(&self, calls: Vec<Call>) -> Result<Vec<Reply>, LedgerError> {
        let mut replies = Vec::with_capacity(calls.len());
        let mut rest = calls.into_iter().peekable();
        while let Some(first) = rest.next() {
            let weight = |call: &Call| call.args.iter().map(Vec::len).sum::<usize>();
            // The first one goes whatever its size: the door has its bounds.
            let mut bytes = weight(&first);
            let mut part = vec![first];
            while part.len() < CALLS_MAX
                && let Some(next) = rest.next_if(|next| bytes + weight(next) <= CALLS_BYTES_MAX)
            {
                bytes += weight(&next);
                part.push(next);
            }
            for answer in self.call_all(part).await {
                replies.push(answer?);
            }
        }
        Ok(replies)
    }

    /// A call of a script that writes: its keys as `lua/place.lua` names them, its key and tenant first.
    pub(super) fn place_call<const K: usize, const A: usize>(
        &self,
        script: Script,
        incarnation: Option<u32>,
        key: &Key,
        more: [String; K],
        args: [Vec<u8>; A],
    ) -> Call {
        let shard = self.shard(key);
        let mut keys = vec![self.keys.job(shard, key)];
        keys.extend(self.keys.place(shard, key));
        keys.extend(more);
        let mut all = vec![text(key.as_str()), text(key.tenant())];
        all.extend(args);
        Call { script, shard, incarnation, keys, args: all }
    }

    fn create_call(&self, create: Create) -> Call {
        let key = create.change.record.key.clone();
        let incarnation = Some(create.change.record.incarnation);
        let [record, index, at, line, horizon] = self.standing(&create.change);
        let args = [
            record,
            index,
            at,
            line,
            horizon,
            create.letter.as_bytes().to_vec(),
            entry(&create.change),
            text(create.read_at.as_millis()),
            text(READ_AT_AGE_MAX.as_millis()),
        ];
        let all = self.keys.all(self.shard(&key));
        self.place_call(Script::Create, incarnation, &key, [all], args)
    }

    /// A create before which the version named gives way, whatever it is.
    pub(super) async fn create_over(&self, create: Create, over: Option<(u32, u64)>) -> Result<Created, LedgerError> {
        let mut call = self.create_call(create);
        call.args.extend(over.map(|(generation, version)| fence(generation, version)));
        created(self.call(call).await?)
    }

    fn swap_call(&self, swap: Swap) -> Call {
        let Swap { generation, version, change, durable: _by_the_servers_own_setting, below } = swap;
        let key = change.record.key.clone();
        let (counter, bound) = below.map_or((Vec::new(), Vec::new()), |(counter, bound)| (text(counter_name(&counter)), text(bound)));
        let [record, index, at, line, horizon] = self.standing(&change);
        let letter = match change.letter {
            Letter::Keep => "keep",
            Letter::Delete => "delete",
        };
        let args = [
            record,
            index,
            at,
            line,
            horizon,
            text(letter),
            entry(&change),
            change.expires_at.map_or(Vec::new(), |at| text(at.as_millis())),
            fence(generation, version),
            counter,
            bound,
        ];
        let suppressed = self.keys.suppressed(self.shard(&key));
        let mut call = self.place_call(Script::Swap, Some(change.record.incarnation), &key, [suppressed], args);
        for guard in &change.guards {
            call.args.extend(guard_args(guard, key.tenant()));
        }
        call
    }

    /// The record, its timer's index and time, its next time where it stands in line, the horizon.
    fn standing(&self, change: &Change) -> [Vec<u8>; 5] {
        let (index, at) = change.timer.map_or((Vec::new(), Vec::new()), |timer| (text(timer.index.word()), text(timer.at.as_millis())));
        let line = change.line.map_or(Vec::new(), |due| text(due.as_millis()));
        [stored(&change.record), index, at, line, text(self.options.horizon.as_secs())]
    }

    /// Keeps a long story to its bound. Rare: after each 64 entries beyond the first 64. Where it fails, readers fold, and the next one does it.
    async fn fold_history(&self, key: &Key, fence: Vec<u8>) {
        let Ok(entries) = self.read_histories_whole(std::slice::from_ref(key)).await else { return };
        let shard = self.shard(key);
        let folded = fold(entries.into_iter().flatten().collect());
        let args = std::iter::once(fence).chain(folded.iter().map(form::encode)).collect();
        let keys = vec![self.keys.job(shard, key), self.keys.history(shard, key)];
        if let Err(error) = self.call(Call { script: Script::Fold, shard, incarnation: None, keys, args }).await {
            tracing::debug!(%error, "a long history is not folded");
        }
    }
}

/// An argument as its digits or letters.
pub(super) fn text(value: impl std::fmt::Display) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn entry(change: &Change) -> Vec<u8> {
    change.history.as_ref().map_or(Vec::new(), form::encode)
}

/// One pair, or two: the lists of suppressions are the tenant's and everybody's, in one set.
fn guard_args(guard: &Guard, tenant: &str) -> Vec<Vec<u8>> {
    match guard {
        Guard::NotBefore(moment) => vec![text("not_before"), text(moment.as_millis())],
        Guard::Before(moment) => vec![text("before"), text(moment.as_millis())],
        Guard::NotSuppressed(recipient) => {
            let member = |list: &str| text(format_args!("{list}/{}", recipient.0));
            vec![text("not_member"), member(tenant), text("not_member"), member("")]
        }
    }
}

fn created(mut reply: Reply) -> Result<Created, LedgerError> {
    match reply.word.as_str() {
        "created" => Ok(Created::Created),
        "exists" => Ok(Created::Exists(Box::new(reply.record()?))),
        "earlier_unclosed" => Ok(Created::EarlierUnclosed(Box::new(reply.record()?))),
        "higher_generation" => Ok(Created::HigherGeneration),
        "stale_read" => Ok(Created::StaleRead),
        _unknown => Err(reply.unknown()),
    }
}

/// The answer, and how many entries the history has then.
fn swapped(mut reply: Reply, guards: Vec<Guard>) -> Result<(Swapped, usize), LedgerError> {
    let answer = match reply.word.as_str() {
        "swapped" => {
            let entries = number(reply.part()?, reply.script)?;
            return Ok((Swapped::Swapped, entries));
        }
        "conflict" => Swapped::Conflict(Box::new(reply.record()?)),
        "missing" => Swapped::Missing,
        "refused" => {
            let place: usize = number(reply.part()?, reply.script)?;
            Swapped::Refused(refused(guards, place).ok_or_else(|| reply.unknown())?)
        }
        "full" => Swapped::Full,
        _unknown => return Err(reply.unknown()),
    };
    Ok((answer, 0))
}

/// The guard whose pair stands at this place, counted from 1.
fn refused(guards: Vec<Guard>, place: usize) -> Option<Guard> {
    let pairs = guards.into_iter().flat_map(|guard| {
        let pairs = guard_args(&guard, "").len() / 2;
        std::iter::repeat_n(guard, pairs)
    });
    pairs.into_iter().nth(place.checked_sub(1)?)
}
