//! Addresses, as a submitted line, a form or a command brings them.

use curfew_domain::address::{ADDRESS_OCTETS_MAX, Address, LOCAL_PART_OCTETS_MAX, check, check_bytes};

/// An accepted address is read again from each of its spellings as the same mailbox; a refusal repeats nothing of it.
pub fn address(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let address = match check_bytes(bytes) {
        Ok(address) => address,
        Err(fault) => {
            // Its sentences are fixed: there is nothing that could repeat the address.
            assert!(!fault.word().is_empty() && !fault.to_string().is_empty());
            return;
        }
    };
    assert_eq!(address.given().as_bytes(), bytes);
    assert!(address.local().len() <= LOCAL_PART_OCTETS_MAX && address.ascii().len() <= ADDRESS_OCTETS_MAX);
    assert!(address.domain().is_ascii() && !address.ascii().chars().any(char::is_control), "an envelope that injects");
    assert_eq!(address.needs_smtputf8(), !address.ascii().is_ascii());

    let sent = again(&address.ascii());
    assert_eq!((sent.ascii(), sent.normal(), sent.folded()), (address.ascii(), address.normal(), address.folded()));
    let normal = again(&address.normal());
    assert_eq!((normal.normal(), normal.folded()), (address.normal(), address.folded()));
    // What references are made of is one spelling for a mailbox, however often it is folded.
    assert_eq!(check(&address.folded()).map_or_else(|_too_long| address.folded(), |folded| folded.folded()), address.folded());

    // Behind the `@` stands the top label, which may hold any letters.
    let masked = address.masked();
    let shown = masked.split('@').next().unwrap_or_default();
    assert!(shown.chars().filter(|c| c.is_alphanumeric()).count() <= 1, "the masked form shows the local part");
    assert!(!format!("{address:?}").contains(&*text), "a Debug shows the address");
    let _words = address.warnings();
}

fn again(text: &str) -> Address {
    check(text).unwrap_or_else(|fault| panic!("a spelling of an accepted address is refused: {fault}"))
}
