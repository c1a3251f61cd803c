//! From a host's name to a dialogue that is ready for mail: a stream, TLS, EHLO, AUTH.

use std::sync::Arc;
use std::time::Duration;

use curfew_domain::JobId;
use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use tokio::time::Instant;

use super::auth;
use super::config::{SmtpConfig, TlsMode};
use super::dial::Dial;
use super::dialogue::Dialogue;
use super::judge;
use super::reply::Reply;
use super::tls::Tls;
use super::wire::Wire;
use crate::TransportError;
use crate::classify::Event;

/// What a transport is set up with, read and checked.
pub(super) struct SetUp {
    pub(super) config: SmtpConfig,
    tls: Option<Tls>,
    dial: Arc<dyn Dial>,
}

/// What EHLO offered.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Offered {
    pub(super) pipelining: bool,
    /// The largest message, 0 for "no fixed limit"; `None` where SIZE isn't offered.
    pub(super) size: Option<usize>,
    pub(super) eight_bit: bool,
    pub(super) utf8: bool,
    pub(super) dsn: bool,
    pub(super) starttls: bool,
    /// In upper case.
    pub(super) mechanisms: Vec<String>,
}

/// A connection that is ready for mail. It is moved into whoever uses it, so that a dropped future destroys it.
pub(super) struct Connection {
    pub(super) dialogue: Dialogue,
    pub(super) offered: Offered,
    /// Transactions so far.
    pub(super) transactions: u32,
    /// A refused transaction stands open; RSET goes before the next one.
    pub(super) reset_due: bool,
    /// The last handoff on it.
    pub(super) last: Option<LastHandOff>,
}

/// Whose verdict was the last one read on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LastHandOff {
    pub(super) job_id: JobId,
    pub(super) generation: u32,
    pub(super) accepted: bool,
}

impl SetUp {
    pub(super) fn of(config: SmtpConfig, dial: Arc<dyn Dial>) -> Result<Self, TransportError> {
        let tls = Tls::of(&config)?;
        Ok(Self { config, tls, dial })
    }

    /// The end of a phase that begins now.
    pub(super) fn until(&self, phase: Duration, deadline: Instant) -> Instant {
        (Instant::now() + phase).min(deadline)
    }

    /// Connects, as far as the login.
    pub(super) async fn connect(&self, deadline: Instant) -> Result<Connection, Box<Outcome>> {
        let config = &self.config;
        let reply_end = || self.until(config.timeouts.reply, deadline);
        let until = self.until(config.timeouts.connect, deadline);
        let stream = self.dial.dial(&config.host, config.port, until).await.map_err(|event| judge::met(Stage::Connect, event))?;
        let wire = match &self.tls {
            Some(tls) if config.tls == TlsMode::Implicit => tls.shake_hands(stream, self.until(config.timeouts.tls, deadline)).await?,
            Some(_) | None => Wire::Plain(stream),
        };
        let mut dialogue = Dialogue::new(wire, config.reuses_dirty());
        greeting(&mut dialogue, reply_end()).await?;
        let mut offered = self.hello(&mut dialogue, reply_end()).await?;
        if let Some(tls) = &self.tls
            && !dialogue.wire().encrypted()
            && self.wants_starttls(&offered)?
        {
            match self.starttls(&mut dialogue, reply_end()).await? {
                Upgrade::Ready => {
                    let wire = upgraded(dialogue, tls, self.until(config.timeouts.tls, deadline)).await?;
                    dialogue = Dialogue::new(wire, config.reuses_dirty());
                    // What was offered in plaintext may have been forged (RFC 3207 §4.2).
                    offered = self.hello(&mut dialogue, reply_end()).await?;
                }
                Upgrade::Declined => {}
            }
        }
        if let Some(login) = &config.auth {
            auth::log_in(&mut dialogue, login, &offered, reply_end).await?;
        }
        Ok(Connection { dialogue, offered, transactions: 0, reset_due: false, last: None })
    }

    async fn hello(&self, dialogue: &mut Dialogue, until: Instant) -> Result<Offered, Box<Outcome>> {
        let line = format!("EHLO {}\r\n", self.config.hello);
        let reply = ask(dialogue, Stage::Ehlo, line.as_bytes(), until).await?;
        if reply.digit() == 2 { Ok(Offered::read(&reply)) } else { Err(judge::refused(Stage::Ehlo, &reply)) }
    }

    fn wants_starttls(&self, offered: &Offered) -> Result<bool, Box<Outcome>> {
        match self.config.tls {
            TlsMode::Required if !offered.starttls => Err(judge::met(Stage::Ehlo, Event::StarttlsMissing)),
            TlsMode::Required => Ok(true),
            TlsMode::Opportunistic => Ok(offered.starttls),
            TlsMode::Implicit | TlsMode::None => Ok(false),
        }
    }

    async fn starttls(&self, dialogue: &mut Dialogue, until: Instant) -> Result<Upgrade, Box<Outcome>> {
        let reply = ask(dialogue, Stage::Starttls, b"STARTTLS\r\n", until).await?;
        let declined = matches!(reply.digit(), 4 | 5) && reply.code != 421;
        match reply.code {
            220 => Ok(Upgrade::Ready),
            _refusal if declined && self.config.tls == TlsMode::Opportunistic => Ok(Upgrade::Declined),
            _refusal => Err(judge::refused(Stage::Starttls, &reply)),
        }
    }
}

/// What became of STARTTLS.
enum Upgrade {
    Ready,
    /// The server offers it and can't: opportunistic transports go on without.
    Declined,
}

async fn greeting(dialogue: &mut Dialogue, until: Instant) -> Result<(), Box<Outcome>> {
    match dialogue.reply(until).await {
        Ok(reply) if reply.digit() == 2 => Ok(()),
        Ok(reply) => Err(judge::refused(Stage::Greeting, &reply)),
        Err(super::dialogue::Broken::Met(Event::IncompleteReply)) if !dialogue.may_become_reply() => Err(judge::met(Stage::Greeting, Event::NotSmtp)),
        Err(broken) => Err(judge::broken(Stage::Greeting, broken)),
    }
}

/// The handshake after STARTTLS. Whatever stands behind the 220 was said in plaintext, perhaps by somebody else (CVE-2011-0411).
async fn upgraded(mut dialogue: Dialogue, tls: &Tls, until: Instant) -> Result<Wire, Box<Outcome>> {
    if dialogue.unasked().await == super::dialogue::Unasked::Words {
        return Err(judge::met(Stage::Starttls, Event::TlsInjection));
    }
    match dialogue.into_wire() {
        Wire::Plain(stream) => tls.shake_hands(stream, until).await,
        already @ Wire::Tls(_) => Ok(already),
    }
}

async fn ask(dialogue: &mut Dialogue, stage: Stage, line: &[u8], until: Instant) -> Result<Reply, Box<Outcome>> {
    dialogue.say(line, until).await.map_err(|broken| judge::broken(stage, broken))?;
    dialogue.reply(until).await.map_err(|broken| judge::broken(stage, broken))
}

impl Offered {
    /// Reads an EHLO reply; words are compared without case (RFC 5321 §4.1.1.1), what isn't known is nothing.
    fn read(reply: &Reply) -> Self {
        let mut offered = Self::default();
        for line in reply.lines.iter().skip(1) {
            let line = String::from_utf8_lossy(line).to_ascii_uppercase();
            let mut words = line.split([' ', '=']).filter(|word| !word.is_empty());
            match words.next() {
                Some("PIPELINING") => offered.pipelining = true,
                Some("SIZE") => offered.size = Some(words.next().and_then(|limit| limit.parse().ok()).unwrap_or(0)),
                Some("8BITMIME") => offered.eight_bit = true,
                Some("SMTPUTF8") => offered.utf8 = true,
                Some("DSN") => offered.dsn = true,
                Some("STARTTLS") => offered.starttls = true,
                // `AUTH=LOGIN` is an old form that some servers still send beside the right one.
                Some("AUTH") => offered.mechanisms.extend(words.map(str::to_owned)),
                Some(_) | None => {}
            }
        }
        offered
    }

    /// Why a message can't be sent over this connection, and never could: the missing capability's rule and words.
    pub(super) fn lacks(&self, utf8: bool, ascii: bool, size: usize) -> Option<Box<Outcome>> {
        let permanent = |rule, why| Some(judge::own(OutcomeClass::Permanent, Stage::Mail, rule, why));
        if utf8 && !self.utf8 {
            return permanent("smtputf8-missing", "the server does not offer SMTPUTF8, which this recipient or message needs");
        }
        if !ascii && !self.eight_bit {
            return permanent("8bitmime-missing", "the server does not offer 8BITMIME, which this message needs");
        }
        match self.size {
            Some(limit) if limit > 0 && size > limit => permanent("size-exceeded", "the message is larger than the server's SIZE"),
            Some(_) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Offered {
        Offered::read(&Reply { code: 250, lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect() })
    }

    #[test]
    fn words_of_ehlo_are_read_without_case_and_the_first_line_is_a_name() {
        let offered = read(&["PIPELINING", "size 1000", "Smtputf8", "8BITMIME", "auth plain XOAUTH2", "AUTH=LOGIN", "DSN", "STARTTLS", "CHUNKING"]);
        assert!(!offered.pipelining && offered.utf8 && offered.eight_bit && offered.dsn && offered.starttls);
        assert_eq!((offered.size, offered.mechanisms), (Some(1000), vec!["PLAIN".to_owned(), "XOAUTH2".into(), "LOGIN".into()]));
        assert_eq!(read(&["relay.example"]), Offered::default());
    }

    #[test]
    fn a_missing_capability_is_named() {
        let rule = |offered: &Offered, utf8, ascii, size| offered.lacks(utf8, ascii, size).map(|outcome| outcome.rule);
        let plain = read(&["relay.example", "SIZE 10"]);
        assert_eq!(rule(&plain, true, true, 1), Some("smtputf8-missing"));
        assert_eq!(rule(&plain, false, false, 1), Some("8bitmime-missing"));
        assert_eq!(rule(&plain, false, true, 11), Some("size-exceeded"));
        assert_eq!(rule(&plain, false, true, 10), None);
        assert_eq!(rule(&read(&["relay.example", "SIZE"]), false, true, 1 << 30), None);
    }
}
