//! Moments that a rehearsal or a test must hit: announced on stdout as `paused POINT KEY`, then held until the process is killed or continued
//! (SIGCONT), after which it runs through them all.

use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use curfew_domain::Key;
use curfew_worker::pause::{NoPauses, Pauses, Point};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// SIGCONT has no name in the runtime. 18 on every Linux but MIPS, PA-RISC and Alpha; elsewhere a pause ends with its process.
const SIGCONT: i32 = 18;

/// One moment of jobs whose key contains a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseAt {
    point: Point,
    key_contains: String,
}

impl std::str::FromStr for PauseAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (point, key) = text.split_once('=').ok_or("want POINT=PART-OF-A-KEY")?;
        let words = || Point::ALL.map(Point::word).join(", ");
        let point = Point::from_word(point).ok_or_else(|| format!("no such point; there are {}", words()))?;
        Ok(Self { point, key_contains: key.to_owned() })
    }
}

/// Those moments, or none.
pub fn pauses(at: Vec<PauseAt>) -> Arc<dyn Pauses> {
    if at.is_empty() {
        return Arc::new(NoPauses);
    }
    let continued = CancellationToken::new();
    if let Ok(mut signals) = signal(SignalKind::from_raw(SIGCONT)) {
        let continued = continued.clone();
        tokio::spawn(async move {
            if signals.recv().await.is_some() {
                continued.cancel();
            }
        });
    }
    Arc::new(Announced { at, continued })
}

struct Announced {
    at: Vec<PauseAt>,
    continued: CancellationToken,
}

#[async_trait]
impl Pauses for Announced {
    async fn at(&self, point: Point, key: &Key) {
        let wanted = self.at.iter().any(|at| at.point == point && key.as_str().contains(&at.key_contains));
        if !wanted || self.continued.is_cancelled() {
            return;
        }
        {
            let mut out = std::io::stdout().lock();
            let _closed = writeln!(out, "paused {} {key}", point.word()).and_then(|()| out.flush());
        }
        self.continued.cancelled().await;
    }
}
