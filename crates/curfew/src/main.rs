//! The binary: see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    curfew::cli::run(&curfew::verbs::Wired).into()
}
