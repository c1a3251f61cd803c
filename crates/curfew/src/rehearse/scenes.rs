//! The scenes on the embedded stores: ten jobs and a killed process, then a kill before an intent and a kill after one.

use std::path::Path;

use curfew_testkit::mail_server::MailServer;

use super::Provider;
use super::cast::{AFTER, BEFORE, Cast, TENTH, judged, nine};
use super::child::{Child, End};
use super::report::{Report, Row};
use super::settings;
use crate::exit::Failure;

/// Plays everything; the server's log is the judge.
///
/// # Errors
/// `Failure`, where a process doesn't start or answer.
pub fn play(folder: &Path, server: &MailServer, provider: Provider, end: &End) -> Result<Report, Failure> {
    settings::write_embedded(folder, server, provider)?;
    let mut rows = Vec::new();
    let stage = Stage { folder, server, provider, end };
    let (accepted, suppressed) = stage.ten_jobs(&mut rows)?;
    rows.push(stage.killed("before-intent", BEFORE, |cast| cast.row_before())?);
    rows.push(stage.killed("after-intent", AFTER, |cast| cast.row_after())?);
    Ok(judged(server, rows, accepted, suppressed))
}

struct Stage<'a> {
    folder: &'a Path,
    server: &'a MailServer,
    provider: Provider,
    end: &'a End,
}

impl Stage<'_> {
    fn up(&self, pauses: &[String]) -> Result<Child, Failure> {
        let config = settings::file(self.folder).display().to_string();
        let data = self.folder.join("data").display().to_string();
        let args = ["up", "--config", &config, "--data", &data, "--http", "127.0.0.1:0"];
        Child::start(&args, pauses, &[], self.end)
    }

    fn cast<'b>(&'b self, up: &'b Child) -> Result<Cast<'b>, Failure> {
        Ok(Cast { client: up.client()?, server: self.server, provider: self.provider, end: self.end })
    }

    fn ten_jobs(&self, rows: &mut Vec<Row>) -> Result<(u64, u64), Failure> {
        let up = self.up(&[format!("after-verdict={TENTH}")])?;
        let cast = self.cast(&up)?;
        cast.submit(&[nine(), vec![TENTH.to_owned()]].concat())?;
        up.paused(TENTH, self.end)?;
        cast.await_ends(&nine())?;
        up.kill();

        let up = self.up(&[])?;
        let cast = self.cast(&up)?;
        let suppressed = cast.settle_the_tenth()?;
        rows.extend(cast.rows_of_the_ten()?);
        let accepted = cast.accepted_of_the_ten()?;
        up.kill();
        Ok((accepted, suppressed))
    }

    fn killed(&self, point: &str, subject: &str, row: impl FnOnce(&Cast<'_>) -> Result<Row, Failure>) -> Result<Row, Failure> {
        let up = self.up(&[format!("{point}={subject}")])?;
        self.cast(&up)?.submit(&[subject.to_owned()])?;
        up.paused(subject, self.end)?;
        up.kill();
        let up = self.up(&[])?;
        let row = row(&self.cast(&up)?)?;
        up.kill();
        Ok(row)
    }
}
