//! rabbit, for tests.
