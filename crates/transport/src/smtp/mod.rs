//! SMTP by a driver of our own, over tokio and rustls.
//!
//! Promises, beside the port's
//! - S1  A connection is used again only after a whole reply that was in step; a dropped future or a panic destroys it.
//! - S2  No byte of the end marker leaves before the last look has said `Go`.
//! - S3  250, 251 and 252 end a handoff well; 4yz and 5yz refuse; anything else after the marker is in doubt.
//! - S4  Bytes that nobody asked for end the connection, and are read as nobody's verdict.
//! - S5  A pooled connection that turns out dead costs no attempt: the job goes on over a new one.
//!
//! Read `transaction.rs` and `hand_off.rs`, then `pool.rs`; `dialogue.rs` is what they talk through.

mod auth;
mod config;
mod connect;
mod content;
mod dial;
mod dialogue;
mod hand_off;
#[doc(hidden)]
pub mod judge;
mod pool;
#[doc(hidden)]
pub mod reply;
mod tls;
mod transaction;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::{Bounds, HandOffProgress, LOOK_MAX, OnDesync, Parcel, Prepared, Transport, TransportError};
pub use config::{CONNECTIONS_MAX, END_MAX, END_MIN, Keep, Login, Mechanism, PHASE_MAX, PHASE_MIN, Secret, SmtpConfig, Timeouts, TlsMode};
use connect::SetUp;
use content::Content;
pub use dial::{Dial, Stream, TcpDial};
use hand_off::Transaction;
pub use pool::POOL_FULL;
use pool::{Lease, Pool, Used, Wanted};
use transaction::{After, Failed};

/// Replies before the content in the longest dialogue: greeting, EHLO, STARTTLS, EHLO, three of AUTH, RSET, MAIL, RCPT, DATA, the end of an
/// empty message.
const REPLIES_MAX: u32 = 12;
/// Replies over a pooled connection before it turns out dead or out of step: RSET, MAIL, RCPT, DATA, and the write before them.
const REPLIES_OF_DEAD_MAX: u32 = 5;
/// What reading the reasons of failed writes may add.
const REASONS_MAX: Duration = Duration::from_secs(3);

/// A relay, with its pool of connections.
pub struct SmtpTransport {
    pool: Arc<Pool>,
}

impl SmtpTransport {
    /// A transport of a checked configuration. Connects to nothing yet.
    ///
    /// # Errors
    /// `Config` for a value out of its bounds, `File` for a `ca_file` that can't be used.
    pub fn new(config: SmtpConfig, on_desync: Option<OnDesync>) -> Result<Self, TransportError> {
        config.check()?;
        Self::with_any_timeouts(config, on_desync)
    }

    /// The same without the timeouts' bounds, for tests that can't wait a minute for a silence.
    ///
    /// # Errors
    /// As `new`, but for the timeouts.
    pub fn with_any_timeouts(config: SmtpConfig, on_desync: Option<OnDesync>) -> Result<Self, TransportError> {
        Self::with_dial(config, on_desync, Arc::new(TcpDial))
    }

    /// The same over streams that somebody else makes: a simulated network.
    ///
    /// # Errors
    /// As `with_any_timeouts`.
    pub fn with_dial(config: SmtpConfig, on_desync: Option<OnDesync>, dial: Arc<dyn Dial>) -> Result<Self, TransportError> {
        config.check_names()?;
        Ok(Self { pool: Pool::new(SetUp::of(config, dial)?, on_desync) })
    }

    /// One transaction up to its 354, over an idle connection or a new one. A pooled one that was dead is replaced once.
    async fn open(&self, parcel: &Parcel, content: &Content, deadline: Instant) -> Result<Lease, Box<Outcome>> {
        let mut permit = self.pool.permit(deadline).await?;
        let mut wanted = Wanted::Any;
        loop {
            let (mut lease, used) = self.pool.check_out(permit, wanted, deadline).await?;
            let opened = transaction::open(lease.connection(), self.pool.set_up(), parcel, content, deadline).await;
            let Err(Failed { outcome, connection }) = opened else { return Ok(lease) };
            permit = match self.after(lease, connection, used) {
                Some(permit) => permit,
                None => return Err(outcome),
            };
            wanted = Wanted::Fresh;
        }
    }

    /// What a failed transaction leaves; a permit where the job may go on over a new connection.
    fn after(&self, mut lease: Lease, connection: After, used: Used) -> Option<OwnedSemaphorePermit> {
        match (connection, used) {
            (After::Clean, _) => {
                lease.give_back();
                None
            }
            (After::Broken, _) | (After::Stale, Used::Fresh) => None,
            (After::OutOfStep, Used::Fresh) => None,
            (After::Stale, Used::Before) => {
                self.pool.forget_older_than(Instant::now());
                lease.replace()
            }
            (After::OutOfStep, Used::Before) => {
                self.pool.report(lease.connection(), judge::OUT_OF_STEP);
                lease.replace()
            }
        }
    }

    fn content(parcel: &Parcel) -> Result<Content, Box<Outcome>> {
        let refused = |stage, rule, why| judge::own(OutcomeClass::Permanent, stage, rule, why);
        let injects = |text: &str| text.bytes().any(|b| b.is_ascii_control()) || (text.contains(['<', '>']) && !text.contains('"'));
        if injects(&parcel.from) || injects(&parcel.to) || parcel.to.is_empty() {
            return Err(refused(Stage::Mail, "address-malformed", "an envelope address holds what no address holds"));
        }
        Content::of(&parcel.bytes).map_err(|_bare| refused(Stage::Content, "bare-newline", "the message holds a CR or LF by itself"))
    }
}

#[async_trait]
impl Transport for SmtpTransport {
    async fn prepare(&self, parcel: &Parcel, bounds: &Bounds) -> Result<Box<dyn Prepared>, Outcome> {
        let content = Self::content(parcel).map_err(|outcome| *outcome)?;
        let lease = self.open(parcel, &content, bounds.deadline).await.map_err(|outcome| *outcome)?;
        let progress = HandOffProgress::default();
        Ok(Box::new(Transaction { lease, content, parcel: parcel.clone(), deadline: bounds.deadline, progress }))
    }

    async fn probe(&self) -> Result<(), Outcome> {
        let deadline = Instant::now() + self.attempt_max();
        let permit = self.pool.permit(deadline).await.map_err(|outcome| *outcome)?;
        let (lease, _fresh) = self.pool.check_out(permit, Wanted::Fresh, deadline).await.map_err(|outcome| *outcome)?;
        lease.give_back();
        Ok(())
    }

    fn max_connections(&self) -> usize {
        self.pool.set_up().config.max_connections
    }

    fn attempt_max(&self) -> Duration {
        let t = &self.pool.set_up().config.timeouts;
        let prepare = 2 * t.connect + t.noop + 2 * t.tls + (REPLIES_MAX + REPLIES_OF_DEAD_MAX) * t.reply;
        prepare + 2 * t.block + LOOK_MAX + t.end + REASONS_MAX
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}
