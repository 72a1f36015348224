//! The numbers of each step on one rank (docs/metrics.md, section 4).

use crate::model::metric::PARTS;
use crate::model::op::NO_LAUNCH;
use crate::model::{Class, Metric, Ns, Ops, Span, Values};
use crate::timeline::SpanSet;

/// The four metrics of a kind of copy: time, exposed time, bytes, count.
const COPIES: [(Class, [Metric; 4]); 6] = [
    (Class::Htod, [Metric::HtodNs, Metric::HtodExposedNs, Metric::HtodBytes, Metric::HtodCount]),
    (Class::Dtoh, [Metric::DtohNs, Metric::DtohExposedNs, Metric::DtohBytes, Metric::DtohCount]),
    (Class::Dtod, [Metric::DtodNs, Metric::DtodExposedNs, Metric::DtodBytes, Metric::DtodCount]),
    (Class::Ptop, [Metric::PtopNs, Metric::PtopExposedNs, Metric::PtopBytes, Metric::PtopCount]),
    (
        Class::OtherCopy,
        [
            Metric::OtherCopyNs,
            Metric::OtherCopyExposedNs,
            Metric::OtherCopyBytes,
            Metric::OtherCopyCount,
        ],
    ),
    (
        Class::Memset,
        [Metric::MemsetNs, Metric::MemsetExposedNs, Metric::MemsetBytes, Metric::MemsetCount],
    ),
];
const CLASSES: usize = Class::Unclassified as usize + 1;

/// Calls `f` for each window with the indices of the operations that touch it, in order of their start.
/// Windows may come in any order and may overlap; work that straddles an edge is in both.
pub(crate) fn for_each_window(
    ops: &Ops,
    windows: &[Option<Span>],
    mut f: impl FnMut(usize, Span, &[u32]),
) {
    let mut order: Vec<(Span, usize)> =
        windows.iter().enumerate().filter_map(|(i, w)| w.map(|w| (w, i))).collect();
    order.sort_unstable();
    // Operations that started before the current window and had not ended then.
    let mut open: Vec<u32> = Vec::new();
    let mut next = 0;
    for (window, i) in order {
        open.retain(|&op| ops.end[op as usize] > window.start);
        while next < ops.len() && ops.start[next] < window.start {
            if ops.end[next] > window.start {
                open.push(next as u32);
            }
            next += 1;
        }
        let carried = open.len();
        open.extend(
            (next..ops.len()).take_while(|&op| ops.start[op] < window.end).map(|op| op as u32),
        );
        f(i, window, &open);
        open.truncate(carried);
    }
}

/// The numbers of each window; [`Values::unmeasured`] where there is none.
pub(crate) fn measure(ops: &Ops, windows: &[Option<Span>]) -> Vec<Values> {
    let mut all = vec![Values::unmeasured(); windows.len()];
    let mut sets: [SpanSet; CLASSES] = std::array::from_fn(|_| SpanSet::new());
    for_each_window(ops, windows, |i, window, inside| {
        all[i] = measure_one(ops, window, inside, &mut sets)
    });
    all
}

fn measure_one(ops: &Ops, window: Span, inside: &[u32], sets: &mut [SpanSet; CLASSES]) -> Values {
    let mut count = [0i64; CLASSES];
    let mut bytes = [0i64; CLASSES];
    let mut comm_sum = 0i64;
    sets.iter_mut().for_each(SpanSet::clear);
    for &op in inside {
        let op = op as usize;
        let class = ops.class[op];
        let span = ops.span(op).clip(window);
        sets[class as usize].push(span);
        if class.is_comm() {
            comm_sum = comm_sum.saturating_add(span.len());
        }
        if window.contains(ops.start[op]) {
            count[class as usize] += 1;
            bytes[class as usize] = bytes[class as usize]
                .saturating_add(i64::try_from(ops.bytes[op]).unwrap_or(i64::MAX));
        }
    }
    let set = |class: Class| &sets[class as usize];
    // Copies between GPUs are communication and are listed as copies, too.
    let all_comm = set(Class::Comm).union(set(Class::Ptop));
    let kernels_and_calls = set(Class::Compute).union(set(Class::Comm));
    let busy = set(Class::Compute).union(&all_comm);
    let copies = COPIES.iter().fold(SpanSet::new(), |all, (class, _)| all.union(set(*class)));
    let known = busy.union(&copies);
    let comm = all_comm.measure();
    let overlap = all_comm.measure_common(set(Class::Compute));

    let mut values = Values::unmeasured();
    values.set(Metric::StepNs, window.len());
    values.set(Metric::StartNs, window.start);
    values.set(Metric::CommNs, comm);
    values.set(Metric::CommSumNs, comm_sum);
    values.set(Metric::CommCount, count[Class::Comm as usize] + count[Class::Ptop as usize]);
    values.set(Metric::ComputeNs, set(Class::Compute).measure());
    values.set(Metric::OverlapNs, overlap);
    values.set(Metric::ExposedCommNs, comm - overlap);
    for (class, [ns, exposed_ns, copied, copies]) in COPIES {
        values.set(ns, set(class).measure());
        // No kind of copy hides itself.
        let others = if class.is_comm() { &kernels_and_calls } else { &busy };
        values.set(exposed_ns, set(class).measure() - set(class).measure_common(others));
        values.set(copied, bytes[class as usize]);
        values.set(copies, count[class as usize]);
    }
    values.set(Metric::ExposedCopyNs, copies.measure() - copies.measure_common(&busy));
    let unclassified = set(Class::Unclassified);
    values.set(Metric::UnclassifiedNs, unclassified.measure());
    let exposed = unclassified.measure() - unclassified.measure_common(&known);
    values.set(Metric::UnclassifiedExposedNs, exposed);
    values.set(Metric::UnclassifiedCount, count[Class::Unclassified as usize]);
    let idle = SpanSet::from_unsorted(vec![window]).subtract(&known.union(unclassified));
    values.set(Metric::IdleNs, idle.measure());
    values.set(Metric::HostLateNs, host_late(ops, &idle));
    // How much of it is communication is unknown: its share of the step is not 0, it is not measured.
    if unclassified.measure() == 0 {
        values.set_ratios();
    }
    values
}

/// Idle time in which the operation that ends it was not launched yet. Where its launch is not known, none is counted.
fn host_late(ops: &Ops, idle: &SpanSet) -> Ns {
    let late = |gap: &Span| {
        let first = ops.start.partition_point(|&start| start < gap.end);
        let next = (first..ops.len()).take_while(|&i| ops.start[i] == gap.end);
        let launch = next.map(|i| ops.launch[i]).filter(|&launch| launch != NO_LAUNCH).min();
        launch.map_or(0, |launch| launch.clamp(gap.start, gap.end) - gap.start)
    };
    idle.spans().iter().map(late).sum()
}

/// True if the parts of a step add up to it exactly, or nothing was measured.
pub(crate) fn identity_holds(values: &Values) -> bool {
    let Some(step) = values.int(Metric::StepNs) else { return true };
    PARTS.iter().map(|&part| values.int(part)).sum::<Option<i64>>() == Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NameId;
    use proptest::prelude::*;

    fn ops(rows: &[(Ns, Ns, Class, u64)]) -> Ops {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        let mut ops = Ops::default();
        for (start, end, class, bytes) in rows {
            ops.start.push(start);
            ops.end.push(end);
            ops.class.push(class);
            ops.bytes.push(bytes);
            ops.name.push(NameId::NONE);
            ops.stream.push(0);
            ops.launch.push(crate::model::op::NO_LAUNCH);
            ops.call.push(crate::model::op::NO_CALL);
        }
        ops
    }

    // window [0,100)
    // compute -10....20        50..60
    // comm        10....30                     90......130
    // dtod              25..35                 95.98
    // graph                          70..80
    #[test]
    fn a_small_timeline_by_hand() {
        let ops = ops(&[
            (-10, 20, Class::Compute, 0),
            (10, 30, Class::Comm, 0),
            (25, 35, Class::Dtod, 500),
            (50, 60, Class::Compute, 0),
            (70, 80, Class::Unclassified, 0),
            (90, 130, Class::Comm, 0),
            (95, 98, Class::Dtod, 7),
        ]);
        let values = &measure(&ops, &[Some(Span::new(0, 100))])[0];
        let expect = [
            (Metric::StepNs, 100),
            (Metric::ComputeNs, 30),
            (Metric::CommNs, 30),
            (Metric::CommSumNs, 30),
            (Metric::CommCount, 2),
            (Metric::OverlapNs, 10),
            (Metric::ExposedCommNs, 20),
            (Metric::DtodNs, 13),
            (Metric::DtodExposedNs, 5),
            (Metric::DtodBytes, 507),
            (Metric::DtodCount, 2),
            (Metric::ExposedCopyNs, 5),
            (Metric::UnclassifiedNs, 10),
            (Metric::UnclassifiedExposedNs, 10),
            (Metric::IdleNs, 35),
        ];
        for (metric, value) in expect {
            assert_eq!(values.int(metric), Some(value), "{}", metric.info().path);
        }
        assert_eq!(values[Metric::CommFraction], None, "a graph hides what runs in it");
        assert!(identity_holds(values));
    }

    // window [0,100)
    // compute      0.......30
    // ptop            20......50                 two copies, 20..40 and 35..50
    // comm (calls)                45...60
    // dtod                40..............70
    #[test]
    fn copies_between_gpus_are_communication_and_hide_other_copies_but_not_themselves() {
        let ops = ops(&[
            (0, 30, Class::Compute, 0),
            (20, 40, Class::Ptop, 300),
            (35, 50, Class::Ptop, 200),
            (40, 70, Class::Dtod, 10),
            (45, 60, Class::Comm, 0),
        ]);
        let values = &measure(&ops, &[Some(Span::new(0, 100))])[0];
        let expect = [
            (Metric::CommNs, 40),
            (Metric::CommSumNs, 50),
            (Metric::CommCount, 3),
            (Metric::OverlapNs, 10),
            (Metric::ExposedCommNs, 30),
            (Metric::PtopNs, 30),
            (Metric::PtopExposedNs, 15),
            (Metric::PtopBytes, 500),
            (Metric::PtopCount, 2),
            (Metric::DtodNs, 30),
            (Metric::DtodExposedNs, 10),
            (Metric::ExposedCopyNs, 10),
            (Metric::IdleNs, 30),
        ];
        for (metric, value) in expect {
            assert_eq!(values.int(metric), Some(value), "{}", metric.info().path);
        }
        assert!(identity_holds(values));
    }

    // window [0,100)                     idle 10..40, launched at 25: late by 15; 60..70, launched at 50: not late;
    // compute 0...10     40...60  70..80   80..100: what ends it starts at 100, was launched at 95: late by 15
    #[test]
    fn idle_time_is_the_hosts_until_the_launch() {
        let k = |start, end, launch| (start, end, Class::Compute, 1, launch);
        let ops = crate::model::testing::ops(&[
            k(0, 10, -5),
            k(40, 60, 25),
            k(70, 80, 50),
            k(100, 110, 95),
        ]);
        let values = &measure(&ops, &[Some(Span::new(0, 100))])[0];
        assert_eq!(values.int(Metric::IdleNs), Some(60));
        assert_eq!(values.int(Metric::HostLateNs), Some(30));
    }

    // A kernel over the whole of both windows, and one that covers the edge between them.
    #[test]
    fn straddling_work_is_clipped_into_each_window() {
        let ops = ops(&[(0, 300, Class::Compute, 0), (150, 250, Class::Comm, 0)]);
        let values = measure(&ops, &[Some(Span::new(200, 300)), None, Some(Span::new(100, 200))]);
        assert_eq!(values[0].int(Metric::CommNs), Some(50));
        assert_eq!(values[0].int(Metric::CommCount), Some(0));
        assert_eq!(values[1].int(Metric::StepNs), None);
        assert_eq!(values[2].int(Metric::CommNs), Some(50));
        assert_eq!(values[2].int(Metric::CommCount), Some(1));
        assert_eq!(values[2].int(Metric::OverlapNs), Some(50));
    }

    const ALL: [Class; 9] = [
        Class::Compute,
        Class::Comm,
        Class::Htod,
        Class::Dtoh,
        Class::Dtod,
        Class::Ptop,
        Class::OtherCopy,
        Class::Memset,
        Class::Unclassified,
    ];

    fn rows() -> impl Strategy<Value = Vec<(Ns, Ns, Class, u64)>> {
        let row = (0i64..80, 0i64..30, 0usize..9)
            .prop_map(|(start, len, class)| (start, start + len, ALL[class], 1));
        prop::collection::vec(row, 0..20)
    }

    proptest! {
        /// Against one flag a nanosecond and class.
        #[test]
        fn equals_a_bitmap(rows in rows(), a in 0i64..80, len in 1i64..40) {
            let window = Span::new(a, a + len);
            let values = &measure(&ops(&rows), &[Some(window)])[0];
            let runs = |at: Ns, class: Class| rows.iter().any(|r| r.2 == class && r.0 <= at && at < r.1);
            let count = |f: &dyn Fn(Ns) -> bool| (window.start..window.end).filter(|&at| f(at)).count() as i64;
            let call = |at| runs(at, Class::Comm);
            let comm = |at| call(at) || runs(at, Class::Ptop);
            let compute = |at| runs(at, Class::Compute);
            let copy = |at| COPIES.iter().any(|(class, _)| runs(at, *class));
            let graph = |at| runs(at, Class::Unclassified);
            prop_assert_eq!(values.int(Metric::CommNs), Some(count(&comm)));
            prop_assert_eq!(values.int(Metric::OverlapNs), Some(count(&|t| comm(t) && compute(t))));
            prop_assert_eq!(values.int(Metric::ExposedCopyNs), Some(count(&|t| copy(t) && !comm(t) && !compute(t))));
            prop_assert_eq!(values.int(Metric::PtopExposedNs), Some(count(&|t| runs(t, Class::Ptop) && !call(t) && !compute(t))));
            prop_assert_eq!(values.int(Metric::UnclassifiedExposedNs), Some(count(&|t| graph(t) && !copy(t) && !comm(t) && !compute(t))));
            prop_assert_eq!(values.int(Metric::IdleNs), Some(count(&|t| !graph(t) && !copy(t) && !comm(t) && !compute(t))));
            let starts = rows.iter().filter(|r| r.2 == Class::Dtoh && window.contains(r.0)).count() as i64;
            prop_assert_eq!(values.int(Metric::DtohCount), Some(starts));
            prop_assert!(identity_holds(values));
        }
    }
}
