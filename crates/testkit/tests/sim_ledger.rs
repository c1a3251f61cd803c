//! The simulated ledger passes the ledger's suite, and keeps the rollback barrier as the Redis adapter does.
#![cfg(feature = "sim")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::{Key, Shard};
use curfew_ledger::Ledger;
use curfew_ledger::conformance::{self, Bench};
use curfew_testkit::sim::{LedgerBugs, Process, SimLedger, SimLedgerOptions, SimLedgerServer, Weather, World};

struct SimBench {
    server: Arc<SimLedgerServer>,
    ledger: Mutex<SimLedger>,
}

impl SimBench {
    async fn fresh() -> Self {
        let options = SimLedgerOptions { shards: 3, shard_of: |_, _| Shard(1), ..SimLedgerOptions::default() };
        let server = SimLedgerServer::start(&World::new(1, false), options);
        for node in 0..server.nodes_len() {
            // A call takes no time: the suite compares moments.
            *server.service(node).weather() = Weather { latency: (Duration::ZERO, Duration::ZERO), ..Weather::default() };
        }
        let ledger = SimLedger::new(&server, &Process::start("suite"), LedgerBugs::default());
        ledger.initialise().await.expect("it answers");
        Self { server, ledger: Mutex::new(ledger) }
    }
}

#[async_trait]
impl Bench for SimBench {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.ledger.lock().expect("no test panics in between").clone())
    }

    async fn advance(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    async fn kill_and_reopen(&self) {
        for node in 0..self.server.nodes_len() {
            self.server.restart(node, Duration::ZERO);
        }
        self.server.take_ids();
        *self.ledger.lock().expect("no test panics in between") = SimLedger::new(&self.server, &Process::start("another"), LedgerBugs::default());
    }

    async fn lose_timer(&self, key: &Key) {
        self.server.lose_timer(key, true, true);
    }
}

macro_rules! conforms {
    ($($promise:ident),+ $(,)?) => {
        $(#[tokio::test(start_paused = true)]
        async fn $promise() {
            conformance::$promise(&SimBench::fresh().await).await;
        })+
    };
}

conforms!(
    l1_one_of_many_creates_a_key_and_the_others_get_what_stands_there,
    l1_a_batch_is_answered_in_order,
    l2_of_many_claims_one_succeeds,
    l2_a_repeated_swap_is_the_same_as_one,
    l2_a_swap_against_another_version_changes_nothing,
    l2_swaps_of_one_key_see_each_other_in_order,
    l3_a_record_that_owes_something_has_exactly_one_timer,
    l3_overdue_timers_come_in_order_and_move_on_for_their_version_alone,
    l3_a_lost_timer_is_put_back,
    l4_tombstones_expire_after_their_time_and_live_records_never,
    l5_a_create_writes_over_a_recorded_dead_letter_of_an_earlier_generation_alone,
    l5_a_create_after_a_stale_read_is_refused,
    l6_the_ledgers_own_clock_judges_the_window,
    l6_a_suppressed_recipient_is_not_claimed,
    l6_a_counter_is_never_taken_past_its_bound,
    l7_lines_are_served_round_robin_over_tenants,
    l7_a_job_stands_in_line_by_the_moment_of_its_release,
    l8_an_intent_and_a_verb_are_there_after_a_kill,
    the_agenda_misses_nothing_that_is_due,
    letter_and_history_stand_beside_the_record_as_long_as_they_are_needed,
    a_long_history_is_folded,
    counters_follow_the_records,
    the_oldest_due_is_the_one_nobody_claimed,
    a_walk_meets_every_record_once,
    a_hold_stands_until_it_is_lifted_or_over,
    permits_keep_to_their_rate,
    one_leads_a_shard,
    what_is_handed_back_is_free_at_once,
    deadlines_are_counted_whatever_the_state,
    the_last_heartbeat_is_kept,
    workers_are_heard_and_forgotten_after_an_hour,
);

/// What the suite doesn't ask: restarts, lost tails, clocks, lost calls.
mod fleet {
    use curfew_domain::sealed::Sealed;
    use curfew_domain::transition::{Index, created};
    use curfew_domain::verb::{NumberedVerb, Verb};
    use curfew_domain::{Event, JobId, Record, State, Token, WorkerId, form, transition};
    use curfew_ledger::{Adopted, Create, Created, LedgerError, Recoverable, Swap, Swapped};
    use uuid::Uuid;

    use super::*;

    const WORKER: WorkerId = WorkerId(Uuid::from_u128(7));
    const CLAIM: Event<'static> = Event::Claim { worker: WORKER, lease: Duration::from_secs(60) };
    const RELEASE: Event<'static> = Event::Release { claim_grace: Duration::from_secs(30) };

    fn servers() -> Arc<SimLedgerServer> {
        SimLedgerServer::start(&World::new(1, false), SimLedgerOptions::default())
    }

    fn opened(server: &Arc<SimLedgerServer>) -> SimLedger {
        SimLedger::new(server, &Process::start("worker"), LedgerBugs::default())
    }

    async fn started() -> (Arc<SimLedgerServer>, SimLedger) {
        let server = servers();
        let ledger = opened(&server);
        ledger.initialise().await.expect("it answers");
        (server, ledger)
    }

    fn record(ledger: &SimLedger, name: &str, at: curfew_domain::Moment) -> Record {
        let key = Key::parse(name).expect("a key");
        let shard = ledger.shard_of(&key);
        let fields = serde_json::json!({
            "format": form::FORMAT, "id": JobId(Uuid::from_u128(1)), "key": key, "shard": shard, "generation": 1, "version": 1,
            "state": State::Scheduled, "release_at": at, "deadline_at": at.plus(Duration::from_secs(3600)), "next_attempt_at": at, "attempts": 0,
            "purpose": "renewal", "business_date": "2026-12-01", "recipient_ref": "00", "transport": "smtp", "policy": "default",
            "content_revision": 1,
        });
        serde_json::from_value(fields).expect("a record needs no other field")
    }

    fn create_of(record: Record, read_at: curfew_domain::Moment) -> Create {
        Create { change: created(record, read_at), letter: Sealed::from_bytes(vec![7; 100]), read_at }
    }

    async fn due(ledger: &SimLedger, name: &str) -> Record {
        let now = ledger.now().await.expect("it answers");
        let answers = ledger.create(vec![create_of(record(ledger, name, now), now)]).await.expect("it answers");
        assert_eq!(answers, [Created::Created]);
        stands(ledger, name).await
    }

    async fn stands(ledger: &SimLedger, name: &str) -> Record {
        let key = Key::parse(name).expect("a key");
        ledger.records(&[key]).await.expect("it answers").pop().flatten().expect("it stands there")
    }

    async fn swap_of(ledger: &SimLedger, record: &Record, event: &Event<'_>) -> Swap {
        let now = ledger.now().await.expect("it answers");
        Swap::of(record, transition(record, event, now).expect("a test moves records as their states allow"))
    }

    async fn moved(ledger: &SimLedger, record: &Record, event: &Event<'_>) -> Record {
        let swap = swap_of(ledger, record, event).await;
        assert_eq!(ledger.swap(swap).await.expect("it answers"), Swapped::Swapped);
        stands(ledger, record.key.as_str()).await
    }

    async fn adopt(ledger: &SimLedger, shard: Shard, incarnation: u32) -> Adopted {
        let now = ledger.time_of(shard).await.expect("it answers");
        ledger.adopt(shard, incarnation, now).await.expect("it answers")
    }

    fn intent(token: u128) -> Event<'static> {
        Event::Intent { worker: WORKER, token: Token(Uuid::from_u128(token)), lease: Duration::from_secs(60), pins: Vec::new() }
    }

    fn is_unavailable<T>(answer: &Result<T, LedgerError>) -> bool {
        matches!(answer, Err(LedgerError::Unavailable { .. }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_is_met_by_nobody_until_the_shard_is_adopted() {
        let (server, ledger) = started().await;
        let waiting = due(&ledger, "acme/a").await;
        let shard = waiting.shard;
        server.restart(server.node_of(shard), Duration::ZERO);
        assert!(is_unavailable(&ledger.get(&waiting.key).await), "the connection broke");
        assert!(matches!(ledger.get(&waiting.key).await, Err(LedgerError::OtherServer)));
        assert!(matches!(opened(&server).incarnation(shard).await, Ok(0)));
        assert!(ledger.meta(shard).await.expect("it answers").is_some_and(|meta| !meta.of_this_server));
        let hands = ledger.in_recovery();
        assert_eq!(adopt(&ledger, shard, 1).await, Adopted::Adopted);
        assert_eq!(adopt(&ledger, shard, 1).await, Adopted::Adopted, "repeating is free");
        assert!(matches!(ledger.swap(swap_of(&ledger, &waiting, &CLAIM).await).await, Err(LedgerError::OtherServer)), "of another incarnation");
        let again = stands(&ledger, "acme/a").await;
        assert_eq!(again.incarnation, 1);
        assert!(matches!(ledger.swap(swap_of(&ledger, &again, &CLAIM).await).await, Err(LedgerError::Recovering)));
        assert!(hands.get(&waiting.key).await.expect("it answers").is_some());
        assert!(matches!(ledger.hear(WORKER, &[shard]).await.as_slice(), [Err(LedgerError::Recovering)]));
        assert!(matches!(hands.recoverable().expect("it can be lost").hear(WORKER, &[shard]).await.as_slice(), [Ok(1)]));
        ledger.recovered(shard, 1).await.expect("it answers");
        moved(&ledger, &again, &CLAIM).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_loses_the_tail_and_nothing_before_it() {
        let (server, ledger) = started().await;
        let first = due(&ledger, "acme/a").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let claimed = moved(&ledger, &first, &CLAIM).await;
        moved(&ledger, &claimed, &intent(9)).await;
        let second = due(&ledger, "acme/b").await;
        server.restart(server.node_of(first.shard), Duration::from_secs(1));
        assert_eq!(server.entry(&first.key).map(|entry| entry.record.version), Some(first.version));
        assert_eq!(server.entry(&second.key), None);
        server.wipe(server.node_of(first.shard));
        assert_eq!(server.entry(&first.key), None);
        assert!(is_unavailable(&ledger.get(&first.key).await));
        assert!(matches!(ledger.get(&first.key).await, Err(LedgerError::OtherServer)), "a server that never had the shard");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_down_takes_its_own_shards_along() {
        let (server, ledger) = started().await;
        let names: Vec<_> = ('a'..='z').map(|tenant| format!("{tenant}/1")).collect();
        let on =
            |node| names.iter().find(|name| server.node_of(server.shard_of(&Key::parse(name).expect("a key"))) == node).expect("tenants scatter");
        let (first, second) = (due(&ledger, on(0)).await, due(&ledger, on(1)).await);
        server.service(1).weather().down = true;
        assert!(is_unavailable(&ledger.get(&second.key).await));
        moved(&ledger, &first, &RELEASE).await;
        let now = ledger.now().await.expect("one node answers");
        let agenda = ledger.agenda(&[first.shard, second.shard], now.plus(Duration::from_secs(7200))).await.expect("one node answers");
        assert_eq!((agenda[0].watch, agenda[1].watch), (true, false));
        server.service(1).weather().down = false;
        assert!(ledger.get(&second.key).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_jumps_halts_its_shards_until_the_witness_agrees() {
        let (server, ledger) = started().await;
        let waiting = due(&ledger, "acme/a").await;
        let (shard, node) = (waiting.shard, server.node_of(waiting.shard));
        let before = ledger.now().await.expect("it answers");
        server.set_clock_offset(node, 600_000);
        tokio::time::sleep(Duration::from_secs(4)).await;
        let now = ledger.now().await.expect("it answers");
        assert!(ledger.is_halted(shard) && now.since(before) < Duration::from_secs(10), "the old clock goes on");
        for event in [RELEASE, CLAIM] {
            assert!(matches!(ledger.swap(swap_of(&ledger, &waiting, &event).await).await, Err(LedgerError::Halted)));
        }
        assert!(matches!(ledger.overdue(shard, Index::Watch, now, 10).await, Err(LedgerError::Halted)));
        let cancel = NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel };
        let seen = ledger.node_clocks().await.expect("it answers");
        assert_eq!((seen[node].jumps, seen[1 - node].jumps), (1, 0));
        assert!((599_990..=600_010).contains(&seen[node].ahead_ms) && seen[1 - node].ahead_ms.abs() < 10, "{seen:?}");
        ledger.halt([shard].into(), &seen);
        assert!(ledger.is_halted(shard));
        ledger.halt([].into(), &seen);
        assert!(!ledger.is_halted(shard));
        moved(&ledger, &waiting, &Event::Verb(&cancel)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn now_is_never_later_than_any_nodes_clock() {
        let (server, ledger) = started().await;
        server.set_clock_offset(0, -700);
        for n in 0..200_u64 {
            tokio::time::sleep(Duration::from_millis(7 * n)).await;
            let reading = ledger.reading().await.expect("it answers");
            assert!(reading.earliest <= server.clock_of(0) && reading.latest >= server.clock_of(1), "{reading:?}");
            assert!(reading.latest.since(reading.earliest) < Duration::from_millis(720), "{reading:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_leaves_what_was_written_and_a_lost_call_nothing() {
        let (server, ledger) = started().await;
        let waiting = due(&ledger, "acme/a").await;
        let node = server.node_of(waiting.shard);
        let release = swap_of(&ledger, &waiting, &RELEASE).await;
        server.service(node).weather().lost_calls = 100.0;
        assert!(is_unavailable(&ledger.swap(release.clone()).await));
        assert_eq!(server.entry(&waiting.key).map(|entry| entry.record.version), Some(1));
        server.service(node).weather().lost_calls = 0.0;
        stands(&ledger, "acme/a").await;
        server.service(node).weather().lost_answers = 100.0;
        assert!(is_unavailable(&ledger.swap(release.clone()).await));
        assert_eq!(server.entry(&waiting.key).map(|entry| entry.record.version), Some(2));
        server.service(node).weather().lost_answers = 0.0;
        assert_eq!(ledger.swap(release).await.expect("it answers"), Swapped::Swapped, "the same as once");
    }

    /// Calls that get lost, answers that do, restarts: all by chance, and by nothing else.
    #[tokio::test(start_paused = true)]
    async fn one_seed_is_one_run() {
        let run = |seed| async move {
            let world = World::new(seed, false);
            let server = SimLedgerServer::start(&world, SimLedgerOptions::default());
            let ledger = opened(&server);
            ledger.initialise().await.expect("it answers");
            for node in 0..server.nodes_len() {
                let latency = (Duration::from_millis(1), Duration::from_millis(20));
                *server.service(node).weather() = Weather { latency, lost_calls: 5.0, lost_answers: 5.0, ..Weather::default() };
            }
            for n in 0..200 {
                let now = ledger.now().await.unwrap_or(world.now());
                let creates = ["acme", "big", "corp"].map(|tenant| create_of(record(&ledger, &format!("{tenant}/{n}"), now), now));
                let told = ledger.create(creates.to_vec()).await;
                world.note(&format!("{told:?} {:?}", ledger.agenda(&[Shard(0), Shard(1)], now).await));
                if world.happens(2.0) {
                    server.restart(world.below(2) as usize, Duration::from_millis(world.below(500)));
                    server.take_ids();
                }
            }
            world.trace()
        };
        let (first, other) = (run(3).await, run(4).await);
        assert_eq!(first, run(3).await);
        assert_ne!(first, other);
    }

    #[tokio::test(start_paused = true)]
    async fn planted_bugs_do_what_they_say() {
        let (server, ledger) = started().await;
        let waiting = due(&ledger, "acme/a").await;
        moved(&ledger, &waiting, &RELEASE).await;
        let late = swap_of(&ledger, &waiting, &CLAIM).await;
        assert!(matches!(ledger.swap(late.clone()).await.expect("it answers"), Swapped::Conflict(_)));
        let bugs = LedgerBugs { no_version_check: true, create_without_read_at: true };
        let broken = SimLedger::new(&server, &Process::start("worker"), bugs);
        assert_eq!(broken.swap(late).await.expect("it answers"), Swapped::Swapped);
        let now = ledger.now().await.expect("it answers");
        let old = create_of(record(&ledger, "acme/b", now), now.minus(Duration::from_secs(61)));
        assert_eq!(ledger.create(vec![old.clone()]).await.expect("it answers"), [Created::StaleRead]);
        assert_eq!(broken.create(vec![old]).await.expect("it answers"), [Created::Created]);
    }
}
