//! A story: calls that chance picks by what stands there, with lost and repeated ones among them.

use std::time::Duration;

use curfew_domain::policy::AtDeadline;
use curfew_domain::record::WaitingFor;
use curfew_domain::sealed::{RecipientRef, Sealed};
use curfew_domain::transition::{Counter, Index, created};
use curfew_domain::{JobId, Key, Moment, Record, Shard, State, WorkerId, form};
use curfew_ledger::lead::Wish;
use curfew_ledger::{Create, Hold, Suppression, Swap};
use curfew_testkit::sim::World;
use serde::Serialize;
use uuid::Uuid;

use super::call::Call;
use super::event;
use super::tally::Tally;
use super::trio::{SHARDS, Standing, shard};

const TENANTS: [&str; 4] = ["acme", "big", "corp", "d"];
/// Jobs in play at a time.
const JOBS: u32 = 6;
/// Steps until the next job comes into play, and the oldest goes out.
const STEPS_PER_JOB: u32 = 15;
/// Calls and versions that are kept, to come again.
const KEPT: usize = 15;
const RECIPIENT: &str = "00112233445566778899aabbccddeeff";

/// What becomes of a call.
pub enum Fate {
    Sent {
        times: u32,
    },
    /// Nobody gets it; who made it thinks that it may have been.
    Lost,
}

pub struct Story {
    pub world: World,
    pub step: u32,
    /// Late and early ones, to be sent again.
    calls: Vec<Call>,
    /// Versions that once stood, or never did.
    versions: Vec<Record>,
}

#[derive(Serialize)]
struct Fields<'a> {
    format: u16,
    id: JobId,
    key: &'a Key,
    shard: Shard,
    generation: u32,
    version: u64,
    state: State,
    release_at: Moment,
    deadline_at: Moment,
    next_attempt_at: Moment,
    attempts: u32,
    purpose: &'a str,
    business_date: &'a str,
    recipient_ref: &'a str,
    transport: &'a str,
    policy: &'a str,
    content_revision: u32,
}

impl Story {
    pub fn new(seed: u64) -> Self {
        Self { world: World::new(seed, false), step: 0, calls: Vec::new(), versions: Vec::new() }
    }

    /// How long passes before the next call, in milliseconds.
    pub fn pause(&self) -> u64 {
        let below = |from: u64, to: u64| from + self.world.below(to - from);
        match self.world.below(1_000) {
            0..=349 => 0,
            350..=819 => below(1, 800),
            820..=959 => below(800, 20_000),
            960..=985 => below(20_000, 300_000),
            986..=993 => below(300_000, 7_200_000),
            _seldom => below(172_800_000, 172_900_000), // the life of a tombstone
        }
    }

    /// What comes after a pause, which may have been a tombstone's life.
    pub fn after(&self, pause: u64, now: Moment) -> Option<Call> {
        (pause >= 172_800_000).then_some(Call::Expire(now))
    }

    /// The next call, and what becomes of it.
    pub fn next(&mut self, ledgers: &dyn Standing, tally: &mut Tally) -> (Call, Fate) {
        self.step += 1;
        if self.world.happens(8.0)
            && let Some(call) = self.world.one_of(&self.calls)
        {
            tally.count("fate", "sent again later");
            return (call.clone(), Fate::Sent { times: 1 });
        }
        let call = self.call(ledgers, tally);
        let fate = match self.world.below(100) {
            0..=6 => Fate::Lost,
            7..=14 => Fate::Sent { times: 2 },
            15..=17 => Fate::Sent { times: 3 },
            _mostly => Fate::Sent { times: 1 },
        };
        tally.count(
            "fate",
            match fate {
                Fate::Sent { times: 1 } => "sent once",
                Fate::Sent { .. } => "sent twice or more",
                Fate::Lost => "lost",
            },
        );
        self.keep(&call);
        (call, fate)
    }

    /// Keeps it, to come again.
    pub fn keep(&mut self, call: &Call) {
        match call {
            Call::Swap(swap) => self.versions.push(swap.change.record.clone()),
            Call::SwapAll(swaps) => self.versions.extend(swaps.iter().map(|swap| swap.change.record.clone())),
            Call::Create(creates) => self.versions.extend(creates.iter().map(|create| create.change.record.clone())),
            _reads => {}
        }
        if !call.keys().is_empty() {
            self.calls.push(call.clone());
        }
        let surplus = |length: usize| length.saturating_sub(KEPT);
        self.calls.drain(..surplus(self.calls.len()));
        self.versions.drain(..surplus(self.versions.len()));
    }

    /// A call.
    pub fn call(&self, ledgers: &dyn Standing, tally: &mut Tally) -> Call {
        match self.world.below(100) {
            0..=11 => Call::Create((0..=self.world.below(3)).map(|_| self.create(ledgers)).collect()),
            12..=59 => self.swap(&self.standing_key(ledgers), ledgers, tally).map_or(Call::Now, |swap| Call::Swap(Box::new(swap))),
            60..=64 => self.swap_all(ledgers, tally),
            65..=67 => Call::Postpone(self.moves(ledgers)),
            68..=70 => Call::MoveInLine(self.moves(ledgers)),
            71..=73 => Call::LoseTimer { key: self.standing_key(ledgers), timer: self.world.happens(60.0), line: self.world.happens(60.0) },
            74..=77 => Call::RestoreTimer(self.robbed().unwrap_or_else(|| self.standing_key(ledgers))),
            78..=79 => Call::Expire(ledgers.now()),
            80..=81 => Call::SetSuppressions(self.suppressions()),
            82..=83 => Call::SetHold(self.hold(), self.held(ledgers.now())),
            84..=86 => Call::Permits(if self.world.happens(80.0) { "smtp" } else { "api" }, self.rate(), self.world.below(4) as u32),
            87 => Call::Beat(u64::from(self.step)),
            88..=89 => Call::Lead(self.shard(), self.worker(), self.wish()),
            _reads => self.read(ledgers.now()),
        }
    }

    fn read(&self, now: Moment) -> Call {
        let world = &self.world;
        let around = |seconds: u64| now.plus(Duration::from_millis(world.below(seconds * 2_000))).minus(Duration::from_secs(seconds));
        let limit = |most: u64| if world.happens(50.0) { 1_000 } else { world.below(most) as usize };
        match world.below(18) {
            0 => Call::Get(self.key()),
            1 => Call::Records(vec![self.key(), self.key(), self.key()]),
            2 => Call::Histories(vec![self.key(), self.key()]),
            3 => Call::Overdue(self.shard(), *world.one_of(Index::ALL).expect("there are some"), around(3_600), limit(4)),
            4 => Call::Agenda((0..SHARDS).map(Shard).collect(), around(600)),
            5 | 6 => {
                let skip = world.happens(30.0).then(|| self.tenant().to_owned()).into_iter().collect();
                Call::Lines { shard: self.shard(), now: around(600), per_tenant: limit(3), limit: limit(5), skip }
            }
            7 => Call::Counts(self.shard(), counters()),
            8 => Call::OldestDue(self.shard(), around(600)),
            9 => Call::Deadlines(self.shard(), fives(now)),
            10 => Call::Walk(self.shard(), world.happens(50.0).then(|| self.key()), limit(4)),
            11 => Call::Recount(self.shard()),
            12 => Call::Holds,
            13 => Call::LastBeat,
            14 => Call::Unled((0..SHARDS).map(Shard).collect()),
            15 => Call::LiveByState,
            16 => Call::WalkPast(self.shard(), world.happens(50.0).then(|| self.key()), limit(4)),
            _rest => Call::Incarnation(self.shard()),
        }
    }

    /// A create.
    pub fn create(&self, ledgers: &dyn Standing) -> Create {
        let (world, now, key) = (&self.world, ledgers.now(), self.key());
        // Mostly what staging would ask for: the first generation, or the one after what stands there.
        let stands = ledgers.stands(&key).map_or(0, |record| record.generation);
        let generation = if world.happens(70.0) { stands.max(1) + u32::from(stands > 0 && world.happens(60.0)) } else { 1 + world.below(3) as u32 };
        let release_at = match world.below(5) {
            0 => now.plus(world.between(Duration::ZERO, Duration::from_secs(90))),
            1 => now.plus(world.between(Duration::ZERO, Duration::from_secs(2))),
            _mostly => now.minus(world.between(Duration::ZERO, Duration::from_secs(10))),
        };
        let at_deadline = match world.below(4) {
            0 => AtDeadline::Suppress,
            1 => AtDeadline::Escalate("desk".to_owned()),
            _mostly => AtDeadline::Review,
        };
        let lasts = world.between(Duration::from_secs(5), Duration::from_secs(if world.happens(50.0) { 60 } else { 3_600 }));
        let record = Record { at_deadline, ..record(&key, generation, release_at, lasts) };
        let letter = Sealed::from_bytes(vec![generation as u8; 1 + world.below(50) as usize]);
        let read_at = match world.below(12) {
            0 => now.minus(Duration::from_millis(60_000 + world.below(2))),
            1 => now.plus(Duration::from_millis(60_000 + world.below(2))),
            _mostly => now.minus(Duration::from_millis(world.below(60_000))),
        };
        Create { change: created(record, now), letter, read_at }
    }

    /// A swap of a key, made from what stands there, or from what somebody takes for it.
    fn swap(&self, key: &Key, ledgers: &dyn Standing, tally: &mut Tally) -> Option<Swap> {
        let world = &self.world;
        let taken_for: Vec<&Record> = self.versions.iter().filter(|record| record.key == *key).collect();
        let base = match world.happens(12.0) {
            true => world.one_of(&taken_for).map(|record| (*record).clone()),
            false => ledgers.stands(key),
        }?;
        // Whoever makes it has a clock of its own; the ledger's judges.
        let now = match world.below(6) {
            0 => ledgers.now().plus(Duration::from_millis(world.below(20_000))),
            1 => ledgers.now().minus(Duration::from_millis(world.below(20_000))),
            _mostly => ledgers.now(),
        };
        let number = u64::from(self.step) + 1;
        let (kind, change) = event::change(world, &base, now, number, |refusal| tally.count("refusal", refusal_word(refusal)))?;
        tally.count("event", &format!("{kind:?}"));
        let mut swap = Swap::of(&base, change);
        if world.happens(8.0) {
            swap = swap.on_disk();
        }
        match world.below(25) {
            0 => swap.version = swap.version.wrapping_sub(1),
            1 => swap.generation += 1,
            2 | 3 => swap = swap.below(Counter::TenantInFlight(base.tenant().to_owned()), world.below(3)),
            _mostly => {}
        }
        Some(swap)
    }

    fn swap_all(&self, ledgers: &dyn Standing, tally: &mut Tally) -> Call {
        let mut keys: Vec<Key> = (0..4).map(|_| self.standing_key(ledgers)).collect();
        keys.sort();
        keys.dedup();
        Call::SwapAll(keys.iter().filter_map(|key| self.swap(key, ledgers, tally)).collect())
    }

    fn moves(&self, ledgers: &dyn Standing) -> Vec<(Key, u64, Moment)> {
        let mut keys = vec![self.standing_key(ledgers), self.standing_key(ledgers)];
        keys.sort();
        keys.dedup();
        let one = |key: Key| {
            let stands = ledgers.stands(&key).map_or(1, |record| record.version);
            let version = if self.world.happens(70.0) { stands } else { 1 + self.world.below(5) };
            (key, version, ledgers.now().plus(Duration::from_millis(self.world.below(90_000))))
        };
        keys.into_iter().map(one).collect()
    }

    fn suppressions(&self) -> Vec<Suppression> {
        let recipient_ref = RecipientRef(RECIPIENT.to_owned());
        match self.world.below(4) {
            0 => vec![Suppression { tenant: None, recipient_ref }],
            1 => vec![Suppression { tenant: Some(self.tenant().to_owned()), recipient_ref }],
            _mostly => Vec::new(),
        }
    }

    fn hold(&self) -> Hold {
        match self.world.below(5) {
            0 => Hold::Transport("smtp".to_owned()),
            1 => Hold::Tenant(self.tenant().to_owned()),
            2 => Hold::Shard(self.shard().0),
            3 => Hold::Domain("example.com".to_owned()),
            _four => Hold::Fleet,
        }
    }

    fn held(&self, now: Moment) -> Option<(WaitingFor, Option<Moment>)> {
        let waits = *self.world.one_of(WaitingFor::ALL)?;
        let until = self.world.happens(60.0).then(|| now.plus(Duration::from_millis(self.world.below(60_000))));
        self.world.happens(70.0).then_some((waits, until))
    }

    fn rate(&self) -> f64 {
        *self.world.one_of(&[0.3, 1.0, 2.5, 3.0, 7.0, 10.0, 0.0]).expect("there are some")
    }

    fn wish(&self) -> Wish {
        *self.world.one_of(&[Wish::Lead, Wish::Lead, Wish::Ask, Wish::HandBack, Wish::Leave]).expect("there are some")
    }

    pub fn worker(&self) -> WorkerId {
        WorkerId(Uuid::from_u128(1 + u128::from(self.world.below(3))))
    }

    pub fn shard(&self) -> Shard {
        Shard(self.world.below(u64::from(SHARDS)) as u8)
    }

    fn tenant(&self) -> &'static str {
        TENANTS[self.world.below(TENANTS.len() as u64) as usize]
    }

    /// One that lost its timer not long ago.
    fn robbed(&self) -> Option<Key> {
        self.calls.iter().rev().find_map(|call| if let Call::LoseTimer { key, .. } = call { Some(key.clone()) } else { None })
    }

    /// One of the jobs in play that stand, mostly.
    fn standing_key(&self, ledgers: &dyn Standing) -> Key {
        let mut key = self.key();
        for _ in 0..6 {
            if ledgers.stands(&key).is_some() {
                return key;
            }
            key = self.key();
        }
        key
    }

    /// One of the jobs in play.
    pub fn key(&self) -> Key {
        let n = self.step / STEPS_PER_JOB + self.world.below(u64::from(JOBS)) as u32;
        Key::parse(&format!("{}/{n}", TENANTS[n as usize % TENANTS.len()])).expect("a key")
    }
}

/// A scheduled record that is due at `release_at`, and stops so long after.
pub fn record(key: &Key, generation: u32, release_at: Moment, lasts: Duration) -> Record {
    let fields = Fields {
        format: form::FORMAT,
        id: JobId(Uuid::from_u128(1)),
        key,
        shard: shard(key),
        generation,
        version: 1,
        state: State::Scheduled,
        release_at,
        deadline_at: release_at.plus(lasts),
        next_attempt_at: release_at,
        attempts: 0,
        purpose: "renewal",
        business_date: "2026-12-01",
        recipient_ref: RECIPIENT,
        transport: "smtp",
        policy: "default",
        content_revision: 1,
    };
    form::decode(&form::encode(&fields)).expect("a record needs no other field")
}

/// Every counter of a story, but the seconds.
pub fn counters() -> Vec<Counter> {
    let of_tenants = TENANTS.iter().flat_map(|tenant| [Counter::TenantInFlight((*tenant).to_owned()), Counter::TenantQueued((*tenant).to_owned())]);
    State::ALL.iter().map(|state| Counter::State(*state)).chain(of_tenants).collect()
}

/// Moments from now on, to the five seconds that every adapter counts by.
pub fn fives(now: Moment) -> Vec<Moment> {
    let first = now.as_millis().div_euclid(5_000) * 5_000;
    [0, 30, 300, 1_800, 3_600].into_iter().map(|seconds| Moment::from_millis(first).plus(Duration::from_secs(seconds))).collect()
}

fn refusal_word(refusal: &curfew_domain::Refusal) -> &'static str {
    use curfew_domain::Refusal;
    match refusal {
        Refusal::WrongState => "wrong state",
        Refusal::NotOwner => "not owner",
        Refusal::NotDue(_) => "not due",
        Refusal::TooLate => "too late",
        Refusal::LeaseEnded => "lease ended",
        Refusal::LeaseRuns(_) => "lease runs",
        Refusal::AppliedAlready => "applied already",
        Refusal::Superseded => "superseded",
        Refusal::Conflict(_) => "conflict",
        Refusal::ForTheBook => "for the book",
        Refusal::NothingToChange => "nothing to change",
        Refusal::TooManyDoubts => "too many doubts",
    }
}

/// Every refusal but that of a ninth doubt, which a story is too short for.
pub const REFUSALS: [&str; 11] = [
    "wrong state",
    "not owner",
    "not due",
    "too late",
    "lease ended",
    "lease runs",
    "applied already",
    "superseded",
    "conflict",
    "for the book",
    "nothing to change",
];
