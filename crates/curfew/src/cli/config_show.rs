//! `config show`: the effective configuration and where each value came from, secrets masked.

use serde_json::{Value, json};

use super::args::ConfigShow;
use super::configuration;
use super::output::{self, Output, Table};
use crate::config::{Deployment, Sources};
use crate::exit::{Ended, Exit};

/// Prints every value.
///
/// # Errors
/// Every fault of the configuration, with exit 2.
pub fn show(args: &ConfigShow, out: Output) -> Ended {
    let config = configuration(&Sources::of_process(args.config.clone()), Deployment::AsGiven)?;
    if out.json {
        let values: Vec<Value> = config.shown.iter().map(|s| json!({"key": s.key, "value": s.value, "from": s.origin.to_string()})).collect();
        output::line(&json!({"file": config.file, "values": values}).to_string())?;
    } else {
        let mut table = Table::new(&["key", "value", "from"]);
        for s in &config.shown {
            table.row(vec![s.key.clone(), output::plain(&s.value), output::plain(&s.origin.to_string())]);
        }
        output::text(&table.lines())?;
    }
    Ok(Exit::Done)
}
