//! Which commit a release is built from, for `--version`. Elsewhere nothing is asked, so that a commit rebuilds nothing.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    // A package from a registry may lie inside of another project's checkout.
    let ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| ours) else { return };
    println!("cargo::rerun-if-changed={log}");
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=NSYSNCCL_COMMIT={commit}");
    }
}
