//! One call of the port, as it is sent to each ledger, and its answer.

use std::time::Duration;

use curfew_domain::record::WaitingFor;
use curfew_domain::transition::{Counter, Guard, Index};
use curfew_domain::{Key, Moment, Record, Shard, State, WorkerId};
use curfew_ledger::lead::Wish;
use curfew_ledger::{Agenda, Create, Created, Entry, Hold, Ledger, LedgerError, LineEntry, Suppression, Swap, Swapped, TimerEntry, Walked};

/// So long that no clock ends it, for soft leases go by clocks that a story doesn't move.
const LONG: Duration = Duration::from_secs(100_000 * 3_600);

/// One call, or what happens between calls.
#[derive(Clone, Debug)]
pub enum Call {
    /// Time passes, in milliseconds.
    Pass(u64),
    /// A timer, a place in line or both are lost behind the ledger's back.
    LoseTimer {
        key: Key,
        timer: bool,
        line: bool,
    },
    Create(Vec<Create>),
    Swap(Box<Swap>),
    SwapAll(Vec<Swap>),
    Postpone(Vec<(Key, u64, Moment)>),
    MoveInLine(Vec<(Key, u64, Moment)>),
    Get(Key),
    Records(Vec<Key>),
    Histories(Vec<Key>),
    Overdue(Shard, Index, Moment, usize),
    Agenda(Vec<Shard>, Moment),
    Lines {
        shard: Shard,
        now: Moment,
        per_tenant: usize,
        limit: usize,
        skip: Vec<String>,
    },
    Counts(Shard, Vec<Counter>),
    OldestDue(Shard, Moment),
    Deadlines(Shard, Vec<Moment>),
    Walk(Shard, Option<Key>, usize),
    WalkPast(Shard, Option<Key>, usize),
    Recount(Shard),
    RestoreTimer(Key),
    Expire(Moment),
    SetSuppressions(Vec<Suppression>),
    SetHold(Hold, Option<(WaitingFor, Option<Moment>)>),
    Holds,
    Permits(&'static str, f64, u32),
    Beat(u64),
    LastBeat,
    Lead(Shard, WorkerId, Wish),
    Unled(Vec<Shard>),
    LiveByState,
    Now,
    Incarnation(Shard),
}

/// An answer, in the form in which two are compared.
#[derive(Clone, Debug)]
pub enum Answer {
    Text(String),
    Entry(Box<Option<Entry>>),
    Walked(Vec<Walked>),
    /// What is equally overdue comes in any order.
    Overdue(Vec<TimerEntry>, usize),
    /// So do heads of lines that have waited equally long; at most so many of each tenant, and in all.
    Lines(Vec<LineEntry>, usize, usize),
}

impl Call {
    /// For the table.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Pass(_) => "time passes",
            Call::LoseTimer { .. } => "a timer is lost",
            Call::Create(_) => "create",
            Call::Swap(_) => "swap",
            Call::SwapAll(_) => "swap_all",
            Call::Postpone(_) => "postpone",
            Call::MoveInLine(_) => "move_in_line",
            Call::Get(_) => "get",
            Call::Records(_) => "records",
            Call::Histories(_) => "histories",
            Call::Overdue(..) => "overdue",
            Call::Agenda(..) => "agenda",
            Call::Lines { .. } => "lines",
            Call::Counts(..) => "counts",
            Call::OldestDue(..) => "oldest_due",
            Call::Deadlines(..) => "deadlines",
            Call::Walk(..) => "walk",
            Call::WalkPast(..) => "walk_past",
            Call::Recount(_) => "recount",
            Call::RestoreTimer(_) => "restore_timer",
            Call::Expire(..) => "expire",
            Call::SetSuppressions(_) => "set_suppressions",
            Call::SetHold(..) => "set_hold",
            Call::Holds => "holds",
            Call::Permits(..) => "permits",
            Call::Beat(_) => "beat",
            Call::LastBeat => "last_beat",
            Call::Lead(..) => "lead",
            Call::Unled(_) => "unled",
            Call::LiveByState => "live_by_state",
            Call::Now => "now",
            Call::Incarnation(_) => "incarnation",
        }
    }

    /// In few words: what a reader of a failure needs first.
    pub fn brief(&self) -> String {
        let of = |record: &Record| format!("{} g{} v{} {}", record.key.as_str(), record.generation, record.version, record.state);
        let create = |create: &Create| format!("create {}, the book read at {:?}", of(&create.change.record), create.read_at);
        let swap = |swap: &Swap| {
            let (guards, below) = (&swap.change.guards, &swap.below);
            let at = (swap.change.timer, swap.change.line, swap.change.expires_at);
            format!("swap g{} v{} -> {}; {at:?} {guards:?} {below:?}", swap.generation, swap.version, of(&swap.change.record))
        };
        match self {
            Call::Create(creates) => creates.iter().map(create).collect::<Vec<_>>().join("; "),
            Call::Swap(one) => swap(one),
            Call::SwapAll(swaps) => swaps.iter().map(swap).collect::<Vec<_>>().join("; "),
            other => format!("{other:?}"),
        }
    }

    /// Whose records it may change.
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Call::Create(creates) => creates.iter().map(|create| create.change.record.key.clone()).collect(),
            Call::Swap(swap) => vec![swap.change.record.key.clone()],
            Call::SwapAll(swaps) => swaps.iter().map(|swap| swap.change.record.key.clone()).collect(),
            Call::Postpone(moves) | Call::MoveInLine(moves) => moves.iter().map(|(key, ..)| key.clone()).collect(),
            Call::RestoreTimer(key) | Call::LoseTimer { key, .. } => vec![key.clone()],
            Call::Pass(_) | Call::Get(_) | Call::Records(_) | Call::Histories(_) | Call::Overdue(..) | Call::Agenda(..) => Vec::new(),
            Call::Lines { .. }
            | Call::Counts(..)
            | Call::OldestDue(..)
            | Call::Deadlines(..)
            | Call::Walk(..)
            | Call::WalkPast(..)
            | Call::Recount(_) => Vec::new(),
            Call::Expire(..) | Call::SetSuppressions(_) | Call::SetHold(..) | Call::Holds | Call::Permits(..) | Call::Beat(_) => Vec::new(),
            Call::LastBeat | Call::Lead(..) | Call::Unled(_) | Call::LiveByState | Call::Now | Call::Incarnation(_) => Vec::new(),
        }
    }

    /// The same as an errand that began in the incarnation that `of` says for each key.
    pub fn begun_in(mut self, of: impl Fn(&Key) -> u32) -> Self {
        let set = |record: &mut Record| record.incarnation = of(&record.key);
        match &mut self {
            Call::Create(creates) => creates.iter_mut().for_each(|create| set(&mut create.change.record)),
            Call::Swap(swap) => set(&mut swap.change.record),
            Call::SwapAll(swaps) => swaps.iter_mut().for_each(|swap| set(&mut swap.change.record)),
            _begins_with_itself => {}
        }
        self
    }

    /// Sends it; the answer, and for the table what kind of answer it was.
    pub async fn send(&self, ledger: &dyn Ledger) -> (Answer, Vec<&'static str>) {
        let mut kinds = Vec::new();
        let answer = match self.clone() {
            Call::Create(creates) => told(ledger.create(creates).await.inspect(|answers| kinds.extend(answers.iter().map(created_kind)))),
            Call::Swap(swap) => told(ledger.swap(*swap).await.inspect(|answer| kinds.push(swapped_kind(answer)))),
            Call::SwapAll(swaps) => told(ledger.swap_all(swaps).await.inspect(|answers| kinds.extend(answers.iter().map(swapped_kind)))),
            Call::Overdue(shard, index, now, limit) => match ledger.overdue(shard, index, now, limit).await {
                Ok(entries) => {
                    assert!(entries.is_sorted_by_key(|entry| entry.at), "the longest overdue first");
                    kinds.push(if entries.is_empty() { "overdue: nothing" } else { "overdue: something" });
                    return (Answer::Overdue(entries, limit), kinds);
                }
                error => told(error),
            },
            Call::Lines { shard, now, per_tenant, limit, skip } => match ledger.lines(shard, now, per_tenant, limit, &skip).await {
                Ok(entries) => {
                    kinds.push(if entries.is_empty() { "lines: nothing" } else { "lines: something" });
                    return (Answer::Lines(entries, per_tenant, limit), kinds);
                }
                error => told(error),
            },
            Call::Permits(name, per_second, n) => told(ledger.permits(name, per_second, n).await.inspect(|(given, _)| {
                kinds.push(if *given > 0 { "permits: given" } else { "permits: none" });
            })),
            Call::RestoreTimer(key) => told(ledger.restore_timer(&key).await.inspect(|restored| {
                kinds.push(if *restored { "restore_timer: restored" } else { "restore_timer: nothing" });
            })),
            Call::Expire(now) => told(ledger.expire(now, 1_000).await.inspect(|expired| {
                kinds.push(if *expired > 0 { "expire: some" } else { "expire: none" });
            })),
            Call::Get(key) => match ledger.get(&key).await {
                Ok(entry) => Answer::Entry(Box::new(entry)),
                error => told(error),
            },
            Call::Walk(shard, after, limit) => match ledger.walk(shard, after.as_ref(), limit).await {
                Ok(walked) => Answer::Walked(walked),
                error => told(error),
            },
            other => other.send_plainly(ledger).await,
        };
        (answer, kinds)
    }

    /// Those whose answer is compared as it is.
    async fn send_plainly(self, ledger: &dyn Ledger) -> Answer {
        match self {
            Call::Postpone(moves) => told(ledger.postpone(moves).await),
            Call::MoveInLine(moves) => told(ledger.move_in_line(moves).await),
            Call::Records(keys) => told(ledger.records(&keys).await),
            Call::Histories(keys) => told(ledger.histories(&keys).await),
            Call::Agenda(shards, now) => told(ledger.agenda(&shards, now).await.map(|all| all.iter().map(of_agenda).collect::<Vec<_>>())),
            Call::Counts(shard, counters) => told(ledger.counts(shard, &counters).await),
            Call::OldestDue(shard, now) => told(ledger.oldest_due(shard, now).await),
            Call::Deadlines(shard, before) => told(ledger.deadlines(shard, &before).await.map(|counts| since_first(&counts))),
            Call::WalkPast(shard, after, limit) => told(ledger.walk_past(shard, after.as_ref(), limit).await),
            Call::Recount(shard) => told(ledger.recount(shard).await),
            Call::SetSuppressions(all) => told(ledger.set_suppressions(all).await),
            Call::SetHold(hold, by) => told(ledger.set_hold(hold, by).await),
            Call::Holds => told(ledger.holds().await),
            Call::Beat(count) => told(ledger.beat(count).await),
            Call::LastBeat => told(ledger.last_beat().await),
            Call::Lead(shard, who, wish) => told(ledger.lead(shard, who, LONG, wish).await),
            Call::Unled(shards) => told(ledger.unled(&shards).await),
            // Some say that there is none, some say nothing of those.
            Call::LiveByState => told(ledger.live_by_state().await.map(|all| all.into_iter().filter(|(_, n)| *n > 0).collect::<Vec<(State, u64)>>())),
            Call::Now => told(ledger.now().await),
            Call::Incarnation(shard) => told(ledger.incarnation(shard).await),
            Call::Pass(_) | Call::LoseTimer { .. } | Call::Create(_) | Call::Swap(_) | Call::SwapAll(_) | Call::Get(_) => {
                unreachable!("no plain call")
            }
            Call::Overdue(..) | Call::Lines { .. } | Call::Permits(..) | Call::RestoreTimer(_) | Call::Expire(..) | Call::Walk(..) => {
                unreachable!("no plain call")
            }
        }
    }
}

fn told<T: std::fmt::Debug>(answer: Result<T, LedgerError>) -> Answer {
    Answer::Text(match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("error: {error}"),
    })
}

/// What stopped long ago counts in some adapters and in others not: from the first moment on all count the same.
fn since_first(counts: &[u64]) -> Vec<i64> {
    counts.iter().map(|count| *count as i64 - counts.first().map_or(0, |first| *first as i64)).collect()
}

fn of_agenda(agenda: &Agenda) -> (Shard, [bool; 4]) {
    (agenda.shard, [agenda.lines, agenda.watch, agenda.settle, agenda.review])
}

/// Every call, none of which may be missing.
pub const NAMES: &[&str] = &[
    "time passes",
    "a timer is lost",
    "create",
    "swap",
    "swap_all",
    "postpone",
    "move_in_line",
    "get",
    "records",
    "histories",
    "overdue",
    "agenda",
    "lines",
    "counts",
    "oldest_due",
    "deadlines",
    "walk",
    "walk_past",
    "recount",
    "restore_timer",
    "expire",
    "set_suppressions",
    "set_hold",
    "holds",
    "permits",
    "beat",
    "last_beat",
    "lead",
    "unled",
    "live_by_state",
    "now",
    "incarnation",
];

/// Every kind of answer, none of which may be missing.
pub const KINDS: &[&str] = &[
    "create: created",
    "create: exists",
    "create: higher generation",
    "create: earlier unclosed",
    "create: stale read",
    "swap: swapped",
    "swap: conflict",
    "swap: missing",
    "swap: full",
    "swap: refused, not before",
    "swap: refused, before",
    "swap: refused, not suppressed",
    "overdue: nothing",
    "overdue: something",
    "lines: nothing",
    "lines: something",
    "permits: given",
    "permits: none",
    "restore_timer: restored",
    "restore_timer: nothing",
    "expire: some",
    "expire: none",
];

fn created_kind(answer: &Created) -> &'static str {
    match answer {
        Created::Created => "create: created",
        Created::Exists(_) => "create: exists",
        Created::HigherGeneration => "create: higher generation",
        Created::EarlierUnclosed(_) => "create: earlier unclosed",
        Created::StaleRead => "create: stale read",
    }
}

fn swapped_kind(answer: &Swapped) -> &'static str {
    match answer {
        Swapped::Swapped => "swap: swapped",
        Swapped::Conflict(_) => "swap: conflict",
        Swapped::Missing => "swap: missing",
        Swapped::Full => "swap: full",
        Swapped::Refused(Guard::NotBefore(_)) => "swap: refused, not before",
        Swapped::Refused(Guard::Before(_)) => "swap: refused, before",
        Swapped::Refused(Guard::NotSuppressed(_)) => "swap: refused, not suppressed",
    }
}
