//! The DCGM exporter's text for Prometheus: one line a field and GPU. It has no time unless who collected it put one behind the value.
//!
//! ```text
//! DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-1...",Hostname="node0"} 0.82
//! ```

use super::{Found, Gpu, dcgm, value};
use crate::model::counter::uuid_key;
use crate::redact;
use crate::text::shorten;

/// Characters of a host's name that are kept.
const LONGEST: usize = 200;
/// Milliseconds since 1970 that no time reaches: in nanoseconds they would leave half of the range.
const MOST_MS: i64 = i64::MAX / 2_000_000;

/// True for a text whose first sample is one of DCGM.
pub(super) fn is_one(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.starts_with("DCGM_FI_") && line.contains('{'))
}

pub(super) fn parse(text: &str, found: &mut Found) {
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let Some(sample) = Sample::of(line) else {
            found.bad += 1;
            continue;
        };
        let Some((what, scale)) = dcgm::find(sample.name) else { continue };
        let Some(value) = value(sample.value) else { continue };
        if sample.is_part {
            found.instances += 1;
            continue;
        }
        found.add(&sample.gpu, what, sample.name, sample.at, value * scale);
    }
}

struct Sample<'t> {
    name: &'t str,
    gpu: Gpu,
    /// It is of an instance of a GPU that is split (MIG).
    is_part: bool,
    value: &'t str,
    /// Unix time, ns.
    at: Option<i64>,
}

impl<'t> Sample<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let (name, rest) = line.split_once('{')?;
        let mut sample =
            Sample { name: name.trim(), gpu: Gpu::default(), is_part: false, value: "", at: None };
        let mut rest = rest.trim_start();
        loop {
            if let Some(end) = rest.strip_prefix('}') {
                rest = end;
                break;
            }
            let (label, after) = rest.split_once("=\"")?;
            let (text, after) = quoted(after)?;
            match label.trim() {
                "gpu" => sample.gpu.index = text.parse().ok(),
                "UUID" | "uuid" => {
                    // Zeros stand for a number that is not known.
                    let known = text.chars().any(|c| c.is_ascii_hexdigit() && c != '0');
                    sample.gpu.uuid = known.then(|| uuid_key(&text));
                }
                "Hostname" | "hostname" => {
                    let shown = redact::text(&shorten(&text, LONGEST)).into_owned();
                    sample.gpu.hostname = Some(shown);
                }
                "GPU_I_ID" | "GPU_I_PROFILE" => sample.is_part |= !text.is_empty(),
                _ => {}
            }
            rest = after.trim_start().trim_start_matches(',').trim_start();
        }
        let mut words = rest.split_whitespace();
        sample.value = words.next()?;
        // Prometheus counts milliseconds.
        sample.at = words
            .next()
            .and_then(|ms| ms.parse::<i64>().ok())
            .filter(|ms| (0..MOST_MS).contains(ms))
            .map(|ms| ms * 1_000_000);
        Some(sample)
    }
}

/// A label's text up to its closing quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, text.get(at + 1..)?)),
            '\\' => out.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => out.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_may_hold_anything_in_quotes() {
        let line = r#"DCGM_FI_DEV_SM_CLOCK{gpu="3",UUID="GPU-AB",x="a\"},b",Hostname="n"} 1410 1700000000000"#;
        let sample = Sample::of(line).expect("a sample");
        assert_eq!((sample.name, sample.value), ("DCGM_FI_DEV_SM_CLOCK", "1410"));
        assert_eq!(sample.gpu.uuid.as_deref(), Some("ab"));
        assert_eq!((sample.gpu.index, sample.gpu.hostname.as_deref()), (Some(3), Some("n")));
        assert_eq!(sample.at, Some(1_700_000_000_000_000_000));
        for broken in ["DCGM_FI_X{gpu=\"0\"", "DCGM_FI_X{gpu=\"0", "DCGM_FI_X 1", "DCGM_FI_X{} "] {
            assert!(Sample::of(broken).is_none(), "{broken}");
        }
    }
}
