//! The mail server's log against what a fleet says: whoever is right, the other one must know it.

use serde_json::Value;

use curfew_testkit::MailServer;

use crate::fleet::Fleet;
use crate::jobs::is_terminal;

/// In doubt by an attempt of its own: its reply was lost, or its lease.
pub const BY_ITS_ATTEMPT: &str = "reconciliation_required";
/// In doubt, or unproven, because a ledger came back without its latest part.
pub const BY_A_RECOVERY: &str = "ledger_rolled_back";

/// Each of `count` jobs is accepted at most once, none is lost, each that isn't sent has a record that explains itself, and the day's difference
/// is 0. How many are in doubt, for one of these reasons alone.
///
/// # Panics
/// Where they disagree.
pub fn judge(fleet: &Fleet, server: &MailServer, count: usize, doubts: &[&str]) -> usize {
    none_twice(server);
    let accepted = server.accepted_per_job();
    let (jobs, items) = (fleet.all_jobs(""), fleet.all_items(""));
    assert_eq!(jobs.len(), count, "every job that was accepted at the door is there");
    let mut in_doubt = 0;
    for job in &jobs {
        let text = |name: &str| job[name].as_str().unwrap_or_default();
        let times = accepted.get(text("id")).copied().unwrap_or_default();
        assert!(is_terminal(text("state")), "{job:#}");
        match text("state") {
            "sent" => assert_eq!(times, 1, "sent, and the server knows nothing of it: {job:#}"),
            "cancelled" => assert_eq!(times, 0, "{job:#}"),
            _ => in_doubt += usize::from(judge_dead_letter(job, &items, times, doubts)),
        }
    }
    assert!(server.violations().is_empty(), "{:?}", server.violations());
    let day = fleet.cli(&["day", "2026-12-01", "--json"]).expect(0).json();
    assert_eq!((&day["difference"], &day["accepted"]), (&0.into(), &count.into()), "{day}");
    println!("{count} jobs: {} accepted by the server, {in_doubt} in doubt, {day}", server.accepted_count());
    in_doubt
}

/// P1 alone, while jobs may still be under way.
///
/// # Panics
/// Where the server accepted one of them twice.
pub fn none_twice(server: &MailServer) {
    let accepted = server.accepted_per_job();
    let twice: Vec<_> = accepted.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "accepted twice: {twice:?}");
}

/// It has a record that explains itself, and where Curfew is sure the server agrees; whether it is in doubt.
fn judge_dead_letter(job: &Value, items: &[Value], times: u32, doubts: &[&str]) -> bool {
    let own = items.iter().filter(|item| item["job_id"] == job["id"]).count();
    assert_eq!(own, 1, "a review record that explains itself: {job:#}");
    let in_doubt = job["reason"].as_str().is_some_and(|reason| doubts.contains(&reason));
    assert!(in_doubt || (job["reason"] == "permanent_failure" && times == 0), "accepted {times} times: {job:#}");
    in_doubt
}
