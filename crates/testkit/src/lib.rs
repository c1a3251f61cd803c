//! The testkit holds what tests lean on: a mail server that counts, a proxy that breaks, a clock set by hand.
//!
//! Promises
//! - T1  What the mail server accepted is in its log before the reply leaves: a killed client changes no count.
//! - T2  A test never sleeps: servers say where they are, and every wait has a deadline and names what it waited for.
//! - T3  Random faults repeat: each is decided by (seed, subject, attempt), and the seed is printed.
//!
//! Not promised: a complete mail server. It queues nothing, relays nothing and listens on loopback.
//!
//! Read `mail_server/script.rs` first, then `mail_server/mod.rs`.

pub mod clock;
pub mod eventually;
pub mod faults;
pub mod mail_server;
#[cfg(feature = "sim")]
pub mod sim;
pub mod tcp_proxy;

pub use clock::HandClock;
pub use eventually::eventually;
pub use faults::{Dice, seed};
pub use mail_server::{Action, Config, MailServer, Stage};
pub use tcp_proxy::{Passage, TcpProxy};
