//! The fields of DCGM: names were changed in 4.6, numbers and short names were not.

use crate::model::counter::{Quantity, Unit};

/// One field.
struct Field {
    /// Its number (`dcgm_fields.h`).
    id: u16,
    /// The head of its column in `dcgmi dmon`.
    short: &'static str,
    /// Its name without `DCGM_FI_`, up to 4.5 and since 4.6.
    names: [&'static str; 2],
    quantity: Quantity,
    unit: Unit,
    /// By which values are multiplied to get the unit.
    scale: f64,
}

const fn field(
    id: u16,
    short: &'static str,
    names: [&'static str; 2],
    quantity: Quantity,
    unit: Unit,
    scale: f64,
) -> Field {
    Field { id, short, names, quantity, unit, scale }
}

const SHARE: f64 = 100.0;
const BYTES: f64 = 1e-9;

const FIELDS: [Field; 18] = [
    field(100, "SMCLK", ["DEV_SM_CLOCK", ""], Quantity::SmClock, Unit::Megahertz, 1.0),
    field(
        112,
        "DVCCTR",
        ["DEV_CLOCK_THROTTLE_REASONS", "DEV_CLOCKS_EVENT_REASONS"],
        Quantity::ThrottleReasons,
        Unit::Count,
        1.0,
    ),
    field(
        155,
        "POWER",
        ["DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"],
        Quantity::Power,
        Unit::Watts,
        1.0,
    ),
    field(
        202,
        "RPCTR",
        ["DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL"],
        Quantity::PcieReplays,
        Unit::Count,
        1.0,
    ),
    field(
        203,
        "GPUTL",
        ["DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO"],
        Quantity::GpuBusy,
        Unit::Percent,
        1.0,
    ),
    field(230, "XIDER", ["DEV_XID_ERRORS", "DEV_XID_ERROR"], Quantity::Xid, Unit::Count, 1.0),
    field(
        409,
        "NFELT",
        ["DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_TOTAL"],
        Quantity::NvlinkErrors,
        Unit::Count,
        1.0,
    ),
    field(
        419,
        "NDELT",
        ["DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_TOTAL"],
        Quantity::NvlinkErrors,
        Unit::Count,
        1.0,
    ),
    field(
        429,
        "NRELT",
        ["DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL"],
        Quantity::NvlinkErrors,
        Unit::Count,
        1.0,
    ),
    field(
        439,
        "NRCLT",
        ["DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_TOTAL"],
        Quantity::NvlinkErrors,
        Unit::Count,
        1.0,
    ),
    field(
        1001,
        "GRACT",
        ["PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO"],
        Quantity::GrActive,
        Unit::Percent,
        SHARE,
    ),
    field(
        1002,
        "SMACT",
        ["PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"],
        Quantity::SmActive,
        Unit::Percent,
        SHARE,
    ),
    field(
        1004,
        "TENSO",
        ["PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"],
        Quantity::TensorActive,
        Unit::Percent,
        SHARE,
    ),
    field(
        1005,
        "DRAMA",
        ["PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"],
        Quantity::DramActive,
        Unit::Percent,
        SHARE,
    ),
    field(1009, "PCITX", ["PROF_PCIE_TX_BYTES", ""], Quantity::PcieTx, Unit::GbPerSecond, BYTES),
    field(1010, "PCIRX", ["PROF_PCIE_RX_BYTES", ""], Quantity::PcieRx, Unit::GbPerSecond, BYTES),
    field(
        1011,
        "NVLTX",
        ["PROF_NVLINK_TX_BYTES", ""],
        Quantity::NvlinkTx,
        Unit::GbPerSecond,
        BYTES,
    ),
    field(
        1012,
        "NVLRX",
        ["PROF_NVLINK_RX_BYTES", ""],
        Quantity::NvlinkRx,
        Unit::GbPerSecond,
        BYTES,
    ),
];

/// What a field says, its unit, and by what its values are multiplied: by its number, short name or name.
pub(super) fn find(name: &str) -> Option<((Quantity, Unit), f64)> {
    let long = name.strip_prefix("DCGM_FI_");
    let id: Option<u16> = name.parse().ok();
    FIELDS
        .iter()
        .find(|field| {
            Some(field.id) == id
                || field.short == name
                || long.is_some_and(|long| !long.is_empty() && field.names.contains(&long))
        })
        .map(|field| ((field.quantity, field.unit), field.scale))
}

/// Why the clock is not higher, by the bits of field 112 (`nvmlClocksEventReasons`).
pub(crate) fn reasons(bits: u64) -> Vec<&'static str> {
    [
        (0x1, "GPU idle"),
        (0x2, "clocks set by an application"),
        (0x4, "power cap"),
        (0x8, "hardware slowdown"),
        (0x10, "sync boost"),
        (0x20, "thermal slowdown by software"),
        (0x40, "thermal slowdown by hardware"),
        (0x80, "power brake"),
        (0x100, "display clocks"),
    ]
    .into_iter()
    .filter(|(bit, _)| bits & bit != 0)
    .map(|(_, word)| word)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_any_of_their_names() {
        for name in ["1002", "SMACT", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"] {
            assert_eq!(find(name), Some(((Quantity::SmActive, Unit::Percent), 100.0)), "{name}");
        }
        for name in ["", "DCGM_FI_", "XYZ", "FBTTL", "0"] {
            assert_eq!(find(name), None, "{name}");
        }
        assert_eq!(reasons(0x44), ["power cap", "thermal slowdown by hardware"]);
    }
}
