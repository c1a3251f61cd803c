//! redis, for tests.
