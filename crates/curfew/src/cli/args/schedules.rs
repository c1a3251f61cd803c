//! `schedules …` as it can be typed.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

/// `curfew schedules …`.
#[derive(Subcommand, Debug)]
pub enum SchedulesVerb {
    /// Make or change the schedules of TOML files
    #[command(
        after_help = "A file holds [[schedule]] tables: name, tenant, purpose, cron (or rrule with start), zone, deadline, content, recipients.\n\
        recipients_file names a CSV file beside it: subject_ref,address,name,params.PLAN.\n\n\
        Examples:\n  curfew schedules apply schedules.toml --dry-run\n  curfew schedules apply schedules.toml"
    )]
    Apply(ScheduleApply),
    /// All schedules, by tenant and name
    List(SchedulesList),
    /// One schedule, without its recipients
    Show(ScheduleNamed),
    /// End it; jobs not yet begun are taken back
    Delete(ScheduleWithReason),
    /// Its next occurrences, and what clocks and calendars make of them
    Preview(SchedulePreview),
    /// Make no more jobs until it is resumed
    Pause(ScheduleWithReason),
    /// Make jobs again, from now on
    Resume(ScheduleWithReason),
    /// A day's board: expected, sent, late, in review, skipped
    Runs(ScheduleRuns),
}

/// A tenant's schedule, `TENANT/NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleName {
    /// Whose.
    pub tenant: String,
    /// Which.
    pub name: String,
}

impl FromStr for ScheduleName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((tenant, name)) if !tenant.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { tenant: tenant.to_owned(), name: name.to_owned() })
            }
            _ => Err("give TENANT/NAME".to_owned()),
        }
    }
}

/// `curfew schedules apply`.
#[derive(Args, Debug)]
pub struct ScheduleApply {
    /// TOML files of [[schedule]] tables
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Say what would change, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: Option<String>,
}

/// `curfew schedules list`.
#[derive(Args, Debug)]
pub struct SchedulesList {
    /// Of this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// At most so many; 0 is all
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

/// A schedule.
#[derive(Args, Debug)]
pub struct ScheduleNamed {
    /// Its tenant and name
    #[arg(value_name = "TENANT/NAME")]
    pub schedule: ScheduleName,
}

/// A schedule and why.
#[derive(Args, Debug)]
pub struct ScheduleWithReason {
    /// Its tenant and name
    #[arg(value_name = "TENANT/NAME")]
    pub schedule: ScheduleName,
    /// Why, for the audit trail
    #[arg(long)]
    pub reason: String,
}

/// `curfew schedules preview`.
#[derive(Args, Debug)]
pub struct SchedulePreview {
    /// Its tenant and name
    #[arg(value_name = "TENANT/NAME")]
    pub schedule: ScheduleName,
    /// So many
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
}

/// `curfew schedules runs`.
#[derive(Args, Debug)]
pub struct ScheduleRuns {
    /// Its tenant and name
    #[arg(value_name = "TENANT/NAME")]
    pub schedule: ScheduleName,
    /// The business date [today in its zone]
    #[arg(long, value_name = "DATE")]
    pub date: Option<String>,
}
