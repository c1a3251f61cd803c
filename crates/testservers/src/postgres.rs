//! postgres, for tests.
