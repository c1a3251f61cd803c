//! `keys new`: a `[keys]` table of fresh random keys. Nothing is stored.

use serde_json::json;

use super::output::{self, Output};
use crate::config::new_keys_table;
use crate::exit::{Ended, Exit};

/// Prints the table.
///
/// # Errors
/// Where stdout can't be written.
pub fn new(out: Output) -> Ended {
    let table = new_keys_table();
    if out.json {
        output::line(&json!({"config": table}).to_string())?;
    } else {
        output::text(&table)?;
    }
    Ok(Exit::Done)
}
