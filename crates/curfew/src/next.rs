//! The binary with the format after this one, which stands for the next release in `tests/tests/formats.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    curfew::cli::run(&curfew::verbs::Wired).into()
}
