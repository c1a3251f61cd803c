//! Which hold stands in a job's way: the fleet's, its shard's, its tenant's or its transport's (its recipient's domain is sealed: who opens the
//! letter looks at that); and how the book's holds reach the ledger.

use curfew_book::{Book, HoldRow};
use curfew_domain::record::WaitingFor;
use curfew_domain::{Moment, Record};
use curfew_ledger::{Hold, Holds, Ledger};

use crate::CourierError;

/// The hold in force on a job at `now`, and until when it surely holds; `None`: nothing holds it.
pub fn held(holds: &Holds, record: &Record, now: Moment) -> Option<(WaitingFor, Option<Moment>)> {
    if holds.is_empty() {
        return None;
    }
    let places = [Hold::Fleet, Hold::Shard(record.shard.0), Hold::Tenant(record.tenant().to_owned()), Hold::Transport(record.transport.clone())];
    places.iter().find_map(|place| in_force(holds, place, now))
}

/// One hold, where it is in force at `now`.
pub fn in_force(holds: &Holds, place: &Hold, now: Moment) -> Option<(WaitingFor, Option<Moment>)> {
    holds.get(place).copied().filter(|(_, until)| until.is_none_or(|until| now < until))
}

/// Brings the ledger's holds to what the book's rows say; writes only what differs. Repeating is free.
///
/// # Errors
/// `CourierError`: some may be copied.
pub async fn copy_holds(ledger: &dyn Ledger, book: &dyn Book) -> Result<(), CourierError> {
    // The ledger is read first: who sets a hold writes the book before the ledger, so a hold seen here has its row already.
    let standing = ledger.holds().await?;
    let now = ledger.now().await?;
    let wanted = strongest(&book.holds().await?, now);
    for (place, by) in &wanted {
        if standing.get(place) != Some(by) {
            ledger.set_hold(place.clone(), Some(*by)).await?;
        }
    }
    for place in standing.into_keys().filter(|place| !wanted.contains_key(place)) {
        ledger.set_hold(place, None).await?;
    }
    Ok(())
}

/// The strongest hold in force on each place: a pause before an open circuit before a cool-down, of two alike the longer one.
pub fn strongest(rows: &[HoldRow], now: Moment) -> Holds {
    let mut holds = Holds::new();
    for row in rows.iter().filter(|row| row.until.is_none_or(|until| now < until)) {
        let (Some(place), Some(by)) = (Hold::from_parts(&row.kind, &row.name), WaitingFor::from_word(&row.by)) else { continue };
        let weaker = holds.get(&place).is_some_and(|standing| strength((by, row.until)) <= strength(*standing));
        if !weaker {
            holds.insert(place, (by, row.until));
        }
    }
    holds
}

/// What rules where several stand on one place.
fn strength((by, until): (WaitingFor, Option<Moment>)) -> (u8, Moment) {
    let rank = match by {
        WaitingFor::Pause => 3,
        WaitingFor::Circuit => 2,
        WaitingFor::CoolDown => 1,
        WaitingFor::Release
        | WaitingFor::Retry
        | WaitingFor::TenantInFlight
        | WaitingFor::TenantRate
        | WaitingFor::TenantCredit
        | WaitingFor::TransportRate
        | WaitingFor::Broker
        | WaitingFor::Recovery => 0,
    };
    (rank, until.unwrap_or(Moment::from_millis(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(by: WaitingFor, until_ms: Option<i64>) -> HoldRow {
        HoldRow {
            kind: "transport".to_owned(),
            name: "smtp".to_owned(),
            by: by.word().to_owned(),
            until: until_ms.map(Moment::from_millis),
            reason: String::new(),
            actor: "curfew".to_owned(),
            since: Moment::from_millis(0),
        }
    }

    #[test]
    fn a_pause_rules_over_a_circuit_and_a_circuit_over_a_cool_down_in_any_order() {
        let now = Moment::from_millis(10);
        let rows = [row(WaitingFor::CoolDown, Some(99)), row(WaitingFor::Pause, None), row(WaitingFor::Circuit, None)];
        let by = |rows: &[HoldRow]| strongest(rows, now).into_values().next().map(|(by, _)| by);
        assert_eq!(by(&rows), Some(WaitingFor::Pause));
        assert_eq!(by(&[rows[2].clone(), rows[0].clone()]), Some(WaitingFor::Circuit));
        assert_eq!(by(&[rows[0].clone(), rows[2].clone()]), Some(WaitingFor::Circuit));
        assert_eq!(by(&[row(WaitingFor::CoolDown, Some(10))]), None, "it is over");
    }
}
