//! Statements over many rows: `VALUES (…), (…)` in sizes of 100, 10 and 1, so that few texts are prepared and kept.
//!
//! A statement costs 10 to 20 µs on its way to the connection's own thread, a bound value a tenth of one: so rows go in hundreds.

use std::sync::Arc;

use curfew_store::StoreError;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection};

const SIZES: [usize; 3] = [100, 10, 1];

/// A query under construction.
pub(super) type Bound<'q> = Query<'q, Sqlite, SqliteArguments>;

/// One statement's texts.
pub(super) struct Chunks {
    texts: [Arc<str>; 3],
    operation: &'static str,
}

impl Chunks {
    /// A statement of `head`, the rows of `columns` values each, and `tail`.
    pub(super) fn new(operation: &'static str, head: &str, columns: usize, tail: &str) -> Self {
        let row = format!("({})", vec!["?"; columns].join(","));
        let text = |rows: usize| format!("{head}{}{tail}", vec![row.as_str(); rows].join(",")).into();
        Self { texts: SIZES.map(text), operation }
    }

    /// Runs it over all items; `bind` binds one row's values in order.
    pub(super) async fn run<T: Sync>(
        &self,
        conn: &mut SqliteConnection,
        items: &[T],
        bind: impl for<'q> Fn(Bound<'q>, &'q T) -> Bound<'q>,
    ) -> Result<(), StoreError> {
        let mut rest = items;
        for (size, text) in SIZES.into_iter().zip(&self.texts) {
            while rest.len() >= size {
                let (now, later) = rest.split_at(size);
                let query = now.iter().fold(sqlx::query(AssertSqlSafe(Arc::clone(text))), &bind);
                query.execute(&mut *conn).await.map_err(StoreError::during(self.operation))?;
                rest = later;
            }
        }
        Ok(())
    }
}
