//! Addresses: every row of `tests/cases/addresses.csv`, and what the rows are examples of.

use curfew_domain::address::{AddressFault, check, check_bytes};
use proptest::prelude::*;

const CASES: &str = include_str!("../../../tests/cases/addresses.csv");

/// The bytes of a cell whose `encoding` is `escaped`.
fn unescaped(cell: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = cell;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let code = rest[at + 1..].chars().next().expect("something is escaped");
        let hex = |digits: usize| u32::from_str_radix(&rest[at + 2..at + 2 + digits], 16);
        let (taken, escaped): (usize, Vec<u8>) = match code {
            'r' => (2, b"\r".to_vec()),
            'n' => (2, b"\n".to_vec()),
            't' => (2, b"\t".to_vec()),
            '0' => (2, b"\0".to_vec()),
            'x' => (4, vec![u8::try_from(hex(2).expect("two hex digits")).expect("a byte")]),
            'u' => (6, char::from_u32(hex(4).expect("four hex digits")).expect("a character").to_string().into_bytes()),
            other => (1 + other.len_utf8(), other.to_string().into_bytes()),
        };
        bytes.extend(escaped);
        rest = &rest[at + taken..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[test]
fn every_row_of_the_table_holds() {
    let mut reader = csv::Reader::from_reader(CASES.as_bytes());
    let mut wrong = Vec::new();
    let mut rows = 0;
    for row in reader.records().map(|r| r.expect("a row")) {
        rows += 1;
        let bytes = if &row[2] == "escaped" { unescaped(&row[1]) } else { row[1].as_bytes().to_vec() };
        let answer = check_bytes(&bytes);
        let needs = answer.as_ref().map_or_else(|fault| fault.needs_smtputf8(), |a| a.needs_smtputf8());
        if answer.is_ok() != (&row[3] == "accept") || needs != (&row[4] == "yes") {
            wrong.push(format!("{}: {answer:?}, {}", &row[0], &row[7]));
        }
        if let Ok(address) = answer {
            assert!(!address.warnings().is_empty() || row[6].is_empty(), "{} has a policy and no warning", &row[0]);
        }
    }
    assert!(rows > 100, "{rows}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// More of each kind; `accept ASCII-FORM`, or `refuse WORD`. The address stands in the first column, escaped.
const MORE: &str = r#"
user@localhost | refuse single_label
user@@example.com | refuse domain
a@b@example.com | refuse domain
user@ | refuse no_mailbox
user | refuse no_mailbox
"a@b"@example.com | accept "a@b"@example.com
"a b"@example.com | accept "a b"@example.com
"a\\\\b"@example.com | accept "a\\b"@example.com
"a\\ b"@example.com | accept "a\ b"@example.com
"a"b"@example.com | refuse no_mailbox
"a""b"@example.com | refuse no_mailbox
"abc".def@example.com | refuse no_mailbox
"abc"def@example.com | refuse no_mailbox
o'brien@example.com | accept o'brien@example.com
Ada <ada@example.com> | refuse no_mailbox
mailto:ada@example.com | refuse no_mailbox
(c)ada@example.com | refuse no_mailbox
ada(c)@example.com | refuse no_mailbox
@relay.example,@b.example:ada@example.com | refuse no_mailbox
user%example.net@relay.example.org | accept user%example.net@relay.example.org
a\u200bb@example.com | refuse invisible_character
a\u200db@example.com | refuse invisible_character
a\u202eb@example.com | refuse invisible_character
a\u2066b@example.com | refuse invisible_character
a\u2028b@example.com | refuse invisible_character
a\u3000b@example.com | refuse invisible_character
a\u0085b@example.com | refuse invisible_character
a\u00adb@example.com | refuse invisible_character
ada@exa\u00admple.com | refuse invisible_character
ada@exa\u200bmple.com | refuse invisible_character
ada@exa\u200dmple.com | refuse idna
ada@example.com\u2029 | refuse invisible_character
ada@.example.com | refuse domain
ada@-example.com | refuse domain
ada@exam_ple.com | refuse domain
ada@exam ple.com | refuse domain
ada@example.com/path | refuse domain
ada@192.0.2.1 | refuse numeric_top_label
ada@[192.0.2.1] | accept ada@[192.0.2.1]
ada@[192.0.2.256] | refuse address_literal
ada@[192.0.2] | refuse address_literal
ada@[192.0.2.1.5] | refuse address_literal
ada@[] | refuse address_literal
ada@[ 192.0.2.1] | refuse address_literal
ada@[192.0.2.1]x | refuse address_literal
ada@[192.0.2.1]:25 | refuse address_literal
ada@192.0.2.1] | refuse domain
ada@[IPv6:::1] | accept ada@[IPv6:::1]
ada@[ipv6:2001:db8:0:0:0:0:0:1] | accept ada@[ipv6:2001:db8:0:0:0:0:0:1]
ada@[IPv6:::ffff:192.0.2.1] | accept ada@[IPv6:::ffff:192.0.2.1]
ada@[IPv6:0:0:0:0:0:ffff:192.0.2.1] | accept ada@[IPv6:0:0:0:0:0:ffff:192.0.2.1]
ada@[IPv6:::192.0.2.1] | accept ada@[IPv6:::192.0.2.1]
ada@[IPv6:2001:db8::192.0.2.1] | accept ada@[IPv6:2001:db8::192.0.2.1]
ada@[IPv6:1:2:3:4:5:6:7] | refuse address_literal
ada@[IPv6:1:2:3:4:5:6:7:8:9] | refuse address_literal
ada@[IPv6:1:2:3:4:5:6:7::] | refuse address_literal
ada@[IPv6:1::2::3] | refuse address_literal
ada@[IPv6:12345::1] | refuse address_literal
ada@[IPv6:fe80::1%eth0] | refuse address_literal
ada@[IPv6:] | refuse address_literal
ada@[fe80::1] | refuse address_literal
ada@[tag:] | refuse address_literal
ada@stra\u00dfe.example | accept ada@xn--strae-oqa.example
ada@\u4f8b\u3048.example | accept ada@xn--r8jz45g.example
ada@bu\u0308cher.example | accept ada@xn--bcher-kva.example
ada@B\u00dcCHER.Example | accept ada@xn--bcher-kva.example
ada@\u03b2\u03cc\u03bb\u03bf\u03c2.example | accept ada@xn--nxasmm1c.example
ada@\u2603.example | refuse idna
ada@\u2764.example | refuse idna
ada@i\u2665.example | refuse idna
ada@\u20ac.example | refuse idna
ada@\u30fb.example | refuse idna
ada@a\u00b7b.example | refuse idna
ada@l\u00b7l.example | accept ada@xn--ll-0ea.example
ada@\u0661\u06f1.example | refuse idna
ada@\u0300a.example | refuse idna
ada@ab--\u00fc.example | refuse idna
ada@\u00fc-.example | refuse idna
ada@\u05d0a.example | refuse idna
ada@b\u00fccher\u3002example | refuse idna
ada@b\u00fccher\uff0eexample | refuse idna
ada@b\u00fccher..example | refuse domain
ada@b\u00fccher.example. | refuse domain
ada@b\u00fccher.\uff11\uff12 | refuse numeric_top_label
ada@b\u00fc_cher.example | refuse idna
ada@xn--.example | refuse domain
ada@xn--zzzzzzzz.example | accept ada@xn--zzzzzzzz.example
\ud7ff\u0020@example.com | refuse no_mailbox
j\u00f6rg@b\u00fccher.example | accept jörg@xn--bcher-kva.example
"\\\u00fc"@example.com | refuse quoted_local_part
"a\u000d\u000aRCPT TO:<x>"@example.com | refuse quoted_local_part
"#;

#[test]
fn more_of_each_kind_hold() {
    let mut wrong = Vec::new();
    for line in MORE.lines().filter(|l| !l.is_empty()) {
        let (given, expected) = line.split_once(" | ").expect("two columns");
        let found = match check_bytes(&unescaped(given)) {
            Ok(address) => format!("accept {}", address.ascii()),
            Err(fault) => format!("refuse {}", fault.word()),
        };
        if found != expected {
            wrong.push(format!("{given}: {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_in_living_scripts_are_accepted() {
    for address in [
        "用户@例子.广告",
        "अजय@डाटा.भारत",
        "коля@пример.рф",
        "θσερ@παράδειγμα.ελ",
        "ผู้ใช้@ตัวอย่าง.ไทย",
        "사용자@예시.한국",
        "メール@ドメイン名例.テスト",
        "משתמש@דוגמה.קום",
        "ada@علیسردار.ایران",
        "ada@உதாரணம்.இந்தியா",
        "ada@მაგალითი.გე",
        "ada@օրինակ.հայ",
        "ada@උදාහරණ.ලංකා",
        "ada@ဥပမာ.မြန်မာ",
        "ada@אב1.example",
        "ada@ب۱۲۳.ایران",
        "Dörte@Sörensen.example.com",
        "ada@ｅｘａｍｐｌｅ.com",
    ] {
        assert!(check(address).is_ok(), "{address}: {:?}", check(address));
    }
}

#[test]
fn limits_count_octets_of_the_form_that_is_sent() {
    let long = format!("{}.example", "ü".repeat(60));
    assert_eq!(check(&format!("a@{long}")).unwrap_err(), AddressFault::DomainTooLong, "63 octets as an A-label");
    let quoted = |n: usize| format!("\"{}\"@example.com", "q".repeat(n));
    assert!(check(&quoted(62)).is_ok(), "64 octets with its quotes");
    assert_eq!(check(&quoted(63)).unwrap_err(), AddressFault::LocalPartTooLong { utf8: false });
    let labels = format!("{}.{}.{}.{}", "d".repeat(63), "d".repeat(63), "d".repeat(63), "d".repeat(62));
    assert_eq!(check(&format!("a@{labels}")).unwrap_err(), AddressFault::DomainTooLong);
    assert_eq!(check(&"x".repeat(1 << 20)).unwrap_err(), AddressFault::TooLong);
}

#[test]
fn two_spellings_of_a_mailbox_have_one_normal_form() {
    for (one, other) in [
        ("\"postmaster\"@example.com", "postmaster@EXAMPLE.com"),
        ("\"post\\master\"@example.com", "postmaster@example.com"),
        ("\"a\\ b\"@example.com", "\"a b\"@example.com"),
        ("ada@bücher.example", "ada@xn--bcher-kva.example"),
    ] {
        assert_eq!(check(one).unwrap().normal(), check(other).unwrap().normal());
    }
    assert_ne!(check("Ada@example.com").unwrap().normal(), check("ada@example.com").unwrap().normal(), "only the host knows (RFC 5321, 2.4)");
    assert!(check("jo\u{308}rg@example.com").is_ok_and(|a| a.ascii() == "jo\u{308}rg@example.com"), "sent as given, composed or not");
    assert_eq!(check("\"a..b\"@example.com").unwrap().normal(), "\"a..b\"@example.com");
    assert_eq!(check("\"a\\\"b\"@example.com").unwrap().normal(), "\"a\\\"b\"@example.com");
}

#[test]
fn the_masked_form_shows_one_letter_and_the_top_label() {
    for (address, masked) in [
        ("ada@example.com", "a•••@•••.com"),
        ("a@example.com", "•••@•••.com"),
        ("\"john doe\"@mail.example.co.uk", "j•••@•••.uk"),
        ("ada@[192.0.2.1]", "a•••@•••"),
        ("épée@bücher.example", "é•••@•••.example"),
    ] {
        let checked = check(address).unwrap();
        assert_eq!(checked.masked(), masked);
        assert_eq!(format!("{checked:?}"), format!("Address({masked})"));
    }
}

#[test]
fn warnings_name_what_a_person_should_look_at() {
    let of = |address: &str| check(address).unwrap().warnings();
    assert!(of("ada@firm.co").is_empty());
    assert_eq!(of("Postmaster@firm.co"), ["role account"]);
    assert_eq!(of("no-reply@firm.co"), ["an address that nobody reads"]);
    assert_eq!(of("ada@firm.invalid"), ["reserved domain"]);
    assert_eq!(of("ada@[192.0.2.1]"), ["address literal"]);
}

proptest! {
    #[test]
    fn any_text_has_an_answer_that_never_repeats_it(text in "\\PC{0,80}") {
        if let Err(fault) = check(&text) {
            prop_assert!(text.chars().count() < 12 || !fault.to_string().contains(&text));
        }
    }

    #[test]
    fn any_bytes_have_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _answer = check_bytes(&bytes);
    }

    #[test]
    fn what_is_accepted_is_accepted_again_in_its_ascii_form(local in "[a-zé.\"\\\\ ]{1,12}", domain in "[a-zü0-9.\\-]{1,20}\\.[a-zé]{1,6}") {
        if let Ok(address) = check(&format!("{local}@{domain}")) {
            let again = check(&address.ascii());
            prop_assert!(again.is_ok_and(|a| a.ascii() == address.ascii() && a.normal() == address.normal()));
            prop_assert!(!address.ascii().contains(['\r', '\n', '\0', '<', '>']) || address.local().starts_with('"'));
        }
    }
}
