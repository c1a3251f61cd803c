//! How often what occurred.

use std::collections::BTreeMap;

/// Counts by kind and word.
#[derive(Default)]
pub struct Tally(BTreeMap<(&'static str, String), u64>);

impl Tally {
    pub fn count(&mut self, kind: &'static str, word: &str) {
        *self.0.entry((kind, word.to_owned())).or_default() += 1;
    }

    pub fn add(&mut self, other: Tally) {
        for (key, count) in other.0 {
            *self.0.entry(key).or_default() += count;
        }
    }

    /// Those that never occurred.
    pub fn missing(&self, kind: &'static str, words: &[&str]) -> Vec<String> {
        let met = |word: &str| self.0.contains_key(&(kind, word.to_owned()));
        words.iter().filter(|word| !met(word)).map(|word| format!("{kind} {word}")).collect()
    }

    pub fn print(&self) {
        for ((kind, word), count) in &self.0 {
            println!("{count:>9}  {kind}: {word}");
        }
    }
}
