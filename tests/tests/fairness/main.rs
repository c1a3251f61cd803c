//! Fairness and limits of a whole fleet, in virtual time: the real scheduler, worker and dead-letter loops on simulated stores, broker, network
//! and mail servers. Rates, windows and lateness are those of the fleet's rules, not of the machine that runs the tests; a run is exact.
//!
//! Promises
//! - A large tenant makes no small one late (`tenants.rs`); its own limit in flight is used to the full.
//! - A provider's rate is kept in every ten seconds, over all workers (`rates.rs`).
//! - A broken credential ends no job whose deadline lies beyond the repair (`credentials.rs`).
//! - A provider that throttles costs less than one and a half attempts a job, and no deadline that can be met (`throttles.rs`).
//! - A throttled recipients' domain holds up no other (`domains.rs`).
//! - A slow transport takes no more than its share (`slow.rs`).
//!
//! `CURFEW_FAIRNESS_FULL=1` runs them with as many jobs as their promises name; without it with a tenth of them or less.
//!
//! Not promised: how fast a real machine is (`loadtest`).
//!
//! Read `house.rs` first.

mod credentials;
mod domains;
mod house;
#[path = "../simulation/ports.rs"]
mod ports;
mod rates;
mod slow;
mod tenants;
mod throttles;
