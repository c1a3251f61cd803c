//! What `--help` says, as a golden file. `UPDATE_GOLDEN=1` rewrites it.

use std::path::Path;

use clap::{Command, CommandFactory};
use curfew::cli::args::Cli;

fn collect(command: &mut Command, path: &str, into: &mut String) {
    let path = format!("{path}{}{}", if path.is_empty() { "" } else { " " }, command.get_name());
    into.push_str(&format!("# {path} --help\n\n{}\n", command.render_long_help()));
    for inner in command.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        collect(inner, &path, into);
    }
}

#[test]
fn every_verb_says_what_it_does_in_the_words_of_the_golden_file() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut found = String::new();
    collect(&mut command, "", &mut found);
    let found: String = found.lines().map(|l| l.trim_end().to_owned() + "\n").collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &found).expect("written");
    }
    assert_eq!(found, std::fs::read_to_string(golden).expect("the golden file"), "help is read by people: change it on purpose");
}
