//! A schema for a while, made and removed whole: a rehearsal's.

use sqlx::AssertSqlSafe;
use tokio::time::timeout;

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
        let created = timeout(self.inner.options.answer_timeout, sqlx::query(AssertSqlSafe(create)).execute(self.pool())).await;
        let created = created.map_err(|_elapsed| StoreError::Lost { operation: OPERATION })?;
        created.map(drop).map_err(|error| match refusal(&error) {
            Some(says) => StoreError::Query { operation: OPERATION, code: None, detail: says.to_owned() },
            None => StoreError::asking(OPERATION)(error),
        })
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

/// What a person can mend, in words of our own.
fn refusal(error: &sqlx::Error) -> Option<&'static str> {
    match error.as_database_error()?.code()?.as_ref() {
        "42501" => Some("the role may not make one in this database (GRANT CREATE ON DATABASE … TO …)"),
        "42P06" => Some("one of this name is there already"),
        _another => None,
    }
}
