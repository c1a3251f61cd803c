//! `fleet status|pause|resume|drain`.

use serde_json::{Value, json};

use super::args::{FleetVerb, Hold};
use super::client::{Client, Path};
use super::output::Output;
use super::review::present;
use crate::exit::{Ended, Exit};

/// Carries out a verb on what runs.
///
/// # Errors
/// `Failure`, as every verb.
pub fn run(client: &Client, verb: &FleetVerb, out: Output) -> Ended {
    let answer = match verb {
        FleetVerb::Status => client.get(Path::of("/v1/fleet"))?,
        FleetVerb::Pause(hold) => client.post(Path::of("/v1/fleet/pause"), &body(hold))?,
        FleetVerb::Resume(hold) => client.post(Path::of("/v1/fleet/resume"), &body(hold))?,
        FleetVerb::Drain => client.post(Path::of("/v1/fleet/drain"), &json!({}))?,
    };
    out.object(&answer)?;
    Ok(Exit::Done)
}

/// Without a transport, tenant or shard: everything.
fn body(hold: &Hold) -> Value {
    present(json!({"transport": hold.transport, "tenant": hold.tenant, "shard": hold.shard, "reason": hold.reason}))
}
