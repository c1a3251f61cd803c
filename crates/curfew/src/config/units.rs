//! Durations, sizes, rates and percentages as people write them, and back.

use std::fmt;
use std::time::Duration;

const UNITS_MS: &[(&str, u64)] = &[("y", 365 * 86_400_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const SIZES: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// So many in so long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// At least 1.
    pub count: u32,
    /// A second, a minute or an hour.
    pub per: Duration,
}

/// Parses a whole number with one of `ms s m h d y`; a year is 365 days.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let (_, ms) = UNITS_MS.iter().find(|(u, _)| *u == unit)?;
    number.checked_mul(*ms).map(Duration::from_millis)
}

/// A duration in the largest unit that holds it exactly.
pub fn duration_text(d: Duration) -> String {
    let ms = u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    match UNITS_MS.iter().find(|(_, unit)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => "0s".to_owned(),
    }
}

/// Parses a whole number with one of `B KiB MiB GiB`.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let (_, bytes) = SIZES.iter().find(|(u, _)| *u == unit)?;
    number.checked_mul(*bytes)
}

/// A size in the largest unit that holds it exactly.
pub fn size_text(bytes: u64) -> String {
    match SIZES.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => "0B".to_owned(),
    }
}

/// Parses `n/s`, `n/m` or `n/h` with n from 1 to 1,000,000.
pub fn rate(text: &str) -> Option<Rate> {
    let (count, unit) = text.split_once('/')?;
    let per = match unit {
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return None,
    };
    let count = whole(count)?;
    u32::try_from(count).ok().filter(|n| (1..=1_000_000).contains(n)).map(|count| Rate { count, per })
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.per.as_secs() {
            0..=1 => "s",
            2..=60 => "m",
            _ => "h",
        };
        write!(f, "{}/{unit}", self.count)
    }
}

/// Parses `99.9%`.
pub fn percent(text: &str) -> Option<f64> {
    let digits = text.strip_suffix('%')?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    digits.parse().ok().filter(|n: &f64| plain && n.is_finite())
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit())?;
    Some((whole(&text[..end])?, &text[end..]))
}

fn whole(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_and_written_in_its_largest_unit() {
        for (text, ms) in
            [("100ms", 100), ("32s", 32_000), ("90s", 90_000), ("5m", 300_000), ("24h", 86_400_000), ("30d", 2_592_000_000), ("7y", 220_752_000_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
            assert_eq!(duration(&duration_text(Duration::from_millis(ms))), Some(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(duration_text(Duration::from_secs(90)), "90s");
        for wrong in ["", "5", "m", "-5m", "1.5h", "5 m", "5min", "99999999999999y"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_rates_and_percentages_have_one_form_each() {
        assert_eq!(size("512MiB"), Some(536_870_912));
        assert_eq!(size_text(536_870_912), "512MiB");
        assert_eq!(size("512MB"), None);
        assert_eq!(rate("14/s").map(|r| r.to_string()), Some("14/s".into()));
        assert_eq!(rate("100/h").map(|r| r.per.as_secs()), Some(3600));
        assert!(rate("0/s").is_none() && rate("5/d").is_none() && rate("+5/s").is_none());
        assert_eq!(percent("99.9%"), Some(99.9));
        assert!(percent("99.9").is_none() && percent("-1%").is_none() && percent("NaN%").is_none());
    }
}
