//! The matrix that `nvidia-smi topo -m` prints: what lies between each pair of GPUs, and between GPUs and network cards.
//! The matrix of `nvidia-smi topo -p2p r` (whether peer access works) is read too, from the same file or alone.
//!
//! Generations differ in the columns after the matrix (`CPU Affinity`, `NUMA Affinity`, `GPU NUMA ID`), in how network
//! cards are named (`mlx5_0`, or `NIC0` with a legend), and in an underlined header. Cells of the matrix hold no spaces
//! and are never empty, so tabs and pasted, aligned copies read alike.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::encoding::AsUtf8;
use crate::error::{Error, Result};
use crate::ingest::open;
use crate::model::topology::{PathClass, Topology};
use crate::text;

/// No matrix is longer; what follows is not read.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Reads the file at `path`.
///
/// # Errors
/// If it cannot be read, or holds no matrix.
pub fn read(path: &Path) -> Result<Topology> {
    let mut bytes = Vec::new();
    AsUtf8::new(open::open(path)?)
        .take(LARGEST)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::input(path, format!("cannot be read: {e}")))?;
    let mut topology = parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| {
        Error::input(path, "holds no topology matrix")
            .with_hint("write it with: nvidia-smi topo -m > topo.txt")
    })?;
    topology.path = path.to_string_lossy().into_owned();
    Ok(topology)
}

/// Reads the text of one or more matrices; `None` if there is none.
pub fn parse(text: &str) -> Option<Topology> {
    let text = text::without_escapes(text);
    let mut topology = Topology::default();
    let mut columns: Vec<&str> = Vec::new();
    let mut cards: Vec<(&str, &str)> = Vec::new();
    let (mut legend, mut nvlink_in_legend) = (false, false);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&first, rest)) = words.split_first() else { continue };
        let is_row = rest.first().is_some_and(|cell| Cell::parse(cell).is_some());
        if is_row {
            if let Some(gpu) = gpu_index(first) {
                topology.row(gpu, &columns, rest);
            }
        } else if gpu_index(first).is_some() {
            // A header: everything up to `CPU Affinity` names a device.
            columns = words.into_iter().take_while(|word| *word != "CPU").collect();
        } else if let (Some(label), [name]) =
            (first.strip_suffix(':').filter(|label| label.starts_with("NIC")), rest)
        {
            cards.push((label, name));
        } else if rest.first() == Some(&"=") {
            legend |= first == "PIX";
            nvlink_in_legend |= first == "NV#";
        }
    }
    topology.hides_nvlink = legend && !nvlink_in_legend;
    topology.name_cards(&cards);
    topology.gpus.sort_unstable();
    topology.gpus.dedup();
    (!topology.gpus.is_empty()).then_some(topology)
}

/// A cell of either matrix.
enum Cell<'a> {
    Itself,
    Path(PathClass),
    Peer(&'a str),
}

impl<'a> Cell<'a> {
    fn parse(word: &'a str) -> Option<Cell<'a>> {
        match word {
            "X" => Some(Cell::Itself),
            "OK" | "CNS" | "GNS" | "TNS" | "NS" | "DR" | "U" => Some(Cell::Peer(word)),
            _ => PathClass::parse(word).map(Cell::Path),
        }
    }
}

/// The index in `GPU0`.
fn gpu_index(word: &str) -> Option<u32> {
    let index = word.strip_prefix("GPU")?;
    index.parse().ok().filter(|_| index.bytes().all(|b| b.is_ascii_digit()))
}

impl Topology {
    fn row(&mut self, gpu: u32, columns: &[&str], cells: &[&str]) {
        self.gpus.push(gpu);
        for (column, cell) in columns.iter().zip(cells) {
            match (gpu_index(column), Cell::parse(cell)) {
                (Some(other), Some(Cell::Path(path))) => {
                    self.gpu_paths.insert((gpu, other), path);
                }
                (None, Some(Cell::Path(path))) => {
                    self.nic_paths.insert((gpu, (*column).to_owned()), path);
                }
                (Some(other), Some(Cell::Peer(status))) => {
                    self.peer_access.insert((gpu, other), status.to_owned());
                }
                (None, Some(Cell::Peer(_))) | (_, Some(Cell::Itself) | None) => {}
            }
        }
    }

    /// Puts the names of the legend in place of `NIC0`, ...
    fn name_cards(&mut self, cards: &[(&str, &str)]) {
        let names: BTreeMap<&str, &str> = cards.iter().copied().collect();
        self.nic_paths = std::mem::take(&mut self.nic_paths)
            .into_iter()
            .map(|((gpu, label), path)| {
                let name =
                    names.get(label.as_str()).map_or(label.clone(), |name| (*name).to_owned());
                ((gpu, name), path)
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ingest::kind::{self, Kind};

    const LEGEND: &str = "\nLegend:\n\n  X    = Self\n  PIX  = Connection traversing at most a single PCIe bridge\n  NV#  = Connection traversing a bonded set of # NVLinks\n";

    fn paths(topology: &Topology) -> Vec<((u32, u32), String)> {
        topology.gpu_paths.iter().map(|(&pair, path)| (pair, path.label())).collect()
    }

    #[test]
    fn an_underlined_header_and_tabs() {
        let text = format!(
            "\t\u{1b}[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\nGPU0\t X \tNV18\t0-31\t0\t\tN/A\nGPU1\tNV18\t X \t0-31\t0\t\tN/A\n{LEGEND}"
        );
        let topology = parse(&text).expect("a matrix");
        assert_eq!(topology.gpus, [0, 1]);
        assert_eq!(paths(&topology), [((0, 1), "NV18".to_owned()), ((1, 0), "NV18".to_owned())]);
        assert!(
            !topology.hides_nvlink
                && topology.nic_paths.is_empty()
                && topology.peer_access.is_empty()
        );
    }

    #[test]
    fn a_pasted_copy_with_old_columns_and_cards_by_name() {
        // About driver 470: no NUMA columns, cards by their own name, aligned with spaces.
        let text = "        GPU0    GPU1    mlx5_0  CPU Affinity\n\
                    GPU0     X      NV12    PXB     0-31,64-95\n\
                    GPU1    NV12     X      SYS     0-31,64-95\n\
                    mlx5_0  PXB     SYS      X\n";
        let topology = parse(text).expect("a matrix");
        assert_eq!(topology.between(1, 0), Some(PathClass::NvLink(12)));
        assert_eq!(topology.to_nic(0, "mlx5_0"), Some(PathClass::Pxb));
        assert_eq!(topology.to_nic(1, "mlx5_0"), Some(PathClass::Sys));
        assert_eq!(topology.gpus, [0, 1]);
    }

    #[test]
    fn cards_of_a_legend_get_their_names() {
        let text = "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n\
                    GPU0\t X \tPIX\tNODE\tSYS\t0-31\t0\t\tN/A\n\
                    GPU1\tPIX\t X \tNODE\tSYS\t0-31\t0\t\tN/A\n\
                    NIC0\tNODE\tNODE\t X \tSYS\t\t\t\t\n\
                    NIC1\tSYS\tSYS\tSYS\t X \t\t\t\t\n\nNIC Legend:\n\n  NIC0: mlx5_0\n";
        let topology = parse(text).expect("a matrix");
        assert_eq!(topology.to_nic(0, "mlx5_0"), Some(PathClass::Node));
        assert_eq!(topology.to_nic(1, "NIC1"), Some(PathClass::Sys));
    }

    #[test]
    fn peer_access_and_paths_from_one_file() {
        let text = " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tOK\tX\t\n\n  X    = Self\n  OK   = Status Ok\n\
                    \tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-3\nGPU1\tSOC\t X \t0-3\n";
        let topology = parse(text).expect("a matrix");
        assert_eq!(topology.peer_access[&(0, 1)], "CNS");
        assert_eq!(topology.peer_access[&(1, 0)], "OK");
        assert_eq!(topology.between(0, 1), Some(PathClass::Sys));
    }

    #[test]
    fn a_matrix_that_hides_nvlink_says_so_in_its_legend() {
        let text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-3\nGPU1\tPIX\t X \t0-3\n\nLegend:\n\n  X    = Self\n  PIX  = one bridge\n";
        assert!(parse(text).expect("a matrix").hides_nvlink);
    }

    #[test]
    fn one_gpu_and_none() {
        let topology = parse("\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n").expect("a matrix");
        assert_eq!((topology.gpus.as_slice(), topology.gpu_paths.len()), ([0].as_slice(), 0));
        for text in [
            "",
            "GPU",
            "GPU0",
            "\tGPU0\tGPU1\tCPU Affinity\n",
            "NVIDIA-SMI has failed",
            "GPUx X NV4",
            "X NV18 NV18",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn real_and_synthetic_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/topo");
        if !folder.exists() {
            println!("skipped: the folder with topologies is not here");
            return;
        }
        let file = |name: &str| read(&folder.join(name)).expect("a matrix");
        assert_eq!(file("h200_2gpu_nvlink.txt").between(0, 1), Some(PathClass::NvLink(18)));
        assert_eq!(
            file("h200_2gpu_topo_p2p_r.txt").peer_access,
            BTreeMap::from([((0, 1), "OK".to_owned()), ((1, 0), "OK".to_owned())])
        );
        let l40s = file("l40s_8gpu_pcie_synthetic.txt");
        assert_eq!((l40s.gpus.len(), l40s.gpu_paths.len(), l40s.nic_paths.len()), (8, 56, 16));
        assert_eq!(
            (l40s.between(0, 1), l40s.between(0, 2), l40s.between(0, 4)),
            (Some(PathClass::Pix), Some(PathClass::Node), Some(PathClass::Sys))
        );
        assert_eq!(
            (l40s.to_nic(4, "mlx5_1"), l40s.to_nic(0, "mlx5_0")),
            (Some(PathClass::Pix), Some(PathClass::Node))
        );
        let degraded = file("degraded_nvlink_4gpu_synthetic.txt");
        assert_eq!(
            (degraded.between(0, 1), degraded.between(2, 3)),
            (Some(PathClass::NvLink(18)), Some(PathClass::NvLink(16)))
        );
    }

    #[test]
    fn marks_and_encodings_of_editors_and_shells() {
        let plain = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-3\nGPU1\tPHB\t X \t0-3\n";
        let marked = format!("\u{feff}{plain}");
        let utf16 = |unit: fn(u16) -> [u8; 2]| marked.encode_utf16().flat_map(unit).collect();
        let forms: [Vec<u8>; 4] =
            [plain.into(), marked.clone().into(), utf16(u16::to_le_bytes), utf16(u16::to_be_bytes)];
        for bytes in forms {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), &bytes).expect("written");
            let topology = read(file.path()).expect("a matrix");
            assert_eq!(topology.gpus, [0, 1]);
            assert_eq!(topology.between(0, 1), Some(PathClass::Phb));
            assert_eq!(kind::told(file.path()).expect("a file"), [Kind::Topology]);
        }
    }

    #[test]
    fn a_file_without_a_matrix_is_an_error_with_the_command() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = read(file.path()).expect_err("nothing in it");
        assert_eq!(error.exit_code(), 3);
        assert!(error.hint.is_some_and(|hint| hint.contains("nvidia-smi topo -m")));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(GPU[0-9]{1,12}|X|NV[0-9]{0,12}|PIX|OK|NIC0:|CPU|=|\\t|\\n| |\\x1b|\\PC){0,80}") {
            let _ = parse(&text);
        }
    }
}
