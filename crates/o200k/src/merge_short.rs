//! The BPE merge of pieces of up to sixteen bytes, which are nearly all pieces.
//!
//! The algorithm is that of `merge`, with the piece in registers and the joins of neighbours in
//! sixteen slots. The smallest slot is found without a branch.

use crate::hash::EMPTY;
use crate::index::Key;
use crate::table::{byte_id, pair_id};

/// Slots of a piece.
const PLACES: usize = Key::MAX_LEN;
/// Bits of a join for the slot; the id is above them.
const PLACE_BITS: u32 = 4;
/// The join of two neighbours that do not form a token, larger than any other.
///
/// Joins are double words: a scalar minimum over them is faster than a vector load of words that
/// were just stored.
const NONE: u64 = u64::MAX;

/// Passes the tokens of a piece to `sink`, in order.
pub(crate) fn merge(piece: &Key, mut sink: impl FnMut(u32)) {
    let length = piece.length;
    let bytes = piece.bytes();
    let join = |from: usize, to: usize| {
        let id = Key::from_bytes(bytes >> (from * 8), to - from).id();
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

    // A set bit marks the first byte of a part; the bit after the piece ends the last part.
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

/// Returns the slot of the first part after `at`.
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
    reason = "an id and a slot have 22 bits"
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
