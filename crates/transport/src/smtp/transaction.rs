//! MAIL, RCPT and DATA up to the 354: in one write where PIPELINING is offered, each reply read and judged on its own.
//!
//! DATA is where a dialogue that is out of step shows: its answer is 354 or a refusal, never 2yz. Until all replies of the group are read
//! and in step, none of them is believed.

use curfew_domain::outcome::{Outcome, Stage};
use tokio::time::Instant;

use super::connect::{Connection, SetUp};
use super::content::Content;
use super::dialogue::Broken;
use super::judge;
use super::reply::Reply;
use crate::Parcel;
use crate::classify::queue_id;

/// Why a transaction didn't come to its content, and what the connection is worth.
pub(super) struct Failed {
    pub(super) outcome: Box<Outcome>,
    pub(super) connection: After,
}

/// What a connection is worth after a transaction that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    /// In step, ready for the next.
    Clean,
    /// To be destroyed.
    Broken,
    /// To be destroyed, and it was dead before this job came: on a pooled connection the job has met nothing.
    Stale,
    /// The same, because replies were out of step.
    OutOfStep,
}

/// The commands of one transaction.
struct Commands {
    mail: String,
    rcpt: String,
}

/// Goes from MAIL to the 354.
pub(super) async fn open(connection: &mut Connection, set_up: &SetUp, parcel: &Parcel, content: &Content, deadline: Instant) -> Result<(), Failed> {
    let utf8 = parcel.needs_smtputf8 || !parcel.to.is_ascii() || !parcel.from.is_ascii();
    if let Some(outcome) = connection.offered.lacks(utf8, content.ascii, content.size) {
        return Err(Failed { outcome, connection: After::Clean });
    }
    let commands = Commands::of(connection, parcel, content, utf8);
    let opened = if connection.offered.pipelining {
        Group { connection, set_up, deadline, heard: false }.in_one_write(&commands).await
    } else {
        Group { connection, set_up, deadline, heard: false }.one_by_one(&commands).await
    };
    connection.reset_due = opened.is_err();
    if opened.is_ok() && connection.dialogue.unread() && !set_up.config.reuses_dirty() {
        return Err(Failed { outcome: judge::out_of_step(Stage::Data), connection: After::OutOfStep });
    }
    opened
}

impl Commands {
    fn of(connection: &Connection, parcel: &Parcel, content: &Content, utf8: bool) -> Self {
        let offered = &connection.offered;
        let mut mail = format!("MAIL FROM:<{}>", parcel.from);
        let mut rcpt = format!("RCPT TO:<{}>", parcel.to);
        if offered.size.is_some() {
            mail += &format!(" SIZE={}", content.size);
        }
        if !content.ascii {
            mail += " BODY=8BITMIME";
        }
        if utf8 {
            mail += " SMTPUTF8";
        }
        if offered.dsn {
            // A bounce then names the job (RFC 3461); hyphens and hex digits need no xtext.
            mail += &format!(" RET=HDRS ENVID={}", parcel.job_id);
            rcpt += " NOTIFY=FAILURE,DELAY";
        }
        Self { mail: mail + "\r\n", rcpt: rcpt + "\r\n" }
    }
}

/// The commands that are under way on a connection.
struct Group<'a> {
    connection: &'a mut Connection,
    set_up: &'a SetUp,
    deadline: Instant,
    /// Whether any reply of this group has been read.
    heard: bool,
}

impl Group<'_> {
    async fn in_one_write(mut self, commands: &Commands) -> Result<(), Failed> {
        let reset_due = self.connection.reset_due;
        let reset = if reset_due { "RSET\r\n" } else { "" };
        self.say(Stage::Mail, &format!("{reset}{}{}DATA\r\n", commands.mail, commands.rcpt)).await?;
        if reset_due {
            self.reset().await?;
        }
        let mail = self.reply(Stage::Mail).await?;
        let refused_mail = self.refusal(Stage::Mail, &mail)?;
        let rcpt = self.rest_of(refused_mail.as_deref(), Stage::Rcpt).await?;
        let refused = match refused_mail {
            Some(refused) => Some(refused),
            None => self.refusal(Stage::Rcpt, &rcpt)?,
        };
        let data = self.rest_of(refused.as_deref(), Stage::Data).await?;
        self.in_step(&data)?;
        match (refused, data.code) {
            (None, 354) => Ok(()),
            (None, _late) if self.is_heedless(&data) => Ok(()),
            (None, _refusal) => Err(self.failed(judge::refused(Stage::Data, &data), &data)),
            (Some(outcome), 354) => Err(self.end_empty(outcome).await),
            (Some(outcome), _refusal) => Err(self.failed(outcome, &data)),
        }
    }

    async fn one_by_one(mut self, commands: &Commands) -> Result<(), Failed> {
        if self.connection.reset_due {
            self.say(Stage::Rset, "RSET\r\n").await?;
            self.reset().await?;
        }
        for (stage, line) in [(Stage::Mail, commands.mail.as_str()), (Stage::Rcpt, &commands.rcpt)] {
            self.say(stage, line).await?;
            let reply = self.reply(stage).await?;
            if let Some(outcome) = self.refusal(stage, &reply)? {
                return Err(self.failed(outcome, &reply));
            }
        }
        self.say(Stage::Data, "DATA\r\n").await?;
        let data = self.reply(Stage::Data).await?;
        self.in_step(&data)?;
        if data.code == 354 || self.is_heedless(&data) { Ok(()) } else { Err(self.failed(judge::refused(Stage::Data, &data), &data)) }
    }

    /// RSET says 250 and nothing of a queue, or the connection isn't what it seems; no attempt is used for that.
    async fn reset(&mut self) -> Result<(), Failed> {
        let reply = self.reply(Stage::Rset).await?;
        match reply.code {
            250 if queue_id(&reply.text()).is_none() => Ok(()),
            250 => Err(Failed { outcome: judge::out_of_step(Stage::Rset), connection: After::OutOfStep }),
            _other => Err(Failed { outcome: judge::out_of_step(Stage::Rset), connection: After::Stale }),
        }
    }

    /// The outcome of a reply to MAIL or RCPT that isn't a yes.
    fn refusal(&self, stage: Stage, reply: &Reply) -> Result<Option<Box<Outcome>>, Failed> {
        match reply.digit() {
            2 => Ok(None),
            3 if self.is_heedless(reply) => Ok(None),
            3 => Err(Failed { outcome: judge::out_of_step(stage), connection: After::OutOfStep }),
            _refusal if reply.code == 421 && stage == Stage::Mail => {
                // The server leaves. On a pooled connection that is about the connection, not about this job.
                Err(Failed { outcome: judge::refused(stage, reply), connection: After::Stale })
            }
            _refusal if reply.code == 421 => Err(Failed { outcome: judge::refused(stage, reply), connection: After::Broken }),
            _refusal => Ok(Some(judge::refused(stage, reply))),
        }
    }

    /// A further reply of the group. Where the job is refused already, a silence changes nothing but the connection's worth.
    async fn rest_of(&mut self, refused: Option<&Outcome>, stage: Stage) -> Result<Reply, Failed> {
        let reply = self.reply(stage).await;
        match (reply, refused) {
            (Ok(reply), _) => Ok(reply),
            (Err(failed), Some(outcome)) if failed.connection != After::OutOfStep => {
                Err(Failed { outcome: Box::new(outcome.clone()), connection: After::Broken })
            }
            (Err(failed), _) => Err(failed),
        }
    }

    /// Whether the planted bug takes this for a yes, whatever was asked.
    fn is_heedless(&self, reply: &Reply) -> bool {
        self.set_up.config.reuses_dirty() && matches!(reply.digit(), 2 | 3)
    }

    fn in_step(&self, data: &Reply) -> Result<(), Failed> {
        let in_step = data.code == 354 || matches!(data.digit(), 4 | 5) || self.is_heedless(data);
        if in_step { Ok(()) } else { Err(Failed { outcome: judge::out_of_step(Stage::Data), connection: After::OutOfStep }) }
    }

    /// The whole group is read. Bytes beyond it mean that the replies were shifted, and that the refusal may be another mail's.
    fn failed(&self, outcome: Box<Outcome>, last: &Reply) -> Failed {
        if self.connection.dialogue.unread() && last.code != 421 && !self.set_up.config.reuses_dirty() {
            return Failed { outcome: judge::out_of_step(outcome.stage), connection: After::OutOfStep };
        }
        let connection = if last.code == 421 { After::Broken } else { After::Clean };
        Failed { outcome, connection }
    }

    /// A 354 after a refused recipient: an empty message ends it (RFC 2920 §3.1), and whatever it gets is nobody's verdict.
    async fn end_empty(&mut self, outcome: Box<Outcome>) -> Failed {
        let until = self.set_up.until(self.set_up.config.timeouts.reply, self.deadline);
        let dialogue = &mut self.connection.dialogue;
        if dialogue.say(b".\r\n", until).await.is_err() {
            return Failed { outcome, connection: After::Broken };
        }
        match dialogue.reply(until).await {
            Ok(reply) if matches!(reply.digit(), 4 | 5) => self.failed(outcome, &reply),
            Ok(_) | Err(_) => Failed { outcome, connection: After::Broken },
        }
    }

    async fn say(&mut self, stage: Stage, lines: &str) -> Result<(), Failed> {
        let until = self.set_up.until(self.set_up.config.timeouts.reply, self.deadline);
        let said = self.connection.dialogue.say(lines.as_bytes(), until).await;
        match said {
            Ok(()) => Ok(()),
            // A server that has said 421 and left makes the write fail first; its last words still count.
            Err(Broken::Met(event)) => match self.connection.dialogue.reason().await {
                Some(reply) if matches!(reply.digit(), 4 | 5) => {
                    Err(Failed { outcome: judge::refused(stage, &reply), connection: if self.heard { After::Broken } else { After::Stale } })
                }
                Some(_) | None => Err(self.broken(stage, Broken::Met(event))),
            },
            Err(broken) => Err(self.broken(stage, broken)),
        }
    }

    async fn reply(&mut self, stage: Stage) -> Result<Reply, Failed> {
        let until = self.set_up.until(self.set_up.config.timeouts.reply, self.deadline);
        match self.connection.dialogue.reply(until).await {
            Ok(reply) => {
                self.heard = true;
                Ok(reply)
            }
            Err(broken) => Err(self.broken(stage, broken)),
        }
    }

    fn broken(&self, stage: Stage, broken: Broken) -> Failed {
        let connection = match broken {
            Broken::OutOfStep => After::OutOfStep,
            Broken::Met(_) if self.heard => After::Broken,
            Broken::Met(_) => After::Stale,
        };
        Failed { outcome: judge::broken(stage, broken), connection }
    }
}
