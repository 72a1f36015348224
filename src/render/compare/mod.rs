//! A finished comparison on its way to a person or a program.

mod csv;
mod figures;
mod tables;

use std::io::{self, Write};

use super::document::{Block, Document, Entry, Section};
use super::table::Tone;
use super::view::notes;
use super::{Page, units};
use crate::compare::{
    BaselineSource, Comparison, ONE_CAPTURE, Remark, Scaling, Variant, Verdict, interval_meaning,
    interval_sentence,
};
use crate::text;

/// Names that a sentence lists.
const MOST_NAMES: usize = 12;
/// Variants of which the headline says more than the name.
const EXPLAINED: usize = 3;

impl Page for Comparison {
    fn document(&self) -> Document {
        document(self)
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv::write(self, out)
    }
}

/// Everything that the terminal, Markdown and HTML print of a comparison.
fn document(comparison: &Comparison) -> Document {
    let one_capture = others(comparison).any(|v| v.why.contains(ONE_CAPTURE));
    let verdicts = vec![
        Some(Block::Table(tables::verdicts(comparison))),
        entries(whys(comparison)),
        one_capture.then(|| Block::Text(ONE_CAPTURE.to_owned())),
    ];
    let time = vec![
        Some(Block::Table(tables::times(comparison))),
        figures::grouped(comparison).map(Block::Figure),
        tables::waterfall(comparison).map(Block::Table),
        figures::waterfall(comparison).map(Block::Figure),
        tables::critical_path(comparison).map(Block::Table),
        tables::promises(comparison).map(Block::Table),
        tables::kernels(comparison).map(Block::Table),
    ];
    let steps = vec![
        tables::captures(comparison).map(Block::Table),
        figures::steps(comparison).map(Block::Figure),
        Some(Block::Details(tables::steps(comparison))),
    ];
    let sections = [
        ("Verdicts", verdicts),
        ("Where the time goes", time),
        ("Communication and copies", vec![Some(Block::Table(tables::work(comparison)))]),
        ("Known options", vec![tables::expectations(comparison).map(Block::Records)]),
        ("What else differs", vec![entries(remarks(comparison))]),
        ("Step times", steps),
        ("Timelines", vec![figures::strips(comparison).map(Block::Figure)]),
    ];
    Document {
        title: format!(
            "{} against {}",
            units::plural(comparison.variants.len().saturating_sub(1), "variant"),
            comparison.baseline
        ),
        facts: facts(comparison),
        headline: headline(comparison),
        picture: figures::forest(comparison),
        findings: notes::findings(&comparison.findings),
        sections: sections
            .into_iter()
            .filter_map(|(heading, blocks)| {
                Section::new(heading, blocks.into_iter().flatten().collect())
                    .map(|section| section.with_key(heading == "Verdicts"))
            })
            .collect(),
        warnings: notes::warnings(&comparison.warnings),
        definitions: definitions(comparison),
        method: method(comparison),
    }
}

/// The variants other than the baseline.
fn others(comparison: &Comparison) -> impl Iterator<Item = &Variant> {
    comparison.variants.iter().filter(|variant| variant.verdict != Verdict::Baseline)
}

fn baseline(comparison: &Comparison) -> Option<&Variant> {
    comparison.variants.iter().find(|variant| variant.verdict == Verdict::Baseline)
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Faster => Tone::Good,
        Verdict::Slower => Tone::Bad,
        Verdict::Baseline | Verdict::Same | Verdict::Inconclusive => Tone::Neutral,
    }
}

fn facts(comparison: &Comparison) -> Vec<String> {
    let (least, most) = comparison
        .variants
        .iter()
        .map(|v| v.ranks)
        .fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
    let ranks = if least == most {
        units::plural(most, "rank")
    } else {
        format!("{least} to {}", units::plural(most, "rank"))
    };
    let mut facts = vec![
        ranks,
        format!("smallest effect that counts {}", units::percent(comparison.settings.min_effect)),
    ];
    if comparison.settings.baseline_source == BaselineSource::Plain {
        facts.push("baseline: the other names begin with its name".to_owned());
    }
    facts
}

fn headline(comparison: &Comparison) -> Vec<String> {
    let leading = comparison.leading();
    let comparable = others(comparison).any(|v| !comparison.other_work(v));
    let mut sentences = match leading {
        Some(leading) => vec![leading_sentence(comparison, leading)],
        None if comparable => {
            vec![format!("No variant is shown to be faster than {}.", comparison.baseline)]
        }
        None => {
            vec![format!("No variant does the same work in a step as {}.", comparison.baseline)]
        }
    };
    sentences.extend(common_reason(comparison));
    sentences.extend(leading.and_then(|leading| reason(comparison, leading)));
    let counts: Vec<String> =
        [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Inconclusive]
            .into_iter()
            .filter_map(|verdict| {
                let alike = |v: &&Variant| v.verdict == verdict && !comparison.other_work(v);
                let names: Vec<&str> =
                    others(comparison).filter(alike).map(|v| v.name.as_str()).collect();
                (!names.is_empty()).then(|| format!("{}: {}", verdict.label(), listed(&names)))
            })
            .collect();
    sentences.extend(
        (!counts.is_empty()).then(|| format!("{}.", text::capitalised(&counts.join("; ")))),
    );
    sentences.extend(other_work(comparison));
    sentences.extend(gate(comparison));
    sentences
}

/// The variants that cannot win, since a step of theirs does other work.
fn other_work(comparison: &Comparison) -> Option<String> {
    let base_ranks = baseline(comparison).map(|v| v.ranks);
    let list: Vec<&Variant> = others(comparison).filter(|v| comparison.other_work(v)).collect();
    let say = |v: &&Variant| {
        let ranks = (Some(v.ranks) != base_ranks).then(|| units::plural(v.ranks, "rank"));
        let step = || {
            Some(format!(
                "{} a step",
                units::time(v.summary[crate::model::Metric::StepNs]?.median.as_int()?)
            ))
        };
        let pace = efficiency(comparison, v)
            .or_else(step)
            .filter(|_| list.len() <= EXPLAINED || comparison.settings.scaling.is_some());
        let details: Vec<String> = ranks.into_iter().chain(pace).collect();
        if details.is_empty() {
            v.name.clone()
        } else {
            format!("{} ({})", v.name, details.join(", "))
        }
    };
    let advice = if 2 * list.len() > comparison.variants.len() {
        " --baseline with one of them ranks them."
    } else {
        ""
    };
    let names = listed(&list.iter().map(say).collect::<Vec<_>>());
    (!list.is_empty())
        .then(|| format!("Not ranked, with other ranks or other work in a step: {names}.{advice}"))
}

/// What keeps every variant from a verdict, if it is one thing.
fn common_reason(comparison: &Comparison) -> Option<String> {
    let whys: Vec<&str> = others(comparison).map(|v| v.why.as_str()).collect();
    let (first, rest) = whys.split_first()?;
    let all = others(comparison).all(|v| v.verdict == Verdict::Inconclusive)
        && rest.iter().all(|why| why == first);
    all.then(|| (*first).to_owned())
}

fn leading_sentence(comparison: &Comparison, variant: &Variant) -> String {
    let step = |variant: Option<&Variant>| {
        let median =
            variant.and_then(|v| v.summary[crate::model::Metric::StepNs])?.median.as_int()?;
        Some(units::time(median))
    };
    let interval = |interval: Option<[f64; 2]>| {
        interval.map_or_else(String::new, |[lo, hi]| format!(", 95 % interval {lo:.3} to {hi:.3}"))
    };
    let times = match (step(baseline(comparison)), step(Some(variant))) {
        (Some(before), Some(after)) => format!(": {before} → {after} a step"),
        _ => String::new(),
    };
    let (name, base) = (&variant.name, &comparison.baseline);
    match (variant.verdict, variant.times_as_long()) {
        (Verdict::Slower, Some((long, interval_long))) => {
            // Of several it is the slowest; that none is faster is what they have in common.
            let none = match others(comparison).count() {
                1 => String::new(),
                _ => format!("No variant is shown to be faster than {base}. "),
            };
            format!(
                "{none}{name} takes {long:.3} times as long as {base}{times}{}.",
                interval(interval_long)
            )
        }
        _ => format!(
            "{name} is {:.3} times as fast as {base}{times}{}.",
            variant.speedup.unwrap_or(1.0),
            interval(variant.speedup_ci95)
        ),
    }
}

/// Where the difference of a variant comes from: the parts of its waterfall, the largest first.
fn reason(comparison: &Comparison, variant: &Variant) -> Option<String> {
    let parts = comparison.waterfall.get(&variant.name)?;
    let changed = parts.changed();
    let list: Vec<String> =
        changed.iter().map(|(name, ns)| format!("{name} {}", signed_time(*ns))).collect();
    let which = if comparison.variants.iter().any(|variant| variant.ranks > 1) {
        ", each on its slowest rank"
    } else {
        ""
    };
    (!list.is_empty()).then(|| {
        format!(
            "From median step to median step{which}: {}; together {}.",
            list.join(", "),
            signed_time(parts.total_ns())
        )
    })
}

/// Names of variants: of very many the first, and how many more there are. The table has all.
fn listed<S: AsRef<str>>(names: &[S]) -> String {
    units::listed(names, MOST_NAMES)
}

/// How the gate ended; `None` if none was asked for.
pub(crate) fn gate(comparison: &Comparison) -> Option<String> {
    let gate = comparison.gate.as_ref()?;
    if gate.passed() {
        return Some(format!("Gate passed: no variant is slower by more than {} %.", gate.limit));
    }
    let mut parts = Vec::new();
    if !gate.failed.is_empty() {
        parts.push(format!("slower by more than {} %: {}", gate.limit, listed(&gate.failed)));
    }
    if !gate.inconclusive.is_empty() {
        parts.push(format!("inconclusive: {}", listed(&gate.inconclusive)));
    }
    Some(match gate.failed.as_slice() {
        [] => format!("Gate {}. More captures of each side would tell.", parts.join("; ")),
        _ => format!("Gate failed. {}.", text::capitalised(&parts.join("; "))),
    })
}

fn entries(entries: Vec<Entry>) -> Option<Block> {
    (!entries.is_empty()).then_some(Block::Entries(entries))
}

fn whys(comparison: &Comparison) -> Vec<Entry> {
    let mut texts: Vec<(String, Vec<&Variant>)> = Vec::new();
    for variant in others(comparison) {
        let note =
            variant.notes.as_ref().map_or_else(String::new, |notes| format!(" Note: {notes}"));
        let scaling =
            efficiency(comparison, variant).map_or_else(String::new, |text| format!(" {text}."));
        let text =
            format!("{}{scaling}{note}", beyond_the_table(comparison, variant)).trim().to_owned();
        match texts.iter_mut().find(|(other, variants)| {
            *other == text && variants.iter().all(|v| v.verdict == variant.verdict)
        }) {
            Some((_, variants)) => variants.push(variant),
            None => texts.push((text, vec![variant])),
        }
    }
    // The headline has said what is the same for all.
    let said = common_reason(comparison);
    texts.retain(|(text, _)| !text.is_empty() && said.as_ref() != Some(text));
    let name = |variants: &[&Variant], verdict: Verdict| {
        format!(
            "{} ({})",
            listed(&variants.iter().map(|v| v.name.as_str()).collect::<Vec<_>>()),
            verdict.label()
        )
    };
    texts
        .into_iter()
        .filter_map(|(text, variants)| {
            let verdict = variants.first()?.verdict;
            Some(Entry { name: name(&variants, verdict), text, tone: tone(verdict) })
        })
        .collect()
}

/// How near a variant of other ranks comes to the ideal, if it was said what that is.
fn efficiency(comparison: &Comparison, variant: &Variant) -> Option<String> {
    let kind = if comparison.settings.scaling? == Scaling::Weak { "weak" } else { "strong" };
    Some(format!("{} of ideal {kind} scaling", units::percent(variant.scaling_efficiency?)))
}

/// The reasons for a verdict that the table does not show: without its numbers, and without what is said of all at once.
fn beyond_the_table(comparison: &Comparison, variant: &Variant) -> String {
    let mut why = variant.why.replace(ONE_CAPTURE, "");
    if let (Some(speedup), Some(interval)) = (variant.speedup, variant.speedup_ci95) {
        let (verdict, e) = (variant.verdict, comparison.settings.min_effect);
        let meaning = match verdict {
            Verdict::Inconclusive => format!(
                "The interval {}.",
                interval_meaning(interval, verdict, e).trim_start_matches("which ")
            ),
            _ => String::new(),
        };
        why = why.replace(&interval_sentence(speedup, interval, verdict, e), &meaning);
    }
    why.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Remarks; the same one about several variants is said once.
fn remarks(comparison: &Comparison) -> Vec<Entry> {
    let mut kinds: Vec<(&Remark, Vec<&str>)> = Vec::new();
    for remark in &comparison.comparability {
        match kinds
            .iter_mut()
            .find(|(kind, _)| kind.aspect == remark.aspect && kind.message == remark.message)
        {
            Some((_, names)) => names.push(&remark.variant),
            None => kinds.push((remark, vec![&remark.variant])),
        }
    }
    let whose = |names: Vec<&str>| {
        if names.len() > 1 && names.len() + 1 == comparison.variants.len() {
            "all others".to_owned()
        } else {
            listed(&names)
        }
    };
    kinds
        .into_iter()
        .map(|(remark, names)| Entry {
            name: format!("{} ({})", whose(names), remark.aspect.replace('_', " ")),
            text: remark.message.clone(),
            tone: Tone::Neutral,
        })
        .collect()
}

fn definitions(comparison: &Comparison) -> Vec<(String, String)> {
    let untested = comparison.expectations.iter().any(|expectation| expectation.holds.is_none());
    [
        ("speed-up", "median step of the baseline / median step of the variant; of several captures the mean of their medians."),
        ("95 % interval", "seeded percentile bootstrap of that ratio over steps, and over captures if there are several."),
        ("faster, slower", "the whole interval is beyond the smallest effect that counts; same: all of it is within; else inconclusive."),
        ("pp", "percentage points: the difference of two shares."),
        ("transfer", "communication time without waiting: the least of any rank in a step, median over steps."),
        ("not testable", "a number is missing, or the variant that it is set against differs in other options that matter here."),
    ]
    .into_iter()
    .filter(|(term, _)| untested || *term != "not testable")
    .map(|(term, definition)| (term.to_owned(), definition.to_owned()))
    .collect()
}

fn method(comparison: &Comparison) -> Vec<String> {
    let outliers = if comparison.settings.exclude_outliers {
        "Every outlier step is left out."
    } else {
        "A first captured step that is an outlier is left out, other outliers stay."
    };
    vec![
        format!(
            "Step time of the run: the slowest rank's; everything else is the mean over ranks. {outliers} Intervals rest on {} seeded resamples.",
            units::count(comparison.settings.draws as u64)
        ),
        "The waterfall compares the slowest rank of one median step of each variant, where the parts add up exactly; which rank is slowest can be chance. A dash means not measured.".to_owned(),
    ]
}

/// A time with its sign.
fn signed_time(ns: i64) -> String {
    if ns > 0 { format!("+{}", units::time(ns)) } else { units::time(ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::fixtures::{compared, run, timed, variant};
    use crate::compare::{Settings, VariantInput, compare};
    use crate::render::{Format, Style, print};

    fn printed(comparison: &Comparison, format: Format, width: usize) -> String {
        print(comparison, format, &Style { width, color: false, full: true })
    }

    #[test]
    fn variants_in_a_terminal() {
        let c = compared(&["shm/shm-2gpu", "shm/shm-2gpu-view", "shm/shm-2gpu-bf16-bucket100"]);
        insta::assert_snapshot!(printed(&c, Format::Terminal, 100));
    }

    #[test]
    fn repeats_in_a_pull_request() {
        let captures = vec![run("repeats/ddp-run1"), run("repeats/ddp-run2")];
        let inputs = [variant("ddp", captures), variant("view", vec![run("repeats/view-run1")])];
        let c = compare(&inputs, &Settings { gate_percent: Some(5.0), ..Settings::default() })
            .expect("compares");
        insta::assert_snapshot!(printed(&c, Format::Markdown, 100));
    }

    /// One rank of 900 ns beside two of 1000: faster, but not by a change of the program.
    #[test]
    fn other_ranks_never_win_the_headline() {
        let two = |name: &str, times: &[i64]| {
            let mut report = timed(name, times);
            report.summary.ranks = 2;
            variant(name, vec![report])
        };
        let one = || variant("one", vec![timed("one", &[900, 901, 899, 900])]);
        let headline_of = |inputs: &[VariantInput], scaling| {
            headline(
                &compare(inputs, &Settings { scaling, ..Settings::default() }).expect("compares"),
            )
        };

        let base = || two("base", &[1000, 1001, 999, 1000]);
        let sentences = headline_of(&[base(), one(), two("view", &[950, 951, 949, 950])], None);
        assert!(sentences[0].starts_with("view is 1.053 times as fast as base"), "{sentences:?}");
        assert_eq!(sentences[2], "Faster: view.");
        assert_eq!(
            sentences[3],
            "Not ranked, with other ranks or other work in a step: one (1 rank, 900 ns a step)."
        );

        let sentences = headline_of(&[base(), one()], None);
        assert_eq!(sentences[0], "No variant does the same work in a step as base.");
        assert!(
            sentences.iter().all(|s| !s.contains("scaling") && !s.contains("1.111")),
            "{sentences:?}"
        );
        // 1000 / 900.
        let sentences = headline_of(&[base(), one()], Some(Scaling::Weak));
        assert!(
            sentences[1].ends_with("one (1 rank, 111.1 % of ideal weak scaling)."),
            "{sentences:?}"
        );
    }

    #[test]
    fn what_all_verdicts_share_is_said_once() {
        let names = [
            "shm/shm-2gpu",
            "shm/shm-2gpu-view",
            "shm/shm-2gpu-powersgd-active",
            "shm/shm-2gpu-bf16-bucket100",
        ];
        let text = printed(&compared(&names), Format::Terminal, 400);
        assert_eq!(text.matches("One capture a side").count(), 1, "{text}");
        assert!(!text.contains("Speed-up 1."), "the table has the numbers: {text}");
    }

    #[test]
    fn a_reason_that_all_share_is_said_in_the_headline_alone() {
        let text = printed(
            &compared(&["nvlink/ddp-2gpu", "nvlink/ddp-2gpu-view", "shm/shm-2gpu"]),
            Format::Terminal,
            400,
        );
        assert_eq!(text.matches("'ddp-2gpu' has only 2 steps that count").count(), 1, "{text}");
    }

    #[test]
    fn no_table_is_wider_than_the_terminal() {
        let c = compared(&[
            "shm/shm-2gpu",
            "shm/shm-2gpu-powersgd-active",
            "shm/shm-2gpu-bf16-bucket100",
        ]);
        for width in [60, 80, 100, 140] {
            for line in printed(&c, Format::Terminal, width).lines() {
                assert!(unicode_width::UnicodeWidthStr::width(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn good_and_bad_are_coloured_and_said() {
        let c = compared(&["shm/shm-2gpu", "shm/shm-2gpu-bf16-bucket100"]);
        let text = print(&c, Format::Terminal, &Style { width: 120, color: true, full: true });
        assert!(
            text.contains("\u{1b}[32mshm-2gpu-bf16-bucket100 (faster)")
                || text.contains("faster\u{1b}"),
            "{text}"
        );
        let html = printed(&c, Format::Html, 100);
        assert!(
            html.contains("<span class=\"good\">faster</span>")
                && html.contains("<span class=\"change good\">-24.7 %</span>")
        );
    }
}
