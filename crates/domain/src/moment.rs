//! A moment: milliseconds since the Unix epoch, UTC. The only form in which time enters the domain.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// A point in time, in whole milliseconds since 1970-01-01T00:00:00Z.
///
/// Arithmetic saturates at the ends of `i64`; a moment before the epoch is legal and means "long ago".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(i64);

impl Moment {
    /// The moment this many milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339 with an offset; parts of a millisecond are cut off.
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().map(|t| Self(t.timestamp_millis()))
    }

    /// This moment and a duration later. Saturates.
    pub fn plus(self, d: Duration) -> Self {
        Self(self.0.saturating_add(millis(d)))
    }

    /// This moment and a duration earlier. Saturates.
    pub fn minus(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(millis(d)))
    }

    /// How long after `earlier` this is; zero where it isn't.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// RFC 3339 in UTC with milliseconds, as every answer shows it; moments outside chrono's years show as plain milliseconds.
    pub fn rfc3339(self) -> String {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(t) => t.to_rfc3339_opts(SecondsFormat::Millis, true),
            None => format!("{} ms", self.0),
        }
    }

    /// `HH:MM:SS` in UTC, for sentences.
    pub fn clock(self) -> String {
        DateTime::<Utc>::from_timestamp_millis(self.0).map_or_else(|| self.rfc3339(), |t| t.format("%H:%M:%S").to_string())
    }

    /// The UTC date, `YYYY-MM-DD`.
    pub fn date(self) -> String {
        self.rfc3339().chars().take(10).collect()
    }
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}
