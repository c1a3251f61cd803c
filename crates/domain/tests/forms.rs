//! Stored and sent forms: older ones are read, what newer processes added is kept, newer ones are left alone, and noise is an error.
//!
//! The fixtures are hex, one form each. They are never written anew: bytes like these stand in somebody's ledger.

mod records;

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::form::{FORMAT, FORMAT_OLDEST, FormError, decode, encode};
use curfew_domain::limits::{KEY_BYTES_MAX, WAKE_UP_BYTES_MAX};
use curfew_domain::transition::{Event, transition};
use curfew_domain::wake_up::WakeUp;
use curfew_domain::{Key, Record, Shard, State, WorkerId};
use proptest::prelude::*;
use records::at;
use rmpv::Value;
use uuid::Uuid;

/// Format 0, from before `strikes` and `window_until` were known.
const WITHOUT_TWO_FIELDS: &str = include_str!("fixtures/record_format_0.hex");
/// Format 1, with `region_plan`, which this build doesn't know: a map of lists, bytes, numbers of every kind and a map.
const WITH_AN_UNKNOWN_FIELD: &str = include_str!("fixtures/record_format_1_unknown_field.hex");

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex")).collect()
}

fn unknown_value() -> Value {
    Value::Map(vec![
        ("zones".into(), Value::Array(vec!["eu".into(), Value::Nil, true.into()])),
        ("seed".into(), Value::Binary(vec![0, 255, 128])),
        (Value::from(7), Value::Array(vec![Value::from(-1), Value::from(300), Value::from(u64::MAX), Value::F64(0.5), Value::F32(1.5)])),
        ("inner".into(), Value::Map(vec![("z".into(), 1.into()), ("a".into(), 2.into())])),
    ])
}

/// The record that both fixtures hold.
fn stored() -> Record {
    Record { state: State::Queued, version: 9, attempts: 1, verbs: vec![4], next_attempt_at: at("08:35:00"), ..records::record() }
}

#[test]
fn a_record_of_the_older_format_without_two_fields_is_read_and_written_back_unchanged() {
    let old = bytes(WITHOUT_TWO_FIELDS);
    let record: Record = decode(&old).expect("format 0 is read");
    assert_eq!(record, Record { format: FORMAT_OLDEST, ..stored() });
    assert_eq!(encode(&record), old);
}

#[test]
fn a_field_that_a_newer_process_wrote_is_kept_and_written_back_unchanged() {
    let newer = bytes(WITH_AN_UNKNOWN_FIELD);
    let record: Record = decode(&newer).expect("format 1 is read");
    assert_eq!(record, Record { kept: BTreeMap::from([("region_plan".to_owned(), unknown_value())]), ..stored() });
    assert_eq!(encode(&record), newer);
}

#[test]
fn a_transition_keeps_what_it_does_not_know() {
    let record: Record = decode(&bytes(WITH_AN_UNKNOWN_FIELD)).expect("format 1 is read");
    let claim = Event::Claim { worker: WorkerId(Uuid::from_u128(1)), lease: Duration::from_secs(60) };
    let change = transition(&record, &claim, at("08:40:00")).expect("it is due");
    let mut value = Vec::new();
    rmpv::encode::write_value(&mut value, &unknown_value()).expect("a vector takes all");
    let written = encode(&change.record);
    assert!(written.windows(value.len()).any(|part| part == value), "the field's value is byte for byte the same");
    assert_eq!(decode::<Record>(&written).map(|r| r.kept), Ok(record.kept));
}

#[test]
fn a_newer_format_is_left_alone() {
    for (format, written) in [(FORMAT + 1, u64::from(FORMAT) + 1), (300, 300), (u16::MAX, 65_535)] {
        let mut form = vec![0x82];
        for (name, value) in [("format", Value::from(written)), ("state", Value::from("a state of the future"))] {
            rmpv::encode::write_value(&mut form, &name.into()).expect("a vector takes all");
            rmpv::encode::write_value(&mut form, &value).expect("a vector takes all");
        }
        assert_eq!(decode::<Record>(&form), Err(FormError::Newer(format)));
        assert_eq!(WakeUp::decode(&form), Err(FormError::Newer(format)));
    }
}

#[test]
fn a_deep_nest_is_malformed_and_no_stack_overflow() {
    let mut form = encode(&stored());
    assert_eq!(form[0], 0xde, "a map of more than 15 fields");
    form[2] += 1;
    form.extend(b"\xa4deep");
    form.extend(std::iter::repeat_n(0x91, 1_000_000));
    form.push(0xc0);
    assert_eq!(decode::<Record>(&form), Err(FormError::Malformed));
}

/// Found by fuzzing: a record whose count of attempts stood at its end could not be explained.
#[test]
fn a_counter_at_its_end_is_damage() {
    for (record, what) in [
        (Record { generation: u32::MAX, ..stored() }, "generation"),
        (Record { version: u64::MAX, ..stored() }, "version"),
        (Record { attempts: u32::MAX, ..stored() }, "attempts"),
        (Record { strikes: u32::MAX, ..stored() }, "strikes"),
        (Record { configuration_met: u32::MAX, ..stored() }, "configuration_met"),
    ] {
        assert_eq!(decode::<Record>(&encode(&record)), Err(FormError::Malformed), "{what}");
    }
    let high = Record { version: u64::MAX - 1, attempts: u32::MAX - 1, ..stored() };
    assert_eq!(decode::<Record>(&encode(&high)), Ok(high));
}

fn wake_up(key: &str) -> WakeUp {
    WakeUp { format: FORMAT, shard: Shard(63), key: Key::parse(key).expect("a key"), generation: u32::MAX, version: u64::MAX, due_ms: i64::MIN }
}

#[test]
fn the_longest_wake_up_keeps_its_bound_and_is_read_back() {
    let longest = wake_up(&"k".repeat(KEY_BYTES_MAX));
    let body = longest.encode();
    assert!(body.len() < WAKE_UP_BYTES_MAX, "{} bytes", body.len());
    assert_eq!(WakeUp::decode(&body), Ok(longest));
}

#[test]
fn a_wake_up_whose_key_holds_an_address_is_malformed() {
    let mut body = wake_up("acme/daily/ada-example.com/2026-12-01").encode();
    let place = body.windows(4).position(|w| w == b"ada-").expect("the key") + 3;
    body[place] = b'@';
    assert_eq!(WakeUp::decode(&body), Err(FormError::Malformed));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_is_an_error_and_no_panic(noise in prop::collection::vec(any::<u8>(), 0..300), start in 0usize..12) {
        let prefix = encode(&stored());
        let mut form = prefix[..start].to_vec();
        form.extend(noise);
        let _answer = decode::<Record>(&form);
        prop_assert!(WakeUp::decode(&form).is_err());
    }

    #[test]
    fn a_damaged_form_is_no_panic(at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
        let mut form = bytes(WITH_AN_UNKNOWN_FIELD);
        let place = at.index(form.len());
        form[place] = byte;
        form.truncate(cut.index(form.len()) + 1);
        let _answer = decode::<Record>(&form);
    }
}
