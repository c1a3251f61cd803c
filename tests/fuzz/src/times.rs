//! Times and durations: RFC 3339, local times in a zone, and the units of the configuration.

use std::sync::LazyLock;
use std::time::Duration;

use curfew::config::units;
use curfew_content::Zones;
use curfew_domain::Moment;

static ZONES: LazyLock<Zones> = LazyLock::new(Zones::load);
/// Years in which a moment is written as RFC 3339 reads it: 0000 to 9999.
const WRITTEN: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

/// The text is read as each kind of time; with a line break in it the first line is a zone and the second a local time.
pub fn time(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    moment(text);
    if let Some(d) = units::duration(text) {
        assert_eq!(units::duration(&units::duration_text(d)), Some(d));
    }
    if let Some(size) = units::size(text) {
        assert_eq!(units::size(&units::size_text(size)), Some(size));
    }
    if let Some(rate) = units::rate(text) {
        assert!(rate.count > 0);
        assert_eq!(units::rate(&rate.to_string()), Some(rate));
    }
    assert!(units::percent(text).is_none_or(|p| p.is_finite() && p >= 0.0));
    if let Some((zone, local)) = text.split_once('\n') {
        resolved(zone, local);
    }
}

fn moment(text: &str) {
    let Some(at) = Moment::parse(text) else { return };
    assert!(!WRITTEN.contains(&at.as_millis()) || Moment::parse(&at.rfc3339()) == Some(at), "{at} is read as another moment");
    let _readings = (at.clock(), at.date(), at.plus(Duration::MAX), at.minus(Duration::MAX), at.since(Moment::from_millis(i64::MIN)));
}

/// The rule of the one resolver: the earliest instant at which the customer's wall clock reads that time or later.
fn resolved(zone: &str, local: &str) {
    let at = match ZONES.resolve(zone, local) {
        Ok(at) => at,
        Err(e) => {
            let says = e.to_string();
            assert!(!says.is_empty() && (local.len() < 8 || !says.contains(local)));
            return;
        }
    };
    let (Ok(reads), Ok(before)) = (ZONES.wall_clock(zone, at), ZONES.wall_clock(zone, at.minus(Duration::from_secs(1)))) else { return };
    // Both are cut to whole seconds, so that they compare as texts.
    let wanted = local.get(..19).map_or_else(|| format!("{local}:00"), str::to_owned);
    assert!(reads >= wanted, "{local} in {zone} is {at}, when the wall clock reads {reads}");
    assert!(before < wanted, "{local} in {zone} is {at}, though a second earlier the wall clock reads {before}");
}
