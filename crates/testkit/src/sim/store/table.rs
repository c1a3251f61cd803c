//! A table whose copy is free: what isn't changed is shared. So each commit can keep what stood before it.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

/// Rows by their key, in its order.
pub(super) struct Table<K, V>(Arc<BTreeMap<K, Arc<V>>>);

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key).map(|row| &**row)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// To change a row. Nothing is copied where there is none.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        if !self.contains(key) {
            return None;
        }
        Arc::make_mut(&mut self.0).get_mut(key).map(Arc::make_mut)
    }

    /// Puts a row, over one that stands.
    pub(super) fn put(&mut self, key: K, row: V) {
        Arc::make_mut(&mut self.0).insert(key, Arc::new(row));
    }

    /// Puts a row where none stands; whether it did.
    pub(super) fn insert(&mut self, key: K, row: V) -> bool {
        let free = !self.contains(&key);
        if free {
            self.put(key, row);
        }
        free
    }

    /// Whether there was one.
    pub(super) fn remove(&mut self, key: &K) -> bool {
        self.contains(key) && Arc::make_mut(&mut self.0).remove(key).is_some()
    }

    /// Keeps what is asked for.
    pub(super) fn retain(&mut self, keep: impl Fn(&K, &V) -> bool) {
        if self.iter().any(|(key, row)| !keep(key, row)) {
            Arc::make_mut(&mut self.0).retain(|key, row| keep(key, row));
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, row)| (key, &**row))
    }

    pub(super) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_key, row)| row)
    }

    pub(super) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.range(range).map(|(key, row)| (key, &**row))
    }

    /// Rows that were put or changed since an earlier copy.
    pub(super) fn changed<'t>(&'t self, before: &'t Self) -> impl Iterator<Item = (&'t K, &'t V)> {
        let same = |key: &K, row: &Arc<V>| before.0.get(key).is_some_and(|stood| Arc::ptr_eq(stood, row));
        self.0.iter().filter(move |(key, row)| !same(key, row)).map(|(key, row)| (key, &**row))
    }

    /// Whether nothing was changed between two copies.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Numbers that rise by one, as PostgreSQL's sequences give them: its log is 32 ahead, so a server that crashed, or a stand-by that took
/// over, goes on behind the gap. Where the lost tail held the log's own step, numbers come a second time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sequence {
    last: u64,
    logged: u64,
}

/// PostgreSQL's `SEQ_LOG_VALS`.
const LOGGED_AHEAD: u64 = 32;

impl Sequence {
    pub(super) fn draw(&mut self) -> u64 {
        if self.last == self.logged {
            self.logged = self.last + 1 + LOGGED_AHEAD;
        }
        self.last += 1;
        self.last
    }

    /// The server comes up anew.
    pub(super) fn after_a_crash(&mut self) {
        self.last = self.logged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_stood() {
        let mut table = Table::default();
        table.put(1, "one");
        let before = table.clone();
        assert!(!table.insert(1, "other") && table.remove(&2) == table.get_mut(&2).is_some() && before.is(&table));
        *table.get_mut(&1).expect("it was put") = "changed";
        assert_eq!((before.get(&1), table.get(&1), before.is(&table)), (Some(&"one"), Some(&"changed"), false));
        table.put(2, "two");
        assert_eq!(table.changed(&before).collect::<Vec<_>>(), [(&1, &"changed"), (&2, &"two")]);
    }

    #[test]
    fn a_sequence_goes_on_behind_its_gap() {
        let mut sequence = Sequence::default();
        assert_eq!([sequence.draw(), sequence.draw()], [1, 2]);
        sequence.after_a_crash();
        assert_eq!(sequence.draw(), 34);
    }
}
