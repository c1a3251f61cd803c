//! Mailboxes: what may stand in RCPT TO.
