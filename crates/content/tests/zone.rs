//! RECURRENCE section 1, on real law: gaps, overlaps, missing dates, and the rule's own definition checked at random.

use curfew_content::{ZoneError, Zones};
use curfew_domain::Moment;
use proptest::prelude::*;

#[test]
fn a_local_time_means_the_earliest_instant_that_reads_it_or_later() {
    let zones = Zones::load();
    for (zone, local, expected, why) in [
        ("America/New_York", "2026-12-01T08:30:00", "2026-12-01T13:30:00Z", "ordinary"),
        ("America/New_York", "2027-03-14T02:30:00", "2027-03-14T07:00:00Z", "gap: 03:00 EDT"),
        ("America/New_York", "2027-03-14T02:00:00", "2027-03-14T07:00:00Z", "the gap's first minute"),
        ("America/New_York", "2027-03-14T03:15:00", "2027-03-14T07:15:00Z", "after the gap"),
        ("America/New_York", "2026-11-01T01:30:00", "2026-11-01T05:30:00Z", "overlap: the first pass"),
        ("America/Vancouver", "2026-11-02T09:00:00", "2026-11-02T16:00:00Z", "stays on -07 by the law of 2026"),
        ("Europe/Berlin", "2027-03-28T02:30:00", "2027-03-28T01:00:00Z", "gap"),
        ("Europe/Berlin", "2026-10-25T02:30:00", "2026-10-25T00:30:00Z", "overlap"),
        ("Pacific/Apia", "2011-12-30T09:00:00", "2011-12-30T10:00:00Z", "a missing date: 2011-12-31 00:00 +14"),
        ("America/Nuuk", "2024-03-30T23:30:00", "2024-03-31T01:00:00Z", "a gap that ends at midnight: 2024-03-31 00:00 -01"),
        ("Asia/Pyongyang", "2018-05-04T23:45:00", "2018-05-04T15:00:00Z", "half an hour up to midnight: 2018-05-05 00:00 +09"),
        ("Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:30:00Z", "a gap of half an hour: 02:30 +11"),
        ("Australia/Lord_Howe", "2027-04-04T01:45:00", "2027-04-03T14:45:00Z", "an overlap of half an hour: the first pass"),
        ("UTC", "2026-12-01T08:30", "2026-12-01T08:30:00Z", "without seconds"),
        ("Asia/Kolkata", "2099-12-31T17:00:00", "2099-12-31T11:30:00Z", "far ahead"),
    ] {
        assert_eq!(zones.resolve(zone, local), Ok(Moment::parse(expected).expect("a time")), "{zone} {local}: {why}");
    }
}

#[test]
fn a_zone_that_nobody_knows_is_refused_with_the_nearest_names() {
    let zones = Zones::load();
    for (wrong, right) in [
        ("america/new_york", "America/New_York"),
        ("America/NewYork", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("Asia/Calcuta", "Asia/Calcutta"),
    ] {
        let Err(ZoneError::Unknown { nearest }) = zones.resolve(wrong, "2026-12-01T08:30:00") else { panic!("{wrong} is unknown") };
        assert!(nearest.iter().any(|n| n == right), "{wrong}: {nearest:?}");
    }
    for nonsense in ["", "../../etc/passwd", "Mars/Olympus_Mons_Base_Camp", "EST5EDT4,M3.2.0,M11.1.0", "\u{0}"] {
        assert!(matches!(zones.check(nonsense), Err(ZoneError::Unknown { .. })), "{nonsense}");
    }
}

#[test]
fn a_local_time_is_exactly_a_local_time() {
    let zones = Zones::load();
    for bad in [
        "",
        "2026-12-01",
        "2026-12-01T08",
        "2026-12-01 08:30:00",
        "2026-12-01T08:30:00Z",
        "2026-12-01T08:30:00+01:00",
        "2026-02-29T08:00:00",
        "2026-12-01T24:00:00",
        "2026-12-01T08:60:00",
        "2026-12-01T08:30:60",
        "2026-12-01T08:30:00.",
        "2026-12-1T08:30:00",
        "99999-12-01T08:30",
        "0026-12-01T08:30:00",
        "2026-12-01T08:30:0é",
    ] {
        assert_eq!(zones.resolve("UTC", bad), Err(ZoneError::LocalTime), "{bad}");
    }
    assert_eq!(zones.resolve("UTC", "2026-12-01T08:30:00.2509").map(|m| m.rfc3339()), Ok("2026-12-01T08:30:00.250Z".into()));
}

#[test]
fn the_newer_of_the_two_databases_is_used() {
    let system = tempfile::tempdir().expect("a folder");
    let bundled = Zones::load_from(system.path()).version().to_owned();
    for (file, text, expected) in [
        ("tzdata.zi", "# version 2025b\nR ...", bundled.as_str()),
        ("tzdata.zi", "# version 2999a\n# more", "2999a"),
        ("tzdata.zi", "# redistribution\n", bundled.as_str()),
        ("+VERSION", "2999c\n", "2999c"),
        ("+VERSION", "nonsense", bundled.as_str()),
    ] {
        std::fs::write(system.path().join(file), text).expect("written");
        assert_eq!(Zones::load_from(system.path()).version(), expected, "{file}: {text}");
    }
}

#[test]
fn a_zone_of_newer_system_data_is_read_from_them() {
    let system = tempfile::tempdir().expect("a folder");
    std::fs::write(system.path().join("tzdata.zi"), "# version 2999a\n").expect("written");
    std::fs::create_dir(system.path().join("Europe")).expect("made");
    std::fs::copy("/usr/share/zoneinfo/Asia/Kolkata", system.path().join("Europe/Berlin")).expect("system zoneinfo");
    let zones = Zones::load_from(system.path());
    assert_eq!(zones.resolve("Europe/Berlin", "2026-12-01T08:30:00").map(|m| m.rfc3339()), Ok("2026-12-01T03:00:00.000Z".into()));
    assert_eq!(
        zones.resolve("Europe/Paris", "2026-12-01T08:30:00").map(|m| m.rfc3339()),
        Ok("2026-12-01T07:30:00.000Z".into()),
        "absent there: the compiled data"
    );
}

const ZONES: &[&str] = &[
    "America/New_York",
    "America/Vancouver",
    "America/Nuuk",
    "America/Sao_Paulo",
    "America/Havana",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Chisinau",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Tehran",
    "Asia/Pyongyang",
    "Asia/Gaza",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Antarctica/Troll",
    "Asia/Kolkata",
    "UTC",
];

/// A minute between 1993 and 2040, as a local time.
fn local(minutes: i64) -> String {
    Moment::from_millis(725_846_400_000 + minutes * 60_000).rfc3339()[..19].to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_instant_reads_the_time_or_later_and_nothing_before_it_does(zone in proptest::sample::select(ZONES), minutes in 0i64..24_700_000) {
        let (zones, local) = (Zones::load(), local(minutes));
        let at = zones.resolve(zone, &local).expect("a time");
        let reads = |at: i64| zones.wall_clock(zone, Moment::from_millis(at)).expect("in range");
        prop_assert!(reads(at.as_millis()) >= local, "{zone} {local}");
        prop_assert!(reads(at.as_millis() - 1_000) < local, "{zone} {local}: a second before");
        for minute in 1..(26 * 4) {
            prop_assert!(reads(at.as_millis() - minute * 900_000 - 1_000) < local, "{zone} {local}: {minute} quarters before");
        }
    }

    #[test]
    fn the_rule_keeps_order(zone in proptest::sample::select(ZONES), minutes in 0i64..24_700_000, later in 0i64..3_000) {
        let zones = Zones::load();
        let first = zones.resolve(zone, &local(minutes)).expect("a time");
        let second = zones.resolve(zone, &local(minutes + later)).expect("a time");
        prop_assert!(first <= second);
    }

    #[test]
    fn away_from_changes_it_is_the_plain_conversion(zone in proptest::sample::select(ZONES), minutes in 0i64..24_700_000) {
        let (zones, local) = (Zones::load(), local(minutes));
        let at = zones.resolve(zone, &local).expect("a time");
        let reads = zones.wall_clock(zone, at).expect("in range");
        // Only a gap reads later than asked, and then the clock has just been put forward.
        if reads != local {
            let before = zones.wall_clock(zone, Moment::from_millis(at.as_millis() - 60_000)).expect("in range");
            prop_assert!(before < local && local < reads);
        }
    }
}
