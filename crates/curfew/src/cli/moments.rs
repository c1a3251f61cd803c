//! Times on the command line: RFC 3339, local with `--zone`, or `+30m` from now.

use std::time::{SystemTime, UNIX_EPOCH};

use curfew_content::Zones;
use curfew_domain::Moment;

use crate::config::units;
use crate::exit::Failure;

/// What is allowed, with an example.
const ALLOWED: &str =
    "allowed: RFC 3339 with an offset, for instance 2026-12-01T17:00:00+01:00; the same without an offset and with --zone; or +30m from now";

/// This machine's now. Only `+30m` and the default day depend on it; the server judges the result by the ledger's clock.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The instant that a text means, as RFC 3339 in UTC.
///
/// # Errors
/// Usage, naming the flag and what is allowed.
pub fn read(flag: &str, text: &str, zone: Option<&str>, now: Moment) -> Result<String, Failure> {
    if let Some(ahead) = text.strip_prefix('+') {
        let ahead = units::duration(ahead).ok_or_else(|| wrong(flag, text, "after + stands a whole number with ms, s, m, h or d"))?;
        return Ok(now.plus(ahead).rfc3339());
    }
    if let Some(at) = Moment::parse(text) {
        return Ok(at.rfc3339());
    }
    if units::duration(text).is_some() {
        return Err(wrong(flag, text, &format!("did you mean +{text}?")));
    }
    let zones = Zones::load();
    if zones.resolve("UTC", text).is_err() {
        return Err(wrong(flag, text, ALLOWED));
    }
    let zone =
        zone.ok_or_else(|| wrong(flag, text, "has no offset, and no zone is given; give --zone, or an offset as in 2026-12-01T17:00:00+01:00"))?;
    zones.resolve(zone, text).map(Moment::rfc3339).map_err(|e| wrong(flag, text, &e.to_string()))
}

fn wrong(flag: &str, text: &str, says: &str) -> Failure {
    Failure::usage(format!("{flag} {text:?}: {says}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    const NOW: Moment = Moment::from_millis(1_796_114_100_250);

    #[test]
    fn a_time_has_three_forms() {
        let read = |text, zone| read("--release", text, zone, NOW);
        assert_eq!(read("+30m", None).as_deref(), Ok("2026-12-01T09:05:00.250Z"));
        assert_eq!(read("2026-12-01T08:30:00-05:00", None).as_deref(), Ok("2026-12-01T13:30:00.000Z"));
        assert_eq!(read("2026-12-01T08:30:00", Some("America/New_York")).as_deref(), Ok("2026-12-01T13:30:00.000Z"));
        for (text, zone) in
            [("2026-12-01T08:30:00", None), ("2026-12-01T08:30:00", Some("Mars/Olympus")), ("+soon", None), ("soon", Some("UTC")), ("+1.5h", None)]
        {
            assert_eq!(read(text, zone).map_err(|f| f.exit), Err(Exit::Usage), "{text}");
        }
        for (text, says) in [("2h", "did you mean +2h?"), ("2026-12-01T08:30:00", "give --zone"), ("soon", "2026-12-01T17:00:00+01:00")] {
            let failure = read(text, None).expect_err(text);
            assert!(failure.says.contains(says), "{failure:?}");
        }
    }
}
