//! Real servers for tests: each started on free loopback ports with a data folder of its own, and ended by its pid with its value.
//!
//! A test that lacks its server fails and says what to install; it never passes by returning early.

pub mod postgres;
pub mod rabbit;
pub mod redis;
