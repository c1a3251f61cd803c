//! Names of things that aren't jobs' keys: job ids, tokens, workers, shards.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A job's id: a UUIDv7, given at the door. It is the AAD of everything sealed for the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub Uuid);

impl JobId {
    /// Parses the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 36).then(|| Uuid::parse_str(text).ok().map(Self)).flatten()
    }

    /// Its sixteen bytes, as AAD and as a database key.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// Names one handoff. Drawn at random by the worker when it writes its intent; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct Token(pub Uuid);

impl Token {
    /// Stands for every token of its generation: the ledger lost its latest part, and nobody can say which handoffs began (DESIGN 8).
    pub const ANY: Token = Token(Uuid::nil());
}

/// Names one run of one worker process; drawn at its start, so that a restart is another worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct WorkerId(pub Uuid);

impl WorkerId {
    /// Whoever was lost: it holds what a recovery can't prove until the longest lease is over. No worker has this id.
    pub const LOST: WorkerId = WorkerId(Uuid::nil());
}

/// The hash of a tenant, 0..S-1 with S at most 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct Shard(pub u8);

impl Shard {
    /// The shard of a tenant among `shards` (1 to 64): FNV-1a, 64 bit, modulo the count. Stands in stored data, so it never changes.
    pub fn of_tenant(tenant: &str, shards: u8) -> Self {
        let hash = tenant.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        Self((hash % u64::from(shards.max(1))) as u8)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.0)
    }
}
