//! Samples of GPU counters, whoever took them: Nsight Systems beside a trace, or DCGM and `nvidia-smi` beside the run.

use super::Ns;

/// What a counter says of a GPU, whatever the program that read it calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Time with any kernel resident: all of it while a communication kernel waits.
    GpuBusy,
    /// The engine of graphics and compute is busy.
    GrActive,
    /// Multiprocessors with a warp, over all and over time.
    SmActive,
    /// Cycles in which a multiprocessor issues an instruction.
    SmIssue,
    /// Cycles in which tensor cores work.
    TensorActive,
    /// Reads of device memory.
    DramRead,
    /// Writes to device memory.
    DramWrite,
    /// Device memory is read or written.
    DramActive,
    /// Received over NVLink, protocol included.
    NvlinkRx,
    /// Sent over NVLink, protocol included.
    NvlinkTx,
    /// Data of the user received over NVLink.
    NvlinkRxUser,
    /// Data of the user sent over NVLink.
    NvlinkTxUser,
    /// Received over PCIe, protocol included.
    PcieRx,
    /// Sent over PCIe, protocol included.
    PcieTx,
    /// Clock of the multiprocessors.
    SmClock,
    /// Power of the board.
    Power,
    /// Errors and repetitions on NVLink since the driver was loaded.
    NvlinkErrors,
    /// Repetitions on PCIe since the driver was loaded.
    PcieReplays,
    /// The last error of the driver.
    Xid,
    /// Why the clock is not higher: a set of bits.
    ThrottleReasons,
    /// Share of time in which power limited the clock.
    PowerViolation,
    /// Share of time in which heat limited the clock.
    ThermalViolation,
}

/// The unit of a counter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Of the most that is possible, 0 to 100.
    Percent,
    /// Decimal gigabytes a second.
    GbPerSecond,
    /// Megahertz.
    Megahertz,
    /// Watts.
    Watts,
    /// A number of events, or a set of bits.
    Count,
}

impl Unit {
    /// The text that is printed.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Percent => "%",
            Unit::GbPerSecond => "GB/s",
            Unit::Megahertz => "MHz",
            Unit::Watts => "W",
            Unit::Count => "count",
        }
    }
}

/// A link out of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// To other GPUs.
    Nvlink,
    /// To the host and to other cards.
    Pcie,
}

impl Link {
    /// The name that is printed.
    pub fn label(self) -> &'static str {
        match self {
            Link::Nvlink => "NVLink",
            Link::Pcie => "PCIe",
        }
    }
}

impl Quantity {
    /// Its name in JSON.
    pub fn id(self) -> &'static str {
        self.words().0
    }

    /// Its name for people.
    pub fn label(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Quantity::GpuBusy => ("gpu_busy", "GPU busy"),
            Quantity::GrActive => ("gr_active", "GR active"),
            Quantity::SmActive => ("sm_active", "SM active"),
            Quantity::SmIssue => ("sm_issue", "SM issue"),
            Quantity::TensorActive => ("tensor_active", "tensor active"),
            Quantity::DramRead => ("dram_read", "DRAM read"),
            Quantity::DramWrite => ("dram_write", "DRAM write"),
            Quantity::DramActive => ("dram_active", "DRAM active"),
            Quantity::NvlinkRx => ("nvlink_rx", "NVLink received"),
            Quantity::NvlinkTx => ("nvlink_tx", "NVLink sent"),
            Quantity::NvlinkRxUser => ("nvlink_rx_user", "NVLink received, user data"),
            Quantity::NvlinkTxUser => ("nvlink_tx_user", "NVLink sent, user data"),
            Quantity::PcieRx => ("pcie_rx", "PCIe received"),
            Quantity::PcieTx => ("pcie_tx", "PCIe sent"),
            Quantity::SmClock => ("sm_clock", "SM clock"),
            Quantity::Power => ("power", "power"),
            Quantity::NvlinkErrors => ("nvlink_errors", "NVLink errors"),
            Quantity::PcieReplays => ("pcie_replays", "PCIe replays"),
            Quantity::Xid => ("xid", "XID"),
            Quantity::ThrottleReasons => ("throttle_reasons", "throttle reasons"),
            Quantity::PowerViolation => ("power_violation", "power violation"),
            Quantity::ThermalViolation => ("thermal_violation", "thermal violation"),
        }
    }

    /// The link that it is of, if any.
    pub fn link(self) -> Option<Link> {
        match self {
            Quantity::NvlinkRx
            | Quantity::NvlinkTx
            | Quantity::NvlinkRxUser
            | Quantity::NvlinkTxUser => Some(Link::Nvlink),
            Quantity::PcieRx | Quantity::PcieTx => Some(Link::Pcie),
            _ => None,
        }
    }

    /// True for what is averaged over time; false for what is counted up or a set of bits.
    pub fn is_level(self) -> bool {
        !matches!(
            self,
            Quantity::NvlinkErrors
                | Quantity::PcieReplays
                | Quantity::Xid
                | Quantity::ThrottleReasons
        )
    }
}

/// One counter of one GPU over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What it says.
    pub quantity: Quantity,
    /// Unit of the values.
    pub unit: Unit,
    /// What the file calls it; several names are of parts that are added up.
    pub names: Vec<String>,
    /// When each sample begins, ns, in order; empty if the file does not say when samples were taken.
    pub at: Vec<Ns>,
    /// The samples.
    pub value: Vec<f64>,
}

impl Series {
    /// The usual time from one sample to the next, ns; `None` with fewer than two that have a time.
    pub fn interval(&self) -> Option<Ns> {
        let mut steps: Vec<Ns> =
            self.at.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let middle = steps.len() / 2;
        let (_, median, _) = (!steps.is_empty()).then(|| steps.select_nth_unstable(middle))?;
        (*median > 0).then_some(*median)
    }

    /// Begin, end and value of each sample that has a time: it lasts until the next one, but no longer than two usual intervals.
    pub fn samples(&self) -> impl Iterator<Item = (Ns, Ns, f64)> {
        let interval = self.interval().unwrap_or(0);
        let ends = self.at.iter().skip(1).copied().map(Some).chain(std::iter::once(None));
        self.at.iter().zip(ends).zip(&self.value).map(move |((&start, next), &value)| {
            let longest = start.saturating_add(interval.saturating_mul(2));
            let end = next.unwrap_or(start.saturating_add(interval));
            (start, end.min(longest).max(start), value)
        })
    }
}

/// Who took samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sampler {
    /// GPU metrics of Nsight Systems, in the report itself.
    Nsys,
    /// `dcgmi dmon`.
    Dcgmi,
    /// The exporter of DCGM for Prometheus.
    Exporter,
    /// `nvidia-smi dmon`.
    Smi,
}

impl Sampler {
    /// The name that is printed.
    pub fn label(self) -> &'static str {
        match self {
            Sampler::Nsys => "nsys GPU metrics",
            Sampler::Dcgmi => "dcgmi dmon",
            Sampler::Exporter => "DCGM exporter",
            Sampler::Smi => "nvidia-smi dmon",
        }
    }
}

/// What was sampled of one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Who took the samples.
    pub sampler: Sampler,
    /// File name without its folder.
    pub file: String,
    /// Index of the GPU on its machine, as the file has it.
    pub gpu_index: Option<u32>,
    /// The GPU's own number, without `GPU-`, in lower case.
    pub gpu_uuid: Option<String>,
    /// Its machine.
    pub hostname: Option<String>,
    /// Nanoseconds to add to times to get Unix time; `None` if that is not known, or there are no times.
    pub epoch_ns: Option<i64>,
    /// The highest clock of its multiprocessors, MHz.
    pub max_clock_mhz: Option<f64>,
    /// Its counters.
    pub series: Vec<Series>,
}

/// A GPU's own number as it is compared: without `GPU-`, in lower case.
pub(crate) fn uuid_key(text: &str) -> String {
    let text = text.trim().to_ascii_lowercase();
    text.strip_prefix("gpu-").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(at: &[Ns]) -> Series {
        Series {
            quantity: Quantity::SmActive,
            unit: Unit::Percent,
            names: Vec::new(),
            at: at.to_vec(),
            value: vec![1.0; at.len()],
        }
    }

    #[test]
    fn a_sample_lasts_until_the_next_but_not_over_a_gap() {
        let spans = |at: &[Ns]| series(at).samples().map(|(a, b, _)| (a, b)).collect::<Vec<_>>();
        assert_eq!(spans(&[0, 10, 20, 90]), [(0, 10), (10, 20), (20, 40), (90, 100)]);
        assert_eq!(spans(&[5]), [(5, 5)], "one sample has no length");
        assert_eq!(series(&[]).interval(), None);
    }
}
