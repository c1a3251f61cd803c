//! The sentence an operator needs: why a job will run again, what it waits for, or why it stopped and what to do next.
//!
//! Moments are UTC; the date stands only where it isn't today's. No address: a diagnostic that could hold one is left out.
//! `tests/explain.rs` has every sentence as a golden table.

use crate::limits::DOUBT_REST;
use crate::outcome::{Receipt, Stage};
use crate::record::{LastOutcome, WaitingFor};
use crate::{Moment, Reason, Record, State};

/// Says where a record stands, as of `now`. `budget` is the most attempts that its policy allows, where that is known.
pub fn explain(record: &Record, budget: Option<u32>, now: Moment) -> String {
    let told = Told { record, budget, now };
    match record.state {
        State::Scheduled => told.scheduled(),
        State::Queued => told.queued(),
        State::Claimed => told.claimed(),
        State::Handoff => told.handoff(),
        State::Sent => told.sent(),
        State::DeadLetter => told.dead_letter(),
        State::Cancelled => format!("Cancelled by an operator{}.", told.open_doubt()),
        State::Suppressed => told.suppressed(),
    }
}

/// Says where a job stands that is still the book's.
pub fn explain_planned(release_at: Moment, deadline_at: Moment, now: Moment) -> String {
    if now >= deadline_at {
        return format!("Planned, and its deadline was {}: it is staged next, and ends without an attempt.", at(deadline_at, now));
    }
    if now >= release_at {
        return format!("Planned and due since {}: it is staged next; stops at {}.", at(release_at, now), at(deadline_at, now));
    }
    format!("Planned: waits for its release at {}; stops at {}.", at(release_at, now), at(deadline_at, now))
}

struct Told<'a> {
    record: &'a Record,
    budget: Option<u32>,
    now: Moment,
}

impl Told<'_> {
    fn scheduled(&self) -> String {
        let record = self.record;
        let (due, stop) = (record.due(), self.stop());
        if self.now >= record.stops_at() {
            return format!("Won't run again: {stop}, has come; it ends as soon as the scheduler looks.");
        }
        if due >= record.stops_at() {
            return format!("Won't run again: its next time, {}, is not before {stop}; it ends then.", self.at(due));
        }
        let attempt = self.attempt(record.attempts + 1);
        let because = self.because();
        let stops = self.stops();
        let verb = if record.attempts == 0 { "Runs" } else { "Runs again" };
        match record.waiting_for {
            Some(WaitingFor::Release) if due > self.now => format!("Waits for its release: runs at {} {attempt}; {stops}.", self.at(due)),
            Some(WaitingFor::Retry | WaitingFor::Release) | None if due > self.now => {
                format!("{verb} at {} {attempt}{because}; {stops}.", self.at(due))
            }
            Some(WaitingFor::Retry | WaitingFor::Release) | None => {
                format!("Due since {}: {} as soon as its line is served {attempt}{because}; {stops}.", self.at(due), verb.to_lowercase())
            }
            Some(limit) => {
                let (what, then) = self.limit(limit);
                let when = if due > self.now { format!(", not before {}", self.at(due)) } else { " as soon as its line is served".to_owned() };
                format!("Waits for {what}: {then}{when} {attempt}{because}; {stops}.")
            }
        }
    }

    /// What a limit waits for, and what happens when that is over.
    fn limit(&self, by: WaitingFor) -> (String, &'static str) {
        let Record { transport, .. } = self.record;
        let tries = "it tries again";
        match by {
            WaitingFor::Release => ("its release".to_owned(), tries),
            WaitingFor::Retry => ("its next attempt".to_owned(), tries),
            WaitingFor::TenantInFlight => ("a place among its tenant's jobs in flight".to_owned(), tries),
            WaitingFor::TenantRate => ("its tenant's rate".to_owned(), tries),
            WaitingFor::TenantCredit => ("its tenant's part of the ready queue".to_owned(), tries),
            WaitingFor::TransportRate => (format!("the rate of the transport {transport}"), tries),
            WaitingFor::CoolDown => (format!("the end of a cool-down of the transport {transport}"), tries),
            WaitingFor::Circuit => (format!("the transport {transport}, whose circuit is open"), "it looks again"),
            WaitingFor::Pause => ("an operator who resumes what was paused".to_owned(), "it looks again"),
            WaitingFor::Broker => ("the broker, which is away".to_owned(), tries),
            WaitingFor::Recovery => ("its shard, which recovers".to_owned(), tries),
        }
    }

    fn queued(&self) -> String {
        let due = self.record.due();
        let when = if due > self.now { format!("at {}", self.at(due)) } else { format!("since {}", self.at(due)) };
        let word = if due > self.now { "a worker takes it" } else { "a worker may take it" };
        format!("Queued: {word} {when} {}{}; {}.", self.attempt(self.record.attempts + 1), self.because(), self.stops())
    }

    fn claimed(&self) -> String {
        let attempt = self.attempt(self.record.attempts);
        match self.record.lease_until {
            Some(until) if until > self.now => {
                format!("A worker prepares it {attempt} under a lease until {}; nothing is handed over yet; {}.", self.at(until), self.stops())
            }
            Some(until) => format!(
                "Its worker's lease ended at {} {attempt}, before anything was handed over: the scheduler decides what follows; {}.",
                self.at(until),
                self.stops()
            ),
            None => format!("A worker prepares it {attempt}; nothing is handed over yet; {}.", self.stops()),
        }
    }

    fn handoff(&self) -> String {
        let attempt = self.attempt(self.record.attempts);
        if self.record.token == Some(crate::Token::ANY) {
            let until = self.record.lease_until.map_or_else(String::new, |until| format!(" until {}", self.at(until)));
            return format!(
                "In doubt: the ledger lost its latest part, and a worker that may have handed it over is missing. Nothing sends it; it waits{until} for that worker's word, then goes to review."
            );
        }
        let otherwise = "without one it is in doubt, and no automation sends it again unless the provider is known to recognise its key";
        match self.record.lease_until {
            Some(until) if until > self.now => {
                format!("Being handed over {attempt}: the provider may have accepted. The verdict comes by {}; {otherwise}.", self.at(until))
            }
            Some(until) => format!(
                "Handed over {attempt}: the provider may have accepted. Its lease ended at {}, and no verdict has come; {otherwise}.",
                self.at(until)
            ),
            None => format!("Being handed over {attempt}: the provider may have accepted; {otherwise}."),
        }
    }

    fn sent(&self) -> String {
        match &self.record.receipt {
            Some(Receipt { at, code: 0, queue_id: Some(id), .. }) => format!("Sent: accepted at {} as {id}{}.", self.at(*at), self.open_doubt()),
            Some(Receipt { at, code: 0, queue_id: None, .. }) => format!("Sent: accepted at {}{}.", self.at(*at), self.open_doubt()),
            Some(Receipt { at, code, queue_id: Some(id), .. }) => {
                format!("Sent: the server answered {code} at {}, its queue id is {id}{}.", self.at(*at), self.open_doubt())
            }
            Some(Receipt { at, code, queue_id: None, .. }) => {
                format!("Sent: the server answered {code} at {}, without a queue id{}.", self.at(*at), self.open_doubt())
            }
            None => format!("Sent{}.", self.open_doubt()),
        }
    }

    fn suppressed(&self) -> String {
        let why = match self.record.reason {
            Some(Reason::SuppressionList) => "the recipient stands on the suppressions list".to_owned(),
            Some(Reason::Operator) => "an operator asked for it".to_owned(),
            Some(Reason::BusinessDeadlineReached | Reason::Policy) => {
                format!("its deadline, {}, came first{}, and its policy asks for no review then", self.at(self.record.deadline_at), self.last_words())
            }
            Some(other) => other.word().to_owned(),
            None => "Curfew decided not to send it".to_owned(),
        };
        format!("Suppressed: {why}{}.", self.open_doubt())
    }

    fn dead_letter(&self) -> String {
        let record = self.record;
        let Some(reason) = record.reason else { return format!("Stopped{}. {}", self.last_words(), self.next_step("Look at its history")) };
        let deadline = self.at(record.deadline_at);
        let (why, first) = match reason {
            Reason::ReconciliationRequired if record.in_doubt() => (
                format!("in doubt: the provider may have accepted a handoff, and nobody can say{}", self.last_words()),
                "Look for it at the provider",
            ),
            Reason::ReconciliationRequired => {
                (format!("a handoff was in doubt; by now it is known that it wasn't accepted{}", self.last_words()), "")
            }
            Reason::PermanentFailure => (format!("the server refused it for good{}", self.last_words()), "Correct the recipient or the content"),
            Reason::RecipientSuppressed => (
                format!("the provider's own list refuses this recipient{}", self.last_words()),
                "Have it taken off the provider's list, or suppress the job",
            ),
            Reason::RetryBudgetExhausted => {
                (format!("no attempt is left after {}{}", times(record.attempts), self.last_words()), "Find out what the server needs")
            }
            Reason::BusinessDeadlineReached => {
                (format!("its deadline, {deadline}, came before it could be sent{}", self.last_words()), "See whether it is still wanted")
            }
            Reason::ArtifactMissing => (format!("an artifact wasn't there{}", self.last_words()), "Provide the artifact, or correct its reference"),
            Reason::ArtifactMismatch => {
                (format!("an artifact isn't the one that was pinned{}", self.last_words()), "Provide the pinned artifact, or correct its reference")
            }
            Reason::Configuration => {
                (format!("the set-up of the transport {} is wrong for it{}", record.transport, self.last_words()), "Mend the configuration")
            }
            Reason::WorkerLost => {
                (format!("its workers were lost before the handoff, in {}", times(record.attempts)), "Find out why the workers died")
            }
            Reason::PoisonMessage => ("it broke its worker three times".to_owned(), "Look at the workers' logs"),
            Reason::MalformedMessage => ("a message about it can't be read".to_owned(), "Look at the kept bytes"),
            Reason::LedgerRecordMissing => ("a wake-up had no record in the ledger".to_owned(), "Audit the ledger"),
            Reason::LedgerRolledBack => {
                ("the ledger lost its latest part, and nobody could prove what became of it".to_owned(), "Look for it at the provider")
            }
            Reason::BookRolledBack => ("the book lost its latest part while it was due".to_owned(), "Look for it at the provider"),
            Reason::Accepted
            | Reason::TransientFailure
            | Reason::Throttled
            | Reason::LeaseExpired
            | Reason::GivenBack
            | Reason::Operator
            | Reason::Policy
            | Reason::SuppressionList => (reason.word().to_owned(), "Look at its history"),
        };
        let carried = if record.in_doubt() || record.doubts.is_empty() { "" } else { " A handoff of an earlier generation is still in doubt." };
        format!("Stopped: {why}. {}{carried}", self.next_step(first))
    }

    /// What a person can do; a doubt bounds it.
    fn next_step(&self, first: &str) -> String {
        if first.is_empty() {
            return "Replay with a new deadline, or resolve.".to_owned();
        }
        if !self.record.in_doubt() {
            return format!("{first}; then replay with a new deadline, or resolve.");
        }
        let rest_over = self.record.lease_until.map(|until| until.plus(DOUBT_REST)).filter(|over| *over > self.now);
        let after = rest_over.map_or_else(String::new, |over| format!(" after {}", self.at(over)));
        format!("{first}; resolve with its receipt, or replay only with --accept-duplicate-risk{after}.")
    }

    /// ` because …`, where an attempt or a give-back is the cause.
    fn because(&self) -> String {
        let record = self.record;
        let cause = match record.reason {
            Some(Reason::LeaseExpired) => Some("its worker's lease ended".to_owned()),
            Some(Reason::GivenBack) if record.waiting_for.is_none() => Some("a worker gave it back without using an attempt".to_owned()),
            Some(Reason::Configuration) => Some(format!("the set-up of the transport {} is wrong{}", record.transport, self.last_words())),
            Some(Reason::Throttled) => Some(format!("the server asks for patience{}", self.last_words())),
            Some(Reason::TransientFailure) => Some(match record.last.as_ref().map(|last| (last, reply_codes(&last.diagnostic))) {
                Some((_, Some(codes))) => format!("the server answered {codes}"),
                Some((last, None)) => format!("it failed {}", place_and_words(last)),
                None => "the last attempt failed".to_owned(),
            }),
            Some(_) | None => None,
        };
        let doubt = if record.in_doubt() { ", under the provider key of a handoff in doubt" } else { "" };
        cause.map_or_else(String::new, |cause| format!(" because {cause}")) + doubt
    }

    /// ` (…)` with the last outcome: the reply's codes where a server spoke, else where it happened and what.
    fn last_words(&self) -> String {
        let words = self.record.last.as_ref().map(|last| reply_codes(&last.diagnostic).unwrap_or_else(|| place_and_words(last)));
        words.map_or_else(String::new, |words| format!(" ({words})"))
    }

    fn open_doubt(&self) -> &'static str {
        if self.record.open_tokens().is_empty() { "" } else { "; an earlier handoff is still in doubt" }
    }

    fn stops(&self) -> String {
        let record = self.record;
        if record.stops_at() < record.deadline_at {
            return format!("stops at {}, when the provider may forget its key", self.at(record.stops_at()));
        }
        format!("stops at {}", self.at(record.deadline_at))
    }

    fn stop(&self) -> String {
        let record = self.record;
        if record.stops_at() < record.deadline_at {
            return format!("the end of the provider's window, {}", self.at(record.stops_at()));
        }
        format!("its deadline, {}", self.at(record.deadline_at))
    }

    fn attempt(&self, number: u32) -> String {
        match self.budget {
            Some(most) => format!("(attempt {number} of {})", most.max(number)),
            None => format!("(attempt {number})"),
        }
    }

    fn at(&self, moment: Moment) -> String {
        at(moment, self.now)
    }
}

/// `HH:MM:SS`, with its date where that isn't today's.
fn at(moment: Moment, now: Moment) -> String {
    if moment.date() == now.date() { moment.clock() } else { format!("{} {}", moment.date(), moment.clock()) }
}

fn times(attempts: u32) -> String {
    if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") }
}

/// `at connect: connection refused`; words that could hold an address give way to the name of the rule that spoke.
fn place_and_words(last: &LastOutcome) -> String {
    let spoken = last.diagnostic.trim().trim_end_matches('.');
    let place = match last.stage {
        Stage::Artifact => "before connecting".to_owned(),
        Stage::Dot => "after the content".to_owned(),
        stage @ (Stage::Connect
        | Stage::Tls
        | Stage::Greeting
        | Stage::Ehlo
        | Stage::Starttls
        | Stage::Auth
        | Stage::Mail
        | Stage::Rcpt
        | Stage::Data
        | Stage::Content
        | Stage::Noop
        | Stage::Rset
        | Stage::Quit) => format!("at {stage}"),
    };
    if spoken.is_empty() || spoken.contains('@') || spoken.chars().any(char::is_control) {
        return format!("{place}: rule {}", last.rule);
    }
    format!("{place}: {spoken}")
}

/// `451 4.7.1` from `451 4.7.1 Greylisted`, `550` from `550 no such user`; nothing from our own words.
fn reply_codes(diagnostic: &str) -> Option<String> {
    let code = diagnostic.get(..3).filter(|c| c.bytes().all(|b| b.is_ascii_digit()) && matches!(c.as_bytes()[0], b'2'..=b'5'))?;
    let rest = &diagnostic[3..];
    if !rest.is_empty() && !rest.starts_with([' ', '-']) {
        return None;
    }
    let enhanced = rest.get(1..).and_then(|r| r.split_whitespace().next()).filter(|word| is_enhanced(word));
    Some(enhanced.map_or_else(|| code.to_owned(), |enhanced| format!("{code} {enhanced}")))
}

/// RFC 3463: class, subject and detail, digits with dots.
fn is_enhanced(word: &str) -> bool {
    let mut parts = word.split('.');
    let digits = |part: Option<&str>| part.is_some_and(|p| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()));
    digits(parts.next()) && digits(parts.next()) && digits(parts.next()) && parts.next().is_none()
}
