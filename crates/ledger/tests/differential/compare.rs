//! Whether two answers say the same. Where times are equal the port promises no order, and at a limit no choice among them.

use std::collections::{BTreeMap, BTreeSet};

use curfew_domain::{Key, Moment};
use curfew_ledger::LineEntry;

use super::call::Answer;

/// Whether they say the same.
pub fn same(a: &Answer, b: &Answer) -> bool {
    match (a, b) {
        (Answer::Text(a), Answer::Text(b)) => a == b,
        (Answer::Entry(a), Answer::Entry(b)) => a == b,
        (Answer::Walked(a), Answer::Walked(b)) => a == b,
        (Answer::Overdue(a, limit), Answer::Overdue(b, _)) => {
            let key = |entries: &[curfew_ledger::TimerEntry]| {
                // The last ones of a full answer are a choice among equals.
                let cut = (entries.len() == *limit).then(|| entries.last().map(|last| last.at)).flatten();
                let mut all: Vec<_> = entries.iter().filter(|entry| Some(entry.at) != cut).map(|entry| format!("{entry:?}")).collect();
                all.sort();
                (all, cut, entries.len())
            };
            key(a) == key(b)
        }
        (Answer::Lines(a, per_tenant, limit), Answer::Lines(b, ..)) => same_lines(a, b, *per_tenant, *limit),
        (_, _) => false,
    }
}

/// How many of its tenant are before it, when it was due, whose it is, which.
type Head<'a> = (usize, Moment, &'a str, Option<&'a Key>);

fn same_lines(a: &[LineEntry], b: &[LineEntry], per_tenant: usize, limit: usize) -> bool {
    let mut equals: BTreeMap<(&str, Moment), BTreeSet<&Key>> = BTreeMap::new();
    for entry in a.iter().chain(b) {
        equals.entry((entry.record.tenant(), entry.line_at)).or_default().insert(&entry.record.key);
    }
    let heads = |entries: &'_ [LineEntry]| -> Option<(Vec<String>, usize)> {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut heads: Vec<Head<'_>> = Vec::new();
        for entry in entries {
            let tenant = entry.record.tenant();
            let place = places.entry(tenant).or_default();
            let key = (equals[&(tenant, entry.line_at)].len() == 1).then_some(&entry.record.key);
            heads.push((*place, entry.line_at, entry.record.key.tenant(), key));
            *place += 1;
        }
        let in_order = heads.is_sorted_by_key(|(place, at, ..)| (*place, *at));
        let cut = (heads.len() == limit).then(|| heads.last().map(|(place, at, ..)| (*place, *at))).flatten();
        heads.retain(|(place, at, ..)| Some((*place, *at)) != cut);
        heads.sort();
        in_order.then(|| (heads.iter().map(|head| format!("{head:?} {cut:?}")).collect(), entries.len()))
    };
    let records = |entries: &[LineEntry]| entries.iter().map(|entry| (entry.record.key.clone(), entry.record.clone())).collect::<BTreeMap<_, _>>();
    let (of_a, of_b) = (records(a), records(b));
    // Whose line is cut has another of equals in the other answer.
    let is_cut = |key: &Key| a.len() == limit || a.iter().filter(|entry| entry.record.tenant() == key.tenant()).count() == per_tenant;
    let agree = of_a.keys().chain(of_b.keys()).all(|key| match (of_a.get(key), of_b.get(key)) {
        (Some(a), Some(b)) => a == b,
        (_, _) => is_cut(key),
    });
    agree && heads(a).is_some() && heads(a) == heads(b)
}
