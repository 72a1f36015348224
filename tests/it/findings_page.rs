//! `docs/findings.md` is written from the catalogue. After a change of the catalogue write it anew with
//! `NSYSNCCL_WRITE_DOCS=1 cargo test --test it findings_page`.

use std::fmt::Write;
use std::path::Path;

use nsysnccl::internals::catalogue::{COST_OF_STEP, Command, Entry, Id, Said, Weight};

const PAGE: &str = "docs/findings.md";
const WRITE: &str = "NSYSNCCL_WRITE_DOCS";

const HEAD: &str = "\
# Findings and warnings

<!-- Written from src/catalogue/table.rs: NSYSNCCL_WRITE_DOCS=1 cargo test --test it findings_page -->

A finding explains numbers; a warning says what to know about them. Both have a name that stays the same (`id` of a finding, `code` of a
warning in JSON); a few things are said both ways, with one name. `compare` passes on the warnings of the reports that it compares.

A severity by cost is high from 10 % of the step on, medium from 2 % on, else info. A finding whose cost is known has `cost_ns`, and
`cost_of_step` (a share, 0 to 1) in its evidence. Evidence that does not apply to a case is left out. Where the run was replayed and a
scenario removes the cause, `gain_ns` is what that scenario predicts, and severity goes by it instead.

A rule needs all of the evidence that its entry names. Its confidence is *measured* (the sentence is what was measured), *derived* (it follows
from what was measured, by the rule of the trigger) or a *guess* (something else can look the same). Where evidence is missing, a report
lists it under `unknown` with the rules that need it, what it would tell, and how it is captured.
";

fn command(command: Command) -> &'static str {
    match command {
        Command::Report => "report",
        Command::Compare => "compare",
        Command::Inspect => "inspect",
        Command::Npkit => "npkit",
        Command::Doctor => "doctor",
    }
}

/// `finding of report and doctor; warning of report`.
fn said(entry: &Entry) -> String {
    let commands = |wanted: fn(&Said) -> Option<Command>| {
        let list: Vec<&str> = entry.said.iter().filter_map(wanted).map(command).collect();
        list.join(" and ")
    };
    let finding = commands(|said| match said {
        Said::Finding(command) => Some(*command),
        Said::Warning(_) => None,
    });
    let warning = commands(|said| match said {
        Said::Warning(command) => Some(*command),
        Said::Finding(_) => None,
    });
    let forms = [("finding", finding), ("warning", warning)];
    let forms = forms.iter().filter(|(_, commands)| !commands.is_empty());
    forms.map(|(form, commands)| format!("{form} of {commands}")).collect::<Vec<_>>().join("; ")
}

fn section(id: Id) -> String {
    let entry = id.entry();
    let severity = match entry.weight {
        Weight::Fixed(severity) => format!("; severity {}", severity.label()),
        Weight::ByCost => "; severity by cost".to_owned(),
        Weight::ByCase(case) => format!("; severity {case}"),
        Weight::Unweighed => String::new(),
    };
    let by_cost = (entry.weight == Weight::ByCost).then_some(COST_OF_STEP);
    let facts: Vec<String> = (entry.evidence.iter().copied().chain(by_cost))
        .map(|(name, unit)| format!("`{name}` ({})", unit.label()))
        .collect();
    let evidence = if facts.is_empty() {
        String::new()
    } else {
        format!("- Evidence: {}.\n", facts.join(", "))
    };
    let rule = entry.rule.map_or(String::new(), |rule| {
        let needs: Vec<&str> = rule.needs.iter().map(|class| class.label()).collect();
        let gain = rule.removed.map_or(String::new(), |removed| {
            format!("- Gain: that of the scenario “{}”.\n", removed.scenario.label())
        });
        format!(
            "- If it helped: {}\n{gain}- Needs: {}. Confidence: {}.\n",
            rule.helped,
            needs.join(", "),
            rule.confidence.label()
        )
    });
    format!(
        "\n## {id}\n\n{}\n\n- Said as: {}{severity}.\n{evidence}- Try: {}\n{rule}",
        entry.trigger,
        said(&entry),
        entry.remedy
    )
}

fn page() -> String {
    Id::ALL.iter().fold(HEAD.to_owned(), |mut page, id| {
        let _ = write!(page, "{}", section(*id));
        page
    })
}

#[test]
fn the_page_of_findings_says_what_the_catalogue_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, page()).expect("writes");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there.replace("\r\n", "\n") == page(),
        "{PAGE} is stale: write it anew with {WRITE}=1 cargo test --test it findings_page"
    );
}

#[test]
fn every_entry_says_when_and_what_to_try_in_sentences() {
    for id in Id::ALL {
        let entry = id.entry();
        for text in
            [entry.trigger, entry.remedy].into_iter().chain(entry.rule.map(|rule| rule.helped))
        {
            assert!(text.ends_with('.') && text.len() > 10, "{id}: '{text}'");
        }
    }
}

/// Facts about the capture do not explain it; everything else that is a finding is a rule.
#[test]
fn every_finding_but_of_doctor_is_a_rule() {
    for &id in Id::ALL.iter().filter(|id| **id != Id::CapturedApart) {
        let entry = id.entry();
        let explains =
            |said: &Said| !matches!(said, Said::Warning(_) | Said::Finding(Command::Doctor));
        assert_eq!(entry.said.iter().any(explains), entry.rule.is_some(), "{id}");
        assert!(entry.rule.is_none_or(|rule| !rule.needs.is_empty()), "{id}");
    }
}

/// Names of one word are words of other things, too (`identity`, `drops`).
#[test]
fn an_id_is_written_once() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let names: Vec<String> =
        Id::ALL.iter().map(|id| format!("\"{id}\"")).filter(|name| name.contains('-')).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_code =
                path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs");
            if !is_code || path.ends_with("catalogue/table.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for name in &names {
                assert!(!code.contains(name), "{} writes {name} again", path.display());
            }
        }
    }
}
