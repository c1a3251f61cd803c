//! AUTH (RFC 4954): PLAIN, LOGIN, XOAUTH2.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use tokio::time::Instant;

use super::config::{Login, Mechanism};
use super::connect::Offered;
use super::dialogue::Dialogue;
use super::judge;
use super::reply::Reply;
use crate::classify::Event;

/// Logs in. `until` gives the end of each next reply.
pub(super) async fn log_in(dialogue: &mut Dialogue, login: &Login, offered: &Offered, until: impl Fn() -> Instant) -> Result<(), Box<Outcome>> {
    if !dialogue.wire().encrypted() && !dialogue.wire().loopback() {
        return Err(judge::own(OutcomeClass::Configuration, Stage::Auth, "auth-without-tls", "the password is not sent without TLS"));
    }
    if !offered.mechanisms.iter().any(|word| word == login.mechanism.word()) {
        return Err(judge::met(Stage::Auth, Event::MechanismMissing));
    }
    let (user, password) = (login.user.as_str(), login.password.expose());
    let mut reply = match login.mechanism {
        Mechanism::Plain => {
            let answer = STANDARD.encode(format!("\0{user}\0{password}"));
            ask(dialogue, &format!("AUTH PLAIN {answer}\r\n"), until()).await?
        }
        Mechanism::Login => {
            let mut reply = ask(dialogue, "AUTH LOGIN\r\n", until()).await?;
            for answer in [user, password] {
                if reply.code != 334 {
                    break;
                }
                reply = ask(dialogue, &format!("{}\r\n", STANDARD.encode(answer)), until()).await?;
            }
            reply
        }
        Mechanism::XOAuth2 => {
            let answer = STANDARD.encode(format!("user={user}\u{1}auth=Bearer {password}\u{1}\u{1}"));
            ask(dialogue, &format!("AUTH XOAUTH2 {answer}\r\n"), until()).await?
        }
    };
    if reply.code == 334 && login.mechanism == Mechanism::XOAuth2 {
        // The challenge holds the error; an empty answer asks for the reply that ends the exchange.
        reply = ask(dialogue, "\r\n", until()).await?;
    }
    match reply.digit() {
        2 => Ok(()),
        4 | 5 => Err(judge::refused(Stage::Auth, &reply)),
        _challenge => {
            Err(judge::own(OutcomeClass::Configuration, Stage::Auth, "auth-challenge", "the server wants more answers than the mechanism has"))
        }
    }
}

async fn ask(dialogue: &mut Dialogue, line: &str, until: Instant) -> Result<Reply, Box<Outcome>> {
    let spoken = dialogue.say(line.as_bytes(), until).await;
    spoken.map_err(|broken| judge::broken(Stage::Auth, broken))?;
    dialogue.reply(until).await.map_err(|broken| judge::broken(Stage::Auth, broken))
}
