//! `suppressions add|remove|list`.

use serde_json::json;

use super::args::SuppressionsVerb;
use super::client::{Client, Path};
use super::jobs::{List, listed};
use super::output::Output;
use super::review::present;
use crate::exit::{Ended, Exit};

/// Carries out a verb on the suppressions list. Addresses travel in bodies, never in a URL that somebody logs.
///
/// # Errors
/// `Failure`, as every verb.
pub fn run(client: &Client, verb: &SuppressionsVerb, out: Output) -> Ended {
    let path = || Path::of("/v1/suppressions");
    let answer = match verb {
        SuppressionsVerb::Add(a) => client.post(path(), &present(json!({"address": a.address, "tenant": a.tenant, "reason": a.reason})))?,
        SuppressionsVerb::Remove(a) => client.delete(path(), &present(json!({"address": a.address, "tenant": a.tenant, "reason": a.reason})))?,
        SuppressionsVerb::List(args) => {
            let path = || path().query("tenant", args.tenant.as_deref());
            let columns = &["recipient_ref", "recipient_masked", "tenant", "reason", "actor", "since"];
            return listed(client, path, args.limit, &List { columns, empty: "no suppressions" }, out);
        }
    };
    out.object(&answer)?;
    Ok(Exit::Done)
}
