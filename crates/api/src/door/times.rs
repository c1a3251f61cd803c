//! A submitted time: RFC 3339 with an offset, or local in a zone, through the one resolver.

use curfew_content::{ZoneError, Zones};
use curfew_domain::Moment;

use crate::problem::FieldError;

/// A time that was read.
pub(super) struct ReadTime {
    /// The instant.
    pub at: Moment,
    /// The wall-clock reading, where it was local.
    pub local: Option<String>,
}

/// Reads a time. `zone` is asked only for a local one.
pub(super) fn read(zones: &Zones, field: &str, text: &str, zone: Option<&str>) -> Result<ReadTime, FieldError> {
    if let Some(at) = Moment::parse(text) {
        return in_range(field, at).map(|at| ReadTime { at, local: None });
    }
    if !looks_local(text) {
        return Err(FieldError::new(field, "is no time: RFC 3339 with an offset, or YYYY-MM-DDTHH:MM:SS with a zone"));
    }
    let Some(zone) = zone else {
        return Err(FieldError::new(field, "has no offset, and no zone is given"));
    };
    match zones.resolve(zone, text) {
        Ok(at) => in_range(field, at).map(|at| ReadTime { at, local: Some(text.to_owned()) }),
        Err(e @ (ZoneError::Unknown { .. } | ZoneError::Data)) => Err(FieldError::new("zone", e.to_string())),
        Err(e) => Err(FieldError::new(field, e.to_string())),
    }
}

/// Years in which every calendar of ours agrees; outside them arithmetic saturates.
fn in_range(field: &str, at: Moment) -> Result<Moment, FieldError> {
    let (from, to) = (Moment::from_millis(0), Moment::from_millis(253_370_764_800_000));
    if (from..to).contains(&at) { Ok(at) } else { Err(FieldError::new(field, "is outside the years 1970 to 9998")) }
}

fn looks_local(text: &str) -> bool {
    let shape = b"dddd-dd-ddTdd:dd";
    text.len() >= shape.len()
        && text.len() <= 29
        && text.bytes().zip(shape).all(|(b, s)| if *s == b'd' { b.is_ascii_digit() } else { b == *s })
        && text.bytes().skip(shape.len()).all(|b| b.is_ascii_digit() || b == b':' || b == b'.')
}
