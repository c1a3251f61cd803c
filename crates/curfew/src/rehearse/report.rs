//! What the rehearsal expected and what it found.

use serde_json::json;

/// One line of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The job, in words.
    pub job: String,
    /// What should have become of it.
    pub expected: String,
    /// What did.
    pub found: String,
}

/// The whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Line by line.
    pub rows: Vec<Row>,
    /// Messages that the server accepted of the ten.
    pub accepted_at_server: u64,
    /// Second submissions that were avoided, or answered as duplicates.
    pub duplicates_suppressed: u64,
    /// Whether nothing differs.
    pub ok: bool,
}

impl Report {
    /// The table for people, or the object for scripts.
    pub fn print(&self, json: bool) {
        if json {
            let rows: Vec<_> =
                self.rows.iter().map(|r| json!({"job": r.job, "expected": r.expected, "found": r.found, "ok": r.expected == r.found})).collect();
            let object = json!({"rows": rows, "accepted_at_server": self.accepted_at_server, "duplicates_suppressed": self.duplicates_suppressed, "ok": self.ok});
            println!("{object}");
            return;
        }
        let width = |pick: fn(&Row) -> &String, title: &str| self.rows.iter().map(|r| pick(r).chars().count()).max().unwrap_or(0).max(title.len());
        let (job, expected) = (width(|r| &r.job, "JOB"), width(|r| &r.expected, "EXPECTED"));
        println!("{:job$}  {:expected$}  FOUND", "JOB", "EXPECTED");
        for row in &self.rows {
            println!("{:job$}  {:expected$}  {}{}", row.job, row.expected, row.found, if row.expected == row.found { "" } else { "   <- differs" });
        }
        println!(
            "of the ten: {} accepted at the server, {} duplicate suppressed; all in all {}",
            self.accepted_at_server,
            self.duplicates_suppressed,
            if self.ok { "as expected" } else { "DIFFERS" }
        );
    }
}
