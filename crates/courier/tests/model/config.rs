//! What a run explores: how many of each, what may happen, and the bug that is planted in its environment.

/// A bug in whatever stands around the pure functions: the ledger's script, a worker's steps, the book's transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// The content leaves without an intent on record.
    NoIntent,
    /// The end marker leaves without a last look.
    NoLastLook,
    /// The last look sees the deadline and forgets the lease.
    LookForgetsLease,
    /// The last look sees the lease and forgets the deadline; so do the guards.
    NoDeadlineCheck,
    /// A handoff whose lease is over is taken for a claim whose lease is over.
    ResendOnLeaseExpiry,
    /// A swap overwrites whatever stands there.
    NoVersionCheck,
    /// A create doesn't ask how old its book read is.
    NoReadAt,
    /// A create overwrites an earlier generation in any state.
    OverUnrecorded,
    /// A create overwrites a higher generation.
    LowerGeneration,
    /// A mark stages a row in whatever state it is.
    MarkUnguarded,
    /// A story replaces what the row heard later.
    StoryUnguarded,
    /// A review item is overwritten by its job's next dead letter, open again.
    UpsertedItems,
    /// A story that changes nothing leaves its record open.
    OlderStaysOpen,
    /// The deadline of a waiting job has no timer.
    NoTimer,
    /// Whose lease is over has no timer.
    NoLeaseTimer,
    /// A record forgets which verbs were applied to it.
    VerbsForgotten,
    /// A late refusal makes a dead letter run again.
    RefusalRevives,
    /// The reply to a lost connection after the end marker is read as a refusal.
    LossIsRefusal,
    /// A verb is answered before the ledger has it.
    AnsweredEarly,
    /// The tenant's counter isn't asked.
    NoCounter,
    /// A ledger that came back without its tail goes on as if nothing had happened.
    NoBarrier,
    /// Nobody waits for a worker's lease before what it may hold goes to review.
    RecoveryForgetsLeases,
    /// What a missing worker could have had goes on as it stands.
    RecoveryForgetsDoubts,
    /// Neither the book's later story nor its verbs are brought back.
    RecoveryForgetsTheBook,
    /// An errand of before the recovery goes on after it.
    OldErrandsGoOn,
}

/// What a worker hears or finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    Accepted,
    Transient,
    Throttled,
    Permanent,
    Listed,
    Configuration,
    ArtifactMissing,
    NotHandedOff,
    Unknown,
}

impl Said {
    pub const ALL: [Said; 9] = [
        Said::Accepted,
        Said::Transient,
        Said::Throttled,
        Said::Permanent,
        Said::Listed,
        Said::Configuration,
        Said::ArtifactMissing,
        Said::NotHandedOff,
        Said::Unknown,
    ];
}

/// One configuration.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub name: &'static str,
    pub jobs: usize,
    pub workers: usize,
    pub schedulers: usize,
    pub consumers: usize,
    /// The tick of the release, of the deadline, and the last one.
    pub release: u8,
    pub deadline: u8,
    pub end: u8,
    /// Attempts of a generation, and generations of a job.
    pub attempts: u8,
    pub generations: u8,
    /// Verbs, replays and corrections in all.
    pub acts: u8,
    pub cancel: bool,
    pub suppress: bool,
    pub moves: bool,
    pub replay: bool,
    pub correct: bool,
    /// Wake-ups are messages that may be lost; else a worker may come at any time (any loss, repetition and order).
    pub messages: bool,
    /// Jobs in flight of the tenant.
    pub in_flight: Option<usize>,
    /// Give-backs, renewals, strikes and limits in all.
    pub frees: u8,
    /// What an attempt may end with before its intent.
    pub before: &'static [Said],
    /// The recipient may come onto a suppressions list.
    pub listing: bool,
    /// The provider knows keys for some time.
    pub window: bool,
    /// Rows are staged at their release alone; before it a verb changes the book alone.
    pub far: bool,
    /// At the deadline the policy suppresses.
    pub suppress_at_deadline: bool,
    /// Processes may crash; where they may not, they still freeze.
    pub crashes: bool,
    /// The ledger may lose its tail, once.
    pub rollback: bool,
    pub plant: Option<Plant>,
    /// A world with a bound of its own is explored that far; every other one whole.
    pub states_max: Option<usize>,
}

impl Config {
    /// One job, two attempts, two of each; nobody acts on it.
    pub const BASE: Config = Config {
        name: "",
        jobs: 1,
        workers: 2,
        schedulers: 1,
        consumers: 1,
        release: 1,
        deadline: 2,
        end: 3,
        attempts: 2,
        generations: 1,
        acts: 0,
        cancel: false,
        suppress: false,
        moves: false,
        replay: false,
        correct: false,
        messages: false,
        in_flight: None,
        frees: 0,
        before: &[Said::Transient, Said::Permanent],
        listing: false,
        window: false,
        far: false,
        suppress_at_deadline: false,
        crashes: true,
        rollback: false,
        plant: None,
        states_max: None,
    };

    pub fn has(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    pub const fn with(self, plant: Plant) -> Config {
        Config { plant: Some(plant), ..self }
    }
}
