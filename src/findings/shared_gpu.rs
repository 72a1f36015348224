//! Ranks that run on one GPU: nearly always a mistake of the launcher.

use serde_json::Value;

use super::Draft;
use crate::report::{RankReport, Report, gpus};
use crate::units;
use crate::warning::{Finding, Severity};

/// Several ranks on one GPU: it runs them in turns, so that kernels and steps of each last longer by what the others do.
pub fn shared_gpu(report: &Report) -> Option<Finding> {
    let shared = gpus::shared(&report.ranks);
    let of = |ranks: &[&RankReport]| units::rank_list(&ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>());
    let title = match shared.as_slice() {
        [] => return None,
        [(_, ranks)] => format!("Ranks {} run on one GPU: it runs them in turns, and each waits for the other's kernels.", of(ranks)),
        [(_, first), rest @ ..] => format!(
            "Ranks {} run on one GPU, and so do others on {}: a GPU runs its ranks in turns, and each waits for the others' kernels.",
            of(first),
            units::plural(rest.len(), "other GPU")
        ),
    };
    let uuids: Value = shared.iter().map(|(uuid, _)| Value::from(*uuid)).collect();
    let lists: Value = shared.iter().map(|(_, ranks)| Value::from(of(ranks))).collect();
    Some(Draft::new("shared-gpu", Severity::High, title).with("gpus", uuids).with("ranks", lists).advice(
        "Give each rank a GPU of its own: torch.cuda.set_device(LOCAL_RANK), or one device in CUDA_VISIBLE_DEVICES of each process.",
    ))
}
