//! The records of a dump: 16 bytes each, little endian.
//!
//! ```text
//! byte 0     1 2 3 4   5 6 7              8 .. 15
//!      type  size      rsvd (CPU: slot)   timestamp
//! ```

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::ingest::open;
use crate::{Error, Result};

/// Bytes of a record.
pub const RECORD: usize = 16;
/// Bytes of a GPU buffer; what did not fit in was dropped.
pub const FULL_GPU: u64 = 65_536 * RECORD as u64;
/// Bytes of a CPU buffer.
pub const FULL_CPU: u64 = 2_097_152 * RECORD as u64;
/// Bytes read at a time: a multiple of [`RECORD`].
const CHUNK: usize = 256 * 1024;

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// What it says; the meaning depends on the library.
    pub id: u8,
    /// Usually bytes.
    pub size: u32,
    /// 24 bits: on the GPU ticks of data processing or waiting, on the CPU the slot of the request.
    pub rsvd: u32,
    /// Ticks of the GPU's clock, or of the CPU's.
    pub timestamp: u64,
}

impl Record {
    fn of(bytes: &[u8; RECORD]) -> Self {
        let [id, s0, s1, s2, s3, r0, r1, r2, rest @ ..] = *bytes;
        Self {
            id,
            size: u32::from_le_bytes([s0, s1, s2, s3]),
            rsvd: u32::from_le_bytes([r0, r1, r2, 0]),
            timestamp: u64::from_le_bytes(rest),
        }
    }
}

/// Passes every whole record of a file on, in order, and returns the bytes that are left over at its end.
///
/// # Errors
/// The file cannot be read.
pub fn for_each(path: &Path, mut each: impl FnMut(Record)) -> Result<usize> {
    let mut file = open::open(path)?;
    let mut buffer = vec![0; CHUNK];
    let mut filled = 0;
    loop {
        let free = buffer.get_mut(filled..).unwrap_or_default();
        let got = match file.read(free) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            read => read.map_err(|e| Error::input(path, format!("cannot be read: {e}")))?,
        };
        filled += got;
        if got > 0 && filled < CHUNK {
            continue;
        }
        let (records, rest) = buffer.get(..filled).unwrap_or_default().as_chunks::<RECORD>();
        records.iter().for_each(|bytes| each(Record::of(bytes)));
        if got == 0 {
            return Ok(rest.len());
        }
        filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_sixteen_bytes_and_a_rest_is_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gpu_events_rank_0_buf_0");
        // The second record of data/npkit/synthetic_dump_2rank, rank 0, buffer 0, and one with every field set.
        let clock = [0x33, 0, 0, 0, 0, 0, 0, 0, 0x1a, 0x87, 0x3b, 0xa1, 1, 0, 0, 0];
        let exit = [0x36, 0, 0, 0x10, 0, 0x28, 0x6e, 0x00, 0xed, 1, 0x3c, 0xa1, 1, 0, 0, 0x80];
        std::fs::write(&path, [&clock[..], &exit[..], &[7, 7, 7]].concat()).expect("a file");
        let mut records = Vec::new();
        assert_eq!(for_each(&path, |record| records.push(record)).expect("records"), 3);
        assert_eq!(
            records,
            [
                Record { id: 0x33, size: 0, rsvd: 0, timestamp: 0x1_a13b_871a },
                Record { id: 0x36, size: 1 << 20, rsvd: 0x6e28, timestamp: 0x8000_0001_a13c_01ed },
            ]
        );
    }

    #[test]
    fn a_file_of_many_chunks_keeps_its_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        let n = 3 * CHUNK / RECORD + 5;
        let bytes: Vec<u8> =
            (0..n as u64).flat_map(|i| [[0; 8], i.to_le_bytes()].concat()).collect();
        std::fs::write(&path, bytes).expect("a file");
        let mut next = 0;
        for_each(&path, |record| {
            assert_eq!(record.timestamp, next);
            next += 1;
        })
        .expect("records");
        assert_eq!(next, n as u64);
    }
}
