//! The SQLite adapter.
