//! The order of modules that ARCHITECTURE.md gives, and that no file needs one that needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A file as the place that paths in code name: `["steps", "window"]`.
type Place = Vec<String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file of the library but those for tests alone.
fn files() -> BTreeMap<Place, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8");
            if !name.ends_with(".rs")
                || ["main.rs", "tests.rs", "fixtures.rs", "testing.rs"].contains(&name)
            {
                continue;
            }
            let below = path.strip_prefix(root()).expect("below src").with_extension("");
            let mut place: Place =
                below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if place.last().is_some_and(|last| last == "mod" || last == "lib") {
                place.pop();
            }
            files.insert(place, code(&std::fs::read_to_string(&path).expect("UTF-8")));
        }
    }
    files
}

/// The code without comments and without what is for tests alone.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut lines = text.lines();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            lines.next();
            continue;
        }
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// The paths that a `use` names: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn leaves(tree: &str) -> Vec<String> {
    let Some((before, inner)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let inner = inner.trim_end().trim_end_matches('}');
    let (mut depth, mut part, mut parts) = (0, String::new(), Vec::new());
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 { parts.push(std::mem::take(&mut part)) } else { part.push(c) }
    }
    parts.push(part);
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(&format!("{}{}", before.trim(), part.trim()))).collect()
}

/// The files that each file names, by `use` or by a path in its code.
fn needs() -> BTreeMap<Place, BTreeSet<Place>> {
    let files = files();
    let named =
        regex::Regex::new(r"use ((?:crate|super|self)\b[^;]*);|\b((?:crate|super)(?:::[a-z_]+)+)")
            .expect("a pattern");
    let of = |(place, code): (&Place, &String)| {
        let mut needed = BTreeSet::new();
        for found in named.captures_iter(code) {
            let tree = found.get(1).or(found.get(2)).expect("one of both").as_str();
            for path in leaves(&tree.replace(['\n', ' '], "")) {
                let mut words = path.split("::").peekable();
                let mut at: Place = match words.peek() {
                    Some(&"crate") => Vec::new(),
                    _ => place.clone(),
                };
                while let Some(word) = words.peek() {
                    match *word {
                        "crate" | "self" => {}
                        "super" => {
                            at.pop();
                        }
                        _ => break,
                    }
                    words.next();
                }
                for word in words {
                    let inner = [at.clone(), vec![word.to_owned()]].concat();
                    if !files.contains_key(&inner) {
                        break;
                    }
                    at = inner;
                }
                if at != *place && files.contains_key(&at) && !at.is_empty() {
                    needed.insert(at);
                }
            }
        }
        (place.clone(), needed)
    };
    files.iter().map(of).collect()
}

#[test]
fn modules_need_only_those_below_them() {
    let text = std::fs::read_to_string(root().join("../ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let line = text.lines().find_map(|line| line.strip_prefix("Order, lowest first: "));
    let order: Vec<&str> =
        line.expect("the order").split(", ").map(|word| word.trim_matches(['`', '.'])).collect();
    let level = |place: &Place| {
        let name = place.first().expect("not the root");
        order
            .iter()
            .position(|other| other == name)
            .unwrap_or_else(|| panic!("{name} has no place"))
    };
    for (place, needed) in needs().iter().filter(|(place, _)| !place.is_empty()) {
        for other in needed {
            assert!(
                level(other) <= level(place),
                "{} needs {}, which is above it",
                place.join("::"),
                other.join("::")
            );
        }
    }
}

#[test]
fn no_file_needs_one_that_needs_it() {
    let needs = needs();
    // A test that reads nothing passes: these two are known.
    let place = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Place>();
    assert!(needs[&place(&["run"])].contains(&place(&["steps", "decide"])));
    assert!(needs[&place(&["findings", "straggler"])].contains(&place(&["findings", "words"])));
    // What a file needs, and what that needs, and so on.
    let reaches = |from: &Place| {
        let mut seen: BTreeSet<&Place> = BTreeSet::new();
        let mut open: Vec<&Place> = needs[from].iter().collect();
        while let Some(place) = open.pop() {
            if seen.insert(place) {
                open.extend(&needs[place]);
            }
        }
        seen.contains(from)
    };
    let circular: Vec<String> =
        needs.keys().filter(|place| reaches(place)).map(|place| place.join("::")).collect();
    assert!(circular.is_empty(), "in a circle: {}", circular.join(", "));
}

#[test]
fn a_use_is_all_its_paths() {
    assert_eq!(
        leaves("crate::a::{b,c::{d,e}}"),
        ["crate::a::b", "crate::a::c::d", "crate::a::c::e"]
    );
}
