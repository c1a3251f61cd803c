//! A schema for a while, made and removed whole: a rehearsal's.

use sqlx::AssertSqlSafe;

use super::{Postgres, connect};
use crate::StoreError;

impl Postgres {
    /// Makes the schema that the options name. One that is there already is refused: it may hold what somebody keeps.
    ///
    /// # Errors
    /// `Query` where it is there, where the role may not make one, or where the options name none.
    pub async fn create_schema(&self) -> Result<(), StoreError> {
        const OPERATION: &str = "create a schema";
        let create = format!("CREATE SCHEMA {}", connect::quoted(self.own_schema(OPERATION)?));
        self.run(OPERATION, sqlx::query(AssertSqlSafe(create))).await.map(drop)
    }

    /// Removes the schema that the options name, with all that is in it. Repeating is safe. Only for one that [`Postgres::create_schema`] made.
    ///
    /// # Errors
    /// `Query` where the options name none; others of the store.
    pub async fn drop_schema(&self) -> Result<(), StoreError> {
        const OPERATION: &str = "drop a schema";
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", connect::quoted(self.own_schema(OPERATION)?));
        self.run(OPERATION, sqlx::query(AssertSqlSafe(drop))).await.map(std::mem::drop)
    }

    /// Never the one that the URL or the role names: that is where a fleet lives.
    fn own_schema(&self, operation: &'static str) -> Result<&str, StoreError> {
        let none = StoreError::Query { operation, code: None, detail: "no schema is named".to_owned() };
        self.inner.options.schema.as_deref().ok_or(none)
    }
}
