//! Says what was found.

use crate::measure::Found;

/// A table for people, an object for scripts.
pub fn print(found: &Found, json: bool) {
    if json {
        let object = serde_json::json!({
            "waiting_jobs": found.waiting_jobs, "accept_s": found.accept_s, "accepted_per_s": found.accepted_per_s, "rss_waiting_mb": found.rss_waiting_mb,
            "burst_jobs": found.burst_jobs, "burst_s": found.burst_s, "delivered_per_s": found.delivered_per_s, "middle_per_s": found.middle_per_s,
            "rss_peak_mb": found.rss_peak_mb, "mails_accepted": found.mails_accepted, "accepted_twice": found.accepted_twice,
        });
        println!("{object}");
        return;
    }
    println!("accepted by submit     {:>9.0} jobs/s   ({} jobs in {:.1} s)", found.accepted_per_s, found.waiting_jobs, found.accept_s);
    println!("memory, jobs waiting   {:>9.0} MB       ({} jobs)", found.rss_waiting_mb, found.waiting_jobs);
    println!(
        "delivered to the sink  {:>9.0} jobs/s   ({} jobs due at one instant, the last after {:.1} s; {:.0}/s between 10 % and 90 %)",
        found.delivered_per_s, found.burst_jobs, found.burst_s, found.middle_per_s
    );
    println!("memory, peak           {:>9.0} MB", found.rss_peak_mb);
    println!("mails accepted twice   {:>9}          ({} mails)", found.accepted_twice, found.mails_accepted);
}
