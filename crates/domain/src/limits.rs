//! Every bound of the domain, with its reason; relations between bounds are checked when this is compiled.

use std::time::Duration;

/// One part of a key, in bytes (CONTRACT, "A job, as submitted").
pub const KEY_PART_BYTES_MAX: usize = 64;
/// A whole key, in bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// Content that stands in the job itself, in bytes (CONTRACT).
pub const INLINE_CONTENT_BYTES_MAX: usize = 256 * 1024;
/// A record's state as stored, in bytes (DESIGN 3.1: under 1 KiB, so that a swap is one small write); `Record::fit` cuts towards it.
pub const RECORD_BYTES_MAX: usize = 1024;
/// A wake-up as published, in bytes (DESIGN 3.4).
pub const WAKE_UP_BYTES_MAX: usize = 512;
/// One history entry, in bytes (DESIGN 10).
pub const HISTORY_ENTRY_BYTES_MAX: usize = 120;
/// History entries per record; above it the middle is folded into a count (DESIGN 10).
pub const HISTORY_ENTRIES_MAX: usize = 64;
/// A diagnostic, redacted, in bytes (CONTRACT, review item).
pub const DIAGNOSTIC_BYTES_MAX: usize = 500;
/// The part of a diagnostic that a record keeps; the rest would burst its kilobyte.
pub const RECORD_DIAGNOSTIC_BYTES_MAX: usize = 200;
/// Shards of a fleet.
pub const SHARDS_MAX: u8 = 64;

/// The shortest lease (CONTRACT, `[worker]`).
pub const LEASE_MIN: Duration = Duration::from_secs(10);
/// The longest lease; a constant of the build, for recovery waits it out (DESIGN 7).
pub const LEASE_MAX: Duration = Duration::from_secs(15 * 60);
/// How long an ended record stays as a tombstone (DESIGN 4).
pub const TOMBSTONE: Duration = Duration::from_secs(48 * 3600);
/// A create is refused where its book read is older, by the ledger's clock (DESIGN 4, staging).
pub const READ_AT_AGE_MAX: Duration = Duration::from_secs(60);
/// The last look wants the lease good for this much more (DESIGN 6).
pub const LAST_LOOK_MARGIN: Duration = Duration::from_secs(5);
/// A wake-up that is early by less is claimed at its moment; earlier ones are dropped (DESIGN 4).
pub const EARLY_WAIT_MAX: Duration = Duration::from_secs(1);
/// An item in doubt is not replayed before its lease is over by this much (DESIGN 4).
pub const DOUBT_REST: Duration = Duration::from_secs(15 * 60);
/// Workers keep their tokens and verdicts this long and assert them again after a reconnect (DESIGN 4).
pub const VERDICT_MEMORY: Duration = Duration::from_secs(10 * 60);
/// A verb's row left open longer is finished by a scheduler (DESIGN 4).
pub const VERB_OPEN_MAX: Duration = Duration::from_secs(5);
/// A planned job further from its release than the staging window and this is changed in the book alone (DESIGN 4).
pub const BOOK_ALONE_MARGIN: Duration = Duration::from_secs(2 * 60);
/// A retry inside the provider's idempotency window must end this long before the window does (DESIGN 6).
pub const IDEMPOTENCY_MARGIN: Duration = Duration::from_secs(60);
/// A softened refusal (digits against words) is retried at most this often in all (MAIL_FACTS A.4).
pub const SOFTENED_TRIES_MAX: u32 = 3;
/// A job that met this many configuration outcomes goes to review (DESIGN 4).
pub const CONFIGURATION_MET_MAX: u32 = 3;
/// A delivery that panicked, or that the broker gave up, this often makes `poison_message` (DESIGN 4).
pub const POISON_STRIKES_MAX: u32 = 3;
/// Numbers of applied verbs that a record keeps.
pub const VERBS_KEPT: usize = 16;
/// The fewest numbers of applied verbs a record keeps where its kilobyte is short.
pub const VERBS_KEPT_AT_LEAST: usize = 4;
/// Artifacts without a given hash for which `RECORD_BYTES_LONGEST` holds; each further one adds 34 bytes.
pub const RECORD_PINS_MAX: usize = 4;
/// What a record comes to after its cuts where everything in it that is never cut is at its longest: a key of 256 bytes, each other name
/// of 64, eight doubts, four pins. With names of 224 bytes in all, one doubt and one pin it keeps to its kilobyte.
pub const RECORD_BYTES_LONGEST: usize = 1536;
/// Tokens in doubt a record carries; a job replayed over more open doubts is refused.
pub const DOUBTS_MAX: usize = 8;

const _: () = assert!(LAST_LOOK_MARGIN.as_secs() * 2 <= LEASE_MIN.as_secs(), "a fresh lease must survive the last look");
const _: () = assert!(TOMBSTONE.as_secs() > READ_AT_AGE_MAX.as_secs() * 10, "a tombstone outlives every admissible create");
const _: () = assert!(RECORD_DIAGNOSTIC_BYTES_MAX < RECORD_BYTES_MAX / 2, "a record keeps room for its own fields");
const _: () = assert!(WAKE_UP_BYTES_MAX > KEY_BYTES_MAX + 100, "a wake-up holds the longest key");
