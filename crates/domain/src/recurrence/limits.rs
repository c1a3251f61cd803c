//! Every bound of recurrence, with its reason.

use std::time::Duration;

/// A search that finds nothing for so many years is over. The longest silence of the civil calendar is 40 years: a fifth Monday in February
/// needs a 29th that is a Monday, and between 2072 and 2112 there is none.
pub const QUIET_YEARS: i32 = 45;
/// The same in days.
pub const QUIET_DAYS: i32 = QUIET_YEARS * 366;
/// A cron expression or an RRULE, in bytes: the longest sensible list of minutes, hours and days takes under 400.
pub const EXPRESSION_BYTES_MAX: usize = 1024;
/// Holidays of one calendar: thirty years of a country with thirty a year take 900.
pub const HOLIDAYS_MAX: usize = 10_000;
/// Dates that a list of dates may hold.
pub const LISTED_DATES_MAX: usize = 10_000;
/// Business or calendar days between a date of a list and its send.
pub const DAYS_BETWEEN_MAX: u32 = 1_000;
/// Days between a business date and its deadline.
pub const DEADLINE_DAYS_MAX: i32 = 366;
/// RRULE's INTERVAL; larger ones leave nothing within `QUIET_YEARS`, whatever the frequency, but for days.
pub const RRULE_INTERVAL_MAX: u32 = 10_000;
/// RRULE's COUNT: everything before an occurrence has to be counted to know that it is one.
pub const RRULE_COUNT_MAX: u32 = 100_000;
/// Times that an RRULE gives one date: each of its minutes.
pub const RRULE_TIMES_MAX: usize = 24 * 60;
/// Hours between two runs of an interval.
pub const EVERY_HOURS_MAX: u32 = 24 * 366;
/// Spans of one offset that are looked at around one local time. Real law knows two changes in 52 hours at most.
pub const SPANS_MAX: usize = 64;
/// A slot whose release is past by more was missed: its catch-up rule speaks. A scan comes within seconds; less than this is no downtime.
pub const MISSED_AFTER: Duration = Duration::from_secs(60);
/// The longest rest between two scans of a schedule: what a change of the zone data moves is met within a day.
pub const REST_MAX: Duration = Duration::from_secs(24 * 3600);
/// A schedule is scanned at most this often in the time that it is planned ahead, so that a job every minute doesn't cost a scan every minute.
pub const SCANS_PER_HORIZON: u32 = 8;
/// How long ahead windows are looked at when a schedule is made: every change of a clock that today's law knows.
pub const WINDOWS_LOOKED_AHEAD: Duration = Duration::from_secs(5 * 366 * 86_400);
/// Occurrences looked at for that: thirteen years of daily jobs, two weeks of one a minute.
pub const WINDOWS_LOOKED_AT: usize = 20_000;
/// Dates without a window that a refusal names.
pub const WINDOWS_NAMED: usize = 12;
/// Recipients of one schedule.
pub const RECIPIENTS_MAX: usize = 10_000;
/// The longest time over which the jobs of one slot are spread.
pub const SPREAD_MAX: Duration = Duration::from_secs(24 * 3600);

const _: () = assert!(QUIET_YEARS > 40, "a fifth Monday in February may be 40 years away");
