//! One function per promise.
