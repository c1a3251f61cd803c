//! `fleet status|pause|resume|drain`.

use serde_json::{Value, json};

use super::args::{FleetVerb, Hold};
use super::client::{Client, Path};
use super::output::{self, Output, Table};
use super::review::present;
use crate::exit::{Ended, Exit};

/// Carries out a verb on what runs.
///
/// # Errors
/// `Failure`, as every verb.
pub fn run(client: &Client, verb: &FleetVerb, out: Output) -> Ended {
    let answer = match verb {
        FleetVerb::Status => return status(client.get(Path::of("/v1/fleet"))?, out),
        FleetVerb::Pause(hold) => client.post(Path::of("/v1/fleet/pause"), &body(hold))?,
        FleetVerb::Resume(hold) => client.post(Path::of("/v1/fleet/resume"), &body(hold))?,
        FleetVerb::Drain => client.post(Path::of("/v1/fleet/drain"), &json!({}))?,
    };
    out.object(&answer)?;
    Ok(Exit::Done)
}

/// For people the processes stand in a table of their own, at the end.
fn status(mut fleet: Value, out: Output) -> Ended {
    if out.json {
        out.object(&fleet)?;
        return Ok(Exit::Done);
    }
    let processes = fleet.as_object_mut().and_then(|fields| fields.remove("processes"));
    out.object(&fleet)?;
    let mut table = Table::new(&["name", "roles", "version", "state", "since"]);
    processes.iter().filter_map(Value::as_array).flatten().for_each(|process| table.add(process));
    if table.len() > 0 {
        output::text(&format!("\n{}", table.lines()))?;
    }
    Ok(Exit::Done)
}

/// Without a transport, tenant or shard: everything.
fn body(hold: &Hold) -> Value {
    present(json!({"transport": hold.transport, "tenant": hold.tenant, "shard": hold.shard, "reason": hold.reason}))
}
