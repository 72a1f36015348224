//! Which files of a folder are a dump, and the clocks that stand beside the events.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::ingest::open;
use crate::{Error, Result};

/// The files of one rank, by the number of their buffer or channel.
#[derive(Debug, Clone, Default)]
pub struct RankFiles {
    /// Events of the GPU, by buffer.
    pub gpu: BTreeMap<u32, PathBuf>,
    /// Events of the proxy threads on the CPU, by channel.
    pub cpu: BTreeMap<u32, PathBuf>,
    /// Rate of the GPU's clock in kHz; `None` if the file is missing or holds no number.
    pub gpu_khz: Option<f64>,
    /// Numerator of the CPU clock's period in seconds.
    pub period_num: Option<u64>,
    /// Its denominator.
    pub period_den: Option<u64>,
}

/// The dump files in some folders, by rank.
///
/// # Errors
/// A folder that cannot be listed or holds no dump; one file of a rank in two folders.
pub fn find(folders: &[PathBuf]) -> Result<BTreeMap<u32, RankFiles>> {
    let mut ranks: BTreeMap<u32, RankFiles> = BTreeMap::new();
    for folder in folders {
        if folder.exists() && !folder.is_dir() {
            // A pipe or a device is named as one.
            open::open(folder)?;
        }
        let unreadable = |e: std::io::Error| Error::input(folder, format!("cannot be listed: {e}"));
        let mut any = false;
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let Some((kind, rank, number)) = name_of(&path).filter(|_| path.is_file()) else {
                continue;
            };
            any = true;
            let files = ranks.entry(rank).or_default();
            let before = match kind {
                Kind::Gpu => files.gpu.insert(number, path.clone()),
                Kind::Cpu => files.cpu.insert(number, path.clone()),
                Kind::GpuRate => {
                    files.gpu_khz =
                        number_in(&path).filter(|khz: &f64| khz.is_finite() && *khz > 0.0);
                    None
                }
                Kind::PeriodNum => {
                    files.period_num = number_in(&path).filter(|n: &u64| *n > 0);
                    None
                }
                Kind::PeriodDen => {
                    files.period_den = number_in(&path).filter(|n: &u64| *n > 0);
                    None
                }
            };
            if let Some(before) = before {
                return Err(Error::input(
                    &path,
                    format!("and {} are both of rank {rank}", before.display()),
                )
                .with_hint(
                    "name the folders of one communicator only: ranks are numbered inside it",
                ));
            }
        }
        if !any {
            return Err(Error::input(folder, "holds no NPKit dump: no file named gpu_events_rank_0_buf_0 or the like")
                .with_hint("NPKit writes to NPKIT_DUMP_DIR (MSCCLPP_NPKIT_DUMP_DIR) when ncclCommDestroy is called; a program that does not call it leaves nothing"));
        }
    }
    Ok(ranks)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gpu,
    Cpu,
    GpuRate,
    PeriodNum,
    PeriodDen,
}

/// Kind, rank and buffer of a file by its name.
fn name_of(path: &Path) -> Option<(Kind, u32, u32)> {
    let name = path.file_name()?.to_str()?;
    let events = |prefix: &str, infix: &str| {
        let (rank, number) = name.strip_prefix(prefix)?.split_once(infix)?;
        Some((rank.parse().ok()?, number.parse().ok()?))
    };
    let clock = |prefix: &str| Some((name.strip_prefix(prefix)?.parse().ok()?, 0));
    let of = |kind: Kind| move |(rank, number): (u32, u32)| (kind, rank, number);
    events("gpu_events_rank_", "_buf_")
        .map(of(Kind::Gpu))
        .or_else(|| events("cpu_events_rank_", "_channel_").map(of(Kind::Cpu)))
        .or_else(|| clock("gpu_clock_rate_rank_").map(of(Kind::GpuRate)))
        .or_else(|| clock("cpu_clock_period_num_rank_").map(of(Kind::PeriodNum)))
        .or_else(|| clock("cpu_clock_period_den_rank_").map(of(Kind::PeriodDen)))
}

/// The number that a clock file holds as text.
fn number_in<T: std::str::FromStr>(path: &Path) -> Option<T> {
    use std::io::Read;
    let mut text = String::new();
    open::open(path).ok()?.take(64).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_dumps_count() {
        let of = |name: &str| name_of(Path::new(name));
        assert_eq!(of("d/gpu_events_rank_3_buf_511"), Some((Kind::Gpu, 3, 511)));
        assert_eq!(of("cpu_events_rank_0_channel_31"), Some((Kind::Cpu, 0, 31)));
        assert_eq!(of("gpu_clock_rate_rank_12"), Some((Kind::GpuRate, 12, 0)));
        assert_eq!(of("cpu_clock_period_den_rank_1"), Some((Kind::PeriodDen, 1, 0)));
        for other in [
            "gpu_events_rank_x_buf_1",
            "gpu_events_rank_1",
            "rank_0.sqlite",
            "gpu_events_rank_1_buf_",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
