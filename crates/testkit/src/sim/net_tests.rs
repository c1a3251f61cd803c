//! The real SMTP driver through the simulated network to the simulated mail server.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::JobId;
use curfew_domain::outcome::OutcomeClass;
use curfew_transport::conformance::{self, Fixed, Provider, ample, parcel};
use curfew_transport::smtp::{SmtpConfig, SmtpTransport, TlsMode};
use curfew_transport::{HandOff, LastLook, Look, Parcel, Transport};
use tokio::time::Instant;

use super::{Process, SimNet, SimRelay, World};
use crate::mail_server::scripts::{always_at, first_times_at, obedient};
use crate::mail_server::{Action, Config, Event, Extensions, Stage, What};

struct House {
    world: World,
    process: Arc<Process>,
    relay: Arc<SimRelay>,
    transport: SmtpTransport,
}

impl House {
    fn new(seed: u64, config: Config) -> Self {
        Self::with(seed, config, |_| {})
    }

    fn with(seed: u64, config: Config, change: impl FnOnce(&mut SmtpConfig)) -> Self {
        let world = World::new(seed, false);
        let process = Process::start("worker");
        let relay = SimRelay::new(&world, "relay", config);
        let mut smtp = SmtpConfig::new("relay", 25);
        smtp.tls = TlsMode::None;
        change(&mut smtp);
        let net = SimNet::new(&world, &process, vec![Arc::clone(&relay)]);
        let transport = SmtpTransport::with_dial(smtp, None, net).expect("a good configuration");
        Self { world, process, relay, transport }
    }

    async fn send(&self, parcel: &Parcel, look: &mut dyn LastLook) -> HandOff {
        match self.transport.prepare(parcel, &ample()).await {
            Ok(prepared) => prepared.hand_off(look).await,
            Err(outcome) => HandOff::NotAccepted(outcome),
        }
    }

    async fn attempt(&self, number: u32) -> OutcomeClass {
        class(&self.send(&parcel(number), &mut Fixed::new(Look::Go)).await)
    }

    fn accepted(&self) -> u64 {
        self.relay.server().accepted_count()
    }
}

fn class(handed: &HandOff) -> OutcomeClass {
    match handed {
        HandOff::Accepted(_) => OutcomeClass::Accepted,
        HandOff::NotAccepted(outcome) | HandOff::Unknown(outcome) => outcome.class,
    }
}

/// Larger than the window.
fn large(number: u32) -> Parcel {
    let mut large = parcel(number);
    large.bytes = [&*large.bytes, "x".repeat(70).as_bytes(), b"\r\n"].concat().into();
    large.bytes = large.bytes.iter().copied().chain("line\r\n".repeat(2_000).bytes()).collect();
    large
}

/// Does something to the fleet, then says go.
struct Meanwhile<F>(F);

#[async_trait]
impl<F: FnMut() + Send> LastLook for Meanwhile<F> {
    async fn look(&mut self) -> Look {
        (self.0)();
        Look::Go
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_is_accepted_at_its_true_moment_over_a_pooled_connection() {
    let house = House::new(1, Config::default());
    for number in 1..=3 {
        assert_eq!(house.attempt(number).await, OutcomeClass::Accepted);
    }
    assert_eq!((house.accepted(), house.relay.server().connections()), (3, 1));
    let accepted = house.relay.server().accepted();
    assert_eq!(accepted[0].content, &*parcel(1).bytes);
    let true_ms = |at: std::time::SystemTime| at.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let (first, last) = (true_ms(accepted[0].at), true_ms(accepted[2].at));
    assert!(super::EPOCH.as_millis() < first && first < last && last <= house.world.now().as_millis());
    assert_eq!(house.relay.server().violations(), []);
}

#[tokio::test(start_paused = true)]
async fn a_large_mail_passes_the_window() {
    let house = House::new(2, Config::default());
    let sent = large(1);
    assert_eq!(class(&house.send(&sent, &mut Fixed::new(Look::Go)).await), OutcomeClass::Accepted);
    assert_eq!(house.relay.server().accepted()[0].content, &*sent.bytes);
}

#[tokio::test(start_paused = true)]
async fn a_server_silent_at_a_stage_ends_the_attempt_in_its_class() {
    let stages = [
        (Stage::Greeting, Action::Silence, OutcomeClass::Transient, 60, 0),
        (Stage::Ehlo, Action::Silence, OutcomeClass::Transient, 60, 0),
        (Stage::Mail, Action::Silence, OutcomeClass::Transient, 60, 0),
        (Stage::Rcpt, Action::Silence, OutcomeClass::Transient, 60, 0),
        (Stage::Data, Action::Silence, OutcomeClass::Transient, 60, 0),
        (Stage::Content, Action::StopReading { after: 1 }, OutcomeClass::Transient, 180, 0),
        (Stage::Dot, Action::Silence, OutcomeClass::Ambiguous, 600, 0),
        (Stage::Dot, Action::AcceptThenSilence, OutcomeClass::Ambiguous, 600, 1),
    ];
    for (stage, action, expected, seconds, accepted) in stages {
        let house = House::new(3, Config::scripted(always_at(stage, action.clone())));
        let began = Instant::now();
        let ended = class(&house.send(&large(1), &mut Fixed::new(Look::Go)).await);
        let took = began.elapsed().as_secs();
        assert_eq!((ended, house.accepted()), (expected, accepted), "{stage:?} {action:?}");
        assert!((seconds..seconds + 3).contains(&took), "{stage:?} {action:?} took {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_at_a_stage_is_certain_before_the_marker_and_in_doubt_after_it() {
    let stages = [
        (Stage::Greeting, Action::Reset, OutcomeClass::Transient, 0),
        (Stage::Rcpt, Action::Reset, OutcomeClass::Transient, 0),
        (Stage::Content, Action::Reset, OutcomeClass::Transient, 0),
        (Stage::Dot, Action::Reset, OutcomeClass::Ambiguous, 0),
        (Stage::Dot, Action::AcceptThenReset, OutcomeClass::Ambiguous, 1),
        (Stage::Dot, Action::AcceptThenClose, OutcomeClass::Ambiguous, 1),
    ];
    for (stage, action, expected, accepted) in stages {
        let house = House::new(4, Config::scripted(always_at(stage, action.clone())));
        // A small one would be written whole, marker and all, before the reset is heard: in doubt, at each stage from the content on.
        let ended = class(&house.send(&large(1), &mut Fixed::new(Look::Go)).await);
        assert_eq!((ended, house.accepted()), (expected, accepted), "{stage:?} {action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_the_last_look_leaves_nothing_accepted_though_the_content_flew() {
    let house = House::new(5, Config::default());
    let stopped = house.send(&parcel(1), &mut Fixed::new(Look::Stop)).await;
    assert_eq!(class(&stopped), OutcomeClass::Transient);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((house.accepted(), house.relay.server().cut_off(), house.relay.server().open_connections()), (0, 1, 0));
    assert_eq!(house.attempt(2).await, OutcomeClass::Accepted);
}

#[tokio::test(start_paused = true)]
async fn what_a_process_wrote_before_its_kill_arrives_and_nothing_after() {
    let before = House::new(6, Config::default());
    let process = Arc::clone(&before.process);
    let mut look = Meanwhile(move || process.kill());
    let parcel_1 = parcel(1);
    let killed = tokio::time::timeout(Duration::from_secs(60), before.send(&parcel_1, &mut look)).await;
    assert!(killed.is_err(), "a dead process learns nothing");
    assert_eq!((before.accepted(), before.relay.server().cut_off(), before.relay.server().open_connections()), (0, 1, 0));

    let after = House::new(6, Config::default());
    let process = Arc::clone(&after.process);
    // The kill comes in the turn after the marker's write.
    let mut look = Meanwhile(move || {
        let process = Arc::clone(&process);
        tokio::spawn(async move { process.kill() });
    });
    let killed = tokio::time::timeout(Duration::from_secs(60), after.send(&parcel_1, &mut look)).await;
    assert!(killed.is_err());
    assert_eq!((after.accepted(), after.relay.server().open_connections()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_freeze_at_the_last_look_lets_the_marker_out_and_the_verdict_waits_for_the_thaw() {
    let house = House::new(7, Config::default());
    let process = Arc::clone(&house.process);
    let thaws = Arc::clone(&house.process);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        thaws.thaw();
    });
    let mut look = Meanwhile(move || process.freeze());
    let handed = house.send(&parcel(1), &mut look).await;
    assert_eq!((class(&handed), house.world.elapsed().as_secs()), (OutcomeClass::Accepted, 30));
    let at = house.relay.server().accepted()[0].at;
    assert!(at < std::time::UNIX_EPOCH + Duration::from_millis(super::EPOCH.as_millis() as u64 + 1_000), "accepted while it was frozen");
}

#[tokio::test(start_paused = true)]
async fn weather_refuses_swallows_and_breaks() {
    let house = House::new(8, Config::scripted(always_at(Stage::Dot, Action::Silence)));
    house.relay.crash();
    assert_eq!((house.attempt(1).await, house.relay.server().connections()), (OutcomeClass::Transient, 0));
    house.relay.restart();
    house.relay.service().weather().cut_off.insert("worker".to_owned());
    let began = Instant::now();
    assert_eq!((house.attempt(1).await, began.elapsed().as_secs()), (OutcomeClass::Transient, 10));
    house.relay.service().weather().cut_off.clear();
    let (handed, ()) = tokio::join!(house.attempt(2), async {
        house.relay.server().held(Stage::Dot).await;
        house.relay.reset_all();
    });
    assert_eq!((handed, house.accepted()), (OutcomeClass::Ambiguous, 0));
    house.relay.service().weather().lost_calls = 100.0;
    assert_eq!(house.attempt(3).await, OutcomeClass::Transient);
}

/// A run of some mails under chance; what its trace came to.
async fn run(seed: u64) -> ((u64, u64), Vec<OutcomeClass>) {
    let house = House::new(seed, Config::default());
    house.relay.service().weather().lost_calls = 3.0;
    house.relay.service().weather().lost_answers = 3.0;
    let (a, b, c) = (3, 4, 5);
    let mut classes = Vec::new();
    for round in 0..4 {
        let (one, two, three) = tokio::join!(house.attempt(a + 10 * round), house.attempt(b + 10 * round), house.attempt(c + 10 * round));
        classes.extend([one, two, three]);
    }
    (house.world.trace(), classes)
}

fn in_a_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime").block_on(future)
}

#[test]
fn two_runs_of_one_seed_have_one_trace() {
    let runs: Vec<_> = (1..=20).map(|seed| (in_a_runtime(run(seed)), in_a_runtime(run(seed)))).collect();
    for (first, second) in &runs {
        assert_eq!(first, second);
    }
    assert!(runs.windows(2).all(|pair| pair[0].0.0 != pair[1].0.0), "seeds differ");
    assert!(runs.iter().any(|(run, _)| run.1.iter().any(|class| *class != OutcomeClass::Accepted)), "the weather does harm");
}

/// The late reply of a mail that was given up is read as the next mail's, if a connection is reused after anything.
#[tokio::test(start_paused = true)]
async fn a_dirty_connection_that_is_reused_reads_another_mails_verdict() {
    for (planted, pipelining, expected) in [
        (false, false, OutcomeClass::Permanent),
        (false, true, OutcomeClass::Permanent),
        (true, false, OutcomeClass::Accepted),
        (true, true, OutcomeClass::Accepted),
    ] {
        let extensions = Extensions { pipelining, ..Extensions::default() };
        let config = Config { extensions, ..Config::default() };
        let house = House::with(9, config, |smtp| smtp.reuse_dirty = planted);
        house.relay.server().set_script(first_times_at(Stage::Dot, 1, Action::AcceptThenHold));
        // The worker gives the handoff up: its future is dropped.
        assert!(tokio::time::timeout(Duration::from_secs(20), house.attempt(1)).await.is_err());
        house.relay.server().set_script(always_at(Stage::Dot, Action::reply("554 5.7.1 Refused as spam")));
        house.relay.server().release();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((house.attempt(2).await, house.accepted()), (expected, 1), "planted: {planted}, pipelining: {pipelining}");
        let closed = house.relay.server().happenings().iter().filter(|happening| happening.what == What::Closed).count();
        assert_eq!(closed, usize::from(!planted), "the connection of the first mail is destroyed, or reused");
    }
}

#[async_trait]
impl Provider for House {
    fn transport(&self) -> &dyn Transport {
        &self.transport
    }

    async fn accepted(&self, job: JobId) -> u32 {
        self.relay.server().accepted_per_job().get(&job.to_string()).copied().unwrap_or(0)
    }

    fn can_hold(&self) -> bool {
        true
    }

    async fn hold_verdicts(&self) {
        self.relay.server().set_script(always_at(Stage::Dot, Action::AcceptThenHold));
    }

    async fn verdict_awaited(&self) {
        self.relay.server().held(Stage::Dot).await;
    }

    async fn release_verdicts(&self) {
        self.relay.server().set_script(obedient());
        self.relay.server().release();
    }

    fn can_fall_silent(&self) -> bool {
        true
    }

    async fn fall_silent(&self) {
        self.relay.server().set_script(|event: &Event<'_>| if event.stage == Stage::Quit { Action::Default } else { Action::Silence });
    }
}

#[tokio::test(start_paused = true)]
async fn the_driver_keeps_its_ports_promises_over_it() {
    for seed in 1..=20 {
        conformance::all(&House::new(seed, Config::default())).await;
    }
}

/// A way that is cut off between the marker's write and its arrival: the handoff began in time, the acceptance came late.
#[tokio::test(start_paused = true)]
async fn a_handoff_began_when_its_marker_was_written() {
    let house = House::new(10, Config::default());
    let (relay, mends) = (Arc::clone(&house.relay), Arc::clone(&house.relay));
    let mut look = Meanwhile(move || {
        relay.service().weather().cut_off.insert("worker".to_owned());
    });
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(40)).await;
        mends.service().weather().cut_off.clear();
    });
    assert_eq!(class(&house.send(&parcel(1), &mut look).await), OutcomeClass::Accepted);
    let handoffs = house.relay.handoffs();
    assert_eq!(handoffs.len(), 1);
    assert!(handoffs[0].began < super::EPOCH.plus(Duration::from_secs(1)));
    assert!(handoffs[0].at >= super::EPOCH.plus(Duration::from_secs(40)));
}
