//! The BPE merge of a piece into tokens.
//!
//! The piece begins as single bytes. Of all neighbours that together form a token, those with the
//! lowest id are joined, the leftmost first, until no two neighbours form a token. A short piece
//! keeps all pairs in an array and searches the smallest each time. A long piece keeps them in a
//! heap, so that a hundred kilobytes of one letter cost n log n.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hash::EMPTY;
use crate::index::find;
use crate::table::{byte_id, pair_id};

/// Maximum length of a short piece in bytes; each has a bit in a word.
const SHORT: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 6;

/// Buffers for merging, reused from piece to piece.
#[derive(Clone)]
pub(crate) struct Merger {
    /// The join of each part with the next, at the first byte of the part.
    ///
    /// A join is `id * SHORT + place`, or `i32::MAX`, so the smallest one is next.
    joins: [i32; SHORT],
    /// The id of each part, at its first byte.
    ids: [u32; SHORT],
    long: Option<Box<Long>>,
}

#[derive(Clone, Default)]
struct Long {
    /// The length of each part at its first byte; zero elsewhere.
    ahead: Vec<u8>,
    /// The length of each part at its last byte.
    back: Vec<u8>,
    /// The joined id of each part and the next, at its first byte.
    joins: Vec<u32>,
    /// Joins by id, then place; an entry that differs from `joins` is outdated.
    heap: BinaryHeap<Reverse<u64>>,
}

const NONE: u32 = u32::MAX;
const LONG_PLACE_BITS: u32 = 40;

impl Merger {
    pub(crate) const fn new() -> Self {
        Self {
            joins: [i32::MAX; SHORT],
            ids: [0; SHORT],
            long: None,
        }
    }

    /// Passes the tokens of `text[start..end]` to `sink`, in order.
    pub(crate) fn merge(
        &mut self,
        text: &[u8],
        start: usize,
        end: usize,
        sink: &mut impl FnMut(u32),
    ) {
        if end - start <= SHORT {
            self.short(text, start, end, sink);
        } else {
            let long = self.long.get_or_insert_default();
            long.merge(text, start, end, sink);
        }
    }

    fn short(&mut self, text: &[u8], start: usize, end: usize, sink: &mut impl FnMut(u32)) {
        let length = end - start;
        let join = |from: usize, to: usize| match find(text, start + from, start + to) {
            Some(id) => pack(id, from),
            None => i32::MAX,
        };
        let piece = &text[start..end];
        for (id, &byte) in self.ids.iter_mut().zip(piece) {
            *id = byte_id(byte);
        }
        for (at, (entry, pair)) in self.joins.iter_mut().zip(piece.array_windows()).enumerate() {
            *entry = match pair_id(*pair) {
                EMPTY => i32::MAX,
                id => pack(id, at),
            };
        }
        self.joins[length - 1] = i32::MAX;
        let padded = length.next_multiple_of(8);
        self.joins[length..padded].fill(i32::MAX);

        // A set bit marks the first byte of a part.
        let mut parts = u64::MAX >> (SHORT - length);
        let after = |parts: u64, at: usize| match (parts >> at) >> 1 {
            0 => length,
            following => at + 1 + following.trailing_zeros() as usize,
        };
        loop {
            let least = smallest(&self.joins[..padded]);
            if least == i32::MAX {
                break;
            }
            let (id, at) = unpack(least);
            self.ids[at] = id;
            let gone = after(parts, at);
            parts &= !(1 << gone);
            self.joins[gone] = i32::MAX;
            let next = after(parts, at);
            self.joins[at] = if next < length {
                join(at, after(parts, next))
            } else {
                i32::MAX
            };
            let before = parts & ((1 << at) - 1);
            if before != 0 {
                let previous = before.ilog2() as usize;
                self.joins[previous] = join(previous, next);
            }
        }
        while parts != 0 {
            sink(self.ids[parts.trailing_zeros() as usize]);
            parts &= parts - 1;
        }
    }
}

/// Packs a join of a short piece: the id above the place, in a signed word.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a place in a short piece has six bits"
)]
fn pack(id: u32, at: usize) -> i32 {
    (id << PLACE_BITS | at as u32).cast_signed()
}

#[inline]
fn unpack(join: i32) -> (u32, usize) {
    let join = join.cast_unsigned();
    (join >> PLACE_BITS, join as usize % SHORT)
}

/// Returns the smallest join; their number is a multiple of eight.
///
/// Works lane by lane, which compiles to vector code.
fn smallest(joins: &[i32]) -> i32 {
    let mut lanes = [i32::MAX; 8];
    for chunk in joins.as_chunks::<8>().0 {
        for (lane, &join) in lanes.iter_mut().zip(chunk) {
            *lane = join.min(*lane);
        }
    }
    lanes.into_iter().min().unwrap_or(i32::MAX)
}

impl Long {
    fn merge(&mut self, text: &[u8], start: usize, end: usize, sink: &mut impl FnMut(u32)) {
        let length = end - start;
        self.ahead.clear();
        self.ahead.resize(length, 1);
        self.back.clear();
        self.back.resize(length, 1);
        self.joins.clear();
        let pairs = (0..length - 1).map(|at| find(text, start + at, start + at + 2));
        self.joins.extend(pairs.map(|id| id.unwrap_or(NONE)));
        self.joins.push(NONE);
        let mut heap = std::mem::take(&mut self.heap).into_vec();
        heap.clear();
        let joins = self.joins.iter().enumerate();
        heap.extend(
            joins
                .filter(|&(_, &id)| id != NONE)
                .map(|(at, &id)| entry(id, at)),
        );
        self.heap = BinaryHeap::from(heap);

        while let Some(Reverse(least)) = self.heap.pop() {
            let at = (least & ((1 << LONG_PLACE_BITS) - 1)) as usize;
            if u64::from(self.joins[at]) != least >> LONG_PLACE_BITS {
                continue;
            }
            let gone = at + usize::from(self.ahead[at]);
            let next = gone + usize::from(self.ahead[gone]);
            let joined = self.ahead[at] + self.ahead[gone];
            self.ahead[gone] = 0;
            self.joins[gone] = NONE;
            self.ahead[at] = joined;
            self.back[next - 1] = joined;
            let after = if next < length {
                next + usize::from(self.ahead[next])
            } else {
                next
            };
            self.record_join(text, start, at, next, after);
            if at > 0 {
                let previous = at - usize::from(self.back[at - 1]);
                self.record_join(text, start, previous, at, next);
            }
        }
        let mut at = 0;
        while at < length {
            let next = at + usize::from(self.ahead[at]);
            sink(find(text, start + at, start + next).unwrap_or_default());
            at = next;
        }
    }

    /// Records the join of the part at `at` with the part from `middle` to `end`.
    #[inline]
    fn record_join(&mut self, text: &[u8], start: usize, at: usize, middle: usize, end: usize) {
        let id = if middle < end {
            find(text, start + at, start + end)
        } else {
            None
        };
        self.joins[at] = id.unwrap_or(NONE);
        if let Some(id) = id {
            self.heap.push(entry(id, at));
        }
    }
}

#[inline]
fn entry(id: u32, at: usize) -> Reverse<u64> {
    Reverse(u64::from(id) << LONG_PLACE_BITS | at as u64)
}
