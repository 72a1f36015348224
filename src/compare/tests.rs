//! The whole comparison on real runs, whose numbers and answers are known.

use super::fixtures::{compared, of, run, timed, variant, with_collectives, with_kernels};
use super::{ChangedOption, Comparison, Settings, TrainingOption, VariantInput, Verdict, compare};
use crate::model::metric::Metric;

fn settled(inputs: &[VariantInput]) -> Comparison {
    compare(inputs, &Settings::default()).expect("compares")
}

fn median(comparison: &Comparison, name: &str, metric: Metric) -> f64 {
    of(comparison, name).summary.median(metric).expect("is measured")
}

#[test]
fn the_table_reproduces_what_is_known_of_the_shared_memory_runs() {
    let c = compared(&[
        "shm/shm-2gpu",
        "shm/shm-2gpu-view",
        "shm/shm-2gpu-bf16",
        "shm/shm-2gpu-powersgd",
        "shm/shm-2gpu-bf16-bucket100",
    ]);
    assert_eq!(c.baseline, "shm-2gpu");
    assert_eq!(of(&c, "shm-2gpu").verdict, Verdict::Baseline);
    assert_eq!(
        (median(&c, "shm-2gpu", Metric::DtodCount), median(&c, "shm-2gpu", Metric::DtodBytes)),
        (368.0, 1_698_000_800.0)
    );
    assert_eq!(
        (
            median(&c, "shm-2gpu-view", Metric::DtodCount),
            median(&c, "shm-2gpu-view", Metric::DtodBytes)
        ),
        (72.0, 471_859_200.0)
    );
    assert_eq!(median(&c, "shm-2gpu-bf16", Metric::DtodCount), 368.0);

    // Medians 137,568,464 and (116,928,889 + 118,854,xxx) / 2 without the first outlier: 1.1669.
    let bf16 = of(&c, "shm-2gpu-bf16");
    assert!((bf16.speedup.expect("a ratio") - 1.16690).abs() < 0.0005);
    assert_eq!(bf16.verdict, Verdict::Inconclusive);
    assert!(
        bf16.why
            .contains("only 2 steps that count (the first, 'Batch 5' with 139.7 ms, is an outlier"),
        "{}",
        bf16.why
    );
    // The transfer without waiting halves: 45 -> 22 ms.
    let transfer = |name| of(&c, name).comm_transfer_ns.expect("ran") as f64 / 1e6;
    assert!(
        (transfer("shm-2gpu") - 45.1).abs() < 0.2 && (transfer("shm-2gpu-bf16") - 22.0).abs() < 0.2
    );

    let faster = of(&c, "shm-2gpu-bf16-bucket100");
    assert_eq!(faster.verdict, Verdict::Faster);
    assert!(
        faster.why.contains("One capture a side")
            && faster.why.contains("With 3 steps the interval is rough"),
        "{}",
        faster.why
    );
    assert_eq!(faster.delta.of_metric(Metric::CommCount).expect("both").abs.as_f64(), 10.0);
}

#[test]
fn small_buckets_overlap_over_nvlink() {
    let c = compared(&["nvlink/ddp-2gpu", "nvlink/ddp-2gpu-bucket100"]);
    assert_eq!(
        (
            median(&c, "ddp-2gpu", Metric::CommCount),
            median(&c, "ddp-2gpu-bucket100", Metric::CommCount)
        ),
        (1.0, 11.0)
    );
    let overlap = |name| median(&c, name, Metric::OverlapFraction);
    assert_eq!(overlap("ddp-2gpu"), 0.0);
    assert!(
        (overlap("ddp-2gpu-bucket100") - 0.85).abs() < 0.06,
        "{}",
        overlap("ddp-2gpu-bucket100")
    );
    assert_eq!(
        c.expectations.iter().map(|e| e.holds).collect::<Vec<_>>(),
        [Some(true), Some(true)]
    );
}

#[test]
fn every_waterfall_adds_up_to_the_nanosecond() {
    let names = [
        "nvlink/ddp-2gpu",
        "nvlink/baseline",
        "nvlink/ddp-1gpu",
        "nvlink/ddp-2gpu-static",
        "nvlink/ddp-2gpu-view",
        "nvlink/ddp-2gpu-bf16",
        "nvlink/ddp-2gpu-powersgd",
        "nvlink/ddp-2gpu-bucket100",
        "shm/shm-2gpu",
        "shm/shm-2gpu-view",
        "shm/shm-2gpu-bf16",
        "shm/shm-2gpu-powersgd",
        "shm/shm-2gpu-powersgd-active",
        "shm/shm-2gpu-bf16-bucket100",
    ];
    let c = compared(&names);
    let base = of(&c, "ddp-2gpu").median_step.clone().expect("has steps");
    assert_eq!(c.waterfall.len(), names.len() - 1);
    for (name, parts) in &c.waterfall {
        let step = of(&c, name).median_step.clone().expect("has steps");
        assert_eq!(step.parts.total_ns(), step.step_ns, "{name}: the parts are the step");
        assert_eq!(
            base.step_ns + parts.total_ns(),
            step.step_ns,
            "{name}: the differences lead from the baseline's step to it"
        );
    }
    // Batch 8 is the middle one of five steps; rank 0 is 4.7 us slower there.
    let shm = of(&c, "shm-2gpu").median_step.clone().expect("has steps");
    assert_eq!((shm.step.as_str(), shm.rank, shm.step_ns), ("Batch 8", 0, 137_568_464));
}

#[test]
fn repeats_decide_what_counts_as_an_effect() {
    let view = || variant("view", vec![run("repeats/view-run1")]);
    let ddp = |runs: &[&str]| variant("ddp", runs.iter().map(|name| run(name)).collect());

    let c = settled(&[ddp(&["repeats/ddp-run1"]), view()]);
    let alone = of(&c, "view");
    assert!((alone.speedup.expect("a ratio") - 1.0139).abs() < 0.003, "{:?}", alone.speedup);
    assert_eq!(alone.verdict, Verdict::Faster, "{}", alone.why);

    // The same program on a busy host: the captures differ by 17 %, the variants by less.
    let c = settled(&[ddp(&["repeats/ddp-run1", "repeats/ddp-run2"]), view()]);
    let busy = of(&c, "view");
    assert_eq!(busy.verdict, Verdict::Inconclusive);
    assert!(busy.why.contains("They differ most in idle time"), "{}", busy.why);
    assert!(busy.why.starts_with("The captures of 'ddp' differ by 17."), "{}", busy.why);

    // A second capture that agrees.
    let c = settled(&[ddp(&["repeats/ddp-run1", "nvlink-truth/ddp-2gpu"]), view()]);
    assert_eq!(of(&c, "view").verdict, Verdict::Faster, "{}", of(&c, "view").why);
    assert_eq!(of(&c, "ddp").captures.iter().map(|c| c.steps).collect::<Vec<_>>(), [19, 5]);
}

#[test]
fn a_run_against_itself_is_the_same() {
    let c = settled(&[
        variant("a", vec![run("repeats/ddp-run1")]),
        variant("b", vec![run("repeats/ddp-run1")]),
    ]);
    let b = of(&c, "b");
    assert_eq!((b.verdict, b.speedup), (Verdict::Same, Some(1.0)));
    assert_eq!(c.comparability[0].aspect, "same_files");
    assert_eq!(c.waterfall["b"], super::Parts::default());

    // Two captures each that agree stay the same, although repeats differ a little and the variants do not.
    let two = |name| {
        variant(
            name,
            vec![
                timed("x", &[1000, 1001, 1002, 1000, 1001]),
                timed("y", &[1002, 1003, 1001, 1002, 1002]),
            ],
        )
    };
    assert_eq!(of(&settled(&[two("a"), two("b")]), "b").verdict, Verdict::Same);
}

#[test]
fn verdicts_follow_the_interval() {
    let base = variant("base", vec![timed("b", &[1000, 1002, 998, 1001, 999, 1000])]);
    let against = |times: &[i64]| {
        let c = settled(&[base.clone(), variant("v", vec![timed("v", times)])]);
        (of(&c, "v").verdict, of(&c, "v").why.clone())
    };
    assert_eq!(against(&[900, 902, 898, 901, 899, 900]).0, Verdict::Faster);
    assert_eq!(against(&[1100, 1102, 1098, 1101, 1099, 1100]).0, Verdict::Slower);
    assert_eq!(against(&[1003, 1002, 1001, 1002, 1003, 1002]).0, Verdict::Same);
    assert_eq!(against(&[940, 1010, 990, 1060, 980, 1000]).0, Verdict::Inconclusive);
    // Two steps carry a verdict only where they are far from the others and close to each other.
    let (verdict, why) = against(&[500, 501]);
    assert_eq!(verdict, Verdict::Faster);
    assert!(why.contains("Rough: 6 steps and 2 steps a side"), "{why}");
    for near_or_apart in [&[940, 941][..], &[500, 600]] {
        let (verdict, why) = against(near_or_apart);
        assert_eq!(verdict, Verdict::Inconclusive);
        assert!(why.contains("only 2 steps that count: a verdict needs at least 3"), "{why}");
    }
    assert_eq!(against(&[500]).0, Verdict::Inconclusive);
}

#[test]
fn a_step_that_decides_is_named() {
    // Four steps of 990 and one of 1400: the median of a resample is 1400 often enough to reach the interval's end.
    let base = variant("base", vec![timed("b", &[1000, 1001, 999, 1000, 1001, 1000, 999, 1001])]);
    let v = variant("v", vec![timed("v", &[950, 951, 949, 1400])]);
    let c = settled(&[base, v]);
    let v = of(&c, "v");
    assert_eq!(v.verdict, Verdict::Inconclusive);
    assert!(
        v.why.contains("without the outlier 'step 3' (1.40 µs) of 'v' it would be faster"),
        "{}",
        v.why
    );
}

#[test]
fn no_work_is_never_a_win() {
    let base = variant("base", vec![timed("b", &[1000, 1001, 999])]);
    let mut idle = timed("v", &[10, 11, 10]);
    for step in &mut idle.steps {
        step.values.set(Metric::ComputeNs, 0);
        step.values.set(Metric::IdleNs, 10);
    }
    let c = settled(&[base.clone(), variant("v", vec![idle])]);
    assert_eq!(of(&c, "v").verdict, Verdict::Inconclusive);
    assert!(of(&c, "v").why.contains("no GPU work"), "{}", of(&c, "v").why);

    let c = settled(&[base, variant("v", vec![timed("v", &[10, 11, 10])])]);
    assert_eq!(of(&c, "v").verdict, Verdict::Inconclusive);
    assert!(of(&c, "v").why.contains("does not do the same work"), "{}", of(&c, "v").why);
}

#[test]
fn a_gate_asks_whether_a_variant_is_slower_by_more() {
    let base = variant("base", vec![timed("b", &[1000, 1002, 998, 1001, 999, 1000])]);
    let against = |times: &[i64], limit: f64| {
        let settings = Settings { gate_percent: Some(limit), ..Settings::default() };
        let c = compare(&[base.clone(), variant("v", vec![timed("v", times)])], &settings)
            .expect("compares");
        let gate = c.gate.expect("was asked for");
        (gate.failed.len(), gate.inconclusive.len(), gate.passed())
    };
    assert_eq!(against(&[1100, 1102, 1098, 1101, 1099, 1100], 5.0), (1, 0, false));
    assert_eq!(against(&[1100, 1102, 1098, 1101, 1099, 1100], 15.0), (0, 0, true));
    assert_eq!(against(&[900, 902, 898, 901, 899, 900], 5.0), (0, 0, true));
    // It may be faster or slower, but surely not by 20 %.
    assert_eq!(against(&[940, 1010, 990, 1060, 980, 1000], 20.0), (0, 0, true));
    assert_eq!(against(&[940, 1010, 990, 1060, 980, 1000], 2.0), (0, 1, false));
    assert_eq!(against(&[1000, 1000], 5.0), (0, 1, false));
}

#[test]
fn powersgd_before_its_start_has_no_effect_and_after_it_one() {
    let gradients = 1_226_141_600;
    let base = with_collectives(run("shm/shm-2gpu"), &[("AllReduce", 1, gradients)]);
    let active = with_collectives(
        run("shm/shm-2gpu-powersgd-active"),
        &[("AllReduce", 1, 100_480), ("AllReduce", 2, 1_500_000)],
    );
    let c = settled(&[
        variant("shm-2gpu", vec![base]),
        variant("shm-2gpu-powersgd", vec![run("shm/shm-2gpu-powersgd")]),
        variant("shm-2gpu-powersgd-active", vec![active]),
    ]);
    let holds = |name: &str| {
        c.expectations.iter().filter(|e| e.variant == name).map(|e| e.holds).collect::<Vec<_>>()
    };
    assert_eq!(holds("shm-2gpu-powersgd"), [Some(false), Some(false)]);
    assert_eq!(holds("shm-2gpu-powersgd-active"), [Some(true), Some(true)]);
    assert_eq!(of(&c, "shm-2gpu-powersgd-active").comm_bytes_per_step, Some(3_100_480));
    let active = c.expectations.iter().find(|e| e.variant.ends_with("active")).expect("is there");
    assert!(active.observed.contains("3 collectives of 3.10 MB in"), "{}", active.observed);
    assert!(
        active.observed_without.contains("1 collective of 1.23 GB"),
        "{}",
        active.observed_without
    );

    let without_effect: Vec<_> =
        c.findings.iter().filter(|f| f.id.as_str() == "option-without-effect").collect();
    assert_eq!(without_effect.len(), 1);
    assert!(
        without_effect[0].title.starts_with("shm-2gpu-powersgd: PowerSGD had no effect"),
        "{}",
        without_effect[0].title
    );
    let advice = without_effect[0].advice.as_deref().expect("says what to do");
    assert!(
        advice.contains("start_powerSGD_iter") && advice.contains("'Batch 5' to 'Batch 7'"),
        "{advice}"
    );
}

#[test]
fn hooks_bring_the_copies_back() {
    let view = ChangedOption {
        option: TrainingOption::GradientAsBucketView,
        source: "--option".to_owned(),
    };
    let mut bf16 = variant("shm-2gpu-bf16", vec![run("shm/shm-2gpu-bf16")]);
    bf16.options.push(view);
    let c = settled(&[variant("shm-2gpu", vec![run("shm/shm-2gpu")]), bf16]);
    let finding =
        c.findings.iter().find(|f| f.id.as_str() == "hook-brings-copies-back").expect("is found");
    assert_eq!(
        finding.title,
        "The communication hook brings the bucket copies back although gradient_as_bucket_view is on: \
         368 DtoD copies of 1.70 GB a step in shm-2gpu-bf16, no fewer than 368 DtoD copies of 1.70 GB in shm-2gpu."
    );
    // The failed expectation of the view option has its explanation and is not told twice.
    assert!(c.findings.iter().all(|f| f.id.as_str() != "expectation-failed"));

    // Not told: the variant with the option shows what it saves.
    let c = compared(&["shm/shm-2gpu", "shm/shm-2gpu-view", "shm/shm-2gpu-bf16"]);
    let finding =
        c.findings.iter().find(|f| f.id.as_str() == "hook-brings-copies-back").expect("is found");
    assert!(
        finding.title.contains("72 DtoD copies of 472 MB in shm-2gpu-view"),
        "{}",
        finding.title
    );
}

#[test]
fn known_options_are_checked_against_counts_and_bytes() {
    let gradients = 1_226_141_600;
    let c = settled(&[
        variant(
            "ddp-2gpu",
            vec![with_collectives(run("nvlink/ddp-2gpu"), &[("AllReduce", 1, gradients)])],
        ),
        variant("ddp-2gpu-static", vec![run("nvlink/ddp-2gpu-static")]),
        variant("ddp-2gpu-view", vec![run("nvlink/ddp-2gpu-view")]),
        variant("ddp-2gpu-bucket100", vec![run("nvlink/ddp-2gpu-bucket100")]),
        variant("ddp-2gpu-bucket10", vec![run("nvlink/ddp-2gpu-bucket100")]),
        variant("fsdp", vec![run("nvlink/ddp-2gpu")]),
        variant("accum4", vec![run("nvlink/ddp-2gpu")]),
    ]);
    let holds = |name: &str| {
        c.expectations.iter().filter(|e| e.variant == name).map(|e| e.holds).collect::<Vec<_>>()
    };
    assert_eq!(holds("ddp-2gpu-static"), [Some(true)]);
    // 1,698,000,800 - 471,859,200 bytes are the gradients exactly.
    assert_eq!(holds("ddp-2gpu-view"), [Some(true)]);
    assert_eq!(holds("ddp-2gpu-bucket100"), [Some(true), Some(true)]);
    // Buckets of 10 MiB would be 117 collectives.
    assert_eq!(holds("ddp-2gpu-bucket10"), [Some(false), Some(true)]);
    assert_eq!(holds("fsdp"), [Some(false)]);
    assert_eq!(holds("accum4"), [Some(false)]);
    assert_eq!(c.findings.iter().filter(|f| f.id.as_str() == "expectation-failed").count(), 3);

    // The wrapper on one GPU copies without communicating.
    let c = compared(&["nvlink/baseline", "nvlink/ddp-1gpu"]);
    assert_eq!(c.expectations.iter().map(|e| e.holds).collect::<Vec<_>>(), [Some(true)]);
}

/// One rank exchanges nothing whatever the option, so nothing can be missing; a rank of several whose partners were not captured does.
#[test]
fn a_rank_alone_says_nothing_about_what_ranks_exchange() {
    let names = ["ddp-1gpu-bucket100", "ddp-1gpu-fsdp", "ddp-1gpu-accum4", "ddp-1gpu-bf16"];
    let of_world = |ranks: Option<u32>| {
        let alone = |name: &str| {
            let mut report = run("nvlink/ddp-1gpu");
            report.summary.world_size = ranks;
            variant(name, vec![report])
        };
        settled(
            &names
                .iter()
                .fold(vec![variant("ddp-1gpu", vec![run("nvlink/ddp-1gpu")])], |list, name| {
                    [list, vec![alone(name)]].concat()
                }),
        )
    };
    for ranks in [None, Some(1)] {
        let c = of_world(ranks);
        let about_ranks =
            c.expectations.iter().filter(|e| !matches!(e.option, TrainingOption::DdpOneGpu));
        assert!(
            about_ranks.clone().count() >= 5 && about_ranks.clone().all(|e| e.holds.is_none()),
            "{:?}",
            c.expectations
        );
        assert!(
            c.findings.iter().all(|f| f.id.as_str() != "expectation-failed"),
            "{:?}",
            c.findings
        );
    }
    assert!(
        of_world(Some(8))
            .expectations
            .iter()
            .any(|e| e.option == TrainingOption::Fsdp && e.holds == Some(false))
    );
    // With other options than the reference's the copies may be views, which a name need not say.
    let c = settled(&[
        variant("baseline", vec![run("nvlink/baseline")]),
        variant("ddp-1gpu-bucket100", vec![run("nvlink/baseline")]),
    ]);
    assert!(c.expectations.iter().all(|e| e.holds.is_none()), "{:?}", c.expectations);
}

/// A step that holds both micro-batches sends once like a step of one, for twice the work; a step of one micro-batch sends every other time.
#[test]
fn accumulation_is_fewer_collectives_for_the_same_work() {
    let run_of = |passes: u64| {
        with_kernels(
            run("nvlink/ddp-2gpu"),
            &[
                ("gemm", 100 * passes, 700_000),
                ("elementwise", 500 * passes, 20_000),
                ("adam", 100, 5_000),
            ],
        )
    };
    let mut every_other = run_of(1);
    for step in every_other.steps.iter_mut().skip(1).step_by(2) {
        step.values.set(Metric::CommCount, 0);
    }
    let c = settled(&[
        variant("ddp", vec![run_of(1)]),
        variant("ddp-accumulation", vec![run_of(2)]),
        variant("ddp-accum2", vec![every_other]),
    ]);
    assert_eq!(
        c.expectations.iter().map(|e| e.holds).collect::<Vec<_>>(),
        [Some(true), Some(true)]
    );
    assert_eq!(c.expectations[0].observed, "1 a step, one to 1,300 compute kernels");
    assert_eq!(c.expectations[0].observed_without, "1 a step, one to 700 compute kernels");
    // A step of two passes is not a slower program, and says so; the other one differs in nothing.
    let others = c.comparability.iter().filter(|r| r.aspect != "same_files");
    let remarks: Vec<_> =
        others.map(|r| (r.variant.as_str(), r.aspect, r.message.as_str())).collect();
    let message = "The kernels run 2.0 times as often in a step as in the baseline: a step does another amount of work.";
    assert_eq!(remarks, [("ddp-accumulation", "work", message)]);
    assert!(c.other_work(of(&c, "ddp-accumulation")) && !c.other_work(of(&c, "ddp-accum2")));
}

/// Both the path and the hook differ from the baseline: only bytes can say whether the hook works.
#[test]
fn options_are_told_apart_only_by_what_differs_alone() {
    let gradients = 1_226_141_600;
    let sized = |name: &str, bytes: u64| with_collectives(run(name), &[("AllReduce", 1, bytes)]);
    let holds = |inputs: &[VariantInput], name: &str| {
        let c = settled(inputs);
        let of_name = |e: &&super::Expectation| e.variant == name;
        c.expectations
            .iter()
            .filter(of_name)
            .map(|e| (e.option.to_string(), e.compared_with.clone(), e.holds))
            .collect::<Vec<_>>()
    };
    let expected = |option: &str, with: &str, holds| (option.to_owned(), with.to_owned(), holds);
    let base = || variant("ddp-2gpu", vec![run("nvlink/ddp-2gpu")]);
    let bf16 = || variant("ddp-2gpu-bf16-nop2p", vec![run("shm/shm-2gpu-bf16")]);

    // 22.5 ms instead of 3.6 ms: the path is slower, the hook may be faster.
    let alone = holds(&[base(), bf16()], "ddp-2gpu-bf16-nop2p");
    assert_eq!(alone.iter().map(|(_, _, holds)| *holds).collect::<Vec<_>>(), [None, None, None]);
    let with_bytes = [
        variant("ddp-2gpu", vec![sized("nvlink/ddp-2gpu", gradients)]),
        variant("ddp-2gpu-bf16-nop2p", vec![sized("shm/shm-2gpu-bf16", gradients / 2)]),
    ];
    assert!(holds(&with_bytes, "ddp-2gpu-bf16-nop2p").contains(&expected(
        "bf16_hook",
        "ddp-2gpu",
        Some(true)
    )));
    // The variant that differs in the hook alone, and the time halves.
    let plain = variant("ddp-2gpu-nop2p", vec![run("shm/shm-2gpu")]);
    assert!(holds(&[base(), plain, bf16()], "ddp-2gpu-bf16-nop2p").contains(&expected(
        "bf16_hook",
        "ddp-2gpu-nop2p",
        Some(true)
    )));

    let c = settled(&[
        base(),
        variant("ddp-2gpu-bucket100-nop2p", vec![run("nvlink/ddp-2gpu-bucket100")]),
        variant("ddp-2gpu-powersgd-nop2p", vec![run("shm/shm-2gpu-powersgd-active")]),
        bf16(),
    ]);
    assert!(
        c.findings
            .iter()
            .all(|f| !f.id.as_str().starts_with("expectation")
                && !f.id.as_str().starts_with("option")),
        "{:?}",
        c.findings
    );
    // The path leaves the number of buckets as it is.
    assert!(
        c.expectations
            .iter()
            .any(|e| e.option == TrainingOption::BucketCap(100) && e.holds == Some(true))
    );

    // One rank without DDP says nothing about static_graph.
    let c = compared(&["nvlink/baseline", "nvlink/ddp-2gpu-static"]);
    assert_eq!(c.expectations.iter().map(|e| e.holds).collect::<Vec<_>>(), [None]);
}

#[test]
fn copies_are_compared_with_the_plainest_view() {
    let c = settled(&[
        variant("ddp-2gpu-bf16", vec![run("nvlink/ddp-2gpu-bf16")]),
        variant("ddp-2gpu-view-nop2p", vec![run("shm/shm-2gpu-view")]),
        variant("ddp-2gpu-view-repeat", vec![run("nvlink/ddp-2gpu-view")]),
        variant("ddp-2gpu-view", vec![run("nvlink/ddp-2gpu-view")]),
    ]);
    let finding =
        c.findings.iter().find(|f| f.id.as_str() == "hook-brings-copies-back").expect("is found");
    assert_eq!(finding.evidence["compared_with"], "ddp-2gpu-view");
}

#[test]
fn what_is_not_comparable_is_stated() {
    let kernels = [("gemm_f32", 100, 700_000), ("elementwise", 500, 20_000)];
    let base = || with_kernels(run("nvlink/ddp-2gpu"), &kernels);
    let mut other = with_kernels(
        run("nvlink/baseline"),
        &[("gemm_bf16", 100, 300_000), ("elementwise", 500, 20_000)],
    );
    other.ranks[0].gpu = Some("NVIDIA A100".to_owned());
    other.inputs[0].schema_version = Some("3.11.0".to_owned());
    other.inputs[0].capture.settings.insert("NCCL_P2P_DISABLE".to_owned(), "1".to_owned());
    other.summary.world_size = Some(4);
    for step in &mut other.steps {
        step.values.set(Metric::HtodBytes, 2 * 19_267_840);
    }
    let c = settled(&[variant("base", vec![base()]), variant("other", vec![other])]);
    let aspects: Vec<&str> = c.comparability.iter().map(|r| r.aspect).collect();
    assert_eq!(aspects, ["missing_ranks", "gpu", "model", "batch", "ranks", "schema", "settings"]);
    let text = |aspect: &str| {
        c.comparability.iter().find(|r| r.aspect == aspect).expect("is stated").message.clone()
    };
    assert_eq!(text("gpu"), "Different GPUs: 2x NVIDIA H200 in the baseline, 1x NVIDIA A100 here.");
    assert_eq!(
        text("missing_ranks"),
        "Only 1 of 4 ranks of 'other' are there: the slowest rank, which sets the pace, may be missing."
    );
    // 500 x 20 us of 500 x 20 us + 100 x 700 us.
    assert!(
        text("model").starts_with("Only 12.5 % of the baseline's compute time"),
        "{}",
        text("model")
    );
    assert_eq!(
        text("batch"),
        "38.5 MB are copied to the device in a step, 19.3 MB in the baseline: the batch may differ."
    );
    assert_eq!(text("settings"), "Set only here: NCCL_P2P_DISABLE=1.");
    // The variable is an option as well.
    assert!(c.expectations.iter().any(
        |e| e.option == TrainingOption::P2pOff && e.source.starts_with("captured environment")
    ));

    // The same model at another batch size: as many kernels, each of them longer.
    let larger =
        with_kernels(run("nvlink/ddp-2gpu-view"), &kernels.map(|(name, n, ns)| (name, n, 2 * ns)));
    let c = settled(&[variant("base", vec![base()]), variant("larger", vec![larger])]);
    assert_eq!(c.comparability.len(), 1);
    assert!(
        c.comparability[0].message.contains("take 2.00 times as long"),
        "{}",
        c.comparability[0].message
    );
}

#[test]
fn scaling_sets_step_times_against_the_ideal() {
    let inputs = [
        variant("one", vec![run("nvlink/baseline")]),
        variant("two", vec![run("nvlink/ddp-2gpu-view")]),
    ];
    let with = |scaling| {
        let c = compare(&inputs, &Settings { scaling, ..Settings::default() }).expect("compares");
        (of(&c, "two").speedup.expect("a ratio"), of(&c, "two").scaling_efficiency)
    };
    let (speedup, none) = with(None);
    assert_eq!(none, None);
    assert_eq!(with(Some(super::Scaling::Weak)).1, Some(speedup));
    assert_eq!(with(Some(super::Scaling::Strong)).1, Some(speedup / 2.0));
}

#[test]
fn outliers_are_left_out_only_if_asked() {
    let base = variant("base", vec![timed("b", &[1000, 1001, 999, 1000, 2000])]);
    let v = variant("v", vec![timed("v", &[1000, 1001, 999, 1000, 1000])]);
    let steps = |exclude_outliers| {
        let settings = Settings { exclude_outliers, ..Settings::default() };
        of(&compare(&[base.clone(), v.clone()], &settings).expect("compares"), "base").counted_steps
    };
    assert_eq!((steps(false), steps(true)), (5, 4));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let a = || variant("a", vec![timed("a", &[1, 2, 3])]);
    let error = |inputs: &[VariantInput], baseline: Option<&str>| {
        compare(inputs, &Settings { baseline: baseline.map(str::to_owned), ..Settings::default() })
            .expect_err("is refused")
    };
    assert_eq!(error(&[a()], None).exit_code(), 2);
    assert!(error(&[a(), a()], None).fact.contains("two variants are called 'a'"));
    assert!(error(&[a(), variant("b", vec![])], None).fact.contains("has no reports"));
    let unknown = error(&[a(), variant("b", vec![timed("b", &[1])])], Some("c"));
    assert!(unknown.fact.contains("'c' is none of the variants"));
    assert_eq!(unknown.hint.as_deref(), Some("use one of: a, b"));
}

#[test]
fn the_document_has_the_promised_form() {
    let c = compared(&["shm/shm-2gpu", "shm/shm-2gpu-view"]);
    let json = serde_json::to_value(&c).expect("serialises");
    assert_eq!(json["schema"], "nsysnccl.compare/1");
    let view = &json["variants"][1];
    assert_eq!(view["dtod"]["count"]["median"], 72);
    assert_eq!(view["delta"]["dtod"]["bytes"]["abs"], 471_859_200 - 1_698_000_800_i64);
    assert!(view["delta"]["step_ns"]["abs"].as_i64().expect("whole") < 0);
    assert_eq!(view["speedup_ci95"].as_array().expect("an interval").len(), 2);
    assert_eq!(view["captures"][0]["step_ns_median"], view["step_ns"]["median"]);
    assert_eq!(view["verdict"], "inconclusive");
    assert_eq!(json["expectations"][0]["option"], "gradient_as_bucket_view");
    assert_eq!(json["expectations"][0]["holds"], true);
    assert!(json["waterfall"]["shm-2gpu-view"]["idle_ns"].is_i64());
    assert!(json["gate"].is_null());
}

// Steps of 100 ms become 125 ms: 1.25 times as long. The other variant is the same.
#[test]
fn the_headline_is_about_the_slower_one_where_none_is_faster() {
    let steps = |ns: i64| [ns; 8];
    let inputs = [
        variant("base", vec![timed("base", &steps(100_000_000))]),
        variant("same", vec![timed("same", &steps(100_000_000))]),
        variant("slow", vec![timed("slow", &steps(125_000_000))]),
    ];
    let c = settled(&inputs);
    let leading = c.leading().expect("one is slower");
    assert_eq!((leading.name.as_str(), leading.verdict), ("slow", Verdict::Slower));
    let (long, interval) = leading.times_as_long().expect("is measured");
    assert!((long - 1.25).abs() < 1e-9 && interval == Some([1.25, 1.25]), "{long} {interval:?}");
    let fast = [
        variant("base", vec![timed("base", &steps(125_000_000))]),
        variant("slow", vec![timed("slow", &steps(150_000_000))]),
        variant("fast", vec![timed("fast", &steps(100_000_000))]),
    ];
    assert_eq!(settled(&fast).leading().map(|v| v.name.as_str()), Some("fast"));
    assert_eq!(settled(&inputs[..2]).leading(), None);
}

// The replay of the baseline promises 90 ms without copies on the device; the variant with views takes 93 ms: 3.3 % more.
#[test]
fn promises_are_set_against_what_the_variant_gave() {
    let mut base = timed("base", &[100_000_000; 4]);
    base.what_if = vec![crate::report::WhatIf {
        id: crate::catalogue::Scenario::DtodCopiesFree,
        scope: crate::report::Scope::default(),
        step_ns: 90_000_000,
        gain_ns: 10_000_000,
        gain_fraction: Some(0.1),
        range_ns: [90_000_000, 91_000_000],
    }];
    let mut after = variant("after", vec![timed("after", &[93_000_000; 4])]);
    after.options = vec![ChangedOption {
        option: TrainingOption::GradientAsBucketView,
        source: "--option".to_owned(),
    }];
    let c = settled(&[variant("base", vec![base.clone()]), after.clone()]);
    let promise = &c.promises[0];
    assert_eq!(
        (promise.scenario, promise.promised_ns, promise.measured_ns),
        (crate::catalogue::Scenario::DtodCopiesFree, 90_000_000, 93_000_000)
    );
    assert!((promise.off_rel - 1.0 / 30.0).abs() < 1e-9);
    // Two options at once: nothing was promised of both.
    after
        .options
        .push(ChangedOption { option: TrainingOption::Bf16Hook, source: "--option".to_owned() });
    assert!(settled(&[variant("base", vec![base]), after]).promises.is_empty());
}
