//! Seeded chance: a fault is decided by (seed, label, subject, attempt), so a run repeats whatever the order of its threads.

/// The environment variable that fixes the seed of a run.
pub const SEED_VARIABLE: &str = "CURFEW_TEST_SEED";

/// The seed of this run: from `CURFEW_TEST_SEED`, else a new one. It is printed, so that a failure can be run again.
///
/// # Panics
/// When the variable is set and isn't a whole number: a typing error must not pass as chance.
pub fn seed() -> u64 {
    let seed = match std::env::var(SEED_VARIABLE) {
        Ok(text) => text.trim().parse().expect("CURFEW_TEST_SEED is a whole number"),
        Err(_) => rand::random(),
    };
    eprintln!("faults: {SEED_VARIABLE}={seed}");
    seed
}

/// Dice whose throw depends on what it is thrown for, never on what was thrown before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dice {
    seed: u64,
}

impl Dice {
    /// Dice of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed, to print.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A number that is always the same for the same label, subject and attempt.
    pub fn number(&self, label: &str, subject: &[u8], attempt: u32) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ self.seed;
        let parts = label.bytes().chain([0]).chain(subject.iter().copied()).chain([0]).chain(attempt.to_be_bytes());
        for byte in parts {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        scatter(hash)
    }

    /// Whether it happens, with a chance of `percent` (0 never, 100 always; a hundredth of a percent counts).
    pub fn happens(&self, percent: f64, label: &str, subject: &[u8], attempt: u32) -> bool {
        (self.number(label, subject, attempt) % 10_000) as f64 / 100.0 < percent
    }
}

/// FNV leaves neighbours close together; this finish (SplitMix64) spreads them, so that attempt 2 tells nothing about attempt 3.
fn scatter(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throw_depends_on_seed_label_subject_and_attempt_alone() {
        let dice = Dice::new(7);
        assert_eq!(dice.number("rcpt", b"a", 1), Dice::new(7).number("rcpt", b"a", 1));
        let others = [Dice::new(8).number("rcpt", b"a", 1), dice.number("dot", b"a", 1), dice.number("rcpt", b"b", 1), dice.number("rcpt", b"a", 2)];
        assert!(others.iter().all(|other| *other != dice.number("rcpt", b"a", 1)));
    }

    #[test]
    fn ten_percent_is_about_a_tenth_none_is_never_and_all_is_always() {
        let dice = Dice::new(42);
        let count = |percent| (0..10_000).filter(|n| dice.happens(percent, "x", &u32::to_be_bytes(*n), 1)).count();
        assert!((800..1_200).contains(&count(10.0)), "{}", count(10.0));
        assert_eq!(count(0.0), 0);
        assert_eq!(count(100.0), 10_000);
    }
}
