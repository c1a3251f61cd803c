//! The configuration of one test's Curfew, as the TOML file that it reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Keys and values; whatever isn't set is Curfew's default.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    tables: BTreeMap<String, BTreeMap<String, String>>,
}

impl Settings {
    /// The embedded default: `.eml` files under the data folder.
    pub fn capture() -> Self {
        Self::default().text("metrics.listen", "127.0.0.1:0")
    }

    /// One SMTP transport to a server of the test, without a rate, with retries after a second.
    pub fn smtp(server: SocketAddr) -> Self {
        Self::capture()
            .text("transports.default.kind", "smtp")
            .text("transports.default.url", &format!("smtp://{server}"))
            .text("transports.default.from", "Reports <reports@sender.example>")
            .text("transports.default.tls", "none")
            .text("transports.default.rate", "10000/s")
            .set("policies.default.delays", r#"["1s", "1s", "2s"]"#)
            .text("policies.default.jitter", "0s")
    }

    /// Four shards, few slots, and times that a test can wait for.
    #[must_use]
    pub fn short(self) -> Self {
        self.set("ledger.shards", "4").set("worker.concurrency", "4").text("worker.lease", "10s").text("scheduler.claim_grace", "2s")
    }

    /// Adds the policy `patient`: a job may be the victim of many faults, and each lease that was lost uses up an attempt.
    #[must_use]
    pub fn patient(self) -> Self {
        self.text("policies.patient.base", "1s")
            .set("policies.patient.factor", "1.0")
            .text("policies.patient.cap", "1s")
            .set("policies.patient.max_attempts", "500")
            .text("policies.patient.jitter", "0s")
    }

    /// Sets a key to a TOML value: `set("worker.concurrency", "4")`.
    ///
    /// # Panics
    /// Where the path has no table.
    #[must_use]
    pub fn set(mut self, path: &str, value: &str) -> Self {
        let (table, key) = path.rsplit_once('.').expect("a path is TABLE.KEY");
        self.tables.entry(table.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a key to a text.
    #[must_use]
    pub fn text(self, path: &str, value: &str) -> Self {
        self.set(path, &format!("{value:?}"))
    }

    /// The file.
    pub fn toml(&self) -> String {
        let mut out = String::new();
        for (table, keys) in &self.tables {
            let _infallible = writeln!(out, "[{table}]");
            for (key, value) in keys {
                let _infallible = writeln!(out, "{key} = {value}");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_table_and_its_key() {
        let toml = Settings::default().text("worker.lease", "10s").set("worker.concurrency", "4").toml();
        assert_eq!(toml, "[worker]\nconcurrency = 4\nlease = \"10s\"\n");
    }
}
