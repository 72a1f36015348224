//! A finished comparison on its way to a person or a program.

mod csv;
mod figures;
mod tables;

use super::document::{Block, Document, Entry, Section};
use super::table::Tone;
use super::view::notes;
use super::{Format, Style, html, json, markdown, terminal, units};
use crate::compare::{Comparison, Remark, Scaling, Variant, Verdict};

/// Prints a comparison in a format; `style` matters to the terminal only.
pub fn render(comparison: &Comparison, format: Format, style: &Style) -> String {
    match format {
        Format::Terminal => terminal::print(&document(comparison), style),
        Format::Markdown => markdown::print(&document(comparison)),
        Format::Html => html::page(&document(comparison)),
        Format::Json => json::print(comparison),
        Format::Csv => csv::print(comparison),
    }
}

/// Everything that the terminal, Markdown and HTML print of a comparison.
pub fn document(comparison: &Comparison) -> Document {
    let verdicts = vec![Some(Block::Table(tables::verdicts(comparison))), entries(whys(comparison))];
    let time = vec![
        Some(Block::Table(tables::times(comparison))),
        figures::grouped(comparison).map(Block::Figure),
        tables::waterfall(comparison).map(Block::Table),
        figures::waterfall(comparison).map(Block::Figure),
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
        title: format!("{} against {}", units::plural(comparison.variants.len().saturating_sub(1), "variant"), comparison.baseline),
        facts: facts(comparison),
        headline: headline(comparison),
        findings: notes::findings(&comparison.findings),
        sections: sections
            .into_iter()
            .filter_map(|(heading, blocks)| Section::new(heading, blocks.into_iter().flatten().collect()))
            .collect(),
        warnings: notes::warnings(&comparison.warnings),
        definitions: definitions(),
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
    let mut facts = vec![units::plural(comparison.variants.len(), "variant"), format!("baseline {}", comparison.baseline)];
    let (least, most) = comparison.variants.iter().map(|v| v.ranks).fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
    facts.push(if least == most { units::plural(most, "rank") } else { format!("{least} to {}", units::plural(most, "rank")) });
    facts.push(format!("smallest effect that counts {}", units::percent(comparison.settings.min_effect)));
    facts
}

fn headline(comparison: &Comparison) -> Vec<String> {
    let best = best(comparison);
    let mut sentences = vec![match best {
        Some(best) => best_sentence(comparison, best),
        None => format!("No variant is shown to be faster than {}.", comparison.baseline),
    }];
    sentences.extend(common_reason(comparison));
    sentences.extend(best.and_then(|best| reason(comparison, best)));
    let counts: Vec<String> = [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Inconclusive]
        .into_iter()
        .filter_map(|verdict| {
            let names: Vec<&str> = others(comparison).filter(|v| v.verdict == verdict).map(|v| v.name.as_str()).collect();
            (!names.is_empty()).then(|| format!("{}: {}", verdict.label(), names.join(", ")))
        })
        .collect();
    sentences.push(format!("{}.", capitalised(&counts.join("; "))));
    sentences.extend(gate(comparison));
    sentences
}

/// The fastest of the variants that are faster; one with other ranks than the baseline only if there is no other or the scaling is known.
fn best(comparison: &Comparison) -> Option<&Variant> {
    let ranks = baseline(comparison).map(|v| v.ranks);
    let alike = |v: &Variant| comparison.settings.scaling.is_some() || Some(v.ranks) == ranks;
    others(comparison)
        .filter(|v| v.verdict == Verdict::Faster)
        .max_by(|a, b| alike(a).cmp(&alike(b)).then(a.speedup.unwrap_or(0.0).total_cmp(&b.speedup.unwrap_or(0.0))))
}

/// What keeps every variant from a verdict, if it is one thing.
fn common_reason(comparison: &Comparison) -> Option<String> {
    let whys: Vec<&str> = others(comparison).map(|v| v.why.as_str()).collect();
    let (first, rest) = whys.split_first()?;
    let all = others(comparison).all(|v| v.verdict == Verdict::Inconclusive) && rest.iter().all(|why| why == first);
    all.then(|| (*first).to_owned())
}

fn best_sentence(comparison: &Comparison, best: &Variant) -> String {
    let step = |variant: Option<&Variant>| {
        let median = variant.and_then(|v| v.summary[crate::model::Metric::StepNs])?.median.as_int()?;
        Some(units::time(median))
    };
    let interval = best.speedup_ci95.map_or_else(String::new, |[lo, hi]| format!(", 95 % interval {lo:.3} to {hi:.3}"));
    let times = match (step(baseline(comparison)), step(Some(best))) {
        (Some(before), Some(after)) => format!(": {before} → {after} a step"),
        _ => String::new(),
    };
    format!("{} is {:.3} times as fast as {}{times}{interval}.", best.name, best.speedup.unwrap_or(1.0), comparison.baseline)
}

/// Where the difference of a variant comes from: the parts of its waterfall, the largest first.
fn reason(comparison: &Comparison, variant: &Variant) -> Option<String> {
    let parts = comparison.waterfall.get(&variant.name)?;
    let mut changed: Vec<(&str, i64)> = parts.named().into_iter().filter(|(_, ns)| *ns != 0).collect();
    changed.sort_by_key(|(_, ns)| std::cmp::Reverse(ns.unsigned_abs()));
    let list: Vec<String> = changed.iter().map(|(name, ns)| format!("{name} {}", signed_time(*ns))).collect();
    (!list.is_empty()).then(|| format!("From median step to median step: {}; together {}.", list.join(", "), signed_time(parts.total_ns())))
}

fn gate(comparison: &Comparison) -> Option<String> {
    let gate = comparison.gate.as_ref()?;
    if gate.passed() {
        return Some(format!("Gate passed: no variant is slower by more than {} %.", gate.limit));
    }
    let mut parts = Vec::new();
    if !gate.failed.is_empty() {
        parts.push(format!("slower by more than {} %: {}", gate.limit, gate.failed.join(", ")));
    }
    if !gate.inconclusive.is_empty() {
        parts.push(format!("undecided: {}", gate.inconclusive.join(", ")));
    }
    Some(format!("Gate failed. {}.", capitalised(&parts.join("; "))))
}

fn entries(entries: Vec<Entry>) -> Option<Block> {
    (!entries.is_empty()).then_some(Block::Entries(entries))
}

fn whys(comparison: &Comparison) -> Vec<Entry> {
    let efficiency = |variant: &Variant| match (variant.scaling_efficiency, comparison.settings.scaling) {
        (Some(share), Some(scaling)) => {
            let kind = if scaling == Scaling::Weak { "weak" } else { "strong" };
            format!(" {} of ideal {kind} scaling.", units::percent(share))
        }
        _ => String::new(),
    };
    others(comparison)
        .map(|variant| Entry {
            name: format!("{} ({})", variant.name, variant.verdict.label()),
            text: format!(
                "{}{}{}",
                variant.why,
                efficiency(variant),
                variant.notes.as_ref().map_or_else(String::new, |notes| format!(" Note: {notes}"))
            ),
            tone: tone(variant.verdict),
        })
        .collect()
}

/// Remarks; the same one about several variants is said once.
fn remarks(comparison: &Comparison) -> Vec<Entry> {
    let mut kinds: Vec<(&Remark, Vec<&str>)> = Vec::new();
    for remark in &comparison.comparability {
        match kinds.iter_mut().find(|(kind, _)| kind.aspect == remark.aspect && kind.message == remark.message) {
            Some((_, names)) => names.push(&remark.variant),
            None => kinds.push((remark, vec![&remark.variant])),
        }
    }
    kinds
        .into_iter()
        .map(|(remark, names)| Entry {
            name: format!("{} ({})", names.join(", "), remark.aspect.replace('_', " ")),
            text: remark.message.clone(),
            tone: Tone::Neutral,
        })
        .collect()
}

fn definitions() -> Vec<(String, String)> {
    [
        ("speed-up", "median step of the baseline / median step of the variant; of several captures the mean of their medians."),
        ("95 % interval", "seeded percentile bootstrap of that ratio over steps, and over captures if there are several."),
        ("faster, slower", "the whole interval is beyond the smallest effect that counts; same: all of it is within; else inconclusive."),
        ("pp", "percentage points: the difference of two shares."),
        ("transfer", "communication time without waiting: the least of any rank in a step, median over steps."),
    ]
    .map(|(term, definition)| (term.to_owned(), definition.to_owned()))
    .to_vec()
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
        "The waterfall compares the slowest rank of one median step of each variant, where the parts add up exactly. A dash means not measured.".to_owned(),
    ]
}

/// A time with its sign.
fn signed_time(ns: i64) -> String {
    if ns > 0 { format!("+{}", units::time(ns)) } else { units::time(ns) }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::fixtures::{compared, run, variant};
    use crate::compare::{Settings, compare};

    fn printed(comparison: &Comparison, format: Format, width: usize) -> String {
        render(comparison, format, &Style { width, color: false })
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
        let c = compare(&inputs, &Settings { gate_percent: Some(5.0), ..Settings::default() }).expect("compares");
        insta::assert_snapshot!(printed(&c, Format::Markdown, 100));
    }

    #[test]
    fn no_table_is_wider_than_the_terminal() {
        let c = compared(&["shm/shm-2gpu", "shm/shm-2gpu-powersgd-active", "shm/shm-2gpu-bf16-bucket100"]);
        for width in [60, 80, 100, 140] {
            for line in printed(&c, Format::Terminal, width).lines() {
                assert!(unicode_width::UnicodeWidthStr::width(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn good_and_bad_are_coloured_and_said() {
        let c = compared(&["shm/shm-2gpu", "shm/shm-2gpu-bf16-bucket100"]);
        let text = render(&c, Format::Terminal, &Style { width: 120, color: true });
        assert!(text.contains("\u{1b}[32mshm-2gpu-bf16-bucket100 (faster)") || text.contains("faster\u{1b}"), "{text}");
        let html = printed(&c, Format::Html, 100);
        assert!(html.contains("<span class=\"good\">faster</span>") && html.contains("<span class=\"change good\">-24.7 %</span>"));
    }
}
