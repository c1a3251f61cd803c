//! The clocks are compared every second: the ledger's nodes', the book's, this process's own (DESIGN 4). What follows is the witness's word;
//! here it is carried out: shards whose clock is distrusted are halted, and somebody is told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use curfew_courier::witness::{Looked, Odd, Witnesses, Word, odd};
use curfew_domain::Shard;
use curfew_ledger::clock::NodeClock;
use curfew_telemetry::metrics;
use tokio_util::sync::CancellationToken;

use crate::wire::Parts;

const EVERY: Duration = Duration::from_secs(1);
/// How long roles wait for the first look that is answered.
const FIRST_MAX: Duration = Duration::from_secs(5);
/// Between two tries of it.
const FIRST_AGAIN: Duration = Duration::from_millis(250);
/// A clock whose answer took longer is known too badly to be compared.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// The part that a new sample has in the smoothed figure.
const FRESH_PART: f64 = 0.2;
/// What differs by more isn't smoothed: it is another clock.
const ANOTHER_S: f64 = 1.0;

/// What is wrong with the ledger's clock at the moment, in words; nothing while it is trusted.
#[derive(Clone, Debug, Default)]
pub struct Distrust(Arc<Mutex<Vec<String>>>);

impl Distrust {
    /// For the probes.
    pub fn words(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics while holding it").clone()
    }

    fn set(&self, words: Vec<String>) {
        *self.0.lock().expect("nobody panics while holding it") = words;
    }
}

/// Compares clocks, and remembers what it told.
pub struct Clocks {
    parts: Arc<Parts>,
    distrust: Distrust,
    began: Instant,
    witnesses: Witnesses,
    smoothed_s: f64,
    odd: Odd,
}

impl Clocks {
    /// It has not looked yet.
    pub fn new(parts: Arc<Parts>, distrust: Distrust) -> Self {
        Self { parts, distrust, began: Instant::now(), witnesses: Witnesses::default(), smoothed_s: 0.0, odd: Odd::Nobody }
    }

    /// The first look, before a role begins: a clock that is wrong already must move nothing. Tried for some seconds where the ledger doesn't
    /// answer; then roles begin, and hear the same.
    pub async fn first(&mut self) {
        until_answered(async || self.look().await).await;
    }

    /// Looks until `stop`. The first look is the caller's.
    pub async fn watch(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            self.look().await;
        }
    }

    /// One look, and whether it was answered. While the ledger is away its last word stands.
    async fn look(&mut self) -> bool {
        let Ok(Ok(clocks)) = tokio::time::timeout(ANSWER_MAX * 3, self.parts.ledger.node_clocks()).await else { return false };
        if clocks.is_empty() {
            return true; // the ledger's clock is our own
        }
        let book_ms = self.book_ms().await;
        let mut distrusted = BTreeSet::new();
        let mut words = Vec::new();
        let mut seen_odd = Odd::Nobody;
        for looked in self.witnesses.look(self.began.elapsed(), &clocks, book_ms) {
            if looked.is_new {
                tell(&looked);
            }
            if looked.word != Word::Trusted {
                distrusted.extend(looked.clock.shards.iter().copied());
                words.push(reason(looked.clock, looked.word));
            }
            if looked.clock.answered && odd(looked.seen) != Odd::Nobody {
                seen_odd = odd(looked.seen);
            }
        }
        self.parts.ledger.halt(distrusted, &clocks);
        self.distrust.set(words);
        self.tell_of_others(seen_odd, book_ms);
        self.show(&clocks);
        true
    }

    /// By how much the book's clock is ahead of ours.
    async fn book_ms(&self) -> Option<i64> {
        let (asked, system) = (Instant::now(), SystemTime::now());
        let told = tokio::time::timeout(ANSWER_MAX, self.parts.book.clock()).await.ok()?.ok()?;
        // A book without a clock of its own goes by ours.
        let Some(book) = told else { return Some(0) };
        let half_way = system + asked.elapsed() / 2;
        let ours = half_way.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(book.as_millis() - i64::try_from(ours.as_millis()).ok()?)
    }

    /// Odd clocks that stop nothing: said when it begins and when it ends.
    fn tell_of_others(&mut self, seen: Odd, book_ms: Option<i64>) {
        if std::mem::replace(&mut self.odd, seen) == seen {
            return;
        }
        match seen {
            Odd::Book => {
                let ahead = book_ms.unwrap_or_default();
                tracing::error!(error_class = "clock", "the book's clock is {} off from the ledger's and ours; nothing is stopped by it", off(ahead));
            }
            Odd::Own => tracing::error!(
                error_class = "clock",
                "this process's own clock is off from the ledger's and the book's, which agree: nothing is stopped by it, but its log has wrong times"
            ),
            Odd::Unwitnessed => tracing::error!(
                error_class = "clock",
                "the ledger's clock and ours don't agree, and the book doesn't answer: nobody knows which is wrong"
            ),
            Odd::Nobody => tracing::info!("all clocks agree"),
            // Told with the node's name.
            Odd::Ledger | Odd::NoTwoAgree => {}
        }
    }

    /// The figure of the node that is furthest off, smoothed.
    fn show(&mut self, clocks: &[NodeClock]) {
        let furthest = clocks.iter().filter(|clock| clock.answered).map(|clock| clock.ahead_ms).max_by_key(|ahead| ahead.unsigned_abs()).unwrap_or(0)
            as f64
            / 1000.0;
        let by = furthest - self.smoothed_s;
        self.smoothed_s += if by.abs() > ANOTHER_S { by } else { by * FRESH_PART };
        metrics::ledger_clock_offset(self.smoothed_s);
    }
}

/// Looks until a look is answered, or for [`FIRST_MAX`].
async fn until_answered(mut look: impl AsyncFnMut() -> bool) {
    let began = tokio::time::Instant::now();
    while !look().await && began.elapsed() < FIRST_MAX {
        tokio::time::sleep(FIRST_AGAIN).await;
    }
}

fn tell(looked: &Looked<'_>) {
    let (clock, word) = (looked.clock, looked.word);
    match word {
        Word::Trusted => tracing::info!("the ledger's clock ({}) is trusted again: shards {} work", clock.name, shards(&clock.shards)),
        Word::Jumped | Word::Odd => {
            let book = looked.seen.book_ms.map_or_else(|| "the book doesn't answer".to_owned(), |ms| format!("the book's is {} off", off(ms)));
            tracing::error!(error_class = "clock", "{}; by our own clock it is {} off, {book}", reason(clock, word), off(clock.ahead_ms));
        }
    }
}

/// For people: what is wrong and what it stops.
fn reason(clock: &NodeClock, word: Word) -> String {
    let what = match word {
        Word::Jumped => "jumped",
        Word::Odd | Word::Trusted => "disagrees with the others",
    };
    format!("its clock ({}) {what}: shards {} stand still until clocks have agreed for 30 s", clock.name, shards(&clock.shards))
}

fn off(ms: i64) -> String {
    format!("{:+.1} s", ms as f64 / 1000.0)
}

fn shards(shards: &[Shard]) -> String {
    shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many looks there were, and for how long, where the one of this number is answered first; each takes so long.
    async fn looks(answered: u32, each: Duration) -> (u32, Duration) {
        let (began, mut looks) = (tokio::time::Instant::now(), 0);
        until_answered(async || {
            looks += 1;
            tokio::time::sleep(each).await;
            looks == answered
        })
        .await;
        (looks, began.elapsed())
    }

    /// Else a fleet that starts together with its Redis begins to work by a clock that nobody has compared.
    #[tokio::test(start_paused = true)]
    async fn the_first_look_is_repeated_until_it_is_answered() {
        assert_eq!(looks(1, Duration::ZERO).await, (1, Duration::ZERO), "nobody waits for a ledger that answers");
        assert_eq!(looks(4, Duration::ZERO).await, (4, FIRST_AGAIN * 3));
        assert_eq!(looks(2, ANSWER_MAX * 3).await, (2, ANSWER_MAX * 6 + FIRST_AGAIN), "one that hangs is waited out");
    }

    #[tokio::test(start_paused = true)]
    async fn a_ledger_that_never_answers_holds_up_roles_for_some_seconds_alone() {
        assert_eq!(looks(u32::MAX, Duration::ZERO).await, (21, FIRST_MAX));
        let (looked, took) = looks(u32::MAX, ANSWER_MAX * 3).await;
        assert_eq!((looked, took), (2, ANSWER_MAX * 6 + FIRST_AGAIN), "no look begins after that");
    }
}
