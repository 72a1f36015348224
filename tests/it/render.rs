//! What is printed of a report, in every format.

use nsysnccl::internals::model::Metric;
use nsysnccl::internals::render::{Format, Style, print};
use nsysnccl::internals::report::Report;
use unicode_width::UnicodeWidthStr;

use crate::fixture;

const PLAIN: Style = Style { width: 100, color: false, full: true };

fn all() -> Vec<Report> {
    vec![
        fixture::shm(),
        fixture::single(),
        fixture::overlapped(),
        fixture::graphs(),
        fixture::whole(),
        fixture::unmeasured(),
        fixture::nothing(),
        fixture::bandwidth(),
        fixture::hostile(),
    ]
}

fn terminal(report: &Report, width: usize) -> String {
    print(report, Format::Terminal, &Style { width, color: false, full: true })
}

#[test]
fn shm_in_the_terminal() {
    insta::assert_snapshot!("shm_80", terminal(&fixture::shm(), 80));
    insta::assert_snapshot!("shm_100", terminal(&fixture::shm(), 100));
    insta::assert_snapshot!("shm_160", terminal(&fixture::shm(), 160));
}

#[test]
fn shm_in_markdown_and_csv() {
    insta::assert_snapshot!("shm_markdown", print(&fixture::shm(), Format::Markdown, &PLAIN));
    insta::assert_snapshot!("shm_csv", print(&fixture::shm(), Format::Csv, &PLAIN));
}

/// The headline of each case, up to the first table.
#[test]
fn headlines() {
    let head = |report: &Report| {
        terminal(report, 100).split("\nRanks\n").next().unwrap_or_default().to_owned()
    };
    let heads: Vec<String> = all().iter().take(7).map(head).collect();
    insta::assert_snapshot!(heads.join("\n----\n"));
}

/// By hand from the steps of data/shm/shm-2gpu: the slowest ranks take 138.31, 135.73, 144.29, 137.57 and 136.99 ms; communication
/// (mean of both ranks) 45.91, 46.82, 51.05, 47.77 and 47.39 ms, which are 33.2, 34.5, 35.4, 34.7 and 34.6 % of the step.
#[test]
fn the_headline_says_what_was_measured() {
    let text = terminal(&fixture::shm(), 400);
    assert!(text.contains("A step takes 137.6 ms"), "{text}");
    assert!(text.contains("Communication runs for 47.8 ms, none of it beside compute."), "{text}");
    assert!(text.contains("368 copies on the device take 1.29 ms and move 1.70 GB (medians)."));
    let cases = [
        (fixture::single(), "No communication was recognised in it (one rank)."),
        (fixture::overlapped(), "of it beside compute."),
        (fixture::overlapped(), "The report has 8 of the run's 20 ranks"),
        (
            fixture::overlapped(),
            "The first captured step, “step 0” (213.4 ms), is an outlier and left out of the medians",
        ),
        (fixture::graphs(), "may communicate, so communication is a lower bound."),
        (
            fixture::whole(),
            "The capture has no NVTX ranges, so steps are unknown: the whole capture, first to last GPU operation, is one window of 3.000 s",
        ),
        (
            fixture::unmeasured(),
            "2 steps are not measured on every rank and left out of the run's figures.",
        ),
        (
            fixture::nothing(),
            "No step could be measured: no GPU operation was launched in this range.",
        ),
    ];
    for (report, sentence) in cases {
        for format in [Format::Terminal, Format::Html] {
            let text = print(&report, format, &Style { width: 400, color: false, full: true })
                .replace("&#39;", "'");
            assert!(text.contains(sentence), "{format:?} {}: {sentence}", report.name);
        }
    }
}

/// Without --full: about one screen with the answer, what to try and the table of ranks, at every usual width.
#[test]
fn the_first_screen_answers() {
    for report in all() {
        for width in [60, 80, 100, 160] {
            let text =
                print(&report, Format::Terminal, &Style { width, color: false, full: false });
            // Below 100 columns sentences take more lines.
            let most = if width < 100 { 60 } else { 40 };
            assert!(text.lines().count() <= most, "{} at {width}:\n{text}", report.name);
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            let said = letters(&text);
            assert!(said.contains("--fullalsoprints"), "{} at {width}", report.name);
            for (i, finding) in report.findings.iter().take(3).enumerate() {
                let advice =
                    finding.advice.iter().map(String::as_str).filter(|_| i < 2 && width >= 80);
                for sentence in advice.chain([finding.title.as_str()]) {
                    let sentence = letters(&nsysnccl::internals::text::printable(sentence));
                    assert!(said.contains(&sentence), "{} at {width}: {sentence}", report.name);
                }
            }
        }
    }
    let narrow =
        print(&fixture::shm(), Format::Terminal, &Style { width: 60, color: false, full: false });
    for column in ["rank", "step", "comm", "exposed", "compute", "idle", "waits"] {
        assert!(narrow.contains(column), "{column}:\n{narrow}");
    }
}

/// Every bar, dot, line of marks and cell says what it is, and no finding has its weight in its colour alone.
#[test]
fn marks_have_titles_and_findings_a_word() {
    let html = print(&fixture::shm(), Format::Html, &PLAIN);
    let marks = ["compute", "comm", "copies", "idle"].map(|ink| format!("class=\"f-{ink}\""));
    for svg in html.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next()) {
        let mut inside = false;
        for line in svg.lines() {
            inside = (inside || line.starts_with("<g>")) && !line.starts_with("</g>");
            let is_mark = marks.iter().any(|mark| line.contains(mark.as_str()));
            assert!(!is_mark || inside || line.contains("<title>"), "{line}");
        }
    }
    assert!(html.contains("<b>High:</b>"), "{html}");
}

#[test]
fn terminal_lines_fit_and_hold_nothing_that_steers() {
    for report in all() {
        for width in [80, 100, 120, 200] {
            for line in terminal(&report, width).lines() {
                assert!(line.width() <= width, "{} at {width}: {line}", report.name);
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }
}

#[test]
fn csv_has_every_number_of_every_step() {
    for report in all() {
        let csv = print(&report, Format::Csv, &PLAIN);
        let records = parse_csv(&csv);
        let head = &records[0];
        let steps: Vec<_> = report
            .ranks
            .iter()
            .flat_map(|rank| rank.steps.iter().map(move |step| (rank, step)))
            .collect();
        assert_eq!(records.len(), steps.len() + 1, "{}", report.name);
        for (record, (rank, step)) in records[1..].iter().zip(steps) {
            assert_eq!(record.len(), head.len());
            let get =
                |name: &str| record[head.iter().position(|h| h == name).expect(name)].as_str();
            assert_eq!(get("rank"), rank.rank.to_string());
            for &metric in Metric::ALL {
                let want = step.values.f64(metric);
                assert_eq!(
                    get(metric.info().path).parse::<f64>().ok(),
                    want,
                    "{} {}",
                    report.name,
                    metric.info().path
                );
            }
            assert!(
                record.iter().all(|field| !field.trim_start().starts_with(['=', '+', '@'])),
                "a formula: {record:?}"
            );
        }
    }
}

/// Records of RFC 4180.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    records
}

#[test]
fn json_says_what_the_report_says() {
    for report in all() {
        let text = print(&report, Format::Json, &PLAIN);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{}", report.name);
        let json: serde_json::Value = serde_json::from_str(&text).expect("valid");
        assert_eq!(json["name"], report.name.as_str());
        assert_eq!(json["schema"], "nsysnccl.report/1");
        for (rank, want) in json["ranks"].as_array().expect("ranks").iter().zip(&report.ranks) {
            for (step, want) in rank["steps"].as_array().expect("steps").iter().zip(&want.steps) {
                assert_eq!(step["step_ns"].as_i64(), want.values.int(Metric::StepNs));
                assert_eq!(step["dtod"]["bytes"].as_i64(), want.values.int(Metric::DtodBytes));
            }
        }
        assert_eq!(json["strips"].as_array().map(Vec::len), Some(report.strips.len()));
    }
}

#[test]
fn markdown_tables_keep_their_columns_and_names_stay_text() {
    for report in all() {
        let text = print(&report, Format::Markdown, &PLAIN);
        let mut columns = None;
        for line in text.lines() {
            // A pipe inside a cell is written with a backslash before it.
            let bars = line.replace("\\\\", "").replace("\\|", "").matches('|').count();
            columns = match (line.starts_with('|'), columns) {
                (false, _) => None,
                (true, None) => Some(bars),
                (true, Some(before)) => {
                    assert_eq!(bars, before, "{}: {line}", report.name);
                    Some(before)
                }
            };
        }
        assert!(!text.contains("<script"), "{}", report.name);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{}", report.name);
    }
}

#[test]
fn html_is_one_file_and_names_stay_text() {
    for report in all() {
        let text = print(&report, Format::Html, &PLAIN);
        let outside = text.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !outside.contains("http://")
                && !outside.contains("https://")
                && !outside.contains("//cdn"),
            "{}",
            report.name
        );
        assert_eq!(text.matches("<script").count(), 1, "{}", report.name);
        assert!(!text.contains("src="), "{}", report.name);
        assert!(!text.contains("#0102"), "{}: a colour was left over", report.name);
        assert!(text.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
        for (open, close) in [
            ("<table", "</table>"),
            ("<svg", "</svg>"),
            ("<caption", "</caption>"),
            ("<section", "</section>"),
            ("<details", "</details>"),
        ] {
            assert_eq!(
                text.matches(open).count(),
                text.matches(close).count(),
                "{} {open}",
                report.name
            );
        }
        assert_eq!(text.matches("<table").count(), text.matches("<caption").count());
        assert_eq!(
            text.matches("<svg").count(),
            text.matches("role=\"img\" aria-label=\"").count()
        );
    }
}

/// The page without style, script and the inside of pictures.
#[test]
fn html_structure() {
    let mut text = print(&fixture::shm(), Format::Html, &PLAIN);
    for (open, close) in [("<style>", "</style>"), ("<script>", "</script>")] {
        cut(&mut text, open, close);
    }
    while let Some(at) = text.find("<svg") {
        let end = text[at..].find("</svg>").expect("its end") + at + "</svg>".len();
        let opening =
            text[at..end].split('>').next().unwrap_or_default().replace("<svg", "<picture");
        text.replace_range(at..end, &format!("{opening}/>"));
    }
    insta::assert_snapshot!(text);
}

fn cut(text: &mut String, open: &str, close: &str) {
    let start = text.find(open).expect(open) + open.len();
    let end = text[start..].find(close).expect(close) + start;
    text.replace_range(start..end, "...");
}

#[test]
fn many_ranks_and_steps_stay_readable_and_say_what_is_left_out() {
    let report = fixture::huge();
    let text = terminal(&report, 100);
    assert!(text.lines().count() < 220, "{} lines", text.lines().count());
    for said in ["24 of 64 rows", "24 of 1,000 rows", "step 0 ", "step 999", "step 100 "] {
        assert!(text.contains(said), "{said}");
    }
    let html = print(&report, Format::Html, &PLAIN);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    for said in [
        "64 of 64,000 bars",
        "8 of 64 ranks",
        "60 of 1,000 rows",
        "1,000 of 64,000 rows",
        "64 of 64 ranks, 60 of 1,000 steps",
    ] {
        assert!(html.contains(said), "{said}");
    }
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    for format in [Format::Terminal, Format::Markdown, Format::Html, Format::Json, Format::Csv] {
        assert_eq!(
            print(&fixture::bandwidth(), format, &PLAIN),
            print(&fixture::bandwidth(), format, &PLAIN),
            "{format:?}"
        );
    }
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
        let name: String =
            report.name.chars().filter(|c| c.is_alphanumeric() || *c == '-').take(20).collect();
        for (format, ending) in [
            (Format::Terminal, "txt"),
            (Format::Markdown, "md"),
            (Format::Html, "html"),
            (Format::Json, "json"),
            (Format::Csv, "csv"),
        ] {
            std::fs::write(folder.join(format!("{name}.{ending}")), print(report, format, &PLAIN))
                .expect("written");
        }
    }
}
