//! What can be typed. The words are the contract's; examples stand under each verb's `--help`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Sends scheduled business email, once, before its deadline; what can't be sent explains itself.
#[derive(Parser, Debug)]
#[command(name = "curfew", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 done; 1 refused, not found, conflict, a difference, lines rejected; 2 usage or configuration; 69 no answer; 75 not yet.\n\n\
    Start here:\n  curfew up\n  curfew submit jobs.csv --zone Europe/Berlin\n  curfew day"
)]
pub struct Cli {
    /// The API to speak to [CURFEW_API, else http://127.0.0.1:7420]; its token is read from CURFEW_TOKEN
    #[arg(long, global = true, value_name = "URL")]
    pub api: Option<String>,
    /// Print objects for programs: one a line in lists
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Every verb.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Run everything in this process, on stores of its own
    Up(Up),
    /// Hand in jobs from a file or stdin
    Submit(Submit),
    /// Look at jobs, cancel, suppress or move them
    #[command(subcommand)]
    Jobs(JobsVerb),
    /// Work on what could not be sent
    #[command(subcommand)]
    Review(ReviewVerb),
    /// Recipients who get nothing
    #[command(subcommand)]
    Suppressions(SuppressionsVerb),
    /// Reconcile a business date: everything accepted is accounted for
    Day(Day),
    /// See, pause, resume or drain what is running
    #[command(subcommand)]
    Fleet(FleetVerb),
    /// The trail of what operators did
    #[command(subcommand)]
    Audit(AuditVerb),
    /// Reach every service, verify its settings
    Check(Check),
    /// The configuration
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Ten jobs against a built-in mail server, with real kills
    Rehearse(Rehearse),
    /// What would Curfew make of this? One JSON object a line in, one out; no server, no effect
    #[command(subcommand)]
    Try(TryVerb),
    /// Copy the book, whole and consistent, while it runs
    Backup(Backup),
    /// The book's database
    #[command(subcommand)]
    Book(BookVerb),
    /// Sealing keys
    #[command(subcommand)]
    Keys(KeysVerb),
    /// Who may speak to the API
    #[command(subcommand)]
    Operators(OperatorsVerb),
}

/// `curfew up`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  curfew up\n  curfew up --config curfew.toml --data /var/lib/curfew --http 127.0.0.1:8080")]
pub struct Up {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data folder [./curfew-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Where the API and the console listen [127.0.0.1:7420]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Announces a moment of matching jobs on stdout and holds them there: POINT=PART-OF-A-KEY; for the rehearsal and tests
    #[arg(long, value_name = "POINT=KEY", hide = true)]
    pub pause_at: Vec<String>,
}

/// `curfew submit`.
#[derive(Args, Debug)]
#[command(
    after_help = "Prints {\"accepted\",\"duplicates\",\"rejected\",\"errors\":[{\"line\",\"field\",\"error\"}]}, always. One bad line never stops the others. Handing in a file again is safe: what was accepted counts as a duplicate.\n\nExamples:\n  curfew submit jobs.ndjson\n  curfew submit renewals.csv --zone Europe/Berlin\n  \
    generate | curfew submit - --format csv"
)]
pub struct Submit {
    /// A file of NDJSON or CSV lines; `-` is stdin
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// ndjson or csv [by the file's extension, else ndjson]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// The zone of lines that name none and give local times
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
}

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Ndjson,
    /// A header row with dotted names.
    Csv,
}

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
    #[arg(long)]
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
    #[arg(long)]
    pub reason: Option<String>,
    /// Of this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// open, waiting_approval, replaying, resolved or withdrawn
    #[arg(long)]
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

/// `curfew suppressions …`.
#[derive(Subcommand, Debug)]
pub enum SuppressionsVerb {
    /// Send nothing to a recipient any more
    #[command(after_help = "Example:\n  curfew suppressions add ada@example.com --tenant acme --reason \"asked us to stop\"")]
    Add(Suppression),
    /// Send to it again
    Remove(Suppression),
    /// Everybody on the list, newest first
    List(SuppressionsList),
}

/// A suppression.
#[derive(Args, Debug)]
pub struct Suppression {
    /// The recipient
    pub address: String,
    /// Of this tenant alone; of all where absent
    #[arg(long)]
    pub tenant: Option<String>,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
}

/// `curfew suppressions list`.
#[derive(Args, Debug)]
pub struct SuppressionsList {
    /// Of this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// At most so many; 0 is all
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

/// `curfew day`.
#[derive(Args, Debug)]
#[command(after_help = "Ends with 1 unless the difference is 0.\n\nExample:\n  curfew day 2026-12-01 --tenant acme")]
pub struct Day {
    /// The business date [today, UTC]
    #[arg(value_name = "DATE")]
    pub date: Option<String>,
    /// Of this tenant
    #[arg(long)]
    pub tenant: Option<String>,
}

/// `curfew fleet …`.
#[derive(Subcommand, Debug)]
pub enum FleetVerb {
    /// Processes, shards, circuits, pauses, figures
    Status,
    /// Begin nothing new: everywhere, or for a transport, tenant or shard
    Pause(Hold),
    /// Go on
    Resume(Hold),
    /// Finish what is in hand, give back the rest
    Drain,
}

/// What to pause or resume.
#[derive(Args, Debug)]
pub struct Hold {
    /// This transport
    #[arg(long, conflicts_with_all = ["tenant", "shard"])]
    pub transport: Option<String>,
    /// This tenant
    #[arg(long, conflicts_with = "shard")]
    pub tenant: Option<String>,
    /// This shard
    #[arg(long)]
    pub shard: Option<u8>,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
}

/// `curfew audit …`.
#[derive(Subcommand, Debug)]
pub enum AuditVerb {
    /// Entries, newest first
    List(Limit),
    /// Whether the trail is whole and unchanged; ends with 1 where it isn't
    Verify,
}

/// How many.
#[derive(Args, Debug)]
pub struct Limit {
    /// At most so many; 0 is all
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

/// `curfew check`.
#[derive(Args, Debug)]
pub struct Check {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data folder [./curfew-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Compare book and ledger
    #[arg(long)]
    pub audit: bool,
}

/// `curfew config …`.
#[derive(Subcommand, Debug)]
pub enum ConfigVerb {
    /// The effective configuration and where each value came from, secrets masked
    Show(ConfigShow),
}

/// `curfew config show`.
#[derive(Args, Debug)]
pub struct ConfigShow {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `curfew rehearse`.
#[derive(Args, Debug)]
pub struct Rehearse {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// With a transport that recognises its key
    #[arg(long)]
    pub idempotent: bool,
}

/// `curfew try …`.
#[derive(Subcommand, Debug)]
pub enum TryVerb {
    /// How a mail server's reply is read
    #[command(after_help = "In: {\"stage\",\"code\",\"enhanced\",\"text\"}, or \"text\":\"<event: …>\" for something that happened instead.\n\
        Out: {\"class\",\"reason\",\"rule\"}.\n\nExample:\n  echo '{\"stage\":\"rcpt\",\"code\":550,\"enhanced\":\"5.1.1\",\"text\":\"no such user\"}' | curfew try reply")]
    Reply(TryFile),
    /// Whether an address is accepted at the door
    #[command(after_help = "In: {\"address\"}. Out: {\"accepted\",\"reason\",\"ascii\",\"needs_smtputf8\"}.\n\nExample:\n  \
        echo '{\"address\":\"ada@example.com\"}' | curfew try address")]
    Address(TryFile),
    /// What follows from an outcome
    #[command(
        after_help = "In: {\"attempt\",\"outcome\",\"provider_idempotent\",\"retry_after_s\",\"backoff\",\"backoff_params\",\"jitter_lo_s\",\n\
        \"jitter_hi_s\",\"now\",\"release_at\",\"deadline_at\",\"max_attempts\"}.\n\
        Out: {\"action\",\"reason\",\"next_attempt_earliest\",\"next_attempt_latest\",\"latest_bound\"}."
    )]
    Decision(TryFile),
}

/// What `try` reads.
#[derive(Args, Debug)]
pub struct TryFile {
    /// A file of NDJSON lines [stdin]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `curfew backup`.
#[derive(Args, Debug)]
pub struct Backup {
    /// Where to; must not exist
    pub file: PathBuf,
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data folder [./curfew-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `curfew book …`.
#[derive(Subcommand, Debug)]
pub enum BookVerb {
    /// Apply pending migrations
    Migrate(Migrate),
}

/// `curfew book migrate`.
#[derive(Args, Debug)]
pub struct Migrate {
    /// Say what is pending, change nothing; ends with 1 where something is
    #[arg(long)]
    pub check: bool,
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data folder [./curfew-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `curfew keys …`.
#[derive(Subcommand, Debug)]
pub enum KeysVerb {
    /// Print a [keys] table of fresh random keys; nothing is stored
    New,
}

/// `curfew operators …`.
#[derive(Subcommand, Debug)]
pub enum OperatorsVerb {
    /// Print a token, once, and the configuration's lines for it; nothing is stored
    #[command(after_help = "Example:\n  curfew operators new alice --roles view,review --tenants acme")]
    New(OperatorNew),
}

/// `curfew operators new`.
#[derive(Args, Debug)]
pub struct OperatorNew {
    /// The name that stands in the audit trail
    pub name: String,
    /// Any of view, submit, review, fleet, privacy [all]
    #[arg(long, value_delimiter = ',')]
    pub roles: Vec<String>,
    /// Tenants, or * [all]
    #[arg(long, value_delimiter = ',')]
    pub tenants: Vec<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}
