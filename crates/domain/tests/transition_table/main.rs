//! The whole of `transition`, as text: for each event every state, under every condition that matters to it.
//!
//! `check` builds every combination of a table's values. It fails on a row that lies, a combination without a row or with two, and a row
//! that fits nothing. A cell is `any`, a value, several (`a, b`), all others (`not a, b`), or a group of states: `waiting` is scheduled
//! and queued, `ended` are sent, dead_letter, cancelled and suppressed, with and without `+`, which says that the book has recorded it.
//! An answer is the next state with its reason, or the refusal; then what became of the attempt's count; `in doubt`, where a handoff of
//! this generation is; and the number of tokens whose fate is open.

mod attempt;
mod check;
mod errand;
#[path = "../records/mod.rs"]
mod records;
mod recovery;
#[path = "../table/mod.rs"]
mod table;
mod verdict;
mod waiting;
