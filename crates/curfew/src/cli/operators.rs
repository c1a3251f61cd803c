//! `operators new`: a token, shown once, and the configuration's lines for it. Nothing is stored.

use curfew_domain::key::check_part;
use serde_json::json;

use super::args::OperatorNew;
use super::output::{self, Output};
use crate::config::{OPERATOR_ROLES, configuration_lines, new_token, token_hash};
use crate::exit::{Ended, Exit, Failure};

/// Prints token and lines.
///
/// # Errors
/// Usage, for a name, role or tenant that is none.
pub fn new(args: &OperatorNew, out: Output) -> Ended {
    check_part(&args.name).map_err(|e| Failure::usage(format!("the name {e}")))?;
    let mut roles = Vec::new();
    for word in &args.roles {
        let known = OPERATOR_ROLES.iter().find(|(w, _)| w == word).map(|(_, role)| *role);
        roles.push(known.ok_or_else(|| Failure::usage(format!("{word:?} is no role; allowed: view, submit, review, fleet, privacy")))?);
    }
    if roles.is_empty() {
        roles = OPERATOR_ROLES.iter().map(|(_, role)| *role).collect();
    }
    let mut tenants = args.tenants.clone();
    if tenants.is_empty() {
        tenants = vec!["*".to_owned()];
    }
    if let Some(wrong) = tenants.iter().find(|t| *t != "*" && check_part(t).is_err()) {
        return Err(Failure::usage(format!("{wrong:?} is no tenant; allowed: letters, digits and . _ : -, or *")));
    }
    let token = new_token();
    let lines = configuration_lines(&args.name, &token_hash(&token), &roles, &tenants);
    if out.json {
        output::line(&json!({"name": args.name, "token": token, "token_hash": token_hash(&token), "config": lines}).to_string())?;
    } else {
        output::text(&format!("# The token of {}, shown this once; give it in CURFEW_TOKEN:\n# {token}\n{lines}", args.name))?;
    }
    Ok(Exit::Done)
}
