//! Which communication event a GPU operation is part of.

use foldhash::{HashMap, HashMapExt};

use crate::collectives::events::Event;
use crate::dependency::across;
use crate::model::op::NO_CALL;
use crate::model::{NameId, Ops};

/// Which of a rank's communication events each of its GPU operations is part of.
#[derive(Debug, Default)]
pub struct Communication {
    /// Position among the rank's events of operations that are kernels, or copies of no call.
    of_op: HashMap<u32, u32>,
    /// Of the copies that a call launched.
    of_call: HashMap<u32, u32>,
}

impl Communication {
    /// Looks for the operations of each event.
    pub fn new(ops: &Ops, events: &[Event]) -> Communication {
        let mut of_op = HashMap::with_capacity(events.len());
        let mut of_call = HashMap::new();
        for (at, event) in events.iter().enumerate() {
            if event.is_kernel() {
                of_op.extend(across::operation(ops, event).map(|op| (op as u32, at as u32)));
                continue;
            }
            let first = ops.start.partition_point(|&start| start < event.start);
            let same = |&i: &usize| {
                ops.stream[i] == event.stream && ops.name[i] == NameId::NONE && ops.in_collective(i)
            };
            let here = (first..ops.len()).take_while(|&i| ops.start[i] == event.start);
            if let Some(op) = here.into_iter().find(same) {
                match ops.call[op] {
                    NO_CALL => of_op.insert(op as u32, at as u32),
                    call => of_call.insert(call, at as u32),
                };
            }
        }
        Communication { of_op, of_call }
    }

    /// Position among the rank's events of the one that operation `op` is part of.
    pub fn event(&self, ops: &Ops, op: usize) -> Option<usize> {
        let by_call = || {
            let is_copy = ops.name[op] == NameId::NONE && ops.in_collective(op);
            is_copy.then(|| self.of_call.get(&ops.call[op])).flatten()
        };
        self.of_op.get(&(op as u32)).or_else(by_call).map(|&at| at as usize)
    }
}
