//! The scenes on a fleet's servers: one process that schedules, records and answers, and workers that are killed one by one.
//!
//! A worker takes one job at a time, so that who holds one at its moment gets no other, and each kill has one victim. The three leases run out
//! together, and the worker that is left finds what they held.

use std::path::Path;

use curfew_testkit::mail_server::MailServer;

use super::Provider;
use super::cast::{AFTER, BEFORE, Cast, TENTH, judged, nine};
use super::child::{Child, End};
use super::report::Report;
use super::settings;
use crate::config::{Config, RehearsalId};
use crate::exit::Failure;

/// What is played with.
pub struct Stage<'a> {
    /// The rehearsal's own, temporary.
    pub folder: &'a Path,
    /// The fleet's, for its servers.
    pub config: &'a Config,
    /// Whose part of the servers it works in.
    pub id: &'a RehearsalId,
    /// The count.
    pub server: &'a MailServer,
    /// Whether the server knows keys.
    pub provider: Provider,
    /// When waiting is over.
    pub end: &'a End,
}

impl Stage<'_> {
    /// Plays everything; the server's log is the judge.
    ///
    /// # Errors
    /// `Failure`, where a process doesn't start or answer.
    pub fn play(&self) -> Result<Report, Failure> {
        settings::write_fleet(self.folder, self.config, self.server, self.provider)?;
        let base = self.run(&["scheduler", "deadletter", "api"], &[])?;
        let cast = Cast { client: base.client()?, server: self.server, provider: self.provider, end: self.end };
        let mut held = Vec::new();
        for (point, subject, with) in [("after-verdict", TENTH, nine()), ("before-intent", BEFORE, vec![]), ("after-intent", AFTER, vec![])] {
            let worker = self.run(&["worker"], &[format!("{point}={subject}")])?;
            if !with.is_empty() {
                cast.submit(&with)?;
                cast.await_ends(&with)?;
            }
            cast.submit(&[subject.to_owned()])?;
            worker.paused(subject, self.end)?;
            held.push(worker);
        }
        held.into_iter().for_each(Child::kill);
        let _last = self.run(&["worker"], &[])?;
        let suppressed = cast.settle_the_tenth()?;
        let mut rows = cast.rows_of_the_ten()?;
        let accepted = cast.accepted_of_the_ten()?;
        rows.extend([cast.row_before()?, cast.row_after()?]);
        Ok(judged(self.server, rows, accepted, suppressed))
    }

    fn run(&self, roles: &[&str], pauses: &[String]) -> Result<Child, Failure> {
        let config = settings::file(self.folder).display().to_string();
        let args = [&["run"], roles, &["--config", &config, "--rehearsal", self.id.as_str()]].concat();
        Child::start(&args, pauses, &settings::servers(self.config), self.end)
    }
}
