//! What breaks a server, or the way to it: nothing acknowledged is lost, nothing is done twice, nothing is assumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curfew_domain::transition::Counter;
use curfew_domain::verb::{NumberedVerb, Verb};
use curfew_domain::{Event, Record, State};
use curfew_ledger::redis::{Adopted, RedisLedger};
use curfew_ledger::{Created, Ledger, Recoverable, Swapped};
use curfew_testkit::{Passage, TcpProxy, eventually};
use curfew_testservers::redis::{Options, Redis};

use super::jobs::{
    CLAIM, SHARDS, adopt, create_of, due, is_other_server, is_unavailable, key, ledger, moved, opened, record, shard, stands, swap_of,
};

const SOON: Duration = Duration::from_secs(20);

/// Creates and claims jobs until the server is gone; what was acknowledged.
async fn work(ledger: RedisLedger, caller: usize, acknowledged: Arc<AtomicUsize>) -> Vec<Record> {
    let mut known = Vec::new();
    for n in 0.. {
        let name = format!("tenant-{}/job-{caller}-{n}", caller % 5);
        let Ok(now) = ledger.now().await else { break };
        let created = create_of(record(&name, 1, now), now);
        let first = created.change.record.clone();
        let Ok(answer) = ledger.create(vec![created]).await else { break };
        assert_eq!(answer, [Created::Created]);
        known.push(first.clone());
        let Ok(change) = curfew_domain::transition(&first, &CLAIM, now) else { break };
        let claimed = change.record.clone();
        let Ok(answer) = ledger.swap(curfew_ledger::Swap::of(&first, change)).await else { break };
        assert_eq!(answer, Swapped::Swapped);
        *known.last_mut().expect("just pushed") = claimed;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    known
}

/// DESIGN 8: Redis killed, `appendfsync always`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_has_lost_nothing_that_it_acknowledged() {
    let mut server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..16).map(|caller| tokio::spawn(work(ledger.clone(), caller, Arc::clone(&acknowledged)))).collect();
    eventually(SOON, "a thousand claims", || async { (acknowledged.load(Ordering::Relaxed) >= 1_000).then_some(()) }).await;
    server.kill9();
    let mut known = Vec::new();
    for caller in callers {
        known.extend(caller.await.expect("no caller panics"));
    }
    server.restart().await;

    // Another run of the server: nothing goes through until somebody recovers, not even a read.
    eventually(SOON, "a connection", || async { is_other_server(&ledger.records(&[key("tenant-0/job-0-0")]).await).then_some(()) }).await;
    let now = ledger.now().await.expect("its clock runs");
    assert!(is_other_server(&ledger.create(vec![create_of(record("tenant-0/new", 1, now), now)]).await));
    for shard in (0..SHARDS).map(curfew_domain::Shard) {
        assert!(!ledger.meta(shard).await.expect("it answers").expect("it is kept").of_this_server);
        assert_eq!(adopt(&ledger, shard, 1).await, Adopted::Adopted);
        ledger.recovered(shard, 1).await.expect("it answers");
        assert_eq!(ledger.recount(shard).await.expect("it answers"), 0, "no script was cut in half");
    }
    for part in known.chunks(100) {
        let keys: Vec<_> = part.iter().map(|record| record.key.clone()).collect();
        let found = ledger.records(&keys).await.expect("it answers");
        for (mine, stands_there) in part.iter().zip(found) {
            let stands_there = stands_there.unwrap_or_else(|| panic!("{} is lost", mine.key.as_str()));
            // The last claim of a caller may have been written and not answered.
            assert!(stands_there.version >= mine.version, "{}", mine.key.as_str());
        }
    }
}

/// NOSCRIPT says that nothing ran: those calls, and no others, are made again.
#[tokio::test]
async fn a_server_that_forgot_the_scripts_gets_them_again() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let mut claims = Vec::new();
    for n in 0..50 {
        let waiting = due(&ledger, &format!("acme/{n}")).await;
        claims.push(swap_of(&ledger, &waiting, &CLAIM).await);
    }
    assert_eq!(ledger.permits("smtp", 10.0, 1).await.expect("the ledger answers").0, 1);
    server.ask(&["SCRIPT", "FLUSH"]).await;
    let answers = ledger.swap_all(claims).await.expect("the ledger answers");
    assert!(answers.iter().all(|answer| *answer == Swapped::Swapped));
    assert_eq!(ledger.counts(shard("acme/0"), &[Counter::State(State::Claimed)]).await.expect("the ledger answers"), [50]);
    server.ask(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(ledger.permits("smtp", 10.0, 1).await.expect("the ledger answers").0, 1);
    server.ask(&["SCRIPT", "FLUSH"]).await;
    ledger.initialise().await.expect("the ledger answers");
}

/// The script ran, its answer never came.
async fn lost_reply<T: Send + 'static>(server: &Redis, proxy: &TcpProxy, asked: impl Future<Output = T> + Send + 'static) -> T {
    // Paused, the server has the request in hand; the way back is cut before it goes on.
    server.ask(&["CLIENT", "PAUSE", "60000", "WRITE"]).await;
    let asked = tokio::spawn(asked);
    let blocked = || async { server.ask(&["INFO", "clients"]).await.text().contains("blocked_clients:1").then_some(()) };
    eventually(SOON, "a request in the server's hand", blocked).await;
    proxy.set(Passage::HalfOpen);
    server.ask(&["CLIENT", "UNPAUSE"]).await;
    let answer = asked.await.expect("no caller panics");
    proxy.set(Passage::Open);
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_repeated_is_the_same_as_once() {
    let server = Redis::start(Options::default()).await;
    let proxy = TcpProxy::start(server.addr()).await.expect("it listens");
    let ledger = ledger(&format!("redis://{}", proxy.addr())).await;
    let waiting = due(&ledger, "acme/a").await;

    let cancel = Event::Verb(&NumberedVerb { number: 1, generation: 1, verb: Verb::Cancel });
    let cancel = swap_of(&ledger, &waiting, &cancel).await.on_disk();
    let asked = {
        let (ledger, cancel) = (ledger.clone(), cancel.clone());
        async move { ledger.swap(cancel).await }
    };
    assert!(is_unavailable(&lost_reply(&server, &proxy, asked).await), "nothing is known");
    assert_eq!(ledger.swap(cancel).await.expect("a new connection"), Swapped::Swapped);
    let entry = ledger.get(&waiting.key).await.expect("the ledger answers").expect("a record stands there");
    assert_eq!((entry.record.version, entry.history.len()), (2, 2), "staged, and cancelled once");
    let states = [Counter::State(State::Cancelled), Counter::State(State::Scheduled)];
    assert_eq!(ledger.counts(waiting.shard, &states).await.expect("the ledger answers"), [1, 0]);

    let now = ledger.now().await.expect("the ledger answers");
    let create = create_of(record("acme/b", 1, now), now);
    let asked = {
        let (ledger, create) = (ledger.clone(), create.clone());
        async move { ledger.create(vec![create]).await }
    };
    assert!(is_unavailable(&lost_reply(&server, &proxy, asked).await), "nothing is known");
    let again = ledger.create(vec![create.clone()]).await.expect("a new connection");
    assert_eq!(again, [Created::Exists(Box::new(create.change.record))]);
    assert_eq!(ledger.recount(waiting.shard).await.expect("the ledger answers"), 0);
}

/// A path that died half-way: the wait is bounded, and the next call goes another way.
#[tokio::test]
async fn a_half_open_connection_is_given_up_after_the_response_timeout() {
    let server = Redis::start(Options::default()).await;
    let proxy = TcpProxy::start(server.addr()).await.expect("it listens");
    let ledger = ledger(&format!("redis://{}", proxy.addr())).await;
    let waiting = due(&ledger, "acme/a").await;
    proxy.set(Passage::HalfOpen);
    assert!(is_unavailable(&ledger.records(std::slice::from_ref(&waiting.key)).await));
    assert!(is_unavailable(&ledger.live_by_state().await), "a connect is bounded too");
    proxy.set(Passage::Open);
    moved(&ledger, &waiting, &CLAIM).await;

    // A cut is noticed at once, told once, and never hidden.
    proxy.cut();
    let told = eventually(SOON, "a broken connection", || async { ledger.records(std::slice::from_ref(&waiting.key)).await.err() }).await;
    assert!(is_unavailable(&Err::<(), _>(told)));
    assert_eq!(stands(&ledger, "acme/a").await.version, 2);
}

/// What a frozen server had in its hands it does when it wakes, long after its caller gave up: a timeout is no failure.
#[tokio::test]
async fn a_frozen_server_may_do_later_what_it_never_answered() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    due(&ledger, "acme/a").await;
    let now = ledger.now().await.expect("the ledger answers");
    let create = create_of(record("acme/b", 1, now), now);
    server.signal("STOP");
    assert!(is_unavailable(&ledger.create(vec![create.clone()]).await));
    server.signal("CONT");
    let find = || async { ledger.get(&key("acme/b")).await.ok().flatten() };
    let entry = eventually(SOON, "the create that nobody waits for", find).await;
    assert_eq!(entry.history.len(), 1);
    let again = ledger.create(vec![create]).await.expect("the ledger answers");
    assert_eq!(again, [Created::Exists(Box::new(entry.record))]);
}

/// A shard that waits for its recovery refuses every call, and a refusal costs no connect.
#[tokio::test]
async fn refusals_do_not_make_connections() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let waiting = due(&ledger, "acme/a").await;
    server.ask(&["HSET", &format!("test:{{{}}}:meta", waiting.shard), "run_id", "another"]).await;
    let made = || async {
        let stats = server.ask(&["INFO", "stats"]).await.text();
        let made = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:")?.parse::<u32>().ok());
        made.expect("INFO counts connections")
    };
    let before = made().await;
    for _ in 0..200 {
        assert!(is_other_server(&ledger.get(&waiting.key).await));
    }
    // The second question is a connection too; what is left is one a second at most.
    let after = made().await - before - 1;
    assert!(after < 20, "{after} connections for 200 refusals");
}

#[tokio::test]
async fn an_emptied_server_is_refused_until_somebody_says_whose_it_is() {
    let server = Redis::start(Options::default()).await;
    let ledger = ledger(&server.url()).await;
    let waiting = due(&ledger, "acme/a").await;
    server.ask(&["FLUSHALL"]).await;
    let now = ledger.now().await.expect("its clock runs");
    for process in [&ledger, &opened(&server.url())] {
        assert!(is_other_server(&process.get(&waiting.key).await), "a missing record is not believed");
        assert!(is_other_server(&process.create(vec![create_of(record("acme/b", 1, now), now)]).await));
        assert!(is_other_server(&process.agenda(&[waiting.shard], now).await));
        assert_eq!(process.meta(waiting.shard).await.expect("it answers"), None);
    }
    assert_eq!(server.ask(&["DBSIZE"]).await.text(), "0", "nothing was written");
}
