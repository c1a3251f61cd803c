//! Moments that a rehearsal must hit: announced on stdout as `paused POINT KEY`, then held until the process is killed or continued.

use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use curfew_domain::Key;
use curfew_worker::pause::{NoPauses, Pauses, Point};

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
    if at.is_empty() { Arc::new(NoPauses) } else { Arc::new(Announced(at)) }
}

struct Announced(Vec<PauseAt>);

#[async_trait]
impl Pauses for Announced {
    async fn at(&self, point: Point, key: &Key) {
        if !self.0.iter().any(|at| at.point == point && key.as_str().contains(&at.key_contains)) {
            return;
        }
        {
            let mut out = std::io::stdout().lock();
            let _closed = writeln!(out, "paused {} {key}", point.word()).and_then(|()| out.flush());
        }
        std::future::pending::<()>().await;
    }
}
