//! `jobs …` as it can be typed.

use clap::{Args, Subcommand};

/// The words of the contract that a list of jobs may be asked for.
const STATES: [&str; 10] = ["planned", "scheduled", "queued", "claimed", "handoff", "sent", "dead_letter", "cancelled", "suppressed", "active"];

/// `curfew jobs …`.
#[derive(Subcommand, Debug)]
pub enum JobsVerb {
    /// Jobs, newest first
    #[command(after_help = "Examples:\n  curfew jobs list --state dead_letter\n  curfew jobs list --tenant acme --limit 0 --json")]
    List(JobsList),
    /// One job, whole
    Show(JobName),
    /// Why it will run again, what it waits for, or why it stopped
    Explain(JobName),
    /// Stop it for good
    Cancel(JobWithReason),
    /// Don't send it, on purpose
    Suppress(JobWithReason),
    /// Give it another release or deadline
    #[command(after_help = "Examples:\n  curfew jobs move acme/renewal/R-1/2026-12-01 --release +30m --reason \"report late\"\n  \
        curfew jobs move 01936f… --release 2026-12-01T10:00 --deadline 2026-12-01T11:00 --zone America/New_York --reason moved")]
    Move(JobMove),
}

/// A job.
#[derive(Args, Debug)]
pub struct JobName {
    /// Its key or id
    #[arg(value_name = "KEY|ID")]
    pub job: String,
}

/// A job and why.
#[derive(Args, Debug)]
pub struct JobWithReason {
    /// Its key or id
    #[arg(value_name = "KEY|ID")]
    pub job: String,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
}

/// `curfew jobs list`.
#[derive(Args, Debug)]
pub struct JobsList {
    /// Of this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// In this state; `active` is what the ledger owns
    #[arg(long, value_parser = STATES)]
    pub state: Option<String>,
    /// Of this schedule
    #[arg(long, value_name = "NAME")]
    pub schedule: Option<String>,
    /// To this address
    #[arg(long, value_name = "ADDRESS")]
    pub recipient: Option<String>,
    /// At most so many; 0 is all
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

/// `curfew jobs move`.
#[derive(Args, Debug)]
pub struct JobMove {
    /// Its key or id
    #[arg(value_name = "KEY|ID")]
    pub job: String,
    /// RFC 3339, local with --zone, or +30m from now
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub release: String,
    /// The same forms; unchanged where absent
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub deadline: Option<String>,
    /// The zone of local times
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
}
