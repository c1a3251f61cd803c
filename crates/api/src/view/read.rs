//! Reads jobs for an answer: rows from the book, and for those that the ledger owns their records, all of a page at once.

use std::collections::BTreeSet;

use curfew_book::{BookState, Filter, JobView, Page, Row};
use curfew_courier::TenantLimits;
use curfew_domain::history::HistoryEntry;
use curfew_domain::record::WaitingFor;
use curfew_domain::{JobId, Key, Moment, Record, State};

use super::job::{Around, KeptBack, in_its_line, owned_by_ledger};
use super::told::{self, Told};
use super::{JobBody, JobList};
use crate::api::Api;
use crate::limits::LIST_ROUNDS_MAX;
use crate::problem::Problem;

/// Which state a list asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ListedState {
    /// Any.
    All,
    /// The book's own word.
    Book(BookState),
    /// A record's own.
    Record(State),
    /// Whatever the ledger owns.
    Active,
}

impl ListedState {
    /// The state of a word of the contract.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "active" => Self::Active,
            "planned" => Self::Book(BookState::Planned),
            "sent" => Self::Book(BookState::Sent),
            "dead_letter" => Self::Book(BookState::DeadLetter),
            "cancelled" => Self::Book(BookState::Cancelled),
            "suppressed" => Self::Book(BookState::Suppressed),
            record => Self::Record(State::from_word(record)?),
        })
    }

    /// The rows among which such jobs are.
    fn rows(self) -> Vec<BookState> {
        match self {
            Self::All => Vec::new(),
            Self::Book(state) => vec![state],
            Self::Record(_) | Self::Active => vec![BookState::Staged],
        }
    }

    fn fits(self, body: &JobBody) -> bool {
        match self {
            Self::All => true,
            Self::Book(state) => body.state == state.word(),
            // Of a shard that recovers nobody knows which of them its jobs are in: they are shown under each, and say so.
            Self::Record(state) => body.state == state.word() || recovers(body),
            Self::Active => body.state != BookState::Planned.word(),
        }
    }
}

fn recovers(body: &JobBody) -> bool {
    body.state != BookState::Planned.word() && body.waiting_for.as_deref() == Some(WaitingFor::Recovery.word())
}

/// The row that a path names by id or key.
pub(crate) async fn job_by_name(api: &Api, name: &str) -> Result<Row, Problem> {
    let found = match JobId::parse(name) {
        Some(id) => api.book.by_id(id).await?,
        None => match Key::parse(name) {
            Ok(key) => api.book.by_key(&key).await?,
            Err(_) => None,
        },
    };
    found.ok_or_else(|| Problem::not_found("there is no such job"))
}

/// One job whole, with its story.
pub(crate) async fn body(api: &Api, row: &Row, now: Moment) -> Result<JobBody, Problem> {
    let entry = told::entry(&*api.ledger, &row.job.key).await?;
    let holds = api.ledger.holds().await?;
    let kept_back = match &entry {
        Told::Stands(entry) => kept_back(api, &[&entry.record], now).await?,
        Told::Nothing | Told::Recovers | Told::Unreadable => KeptBack::new(),
    };
    let around = Around { rulebook: &api.rulebook, holds: &holds, staging_window: api.staging_window, now, kept_back: &kept_back };
    let (record, live) = match entry {
        Told::Stands(entry) => (Told::Stands(Box::new(entry.record)), entry.history),
        Told::Nothing => (Told::Nothing, Vec::new()),
        Told::Recovers => (Told::Recovers, Vec::new()),
        Told::Unreadable => (Told::Unreadable, Vec::new()),
    };
    let mut history = row.history.clone();
    // A verb's end reaches the row before its story does.
    if let Told::Stands(r) = &record
        && (owned_by_ledger(row, r) || (r.id == row.job.id && r.generation == row.generation))
    {
        merge(&mut history, live);
    }
    Ok(JobBody::of(row, record, &history, &around))
}

/// What the ledger tells beyond what was flushed to the book.
fn merge(history: &mut Vec<HistoryEntry>, live: Vec<HistoryEntry>) {
    let flushed = history.len();
    for entry in live {
        if !history[..flushed].contains(&entry) {
            history.push(entry);
        }
    }
    history.sort_by_key(|e| (e.generation, e.at));
}

/// Several jobs, without stories.
pub(crate) async fn bodies(api: &Api, views: &[JobView], now: Moment) -> Result<Vec<JobBody>, Problem> {
    let soon = now.plus(api.staging_window);
    let asked: Vec<Key> = views.iter().map(|v| &v.row).filter(|r| may_be_live(r, soon)).map(|r| r.job.key.clone()).collect();
    let records = told::records(&*api.ledger, &asked).await?;
    let holds = api.ledger.holds().await?;
    let standing: Vec<&Record> = records.iter().filter_map(Told::standing).collect();
    let kept_back = kept_back(api, &standing, now).await?;
    let around = Around { rulebook: &api.rulebook, holds: &holds, staging_window: api.staging_window, now, kept_back: &kept_back };
    let mut records = records.into_iter();
    let mut all = Vec::with_capacity(views.len());
    for view in views {
        let record = if may_be_live(&view.row, soon) { records.next() } else { None };
        all.push(JobBody::of(&view.row, record.unwrap_or(Told::Nothing), &[], &around));
    }
    Ok(all)
}

/// What keeps the tenants' due jobs in their lines; asked only where such a job is shown. A shard that can't be counted keeps its secret.
async fn kept_back(api: &Api, records: &[&Record], now: Moment) -> Result<KeptBack, Problem> {
    let mut all = KeptBack::new();
    let mut asked = BTreeSet::new();
    for record in records.iter().filter(|record| in_its_line(record, now)) {
        let (tenant, limits) = (record.tenant(), api.tenants.limits(record.tenant()));
        if !limits.bound_its_queue() || !asked.insert(tenant) {
            continue;
        }
        match api.ledger.counts(record.shard, &TenantLimits::counters(tenant)).await {
            Ok(counts) => {
                let [queued, flying] = counts[..] else { continue };
                if let Some(by) = limits.keeps_back(queued, flying) {
                    all.insert(tenant.to_owned(), by);
                }
            }
            Err(error) if error.may_be_of_one_shard() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

fn may_be_live(row: &Row, soon: Moment) -> bool {
    match row.state {
        BookState::Staged => true,
        BookState::Planned => row.job.release_at <= soon,
        BookState::Sent | BookState::DeadLetter | BookState::Cancelled | BookState::Suppressed => false,
    }
}

/// A page of jobs. Where only the ledger knows the state, pages of the book are read until this one is full or the rounds are used up; a short
/// page with a cursor is then no end.
pub(crate) async fn list(api: &Api, mut filter: Filter, state: ListedState, now: Moment) -> Result<JobList, Problem> {
    let limit = filter.limit as usize;
    filter.states = state.rows();
    let mut items: Vec<JobBody> = Vec::new();
    for _round in 0..LIST_ROUNDS_MAX {
        filter.limit = (limit - items.len()) as u32;
        let Page { items: views, next_cursor } = api.book.list(&filter).await?;
        items.extend(bodies(api, &views, now).await?.into_iter().filter(|b| state.fits(b)));
        filter.cursor = next_cursor;
        if filter.cursor.is_none() || items.len() >= limit {
            break;
        }
    }
    Ok(JobList { items, next_cursor: filter.cursor })
}
