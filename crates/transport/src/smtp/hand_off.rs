//! Content, last look, end marker, reply.

use async_trait::async_trait;
use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use tokio::time::{Instant, timeout};

use super::connect::{LastHandOff, SetUp};
use super::content::{BLOCK_BYTES, Content};
use super::dialogue::{Broken, Dialogue, Unasked};
use super::judge;
use super::pool::Lease;
use super::reply::Reply;
use crate::classify::{queue_id, redact};
use crate::{Acceptance, HandOff, HandOffProgress, HandOffStage, LOOK_MAX, LastLook, Look, Parcel, Prepared};

/// A receipt's text, in bytes (CONTRACT).
const RECEIPT_TEXT_BYTES_MAX: usize = 200;

/// A transaction that stands at its 354. It owns its connection: dropping it destroys that.
pub(super) struct Transaction {
    pub(super) lease: Lease,
    pub(super) content: Content,
    pub(super) parcel: Parcel,
    pub(super) deadline: Instant,
    pub(super) progress: HandOffProgress,
}

#[async_trait]
impl Prepared for Transaction {
    async fn hand_off(mut self: Box<Self>, look: &mut dyn LastLook) -> HandOff {
        self.progress.reach(HandOffStage::Content);
        if let Err(outcome) = self.write_content().await {
            return self.not_handed_off(*outcome);
        }
        let heard = self.lease.connection().dialogue.unasked().await;
        if let Err(outcome) = self.nothing_heard(heard).await {
            return self.not_handed_off(*outcome);
        }
        match timeout(LOOK_MAX, look.look()).await {
            Ok(Look::Go) => {}
            Ok(Look::Stop) => return self.not_handed_off(*stopped("the last look said stop")),
            Err(_elapsed) => return self.not_handed_off(*stopped("the last look gave no answer in time")),
        }
        // From the look to the marker nothing is waited for: a deadline must not pass in between.
        let heard = self.lease.connection().dialogue.unasked_now().await;
        if let Err(outcome) = self.nothing_heard(heard).await {
            return self.not_handed_off(*outcome);
        }
        self.end().await
    }

    async fn abandon(self: Box<Self>) {
        // After the 354 nothing ends a transaction but its end marker or the end of the connection.
        self.lease.discard();
    }

    fn stage(&self) -> HandOffProgress {
        self.progress.clone()
    }
}

impl Transaction {
    async fn write_content(&mut self) -> Result<(), Box<Outcome>> {
        let block_time = self.set_up().config.timeouts.block;
        let whole = self.set_up().until(2 * block_time, self.deadline);
        for block in self.content.as_written().chunks(BLOCK_BYTES) {
            let until = (Instant::now() + block_time).min(whole);
            let dialogue = &mut self.lease.connection().dialogue;
            if let Err(broken) = dialogue.block(block, until).await {
                return Err(early(dialogue, broken).await);
            }
        }
        let dialogue = &mut self.lease.connection().dialogue;
        match dialogue.flush(whole).await {
            Ok(()) => Ok(()),
            Err(broken) => Err(early(dialogue, broken).await),
        }
    }

    /// Whatever the server has said before the marker can't be its answer to it.
    async fn nothing_heard(&mut self, heard: Unasked) -> Result<(), Box<Outcome>> {
        match heard {
            Unasked::Nothing => Ok(()),
            Unasked::Words if self.set_up().config.reuses_dirty() => Ok(()),
            Unasked::Words => Err(early(&mut self.lease.connection().dialogue, Broken::OutOfStep).await),
            Unasked::Gone(event) => Err(judge::met(Stage::Content, event)),
        }
    }

    /// From here on the outcome is in doubt, until a whole reply was read.
    async fn end(mut self) -> HandOff {
        let timeouts = self.set_up().config.timeouts;
        let marker = self.content.marker();
        let dialogue = &mut self.lease.connection().dialogue;
        let written_before = dialogue.written();
        let until = Instant::now() + timeouts.end;
        self.progress.reach(HandOffStage::MarkerMayBeOut);
        let mut written = dialogue.write(marker, until).await;
        if written.is_ok() {
            written = dialogue.flush(until).await;
        }
        let reply = match written {
            Ok(()) => dialogue.reply(until).await,
            // Without TLS the count is that of the socket: not a byte of the marker was taken.
            Err(Broken::Met(event)) if dialogue.written() == written_before && !dialogue.wire().encrypted() => {
                return self.not_handed_off(*judge::met(Stage::Content, event));
            }
            Err(broken) => Err(broken),
        };
        match reply {
            Ok(reply) => {
                self.progress.reach(HandOffStage::Answered);
                self.verdict(&reply)
            }
            Err(broken) => HandOff::Unknown(*judge::met_after_marker(broken)),
        }
    }

    fn verdict(mut self, reply: &Reply) -> HandOff {
        let heedless = self.set_up().config.reuses_dirty();
        let accepted = matches!(reply.code, 250..=252) || heedless && matches!(reply.digit(), 2 | 3);
        let verdict = if accepted { HandOff::Accepted(acceptance(reply)) } else { verdict_of(*judge::after_marker(reply)) };
        let connection = self.lease.connection();
        connection.transactions += 1;
        connection.last = Some(LastHandOff { job_id: self.parcel.job_id, generation: self.parcel.generation, accepted });
        let surplus = connection.dialogue.unread() && !heedless;
        let more = if surplus { connection.dialogue.whole_reply() } else { None };
        match verdict {
            // A refusal with an acceptance behind it refuses nothing for certain. The words of a server that leaves are no surplus.
            HandOff::NotAccepted(_) if surplus && more.is_none_or(|more| !matches!(more.digit(), 4 | 5)) => {
                HandOff::Unknown(*judge::doubt(judge::OUT_OF_STEP, "a refusal, and more replies behind it"))
            }
            verdict @ (HandOff::Accepted(_) | HandOff::NotAccepted(_)) => {
                if !surplus && reply.code != 421 {
                    self.lease.give_back();
                }
                verdict
            }
            verdict @ HandOff::Unknown(_) => verdict,
        }
    }

    fn not_handed_off(self, outcome: Outcome) -> HandOff {
        self.lease.discard();
        HandOff::NotAccepted(outcome)
    }

    fn set_up(&self) -> &SetUp {
        self.lease.set_up()
    }
}

/// Proven not handed off, by our own decision.
fn stopped(why: &str) -> Box<Outcome> {
    judge::own(OutcomeClass::Transient, Stage::Content, "stopped-at-last-look", why)
}

/// What ended the content early: the server's words, where it had any.
async fn early(dialogue: &mut Dialogue, broken: Broken) -> Box<Outcome> {
    match dialogue.reason().await {
        Some(reply) if matches!(reply.digit(), 4 | 5) => judge::refused(Stage::Content, &reply),
        Some(_) => judge::out_of_step(Stage::Content),
        None => judge::broken(Stage::Content, broken),
    }
}

fn acceptance(reply: &Reply) -> Acceptance {
    let said = reply.text();
    let mut text = redact(&said);
    text.truncate(text.floor_char_boundary(RECEIPT_TEXT_BYTES_MAX));
    Acceptance { code: reply.code, text, queue_id: queue_id(&said) }
}

fn verdict_of(outcome: Outcome) -> HandOff {
    if outcome.class == OutcomeClass::Ambiguous { HandOff::Unknown(outcome) } else { HandOff::NotAccepted(outcome) }
}
