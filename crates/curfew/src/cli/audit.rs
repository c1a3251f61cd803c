//! `audit list|verify`.

use serde_json::Value;

use super::args::AuditVerb;
use super::client::{Client, Path};
use super::jobs::listed;
use super::output::Output;
use crate::exit::{Ended, Exit};

/// Carries out a verb on the audit trail.
///
/// # Errors
/// `Failure`, as every verb.
pub fn run(client: &Client, verb: &AuditVerb, out: Output) -> Ended {
    match verb {
        AuditVerb::List(args) => listed(client, || Path::of("/v1/audit"), args.limit, &["at", "actor", "action", "object", "reason"], out),
        AuditVerb::Verify => {
            let answer = client.get(Path::of("/v1/audit/verify"))?;
            out.object(&answer)?;
            Ok(if answer.get("ok").and_then(Value::as_bool) == Some(false) { Exit::Refused } else { Exit::Done })
        }
    }
}
