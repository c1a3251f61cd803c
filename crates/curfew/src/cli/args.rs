//! What can be typed. The words are the contract's; examples stand under each verb's `--help`.

mod jobs;
mod review;
mod schedules;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::RehearsalId;

pub use jobs::*;
pub use review::*;
pub use schedules::*;

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
    /// Run some roles in this process, on the servers' stores: any number of such processes make a fleet
    Run(Run),
    /// Hand in jobs from a file or stdin
    Submit(Submit),
    /// Look at jobs, cancel, suppress or move them
    #[command(subcommand)]
    Jobs(JobsVerb),
    /// What is sent again and again: make, look at, pause
    #[command(subcommand)]
    Schedules(SchedulesVerb),
    /// Work on what could not be sent
    #[command(subcommand)]
    Review(ReviewVerb),
    /// Recipients who get nothing
    #[command(subcommand)]
    Suppressions(SuppressionsVerb),
    /// Reconcile a business date: everything accepted is accounted for
    Day(Day),
    /// What a day needs: its busiest minute, what retries add, how many workers
    Capacity(Capacity),
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
    /// Ends at once when its standard input does; for the rehearsal and tests, whose processes must not outlive them
    #[arg(long, hide = true)]
    pub tethered: bool,
}

/// `curfew run`.
#[derive(Args, Debug)]
#[command(
    after_help = "A fleet needs [book] url, [ledger] url, [broker] url and [keys] in its configuration, the same in every process; no process leads.\n\nExamples:\n  \
    curfew run scheduler deadletter --config curfew.toml\n  curfew run worker --config curfew.toml\n  curfew run api --config curfew.toml"
)]
pub struct Run {
    /// scheduler, worker, deadletter, api: one or several
    #[arg(value_name = "ROLE", required = true, value_enum)]
    pub roles: Vec<RoleName>,
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The shards that this process works [all]
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub shards: Option<Vec<u8>>,
    /// Where metrics and probes listen [127.0.0.1:9464]
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
    /// Announces a moment of matching jobs on stdout and holds them there: POINT=PART-OF-A-KEY; for the rehearsal and tests
    #[arg(long, value_name = "POINT=KEY", hide = true)]
    pub pause_at: Vec<String>,
    /// Ends at once when its standard input does; for the rehearsal and tests, whose processes must not outlive them
    #[arg(long, hide = true)]
    pub tethered: bool,
    /// Works in a rehearsal's own part of the servers; for the rehearsal
    #[arg(long, value_name = "ID", hide = true)]
    pub rehearsal: Option<RehearsalId>,
}

/// A role's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum RoleName {
    /// Stages, releases, heals, settles.
    Scheduler,
    /// Sends.
    Worker,
    /// Records dead letters for review.
    Deadletter,
    /// Takes jobs and answers questions.
    Api,
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
    /// ndjson or csv [by the file's extension; without one, ndjson]
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

/// `curfew capacity`.
#[derive(Args, Debug)]
#[command(
    after_help = "Workers = N x (1 + f1 + f2) attempts of the busiest minute, over what one worker ends in a minute less the headroom.\n\nExample:\n  curfew capacity --date 2026-12-01 --headroom 30%"
)]
pub struct Capacity {
    /// The business date [today, UTC]
    #[arg(long, value_name = "DATE")]
    pub date: Option<String>,
    /// What is kept free of each worker's drain, 0% to 90% [30%]
    #[arg(long, value_name = "PERCENT")]
    pub headroom: Option<String>,
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
    /// When a schedule's jobs run, and by when
    #[command(after_help = "In: \"timezone\" and \"cron\", or \"rule\", or \"business_dates\" with \"release_local\".\n\
        Which: \"start_utc\",\"start_inclusive\",\"not_before_utc\",\"not_after_utc\",\"start_date\",\"end_date\",\n\
        \"count\" (10).\n\
        Window: \"deadline_local\",\"deadline_day_offset\". Business days: \"business_week\",\"holidays\",\"roll\".\n\
        Where clocks change: \"gap_policy\" first_valid, shift or skip; \"overlap_policy\" first or last.\n\
        Rules by \"type\": cron_dates (cron, roll, time_local) · nth_business_day (n) · business_days_before,\n\
        business_days_after, calendar_days_before (n, of) · monthly_clamped (day) ·\n\
        yearly_clamped (month, day) · rrule (rrule, dtstart_local, exdates) ·\n\
        every_hours (hours, anchor_utc)\n\
        Out: {\"occurrences\":[{\"release_at\",\"deadline_at\",\"business_date\",\"send_date\",\"verdict\"}],\"refused\"};\n\
        verdict ok, invalid_window, no_job or no_deadline.\n\nExample:\n  \
        echo '{\"cron\":\"30 8 * * 1-5\",\"timezone\":\"America/New_York\",\"start_utc\":\"2027-03-12T00:00:00Z\"}' |\n    \
        curfew try schedule")]
    Schedule(TryFile),
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
