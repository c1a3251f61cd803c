//! curfew
fn main() {}
