//! Recoveries under one fault each: a book that is away, a clock that is wrong, a record that can't be read.

use super::*;

impl World {
    /// Everything is staged, and the ledger comes back as another server after a heartbeat.
    async fn staged_and_lost(&mut self) {
        let begun = begin(&self.ledger, &[SHARD]).await.expect("it begins");
        let rows = self.book.plan(&begun.shards(), self.now().plus(Duration::from_secs(60)), 100).await.expect("the book answers");
        curfew_courier::stage(&self.ledger, &*self.book, &self.review, &self.rulebook, rows, &begun).await.expect("it stages");
        self.advance(Duration::from_secs(20));
        self.ledger.beat(1).await.expect("the ledger answers");
        for worker in &self.workers {
            self.book.alive(worker.id, self.now()).await.expect("the book answers");
        }
        self.ask(SAVE).await;
        self.ask(LOSE).await;
    }

    async fn look(&self) -> Stage {
        let recovery = Recovery { ledger: &self.ledger, book: &*self.book, rulebook: &self.rulebook, patience: &self.patience };
        // A connection that finds another server identifies anew.
        for _ in 0..3 {
            if let Ok(stage) = look(recovery, SHARD, true).await {
                return stage;
            }
        }
        panic!("no look succeeds");
    }
}

/// PostgreSQL was away for a minute of a recovery: every worker lived, none could report, and a thousand jobs went to review.
#[tokio::test]
async fn nobody_is_missing_before_the_book_could_take_reports() {
    let mut world = World::new(1).await;
    world.staged_and_lost().await;
    assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
    world.advance(Duration::from_secs(60));
    // As after an error of the book.
    world.patience = patience(&world.clock);
    assert!(matches!(world.look().await, Stage::Waits(names) if names.len() == 2));
    let alive = world.workers[0].id;
    world.book.alive(alive, world.now()).await.expect("the book answers");
    world.advance(Duration::from_secs(13));
    assert_eq!(world.look().await, Stage::Waits(vec![format!("{alive:?}")]), "it was heard of after the loss");
    world.advance(Duration::from_secs(18));
    assert!(matches!(world.look().await, Stage::Recovered(found) if found.missing == 2), "nobody waits for ever");
}

/// A clock was set back by half a minute with the failover: what had been claimed meanwhile seemed not to be due yet, and was sent again.
#[tokio::test]
async fn what_was_due_by_any_clock_before_the_loss_may_have_been_claimed() {
    let mut world = World::new(1).await;
    world.staged_and_lost().await;
    world.clock.fetch_sub(30_000, Ordering::SeqCst);
    world.patience = patience(&world.clock);
    assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
    world.advance(Duration::from_secs(31));
    let Stage::Recovered(found) = world.look().await else { panic!("nobody reports") };
    // Due at 0 and 15 s, while the heartbeat was of 20 s; those of 30 and 45 s wait.
    assert_eq!((found.missing, found.in_doubt), (2, 2));
}

/// The recovery went by a clock that stood wrong by an hour, while every other work of the shard was halted for it.
#[tokio::test]
async fn a_halted_shard_is_neither_adopted_nor_judged() {
    let mut world = World::new(1).await;
    world.staged_and_lost().await;
    let halted = |world: &World, halted: bool| world.ledger.halt(halted.then_some(SHARD).into_iter().collect(), &[]);
    halted(&world, true);
    assert_eq!(world.look().await, Stage::Unfinished);
    assert!(world.ledger.meta(SHARD).await.expect("it answers").is_none_or(|meta| !meta.recovering && meta.incarnation == 0));
    halted(&world, false);
    assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
    halted(&world, true);
    world.advance(Duration::from_secs(60));
    assert_eq!(world.look().await, Stage::Unfinished);
    halted(&world, false);
    assert!(matches!(world.look().await, Stage::Recovered(_)));
}

/// One record that nobody could read kept its shard from its recovery, and its workers from their reports, for ever.
#[tokio::test]
async fn a_record_that_cannot_be_read_is_left_and_holds_up_no_other() {
    let mut world = World::new(1).await;
    world.staged_and_lost().await;
    // The front, by which scripts go, stays.
    let spoil = format!(
        "for _, k in ipairs(redis.call('KEYS', '*job:{}')) do local s = redis.call('GET', k) redis.call('SET', k, s:sub(1, 15 + s:byte(14) * 256 + s:byte(15)) .. 'spoilt') end return 'ok'",
        world.keys[1]
    );
    world.ask(&spoil).await;
    assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
    let receipt = Receipt { at: world.now(), code: 250, text: "ok".to_owned(), queue_id: None };
    let of = |n: u128| (Token(Uuid::from_u128(n + 1)), (world.keys[n as usize].clone(), 1, Known::Accepted(receipt.clone())));
    let known = [of(0), of(1)];
    world.workers[0].known.extend(known);
    for who in 0..2 {
        world.report_of(who).await;
    }
    let Stage::Recovered(found) = world.look().await else { panic!("all have reported: {:?}", world.trace) };
    assert_eq!((found.missing, found.in_doubt, found.taken_back), (0, 0, 0));
    let read = world.ledger.records(std::slice::from_ref(&world.keys[0])).await.expect("it answers");
    assert_eq!(read[0].as_ref().map(|record| record.state), Some(State::Sent));
    assert!(world.ledger.records(std::slice::from_ref(&world.keys[1])).await.is_err(), "it stands as it stood");
}

/// PostgreSQL could not be reached from one host for two minutes; its worker died while Redis failed over, and what it had claimed and sent
/// meanwhile was sent again.
#[tokio::test]
async fn a_worker_that_the_ledger_alone_heard_is_waited_for_and_counts_as_missing() {
    for deaf in [true, false] {
        let mut world = World::new(1).await;
        let (dies, lives) = (world.workers[0].id, world.workers[1].id);
        let begun = begin(&world.ledger, &[SHARD]).await.expect("it begins");
        let rows = world.book.plan(&begun.shards(), world.now().plus(Duration::from_secs(60)), 100).await.expect("the book answers");
        curfew_courier::stage(&world.ledger, &*world.book, &world.review, &world.rulebook, rows, &begun).await.expect("it stages");
        world.advance(Duration::from_secs(120));
        world.ledger.beat(1).await.expect("the ledger answers");
        world.book.alive(lives, world.now()).await.expect("the book answers");
        if !deaf {
            assert!(world.ledger.hear(dies, &[SHARD]).await.iter().all(Result::is_ok));
        }
        world.ask(SAVE).await;
        let record = world.ledger.records(&world.keys[..1]).await.expect("it answers")[0].clone().expect("it is staged");
        let claim = transition(&record, &Event::Claim { worker: dies, lease: LEASE }, world.now()).expect("it is due");
        assert_eq!(world.ledger.swap(Swap::of(&record, claim)).await.expect("it answers"), Swapped::Swapped);
        world.ask(LOSE).await;
        assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
        world.workers.remove(0);
        world.report_of(0).await;
        world.advance(Duration::from_secs(13));
        let waits = world.look().await;
        if deaf {
            assert!(matches!(waits, Stage::Recovered(found) if found.missing == 0), "nobody knows of it: {waits:?}");
            let again = world.ledger.records(&world.keys[..1]).await.expect("it answers")[0].clone();
            assert_eq!(again.map(|record| record.state), Some(State::Scheduled), "and it is sent again");
            continue;
        }
        assert_eq!(waits, Stage::Waits(vec![format!("{dies:?}")]));
        world.advance(Duration::from_secs(18));
        let Stage::Recovered(found) = world.look().await else { panic!("nobody waits for ever") };
        assert_eq!((found.missing, found.in_doubt), (1, 4), "whatever it may have sent");
    }
}

/// The book was restored from a copy, and knew nothing of a worker that the ledger had heard.
#[tokio::test]
async fn a_worker_that_the_book_does_not_know_is_waited_for() {
    let mut world = World::new(1).await;
    let unknown = WorkerId(Uuid::from_u128(77));
    assert!(world.ledger.hear(unknown, &[SHARD]).await.iter().all(Result::is_ok));
    world.staged_and_lost().await;
    assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
    assert!(!world.ledger.hear(unknown, &[SHARD]).await.iter().any(Result::is_ok), "a shard that recovers hears nobody");
    for who in 0..2 {
        world.report_of(who).await;
    }
    assert_eq!(world.look().await, Stage::Waits(vec![format!("worker {}", unknown.0)]));
    world.advance(Duration::from_secs(31));
    assert!(matches!(world.look().await, Stage::Recovered(found) if found.missing == 1));
}

/// Redis flapped twice, and the first recovery took over a minute: a worker that PostgreSQL couldn't be reached from had been heard before it
/// alone, as far as the second could see, and what it had claimed and sent between the two was sent again.
#[tokio::test]
async fn whom_a_recovery_waited_for_in_vain_is_waited_for_by_the_next() {
    let mut world = World::with(1, Duration::from_secs(120)).await;
    let (cut_off, key) = (world.workers[0].id, world.keys[3].clone());
    assert!(world.ledger.hear(cut_off, &[SHARD]).await.iter().all(Result::is_ok));
    let begun = begin(&world.ledger, &[SHARD]).await.expect("it begins");
    let rows = world.book.plan(&begun.shards(), world.now().plus(Duration::from_secs(60)), 100).await.expect("the book answers");
    curfew_courier::stage(&world.ledger, &*world.book, &world.review, &world.rulebook, rows, &begun).await.expect("it stages");
    world.ledger.beat(1).await.expect("the ledger answers");
    world.ask(SAVE).await;
    world.ask(LOSE).await;
    assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
    world.workers.remove(0);
    world.report_of(0).await;
    world.advance(Duration::from_secs(70));
    assert!(matches!(world.look().await, Stage::Recovered(found) if found.missing == 1));

    world.ledger.beat(2).await.expect("the ledger answers");
    world.book.alive(world.workers[0].id, world.now()).await.expect("the book answers");
    world.ask(SAVE).await;
    assert!(world.ledger.hear(cut_off, &[SHARD]).await.iter().all(Result::is_ok));
    let standing = |record: Option<Record>| record.expect("it is staged");
    let record = standing(world.ledger.records(std::slice::from_ref(&key)).await.expect("it answers")[0].clone());
    let claim = transition(&record, &Event::Claim { worker: cut_off, lease: LEASE }, world.now()).expect("it is due");
    assert_eq!(world.ledger.swap(Swap::of(&record, claim)).await.expect("it answers"), Swapped::Swapped);
    world.ask(LOSE).await;
    assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
    world.report_of(0).await;
    world.advance(Duration::from_secs(13));
    assert_eq!(world.look().await, Stage::Waits(vec![format!("{cut_off:?}")]));
    world.advance(Duration::from_secs(18));
    assert!(matches!(world.look().await, Stage::Recovered(found) if found.missing == 1 && found.in_doubt >= 3), "whatever it may have sent");
    let record = standing(world.ledger.records(std::slice::from_ref(&key)).await.expect("it answers")[0].clone());
    assert_ne!(record.state, State::Scheduled, "it would be sent again");
}

/// Who stopped cleanly claims nothing any more: a second recovery doesn't take it for lost.
#[tokio::test]
async fn who_stopped_cleanly_is_not_missed_by_the_recovery_after_the_next() {
    let mut world = World::new(1).await;
    assert!(world.ledger.hear(world.workers[0].id, &[SHARD]).await.iter().all(Result::is_ok));
    let stopped = world.workers.remove(0);
    world.book.leave(stopped.id, world.now()).await.expect("the book answers");
    world.staged_and_lost().await;
    for count in [2, 3] {
        assert_eq!(world.look().await, Stage::Waits(Vec::new()), "adopted");
        world.report_of(0).await;
        let Stage::Recovered(found) = world.look().await else { panic!("all have reported") };
        assert_eq!((found.missing, found.in_doubt), (0, 0));
        world.ledger.beat(count).await.expect("the ledger answers");
        world.ask(SAVE).await;
        world.ask(LOSE).await;
    }
}
