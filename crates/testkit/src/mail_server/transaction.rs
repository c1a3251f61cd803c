//! One mail transaction: MAIL, RCPT, DATA, the content and its end marker.

use super::content::Content;
use super::envelope::{self, Declared};
use super::log::{Accepted, Entered, Recipient};
use super::progress::What;
use super::script::{Action, Stage};
use super::session::{About, Greeted, Session};
use super::wire::Gone;

/// RFC 5321 §4.5.3.1.6: 1000 octets with CRLF.
const LINE_BYTES_MAX: usize = 1_000;

/// What MAIL and RCPT have said so far.
pub(super) struct Transaction {
    pub(super) sender: String,
    pub(super) mail_parameters: String,
    pub(super) declared: Declared,
    pub(super) recipients: Vec<Recipient>,
    /// Number of the last RCPT's attempt at this server.
    pub(super) attempt: u32,
}

/// The headers that tell whose message it is.
struct Names {
    job: Option<String>,
    message_id: Option<String>,
    idempotency_key: Option<String>,
}

impl Session {
    pub(super) async fn mail(&mut self, command: &str, arguments: &str) -> Result<(), Gone> {
        self.message += 1;
        let checked = self.may_mail().and_then(|()| {
            let path = envelope::path(arguments, "FROM:")?;
            let declared = envelope::check_mail(&path, self.allowed())?;
            Ok((path, declared))
        });
        let default = self.line(checked.as_ref().map_or_else(|refusal| *refusal, |_| (250, "2.1.0", "Ok")));
        let digit = self.step(Stage::Mail, &About { command, ..About::default() }, &default).await?;
        if digit == b'2'
            && let Ok((path, declared)) = checked
        {
            let (sender, mail_parameters) = (path.address, path.parameters);
            self.transaction = Some(Transaction { sender, mail_parameters, declared, recipients: Vec::new(), attempt: 0 });
        }
        Ok(())
    }

    fn may_mail(&self) -> Result<(), envelope::Refusal> {
        let config = &self.shared.config;
        if self.greeted == Greeted::Not {
            return Err((503, "5.5.1", "Say hello first"));
        }
        if config.require_tls && !self.wire.encrypted() {
            return Err((530, "5.7.0", "Must issue a STARTTLS command first"));
        }
        if config.require_auth && self.user.is_none() {
            return Err((530, "5.7.0", "Authentication required"));
        }
        if self.transaction.is_some() {
            return Err((503, "5.5.1", "Nested MAIL command"));
        }
        Ok(())
    }

    pub(super) async fn rcpt(&mut self, command: &str, arguments: &str) -> Result<(), Gone> {
        let checked = match &self.transaction {
            None => Err((503, "5.5.1", "Need MAIL first")),
            Some(transaction) => envelope::path(arguments, "TO:").and_then(|path| {
                envelope::check_rcpt(&path, self.allowed(), transaction.declared)?;
                Ok(path)
            }),
        };
        let recipient = checked.as_ref().ok().map(|path| path.address.as_str());
        let attempt = recipient.map(|recipient| self.shared.attempt("rcpt", recipient));
        let default = self.line(checked.as_ref().map_or_else(|refusal| *refusal, |_| (250, "2.1.5", "Ok")));
        let digit = self.step(Stage::Rcpt, &About { command, recipient, attempt, ..About::default() }, &default).await?;
        if let (Some(transaction), Ok(path)) = (&mut self.transaction, checked) {
            transaction.attempt = attempt.unwrap_or(0);
            if digit == b'2' {
                transaction.recipients.push(Recipient { address: path.address, parameters: path.parameters });
            }
        }
        Ok(())
    }

    pub(super) async fn data(&mut self, command: &str) -> Result<(), Gone> {
        let default = match &self.transaction {
            None => self.line((503, "5.5.1", "Need MAIL first")),
            Some(transaction) if transaction.recipients.is_empty() => self.line((554, "5.5.1", "No valid recipients")),
            Some(_) => b"354 End data with <CR><LF>.<CR><LF>\r\n".to_vec(),
        };
        if self.step(Stage::Data, &About { command, ..About::default() }, &default).await? != b'3' {
            return Ok(());
        }
        let content = match self.content().await {
            Ok(content) => content,
            Err(Gone) => {
                self.note(What::CutOff);
                return Err(Gone);
            }
        };
        self.dot(content).await
    }

    async fn content(&mut self) -> Result<Content, Gone> {
        let mut content = Content::new(self.shared.config.keep);
        if self.wire.buffered() == 0 {
            self.wire.fill().await?;
        }
        let mut stop_after = match self.ask(Stage::Content, &About::default()).await? {
            Action::StopReading { after } => Some(after),
            other => {
                self.send(Stage::Content, other, b"").await?;
                None
            }
        };
        loop {
            if let Some(after) = stop_after
                && content.raw_bytes + self.wire.buffered() as u64 >= after
            {
                self.hold_unread(Stage::Content).await?;
                stop_after = None;
            }
            match self.wire.line_length() {
                Some(length) => {
                    if content.line(self.wire.take(length)) {
                        return Ok(content);
                    }
                }
                None => self.wire.fill().await?,
            }
        }
    }

    async fn dot(&mut self, content: Content) -> Result<(), Gone> {
        let transaction = self.transaction.take();
        self.note_violations(&content, transaction.as_ref());
        let headers = &self.shared.config.headers;
        let names = Names {
            job: content.header(&headers.job),
            message_id: content.header("Message-ID"),
            idempotency_key: content.header(&headers.idempotency_key),
        };
        let recipient = transaction.as_ref().and_then(|transaction| transaction.recipients.first()).map(|recipient| recipient.address.as_str());
        let about = About {
            command: ".",
            recipient,
            job: names.job.as_deref(),
            message_id: names.message_id.as_deref(),
            idempotency_key: names.idempotency_key.as_deref(),
            attempt: names.job.as_deref().or(recipient).map(|subject| self.shared.attempt("dot", subject)),
        };
        let action = self.ask(Stage::Dot, &about).await?;
        let limit = self.offered().size.filter(|limit| *limit > 0);
        let mut default = match &transaction {
            None => self.line((503, "5.5.1", "Need MAIL first")),
            Some(transaction) if transaction.recipients.is_empty() => self.line((554, "5.5.1", "No valid recipients")),
            Some(_) if limit.is_some_and(|limit| content.size > limit) => self.line((552, "5.3.4", "Message size exceeds fixed limit")),
            Some(_) => self.line((250, "2.0.0", &format!("Ok: queued as {:X}M{:X}", self.connection, self.message))),
        };
        if action.first_digit(&default) == b'2'
            && let Some(transaction) = transaction.filter(|transaction| !transaction.recipients.is_empty())
            && let Some(other) = self.enter(transaction, content, names)
        {
            default = other;
        }
        self.send(Stage::Dot, action, &default).await
    }

    /// Enters the message into the log; returns the reply if it must be another than "queued".
    fn enter(&mut self, transaction: Transaction, content: Content, names: Names) -> Option<Vec<u8>> {
        let everything = self.shared.config.keep == super::Keep::Everything;
        let message = Accepted {
            number: 0,
            at: (self.shared.config.clock)(),
            connection: self.connection,
            message: self.message,
            encrypted: self.wire.encrypted(),
            user: self.user.clone(),
            sender: transaction.sender,
            mail_parameters: transaction.mail_parameters,
            recipients: transaction.recipients,
            job: names.job,
            message_id: names.message_id,
            idempotency_key: names.idempotency_key,
            size: content.size,
            content: if everything { content.bytes } else { Vec::new() },
        };
        let entered = self.shared.log.lock().expect("nobody panics while logging").enter(message);
        match entered {
            Ok(Entered::Accepted(number)) => {
                self.note(What::Accepted(number));
                None
            }
            Ok(Entered::Duplicate) => {
                self.note(What::Duplicate);
                Some(self.line((250, "2.0.0", "Ok: known already")))
            }
            Err(_) => Some(self.line((451, "4.3.0", "The log cannot be written"))),
        }
    }

    fn note_violations(&self, content: &Content, transaction: Option<&Transaction>) {
        if content.bare_newline {
            self.note(What::Violation("a bare LF in the content"));
        }
        if content.longest_line > LINE_BYTES_MAX {
            self.note(What::Violation("a content line over 998 bytes"));
        }
        let Some(transaction) = transaction else {
            return;
        };
        if content.eight_bit && !transaction.declared.eight_bit && !transaction.declared.utf8 {
            self.note(What::Violation("an 8-bit content that MAIL didn't declare"));
        }
        if content.size > 0 && transaction.recipients.is_empty() {
            self.note(What::Violation("a content for nobody"));
        }
    }
}
