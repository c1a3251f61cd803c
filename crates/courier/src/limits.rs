//! What a tenant may have, as scheduler, worker and API go by it.

use std::collections::BTreeMap;

use curfew_domain::record::WaitingFor;
use curfew_domain::transition::Counter;

/// One tenant's limits; `None`: without end.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct TenantLimits {
    /// Claimed or in handoff at once.
    pub max_in_flight: Option<u64>,
    /// Attempts per second.
    pub rate_per_s: Option<f64>,
    /// Queued at once.
    pub credit: Option<u64>,
}

impl TenantLimits {
    /// Whether what is queued or in flight can keep a job of this tenant in its line.
    #[must_use]
    pub fn bound_its_queue(self) -> bool {
        self.credit.is_some() || self.max_in_flight.is_some()
    }

    /// The counters that `may_queue` and `keeps_back` are about: queued, in flight.
    #[must_use]
    pub fn counters(tenant: &str) -> [Counter; 2] {
        [Counter::TenantQueued(tenant.to_owned()), Counter::TenantInFlight(tenant.to_owned())]
    }

    /// How many of its jobs may be queued while so many are in flight. A limit in flight leaves as many wake-ups waiting as it lets run: the
    /// next one follows as soon as one ends, and nobody is given back for want of a place.
    #[must_use]
    pub fn may_queue(self, flying: u64) -> u64 {
        self.credit.into_iter().chain(self.beside(flying)).min().unwrap_or(u64::MAX)
    }

    /// What keeps a due job of this tenant in its line while so many are queued and in flight; `None`: nothing here does.
    #[must_use]
    pub fn keeps_back(self, queued: u64, flying: u64) -> Option<WaitingFor> {
        if queued < self.may_queue(flying) {
            return None;
        }
        let by_credit = self.credit.is_some_and(|credit| self.beside(flying).is_none_or(|beside| credit < beside));
        Some(if by_credit { WaitingFor::TenantCredit } else { WaitingFor::TenantInFlight })
    }

    fn beside(self, flying: u64) -> Option<u64> {
        self.max_in_flight.map(|max| (max * 2).saturating_sub(flying.min(max)))
    }
}

/// All tenants' limits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tenants(BTreeMap<String, TenantLimits>);

impl Tenants {
    /// A tenant's own, or those of `default`, or none.
    #[must_use]
    pub fn limits(&self, tenant: &str) -> TenantLimits {
        self.0.get(tenant).or_else(|| self.0.get("default")).copied().unwrap_or_default()
    }
}

impl FromIterator<(String, TenantLimits)> for Tenants {
    fn from_iter<I: IntoIterator<Item = (String, TenantLimits)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl<const N: usize> From<[(String, TenantLimits); N]> for Tenants {
    fn from(all: [(String, TenantLimits); N]) -> Self {
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_job_in_its_line_is_the_narrower_limit() {
        let limits = |max_in_flight, credit| TenantLimits { max_in_flight, credit, rate_per_s: None };
        assert_eq!(TenantLimits::default().keeps_back(1_000_000, 1_000_000), None);
        assert_eq!(limits(Some(8), None).keeps_back(7, 8), None);
        assert_eq!(limits(Some(8), None).keeps_back(8, 8), Some(WaitingFor::TenantInFlight));
        assert_eq!(limits(None, Some(20)).keeps_back(20, 3), Some(WaitingFor::TenantCredit));
        assert_eq!(limits(Some(8), Some(4)).keeps_back(4, 0), Some(WaitingFor::TenantCredit));
        assert_eq!(limits(Some(8), Some(20)).keeps_back(8, 8), Some(WaitingFor::TenantInFlight));
        assert_eq!(limits(Some(0), None).keeps_back(0, 0), Some(WaitingFor::TenantInFlight));
    }

    #[test]
    fn an_unnamed_tenant_has_the_default_limits() {
        let some = TenantLimits { credit: Some(5), ..TenantLimits::default() };
        let tenants = Tenants::from([("default".to_owned(), some), ("acme".to_owned(), TenantLimits::default())]);
        assert_eq!((tenants.limits("elm"), tenants.limits("acme")), (some, TenantLimits::default()));
        assert_eq!(Tenants::default().limits("elm"), TenantLimits::default());
    }
}
