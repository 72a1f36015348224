//! Which record of an event a wait is for.

use foldhash::{HashMap, HashSet};

use super::graph::Moment;
use crate::model::host::{EventRecord, Host, Synchronization};

/// Completion of the events that were recorded so far.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    by_sync: HashMap<i64, Moment>,
    latest: HashMap<i64, Moment>,
    /// True if waits name the record that they are for.
    named: bool,
}

impl Completions {
    /// None yet. A wait whose number names no record is for one from before the capture, unless the numbers join nothing at all
    /// (some exports have the column and nothing in it fits).
    pub(crate) fn new(host: &Host) -> Completions {
        let numbers: HashSet<i64> = host.records.iter().filter_map(|record| record.sync).collect();
        let joined = |sync: &Synchronization| sync.sync.is_some_and(|n| numbers.contains(&n));
        Completions { named: host.syncs.iter().any(joined), ..Completions::default() }
    }

    /// The event completes at this moment.
    pub(crate) fn record(&mut self, record: &EventRecord, moment: Moment) {
        self.latest.insert(record.event, moment);
        if let Some(number) = record.sync {
            self.by_sync.insert(number, moment);
        }
    }

    /// When the event that is waited for completes: the very record where the wait names it, else the latest one that was
    /// called before; `None` if it was not recorded in the capture.
    pub(crate) fn of(&self, sync: &Synchronization) -> Option<Moment> {
        match sync.sync {
            Some(number) if self.named => self.by_sync.get(&number).copied(),
            _ => self.latest.get(&sync.event).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::host::SyncKind;

    fn record(correlation: i64, sync: Option<i64>) -> EventRecord {
        EventRecord { correlation, stream: (1, 7), event: 5, sync }
    }

    fn wait(sync: Option<i64>) -> Synchronization {
        Synchronization {
            correlation: 9,
            kind: SyncKind::StreamWait,
            stream: (1, 8),
            event: 5,
            sync,
        }
    }

    fn completions(numbers: [Option<i64>; 2], waits: &[Option<i64>]) -> Completions {
        let records = vec![record(1, numbers[0]), record(2, numbers[1])];
        let host = Host {
            records: records.clone(),
            syncs: waits.iter().map(|&sync| wait(sync)).collect(),
            ..Host::default()
        };
        let mut completions = Completions::new(&host);
        completions.record(&records[0], 100);
        completions.record(&records[1], 200);
        completions
    }

    #[test]
    fn a_wait_names_its_record_where_the_export_says_it() {
        let completions = completions([Some(11), Some(12)], &[Some(11), Some(77)]);
        assert_eq!(completions.of(&wait(Some(11))), Some(100));
        assert_eq!(completions.of(&wait(Some(77))), None, "recorded before the capture");
    }

    #[test]
    fn else_it_is_for_the_latest_record_of_that_event() {
        let older = completions([None, None], &[None]);
        assert_eq!(older.of(&wait(None)), Some(200));
        let other = Synchronization { event: 6, ..wait(None) };
        assert_eq!(older.of(&other), None);
        let unjoined = completions([Some(11), Some(12)], &[Some(91), Some(92)]);
        assert_eq!(unjoined.of(&wait(Some(91))), Some(200), "the numbers join nothing");
    }
}
