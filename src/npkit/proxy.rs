//! What proxy threads did: sends and receives over the network, several at once on one channel, told apart by their slot.

use foldhash::{HashMap, HashMapExt};

use super::ids::{Ids, Role};
use super::lane::Clocks;
use super::record::Record;

/// Requests that may be in flight on one channel; NCCL has 8 for each connection.
const IN_FLIGHT: usize = 65_536;

/// One send or receive of a proxy thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proxy {
    /// When it was posted, ns since 1970.
    pub start_ns: i64,
    /// When it was seen to be complete, ns since 1970.
    pub end_ns: i64,
    /// Channel.
    pub channel: u32,
    /// Number of the record that began it.
    pub entry: u8,
    /// `size` when it was posted.
    pub posted: u32,
    /// `size` when it was complete.
    pub size: u32,
}

impl Proxy {
    /// How long it took, ns.
    pub fn ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Reads the records of one channel in order.
#[derive(Debug)]
pub struct Reader<'i> {
    ids: &'i Ids,
    clocks: Clocks,
    channel: u32,
    open: HashMap<(u8, u32), (i64, u32)>,
    /// Beginnings without an end and ends without a beginning.
    pub unpaired: u64,
}

impl<'i> Reader<'i> {
    /// A reader at the beginning of a file.
    pub fn new(ids: &'i Ids, clocks: Clocks, channel: u32) -> Self {
        Self { ids, clocks, channel, open: HashMap::new(), unpaired: 0 }
    }

    /// Takes the next record and returns what it ends.
    pub fn feed(&mut self, record: &Record) -> Option<Proxy> {
        let meaning = self.ids.get(record.id)?;
        let Some(now) = self.clocks.cpu_ns(record.timestamp) else {
            self.unpaired += 1;
            return None;
        };
        let key = (meaning.entry, record.rsvd);
        match meaning.role {
            Role::Entry if self.open.len() < IN_FLIGHT => {
                self.unpaired += u64::from(self.open.insert(key, (now, record.size)).is_some());
                None
            }
            Role::Entry => {
                self.unpaired += 1;
                None
            }
            Role::Exit => match self.open.remove(&key) {
                Some((start_ns, posted)) => Some(Proxy {
                    start_ns,
                    end_ns: now.max(start_ns),
                    channel: self.channel,
                    entry: meaning.entry,
                    posted,
                    size: record.size,
                }),
                None => {
                    self.unpaired += 1;
                    None
                }
            },
            _ => None,
        }
    }

    /// Counts what is still open.
    pub fn finish(&mut self) {
        self.unpaired += self.open.len() as u64;
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npkit::ids::Library;

    #[test]
    fn requests_overlap_and_are_told_apart_by_their_slot() {
        // slot 1  [send 100..400]
        // slot 2      [send 200..300]
        // slot 1      [receive 250 .. never complete
        let ids = Ids::of(Library::Nccl);
        let clocks = Clocks { gpu_khz: 1e6, cpu_period: (1, 1_000_000_000) };
        let mut reader = Reader::new(&ids, clocks, 5);
        let rows = [
            (0x2f, 1, 100),
            (0x2f, 2, 200),
            (0x31, 1, 250),
            (0x30, 2, 300),
            (0x30, 1, 400),
            (0x30, 9, 500),
        ];
        let proxies: Vec<Proxy> = rows
            .into_iter()
            .filter_map(|(id, rsvd, timestamp)| {
                reader.feed(&Record { id, size: 64, rsvd, timestamp })
            })
            .collect();
        reader.finish();
        assert_eq!(
            proxies.iter().map(|p| (p.start_ns, p.end_ns)).collect::<Vec<_>>(),
            [(200, 300), (100, 400)]
        );
        assert_eq!(reader.unpaired, 2);
    }
}
