//! The README's commands run, and what it shows is what they print.

use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn readme() -> String {
    std::fs::read_to_string(format!("{ROOT}/README.md")).expect("README.md")
}

fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nsysnccl"))
        .args(arguments)
        .current_dir(ROOT)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The text block after the comment that begins with `<!-- name:`.
fn block(readme: &str, name: &str) -> String {
    let after = readme.split(&format!("<!-- {name}:")).nth(1).expect("the comment");
    after
        .split("```text\n")
        .nth(1)
        .and_then(|rest| rest.split("\n```").next())
        .expect("a text block")
        .to_owned()
}

#[test]
fn the_main_command_prints_what_the_readme_shows() {
    let readme = readme();
    let line = readme
        .lines()
        .find(|line| line.starts_with("cargo run --release -- "))
        .expect("the command");
    // The pattern stays as it is: the program expands it too.
    let arguments: Vec<&str> =
        line.trim_start_matches("cargo run --release -- ").split_whitespace().collect();
    let output = run(&arguments);
    let shown = block(&readme, "report");
    assert!(output.starts_with(&shown), "README.md shows:\n{shown}\n\nprinted:\n{output}");
}

/// What evidence calls a cost is explained below it.
#[test]
fn the_cost_of_a_finding_is_defined() {
    let reports = ["examples/shm/shm-2gpu_0.sqlite", "examples/shm/shm-2gpu_1.sqlite"];
    let output = run(&["report", "--full", reports[0], reports[1]]);
    assert!(
        output.contains("; cost ")
            && output.contains("\ncost: the most of a step that a finding stands for"),
        "{output}"
    );
}

#[test]
fn compare_prints_what_the_readme_shows() {
    let readme = readme();
    let line = readme
        .lines()
        .find(|line| line.starts_with("nsysnccl compare shm-2gpu="))
        .expect("the command")
        .replace('\'', "");
    let arguments: Vec<&str> = line.trim_start_matches("nsysnccl ").split_whitespace().collect();
    let output = run(&arguments);
    let shown = block(&readme, "compare");
    assert!(output.starts_with(&shown), "README.md shows:\n{shown}\n\nprinted:\n{output}");
}

#[test]
fn doctor_prints_what_the_readme_shows() {
    let readme = readme();
    let output = run(&["doctor", "examples/shm"]);
    let (first, further) = (block(&readme, "doctor"), block(&readme, "doctor-numbers"));
    assert!(output.starts_with(&first), "README.md shows:\n{first}\n\nprinted:\n{output}");
    assert!(
        output.contains(&format!("\n{further}\n")),
        "README.md shows:\n{further}\n\nprinted:\n{output}"
    );
}

/// Every option that the README names is one that the program knows.
#[test]
fn commands_in_the_readme_use_options_that_exist() {
    let readme = readme();
    let shell = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    for line in shell.flat_map(str::lines).filter(|line| line.starts_with("nsysnccl ")) {
        let words: Vec<&str> = line.split('#').next().unwrap_or(line).split_whitespace().collect();
        let help = run(&[words[1], "--help"]);
        for option in words.iter().filter(|word| word.starts_with('-')) {
            assert!(help.contains(option), "{option} of: {line}");
        }
    }
}
