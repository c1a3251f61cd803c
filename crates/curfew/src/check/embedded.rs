//! The embedded stores: a folder and a file.

use std::path::Path;

use super::Line;
use crate::config::Config;
use crate::wire;

/// The data folder.
pub(super) fn folder(data: &Path) -> Line {
    let says = if !data.exists() { "will be made at the first start" } else { "there" };
    let ok = !data.exists() || data.is_dir() && data.metadata().is_ok_and(|m| !m.permissions().readonly());
    Line {
        what: format!("data folder {}", data.display()),
        ok,
        says: if ok { says.to_owned() } else { "not a folder that this user can write".to_owned() },
    }
}

/// Embedded, acceptance, intents and operators' verbs wait for the disk.
pub(super) fn durability(config: &Config, file: &Path) -> Line {
    let enough = wire::durable_enough(config);
    Line {
        what: format!("book and ledger {}", file.display()),
        ok: enough.is_ok(),
        says: enough.map_or_else(|e| e.to_string(), |()| "durability fsync (SQLite, synchronous=FULL for what must last)".to_owned()),
    }
}
