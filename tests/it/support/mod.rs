//! Reports for tests: written row by row as `nsys export --type sqlite` would, in the schema of any version.

pub mod cluster;
pub mod report;
pub mod scenes;
pub mod schema;

use std::path::{Path, PathBuf};

use nsysnccl::internals::report::{RankReport, RankStep};
use nsysnccl::internals::run::{Options, Run};

/// A folder that is gone after the test.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A report, and what could not be used for it.
#[derive(Debug)]
pub struct Built {
    pub report: nsysnccl::internals::report::Report,
    pub unusable: Vec<nsysnccl::Error>,
}

/// Builds a report.
pub fn build_with(paths: &[PathBuf], options: &Options) -> nsysnccl::Result<Built> {
    let run = Run::read(paths, options, || ())?;
    Ok(Built { report: nsysnccl::internals::reporting::of(&run), unusable: run.unusable })
}

/// Builds a report with default options.
pub fn build(paths: &[PathBuf]) -> nsysnccl::Result<Built> {
    build_with(paths, &Options::default())
}

/// Builds a report that has to succeed.
pub fn report(paths: &[PathBuf]) -> nsysnccl::internals::report::Report {
    build(paths).expect("a report").report
}

/// The only rank of a report.
pub fn only_rank(report: &nsysnccl::internals::report::Report) -> &RankReport {
    assert_eq!(
        report.ranks.len(),
        1,
        "{:?}",
        report.ranks.iter().map(|r| (r.rank, r.pid, r.device)).collect::<Vec<_>>()
    );
    &report.ranks[0]
}

/// One number of a step, by its path in JSON; `None` where it was not measured.
pub fn number(step: &RankStep, path: &str) -> Option<i64> {
    step.values.int(nsysnccl::internals::model::Metric::by_path(path).expect("a metric"))
}

/// Asserts several numbers of a step at once.
#[track_caller]
pub fn assert_numbers(step: &RankStep, expected: &[(&str, i64)]) {
    let found: Vec<(&str, Option<i64>)> =
        expected.iter().map(|(path, _)| (*path, number(step, path))).collect();
    let expected: Vec<(&str, Option<i64>)> =
        expected.iter().map(|(path, value)| (*path, Some(*value))).collect();
    assert_eq!(found, expected, "{}", step.name);
}

/// The captures that some tests look at, if they lie beside the project.
pub fn captures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !folder.exists() {
        println!("skipped: the folder with captures is not here");
        return None;
    }
    Some(folder)
}
