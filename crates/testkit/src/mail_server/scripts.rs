//! Ready-made scripts.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::script::{Action, Event, Script, Stage};
use crate::faults::Dice;

/// A server that does everything right.
pub fn obedient() -> impl Script {
    |_: &Event<'_>| Action::Default
}

/// The first of these scripts that does more than the default decides. All of them are asked up to that one.
pub fn first_of(scripts: Vec<Box<dyn Script>>) -> impl Script {
    move |event: &Event<'_>| scripts.iter().map(|script| script.act(event)).find(|action| *action != Action::Default).unwrap_or(Action::Default)
}

/// One action, each time the dialogue comes to one stage.
pub fn always_at(stage: Stage, action: Action) -> impl Script {
    move |event: &Event<'_>| if event.stage == stage { action.clone() } else { Action::Default }
}

/// One action, the first `times` times any connection comes to one stage.
pub fn first_times_at(stage: Stage, times: u32, action: Action) -> impl Script {
    let left = Mutex::new(times);
    move |event: &Event<'_>| {
        if event.stage != stage {
            return Action::Default;
        }
        let mut left = left.lock().expect("no script panics while it counts");
        if *left == 0 {
            return Action::Default;
        }
        *left -= 1;
        action.clone()
    }
}

/// This reply to the first `times` RCPTs of each recipient.
pub fn fail_first_rcpt(times: u32, reply: &str) -> impl Script {
    let reply = Action::reply(reply);
    move |event: &Event<'_>| if event.stage == Stage::Rcpt && event.attempt <= times { reply.clone() } else { Action::Default }
}

/// This reply to every RCPT of one recipient.
pub fn refuse_recipient(address: &str, reply: &str) -> impl Script {
    let (address, reply) = (address.to_owned(), Action::reply(reply));
    move |event: &Event<'_>| if event.stage == Stage::Rcpt && event.recipient == Some(&address) { reply.clone() } else { Action::Default }
}

/// Greets with 421 while more than `most` connections are open.
pub fn connection_limit(most: usize) -> impl Script {
    move |event: &Event<'_>| {
        let over = event.stage == Stage::Greeting && event.open_connections > most;
        if over { Action::reply("421 4.7.0 Too many connections, try again later") } else { Action::Default }
    }
}

/// Answers MAIL with 450 once `most` were let through within one `window`.
pub fn rate_limit(most: u32, window: Duration) -> impl Script {
    let spent = Mutex::new((Instant::now(), 0));
    move |event: &Event<'_>| {
        if event.stage != Stage::Mail {
            return Action::Default;
        }
        let mut spent = spent.lock().expect("no script panics while it counts");
        if spent.0.elapsed() >= window {
            *spent = (Instant::now(), 0);
        }
        if spent.1 >= most {
            return Action::reply("450 4.2.1 Too many messages, slow down");
        }
        spent.1 += 1;
        Action::Default
    }
}

/// Opens TLS and slips a reply in plaintext behind the 220, as in CVE-2011-0411: a client that keeps it reads it as the answer to its next command.
pub fn starttls_injection(injected: &str) -> impl Script {
    always_at(Stage::StartTls, Action::lines(&["220 2.0.0 Ready to start TLS", injected]))
}

/// Random faults that repeat with their seed. Percentages are of the attempts at that stage; what isn't hit is the default.
#[derive(Debug, Clone)]
pub struct Faults {
    /// Decides everything; printed by `new`.
    pub seed: u64,
    /// 451 at RCPT, by recipient and attempt.
    pub transient_pct: f64,
    /// 550 5.1.1 at RCPT, by recipient: the same at each attempt.
    pub permanent_pct: f64,
    /// RST at MAIL, by connection and transaction.
    pub reset_pct: f64,
    /// 451 after the end marker, by job and attempt: not accepted.
    pub refused_content_pct: f64,
    /// Accepted, then RST instead of the reply, by job and attempt.
    pub lost_reply_pct: f64,
    /// Accepted, then 421 and FIN, by job and attempt: the next user of that connection meets a dead one.
    pub close_idle_pct: f64,
    /// Transient faults of one recipient end after this many attempts, so that retries come to an end.
    pub transient_attempts_max: u32,
}

impl Faults {
    /// No faults yet, of this seed. Prints the seed.
    pub fn new(seed: u64) -> Self {
        eprintln!("faults: seed {seed}");
        Self {
            seed,
            transient_pct: 0.0,
            permanent_pct: 0.0,
            reset_pct: 0.0,
            refused_content_pct: 0.0,
            lost_reply_pct: 0.0,
            close_idle_pct: 0.0,
            transient_attempts_max: 2,
        }
    }

    fn at_rcpt(&self, dice: Dice, event: &Event<'_>) -> Action {
        let subject = event.recipient.unwrap_or_default().as_bytes();
        if dice.happens(self.permanent_pct, "permanent", subject, 0) {
            return Action::reply("550 5.1.1 No such user here");
        }
        if event.attempt <= self.transient_attempts_max && dice.happens(self.transient_pct, "transient", subject, event.attempt) {
            return Action::reply("451 4.3.0 Mailbox busy, try again later");
        }
        Action::Default
    }

    fn at_dot(&self, dice: Dice, event: &Event<'_>) -> Action {
        let subject = event.job.or(event.recipient).unwrap_or_default().as_bytes();
        let happens = |percent, label| dice.happens(percent, label, subject, event.attempt);
        if event.attempt <= self.transient_attempts_max && happens(self.refused_content_pct, "refused content") {
            return Action::reply("451 4.3.2 System not accepting messages now");
        }
        if happens(self.lost_reply_pct, "lost reply") {
            return Action::AcceptThenReset;
        }
        if happens(self.close_idle_pct, "close idle") {
            return Action::CloseIdle(b"421 4.4.2 Idle for too long, closing\r\n".to_vec());
        }
        Action::Default
    }
}

impl Script for Faults {
    fn act(&self, event: &Event<'_>) -> Action {
        let dice = Dice::new(self.seed);
        match event.stage {
            Stage::Rcpt => self.at_rcpt(dice, event),
            Stage::Dot => self.at_dot(dice, event),
            Stage::Mail if dice.happens(self.reset_pct, "reset", &event.connection.to_be_bytes(), event.message) => Action::Reset,
            Stage::Connect
            | Stage::Greeting
            | Stage::Ehlo
            | Stage::StartTls
            | Stage::TlsHandshake
            | Stage::Auth
            | Stage::Mail
            | Stage::Data
            | Stage::Content
            | Stage::Noop
            | Stage::Rset
            | Stage::Quit
            | Stage::Other => Action::Default,
        }
    }
}

/// An action for each of some recipients, whatever their attempt; the rest get the default.
pub fn by_recipient(stage: Stage, actions: HashMap<String, Action>) -> impl Script {
    move |event: &Event<'_>| match event.recipient {
        Some(recipient) if event.stage == stage => actions.get(recipient).cloned().unwrap_or(Action::Default),
        Some(_) | None => Action::Default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stage: Stage, recipient: &str, attempt: u32) -> Event<'_> {
        Event {
            stage,
            connection: 1,
            message: 1,
            open_connections: 1,
            command: "",
            sender: None,
            recipient: Some(recipient),
            job: None,
            message_id: None,
            idempotency_key: None,
            attempt,
        }
    }

    #[test]
    fn the_first_attempts_of_each_recipient_fail_and_later_ones_pass() {
        let script = fail_first_rcpt(1, "451 4.7.1 later");
        assert_eq!(script.act(&event(Stage::Rcpt, "a", 1)), Action::reply("451 4.7.1 later"));
        assert_eq!(script.act(&event(Stage::Rcpt, "a", 2)), Action::Default);
        assert_eq!(script.act(&event(Stage::Mail, "a", 1)), Action::Default);
    }

    #[test]
    fn a_refused_recipient_is_refused_alone_and_joined_scripts_keep_their_order() {
        let script = first_of(vec![Box::new(refuse_recipient("a", "550 5.1.1 no")), Box::new(fail_first_rcpt(9, "451 4.7.1 later"))]);
        assert_eq!(script.act(&event(Stage::Rcpt, "a", 1)), Action::reply("550 5.1.1 no"));
        assert_eq!(script.act(&event(Stage::Rcpt, "b", 1)), Action::reply("451 4.7.1 later"));
    }

    #[test]
    fn a_rate_limit_lets_its_number_through_and_no_more() {
        let script = rate_limit(2, Duration::from_secs(3_600));
        let actions: Vec<_> = (0..3).map(|_| script.act(&event(Stage::Mail, "a", 1))).collect();
        assert_eq!(actions[..2], [Action::Default, Action::Default]);
        assert_eq!(actions[2].first_digit(b""), b'4');
    }

    #[test]
    fn faults_repeat_with_their_seed_and_transient_ones_come_to_an_end() {
        let mut faults = Faults::new(1);
        faults.transient_pct = 100.0;
        faults.lost_reply_pct = 50.0;
        let throw = |faults: &Faults| (0..50).map(|n| faults.act(&event(Stage::Dot, &n.to_string(), 1))).collect::<Vec<_>>();
        assert_eq!(throw(&faults), throw(&faults.clone()));
        assert_ne!(throw(&faults), throw(&Faults { seed: 2, ..faults.clone() }));
        assert_eq!(faults.act(&event(Stage::Rcpt, "a", 2)).first_digit(b""), b'4');
        assert_eq!(faults.act(&event(Stage::Rcpt, "a", 3)), Action::Default);
    }
}
