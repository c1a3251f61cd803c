//! What can go wrong in the store, told by what the caller can do about it.
//!
//! No text holds a bound value: the engine's own message is kept only where it can name nothing but tables, columns and the
//! words of a statement (S7).

use std::path::PathBuf;

/// What a caller can do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing was changed; the same request may succeed later.
    Retry,
    /// Nothing was changed, and repeating won't help: a person, another request or a restart is needed.
    Stop,
    /// The request may have been stored or not: read before acting.
    InDoubt,
}

/// An error of the store. Cheap to clone, because every caller of a lost group gets it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has the data folder (exit code 75).
    #[error("the data folder is in use by another process (lock file {})", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The folder, the lock file or the database file can't be created, opened or read.
    #[error("cannot open {}: {reason}", path.display())]
    Open {
        /// The file or folder that was tried.
        path: PathBuf,
        /// What the system or the engine said.
        reason: String,
    },
    /// A migration failed, or is not the one that was applied under its name.
    #[error("migration {name}: {reason}")]
    Migrate {
        /// The migration.
        name: String,
        /// What stood in the way.
        reason: String,
    },
    /// The target of a backup is there already; nothing was written.
    #[error("{} exists already", path.display())]
    Exists {
        /// The file that was to be created.
        path: PathBuf,
    },
    /// Somebody else held a lock for longer than [`BUSY_TIMEOUT`](crate::BUSY_TIMEOUT), or every reader was taken.
    #[error("{operation}: the database was busy for too long")]
    Busy {
        /// What was tried.
        operation: &'static str,
    },
    /// The disk is full.
    #[error("{operation}: the disk is full")]
    Full {
        /// What was tried.
        operation: &'static str,
    },
    /// The disk failed, or files can't be written. After a failed commit the store takes no more requests.
    #[error("{operation}: input/output error{}", code_text(*code))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The engine's extended result code.
        code: Option<i32>,
    },
    /// A row broke a constraint of its table.
    #[error("{operation}: {constraint}")]
    Constraint {
        /// What was tried.
        operation: &'static str,
        /// The constraint, by table and column.
        constraint: String,
    },
    /// The database file is damaged, or is no database.
    #[error("{operation}: the database file is damaged{}", code_text(*code))]
    Corrupt {
        /// What was tried.
        operation: &'static str,
        /// The engine's extended result code.
        code: Option<i32>,
    },
    /// The store was closed before the request was queued.
    #[error("the store is closed")]
    Closed,
    /// A statement failed for another reason; most often it is wrong.
    #[error("{operation}: {detail}{}", code_text(*code))]
    Query {
        /// What was tried.
        operation: &'static str,
        /// The engine's extended result code.
        code: Option<i32>,
        /// What failed, without values.
        detail: String,
    },
    /// The request's own code panicked; it was rolled back.
    #[error("a request to the store panicked")]
    Panicked,
    /// The request's group was rolled back because of another request or the engine.
    #[error("rolled back together with its group: {because}")]
    Abandoned {
        /// The first failure.
        because: Box<StoreError>,
    },
    /// The COMMIT failed; a later start may still find the group.
    #[error("the commit failed: {because}")]
    Commit {
        /// What the engine said.
        because: Box<StoreError>,
    },
    /// The writer ended before it answered.
    #[error("the store ended before it answered")]
    Unanswered,
    /// The server can't be reached, or is not one that may be used.
    #[error("cannot connect: {reason}")]
    Connect {
        /// What stood in the way, in words of our own: never the address or the password.
        reason: String,
    },
    /// The connection to the server was lost, the server ended it, or it didn't answer in time.
    #[error("{operation}: the connection to the server was lost")]
    Lost {
        /// What was tried.
        operation: &'static str,
    },
    /// The server undid the transaction because of another one (a deadlock, a serialisation failure).
    #[error("{operation}: undone because of another transaction (SQLSTATE {state})")]
    Undone {
        /// What was tried.
        operation: &'static str,
        /// `40001`, `40P01`, or `23514` of a partition that was attached meanwhile.
        state: String,
    },
}

impl StoreError {
    /// What the caller can do.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Busy { .. } | Self::Full { .. } | Self::Undone { .. } => Remedy::Retry,
            Self::Abandoned { because } if because.is_of_the_engine() => because.remedy(),
            Self::Abandoned { .. } => Remedy::Retry,
            Self::Commit { .. } | Self::Unanswered | Self::Lost { .. } => Remedy::InDoubt,
            Self::Locked { .. }
            | Self::Open { .. }
            | Self::Migrate { .. }
            | Self::Exists { .. }
            | Self::Io { .. }
            | Self::Constraint { .. }
            | Self::Corrupt { .. }
            | Self::Closed
            | Self::Query { .. }
            | Self::Connect { .. }
            | Self::Panicked => Remedy::Stop,
        }
    }

    /// Names the operation of a foreign error: `query.execute(conn).await.map_err(StoreError::during("settle"))?`.
    pub fn during(operation: &'static str) -> impl Fn(sqlx::Error) -> Self + Copy {
        move |error| Self::from_sqlx(operation, &error)
    }

    fn from_sqlx(operation: &'static str, error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(found) => {
                let code = found.code().and_then(|code| code.parse().ok());
                Self::from_code(operation, code, found.message())
            }
            sqlx::Error::Io(_) => Self::Io { operation, code: None },
            sqlx::Error::PoolTimedOut => Self::Busy { operation },
            sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Self::Closed,
            sqlx::Error::RowNotFound => Self::query(operation, "no row, where one was expected"),
            sqlx::Error::ColumnNotFound(column) => Self::query(operation, &format!("no column {column}")),
            sqlx::Error::ColumnDecode { index, .. } => Self::query(operation, &format!("column {index} could not be decoded")),
            // A foreign enum that may grow. Its other members quote values or belong to other engines.
            _ => Self::query(operation, "the database client failed"),
        }
    }

    /// Primary result codes: <https://www.sqlite.org/rescode.html>; an extended code holds its primary one in the low byte.
    fn from_code(operation: &'static str, code: Option<i32>, message: &str) -> Self {
        match code.map_or(0, |code| code & 0xff) {
            // BUSY, LOCKED, PROTOCOL
            5 | 6 | 15 => Self::Busy { operation },
            // FULL
            13 => Self::Full { operation },
            // PERM, READONLY, IOERR, CANTOPEN
            3 | 8 | 10 | 14 => Self::Io { operation, code },
            // CORRUPT, NOTADB
            11 | 26 => Self::Corrupt { operation, code },
            // CONSTRAINT, MISMATCH
            19 => Self::Constraint { operation, constraint: harmless(message).unwrap_or("a constraint failed").to_owned() },
            _ => Self::Query { operation, code, detail: harmless(message).unwrap_or("the statement failed").to_owned() },
        }
    }

    /// The same for an error of PostgreSQL's client, whose codes are other ones.
    pub fn asking(operation: &'static str) -> impl Fn(sqlx::Error) -> Self + Copy {
        move |error| Self::from_postgres(operation, &error)
    }

    fn from_postgres(operation: &'static str, error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(found) => Self::from_state(operation, found.code().as_deref().unwrap_or_default(), found.constraint()),
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => Self::Lost { operation },
            other => Self::from_sqlx(operation, other),
        }
    }

    /// SQLSTATE: <https://www.postgresql.org/docs/current/errcodes-appendix.html>. The message is dropped: it may quote a value.
    fn from_state(operation: &'static str, state: &str, constraint: Option<&str>) -> Self {
        match state {
            // A check without a name is a partition's bound: the row's own partition was attached while the statement waited.
            "23514" if constraint.is_none() => Self::Undone { operation, state: state.to_owned() },
            "40001" | "40P01" => Self::Undone { operation, state: state.to_owned() },
            // lock_not_available, query_canceled (a timeout of ours), too_many_connections, configuration_limit_exceeded, out_of_memory
            "55P03" | "57014" | "53300" | "53400" | "53200" => Self::Busy { operation },
            "53100" => Self::Full { operation },
            // A standby that was the primary before: connect anew. idle_in_transaction_session_timeout ends the session.
            "25006" | "25P03" => Self::Lost { operation },
            "58030" => Self::Io { operation, code: None },
            _ if state.starts_with("08") || state.starts_with("57P") => Self::Lost { operation },
            _ if state.starts_with("23") => Self::Constraint { operation, constraint: constraint.unwrap_or("a constraint failed").to_owned() },
            // data_corrupted, index_corrupted
            "XX001" | "XX002" => Self::Corrupt { operation, code: None },
            _ => Self::query(operation, &format!("the statement failed (SQLSTATE {state})")),
        }
    }

    /// Whether the same transaction may be run again at once: the server undid all of it.
    pub(crate) fn is_undone(&self) -> bool {
        match self {
            Self::Undone { .. } => true,
            Self::Commit { because } => because.is_undone(),
            _ => false,
        }
    }

    /// Whether the connection is of no more use.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Lost { .. } => true,
            Self::Commit { because } => because.is_lost(),
            _ => false,
        }
    }

    fn query(operation: &'static str, detail: &str) -> Self {
        Self::Query { operation, code: None, detail: detail.to_owned() }
    }

    /// The engine or the disk failed, not one request.
    pub(crate) fn is_of_the_engine(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Full { .. } | Self::Io { .. } | Self::Corrupt { .. } | Self::Closed)
    }

    /// The engine may have rolled back the whole transaction by itself, so that nothing more may run in it.
    ///
    /// <https://www.sqlite.org/lang_transaction.html>, "Response To Errors Within A Transaction": FULL, IOERR, NOMEM (7), BUSY
    /// and INTERRUPT (9).
    pub(crate) fn ends_transaction(&self) -> bool {
        let engine_code = matches!(self, Self::Query { code: Some(code), .. } if matches!(code & 0xff, 7 | 9));
        self.is_of_the_engine() || engine_code
    }
}

/// The engine's message, where it starts like one that names tables, columns or SQL words alone. Others (a JSON path, a
/// search term, `RAISE`) can quote a bound value.
fn harmless(message: &str) -> Option<&str> {
    const STARTS: [&str; 8] = [
        "UNIQUE constraint failed",
        "NOT NULL constraint failed",
        "CHECK constraint failed",
        "FOREIGN KEY constraint failed",
        "no such ",
        "near \"",
        "ambiguous column name",
        "table ",
    ];
    STARTS.iter().any(|start| message.starts_with(start)).then_some(message)
}

fn code_text(code: Option<i32>) -> String {
    code.map(|code| format!(" (SQLite code {code})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_what_the_caller_can_do() {
        let remedy = |code| StoreError::from_code("settle", Some(code), "").remedy();
        assert_eq!(remedy(5), Remedy::Retry, "busy");
        assert_eq!(remedy(13), Remedy::Retry, "full");
        assert_eq!(remedy(10 | (4 << 8)), Remedy::Stop, "a failed fsync");
        assert_eq!(remedy(11), Remedy::Stop, "corrupt");
        assert_eq!(remedy(19 | (8 << 8)), Remedy::Stop, "unique");
        assert_eq!(StoreError::Unanswered.remedy(), Remedy::InDoubt);
        assert_eq!(StoreError::Commit { because: Box::new(StoreError::Full { operation: "commit" }) }.remedy(), Remedy::InDoubt);
    }

    #[test]
    fn whoever_is_lost_through_another_request_may_retry_unless_the_engine_failed() {
        let lost = |because| StoreError::Abandoned { because: Box::new(because) }.remedy();
        assert_eq!(lost(StoreError::Panicked), Remedy::Retry);
        assert_eq!(lost(StoreError::Full { operation: "settle" }), Remedy::Retry);
        assert_eq!(lost(StoreError::Corrupt { operation: "settle", code: Some(11) }), Remedy::Stop);
    }

    #[test]
    fn the_states_of_postgresql_become_what_the_caller_can_do() {
        let remedy = |state| StoreError::from_state("settle", state, None).remedy();
        assert_eq!(remedy("40P01"), Remedy::Retry, "a deadlock");
        assert_eq!(remedy("53100"), Remedy::Retry, "the disk is full");
        assert_eq!(remedy("57P01"), Remedy::InDoubt, "the server stops");
        assert_eq!(remedy("08006"), Remedy::InDoubt, "the connection failed");
        assert_eq!(remedy("23505"), Remedy::Stop, "unique");
        assert_eq!(remedy("42P01"), Remedy::Stop, "no such table");
        let commit = |because| StoreError::Commit { because: Box::new(because) };
        assert!(commit(StoreError::from_state("commit", "40001", None)).is_undone());
        assert_eq!(commit(StoreError::Lost { operation: "commit" }).remedy(), Remedy::InDoubt);
        assert!(commit(StoreError::Lost { operation: "commit" }).is_lost());
    }

    #[test]
    fn a_message_that_can_quote_a_value_is_dropped() {
        let error = StoreError::from_code("search", Some(1), "bad JSON path: 'ann@example.org'");
        assert!(!format!("{error} {error:?}").contains("ann"), "{error:?}");
        let error = StoreError::from_code("search", Some(1), "no such table: jobs");
        assert_eq!(error.to_string(), "search: no such table: jobs (SQLite code 1)");
    }
}
