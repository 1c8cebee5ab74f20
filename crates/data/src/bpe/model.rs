//! The vocabulary and the merges.

use super::cache::PieceHasher;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;

pub(super) type Table<K, V> = HashMap<K, V, BuildHasherDefault<PieceHasher>>;

/// Pieces up to this length are merged by repeated search.
const SHORT: usize = 40;

/// A merge of two tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Merge {
    pub(super) rank: u32,
    pub(super) id: u32,
}

/// The tokens of ordinary text.
pub(super) struct Model {
    /// The token of each single byte.
    pub(super) bytes: [u32; 256],
    /// The ids of whole pieces; empty unless the file says `ignore_merges`.
    pub(super) pieces: Table<Box<[u8]>, u32>,
    /// The merges, by the ids of both sides.
    pub(super) merges: Table<u64, Merge>,
    /// The length of each token in bytes.
    pub(super) lengths: Vec<u32>,
}

/// Returns the key of a pair in the table of merges.
pub(super) fn pair(left: u32, right: u32) -> u64 {
    (u64::from(left) << 32) | u64::from(right)
}

impl Model {
    /// Returns the length of a token in bytes.
    pub(super) fn length(&self, id: u32) -> usize {
        let length = usize::try_from(id).ok().and_then(|id| self.lengths.get(id));
        length.map_or(0, |length| *length as usize)
    }

    /// Appends the ids of a piece.
    pub(super) fn encode(&self, piece: &[u8], ids: &mut Vec<u32>) {
        if let Some(&id) = self.pieces.get(piece) {
            ids.push(id);
            return;
        }
        let first = ids.len();
        ids.extend(
            piece
                .iter()
                .filter_map(|byte| self.bytes.get(usize::from(*byte))),
        );
        if piece.len() <= SHORT {
            self.merge_short(first, ids);
        } else {
            self.merge_long(first, ids);
        }
    }

    fn merge_of(&self, left: u32, right: u32) -> Option<Merge> {
        self.merges.get(&pair(left, right)).copied()
    }

    /// Applies the first merge of the lowest rank until there is none.
    fn merge_short(&self, first: usize, ids: &mut Vec<u32>) {
        let mut ranks: [Option<Merge>; SHORT] = [None; SHORT];
        let mut length = ids.len() - first;
        let Some(tokens) = ids.get_mut(first..) else {
            return;
        };
        for (place, two) in ranks.iter_mut().zip(tokens.windows(2)) {
            if let [left, right] = two {
                *place = self.merge_of(*left, *right);
            }
        }
        loop {
            let count = length.saturating_sub(1);
            let found = ranks.iter().take(count).enumerate();
            let found = found.filter_map(|(at, merge)| merge.map(|merge| (merge.rank, at, merge)));
            let Some((_, at, merge)) = found.min() else {
                break;
            };
            tokens.copy_within(at + 2..length, at + 1);
            ranks.copy_within((at + 1).min(SHORT)..count, at);
            length -= 1;
            if let Some(token) = tokens.get_mut(at) {
                *token = merge.id;
            }
            for left in [at.checked_sub(1), Some(at)].into_iter().flatten() {
                let two = tokens.get(left..(left + 2).min(length));
                if let Some(place) = ranks.get_mut(left) {
                    *place = match two {
                        Some([left, right]) => self.merge_of(*left, *right),
                        _ => None,
                    };
                }
            }
        }
        ids.truncate(first + length);
    }

    /// Applies the same merges with a queue, for pieces of any length.
    fn merge_long(&self, first: usize, ids: &mut Vec<u32>) {
        const END: usize = usize::MAX;
        struct Symbol {
            id: u32,
            previous: usize,
            next: usize,
            is_gone: bool,
        }
        let tokens = ids.split_off(first);
        let count = tokens.len();
        let mut symbols: Vec<Symbol> = tokens
            .iter()
            .enumerate()
            .map(|(at, id)| Symbol {
                id: *id,
                previous: at.checked_sub(1).unwrap_or(END),
                next: if at + 1 < count { at + 1 } else { END },
                is_gone: false,
            })
            .collect();
        let mut queue = BinaryHeap::new();
        for (at, two) in tokens.windows(2).enumerate() {
            if let [left, right] = two
                && let Some(merge) = self.merge_of(*left, *right)
            {
                queue.push(Reverse((merge.rank, at, *left, *right, merge.id)));
            }
        }
        while let Some(Reverse((_, at, left, right, id))) = queue.pop() {
            let Some(symbol) = symbols.get(at) else {
                continue;
            };
            let (next, previous) = (symbol.next, symbol.previous);
            if symbol.is_gone || symbol.id != left {
                continue;
            }
            let Some(other) = symbols.get_mut(next).filter(|other| other.id == right) else {
                continue;
            };
            other.is_gone = true;
            let after = other.next;
            if let Some(symbol) = symbols.get_mut(at) {
                symbol.id = id;
                symbol.next = after;
            }
            if let Some(symbol) = symbols.get_mut(after) {
                symbol.previous = at;
                if let Some(merge) = self.merge_of(id, symbol.id) {
                    queue.push(Reverse((merge.rank, at, id, symbol.id, merge.id)));
                }
            }
            if let Some(symbol) = symbols.get(previous)
                && let Some(merge) = self.merge_of(symbol.id, id)
            {
                queue.push(Reverse((merge.rank, previous, symbol.id, id, merge.id)));
            }
        }
        ids.extend(
            symbols
                .iter()
                .filter(|symbol| !symbol.is_gone)
                .map(|symbol| symbol.id),
        );
    }
}
