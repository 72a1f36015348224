//! What lies between the GPUs and network cards of a machine.

use std::collections::BTreeMap;

/// What lies between two devices, as `nvidia-smi` names it, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathClass {
    /// A bond of this many NVLinks.
    NvLink(u32),
    /// At most one PCIe bridge.
    Pix,
    /// Several PCIe bridges, no host bridge.
    Pxb,
    /// A PCIe host bridge.
    Phb,
    /// Several host bridges of one NUMA node.
    Node,
    /// The link between NUMA nodes.
    Sys,
}

impl PathClass {
    /// Reads a cell of the matrix; `None` for anything else, `X` (the device itself) among it.
    pub fn parse(cell: &str) -> Option<PathClass> {
        Some(match cell {
            "PIX" => PathClass::Pix,
            "PXB" => PathClass::Pxb,
            "PHB" => PathClass::Phb,
            "NODE" => PathClass::Node,
            // SOC is what drivers before 2017 call it.
            "SYS" | "SOC" => PathClass::Sys,
            _ => {
                let links = cell.strip_prefix("NV")?;
                PathClass::NvLink(
                    links.parse().ok().filter(|_| links.bytes().all(|b| b.is_ascii_digit()))?,
                )
            }
        })
    }

    /// The name in the matrix: `NV18`, `PIX`, ...
    pub fn label(self) -> String {
        match self {
            PathClass::NvLink(links) => format!("NV{links}"),
            PathClass::Pix => "PIX".to_owned(),
            PathClass::Pxb => "PXB".to_owned(),
            PathClass::Phb => "PHB".to_owned(),
            PathClass::Node => "NODE".to_owned(),
            PathClass::Sys => "SYS".to_owned(),
        }
    }

    /// True where NCCL uses peer access by default: NVLink, or PCIe without a host bridge in between.
    pub fn is_peer(self) -> bool {
        matches!(self, PathClass::NvLink(_) | PathClass::Pix | PathClass::Pxb)
    }
}

/// A machine as `nvidia-smi topo` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Path as given.
    pub path: String,
    /// GPUs with a row, by their index in `nvidia-smi`, ascending.
    pub gpus: Vec<u32>,
    /// Between GPUs, by (row, column).
    pub gpu_paths: BTreeMap<(u32, u32), PathClass>,
    /// Between a GPU and a network card, by (GPU, name of the card: `mlx5_0`, or `NIC0` without a legend).
    pub nic_paths: BTreeMap<(u32, String), PathClass>,
    /// Result of the peer-access test by (row, column): `OK`, `CNS`, ...; empty without `topo -p2p r`.
    pub peer_access: BTreeMap<(u32, u32), String>,
    /// The matrix was printed without NVLink (`topo -mp`): what looks like PCIe may be NVLink.
    pub hides_nvlink: bool,
}

impl Topology {
    /// What lies between two GPUs.
    pub fn between(&self, a: u32, b: u32) -> Option<PathClass> {
        self.gpu_paths.get(&(a, b)).or_else(|| self.gpu_paths.get(&(b, a))).copied()
    }

    /// What lies between a GPU and a network card.
    pub fn to_nic(&self, gpu: u32, nic: &str) -> Option<PathClass> {
        self.nic_paths.get(&(gpu, nic.to_owned())).copied()
    }
}
