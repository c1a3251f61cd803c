//! Messages, read back by a parser of another house: same bytes at each call, and every part exactly as it was given.

use curfew_domain::address::{self, Address};
use curfew_domain::{JobId, Key, Moment};
use curfew_transport::message::{Attached, BuiltMessage, LINE_OCTETS_MAX, Mailbox, MessageParts, ProviderKey, build};
use mail_parser::{MessageParser, MimeHeaders};

struct Given {
    to: Address,
    from: Address,
    key: Key,
    job: JobId,
}

fn given(to: &str) -> Given {
    Given {
        to: address::check(to).expect("an address"),
        from: address::check("reports@bücher.example").expect("an address"),
        key: Key::parse("acme/renewal-reminder/R-1042/2026-12-01").expect("a key"),
        job: JobId::parse("01939d2c-5f00-7000-8000-000000000001").expect("an id"),
    }
}

fn parts<'a>(given: &'a Given, name: Option<&'a str>, subject: &'a str, text: Option<&'a str>, html: Option<&'a str>) -> MessageParts<'a> {
    MessageParts {
        job_id: given.job,
        key: &given.key,
        content_revision: 1,
        release_at: Moment::parse("2026-12-01T08:30:00.250-05:00").expect("a time"),
        from: Mailbox { name: Some("Müller & Söhne, Reports"), address: &given.from },
        to: Mailbox { name, address: &given.to },
        subject,
        text,
        html,
        list_unsubscribe: None,
        attachments: &[],
        provider_key: None,
    }
}

/// What every message keeps: CRLF alone, 998 octets, 7 bit outside address headers that need SMTPUTF8, one end.
fn wire_rules_hold(message: &BuiltMessage) {
    assert!(message.bytes.ends_with(b"\r\n"));
    assert_eq!(message.size, message.bytes.len() as u64);
    for line in message.bytes.split_inclusive(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r\n").expect("every LF follows a CR");
        assert!(line.len() <= LINE_OCTETS_MAX, "{} octets", line.len());
        assert!(!line.contains(&b'\r') && !line.contains(&0), "no lone CR, no NUL");
        let address_header = line.starts_with(b"To:") || line.windows(2).any(|w| w == b" <");
        assert!(line.is_ascii() || (message.needs_smtputf8 && address_header), "7 bit: {}", String::from_utf8_lossy(line));
    }
}

/// A body as M4 promises it back.
fn normal(body: &str) -> String {
    let mut lines = body.replace("\r\n", "\n").replace('\r', "\n");
    if !lines.ends_with('\n') {
        lines.push('\n');
    }
    lines.replace('\n', "\r\n")
}

#[test]
fn the_same_parts_give_the_same_bytes_and_a_fixed_form() {
    let given = given("ada@example.com");
    let attachments = [Attached { name: "terms.pdf", bytes: b"%PDF-1.4" }];
    let parts = MessageParts {
        list_unsubscribe: Some("https://example.com/off?r=1"),
        attachments: &attachments,
        provider_key: Some(ProviderKey { header: "Curfew-Idempotency-Key", value: "acme-1" }),
        ..parts(&given, Some("Ada Lovelace"), "Your plan renews", Some("Hello\n.\n"), Some("<p>Hello</p>"))
    };
    let first = build(&parts).expect("built");
    for _again in 0..50 {
        assert_eq!(build(&parts), Ok(first.clone()));
    }
    wire_rules_hold(&first);
    assert_eq!(String::from_utf8_lossy(&first.bytes), include_str!("message_golden.eml").replace('\n', "\r\n"));
    assert!(first.message_id.ends_with("@xn--bcher-kva.example>"));
    let corrected = build(&MessageParts { content_revision: 2, ..parts }).expect("built");
    assert_ne!(corrected.message_id, first.message_id);
    let other = Key::parse("acme/renewal-reminder/R-1043/2026-12-01").expect("a key");
    assert_ne!(build(&MessageParts { key: &other, ..parts }).expect("built").message_id, first.message_id);
}

#[test]
fn a_reader_gets_back_subject_name_address_and_bodies_exactly() {
    let long_subject = "Ihre Verlängerung 年間プラン ".repeat(12);
    let ascii_300 = "x".repeat(300);
    let words_300 = "renewal reminder ".repeat(18);
    let subjects = [
        "Your plan renews",
        "Ihre Verlängerung: ¡mañana!",
        "年間プランの更新のお知らせ",
        "تجديد اشتراكك غدًا",
        "חידוש המנוי",
        "🎉🎂👩‍👩‍👧‍👦 renews",
        "e\u{301}a\u{308} n\u{303}",
        "\u{301}\u{308}",
        "=?utf-8?q?not_encoded?=",
        "re: =?iso-8859-1?B?eA==?= x",
        " leading",
        "trailing ",
        "two  spaces",
        "a:b; c=\"d\" <e@example.com>",
        long_subject.trim_end(),
        &ascii_300,
        words_300.trim_end(),
        "Café Ünïcode and plain words mixed with ümläuts",
        "O'Brien’s plan",
    ];
    for subject in subjects {
        let given = given("ada@example.com");
        let message = build(&parts(&given, None, subject, Some("x"), None)).expect("built");
        wire_rules_hold(&message);
        assert_eq!(
            MessageParser::new().parse(&message.bytes).expect("parsed").subject(),
            Some(subject),
            "{}",
            String::from_utf8_lossy(&message.bytes)
        );
    }
    let long_name = "Johann Gambolputty de von Ausfern-schplenden-schlitter-crasscrenbon-fried-digger-dingle-dangle ".repeat(3);
    let names = [
        "Ada Lovelace",
        "O'Brien, Zoë",
        "Anne-Marie D'Arc",
        "李小龍",
        "محمد علي",
        "Łukasz “Łu” Żak",
        "\"Q\" \\ Smith",
        "a@example.com",
        "Dr. No (retired)",
        "=?utf-8?q?x?=",
        "J. R. \"Bob\" <x>; y",
        long_name.trim_end(),
    ];
    for (to, ascii) in [
        ("ada+renewal@example.com", "ada+renewal@example.com"),
        ("o'brien@example.com", "o'brien@example.com"),
        ("ada@bücher.example", "ada@xn--bcher-kva.example"),
        ("用户@例子.example", "用户@xn--fsqu00a.example"),
        ("\"john doe\"@example.com", "john doe@example.com"),
        (&format!("{}@{}.example", "l".repeat(64), "d".repeat(63)), &format!("{}@{}.example", "l".repeat(64), "d".repeat(63))),
    ] {
        for name in names {
            let given = given(to);
            let message = build(&parts(&given, Some(name), "s", Some("x"), None)).expect("built");
            wire_rules_hold(&message);
            assert_eq!(message.needs_smtputf8, to.starts_with('用'));
            let parsed = MessageParser::new().parse(&message.bytes).expect("parsed");
            let found = parsed.to().and_then(|a| a.first()).expect("one recipient");
            assert_eq!(found.name(), Some(name), "{}", String::from_utf8_lossy(&message.bytes));
            assert_eq!(found.address().map(|a| a.replace('"', "")), Some(ascii.to_owned()), "{}", String::from_utf8_lossy(&message.bytes));
            let from = parsed.from().and_then(|a| a.first()).expect("one sender");
            assert_eq!((from.name(), from.address()), (Some("Müller & Söhne, Reports"), Some("reports@xn--bcher-kva.example")));
        }
    }
}

#[test]
fn bodies_come_back_line_for_line() {
    let long_line = "https://example.com/?q=".to_owned() + &"0123456789".repeat(200);
    let bodies = [
        "Hello\n",
        "no line end",
        "",
        "\n\n\n",
        ".\n..\n.\nlast line is a dot\n.",
        "trailing spaces   \nand a tab\t\n",
        "lone CR\rlone LF\nCRLF\r\nmixed\n\r",
        "From the start\n>From here\n",
        "Grüße aus Köln = schön\n",
        "更新のお知らせ\n年間プラン\n",
        "שלום\nمرحبا\n",
        "👩‍👩‍👧‍👦\n",
        "=3D =\n=\n",
        "--=_x\n--\n",
        &long_line,
        &"ü".repeat(2_000),
        &"wörd ".repeat(400),
        "a\u{2028}b\u{85}c",
        "nul\u{0}and \u{1b} escape, should they ever come this far",
    ];
    for body in bodies {
        let given = given("ada@example.com");
        for (text, html) in [(Some(body), None), (None, Some(body)), (Some(body), Some(body)), (Some("x"), Some(body))] {
            for attachments in [&[][..], &[Attached { name: "a.bin", bytes: b"\x00\xff" }]] {
                let message = build(&MessageParts { attachments, ..parts(&given, None, "s", text, html) }).expect("built");
                wire_rules_hold(&message);
                let parsed = MessageParser::new().parse(&message.bytes).expect("parsed");
                if let Some(text) = text {
                    assert_eq!(parsed.body_text(0).as_deref(), Some(normal(text).as_str()), "{}", String::from_utf8_lossy(&message.bytes));
                }
                if let Some(html) = html {
                    assert_eq!(parsed.body_html(0).as_deref(), Some(normal(html).as_str()));
                }
                assert_eq!(parsed.attachment_count(), attachments.len());
            }
        }
    }
    let given = given("ada@example.com");
    assert_eq!(build(&parts(&given, None, "s", None, None)).expect_err("no body").field, "content");
}

/// A body that holds the job's own boundary can't end its part early.
#[test]
fn a_body_that_holds_the_boundary_stays_one_body() {
    let given = given("ada@example.com");
    let message = build(&parts(&given, None, "s", Some("x"), Some("y"))).expect("built");
    let bytes = String::from_utf8(message.bytes).expect("ascii");
    let boundary = bytes.lines().find(|l| l.starts_with("--=_")).expect("a boundary line");
    let text = format!("before\n{boundary}\nContent-Type: text/html\n\ninjected\n{boundary}--\nafter\n");
    let message = build(&parts(&given, None, "s", Some(&text), Some("y"))).expect("built");
    let parsed = MessageParser::new().parse(&message.bytes).expect("parsed");
    assert_eq!(parsed.body_text(0).as_deref(), Some(normal(&text).as_str()));
    assert_eq!(parsed.body_html(0).as_deref(), Some("y\r\n"));
}

#[test]
fn attachments_come_back_byte_for_byte_under_a_safe_name() {
    let long = format!("{}.pdf", "quarterly-report-".repeat(13));
    let long_umlauts = format!("{}.pdf", "ü".repeat(110));
    let names = [
        ("report.pdf", "report.pdf"),
        ("a \"quoted\" name.pdf", "a \"quoted\" name.pdf"),
        ("semi;colon=1.pdf", "semi;colon=1.pdf"),
        ("../../x/evil.pdf", "evil.pdf"),
        ("a\r\nX-Evil: 1.pdf", "aX-Evil: 1.pdf"),
        ("ann\u{202e}fdp.exe", "annfdp.exe"),
        ("Übersicht Mai.pdf", "Übersicht Mai.pdf"),
        ("年間.pdf", "年間.pdf"),
        ("100%.pdf", "100%.pdf"),
        ("it's*ö'.pdf", "it's*ö'.pdf"),
        ("noending", "noending"),
        ("back\\slash.pdf", "slash.pdf"),
        ("🎉.png", "🎉.png"),
        (&long, &long),
        (&long_umlauts, &long_umlauts),
        ("", "attachment"),
        ("=?utf-8?q?x?=.pdf", "=_utf-8?q?x?=.pdf"),
    ];
    let bytes: Vec<u8> = (0..=1_000u32).map(|n| (n * 7 % 256) as u8).collect();
    for (index, (name, safe)) in names.into_iter().enumerate() {
        let given = given("ada@example.com");
        // Sizes modulo 3, and around the length of a base64 line: another library lost the last bytes there.
        for size in [0, 1, 2, 3, 55 + index, 56 + index, 57 + index, 998, 999, 1_000] {
            let attachments = [Attached { name, bytes: &bytes[..size] }, Attached { name: "second.csv", bytes: b"a;b\n" }];
            let message = build(&MessageParts { attachments: &attachments, ..parts(&given, None, "s", Some("x"), None) }).expect("built");
            wire_rules_hold(&message);
            let parsed = MessageParser::new().parse(&message.bytes).expect("parsed");
            let found: Vec<_> = parsed.attachments().collect();
            assert_eq!(found.len(), 2);
            assert_eq!(found[0].attachment_name(), Some(safe), "{}", String::from_utf8_lossy(&message.bytes));
            assert_eq!(found[0].contents(), &bytes[..size]);
            assert_eq!((found[1].attachment_name(), found[1].contents()), (Some("second.csv"), b"a;b\n".as_slice()));
        }
    }
}

#[test]
fn a_release_outside_the_years_of_a_date_still_gives_one() {
    let given = given("ada@example.com");
    for (release, date) in
        [(-1, "Thu, 01 Jan 1970 00:00:00 +0000"), (i64::MIN, "Thu, 01 Jan 1970 00:00:00 +0000"), (i64::MAX, "Fri, 31 Dec 9999 23:59:59 +0000")]
    {
        let message = build(&MessageParts { release_at: Moment::from_millis(release), ..parts(&given, None, "s", Some("x"), None) }).expect("built");
        assert!(String::from_utf8_lossy(&message.bytes).starts_with(&format!("Date: {date}\r\n")), "{}", String::from_utf8_lossy(&message.bytes));
    }
}
