//! Soft leases: by them schedulers share the shards. They save work; correctness never rests on one.

/// What a scheduler wants of a shard's soft lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// To take it where it is free, or to renew it.
    Lead,
    /// To know how it stands, and to be counted among those who seek it.
    Ask,
    /// To give it to anybody, and to go on seeking it.
    HandBack,
    /// To give it back, and to be counted no more: a clean stop.
    Leave,
}

/// How a shard's soft lease stands after a wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lead {
    /// Who has it.
    pub standing: Standing,
    /// How many seek it; the asker too, unless it left.
    pub seekers: u32,
}

impl Lead {
    /// Whether the asker has it.
    pub fn is_ours(self) -> bool {
        self.standing == Standing::Ours
    }
}

/// Who has a soft lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Who asked.
    Ours,
    /// Nobody.
    Free,
    /// Somebody else.
    Anothers,
}
