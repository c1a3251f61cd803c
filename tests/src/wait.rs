//! Waiting for a level of an outside process, for callers that block: `curfew_testkit::eventually` without its runtime.

use std::time::{Duration, Instant};

/// Long enough for two loaded cores; a test that works comes nowhere near it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again and again until `look` finds something, and returns it.
///
/// # Panics
/// When `PATIENCE` has passed, naming `what` was waited for.
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, look)
}

/// The same with a deadline of its own.
///
/// # Panics
/// When `deadline` has passed, naming `what` was waited for.
pub fn until_within<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    until_showing(deadline, what, || look().ok_or("nothing"))
}

/// The same for a look that says what it saw instead.
///
/// # Panics
/// When `deadline` has passed, naming `what` was waited for and what was seen last.
pub fn until_showing<T, E: std::fmt::Display>(deadline: Duration, what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    let mut wait = Duration::from_millis(2);
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(start.elapsed() < deadline, "waited {deadline:?} in vain for: {what}; last seen: {seen:#}"),
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(Duration::from_millis(100));
    }
}

/// Lets real time pass where time itself is what a test is about: a lease that runs out while its holder is frozen.
pub fn let_pass(time: Duration) {
    std::thread::sleep(time);
}
