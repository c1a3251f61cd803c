//! The API, tested from outside: through the door's function, and over HTTP on a SQLite store.

mod door;
mod events;
mod guard;
mod house;
mod jobs;
mod life;
mod openapi;
mod operations;
mod recovery;
mod review;
mod schedules;
mod support;
