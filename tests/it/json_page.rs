//! The examples of docs/json.md run, and print what stands below them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A block that runs, and what it prints.
struct Example {
    language: String,
    code: String,
    prints: String,
}

/// The blocks ` ```sh ` and ` ```python `, each with the ` ```text ` block after it, if there is one.
fn examples(page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (language, body) = block.split_once('\n').expect("a language, then text");
        match language {
            "text" => found.last_mut().expect("text after an example").prints = body.to_owned(),
            _ => found.push(Example {
                language: language.to_owned(),
                code: body.to_owned(),
                prints: String::new(),
            }),
        }
    }
    found
}

/// The tool that an example needs beside a shell or Python.
fn tool(example: &Example) -> &'static str {
    match () {
        () if example.code.contains("jq ") => "jq",
        () if example.code.contains("duckdb") => "duckdb",
        () if example.code.contains("pandas") => "pandas",
        () => "",
    }
}

fn is_there(tool: &str) -> bool {
    let (program, arguments) = match tool {
        "" => return true,
        "jq" => ("jq", vec!["--version".to_owned()]),
        module => ("python3", vec!["-c".to_owned(), format!("import {module}")]),
    };
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

#[test]
fn each_example_prints_what_the_page_shows() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/json.md")).expect("docs/json.md");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(format!("{ROOT}/examples"), folder.path().join("examples"))
        .expect("a link");
    let program = Path::new(env!("CARGO_BIN_EXE_nsysnccl")).parent().expect("its folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("PATH"));

    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for example in examples(&page) {
        let tool = tool(&example);
        *counts.entry(tool).or_default() += 1;
        if !is_there(tool) {
            println!("{tool} is not installed: an example is SKIPPED");
            continue;
        }
        let shell = if example.language == "sh" { "bash" } else { "python3" };
        let output = Command::new(shell)
            .args(if shell == "bash" { vec!["-euc"] } else { vec!["-c"] })
            .arg(&example.code)
            .current_dir(folder.path())
            .env("PATH", &path)
            .output()
            .expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{errors}", example.code);
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(printed.trim_end(), example.prints, "{}", example.code);
    }
    // Each of four commands has an example for each tool.
    assert_eq!(counts, BTreeMap::from([("", 1), ("duckdb", 4), ("jq", 4), ("pandas", 4)]));
}
