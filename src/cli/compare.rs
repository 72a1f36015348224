//! `nsysnccl compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rayon::prelude::*;

use super::output::{OutputArgs, note};
use super::progress::Progress;
use super::report::{StepArgs, tell_inputs};
use super::{Outcome, inputs};
use crate::catalogue::Id;
use crate::compare::group::{self, Files, Group};
use crate::compare::{
    BaselineSource, MIN_EFFECT, Scaling, Settings, VariantInput, compare, manifest, told,
};
use crate::error::Kind;
use crate::render::compare::gate;
use crate::report::{Report, saved};
use crate::reporting;
use crate::run::{self, Run};
use crate::warning::Warning;
use crate::{Error, Result};

const EXAMPLES: &str = "Examples:
  nsysnccl compare before='ddp_*.sqlite' after='view_*.sqlite'
  nsysnccl compare ddp_*.sqlite view_*.sqlite --baseline ddp      grouped by name without the rank
  nsysnccl compare ddp=run1_0.sqlite ddp=run1_1.sqlite view='view_*.sqlite'
                                                                  ranks of one run are one capture
  nsysnccl compare ddp='run1_*.sqlite' ddp='run2_*.sqlite' view='view_*.sqlite'
                                                                  another run of the same name is a repeat
  nsysnccl compare before=run1/ after=run2/                      folders with all that belongs to a run
  nsysnccl compare base='main_*.sqlite' change='pr_*.sqlite' --gate 5 -o comparison.md
  nsysnccl compare main=saved.json pr='pr_*.sqlite' --gate 5      a baseline saved with report -o saved.json

nsysnccl.toml, read if no report is named (or with --manifest):
  baseline = \"ddp\"
  [[variant]]
  name = \"ddp\"
  reports = [\"ddp_*.sqlite\"]
  inspector = [\"ddp_inspector\"]
  [[variant]]
  name = \"view\"
  reports = [\"view_*.sqlite\"]
  options = [\"gradient_as_bucket_view\"]
  notes = \"gradients live in the buckets\"";

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Variants: NAME='FILES', NAME=FOLDER, in which the files of a run are found, or reports that are grouped by their name without the
    /// rank. Under one NAME, files of one folder that differ only in the rank are one capture; others are a repeat. A report saved with
    /// `report -o report.json` is a capture, too
    #[arg(value_name = "[NAME=]REPORT|FOLDER")]
    pub inputs: Vec<String>,
    /// Variants from a file [default: nsysnccl.toml if no report is named]
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// The variant that the others are compared with [default: among variants that are named by their files the one whose name all
    /// others begin with; else the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// The smallest change of the step time that counts, as a share or with a percent sign [default: 0.01]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub min_effect: Option<f64>,
    /// An option that a variant uses, e.g. view=gradient_as_bucket_view or b=bucket=100: checked against counts and bytes.
    /// `NAME=none` stops guesses from its name. May be given several times
    #[arg(long, value_name = "NAME=OPTION")]
    pub option: Vec<String>,
    /// What stays the same when the number of ranks changes: each rank's work, or that of all ranks together
    #[arg(long, value_enum, value_name = "KIND")]
    pub scaling: Option<ScalingKind>,
    /// Exit with status 1 if a variant is slower than the baseline by more than PCT percent, with 5 if that is inconclusive
    #[arg(long, value_name = "PCT", value_parser = parse_percent)]
    pub gate: Option<f64>,
    /// Replay every capture: what held steps up side by side, and whether changes gave what the baseline's replay promised
    #[arg(long)]
    pub replay: bool,
    /// How steps and ranks are found.
    #[command(flatten)]
    pub steps: StepArgs,
    /// Where the comparison goes.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// [`Scaling`] as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScalingKind {
    /// Each rank does the same work.
    Weak,
    /// All ranks together do the same work.
    Strong,
}

fn parse_share(text: &str) -> std::result::Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match share {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err("give a share between 0 and 1, e.g. 0.01, or 1%".to_owned()),
    }
}

fn parse_percent(text: &str) -> std::result::Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("give a percentage, e.g. 5".to_owned()),
    }
}

/// Runs `compare`.
///
/// # Errors
/// See [`group::group`], [`manifest::read`], [`Run::read`] and [`compare`]; a file that cannot be written.
pub fn run(args: &CompareArgs) -> Result<Outcome> {
    args.output.files()?;
    let mut groups = group::group(&args.inputs)?;
    let manifest_path = manifest_path(args);
    let manifest = manifest_path.as_deref().map(manifest::read).transpose()?.unwrap_or_default();
    for group in manifest.groups {
        add(&mut groups, group)?;
    }
    add_options(&mut groups, &args.option)?;
    if groups.is_empty() {
        return Err(Error::usage("no variant was named")
            .with_hint("name reports: nsysnccl compare before='a_*.sqlite' after='b_*.sqlite'"));
    }
    let unusable = resolve(&mut groups, args)?;
    let files = groups.iter().flat_map(|group| &group.captures);
    args.output.spare(files.flat_map(Files::all).chain(&manifest_path))?;
    let told = args.baseline.clone().or(manifest.baseline);
    let mut settings = Settings {
        baseline_source: if told.is_some() { BaselineSource::Told } else { BaselineSource::First },
        baseline: told,
        min_effect: args.min_effect.or(manifest.min_effect).unwrap_or(MIN_EFFECT),
        scaling: args
            .scaling
            .map(|kind| if kind == ScalingKind::Weak { Scaling::Weak } else { Scaling::Strong })
            .or(manifest.scaling),
        exclude_outliers: args.steps.exclude_outliers,
        gate_percent: args.gate,
    };
    let Read { variants, unusable } = read(&groups, unusable, args)?;
    groups.retain(|group| variants.iter().any(|variant| variant.name == group.name));
    // The first is the baseline anyway, and needs no explanation.
    if let (None, Some(plain)) =
        (&settings.baseline, group::plain(&groups).filter(|&name| name != groups[0].name))
    {
        (settings.baseline, settings.baseline_source) =
            (Some(plain.to_owned()), BaselineSource::Plain);
    }
    variants
        .iter()
        .flat_map(|variant| &variant.captures)
        .for_each(|capture| tell_inputs(&args.output, capture));
    let mut comparison = compare(&variants, &settings)?;
    comparison.warnings.extend(
        unusable.iter().map(|error| Warning::new(Id::UnusableInput, format!("Left out: {error}."))),
    );
    args.output.name_left_out(&unusable);
    args.output.emit(&comparison)?;
    if let Some(said) = gate(&comparison).filter(|_| !args.output.quiet) {
        note(&said);
    }
    Ok(match &comparison.gate {
        Some(gate) if !gate.failed.is_empty() => Outcome::GateFailed,
        Some(gate) if !gate.passed() => Outcome::GateInconclusive,
        _ if unusable.is_empty() => Outcome::Done,
        _ => Outcome::Incomplete,
    })
}

/// The manifest to read: the one that is named, or the usual one if no report is.
fn manifest_path(args: &CompareArgs) -> Option<PathBuf> {
    let usual = || {
        Some(PathBuf::from(manifest::FILE_NAME))
            .filter(|path| args.inputs.is_empty() && path.exists())
    };
    args.manifest.clone().or_else(usual)
}

/// Adds the captures of a group to the variant of its name.
fn add(groups: &mut Vec<Group>, group: Group) -> Result<()> {
    for files in group.captures {
        group::add_capture(groups, &group.name, files)?;
    }
    if let Some(known) = groups.iter_mut().find(|known| known.name == group.name) {
        known.options.extend(group.options);
        known.notes = known.notes.take().or(group.notes);
    }
    Ok(())
}

/// Adds what `--option NAME=OPTION` says. A name may hold `=` itself, so the longest one that fits counts.
fn add_options(groups: &mut [Group], options: &[String]) -> Result<()> {
    for text in options {
        let fitting = groups.iter_mut().filter(|group| {
            text.strip_prefix(group.name.as_str()).is_some_and(|rest| rest.starts_with('='))
        });
        let Some(group) = fitting.max_by_key(|group| group.name.len()) else {
            return Err(Error::usage(format!("--option {text} names none of the variants"))
                .with_hint("give --option NAME=OPTION"));
        };
        match &text[group.name.len() + 1..] {
            "none" => group.no_guesses = true,
            option => group.options.push(told(option, "--option")?),
        }
    }
    Ok(())
}

/// What became of the files.
struct Read {
    variants: Vec<VariantInput>,
    /// What could not be used.
    unusable: Vec<Error>,
}

/// Finds the files of every capture; those that cannot be used are returned.
fn resolve(groups: &mut [Group], args: &CompareArgs) -> Result<Vec<Error>> {
    let mut unusable = Vec::new();
    for group in groups {
        for capture in &mut group.captures {
            let files = std::mem::take(capture);
            let run = inputs::one_run(files, args.steps.keep_going, &args.output)
                .map_err(|error| in_variant(error, &group.name))?;
            *capture = run.files;
            unusable.extend(run.unusable);
        }
    }
    Ok(unusable)
}

/// Builds a report of every capture. `unusable` is what could not be used before.
fn read(groups: &[Group], mut unusable: Vec<Error>, args: &CompareArgs) -> Result<Read> {
    let captures: Vec<(usize, &Files)> = groups
        .iter()
        .enumerate()
        .flat_map(|(at, g)| g.captures.iter().map(move |c| (at, c)))
        .collect();
    let total = captures.iter().map(|(_, files)| files.reports.len() as u64).sum();
    let progress = Progress::new(total, "reading reports", args.output.quiet);
    let options_of = |files: &Files| run::Options {
        inspector: files.inspector.clone(),
        nccl_logs: files.nccl_logs.clone(),
        topology: files.topology.clone(),
        replay: args.replay,
        ..args.steps.options()
    };
    let built: Vec<Result<(Report, Vec<Error>)>> = captures
        .par_iter()
        .map(|(_, files)| capture(files, &options_of(files), || progress.tick()))
        .collect();
    let empty = |group: &Group| VariantInput {
        name: group.name.clone(),
        captures: Vec::new(),
        options: group.options.clone(),
        guess_options: !group.no_guesses,
        notes: group.notes.clone(),
    };
    let mut variants: Vec<VariantInput> = groups.iter().map(empty).collect();
    for ((at, files), built) in captures.into_iter().zip(built) {
        match built {
            Ok((report, left_out)) => {
                variants[at].captures.push(report);
                unusable.extend(left_out);
            }
            Err(error) if args.steps.keep_going && error.kind == Kind::Input => {
                unusable.push(error)
            }
            Err(error) => return Err(explained(error, &groups[at].name, files)),
        }
    }
    variants.retain(|variant| !variant.captures.is_empty());
    Ok(Read { variants, unusable })
}

/// The report of one capture: made of its exports, or saved earlier. And what could not be used for it.
fn capture(
    files: &Files,
    options: &run::Options,
    tick: impl Fn() + Sync,
) -> Result<(Report, Vec<Error>)> {
    let saved: Vec<&PathBuf> = files.reports.iter().filter(|path| saved::is_saved(path)).collect();
    match (saved.as_slice(), files.reports.as_slice()) {
        ([], reports) => {
            let run = Run::read(reports, options, tick)?;
            Ok((reporting::of(&run), run.unusable))
        }
        ([path], [_]) => {
            let report = saved::read(path)?;
            tick();
            Ok((report, Vec::new()))
        }
        ([path, ..], _) => {
            Err(Error::input(path, "is a saved report, which is a whole capture by itself")
                .with_hint("name it alone: NAME=report.json; a further NAME=... is a repeat"))
        }
    }
}

/// An error about one capture names the variant, and if its files are evidently several captures it says how to name them.
fn explained(error: Error, name: &str, files: &Files) -> Error {
    let hint = group::as_repeats(name, &files.reports).or_else(|| error.hint.clone());
    Error { hint, ..in_variant(error, name) }
}

fn in_variant(error: Error, name: &str) -> Error {
    Error { fact: format!("{} (variant '{name}')", error.fact), ..error }
}
