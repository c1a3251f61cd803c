//! What the ledger says of jobs, shard by shard: one that recovers, is halted or doesn't answer keeps neither its own jobs nor the others' from
//! being shown, nor does a record that can't be read.

use std::collections::BTreeMap;

use curfew_domain::{Key, Record, Shard};
use curfew_ledger::{Entry, Ledger, LedgerError, Recoverable};
use futures::future::join_all;

/// What the ledger says of a job.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Told<T> {
    /// This stands there.
    Stands(Box<T>),
    /// Nothing does.
    Nothing,
    /// Its shard recovers, is halted, or doesn't answer while others do: until it works again only the book tells of it.
    Recovers,
    /// Something does that this process can't read: only the book tells of it.
    Unreadable,
}

impl<T> Told<T> {
    fn of(found: Option<T>) -> Self {
        found.map_or(Self::Nothing, |found| Self::Stands(Box::new(found)))
    }

    /// What stands there, to look at.
    pub(crate) fn standing(&self) -> Option<&T> {
        match self {
            Self::Stands(found) => Some(found),
            Self::Nothing | Self::Recovers | Self::Unreadable => None,
        }
    }

    /// What stands there.
    pub(crate) fn stands(self) -> Option<T> {
        match self {
            Self::Stands(found) => Some(*found),
            Self::Nothing | Self::Recovers | Self::Unreadable => None,
        }
    }
}

/// Of several jobs, in order.
///
/// # Errors
/// `LedgerError` but for a shard that recovers or is halted. `Unavailable` where no shard answers.
pub(crate) async fn records(ledger: &dyn Ledger, keys: &[Key]) -> Result<Vec<Told<Record>>, LedgerError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let Some(recoverable) = ledger.recoverable() else {
        return readable(ledger, keys).await;
    };
    let mut by_shard: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
    for (place, key) in keys.iter().enumerate() {
        by_shard.entry(recoverable.shard_of(key)).or_default().push(place);
    }
    let parts = join_all(by_shard.iter().map(|(shard, places)| async move {
        let part: Vec<Key> = places.iter().map(|place| keys[*place].clone()).collect();
        unless_recovering(recoverable, *shard, || readable(ledger, &part)).await
    }));
    let mut all: Vec<Told<Record>> = keys.iter().map(|_| Told::Recovers).collect();
    let parts = parts.await;
    let one_answers = parts.iter().any(Result::is_ok);
    for (found, places) in parts.into_iter().zip(by_shard.values()) {
        let found = match found {
            Err(LedgerError::Unavailable { .. }) if one_answers => None,
            found => found?,
        };
        for (found, place) in found.into_iter().flatten().zip(places) {
            all[*place] = found;
        }
    }
    Ok(all)
}

/// All at once, and one by one where one of them can't be read.
async fn readable(ledger: &dyn Ledger, keys: &[Key]) -> Result<Vec<Told<Record>>, LedgerError> {
    match ledger.records(keys).await {
        Err(LedgerError::Unreadable(_)) => {}
        found => return Ok(found?.into_iter().map(Told::of).collect()),
    }
    let mut all = Vec::with_capacity(keys.len());
    for key in keys {
        all.push(match ledger.records(std::slice::from_ref(key)).await {
            Err(LedgerError::Unreadable(_)) => Told::Unreadable,
            found => Told::of(found?.pop().flatten()),
        });
    }
    Ok(all)
}

/// Of one job, with what stands beside its record.
///
/// # Errors
/// `LedgerError` but for a shard that recovers.
pub(crate) async fn entry(ledger: &dyn Ledger, key: &Key) -> Result<Told<Entry>, LedgerError> {
    let Some(recoverable) = ledger.recoverable() else { return Ok(Told::of(ledger.get(key).await?)) };
    let found = unless_recovering(recoverable, recoverable.shard_of(key), || ledger.get(key)).await?;
    Ok(found.map_or(Told::Recovers, Told::of))
}

/// What is found there; `None` where the shard recovers, or must.
async fn unless_recovering<T, F: Future<Output = Result<T, LedgerError>>>(
    recoverable: &dyn Recoverable,
    shard: Shard,
    find: impl Fn() -> F,
) -> Result<Option<T>, LedgerError> {
    let (meta, found) = futures::join!(recoverable.meta(shard), find());
    let recovers = match meta {
        Ok(Some(meta)) => meta.recovering || !meta.of_this_server,
        Ok(None) => true,
        // What was found tells.
        Err(_unknown) => false,
    };
    match found {
        _survived if recovers => Ok(None),
        // This process was still in an earlier incarnation.
        Err(LedgerError::OtherServer) => match find().await {
            Err(LedgerError::OtherServer | LedgerError::Recovering | LedgerError::Halted) => Ok(None),
            found => found.map(Some),
        },
        Err(LedgerError::Recovering | LedgerError::Halted) => Ok(None),
        found => found.map(Some),
    }
}
