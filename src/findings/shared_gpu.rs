//! Ranks that run on one GPU: nearly always a mistake of the launcher.

use serde_json::Value;

use crate::catalogue::{Finding, Id};
use crate::report::{Report, gpus};
use crate::units;

/// Several ranks on one GPU: it runs them in turns, so that kernels and steps of each last longer by what the others do.
pub(super) fn shared_gpu(report: &Report) -> Option<Finding> {
    let shared = gpus::shared(&report.ranks);
    let ranks: Vec<String> = shared
        .iter()
        .map(|(_, ranks)| units::rank_list(&ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>()))
        .collect();
    let which = match ranks.as_slice() {
        [] => return None,
        [one] => format!("Ranks {one} run on one GPU"),
        [first, rest @ ..] => format!(
            "Ranks {first} run on one GPU, and {} more {} several ranks",
            rest.len(),
            if rest.len() == 1 { "GPU runs" } else { "GPUs run" }
        ),
    };
    Some(
        Finding::new(Id::SharedGpu, format!("{which}: in turns, so that each rank waits for the kernels of others."))
            .with("gpus", shared.iter().map(|(uuid, _)| Value::from(*uuid)).collect::<Value>())
            .with("ranks", ranks)
            .advice("Give each rank a GPU of its own: torch.cuda.set_device(LOCAL_RANK), or one device in CUDA_VISIBLE_DEVICES of each process."),
    )
}
