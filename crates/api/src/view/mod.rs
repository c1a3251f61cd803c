//! What answers show: a job and a review item, with every field of the contract, absent ones null. No address, no body.

mod item;
mod job;
mod read;
pub(crate) mod schedule;
mod told;

pub use item::ItemBody;
pub use job::{HistoryBody, JobBody};
pub(crate) use read::{ListedState, bodies, body, job_by_name, list};
pub(crate) use told::{Told, records};

use serde::Serialize;
use utoipa::ToSchema;

/// A page of jobs.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct JobList {
    /// Newest first.
    pub items: Vec<JobBody>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// A page of review items.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub struct ItemList {
    /// Newest first.
    pub items: Vec<ItemBody>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}
