//! `audit list|verify`.

use serde_json::Value;

use super::args::AuditVerb;
use super::client::{Client, Path};
use super::jobs::{List, listed};
use super::output::Output;
use crate::exit::{Ended, Exit};

/// Carries out a verb on the audit trail.
///
/// # Errors
/// `Failure`, as every verb.
pub fn run(client: &Client, verb: &AuditVerb, out: Output) -> Ended {
    match verb {
        AuditVerb::List(args) => {
            let list = List { columns: &["at", "actor", "action", "object", "reason"], empty: "no audit entries" };
            listed(client, || Path::of("/v1/audit"), args.limit, &list, out)
        }
        AuditVerb::Verify => {
            let answer = client.get(Path::of("/v1/audit/verify"))?;
            out.object(&answer)?;
            Ok(if answer.get("ok").and_then(Value::as_bool) == Some(false) { Exit::Refused } else { Exit::Done })
        }
    }
}
