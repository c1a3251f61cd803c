//! The suppressions list, copied from the book: in a table for the next start, in memory for the claim's guard.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use curfew_domain::sealed::RecipientRef;
use curfew_store::{Durability, Queue, Sqlite, StoreError};

use super::flush::{json, run};
use super::read::during;
use super::{Memory, failed};
use crate::{LedgerError, Suppression};

const SUPPRESSIONS: &str = include_str!("queries/suppressions.sql");
const DELETE_SUPPRESSIONS: &str = include_str!("queries/delete_suppressions.sql");
const INSERT_SUPPRESSIONS: &str = include_str!("queries/insert_suppressions.sql");

/// The list by tenant; the empty name, which no tenant has, is the list for all.
#[derive(Default, PartialEq)]
pub(super) struct Suppressions(HashMap<String, HashSet<RecipientRef>>);

impl Suppressions {
    pub(super) fn has(&self, tenant: &str, recipient: &RecipientRef) -> bool {
        ["", tenant].iter().any(|list| self.0.get(*list).is_some_and(|list| list.contains(recipient)))
    }

    fn of(all: Vec<Suppression>) -> Self {
        let mut lists: HashMap<String, HashSet<RecipientRef>> = HashMap::new();
        for suppression in all {
            lists.entry(suppression.tenant.unwrap_or_default()).or_default().insert(suppression.recipient_ref);
        }
        Self(lists)
    }

    fn rows(&self) -> String {
        let rows: Vec<_> = self.0.iter().flat_map(|(tenant, list)| list.iter().map(move |recipient| (tenant, recipient))).collect();
        json(&rows)
    }
}

pub(super) async fn load(store: &Sqlite) -> Result<Suppressions, LedgerError> {
    let found: Vec<(String, String)> = sqlx::query_as(SUPPRESSIONS).fetch_all(store.read()).await.map_err(during("suppressions"))?;
    let all = found.into_iter().map(|(tenant, recipient)| Suppression { tenant: Some(tenant), recipient_ref: RecipientRef(recipient) });
    Ok(Suppressions::of(all.collect()))
}

pub(super) async fn set(store: &Sqlite, memory: &Arc<Memory>, all: Vec<Suppression>) -> Result<(), LedgerError> {
    let lists = Suppressions::of(all);
    if *memory.suppressions() == lists {
        return Ok(());
    }
    let memory = Arc::clone(memory);
    let replaced = store.write(Queue::Ledger, Durability::Process, move |conn| {
        Box::pin(async move {
            sqlx::query(DELETE_SUPPRESSIONS).execute(&mut *conn).await.map_err(StoreError::during("set suppressions"))?;
            run(conn, INSERT_SUPPRESSIONS, lists.rows(), None, "set suppressions").await?;
            // On the writer, so that no round judges by the old list after this. Should the COMMIT fail, the list is newer than
            // the table until the book's next copy, and no harm in that.
            *memory.suppressions() = lists;
            Ok(())
        })
    });
    replaced.await.map_err(failed("set suppressions"))
}
