//! Whose log is it, where the log names another host than the report: short and full names, names of containers, and
//! names that were replaced before a log was passed on.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::record::logged_id;
use crate::model::trace::CommInit;

/// Host names are compared up to the first dot: one side may have the domain, or no name at all.
pub(crate) fn may_be_one_host(traced: Option<&str>, logged: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    traced.is_none_or(|name| logged.is_empty() || short(name) == short(logged))
}

/// How the communicators of a logged process fit those of a traced one, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// Both name communicators, and none of them is the same: another process.
    No,
    /// Nothing is known of the communicators of one of them.
    Unknown,
    /// They have a communicator in common.
    Shared,
    /// They have the same rank in a communicator that they have in common.
    SameRank,
}

impl Fit {
    /// How one communicator fits: `own` is the rank of the traced process in it, if that is known, `logged` that of the logged one;
    /// `is_used` says whether the traced process used it at all.
    pub(crate) fn of(own: Option<u32>, logged: u32, is_used: bool) -> Fit {
        match own {
            Some(own) if own == logged => Fit::SameRank,
            None if is_used => Fit::Shared,
            _ => Fit::No,
        }
    }
}

/// The other host whose process of the same pid is the traced one; `None` if there is none, or if several may be.
/// `logged` are the hosts whose logs name that pid, with how their communicators fit. `only` is false if several traced
/// processes have that pid.
pub(crate) fn other_host<'a>(logged: &BTreeMap<&'a str, Fit>, only: bool) -> Option<&'a str> {
    let best = *logged.values().max()?;
    let enough = match best {
        Fit::No => false,
        Fit::Unknown => only && logged.len() == 1,
        Fit::Shared => only,
        Fit::SameRank => true,
    };
    let mut fitting = logged.iter().filter(|(_, fit)| **fit == best).map(|(host, _)| *host);
    let first = fitting.next()?;
    (enough && fitting.next().is_none()).then_some(first)
}

/// A traced process, or one device of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traced<'t> {
    /// Its process id.
    pub pid: u32,
    /// Its host; `None` if the report does not say.
    pub hostname: Option<&'t str>,
    /// Communicators that it joined during the capture.
    pub comm_inits: &'t [CommInit],
    /// All communicators that are known of it, as logs write them.
    pub comms: &'t BTreeSet<String>,
    /// False if another traced process has its pid.
    pub only: bool,
}

/// Who wrote records: one process in one communicator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logged<'l> {
    /// Its process id, if the log says it.
    pub pid: Option<u32>,
    /// Its host.
    pub hostname: &'l str,
    /// Its communicator.
    pub comm_id: &'l str,
    /// Its rank in it.
    pub rank: u32,
}

impl Traced<'_> {
    /// True if a log names its process and its host.
    pub(crate) fn is_named_by(&self, logged: &Logged<'_>) -> bool {
        logged.pid == Some(self.pid) && may_be_one_host(self.hostname, logged.hostname)
    }

    /// The host under whose name it wrote its log, if no log names its own host.
    pub(crate) fn other_host<'l>(&self, all: impl Iterator<Item = Logged<'l>>) -> Option<&'l str> {
        let mut hosts: BTreeMap<&str, Fit> = BTreeMap::new();
        for logged in all.filter(|logged| logged.pid == Some(self.pid)) {
            if self.is_named_by(&logged) {
                return None;
            }
            let joined = self.comm_inits.iter().find(|init| logged_id(init.comm) == logged.comm_id);
            let fit = match self.comms.is_empty() {
                true => Fit::Unknown,
                false => Fit::of(
                    joined.map(|init| init.rank),
                    logged.rank,
                    self.comms.contains(logged.comm_id),
                ),
            };
            let best = hosts.entry(logged.hostname).or_insert(fit);
            *best = fit.max(*best);
        }
        other_host(&hosts, self.only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_up_to_the_first_dot() {
        assert!(may_be_one_host(Some("node0.cluster.example"), "NODE0"));
        assert!(may_be_one_host(None, "x") && may_be_one_host(Some("x"), ""));
        assert!(!may_be_one_host(Some("node0"), "node1"));
    }

    #[test]
    fn another_name_is_accepted_only_where_nothing_else_fits_as_well() {
        let host = |logged: &[(&'static str, Fit)], only| {
            other_host(&logged.iter().copied().collect(), only)
        };
        // The pid alone, if it is unique on both sides.
        assert_eq!(host(&[("a", Fit::Unknown)], true), Some("a"));
        assert_eq!(host(&[("a", Fit::Unknown)], false), None);
        assert_eq!(host(&[("a", Fit::Unknown), ("b", Fit::Unknown)], true), None);
        // The communicator decides between hosts, and its rank between processes.
        assert_eq!(host(&[("a", Fit::Shared), ("b", Fit::No)], true), Some("a"));
        assert_eq!(host(&[("a", Fit::Shared), ("b", Fit::Shared)], true), None);
        assert_eq!(host(&[("a", Fit::Shared)], false), None);
        assert_eq!(host(&[("a", Fit::SameRank), ("b", Fit::Shared)], false), Some("a"));
        assert_eq!(host(&[("a", Fit::No)], true), None);
        assert_eq!(host(&[], true), None);
    }
}
