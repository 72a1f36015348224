//! An inspection with what its CSV and pictures are made of: rows too many for JSON.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use super::operations::Operations;
use super::view::Inspection;

/// Bus bandwidths (decimal GB/s) of an operation and size with their counts, from the lowest.
pub type BandwidthCounts = Vec<(f64, u64)>;

/// What was read, summed up, and the operations behind it. Its JSON is that of the view.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspected {
    /// The numbers.
    pub view: Inspection,
    /// Origins (file, index in it) whose records stand in another file too.
    pub left_out: BTreeSet<(usize, usize)>,
    /// One entry for each operation and rank behind `compared_one_in`.
    pub seen: Operations,
    /// For each communicator of the view and each of its operations.
    pub bandwidths: Vec<Vec<BandwidthCounts>>,
}

impl Serialize for Inspected {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.view.serialize(to)
    }
}
