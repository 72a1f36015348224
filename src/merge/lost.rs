//! Which records the plugin lost: numbers that no record of a communicator and operation bears.

use std::collections::BTreeMap;

use super::collect::{Collected, Kind};
use super::kernels::RankKernels;
use crate::catalogue::Id;
use crate::units;
use crate::warning::Warning;

/// Ranks and collectives that the sentence names one by one.
const NAMED: usize = 3;

/// What the ranks logged of one operation of one communicator.
#[derive(Debug, Default, PartialEq, Eq)]
struct Logged {
    /// Smallest and largest number of any rank.
    range: Option<(u64, u64)>,
    /// Records with a number by rank.
    records: BTreeMap<u32, u64>,
}

impl Logged {
    /// Numbers that there are; collectives are numbered alike on all ranks, from 0.
    fn numbers(&self, from_the_start: bool) -> u64 {
        let first = |first: u64| if from_the_start { 0 } else { first };
        self.range.map_or(0, |(low, high)| (high - first(low)).saturating_add(1))
    }

    /// The ranks that logged fewer, with how many.
    fn short(&self, numbers: u64) -> Vec<(u32, u64)> {
        self.records.iter().map(|(&rank, &n)| (rank, n)).filter(|(_, n)| *n < numbers).collect()
    }
}

/// One sentence on the records that are missing between and after those of the logs; `None` if every number has its
/// record. `owned` are the series of each rank.
pub(crate) fn warning(
    ranks: &[RankKernels],
    owned: &[Vec<usize>],
    logs: &Collected,
) -> Option<Warning> {
    let mut found: BTreeMap<(&str, &'static str), Logged> = BTreeMap::new();
    let mut starts: BTreeMap<&str, u64> = BTreeMap::new();
    for (rank, series) in ranks.iter().zip(owned) {
        for series in series.iter().filter_map(|&s| logs.series.get(s)) {
            // Sends and receives have gaps where nothing was lost: those to the rank itself are numbered.
            let (Kind::Coll(op), Some(origin)) = (series.kind, logs.origins.get(series.origin))
            else {
                continue;
            };
            let ops = logs.ops.get(series.ops.clone()).unwrap_or_default();
            let numbers = || ops.iter().filter_map(|op| op.sn);
            let (Some(low), Some(high)) = (numbers().min(), numbers().max()) else { continue };
            let logged = found.entry((&origin.comm_id, op.label())).or_default();
            logged.range =
                Some(logged.range.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
            *logged.records.entry(rank.rank).or_default() += numbers().count() as u64;
            let start = starts.entry(&origin.comm_id).or_insert(low);
            *start = low.min(*start);
        }
    }
    let mut lost: Vec<(u64, String)> = Vec::new();
    for ((comm, op), logged) in &found {
        let numbers = logged.numbers(starts.get(comm) == Some(&0));
        let short = logged.short(numbers);
        let missing = short.iter().map(|(_, n)| numbers - n).fold(0, u64::saturating_add);
        if missing > 0 {
            let what = format!("of {} {op} of communicator {comm}", units::count(numbers));
            lost.push((missing, format!("{} {what}", who(&short))));
        }
    }
    // What is missing most comes first.
    lost.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let named: Vec<&str> = lost.iter().take(NAMED).map(|(_, text)| text.as_str()).collect();
    let more = match lost.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!("; records of {} are missing, too", units::plural(n, "more collective")),
    };
    (!named.is_empty()).then(|| {
        Warning::new(
            Id::InspectorLost,
            format!(
                "Only {} were logged{more}: the numbers of the records have gaps.",
                named.join(", and ")
            ),
        )
        .with_hint("The plugin lost those records, or did not track them: operations below its minimum size (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES) have a number, too. Their kernels stay without a record.")
    })
}

/// `14 (rank 0) and 10 (rank 1)`, or the range over many ranks.
fn who(short: &[(u32, u64)]) -> String {
    let one = |(rank, n): &(u32, u64)| format!("{} (rank {rank})", units::count(*n));
    match short {
        [a] => one(a),
        [a, b] => format!("{} and {}", one(a), one(b)),
        _ => {
            let low = short.iter().min_by_key(|(rank, n)| (*n, *rank));
            let high = short.iter().max_by_key(|(rank, n)| (*n, std::cmp::Reverse(*rank)));
            let mut ends: Vec<String> = low.into_iter().chain(high).map(one).collect();
            ends.dedup();
            format!("{} on {} ranks", ends.join(" to "), units::count(short.len() as u64))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::collect::LoggedOp;
    use super::*;
    use crate::model::CommOp;
    use crate::model::record::{Origin, Timing};

    fn logs(records: &[(u32, CommOp, &[u64])]) -> (Vec<RankKernels>, Vec<Vec<usize>>, Collected) {
        let ranks: Vec<u32> = {
            let mut ranks: Vec<u32> = records.iter().map(|r| r.0).collect();
            ranks.dedup();
            ranks
        };
        let origin = |&rank: &u32| Origin {
            comm_id: "0xa".to_owned(),
            comm_name: None,
            rank,
            n_ranks: ranks.len() as u32,
            nnodes: None,
            hostname: String::new(),
            pid: Some(rank),
        };
        let ops = records.iter().flat_map(|&(rank, op, numbers)| {
            let at = ranks.iter().position(|&r| r == rank).expect("listed") as u32;
            numbers.iter().map(move |&sn| LoggedOp {
                origin: at,
                op,
                p2p: false,
                timing: Timing::KernelGpu,
                sn: Some(sn),
                bytes: Some(1 << 20),
                exec_us: Some(10.0),
                written_us: None,
                verbose: None,
            })
        });
        let logs = Collected::from_ops(ranks.iter().map(origin).collect(), ops.collect());
        let kernels =
            ranks.iter().map(|&rank| RankKernels { rank, ..RankKernels::default() }).collect();
        let owned = (0..ranks.len())
            .map(|at| (0..logs.series.len()).filter(|&s| logs.series[s].origin == at).collect())
            .collect();
        (kernels, owned, logs)
    }

    fn said(records: &[(u32, CommOp, &[u64])]) -> Option<String> {
        let (ranks, owned, logs) = logs(records);
        warning(&ranks, &owned, &logs).map(|w| w.message)
    }

    // AllGather 0..9 on both ranks: whole. ReduceScatter: numbers go to 7 on rank 0, so there are 8.
    #[test]
    fn gaps_and_missing_ends_are_counted_from_the_start_of_the_log() {
        let all: Vec<u64> = (0..10).collect();
        let message = said(&[
            (0, CommOp::AllGather, &all),
            (0, CommOp::ReduceScatter, &[1, 2, 7]),
            (1, CommOp::AllGather, &all),
            (1, CommOp::ReduceScatter, &[3, 5]),
        ]);
        assert_eq!(
            message.as_deref(),
            Some(
                "Only 3 (rank 0) and 2 (rank 1) of 8 ReduceScatter of communicator 0xa were logged: the numbers of the records have gaps."
            )
        );
    }

    #[test]
    fn a_log_that_begins_later_and_has_no_gap_lost_nothing() {
        assert_eq!(
            said(&[(0, CommOp::AllReduce, &[5, 6, 7]), (1, CommOp::AllReduce, &[5, 6, 7])]),
            None
        );
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn many_ranks_are_a_range() {
        let whole: Vec<u64> = (0..9).collect();
        let part: Vec<u64> = (0..4).collect();
        let mut records: Vec<(u32, CommOp, &[u64])> =
            (0..500).map(|rank| (rank, CommOp::AllReduce, &part[..])).collect();
        records.push((500, CommOp::AllReduce, &whole));
        let message = said(&records).expect("a warning");
        assert!(
            message.len() < 200 && message.contains("4 (rank 0) on 500 ranks of 9"),
            "{message}"
        );
    }
}
