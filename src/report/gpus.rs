//! Which GPUs a run used.

use std::collections::{BTreeMap, BTreeSet};

use super::RankReport;

/// How many GPUs of each model, as `8x NVIDIA H200, 1x NVIDIA A100`: each counts once, also where several ranks run on it.
pub fn census<'a>(ranks: impl IntoIterator<Item = &'a RankReport>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for rank in ranks {
        let is_new = rank.gpu_uuid.as_deref().is_none_or(|uuid| seen.insert(uuid));
        if let (Some(model), true) = (rank.gpu.as_deref(), is_new) {
            *counts.entry(model).or_default() += 1;
        }
    }
    counts.iter().map(|(model, n)| format!("{}x {model}", crate::units::count(*n as u64))).collect()
}

/// GPUs on which more than one rank runs, by UUID, with the ranks.
pub fn shared(ranks: &[RankReport]) -> Vec<(&str, Vec<&RankReport>)> {
    let mut by_gpu: BTreeMap<&str, Vec<&RankReport>> = BTreeMap::new();
    for rank in ranks {
        if let Some(uuid) = rank.gpu_uuid.as_deref() {
            by_gpu.entry(uuid).or_default().push(rank);
        }
    }
    by_gpu.into_iter().filter(|(_, ranks)| ranks.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::by_hand::rank;

    fn on(number: u32, model: &str, uuid: Option<&str>) -> RankReport {
        RankReport {
            gpu: Some(model.to_owned()),
            gpu_uuid: uuid.map(str::to_owned),
            ..rank(number, Vec::new())
        }
    }

    #[test]
    fn each_gpu_counts_once() {
        let ranks = [
            on(0, "B", Some("1")),
            on(1, "B", Some("1")),
            on(2, "A", None),
            on(3, "A", None),
            on(4, "B", Some("2")),
        ];
        assert_eq!(census(&ranks), ["2x A", "2x B"]);
        let shared: Vec<(&str, Vec<u32>)> = shared(&ranks)
            .into_iter()
            .map(|(uuid, of)| (uuid, of.iter().map(|r| r.rank).collect()))
            .collect();
        assert_eq!(shared, [("1", vec![0, 1])]);
    }
}
