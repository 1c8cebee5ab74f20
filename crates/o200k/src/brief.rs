//! Merging a piece of up to sixteen bytes, which is what nearly every piece has.
//!
//! The way is that of `merge`, but the piece lies in registers and the joins of its neighbours in
//! sixteen places, of which the smallest is found without a branch.

use crate::hash::EMPTY;
use crate::index::Key;
use crate::table::{byte_id, pair_id};

/// Places of a piece.
const PLACES: usize = Key::LONGEST;
/// Bits of a join that hold the place; above them is the id.
const PLACE_BITS: u32 = 4;
/// The join of two neighbours that are no token. Larger than any other; like all of them, a double
/// word, because the processor finds the smallest of these one by one faster than it reads what was
/// just written as vectors.
const NONE: u64 = u64::MAX;

/// Gives the tokens of a piece to `sink`, in order.
pub(crate) fn merge(piece: &Key, mut sink: impl FnMut(u32)) {
    let length = piece.length;
    let bytes = piece.bytes();
    let join = |from: usize, to: usize| {
        let id = Key::of(bytes >> (from * 8), to - from).id();
        pack(id, from)
    };
    let all = bytes.to_le_bytes();
    let mut ids = [0; PLACES];
    let mut joins = [NONE; PLACES];
    for (id, &byte) in ids.iter_mut().zip(&all).take(length) {
        *id = byte_id(byte);
    }
    let pairs = all.array_windows().take(length - 1);
    for (at, (entry, pair)) in joins.iter_mut().zip(pairs).enumerate() {
        *entry = pack(pair_id(*pair), at);
    }

    // A set bit is a part's first byte; the one behind the piece ends the last part.
    let mut parts = (2_u32 << length) - 1;
    loop {
        let least = smallest(&joins);
        if least == NONE {
            break;
        }
        let (id, at) = unpack(least);
        ids[at] = id;
        let gone = after(parts, at);
        parts &= !(1 << gone);
        joins[gone % PLACES] = NONE;
        let next = after(parts, at);
        joins[at] = if next < length {
            join(at, after(parts, next))
        } else {
            NONE
        };
        let before = parts & ((1 << at) - 1);
        if before != 0 {
            let previous = before.ilog2() as usize;
            joins[previous] = join(previous, next);
        }
    }
    parts &= (1 << length) - 1;
    while parts != 0 {
        sink(ids[parts.trailing_zeros() as usize % PLACES]);
        parts &= parts - 1;
    }
}

/// The place of the first part after `at`.
#[inline]
fn after(parts: u32, at: usize) -> usize {
    (parts & (u32::MAX << 1 << at)).trailing_zeros() as usize
}

#[inline]
fn pack(id: u32, at: usize) -> u64 {
    if id == EMPTY {
        NONE
    } else {
        u64::from(id << PLACE_BITS) | at as u64
    }
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "an id and a place have 22 bits"
)]
fn unpack(join: u64) -> (u32, usize) {
    ((join >> PLACE_BITS) as u32, join as usize % PLACES)
}

#[inline]
fn smallest(joins: &[u64; PLACES]) -> u64 {
    let mut lanes = [NONE; 4];
    for four in joins.as_chunks::<4>().0 {
        for (lane, &join) in lanes.iter_mut().zip(four) {
            *lane = join.min(*lane);
        }
    }
    let [a, b, c, d] = lanes;
    a.min(b).min(c.min(d))
}
