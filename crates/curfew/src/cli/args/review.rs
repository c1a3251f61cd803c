//! `review …` as it can be typed.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use curfew_domain::Reason;

/// `curfew review …`.
#[derive(Subcommand, Debug)]
pub enum ReviewVerb {
    /// Items, newest first
    #[command(after_help = "Example:\n  curfew review list --reason reconciliation_required")]
    List(ReviewList),
    /// One item, whole
    Show(Item),
    /// What would be sent; shows the content, and the audit trail says that you looked
    Preview(Item),
    /// Send again, as a new generation with a new deadline
    #[command(after_help = "A replay of an item in doubt may send twice: it needs --accept-duplicate-risk, and 15 minutes of rest.\n\n\
        Example:\n  curfew review replay 01936f… --deadline +2h --reason \"mailbox fixed\"")]
    Replay(Replay),
    /// Mend recipient, parameters or an artifact: a new content revision, the same key
    Correct(Correct),
    /// Close it; the job is suppressed
    Suppress(ItemWithReason),
    /// Close it; with a receipt, an item in doubt becomes sent
    Resolve(Resolve),
    /// Raise owner and due time
    Escalate(Escalate),
    /// Give it to somebody
    Assign(Assign),
    /// Add a note
    Note(Note),
}

/// `curfew review list`.
#[derive(Args, Debug)]
pub struct ReviewList {
    /// With this reason
    #[arg(long, value_parser = PossibleValuesParser::new(Reason::ALL.iter().map(|r| r.word())), hide_possible_values = true)]
    pub reason: Option<String>,
    /// Of this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// open, waiting_approval, replaying, resolved or withdrawn
    #[arg(long, value_parser = ["open", "waiting_approval", "replaying", "resolved", "withdrawn"], hide_possible_values = true)]
    pub status: Option<String>,
    /// At most so many; 0 is all
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

/// A review item.
#[derive(Args, Debug)]
pub struct Item {
    /// Its id
    pub id: String,
}

/// A review item and why.
#[derive(Args, Debug)]
pub struct ItemWithReason {
    /// Its id
    pub id: String,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
}

/// `curfew review replay`.
#[derive(Args, Debug)]
pub struct Replay {
    /// Up to 20 items
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// RFC 3339, local with --zone, or +30m from now
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub deadline: String,
    /// The zone of a local deadline
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
    /// Send though an earlier handoff may have been accepted
    #[arg(long)]
    pub accept_duplicate_risk: bool,
    /// Say what would happen, do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `curfew review correct`.
#[derive(Args, Debug)]
pub struct Correct {
    /// The item's id
    pub id: String,
    /// Another recipient
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<String>,
    /// Another artifact for an attachment
    #[arg(long, value_name = "NAME=URI", value_parser = pair)]
    pub artifact: Vec<(String, String)>,
    /// Another value for a template's parameter
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub param: Vec<(String, String)>,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
}

/// `curfew review resolve`.
#[derive(Args, Debug)]
pub struct Resolve {
    /// The item's id
    pub id: String,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
    /// The provider's proof that it accepted
    #[arg(long, value_name = "TEXT")]
    pub receipt: Option<String>,
}

/// `curfew review escalate`.
#[derive(Args, Debug)]
pub struct Escalate {
    /// The item's id
    pub id: String,
    /// To whom
    #[arg(long)]
    pub owner: Option<String>,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
}

/// `curfew review assign`.
#[derive(Args, Debug)]
pub struct Assign {
    /// The item's id
    pub id: String,
    /// To whom
    #[arg(long)]
    pub owner: String,
}

/// `curfew review note`.
#[derive(Args, Debug)]
pub struct Note {
    /// The item's id
    pub id: String,
    /// What to remember
    pub text: String,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}
