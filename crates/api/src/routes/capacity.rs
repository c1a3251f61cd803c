//! What a day needs: its busiest minute, what retries add, and how many workers that takes at the drain they measured.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use curfew_book::{Drain, Load, Standing};
use curfew_domain::Moment;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::extract::Asked;
use crate::problem::Problem;

/// Jobs whose attempts are counted: the latest that ended.
const LATEST: u32 = 100_000;
/// What is kept free, percent of the drain, where nobody says.
const HEADROOM_PERCENT: u64 = 30;

/// What a day needs.
#[derive(Clone, PartialEq, Serialize, ToSchema, Debug)]
pub(crate) struct CapacityBody {
    /// The business date.
    date: String,
    /// The busiest minute's beginning; null on a day without jobs.
    busiest_minute: Option<String>,
    /// Jobs that are released in it: N.
    jobs: u64,
    /// Jobs that ended, whose attempts were counted.
    counted: u64,
    /// The share of them that took a second attempt: f1.
    f1: f64,
    /// A third: f2.
    f2: f64,
    /// What further attempts add.
    further: f64,
    /// Attempts a job: 1 + f1 + f2, and the further ones.
    multiplier: f64,
    /// Attempts of the busiest minute: N x multiplier.
    attempts: u64,
    /// Attempts a second of one worker, the mean of each one's best ten seconds of the last hour; null: none has measured any.
    drain_per_worker: Option<f64>,
    /// Workers that run.
    workers: u64,
    /// Percent of the drain that is kept free.
    headroom_percent: u64,
    /// Workers that clear the busiest minute within it; null without a drain.
    workers_needed: Option<u64>,
}

/// What a day needs of the fleet.
#[utoipa::path(get, path = "/v1/capacity", tag = "fleet",
    params(("date" = Option<String>, Query, description = "YYYY-MM-DD, or today"), ("headroom" = Option<u64>, Query, description = "percent, 0 to 90 [30]")),
    responses((status = 200, body = CapacityBody), (status = 422, body = Problem)))]
pub(crate) async fn show_capacity(State(api): State<Arc<Api>>, mut asked: Asked) -> Result<Json<CapacityBody>, Problem> {
    let now = api.ledger.now().await?;
    let date = match asked.0.text("date") {
        None => now.date(),
        Some(today) if today == "today" => now.date(),
        Some(date) => {
            if date.len() != 10 || Moment::parse(&format!("{date}T00:00:00Z")).is_none() {
                asked.0.fault("date", "must be YYYY-MM-DD, or today");
            }
            date
        }
    };
    let headroom = asked.0.text("headroom").map_or(Ok(HEADROOM_PERCENT), |n| n.parse::<u64>().ok().filter(|n| *n <= 90).ok_or(()));
    if headroom.is_err() {
        asked.0.fault("headroom", "must be 0 to 90, in percent");
    }
    asked.0.done()?;
    let load = api.book.load(&date, LATEST).await?;
    let running = api.book.enrolled(Moment::from_millis(0)).await?.into_iter().filter(|process| process.standing(now) == Standing::Running);
    let workers: Vec<Option<Drain>> =
        running.filter(|process| process.enrolment.roles.iter().any(|role| role == "worker")).map(|process| process.drain).collect();
    Ok(Json(needs(date, &load, &workers, headroom.unwrap_or(HEADROOM_PERCENT))))
}

/// N x (1 + f1 + f2), over what the workers end in a minute.
fn needs(date: String, load: &Load, workers: &[Option<Drain>], headroom_percent: u64) -> CapacityBody {
    let at_least = |attempts: u32| load.by_attempts.range(attempts..).map(|(_, jobs)| *jobs).sum::<u64>() as f64;
    let counted = at_least(1);
    let share = |attempts: u32| if counted > 0.0 { at_least(attempts) / counted } else { 0.0 };
    let all: u64 = load.by_attempts.iter().map(|(attempts, jobs)| u64::from(*attempts) * jobs).sum();
    let multiplier = if counted > 0.0 { all as f64 / counted } else { 1.0 };
    let (f1, f2) = (share(2), share(3));
    let jobs = load.busiest.map_or(0, |(_, jobs)| jobs);
    let attempts = jobs as f64 * multiplier;
    let measured: Vec<f64> = workers.iter().flatten().map(|drain| f64::from(drain.best) / 10.0).collect();
    let drain = (!measured.is_empty()).then(|| measured.iter().sum::<f64>() / measured.len() as f64).filter(|drain| *drain > 0.0);
    let free = 1.0 - headroom_percent as f64 / 100.0;
    CapacityBody {
        date,
        busiest_minute: load.busiest.map(|(minute, _)| minute.rfc3339()),
        jobs,
        counted: counted as u64,
        f1,
        f2,
        further: (multiplier - 1.0 - f1 - f2).max(0.0),
        multiplier,
        attempts: attempts.ceil() as u64,
        drain_per_worker: drain,
        workers: workers.len() as u64,
        headroom_percent,
        workers_needed: drain.map(|drain| (attempts / (60.0 * drain * free)).ceil() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_n_times_one_plus_the_retries_over_what_one_ends_in_a_minute() {
        let minute = Moment::from_millis(60_000);
        let load = Load { busiest: Some((minute, 6_000)), by_attempts: [(1, 900), (2, 60), (3, 30), (4, 10)].into() };
        let two = [Some(Drain { best: 300, latest: 0 }), Some(Drain { best: 500, latest: 0 }), None];
        let needed = needs("2026-12-01".to_owned(), &load, &two, 30);
        // f1: 100 of 1,000 took a second attempt; f2: 40 a third; 10 a fourth.
        assert_eq!((needed.f1, needed.f2, needed.jobs, needed.workers), (0.1, 0.04, 6_000, 3));
        assert!((needed.multiplier - 1.15).abs() < 1e-9 && (needed.further - 0.01).abs() < 1e-9, "{needed:?}");
        // 6,900 attempts over 40 a second less a third: 1,680 a minute and worker.
        assert_eq!((needed.attempts, needed.drain_per_worker, needed.workers_needed), (6_900, Some(40.0), Some(5)));
        let none = needs("2026-12-01".to_owned(), &Load::default(), &[], 30);
        assert_eq!((none.jobs, none.multiplier, none.drain_per_worker, none.workers_needed), (0, 1.0, None, None));
    }
}
