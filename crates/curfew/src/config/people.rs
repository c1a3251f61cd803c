//! `[operators.*]`: who may speak to the API.
//!
//! A token is 256 random bits as hex behind `curfew_`; the configuration holds its SHA-256. A slow hash would defend a guessable
//! password; nobody guesses 256 bits.

use std::collections::BTreeMap;
use std::fmt;

use curfew_domain::key::check_part;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::policies::name_fault;
use super::reader::{self, Reader};
use super::stores::word_of;

/// What tokens begin with, so that scanners for leaked secrets find them.
const TOKEN_PREFIX: &str = "curfew_";

impl Role {
    /// Its word in the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Role::View => "view",
            Role::Submit => "submit",
            Role::Review => "review",
            Role::Fleet => "fleet",
            Role::Privacy => "privacy",
        }
    }
}

/// What an operator may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Read lists and records.
    View,
    /// Submit jobs.
    Submit,
    /// Work on review items.
    Review,
    /// Pause, resume, drain.
    Fleet,
    /// Find, export and erase recipients.
    Privacy,
}

/// Every role, by its word.
pub const ROLES: &[(&str, Role)] =
    &[("view", Role::View), ("submit", Role::Submit), ("review", Role::Review), ("fleet", Role::Fleet), ("privacy", Role::Privacy)];

/// An operator.
#[derive(Clone, PartialEq, Eq)]
pub struct Operator {
    /// The name that stands in the audit trail.
    pub name: String,
    /// All of them, unless given.
    pub roles: Vec<Role>,
    /// `None`: every tenant.
    pub tenants: Option<Vec<String>>,
    hash: [u8; 32],
}

impl Operator {
    /// The SHA-256 of its token.
    pub fn token_hash(&self) -> [u8; 32] {
        self.hash
    }

    /// Whether a token is this operator's. Takes the same time wherever they differ.
    pub fn has_token(&self, token: &str) -> bool {
        digest(token).ct_eq(&self.hash).into()
    }

    /// The SHA-256 of its token.
    pub const fn hash(&self) -> &[u8; 32] {
        &self.hash
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator({}, {:?}, {:?})", self.name, self.roles, self.tenants)
    }
}

/// A new token of 256 random bits.
pub fn new_token() -> String {
    let mut bits = [0_u8; 32];
    rand::fill(&mut bits);
    format!("{TOKEN_PREFIX}{}", hex::encode(bits))
}

/// What the configuration keeps of a token: its SHA-256, lower-case hex.
pub fn token_hash(token: &str) -> String {
    hex::encode(digest(token))
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Reads all operators.
pub fn read(reader: &mut Reader) -> BTreeMap<String, Operator> {
    let mut all = BTreeMap::new();
    for name in reader.given.names("operators") {
        if let Some(says) = name_fault(&name) {
            reader.refuse(&["operators", &name], says);
            continue;
        }
        if let Some(operator) = one(reader, &name) {
            all.insert(name, operator);
        }
    }
    all
}

fn one(reader: &mut Reader, name: &str) -> Option<Operator> {
    let path = |key| ["operators", name, key];
    let role = |t: &str| ROLES.iter().find(|(w, _)| *w == t).map(|(_, r)| *r);
    let roles = reader::list("a list of view, submit, review, fleet, privacy", role, |roles| {
        roles.iter().map(|r| word_of(ROLES, r)).collect::<Vec<_>>().join(", ")
    });
    let roles = reader.or(&path("roles"), &roles, ROLES.iter().map(|(_, r)| *r).collect());
    let tenant = |t: &str| (t == "*" || check_part(t).is_ok()).then(|| t.to_owned());
    let tenants = reader::list("a list of tenants, or [\"*\"] for all", tenant, |t| t.join(", "));
    let tenants = reader.or(&path("tenants"), &tenants, vec!["*".into()]);
    let tenants = (!tenants.iter().any(|t| t == "*")).then_some(tenants);
    let path = path("token_hash");
    let Some((given, origin)) = reader.secret(&path) else {
        reader.refuse(&path, "is missing; `curfew operators new` prints one");
        return None;
    };
    match hex::decode(given.expose()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
        Some(hash) => Some(Operator { name: name.to_owned(), roles, tenants, hash }),
        None => {
            let says = "allowed: the 64 hex digits that `curfew operators new` prints".to_owned();
            reader.faults.push(super::Fault { origin, key: path.join("."), value: Some("********".into()), says });
            None
        }
    }
}

/// The configuration's lines for an operator, for `operators new`.
pub fn configuration_lines(name: &str, hash: &str, roles: &[Role], tenants: &[String]) -> String {
    let list = |items: Vec<String>| items.iter().map(|i| format!("{i:?}")).collect::<Vec<_>>().join(", ");
    let roles = list(roles.iter().map(|r| word_of(ROLES, r)).collect());
    format!("[operators.{}]\ntoken_hash = {hash:?}\nroles = [{roles}]\ntenants = [{}]\n", table_name(name), list(tenants.to_vec()))
}

/// A name as a TOML key: quoted where it must be.
fn table_name(name: &str) -> String {
    let bare = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { name.to_owned() } else { format!("{name:?}") }
}
