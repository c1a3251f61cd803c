//! `[policies.*]` and `[tenants.*]`.

use std::collections::BTreeMap;
use std::time::Duration;

use curfew_domain::key::check_part;
use curfew_domain::policy::{AtDeadline, Backoff, Jitter, Policy};

use super::reader::{self, Reader};
use super::transports::Transport;
use super::units::{self, Rate};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
/// Longer lists are exponential policies.
const DELAYS_MAX: usize = 100;
const ATTEMPTS_MAX: u32 = 1000;

/// A tenant's limits; what is absent is not limited.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tenant {
    /// Deliveries at a time.
    pub max_in_flight: Option<u32>,
    /// Deliveries over time.
    pub rate: Option<Rate>,
    /// Of one shard's `queued`.
    pub credit: Option<u32>,
    /// Of its jobs that name none.
    pub policy: Option<String>,
    /// Of its jobs that name none.
    pub transport: Option<String>,
}

/// Every tenant's limits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tenants {
    /// By name, `default` left out.
    pub named: BTreeMap<String, Tenant>,
    /// Of the unnamed.
    pub default: Tenant,
}

impl Tenants {
    /// The limits of a tenant: its own table, or the unnamed's.
    pub fn of(&self, tenant: &str) -> &Tenant {
        self.named.get(tenant).unwrap_or(&self.default)
    }
}

/// Why a name is none, where it isn't.
pub fn name_fault(name: &str) -> Option<String> {
    check_part(name).err().map(|e| format!("the name {e}"))
}

/// `[policies.*]`; `default` is always there.
pub fn policies(reader: &mut Reader) -> BTreeMap<String, Policy> {
    let mut names = reader.given.names("policies");
    names.insert("default".into());
    let mut all = BTreeMap::new();
    for name in names {
        match name_fault(&name) {
            Some(says) => reader.refuse(&["policies", &name], says),
            None => {
                let policy = policy(reader, &name);
                all.insert(name, policy);
            }
        }
    }
    all
}

fn policy(reader: &mut Reader, name: &str) -> Policy {
    let path = |key| ["policies", name, key];
    let exponential = ["base", "factor", "cap"].into_iter().find(|key| reader.entry(&path(key)).is_some());
    if let (Some(key), true) = (exponential, reader.entry(&path("delays")).is_some()) {
        reader.refuse(&path(key), "a policy has delays or base, factor and cap, not both");
    }
    let backoff = if exponential.is_some() {
        Backoff::Exponential {
            base: reader.or(&path("base"), &reader::duration(Duration::from_millis(1)..=30 * DAY), 30 * SECOND),
            factor: reader.or(&path("factor"), &reader::real(1.0..=100.0), 2.0),
            cap: reader.or(&path("cap"), &reader::duration(Duration::from_millis(1)..=30 * DAY), 900 * SECOND),
        }
    } else {
        Backoff::Delays(delays(reader, name))
    };
    let attempts = reader::integer(1..=ATTEMPTS_MAX);
    let max_attempts =
        if exponential.is_some() { Some(reader.or(&path("max_attempts"), &attempts, 8)) } else { reader.optional(&path("max_attempts"), &attempts) };
    let jitter = reader::parsed("a duration up to 1d, or a percentage up to 100%", jitter, jitter_text);
    let jitter = reader.or(&path("jitter"), &jitter, Jitter { lo_ms: 0, hi_ms: 30_000, percent: None });
    let at_deadline = reader::parsed("\"review\", \"suppress\" or \"escalate:OWNER\"; never a late send", at_deadline, at_deadline_text);
    let at_deadline = reader.or(&path("at_deadline"), &at_deadline, AtDeadline::Review);
    let mut policy = Policy { name: name.to_owned(), version: 1, backoff, max_attempts, jitter, at_deadline };
    policy.version = version_of(&policy);
    policy
}

fn delays(reader: &mut Reader, name: &str) -> Vec<Duration> {
    let show = |d: &Vec<Duration>| d.iter().map(|d| units::duration_text(*d)).collect::<Vec<_>>().join(", ");
    let each = |t: &str| units::duration(t).filter(|d| *d <= 30 * DAY);
    let kind = reader::list("a list of up to 100 durations up to 30d, for instance [\"5m\", \"10m\"]", each, show);
    let path = ["policies", name, "delays"];
    let delays = reader.or(&path, &kind, vec![300 * SECOND, 600 * SECOND]);
    if delays.len() > DELAYS_MAX {
        reader.refuse(&path, "has more than 100 delays; use base, factor and cap");
    }
    delays
}

fn jitter(text: &str) -> Option<Jitter> {
    if let Some(percent) = text.strip_suffix('%').and_then(|t| t.parse().ok()) {
        return (percent <= 100).then_some(Jitter { lo_ms: 0, hi_ms: 0, percent: Some(percent) });
    }
    units::duration(text).filter(|d| *d <= DAY).map(|d| Jitter { lo_ms: 0, hi_ms: d.as_millis() as i64, percent: None })
}

fn jitter_text(jitter: &Jitter) -> String {
    jitter.percent.map_or_else(|| units::duration_text(Duration::from_millis(jitter.hi_ms.unsigned_abs())), |p| format!("{p}%"))
}

fn at_deadline(text: &str) -> Option<AtDeadline> {
    match text {
        "review" => Some(AtDeadline::Review),
        "suppress" => Some(AtDeadline::Suppress),
        other => other.strip_prefix("escalate:").filter(|owner| check_part(owner).is_ok()).map(|owner| AtDeadline::Escalate(owner.to_owned())),
    }
}

fn at_deadline_text(at: &AtDeadline) -> String {
    match at {
        AtDeadline::Review => "review".into(),
        AtDeadline::Suppress => "suppress".into(),
        AtDeadline::Escalate(owner) => format!("escalate:{owner}"),
    }
}

/// A policy's version: a short hash of its values, so that every process of a fleet gives the same without asking.
fn version_of(policy: &Policy) -> u32 {
    let text = format!("{:?} {:?} {:?} {:?}", policy.backoff, policy.max_attempts, policy.jitter, policy.at_deadline);
    let hash = text.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    1 + hash % 999_999
}

/// `[tenants.*]`.
pub fn tenants(reader: &mut Reader, policies: &BTreeMap<String, Policy>, transports: &BTreeMap<String, Transport>) -> Tenants {
    let mut all = Tenants::default();
    for name in reader.given.names("tenants") {
        if let Some(says) = name_fault(&name) {
            reader.refuse(&["tenants", &name], says);
            continue;
        }
        let path = |key| ["tenants", name.as_str(), key];
        let tenant = Tenant {
            max_in_flight: reader.optional(&path("max_in_flight"), &reader::integer(1..=100_000)),
            rate: reader.optional(&path("rate"), &reader::rate()).flatten(),
            credit: reader.optional(&path("credit"), &reader::integer(1..=10_000_000)),
            policy: reader.optional(&path("policy"), &reader::text()),
            transport: reader.optional(&path("transport"), &reader::text()),
        };
        if tenant.policy.as_ref().is_some_and(|p| !policies.contains_key(p)) {
            reader.refuse(&path("policy"), format!("no such policy; allowed: {}", names(policies)));
        }
        if tenant.transport.as_ref().is_some_and(|t| !transports.contains_key(t)) {
            reader.refuse(&path("transport"), format!("no such transport; allowed: {}", names(transports)));
        }
        match name.as_str() {
            "default" => all.default = tenant,
            _ => drop(all.named.insert(name, tenant)),
        }
    }
    all
}

fn names<T>(of: &BTreeMap<String, T>) -> String {
    of.keys().cloned().collect::<Vec<_>>().join(", ")
}
