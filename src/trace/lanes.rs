//! Which track a slice is drawn on. Viewers draw what lies inside of another slice below it, and drop what overlaps it in part:
//! so slices that overlap stand on several tracks of their lane.

use std::collections::BTreeMap;

use crate::model::{Ns, Span};

/// Tracks of one lane, at most.
pub const MOST_TRACKS: usize = 64;
/// Slices inside of each other on one track, at most: viewers stop at 512.
const MOST_DEEP: usize = 256;

/// Whether slices of a lane may lie inside of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Side by side only: operations, of which none is a part of another one.
    Flat,
    /// Inside of each other too: ranges and calls of a thread.
    Nested,
}

/// The tracks of one lane.
#[derive(Debug)]
struct Lane {
    shape: Shape,
    tracks: Vec<Track>,
}

#[derive(Debug, Default)]
struct Track {
    /// Its number in the file.
    tid: u32,
    /// Ends of the slices that are open, outermost first.
    open: Vec<Ns>,
}

impl Track {
    /// Takes a slice, if it fits. Slices come in order of their start, of equal ones the longest first.
    fn take(&mut self, shape: Shape, span: Span) -> bool {
        while self.open.last().is_some_and(|&end| end <= span.start) {
            self.open.pop();
        }
        let fits = match (shape, self.open.last()) {
            (_, None) => true,
            (Shape::Flat, Some(_)) => false,
            (Shape::Nested, Some(&end)) => span.end <= end && self.open.len() < MOST_DEEP,
        };
        if fits {
            self.open.push(span.end);
        }
        fits
    }
}

/// Where a slice is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// On this track.
    On(u32),
    /// On this track, which is new: the so-manyth of its lane, from 0.
    OnNew(u32, usize),
    /// Nowhere: too many run at once.
    Nowhere,
}

/// The lanes of one process, by what tells them apart.
#[derive(Debug)]
pub struct Lanes<K> {
    lanes: BTreeMap<K, Lane>,
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Lanes<K> {
    /// Finds a track of the lane `key` for a slice; `next` gives the number of a new one.
    pub fn place(
        &mut self,
        key: K,
        shape: Shape,
        span: Span,
        next: impl FnOnce() -> u32,
    ) -> Placed {
        let lane = self.lanes.entry(key).or_insert_with(|| Lane { shape, tracks: Vec::new() });
        let shape = lane.shape;
        if let Some(track) =
            lane.tracks.iter_mut().find_map(|t| t.take(shape, span).then_some(t.tid))
        {
            return Placed::On(track);
        }
        let at = lane.tracks.len();
        if at >= MOST_TRACKS {
            return Placed::Nowhere;
        }
        let tid = next();
        lane.tracks.push(Track { tid, open: vec![span.end] });
        Placed::OnNew(tid, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places spans in order; gives for each the position of its track.
    fn placed(shape: Shape, spans: &[(Ns, Ns)]) -> Vec<u32> {
        let mut lanes = Lanes::default();
        let mut made = 0;
        let place = |&(start, end): &(Ns, Ns)| {
            let next = || {
                made += 1;
                made - 1
            };
            match lanes.place((), shape, Span::new(start, end), next) {
                Placed::On(tid) | Placed::OnNew(tid, _) => tid,
                Placed::Nowhere => u32::MAX,
            }
        };
        spans.iter().map(place).collect()
    }

    // a [0      10)
    // b    [5      15)   overlaps a: second track
    // c           [10 20)  a is over: first track
    // d             [12 14)  inside of c and b: third track
    // e                 [15 16) b is over
    #[test]
    fn operations_that_overlap_stand_on_several_tracks() {
        let spans = [(0, 10), (5, 15), (10, 20), (12, 14), (15, 16)];
        assert_eq!(placed(Shape::Flat, &spans), [0, 1, 0, 2, 1]);
    }

    // a [0              20)
    // b    [5   10)          inside of a
    // c      [7     12)      inside of a, overlaps b in part: second track
    // d         [10 11)      inside of a after b
    // e                 [20 30) after a
    #[test]
    fn ranges_inside_of_each_other_stay_together() {
        let spans = [(0, 20), (5, 10), (7, 12), (10, 11), (20, 30)];
        assert_eq!(placed(Shape::Nested, &spans), [0, 0, 1, 0, 0]);
    }

    // Without length, at the borders of others: no overlap.
    #[test]
    fn slices_without_length_overlap_nothing() {
        assert_eq!(placed(Shape::Flat, &[(5, 5), (5, 9), (9, 9), (9, 12)]), [0, 0, 0, 0]);
        assert_eq!(placed(Shape::Nested, &[(0, 9), (5, 5), (5, 5)]), [0, 0, 0]);
    }

    #[test]
    fn tracks_of_a_lane_are_bounded() {
        let spans: Vec<(Ns, Ns)> = (0..100).map(|i| (i, 1000)).collect();
        let tracks = placed(Shape::Flat, &spans);
        assert_eq!(tracks.iter().filter(|&&t| t == u32::MAX).count(), 100 - MOST_TRACKS);
    }
}
