//! A piece that is no token by itself becomes several.
//!
//! The piece begins as single bytes. Of all neighbours that together are a token, those with the
//! lowest id are joined, the leftmost first, until no two neighbours are a token. Two ways lead to
//! the same result: a short piece keeps all pairs in an array and looks for the smallest each time,
//! a long one keeps them in a heap, so that a hundred kilobytes of one letter cost n log n.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hash::EMPTY;
use crate::index::find;
use crate::table::{byte_id, pair_id};

/// Bytes of the longest piece that takes the short way: a bit each in a word.
const SHORT: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 6;

/// Room for merging, kept from piece to piece.
#[derive(Clone)]
pub(crate) struct Merger {
    /// For each byte where a part begins, what joining it with the next part gives, as
    /// `id * SHORT + place`, or `i32::MAX`. The smallest entry is thus the next to join.
    joins: [i32; SHORT],
    /// For each byte where a part begins, the part's id.
    ids: [u32; SHORT],
    long: Option<Box<Long>>,
}

#[derive(Clone, Default)]
struct Long {
    /// For each byte where a part begins, the part's length; elsewhere zero.
    ahead: Vec<u8>,
    /// For each byte where a part ends, the part's length.
    back: Vec<u8>,
    /// For each byte where a part begins, the id that joining it with the next gives, or `NONE`.
    joins: Vec<u32>,
    /// Joins by id, then place. An entry that `joins` no longer confirms is out of date.
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

    /// Gives the tokens of `text[start..end]` to `sink`, in order.
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

        // A set bit is a part's first byte.
        let mut parts = u64::MAX >> (SHORT - length);
        let after = |parts: u64, at: usize| match (parts >> at) >> 1 {
            0 => length,
            rest => at + 1 + rest.trailing_zeros() as usize,
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

/// A join of a short piece: the id above the place, of which a signed word has room for both.
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

/// The smallest of some joins, as many as a multiple of eight: lane by lane, which becomes vector
/// code.
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
            self.look(text, start, at, next, after);
            if at > 0 {
                let previous = at - usize::from(self.back[at - 1]);
                self.look(text, start, previous, at, next);
            }
        }
        let mut at = 0;
        while at < length {
            let next = at + usize::from(self.ahead[at]);
            sink(find(text, start + at, start + next).unwrap_or_default());
            at = next;
        }
    }

    /// Notes what the part at `at` and the one from `middle` to `end` give together.
    #[inline]
    fn look(&mut self, text: &[u8], start: usize, at: usize, middle: usize, end: usize) {
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
