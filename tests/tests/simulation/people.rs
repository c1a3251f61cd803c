//! Submitters, operators and the provider: what people ask of the fleet while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curfew_book::{Accepted, AuditEntry, Book, BookError, Door, Evidence, EvidenceSource, Fate, VerbRequest};
use curfew_courier::{By, Report, VerbOutcome, carry_out, report};
use curfew_domain::job::Job;
use curfew_domain::outcome::Receipt;
use curfew_domain::transition::Verdict;
use curfew_domain::verb::Verb;
use curfew_domain::{JobId, Key};
use curfew_ledger::Ledger;
use curfew_review::{Replay, Review};
use curfew_testkit::sim::{Process, World};
use tokio::time::sleep;

use crate::fleet::{Fleet, STAGING_WINDOW};
use crate::jobs;
use crate::judge::{Handed, Known};
use crate::ports::Ports;

/// What an operator's verb was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answered {
    Applied,
    Refused,
    /// No answer: it may be in force.
    Nothing,
}

/// What people know of each job.
pub type Ledgered = Mutex<BTreeMap<JobId, Known>>;

/// The API's process, and those who use it.
pub struct People {
    fleet: Arc<Fleet>,
    ports: Ports,
    world: World,
    /// Every job that was accepted at the door.
    pub known: Ledgered,
    jobs: Mutex<Vec<Job>>,
}

impl People {
    pub fn new(fleet: &Arc<Fleet>) -> Arc<Self> {
        let process = Process::start("api");
        let ports = fleet.ports(&process);
        Arc::new(Self { fleet: Arc::clone(fleet), ports, world: fleet.world.clone(), known: Mutex::default(), jobs: Mutex::default() })
    }

    /// Hands in so many jobs during some time; an answer that is lost is asked for again, in the same words.
    pub async fn submit(&self, count: u64, during: Duration) {
        for n in 0..count {
            sleep(self.world.between(Duration::ZERO, during * 2 / u32::try_from(count).expect("few"))).await;
            let job = jobs::draw(&self.world, &self.fleet.keyring, n, self.world.now());
            let door = Door { at: self.world.now(), actor: "alice".to_owned() };
            let again = u32::from(self.world.happens(10.0));
            let mut taken = 0;
            while taken <= again {
                match self.ports.store.accept(vec![job.clone()], &door).await {
                    Ok(accepted) => {
                        taken += 1;
                        if let Some(Accepted::New(_) | Accepted::Duplicate(_)) = accepted.first() {
                            self.with(job.id, |known| known.times = vec![(job.release_at, job.deadline_at)]);
                        }
                    }
                    Err(_unanswered) => sleep(Duration::from_secs(1)).await,
                }
            }
            self.jobs.lock().expect("one thread").push(job);
        }
    }

    /// What operators and the provider do now and then, until `until`.
    pub async fn operate(self: Arc<Self>, until: Duration) {
        while self.world.elapsed() < until {
            sleep(self.world.between(Duration::from_millis(500), Duration::from_secs(8))).await;
            let jobs = self.jobs.lock().expect("one thread").clone();
            let Some(job) = self.world.one_of(&jobs) else { continue };
            match self.world.below(12) {
                0 => drop(self.verb(job, Verb::Cancel).await),
                1 => drop(self.verb(job, Verb::Suppress).await),
                2..=4 => self.shift(job).await,
                5..=7 => self.replay(job).await,
                8 | 9 => self.provider_speaks(job).await,
                10 => self.close_item(job).await,
                _suppressed => self.suppress_recipient(job).await,
            }
        }
    }

    async fn shift(&self, job: &Job) {
        let release_at = self.world.now().plus(self.world.between(Duration::ZERO, Duration::from_secs(90)));
        let deadline_at = release_at.plus(self.world.between(Duration::from_secs(5), Duration::from_secs(120)));
        // What is refused can still take effect, where the refusal is about a moment before: the row tells at the end.
        if self.verb(job, Verb::Move { release_at, deadline_at }).await != Answered::Refused {
            self.with(job.id, |known| known.times.push((release_at, deadline_at)));
        }
    }

    async fn verb(&self, job: &Job, verb: Verb) -> Answered {
        let at = self.world.now();
        let ends = matches!(verb, Verb::Cancel | Verb::Suppress);
        let word = verb.word();
        let request = VerbRequest {
            key: job.key.clone(),
            verb,
            actor: "alice".to_owned(),
            reason: "asked".to_owned(),
            at,
            book_alone_from: at.plus(STAGING_WINDOW + Duration::from_secs(120)),
        };
        let Ports { ledger, store, .. } = &self.ports;
        let answer = carry_out(&**ledger, &**store, &**store, &self.fleet.rulebook, request).await;
        let answered = match &answer {
            Ok(VerbOutcome::Applied(_)) => Answered::Applied,
            Ok(VerbOutcome::Refused(_) | VerbOutcome::NotFound) => Answered::Refused,
            Err(_unanswered) => Answered::Nothing,
        };
        self.world.count(&format!("verb {word}: {answered:?}"));
        if ends && matches!(answer, Ok(VerbOutcome::Applied(_))) {
            let now = self.world.now();
            self.with(job.id, |known| known.ended = Some(now));
        }
        answered
    }

    async fn replay(&self, job: &Job) {
        let Ok(Some(item)) = self.ports.store.open_item_of(&job.key).await else { return };
        let at = self.world.now();
        let deadline_at = at.plus(self.world.between(Duration::from_secs(10), Duration::from_secs(120)));
        let risk = self.world.happens(30.0);
        let replay = Replay {
            item: item.id,
            deadline_at,
            actor: "alice".to_owned(),
            reason: "mended".to_owned(),
            accept_duplicate_risk: risk,
            dry_run: false,
            at,
        };
        let answer = self.ports.store.replay(replay).await;
        self.world.count(if answer.is_ok() { "replay: taken" } else { "replay: refused or unanswered" });
        if matches!(answer, Ok(_) | Err(BookError::Unavailable { .. })) {
            // A person wants it again, whatever was asked before.
            self.with(job.id, |known| {
                known.times.push((at, deadline_at));
                known.ended = None;
            });
        }
    }

    async fn close_item(&self, job: &Job) {
        let Ok(Some(item)) = self.ports.store.open_item_of(&job.key).await else { return };
        let at = self.world.now();
        let answer = match self.world.happens(50.0) {
            true => self.ports.store.resolve(item.id, None, "alice", "done by telephone", at).await,
            false => self.ports.store.suppress(item.id, "alice", "no longer wanted", at).await,
        };
        self.world.count(if answer.is_ok() { "item: closed" } else { "item: refused or unanswered" });
    }

    async fn suppress_recipient(&self, job: &Job) {
        if !self.world.happens(25.0) {
            return;
        }
        let row = curfew_book::SuppressionRow {
            tenant: Some(job.tenant.clone()),
            recipient_ref: job.recipient_ref.clone(),
            recipient_masked: job.recipient_masked.clone(),
            reason: "asked".to_owned(),
            actor: "alice".to_owned(),
            since: self.world.now(),
        };
        let answer = self.ports.store.suppress_recipient(row).await;
        self.world.count(if answer.is_ok() { "suppression: taken" } else { "suppression: unanswered" });
    }

    /// The provider tells the truth of a job whose handoff is in doubt: to the ledger where a record stands, else to the book.
    async fn provider_speaks(&self, job: &Job) {
        let Some(accepted) = self.accepted(job.id).last().copied() else { return };
        let receipt = Receipt { at: accepted.accepted, code: 250, text: "event".to_owned(), queue_id: None };
        let Ports { ledger, store, .. } = &self.ports;
        let Ok(Some(row)) = store.by_key(&job.key).await else { return };
        let Ok(record) = ledger.records(std::slice::from_ref(&job.key)).await.map(|mut found| found.pop().flatten()) else { return };
        let open = record.as_ref().and_then(|record| record.open_tokens().last().copied().or(record.token.filter(|_| record.is_live())));
        let told = match (&record, open) {
            (Some(record), Some(token)) => {
                let verdict = Verdict::Accepted(&receipt);
                let said = Report { key: &job.key, generation: record.generation, token, verdict, by: By::Provider, own: None };
                report(&**ledger, &**store, &self.fleet.rulebook, said, self.world.fraction()).await.is_ok()
            }
            (Some(_), None) => return,
            (None, _) => {
                let fate = Fate::Accepted(receipt);
                let source = EvidenceSource::ProviderEvent;
                let evidence = Evidence { key: job.key.clone(), generation: row.generation, token: None, fate, source, at: self.world.now() };
                store.evidence(evidence).await.is_ok()
            }
        };
        self.world.count(if told { "provider event: taken" } else { "provider event: unanswered" });
    }

    /// When the server accepted it so far.
    fn accepted(&self, id: JobId) -> Vec<Handed> {
        crate::net::accepted(&self.fleet).remove(&id).unwrap_or_default()
    }

    /// Two jobs that nobody touches, handed in when all is mended: whatever happened before, they are sent.
    pub async fn submit_bystanders(&self, first: u64) -> Vec<JobId> {
        let mut ids = Vec::new();
        for n in [first, first + 1] {
            let job = jobs::bystander(&self.world, &self.fleet.keyring, n, self.world.now());
            let door = Door { at: self.world.now(), actor: "alice".to_owned() };
            while self.ports.store.accept(vec![job.clone()], &door).await.is_err() {
                sleep(Duration::from_secs(1)).await;
            }
            self.with(job.id, |known| known.times = vec![(job.release_at, job.deadline_at)]);
            ids.push(job.id);
        }
        ids
    }

    /// What is known at the end.
    pub fn known_at_the_end(&self) -> BTreeMap<JobId, Known> {
        let mut known = self.known.lock().expect("one thread").clone();
        for row in self.fleet.store.rows() {
            let known = known.entry(row.job.id).or_default();
            known.times.push((row.job.release_at, row.job.deadline_at));
            known.risks = self.replays_over_a_doubt(&row.job.key);
        }
        for (id, accepted) in crate::net::accepted(&self.fleet) {
            known.entry(id).or_default().accepted = accepted;
        }
        known
    }

    /// As the audit trail has them, which is written with each.
    fn replays_over_a_doubt(&self, key: &Key) -> u32 {
        let of_key = format!("\"key\":\"{key}\"");
        let risky = |entry: &AuditEntry| entry.detail.contains(&of_key) && entry.detail.contains("\"over_a_doubt\":true");
        self.fleet.store.audit().iter().filter(|entry| risky(entry)).count() as u32
    }

    fn with(&self, id: JobId, change: impl FnOnce(&mut Known)) {
        change(self.known.lock().expect("one thread").entry(id).or_default());
    }
}
