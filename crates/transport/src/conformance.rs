//! The promises of a transport, a function for each; every adapter runs them all.
//!
//! They need to see the other side: a [`Provider`] tells what it accepted and can hold back its verdicts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::{JobId, Moment, OutcomeClass};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::{Bounds, HandOff, HandOffStage, LastLook, Look, Parcel, Prepared, Transport};

/// How long a step of the suite may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The other side, as the suite sees it.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The transport under test, connected to this provider.
    fn transport(&self) -> &dyn Transport;

    /// How many messages of this job it has accepted, counted before its answer leaves.
    async fn accepted(&self, job: JobId) -> u32;

    /// Whether it can hold back its verdicts; one that answers at once has no such time.
    fn can_hold(&self) -> bool;

    /// From now on it accepts and doesn't answer.
    async fn hold_verdicts(&self);

    /// Waits until a handoff waits for its verdict.
    async fn verdict_awaited(&self);

    /// Answers what is held, and answers at once from now on.
    async fn release_verdicts(&self);

    /// Whether it can fall silent before anything is handed over.
    fn can_fall_silent(&self) -> bool;

    /// From now on it answers nothing at all.
    async fn fall_silent(&self);
}

/// A parcel of this number; each number is another job.
pub fn parcel(number: u32) -> Parcel {
    let job_id = JobId::parse(&format!("0198c0de-0000-7000-8000-{number:012}")).expect("well formed");
    let message = format!("From: <a@sender.example>\r\nTo: <r{number}@rcpt.example>\r\nX-Curfew-Job: {job_id}\r\n\r\nNumber {number}\r\n.dots\r\n");
    Parcel {
        job_id,
        generation: 1,
        dated: Moment::from_millis(1_790_000_000_000),
        from: "a@sender.example".into(),
        to: format!("r{number}@rcpt.example"),
        needs_smtputf8: false,
        bytes: message.into_bytes().into(),
        provider_key: None,
    }
}

/// A last look with a fixed answer, which counts how often it was asked.
#[derive(Debug)]
pub struct Fixed {
    answer: Look,
    asked: AtomicU32,
}

impl Fixed {
    /// Always this answer.
    pub fn new(answer: Look) -> Self {
        Self { answer, asked: AtomicU32::new(0) }
    }

    /// How often it was asked.
    pub fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl LastLook for Fixed {
    async fn look(&mut self) -> Look {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer
    }
}

/// A last look that never answers, and tells when it was asked.
#[derive(Debug, Default)]
pub struct Never {
    asked: std::sync::Arc<Notify>,
}

#[async_trait]
impl LastLook for Never {
    async fn look(&mut self) -> Look {
        self.asked.notify_one();
        std::future::pending().await
    }
}

/// Bounds that no test meets.
pub fn ample() -> Bounds {
    Bounds { deadline: Instant::now() + Duration::from_secs(3_600) }
}

async fn prepare(provider: &dyn Provider, parcel: &Parcel) -> Box<dyn Prepared> {
    let prepared = timeout(PATIENCE, provider.transport().prepare(parcel, &ample())).await.expect("prepare ends");
    prepared.unwrap_or_else(|outcome| panic!("{outcome:?}"))
}

async fn deliver(provider: &dyn Provider, parcel: &Parcel) -> HandOff {
    let prepared = prepare(provider, parcel).await;
    timeout(PATIENCE, prepared.hand_off(&mut Fixed::new(Look::Go))).await.expect("hand_off ends")
}

/// T1: `prepare` hands nothing over, and `abandon` or a drop after it leaves nothing accepted.
pub async fn prepare_hands_nothing_over(provider: &dyn Provider) {
    let (abandoned, dropped) = (parcel(101), parcel(102));
    prepare(provider, &abandoned).await.abandon().await;
    let prepared = prepare(provider, &dropped).await;
    assert_eq!(prepared.stage().get(), HandOffStage::ContentNotBegun);
    drop(prepared);
    // The next one shows that nothing of them is left to be accepted with it.
    assert!(matches!(deliver(provider, &parcel(103)).await, HandOff::Accepted(_)));
    for parcel in [abandoned, dropped] {
        assert_eq!(provider.accepted(parcel.job_id).await, 0);
    }
}

/// T2: `Stop` at the last look leaves nothing accepted, and says so.
pub async fn stop_leaves_nothing_accepted(provider: &dyn Provider) {
    let stopped = parcel(201);
    let prepared = prepare(provider, &stopped).await;
    let progress = prepared.stage();
    match prepared.hand_off(&mut Fixed::new(Look::Stop)).await {
        HandOff::NotAccepted(outcome) => assert_eq!(outcome.class, OutcomeClass::Transient),
        other => panic!("{other:?}"),
    }
    assert!(progress.proves_not_handed_off());
    assert!(matches!(deliver(provider, &parcel(202)).await, HandOff::Accepted(_)));
    assert_eq!(provider.accepted(stopped.job_id).await, 0);
}

/// T3: `Accepted` comes with the provider's own proof, and for what it accepted.
pub async fn accepted_is_what_the_provider_accepted(provider: &dyn Provider) {
    for number in 301..=305 {
        let parcel = parcel(number);
        match deliver(provider, &parcel).await {
            HandOff::Accepted(acceptance) => assert!(!acceptance.text.is_empty() && acceptance.text.len() <= 200),
            other => panic!("{other:?}"),
        }
        assert_eq!(provider.accepted(parcel.job_id).await, 1);
    }
}

/// T4, before the marker: a handoff that is dropped in its last look is proven not handed off.
pub async fn dropped_in_the_look_it_is_not_handed_off(provider: &dyn Provider) {
    let dropped = parcel(401);
    let prepared = prepare(provider, &dropped).await;
    let progress = prepared.stage();
    let mut look = Never::default();
    let asked = std::sync::Arc::clone(&look.asked);
    tokio::select! {
        verdict = prepared.hand_off(&mut look) => panic!("{verdict:?}"),
        () = asked.notified() => {}
    }
    assert_eq!(progress.get(), HandOffStage::Content);
    assert!(matches!(deliver(provider, &parcel(402)).await, HandOff::Accepted(_)));
    assert_eq!(provider.accepted(dropped.job_id).await, 0);
}

/// T4, after the marker: the late verdict of a dropped handoff is nobody else's.
pub async fn a_dropped_handoff_leaves_its_verdict_to_nobody(provider: &dyn Provider) {
    if !provider.can_hold() {
        return;
    }
    let dropped = parcel(501);
    provider.hold_verdicts().await;
    let prepared = prepare(provider, &dropped).await;
    let progress = prepared.stage();
    let mut look = Fixed::new(Look::Go);
    tokio::select! {
        verdict = prepared.hand_off(&mut look) => panic!("{verdict:?}"),
        () = provider.verdict_awaited() => {}
    }
    assert_eq!(progress.get(), HandOffStage::MarkerMayBeOut);
    assert!(!progress.proves_not_handed_off());
    provider.release_verdicts().await;
    for number in 502..=510 {
        let parcel = parcel(number);
        let accepted = matches!(deliver(provider, &parcel).await, HandOff::Accepted(_));
        assert_eq!(provider.accepted(parcel.job_id).await, u32::from(accepted));
    }
}

/// T5: a provider that answers nothing ends `prepare` by its deadline, as a failure with nothing handed over.
pub async fn silence_ends_at_the_deadline(provider: &dyn Provider) {
    if !provider.can_fall_silent() {
        return;
    }
    provider.fall_silent().await;
    let bounds = Bounds { deadline: Instant::now() + Duration::from_millis(300) };
    let parcel = parcel(601);
    let ended = timeout(PATIENCE, provider.transport().prepare(&parcel, &bounds)).await.expect("prepare ends");
    match ended {
        Ok(_) => panic!("prepared over a silent provider"),
        Err(outcome) => assert!(!matches!(outcome.class, OutcomeClass::Accepted | OutcomeClass::Ambiguous)),
    }
    assert_eq!(provider.accepted(parcel.job_id).await, 0);
}

/// T6: the last look is asked exactly once.
pub async fn the_look_is_asked_once(provider: &dyn Provider) {
    let mut look = Fixed::new(Look::Go);
    let verdict = prepare(provider, &parcel(701)).await.hand_off(&mut look).await;
    assert!(matches!(verdict, HandOff::Accepted(_)));
    assert_eq!(look.asked(), 1);
}

/// All promises, in an order in which the silent one comes last.
pub async fn all(provider: &dyn Provider) {
    prepare_hands_nothing_over(provider).await;
    stop_leaves_nothing_accepted(provider).await;
    accepted_is_what_the_provider_accepted(provider).await;
    dropped_in_the_look_it_is_not_handed_off(provider).await;
    a_dropped_handoff_leaves_its_verdict_to_nobody(provider).await;
    the_look_is_asked_once(provider).await;
    silence_ends_at_the_deadline(provider).await;
}
