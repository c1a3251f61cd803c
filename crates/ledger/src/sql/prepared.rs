//! What callers hand to the writer: changes with everything encoded, so that the writer only judges and writes.

use std::sync::Arc;

use curfew_domain::sealed::Sealed;
use curfew_domain::transition::{Change, Counter, Guard, Letter, Timer};
use curfew_domain::{Key, Moment, Shard, State, form};

use crate::{Create, Swap};

/// One operation of a round.
pub(super) enum Operation {
    Create { next: Version, letter: Sealed, read_at: Moment },
    Swap { generation: u32, version: u64, next: Version, guards: Vec<Guard>, below: Option<(Counter, u64)> },
}

impl Operation {
    pub(super) fn create(create: Create) -> Self {
        Self::Create { next: Version::of(create.change).0, letter: create.letter, read_at: create.read_at }
    }

    pub(super) fn swap(swap: Swap) -> Self {
        let (next, guards) = Version::of(swap.change);
        Self::Swap { generation: swap.generation, version: swap.version, next, guards, below: swap.below }
    }

    /// What it weighs in a round.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Create { next, letter, .. } => next.bytes.len() + letter.as_bytes().len(),
            Self::Swap { next, .. } => next.bytes.len(),
        }
    }

    pub(super) fn key(&self) -> &Key {
        match self {
            Self::Create { next, .. } | Self::Swap { next, .. } => &next.key,
        }
    }
}

/// One version of a record, ready to be written.
#[derive(Clone)]
pub(super) struct Version {
    pub key: Key,
    pub shard: Shard,
    pub generation: u32,
    pub version: u64,
    pub standing: Standing,
    pub timer: Option<Timer>,
    /// Its next time, where it stands in line.
    pub line: Option<Moment>,
    pub expires_at: Option<Moment>,
    pub letter: Letter,
    pub entry: Option<Vec<u8>>,
    pub bytes: Arc<[u8]>,
}

/// What counters rest on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    pub state: State,
    pub closed: bool,
    pub due: Moment,
}

impl Version {
    fn of(change: Change) -> (Self, Vec<Guard>) {
        let record = change.record;
        let version = Self {
            shard: record.shard,
            generation: record.generation,
            version: record.version,
            standing: Standing { state: record.state, closed: record.closed, due: record.due() },
            timer: change.timer,
            line: change.line,
            expires_at: change.expires_at,
            letter: change.letter,
            entry: change.history.as_ref().map(form::encode),
            bytes: form::encode(&record).into(),
            key: record.key,
        };
        (version, change.guards)
    }
}
