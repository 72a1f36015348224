//! Dumps written record by record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nsysnccl::internals::npkit::dump::Dump;
use nsysnccl::internals::npkit::ids::Library;
use nsysnccl::internals::npkit::read::{self, Table};

/// Clock records of the NCCL family.
pub const CLOCK_GPU: u8 = 0x33;
pub const CLOCK_CPU: u8 = 0x34;
/// Beginnings of events; the end is the next number.
pub const SEND: u8 = 0x35;
pub const LAST_RECV: u8 = 0x3d;
pub const LL_WAIT_SEND: u8 = 0x27;
pub const LL_DATA_PROCESS: u8 = 0x29;
pub const NET_SEND: u8 = 0x2f;
pub const NET_RECV: u8 = 0x31;

/// Ticks in a nanosecond: the GPU's clock runs at 2 GHz.
pub const TICKS: u64 = 2;

/// Files of a dump by name.
#[derive(Default)]
pub struct Writer {
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Writer {
    /// A dump with the clock files of some ranks.
    pub fn with_ranks(ranks: impl IntoIterator<Item = u32>) -> Self {
        let mut writer = Writer::default();
        for rank in ranks {
            writer.text(&format!("gpu_clock_rate_rank_{rank}"), "2000000");
            writer.text(&format!("cpu_clock_period_num_rank_{rank}"), "1");
            writer.text(&format!("cpu_clock_period_den_rank_{rank}"), "1000000000");
        }
        writer
    }

    pub fn text(&mut self, name: &str, text: &str) {
        self.files.insert(name.to_owned(), text.as_bytes().to_vec());
    }

    /// Appends a record to a buffer of the GPU.
    pub fn gpu(&mut self, rank: u32, buffer: u32, id: u8, timestamp: u64, size: u32, rsvd: u32) {
        let file = self.files.entry(format!("gpu_events_rank_{rank}_buf_{buffer}")).or_default();
        file.extend(record(id, timestamp, size, rsvd));
    }

    /// Appends the pair of clock records: the GPU's clock is 0 at `at` (ns since 1970).
    pub fn clocks(&mut self, rank: u32, buffer: u32, at: u64) {
        self.gpu(rank, buffer, CLOCK_CPU, at, 0, 0);
        self.gpu(rank, buffer, CLOCK_GPU, 0, 0, 0);
    }

    /// Appends an event: from and to in ns after the clock records, `rsvd` in ns.
    pub fn event(&mut self, rank: u32, buffer: u32, id: u8, (from, to): (u64, u64), rsvd: u64) {
        self.gpu(rank, buffer, id, from * TICKS, 4096, 0);
        self.gpu(rank, buffer, id + 1, to * TICKS, 4096, (rsvd * TICKS) as u32);
    }

    /// Appends a record of a proxy thread.
    pub fn cpu(&mut self, rank: u32, channel: u32, id: u8, timestamp: u64, size: u32, slot: u32) {
        let file =
            self.files.entry(format!("cpu_events_rank_{rank}_channel_{channel}")).or_default();
        file.extend(record(id, timestamp, size, slot));
    }

    pub fn save(&self, folder: &Path) -> PathBuf {
        let folder = folder.join("dump");
        std::fs::create_dir_all(&folder).expect("a folder");
        for (name, bytes) in &self.files {
            std::fs::write(folder.join(name), bytes).expect("written");
        }
        folder
    }

    pub fn read(&self) -> nsysnccl::Result<Dump> {
        let folder = crate::support::folder();
        let dump = self.save(folder.path());
        read::folders(&[dump], Table::Fitting(&Library::ALL))
    }
}

fn record(id: u8, timestamp: u64, size: u32, rsvd: u32) -> Vec<u8> {
    [&[id][..], &size.to_le_bytes(), &rsvd.to_le_bytes()[..3], &timestamp.to_le_bytes()].concat()
}
