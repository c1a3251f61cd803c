//! The commands outside a transaction, and the rules every command is held to.

use super::auth;
use super::config::Mechanism;
use super::envelope::Allowed;
use super::progress::What;
use super::script::Stage;
use super::session::{About, Greeted, Session};
use super::wire::Gone;
use super::{Extensions, Tls};

impl Session {
    /// Reads one command and obeys it.
    pub(super) async fn next_command(&mut self) -> Result<(), Gone> {
        if self.wire.buffered() > 0 && self.wire.unflushed() && !self.offered().pipelining {
            self.note(What::Violation("a command before the reply to the last one, without PIPELINING"));
        }
        let line = self.wire.line().await?;
        let crlf = line.ends_with(b"\r\n");
        let command = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        if !crlf {
            self.note(What::Violation("a command that ends in a bare LF"));
        }
        let (verb, arguments) = command.split_once(' ').unwrap_or((&command, ""));
        let verb = verb.to_ascii_uppercase();
        if self.unwelcome && verb != "QUIT" {
            return self.simple(Stage::Other, &command, (503, "5.5.1", "No service here")).await;
        }
        // RFC 2920 §3.1: these end a group, so nothing may stand behind them yet.
        if matches!(verb.as_str(), "EHLO" | "HELO" | "STARTTLS" | "AUTH" | "DATA" | "NOOP" | "QUIT") && self.wire.buffered() > 0 {
            self.note(What::Violation("input behind a command that must end its group"));
        }
        match verb.as_str() {
            "EHLO" => self.hello(&command, Greeted::Ehlo).await,
            "HELO" => self.hello(&command, Greeted::Helo).await,
            "STARTTLS" => self.start_tls(&command).await,
            "AUTH" => self.auth(arguments).await,
            "MAIL" => self.mail(&command, arguments).await,
            "RCPT" => self.rcpt(&command, arguments).await,
            "DATA" => self.data(&command).await,
            "NOOP" => self.simple(Stage::Noop, &command, (250, "2.0.0", "Ok")).await,
            "RSET" => {
                self.transaction = None;
                self.simple(Stage::Rset, &command, (250, "2.0.0", "Ok")).await
            }
            "QUIT" => {
                self.simple(Stage::Quit, &command, (221, "2.0.0", "Bye")).await?;
                self.wire.close().await;
                Err(Gone)
            }
            _ => self.simple(Stage::Other, &command, (500, "5.5.2", "Command not recognized")).await,
        }
    }

    /// What this client may use: nothing before EHLO.
    pub(super) fn offered(&self) -> Extensions {
        match self.greeted {
            Greeted::Ehlo => self.shared.config.extensions.clone(),
            Greeted::Not | Greeted::Helo => Extensions::none(),
        }
    }

    pub(super) fn allowed(&self) -> Allowed {
        let offered = self.offered();
        Allowed {
            size: offered.size,
            eight_bit_mime: offered.eight_bit_mime,
            smtp_utf8: offered.smtp_utf8,
            dsn: offered.dsn,
            auth: !offered.auth.is_empty(),
        }
    }

    /// A reply of one line, with its enhanced code where those are in force.
    pub(super) fn line(&self, (code, enhanced, text): (u16, &str, &str)) -> Vec<u8> {
        let enhanced_in_force = self.greeted == Greeted::Ehlo && self.shared.config.extensions.enhanced_status_codes;
        if enhanced_in_force { format!("{code} {enhanced} {text}\r\n") } else { format!("{code} {text}\r\n") }.into_bytes()
    }

    async fn simple(&mut self, stage: Stage, command: &str, reply: (u16, &str, &str)) -> Result<(), Gone> {
        let default = self.line(reply);
        self.step(stage, &About { command, ..About::default() }, &default).await?;
        Ok(())
    }

    async fn hello(&mut self, command: &str, greeted: Greeted) -> Result<(), Gone> {
        self.transaction = None;
        let default = match greeted {
            Greeted::Ehlo => self.ehlo_reply(),
            Greeted::Not | Greeted::Helo => format!("250 {}\r\n", self.shared.config.name).into_bytes(),
        };
        if self.step(Stage::Ehlo, &About { command, ..About::default() }, &default).await? == b'2' {
            self.greeted = greeted;
        }
        Ok(())
    }

    fn ehlo_reply(&self) -> Vec<u8> {
        let config = &self.shared.config;
        let offered = &config.extensions;
        let mut lines = vec![config.name.clone()];
        lines.extend(offered.pipelining.then(|| "PIPELINING".into()));
        lines.extend(offered.size.map(|size| if size == 0 { "SIZE".into() } else { format!("SIZE {size}") }));
        lines.extend((config.tls == Tls::StartTls && !self.wire.encrypted()).then(|| "STARTTLS".into()));
        if !offered.auth.is_empty() && (self.wire.encrypted() || !config.require_tls) {
            lines.push(format!("AUTH {}", offered.auth.iter().map(Mechanism::word).collect::<Vec<_>>().join(" ")));
        }
        lines.extend(offered.enhanced_status_codes.then(|| "ENHANCEDSTATUSCODES".into()));
        lines.extend(offered.eight_bit_mime.then(|| "8BITMIME".into()));
        lines.extend(offered.dsn.then(|| "DSN".into()));
        lines.extend(offered.smtp_utf8.then(|| "SMTPUTF8".into()));
        lines.extend(offered.others.iter().cloned());
        let last = lines.len() - 1;
        lines.iter().enumerate().map(|(at, line)| format!("250{}{line}\r\n", if at == last { ' ' } else { '-' })).collect::<String>().into_bytes()
    }

    async fn start_tls(&mut self, command: &str) -> Result<(), Gone> {
        let possible = self.shared.config.tls == Tls::StartTls && !self.wire.encrypted();
        let default = self.line(if possible { (220, "2.0.0", "Ready to start TLS") } else { (503, "5.5.1", "TLS is not possible here") });
        if self.wire.forget_input() {
            self.note(What::Violation("plaintext behind STARTTLS"));
        }
        let digit = self.step(Stage::StartTls, &About { command, ..About::default() }, &default).await?;
        if digit == b'2' && possible {
            self.shake_hands().await?;
            self.greeted = Greeted::Not;
            self.transaction = None;
            self.user = None;
        }
        Ok(())
    }

    pub(super) async fn shake_hands(&mut self) -> Result<(), Gone> {
        self.step(Stage::TlsHandshake, &About::default(), b"").await?;
        let config = self.shared.tls.clone().expect("a server with TLS has a certificate");
        self.wire.start_tls(config).await
    }

    async fn auth(&mut self, arguments: &str) -> Result<(), Gone> {
        let mechanism = arguments.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        let answer = if self.shared.config.require_tls && !self.wire.encrypted() {
            auth::Answer::Refused((538, "5.7.11", "Encryption required for authentication"))
        } else if self.user.is_some() || self.transaction.is_some() {
            auth::Answer::Refused((503, "5.5.1", "Not now"))
        } else {
            self.exchange(&mechanism, arguments).await?
        };
        let (reply, user) = match answer {
            auth::Answer::User(user) => ((235, "2.7.0", "Authentication successful"), Some(user)),
            auth::Answer::Refused(reply) => (reply, None),
        };
        let default = self.line(reply);
        // The secret stays out of what scripts see and print.
        let command = format!("AUTH {mechanism}");
        if self.step(Stage::Auth, &About { command: &command, ..About::default() }, &default).await? == b'2' {
            self.user = Some(user.unwrap_or_default());
        }
        Ok(())
    }
}
