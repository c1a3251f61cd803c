//! The sentence an operator needs.
