//! Waiting for a level of an outside process, never for a length of time.

use std::time::{Duration, Instant};

/// The first waits are short, so that a quick answer costs little; later ones spare the two cores a test shares with its servers.
const WAIT_MIN: Duration = Duration::from_millis(2);
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Looks again and again until `look` finds something, and returns it.
///
/// The deadline is real time even where tokio's clock is paused: outside processes don't live in virtual time.
///
/// # Panics
/// When `deadline` has passed, naming `what` was waited for.
pub async fn eventually<T, Look, Looking>(deadline: Duration, what: &str, mut look: Look) -> T
where
    Look: FnMut() -> Looking,
    Looking: Future<Output = Option<T>>,
{
    let start = Instant::now();
    let mut wait = WAIT_MIN;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < deadline, "waited {deadline:?} in vain for: {what}");
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_returns_what_the_look_found() {
        let mut looks = 0;
        let found = eventually(Duration::from_secs(10), "a third look", || {
            looks += 1;
            let found = (looks == 3).then_some(looks);
            async move { found }
        })
        .await;
        assert_eq!(found, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "the sun at midnight")]
    async fn past_the_deadline_it_names_what_never_came() {
        eventually(Duration::ZERO, "the sun at midnight", || async { None::<()> }).await;
    }
}
