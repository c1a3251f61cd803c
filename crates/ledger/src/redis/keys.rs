//! Every key of the ledger in Redis. Nobody else spells one.
//!
//! `{NN}` is a hash tag: all keys of a shard hash to one slot, so that one script may touch them. Keys of a job end with its idempotency key,
//! which holds no address; the prefix in front of it is passed to scripts that read an index and follow its members.

use curfew_domain::transition::Index;
use curfew_domain::{Key, Shard};

/// Builds keys under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    fn of(&self, shard: Shard, name: &str) -> String {
        format!("{}:{{{shard}}}:{name}", self.prefix)
    }

    /// Incarnation, run id, replication id, recovering.
    pub(super) fn meta(&self, shard: Shard) -> String {
        self.of(shard, "meta")
    }

    /// In front of the keys of records.
    pub(super) fn jobs(&self, shard: Shard) -> String {
        self.of(shard, "job:")
    }

    /// In front of the keys of sealed letters.
    pub(super) fn letters(&self, shard: Shard) -> String {
        self.of(shard, "letter:")
    }

    /// In front of the keys of histories.
    pub(super) fn histories(&self, shard: Shard) -> String {
        self.of(shard, "history:")
    }

    /// In front of the keys of tenants' lines.
    pub(super) fn lines(&self, shard: Shard) -> String {
        self.of(shard, "line:")
    }

    pub(super) fn job(&self, shard: Shard, key: &Key) -> String {
        self.jobs(shard) + key.as_str()
    }

    pub(super) fn letter(&self, shard: Shard, key: &Key) -> String {
        self.letters(shard) + key.as_str()
    }

    pub(super) fn history(&self, shard: Shard, key: &Key) -> String {
        self.histories(shard) + key.as_str()
    }

    pub(super) fn index(&self, shard: Shard, index: Index) -> String {
        self.of(shard, index.word())
    }

    /// Tenants by the head of their line.
    pub(super) fn tenants(&self, shard: Shard) -> String {
        self.of(shard, "tenants")
    }

    pub(super) fn counts(&self, shard: Shard) -> String {
        self.of(shard, "counts")
    }

    /// Next times of what waits to be claimed.
    pub(super) fn due(&self, shard: Shard) -> String {
        self.of(shard, "due")
    }

    pub(super) fn expiry(&self, shard: Shard) -> String {
        self.of(shard, "expiry")
    }

    pub(super) fn postponed(&self, shard: Shard) -> String {
        self.of(shard, "postponed")
    }

    /// Every key of a job, for the auditor's walk.
    pub(super) fn all(&self, shard: Shard) -> String {
        self.of(shard, "all")
    }

    pub(super) fn suppressed(&self, shard: Shard) -> String {
        self.of(shard, "suppressed")
    }

    /// A list on its way to become the suppressed one; `by` names its writer.
    pub(super) fn suppressed_beside(&self, shard: Shard, by: &str) -> String {
        self.of(shard, &format!("suppressed:{by}"))
    }

    pub(super) fn suppressed_digest(&self, shard: Shard) -> String {
        self.of(shard, "suppressed-digest")
    }

    pub(super) fn beat(&self, shard: Shard) -> String {
        self.of(shard, "beat")
    }

    /// Which workers live, by when they were heard last.
    pub(super) fn heard(&self, shard: Shard) -> String {
        self.of(shard, "heard")
    }

    /// Which scheduler works the shard.
    pub(super) fn lead(&self, shard: Shard) -> String {
        self.of(shard, "lead")
    }

    /// Which schedulers would.
    pub(super) fn seekers(&self, shard: Shard) -> String {
        self.of(shard, "seekers")
    }

    /// Pauses, cool-downs, open circuits of the whole fleet, in a slot of their own.
    pub(super) fn holds(&self) -> String {
        format!("{}:{{holds}}:all", self.prefix)
    }

    /// A transport's rate, in a slot of its own.
    pub(super) fn permits(&self, name: &str) -> String {
        // A brace in a name would cut the tag short.
        let tag = name.replace(['{', '}'], "_");
        format!("{}:{{permits:{tag}}}:{name}", self.prefix)
    }

    /// Keys 3 to 13 of the scripts that write, as `lua/place.lua` names them; `tenant` is the key's.
    pub(super) fn place(&self, shard: Shard, key: &Key) -> [String; 11] {
        [
            self.letter(shard, key),
            self.history(shard, key),
            self.index(shard, Index::Watch),
            self.index(shard, Index::Settle),
            self.index(shard, Index::Review),
            self.lines(shard) + key.tenant(),
            self.tenants(shard),
            self.counts(shard),
            self.due(shard),
            self.expiry(shard),
            self.postponed(shard),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::slot;
    use super::*;

    #[test]
    fn all_keys_of_a_shard_stand_in_one_slot() {
        let keys = Keys::new("curfew");
        let (shard, key) = (Shard(7), Key::parse("acme/renewal/{x}/2026-12-01".replace(['{', '}'], "_").as_str()).expect("a key"));
        assert_eq!(keys.job(shard, &key), "curfew:{07}:job:acme/renewal/_x_/2026-12-01");
        let mut all = keys.place(shard, &key).to_vec();
        all.extend([keys.meta(shard), keys.job(shard, &key), keys.all(shard), keys.suppressed(shard), keys.suppressed_beside(shard, "w")]);
        all.extend([keys.beat(shard), keys.heard(shard), keys.suppressed_digest(shard), keys.lead(shard), keys.seekers(shard)]);
        assert!(all.iter().all(|name| slot(name) == slot("07")), "{all:?}");
        assert_eq!(slot(&keys.permits("smtp")), slot("permits:smtp"));
        assert_eq!(slot(&keys.permits("a}b")), slot("permits:a_b"));
    }
}
