//! How a verb ends: five codes for scripts, one line for people.

use std::process::ExitCode;

/// The contract's exit codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: refused, not found, conflict, a difference, some or all lines rejected.
    Refused,
    /// 2: usage, an unreadable file, an unknown CSV column, a bad configuration. Nothing was sent.
    Usage,
    /// 69: connection refused, or no answer.
    NoAnswer,
    /// 75: something is in the way that passes: a lock, a circuit, a recovery, a doubt's rest.
    NotYet,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::NoAnswer => 69,
            Exit::NotYet => 75,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// A verb that ended before its end, and what to tell the person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// One line, or one a fault.
    pub says: String,
}

impl Failure {
    /// A refusal.
    pub fn refused(says: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, says: says.into() }
    }

    /// A mistake in what was asked.
    pub fn usage(says: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, says: says.into() }
    }

    /// Nobody answered.
    pub fn no_answer(says: impl Into<String>) -> Self {
        Self { exit: Exit::NoAnswer, says: says.into() }
    }

    /// Later it may pass.
    pub fn not_yet(says: impl Into<String>) -> Self {
        Self { exit: Exit::NotYet, says: says.into() }
    }
}

/// How a verb ends.
pub type Ended = Result<Exit, Failure>;
