//! The changes to a training program that this tool knows, and how they are spelled.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{ChangedOption, VariantInput};
use crate::error::{Error, Result};
use crate::report::Report;

/// A known change to a data-parallel training program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrainingOption {
    /// `DistributedDataParallel(static_graph=True)`.
    StaticGraph,
    /// `DistributedDataParallel(gradient_as_bucket_view=True)`.
    GradientAsBucketView,
    /// `register_comm_hook(..., bf16_compress_hook)`.
    Bf16Hook,
    /// `register_comm_hook(..., powerSGD_hook)`.
    PowerSgd,
    /// `DistributedDataParallel(bucket_cap_mb=...)`, in MiB.
    BucketCap(u32),
    /// `DistributedDataParallel` around a model on a single GPU.
    DdpOneGpu,
    /// Several backward passes for one synchronisation of the gradients.
    GradientAccumulation,
    /// Fully sharded data parallelism.
    Fsdp,
    /// `NCCL_P2P_DISABLE=1`: through host memory instead of NVLink or PCIe peer access.
    P2pOff,
}

/// The spellings that [`TrainingOption::parse`] understands, for errors.
const SPELLINGS: &str = "static_graph, gradient_as_bucket_view (or view), bf16, powersgd, bucket=MIB, ddp_one_gpu, accumulation, fsdp, p2p_off (or shm)";

/// The option that a user names, with where it was said.
///
/// # Errors
/// It is none that this tool knows.
pub(crate) fn told(text: &str, source: &str) -> Result<ChangedOption> {
    let option = TrainingOption::parse(text).ok_or_else(|| {
        Error::usage(format!("'{text}' is not an option that is known here"))
            .with_hint(format!("use one of: {SPELLINGS}"))
    })?;
    Ok(ChangedOption { option, source: source.to_owned() })
}

impl TrainingOption {
    /// The option that `text` means, whatever its case, dashes and underscores.
    pub fn parse(text: &str) -> Option<Self> {
        let key: String = text
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        Some(match key.as_str() {
            "static" | "staticgraph" => Self::StaticGraph,
            "view" | "bucketview" | "gradview" | "gradientasbucketview" => {
                Self::GradientAsBucketView
            }
            "bf16" | "bf16hook" | "bf16compress" | "bf16compresshook" => Self::Bf16Hook,
            "powersgd" | "powersgdhook" | "psgd" => Self::PowerSgd,
            "ddp1gpu" | "ddponegpu" => Self::DdpOneGpu,
            "accum" | "gradaccum" | "accumulation" | "gradientaccumulation" | "nosync" => {
                Self::GradientAccumulation
            }
            "fsdp" | "fsdp1" | "fsdp2" => Self::Fsdp,
            "shm" | "p2poff" | "nop2p" | "ncclp2pdisable" | "ncclp2pdisable1" => Self::P2pOff,
            _ => {
                let (word, number) =
                    key.split_at(key.trim_end_matches(|c: char| c.is_ascii_digit()).len());
                match (word, number.parse()) {
                    ("bucket" | "bucketcap" | "bucketcapmb", Ok(mib)) if mib > 0 => {
                        Self::BucketCap(mib)
                    }
                    ("accum" | "gradaccum" | "accumulation", Ok(1..)) => Self::GradientAccumulation,
                    _ => return None,
                }
            }
        })
    }

    /// True if both are settings of one option, so that a variant has only one of them.
    pub(super) fn same_kind(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl fmt::Display for TrainingOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StaticGraph => "static_graph",
            Self::GradientAsBucketView => "gradient_as_bucket_view",
            Self::Bf16Hook => "bf16_hook",
            Self::PowerSgd => "powersgd",
            Self::BucketCap(mib) => return write!(f, "bucket_cap_mb={mib}"),
            Self::DdpOneGpu => "ddp_one_gpu",
            Self::GradientAccumulation => "gradient_accumulation",
            Self::Fsdp => "fsdp",
            Self::P2pOff => "p2p_off",
        })
    }
}

impl Serialize for TrainingOption {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// What a variant uses: what it is said to use (which wins), then what its captured environment and its name suggest.
pub(super) fn options_of(input: &VariantInput) -> Vec<ChangedOption> {
    let mut options: Vec<ChangedOption> = Vec::new();
    let guesses = from_environment(&input.captures)
        .into_iter()
        .chain(from_name(&input.name))
        .filter(|_| input.guess_options);
    for option in input.options.iter().cloned().chain(guesses) {
        if !options.iter().any(|o| o.option.same_kind(option.option)) {
            options.push(option);
        }
    }
    options
}

fn from_environment(captures: &[Report]) -> Option<ChangedOption> {
    let disables = |report: &Report| {
        report.inputs.iter().any(|input| {
            input.capture.settings.get("NCCL_P2P_DISABLE").is_some_and(|value| value.trim() == "1")
        })
    };
    captures.iter().any(disables).then(|| ChangedOption {
        option: TrainingOption::P2pOff,
        source: "captured environment: NCCL_P2P_DISABLE=1".to_owned(),
    })
}

/// Reads the words of a name: each alone and, for spellings with separators (`ddp-1gpu`, `bucket_cap_mb_100`), up to four in a row.
fn from_name(name: &str) -> Vec<ChangedOption> {
    let words: Vec<&str> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut found: Vec<TrainingOption> = (1..=4)
        .flat_map(|n| words.windows(n))
        .filter_map(|words| TrainingOption::parse(&words.concat()))
        .collect();
    found.sort_unstable();
    found.dedup_by(|a, b| a.same_kind(*b));
    found
        .into_iter()
        .map(|option| ChangedOption { option, source: "guessed from the name".to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(name: &str) -> Vec<String> {
        from_name(name).iter().map(|o| o.option.to_string()).collect()
    }

    #[test]
    fn names_of_variants_say_what_they_change() {
        let cases: [(&str, &[&str]); 12] = [
            ("baseline", &[]),
            ("ddp-2gpu", &[]),
            ("ddp-1gpu", &["ddp_one_gpu"]),
            ("ddp-2gpu-static", &["static_graph"]),
            ("ddp-2gpu-view", &["gradient_as_bucket_view"]),
            ("shm-2gpu-powersgd-active", &["powersgd", "p2p_off"]),
            ("shm-2gpu-bf16-bucket100", &["bf16_hook", "bucket_cap_mb=100", "p2p_off"]),
            ("bucket-50", &["bucket_cap_mb=50"]),
            ("grad_accum4", &["gradient_accumulation"]),
            ("ddp_bucket_cap_mb_25", &["bucket_cap_mb=25"]),
            ("static_graph+fsdp2", &["static_graph", "fsdp"]),
            ("reviewed-overview", &[]),
        ];
        for (name, expected) in cases {
            assert_eq!(guess(name), expected, "{name}");
        }
    }

    #[test]
    fn every_label_is_a_spelling_of_itself() {
        use TrainingOption::*;
        let all = [
            StaticGraph,
            GradientAsBucketView,
            Bf16Hook,
            PowerSgd,
            BucketCap(100),
            DdpOneGpu,
            GradientAccumulation,
            Fsdp,
            P2pOff,
        ];
        for option in all {
            assert_eq!(TrainingOption::parse(&option.to_string()), Some(option));
        }
        assert_eq!(TrainingOption::parse("bucket0"), None);
        assert_eq!(TrainingOption::parse("bucket99999999999"), None);
        assert_eq!(TrainingOption::parse("µ"), None);
    }

    #[test]
    fn what_is_told_beats_what_is_guessed() {
        let told = vec![ChangedOption {
            option: TrainingOption::BucketCap(50),
            source: "--option".to_owned(),
        }];
        let input = VariantInput {
            name: "ddp-bucket100-view".to_owned(),
            captures: Vec::new(),
            options: told,
            guess_options: true,
            notes: None,
        };
        let options = options_of(&input);
        let got: Vec<_> = options.iter().map(|o| (o.option, o.source.as_str())).collect();
        assert_eq!(
            got,
            [
                (TrainingOption::BucketCap(50), "--option"),
                (TrainingOption::GradientAsBucketView, "guessed from the name")
            ]
        );
    }
}
