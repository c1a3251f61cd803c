//! The built-in mail server: 451 at RCPT once for eight jobs, 550 for one, obedient to the rest.

use curfew_testkit::mail_server::{Action, Config, Event, MailServer, Stage};

use super::Provider;

/// The local part of the address that the server refuses.
pub const REFUSED: &str = "refused";
/// The local parts of the addresses that meet a 451 once.
pub const SOFT: &str = "soft";

/// Starts it on a free port of this machine.
pub async fn start(provider: Provider) -> MailServer {
    let config = Config { idempotent: provider == Provider::KnowsKeys, ..Config::scripted(script) };
    MailServer::start(config).await
}

fn script(event: &Event<'_>) -> Action {
    let to = event.recipient.unwrap_or_default();
    match event.stage {
        Stage::Rcpt if to.starts_with(REFUSED) => Action::reply("550 5.1.1 no such user here"),
        Stage::Rcpt if to.starts_with(SOFT) && event.attempt == 1 => Action::reply("451 4.7.1 try again later"),
        _obedient => Action::Default,
    }
}
