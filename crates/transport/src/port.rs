//! The port: what a worker asks of a transport.
//!
//! An attempt has two steps, so that the worker can write its intent between them: `prepare`, all that can fail with nothing handed over,
//! and `hand_off`, from which the provider may have accepted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::outcome::{Outcome, Receipt};
use curfew_domain::{JobId, Moment};
use tokio::time::Instant;

/// What is to be handed over: one message for one recipient. `Debug` shows neither.
#[derive(Clone)]
pub struct Parcel {
    /// Whose it is.
    pub job_id: JobId,
    /// The job's generation, from 1.
    pub generation: u32,
    /// The generation's release: the message's `Date`, and the date in a capture's file name.
    pub dated: Moment,
    /// Envelope sender without brackets; empty for the null path.
    pub from: String,
    /// Envelope recipient without brackets, its domain in A-labels.
    pub to: String,
    /// Whether the envelope or the headers hold raw UTF-8 (RFC 6531), so that a server without SMTPUTF8 can't take it.
    pub needs_smtputf8: bool,
    /// The message in CRLF normal form.
    pub bytes: Arc<[u8]>,
    /// The key under which the provider recognises a repeated submission, where it does. Over SMTP the message's own header carries it.
    pub provider_key: Option<String>,
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parcel({}, generation {}, {} bytes)", self.job_id, self.generation, self.bytes.len())
    }
}

/// What limits an attempt from outside.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// No phase of `prepare`, and no block of content, runs past this; the last look decides about the rest.
    pub deadline: Instant,
}

/// A way to the provider. Used as a trait object, shared by all of a worker's deliveries.
#[async_trait]
pub trait Transport: Send + Sync {
    /// All that can fail with nothing handed over. A dropped future leaves nothing behind.
    ///
    /// # Errors
    /// An outcome of any class but `accepted` and `ambiguous`.
    async fn prepare(&self, parcel: &Parcel, bounds: &Bounds) -> Result<Box<dyn Prepared>, Outcome>;

    /// Goes as far as the login without a job, for a circuit that wants to close.
    ///
    /// # Errors
    /// What a job's `prepare` would have met.
    async fn probe(&self) -> Result<(), Outcome>;

    /// How many attempts it serves at once; one more waits inside `prepare`, then ends with the rule `pool-full`.
    fn max_connections(&self) -> usize;

    /// The sum of its phases' bounds: no attempt takes longer, from the call of `prepare` to the verdict, the last look included.
    fn attempt_max(&self) -> Duration;

    /// Ends what is idle, within a short bound. Attempts under way end by themselves; new ones are refused as transient.
    async fn close(&self);
}

/// An attempt that is ready to hand over. Dropping it is the same as `abandon`.
#[async_trait]
pub trait Prepared: Send {
    /// Hands over. `look` is asked once, when all that precedes the acceptance has been written and flushed.
    ///
    /// A dropped future, or a panic, destroys what it held; `stage` then says what is known.
    async fn hand_off(self: Box<Self>, look: &mut dyn LastLook) -> HandOff;

    /// Ends the attempt with nothing handed over.
    async fn abandon(self: Box<Self>);

    /// How far the handoff is, readable from outside and after it was dropped.
    fn stage(&self) -> HandOffProgress;
}

/// Asked between the content and the end marker.
#[async_trait]
pub trait LastLook: Send {
    /// Whether the handoff may go on. One that doesn't answer within [`LOOK_MAX`] is taken as `Stop`.
    async fn look(&mut self) -> Look;
}

/// A last look must answer within this: the lease margin it checks for is no longer.
pub const LOOK_MAX: Duration = curfew_domain::limits::LAST_LOOK_MARGIN;

/// The last look's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// Deadline and lease are good.
    Go,
    /// Not a byte of the end marker may leave.
    Stop,
}

/// What became of a handoff.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandOff {
    /// The provider took responsibility.
    Accepted(Acceptance),
    /// It did not, for certain: refused, or proven not handed off. The outcome is neither `accepted` nor `ambiguous`.
    NotAccepted(Outcome),
    /// Nobody can say; the outcome is `ambiguous`.
    Unknown(Outcome),
}

/// The provider's proof, before the ledger's clock has dated it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acceptance {
    /// 250, 251 or 252 over SMTP; 0 for a capture.
    pub code: u16,
    /// The reply's text without addresses, at most 200 bytes.
    pub text: String,
    /// The server's own id for the message, where its reply names one.
    pub queue_id: Option<String>,
}

impl Acceptance {
    /// The receipt, with the ledger's moment at which the reply was read.
    pub fn receipt(self, at: Moment) -> Receipt {
        Receipt { at, code: self.code, text: self.text, queue_id: self.queue_id }
    }
}

/// How far a handoff came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum HandOffStage {
    /// Nothing of the content has been written.
    ContentNotBegun = 0,
    /// Some or all of the content, and no byte of the end marker: not accepted, for certain.
    Content = 1,
    /// A byte of the end marker may have left: in doubt.
    MarkerMayBeOut = 2,
    /// The verdict was read, though perhaps not returned: in doubt for whoever lost it.
    Answered = 3,
}

/// A handoff's stage, shared with whoever watches it. It only rises.
#[derive(Clone, Debug, Default)]
pub struct HandOffProgress(Arc<AtomicU8>);

impl HandOffProgress {
    /// Where the handoff is, or was when it was dropped.
    pub fn get(&self) -> HandOffStage {
        match self.0.load(Ordering::SeqCst) {
            0 => HandOffStage::ContentNotBegun,
            1 => HandOffStage::Content,
            2 => HandOffStage::MarkerMayBeOut,
            _answered => HandOffStage::Answered,
        }
    }

    /// Whether a handoff that was dropped here is proven not to have been accepted.
    pub fn proves_not_handed_off(&self) -> bool {
        self.get() < HandOffStage::MarkerMayBeOut
    }

    /// For the transport: set before the step it names is begun, so that it may say too much and never too little.
    pub fn reach(&self, stage: HandOffStage) {
        self.0.fetch_max(stage as u8, Ordering::SeqCst);
    }
}

/// A connection whose replies were out of step after a handoff had used it. The connection is destroyed; the surplus was read as nobody's.
///
/// Where that job's verdict was a refusal, it can't be trusted any more: unless the job is settled, it is in doubt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Desync {
    /// The job whose handoff was the last on that connection.
    pub job_id: JobId,
    /// Its generation.
    pub generation: u32,
    /// Whether it had been accepted; then nothing is in doubt.
    pub accepted: bool,
    /// The row of the classification table, or the check, that noticed.
    pub rule: &'static str,
}

/// Told of each desync; must not block.
pub type OnDesync = Arc<dyn Fn(Desync) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_only_rises_and_proves_innocence_up_to_the_marker() {
        let progress = HandOffProgress::default();
        assert!(progress.proves_not_handed_off());
        progress.reach(HandOffStage::Content);
        assert!(progress.proves_not_handed_off());
        progress.reach(HandOffStage::MarkerMayBeOut);
        progress.reach(HandOffStage::Content);
        assert_eq!(progress.get(), HandOffStage::MarkerMayBeOut);
        assert!(!progress.proves_not_handed_off());
    }
}
