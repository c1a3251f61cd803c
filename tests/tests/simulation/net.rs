//! The relay of a run, as the judge reads it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use curfew_domain::JobId;
use curfew_testkit::sim::Handoff;
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::judge::Handed;

/// What a server holds back it lets go now and then.
pub async fn release_now_and_then(fleet: Arc<Fleet>) {
    loop {
        sleep(fleet.world.between(Duration::from_secs(2), Duration::from_secs(40))).await;
        fleet.relay.server().release();
    }
}

/// Every acceptance, by job, in true time.
pub fn accepted(fleet: &Fleet) -> BTreeMap<JobId, Vec<Handed>> {
    let mut all: BTreeMap<JobId, Vec<Handed>> = BTreeMap::new();
    for handoff in fleet.relay.handoffs() {
        let Some(id) = job_of(&handoff) else { continue };
        all.entry(id).or_default().push(Handed { began: handoff.began, accepted: handoff.at });
    }
    all
}

fn job_of(handoff: &Handoff) -> Option<JobId> {
    handoff.accepted.job.as_deref().and_then(|id| id.parse().ok()).map(JobId)
}

/// Mails without a job's name, or for somebody else than the job's one recipient.
pub fn misdirected(fleet: &Fleet) -> Vec<String> {
    let rows = fleet.store.rows();
    let wrong = |handoff: &Handoff| {
        let row = job_of(handoff).and_then(|id| rows.iter().find(|row| row.job.id == id));
        let own = |to: &str| row.is_some_and(|row| to.starts_with(&format!("{}-", row.job.subject_ref)));
        !matches!(handoff.accepted.recipients.as_slice(), [to] if own(&to.address))
    };
    fleet.relay.handoffs().iter().filter(|handoff| wrong(handoff)).map(|handoff| format!("P1: misdirected: {:?}", handoff.accepted.job)).collect()
}

/// Where the driver broke a rule of SMTP.
pub fn violations(fleet: &Fleet) -> Vec<String> {
    fleet.relay.server().violations().into_iter().map(|what| format!("SMTP: {what:?}")).collect()
}
