//! What is printed of a report, in every format.

mod fixture;

use nsysnccl::render::{Format, Style, render};
use nsysnccl::report::Report;

const PLAIN: Style = Style { width: 100, color: false };

fn terminal(report: &Report, width: usize) -> String {
    render(report, Format::Terminal, &Style { width, color: false })
}

#[test]
fn shm_in_the_terminal() {
    insta::assert_snapshot!("shm_80", terminal(&fixture::shm(), 80));
    insta::assert_snapshot!("shm_100", terminal(&fixture::shm(), 100));
    insta::assert_snapshot!("shm_160", terminal(&fixture::shm(), 160));
}

#[test]
fn shm_in_markdown_and_csv() {
    insta::assert_snapshot!("shm_markdown", render(&fixture::shm(), Format::Markdown, &PLAIN));
    insta::assert_snapshot!("shm_csv", render(&fixture::shm(), Format::Csv, &PLAIN));
}

/// The headline of each case, up to the first table.
#[test]
fn headlines() {
    let cases = [
        fixture::shm(),
        fixture::single(),
        fixture::overlapped(),
        fixture::graphs(),
        fixture::whole(),
        fixture::unmeasured(),
        fixture::nothing(),
    ];
    let heads: Vec<String> =
        cases.iter().map(|report| terminal(report, 100).split("\nRanks\n").next().unwrap_or_default().to_owned()).collect();
    insta::assert_snapshot!(heads.join("\n----\n"));
}

/// Writes every fixture in every format for a look: `cargo test --test render -- --ignored`.
#[test]
#[ignore = "writes files to look at"]
fn write_all() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let cases = [
        fixture::shm(),
        fixture::single(),
        fixture::overlapped(),
        fixture::graphs(),
        fixture::whole(),
        fixture::unmeasured(),
        fixture::nothing(),
        fixture::bandwidth(),
        fixture::huge(),
    ];
    for report in cases.iter().chain([&fixture::hostile()]) {
        let name: String = report.name.chars().filter(|c| c.is_alphanumeric() || *c == '-').take(20).collect();
        for (format, ending) in
            [(Format::Terminal, "txt"), (Format::Markdown, "md"), (Format::Html, "html"), (Format::Json, "json"), (Format::Csv, "csv")]
        {
            std::fs::write(folder.join(format!("{name}.{ending}")), render(report, format, &PLAIN)).expect("written");
        }
    }
}
