//! The fleet: how it stands, what holds it back, pause, resume, drain.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use curfew_book::{Enrolled, Enrolment, HoldRow, REMEMBERED, Standing};
use curfew_domain::key::check_part;
use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Shard};
use curfew_ledger::{Hold, Holds};
use futures::future::join_all;
use serde::Serialize;
use utoipa::ToSchema;

use super::Who;
use crate::api::{Api, FleetInfo};
use crate::console::Held;
use crate::extract::Sent;
use crate::fields::Fields;
use crate::problem::Problem;

/// How long a process that stopped is shown.
const STOPPED_SHOWN: Duration = Duration::from_secs(3600);

/// How the fleet stands.
#[derive(Serialize, ToSchema)]
pub(crate) struct FleetBody {
    /// Roles of the process that answers.
    roles: Vec<String>,
    version: String,
    transports: Vec<String>,
    shards: u8,
    /// Live records by state.
    jobs: BTreeMap<String, u64>,
    /// Open review items by reason.
    review_open: BTreeMap<String, u64>,
    /// What holds jobs back now.
    holds: Vec<HoldBody>,
    /// Transports whose circuit is open.
    circuits: Vec<String>,
    /// Since when the oldest due job has been due, in seconds; null where none is.
    oldest_job_age_s: Option<f64>,
    /// Shards whose jobs can't be counted now, and are in no figure above: they recover, are halted, or their ledger is away.
    shards_unknown: Vec<u8>,
    /// The durability level reached, by store.
    durability: BTreeMap<String, String>,
    /// The format in which the process that answers writes: the newest that every process of the fleet reads.
    writes_format: u16,
    /// Processes that run, that fell silent within two days, and that stopped within the hour; by start.
    processes: Vec<ProcessBody>,
    /// The ledger's clock.
    now: String,
}

/// One run of one process.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProcessBody {
    id: String,
    /// Its host and its process id.
    name: String,
    roles: Vec<String>,
    version: String,
    /// `running`, `silent` or `stopped`.
    state: &'static str,
    /// The start of one that runs, the last sign of one that is silent, the end of one that stopped.
    since: String,
    started_at: String,
    /// Whether it is asked to drain.
    draining: bool,
    /// The newest format that it reads.
    reads_format: u16,
}

/// A hold in force.
#[derive(Serialize, ToSchema)]
pub(crate) struct HoldBody {
    /// `transport`, `tenant`, `shard` or `fleet`.
    kind: String,
    /// Empty for the fleet.
    name: String,
    /// `pause`, `cool_down` or `circuit`.
    by: String,
    until: Option<String>,
    reason: String,
    actor: String,
    since: Option<String>,
}

/// How the fleet stands.
#[utoipa::path(get, path = "/v1/fleet", tag = "fleet", responses((status = 200, body = FleetBody)))]
pub(crate) async fn show_fleet(State(api): State<Arc<Api>>) -> Result<Json<FleetBody>, Problem> {
    let now = api.ledger.now().await?;
    status(&api, now).await.map(Json)
}

async fn status(api: &Api, now: Moment) -> Result<FleetBody, Problem> {
    let FleetInfo { roles, version, transports, shards, durability } = (api.fleet_info)();
    let jobs = api.ledger.live_by_state().await?.into_iter().map(|(state, n)| (state.word().to_owned(), n)).collect();
    let (mut oldest, mut shards_unknown): (Option<Moment>, Vec<u8>) = (None, Vec::new());
    let asked = (0..shards).map(|shard| async move { (shard, api.ledger.oldest_due(Shard(shard), now).await) });
    for (shard, due) in join_all(asked).await {
        match due {
            Ok(due) => oldest = [oldest, due].into_iter().flatten().min(),
            // One that can't be read keeps the others from being shown as little as it keeps them from being counted.
            Err(error) if error.may_be_of_one_shard() => shards_unknown.push(shard),
            Err(error) => return Err(error.into()),
        }
    }
    let holds = in_force(api, now).await?;
    let circuits = holds.iter().filter(|h| h.by == WaitingFor::Circuit.word()).map(|h| h.name.clone()).collect();
    let review_open = api.review.open_by_reason().await?;
    let oldest_job_age_s = oldest.map(|due| now.since(due).as_secs_f64());
    let processes = processes(api, now).await?;
    let (now, writes_format) = (now.rfc3339(), curfew_domain::form::written());
    Ok(FleetBody {
        roles,
        version,
        transports,
        shards,
        jobs,
        review_open,
        holds,
        circuits,
        oldest_job_age_s,
        shards_unknown,
        durability,
        writes_format,
        processes,
        now,
    })
}

async fn processes(api: &Api, now: Moment) -> Result<Vec<ProcessBody>, Problem> {
    let known = api.book.enrolled(now.minus(REMEMBERED)).await?;
    let gone = now.minus(STOPPED_SHOWN);
    Ok(known.into_iter().filter(|p| p.stopped_at.is_none_or(|at| at >= gone)).map(|p| process(p, now)).collect())
}

fn process(known: Enrolled, now: Moment) -> ProcessBody {
    let (state, since) = match known.standing(now) {
        Standing::Running => ("running", known.enrolment.at),
        Standing::Silent(since) => ("silent", since),
        Standing::Stopped(at) => ("stopped", at),
    };
    let Enrolment { id, roles, name, version, reads_format, at } = known.enrolment;
    ProcessBody {
        id: id.0.to_string(),
        name,
        roles,
        version,
        state,
        since: since.rfc3339(),
        started_at: at.rfc3339(),
        draining: known.drain_asked_at.is_some() && known.stopped_at.is_none(),
        reads_format,
    }
}

/// The book's holds, and those that the ledger alone knows.
async fn in_force(api: &Api, now: Moment) -> Result<Vec<HoldBody>, Problem> {
    let rows = api.book.holds().await?;
    let mut all: Vec<HoldBody> = rows.into_iter().filter(|r| r.until.is_none_or(|until| until > now)).map(shown).collect();
    // All stand on one node; while it is away the book's, which are the longer story, have to do.
    let copies = match api.ledger.holds().await {
        Err(error) if error.may_be_of_one_shard() => Holds::new(),
        copies => copies?,
    };
    for (hold, (by, until)) in copies {
        let (kind, name) = hold.parts();
        let known = all.iter().any(|h| h.kind == kind && h.name == name && h.by == by.word());
        if !known && until.is_none_or(|until| until > now) {
            let until = until.map(|t| t.rfc3339());
            all.push(HoldBody {
                kind: kind.to_owned(),
                name,
                by: by.word().to_owned(),
                until,
                reason: String::new(),
                actor: "curfew".to_owned(),
                since: None,
            });
        }
    }
    Ok(all)
}

/// What holds jobs back now, for the console.
pub(super) async fn held(api: &Api, now: Moment) -> Result<Vec<Held>, Problem> {
    let held = |h: HoldBody| Held { kind: h.kind, name: h.name, by: h.by, until: h.until, reason: h.reason, since: h.since };
    Ok(in_force(api, now).await?.into_iter().map(held).collect())
}

fn shown(row: HoldRow) -> HoldBody {
    HoldBody {
        kind: row.kind,
        name: row.name,
        by: row.by,
        until: row.until.map(|t| t.rfc3339()),
        reason: row.reason,
        actor: row.actor,
        since: Some(row.since.rfc3339()),
    }
}

/// What to pause or resume: a transport, a tenant, a shard, or, where none is named, the fleet.
#[derive(Serialize, ToSchema)]
pub(crate) struct HoldChange {
    transport: Option<String>,
    tenant: Option<String>,
    shard: Option<u8>,
    reason: String,
}

/// Holds jobs back before their release and their claim; what is handed over meanwhile ends as it ends.
#[utoipa::path(post, path = "/v1/fleet/pause", tag = "fleet", request_body = HoldChange, responses((status = 200, body = FleetBody), (status = 422, body = Problem)))]
pub(crate) async fn pause_fleet(State(api): State<Arc<Api>>, who: Who, Sent(mut f): Sent) -> Result<Json<FleetBody>, Problem> {
    let (hold, reason) = (target(&api, &mut f), f.words("reason"));
    f.done()?;
    let now = api.ledger.now().await?;
    let (kind, name) = hold.parts();
    let by = WaitingFor::Pause.word().to_owned();
    api.book.hold(HoldRow { kind: kind.to_owned(), name, by, until: None, reason, actor: who.0.0.clone(), since: now }).await?;
    api.ledger.set_hold(hold, Some((WaitingFor::Pause, None))).await?;
    status(&api, now).await.map(Json)
}

/// Lifts a pause, and closes an open circuit of what is named; without a name, the fleet's pause and every circuit.
#[utoipa::path(post, path = "/v1/fleet/resume", tag = "fleet", request_body = HoldChange, responses((status = 200, body = FleetBody), (status = 422, body = Problem)))]
pub(crate) async fn resume_fleet(State(api): State<Arc<Api>>, who: Who, Sent(mut f): Sent) -> Result<Json<FleetBody>, Problem> {
    let (hold, reason) = (target(&api, &mut f), f.words("reason"));
    f.done()?;
    let now = api.ledger.now().await?;
    let mut lifted = vec![hold.clone()];
    if hold == Hold::Fleet {
        let open = api.ledger.holds().await?.into_iter().filter(|(_, (by, _))| *by == WaitingFor::Circuit);
        lifted.extend(open.map(|(hold, _)| hold));
    }
    for hold in lifted {
        let (kind, name) = hold.parts();
        for by in [WaitingFor::Pause, WaitingFor::Circuit] {
            api.book.lift(kind, &name, by.word(), &who.0.0, &reason, now).await?;
        }
        api.ledger.set_hold(hold, left(&api, kind, &name, now).await?).await?;
    }
    (api.on_accepted)();
    status(&api, now).await.map(Json)
}

/// A cool-down that outlasts the pause: a person's resume doesn't shorten what the provider asked for.
async fn left(api: &Api, kind: &str, name: &str, now: Moment) -> Result<Option<(WaitingFor, Option<Moment>)>, Problem> {
    let rows = api.book.holds().await?;
    let cooling =
        rows.into_iter().find(|r| r.kind == kind && r.name == name && r.by == WaitingFor::CoolDown.word() && r.until.is_some_and(|u| u > now));
    Ok(cooling.map(|r| (WaitingFor::CoolDown, r.until)))
}

fn target(api: &Api, f: &mut Fields) -> Hold {
    let (transport, tenant, shard) = (f.text("transport"), f.text("tenant"), f.take("shard"));
    match (transport, tenant, shard) {
        (None, None, None) => Hold::Fleet,
        (Some(transport), None, None) => {
            if !api.door.known.transports.contains(&transport) {
                f.fault("transport", "unknown transport");
            }
            Hold::Transport(transport)
        }
        (None, Some(tenant), None) => {
            if let Err(e) = check_part(&tenant) {
                f.fault("tenant", e.to_string());
            }
            Hold::Tenant(tenant)
        }
        (None, None, Some(shard)) => {
            let number = shard.as_u64().or_else(|| shard.as_str().and_then(|s| s.parse().ok())).and_then(|n| u8::try_from(n).ok());
            let known = number.filter(|n| *n < api.door.shards);
            if known.is_none() {
                f.fault("shard", format!("must be 0 to {}", api.door.shards.saturating_sub(1)));
            }
            Hold::Shard(known.unwrap_or_default())
        }
        (_, _, _) => {
            f.fault("transport", "name a transport, a tenant or a shard, one of them");
            Hold::Fleet
        }
    }
}

/// What a drain answers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Draining {
    draining: bool,
    /// How many processes run that are asked to.
    processes: u64,
}

/// Lets every process of the fleet finish what is in hand, give back the rest and end: this one at once, the others within seconds.
#[utoipa::path(post, path = "/v1/fleet/drain", tag = "fleet", responses((status = 202, body = Draining)))]
pub(crate) async fn drain_fleet(
    State(api): State<Arc<Api>>,
    who: Who,
    Sent(mut f): Sent,
) -> Result<(axum::http::StatusCode, Json<Draining>), Problem> {
    let reason = f.words_if_given("reason").unwrap_or_default();
    f.done()?;
    let now = api.ledger.now().await?;
    api.book.audit(now, &who.0.0, "drain", "fleet", &reason, "{}").await?;
    let processes = api.book.ask_to_drain(now).await?;
    (api.on_drain)();
    Ok((axum::http::StatusCode::ACCEPTED, Json(Draining { draining: true, processes })))
}
