//! Merging a long piece sixteen bytes at a time.
//!
//! Tokens side by side are what merging gives if any two neighbours are what merging just their
//! bytes gives: the first join that reached across a border of theirs would be made with the two
//! alone as well. So the tokens of a window are kept but for the last one, of which the window may
//! have shown a part only; the next window begins there, and its first token and the last one kept
//! are merged by themselves to see whether they stay what they are. If they do not, the last one is
//! taken back. What windows become is looked up where words are kept, so a piece that repeats itself
//! is quick.
//!
//! This suits letters, whose tokens are short. If tokens are as long as the window, or too many are
//! taken back, it gives up; `merge` has a way for any piece.

use crate::brief;
use crate::cache::{Cache, Entry};
use crate::index::Key;
use crate::table;

/// Tokens that may be taken back before it gives up.
const PATIENCE: usize = 8;
/// Bytes of the piece that let one more token be taken back, so that the time stays linear.
const EARNING: usize = 16;

/// The tokens of a long piece, and room for them.
#[derive(Clone, Default)]
pub(crate) struct Windows {
    ids: Vec<u32>,
}

impl Windows {
    /// The tokens of `text[start..end]`, or nothing if this is not the way to find them.
    pub(crate) fn merge(
        &mut self,
        cache: &mut Cache,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Option<&[u32]> {
        self.ids.clear();
        let mut at = start;
        let mut back = 0;
        loop {
            let stop = end.min(at + Key::LONGEST);
            let window = Tokens::of(text, at, stop, cache);
            let [tokens @ .., last] = window.ids() else {
                return None;
            };
            if let Some(&before) = self.ids.last() {
                let first = tokens.first().unwrap_or(last);
                let left = length(before);
                let right = length(*first);
                if left + right > Key::LONGEST {
                    return None;
                }
                let pair = Tokens::of(text, at - left, at + right, cache);
                if pair.ids() != [before, *first] {
                    self.ids.pop();
                    at -= left;
                    back += 1;
                    if back > PATIENCE + (at - start) / EARNING {
                        return None;
                    }
                    continue;
                }
            }
            self.ids.extend_from_slice(tokens);
            if stop == end {
                self.ids.push(*last);
                return Some(&self.ids);
            }
            if tokens.is_empty() {
                return None;
            }
            at = stop - length(*last);
        }
    }
}

/// Bytes of a token.
fn length(id: u32) -> usize {
    table::bounds(id).map_or(0, |(begin, end)| end - begin)
}

/// What merging up to sixteen bytes gives.
struct Tokens {
    ids: [u32; Key::LONGEST],
    count: usize,
}

impl Tokens {
    fn of(text: &[u8], start: usize, end: usize, cache: &mut Cache) -> Self {
        let mut all = Self {
            ids: [0; Key::LONGEST],
            count: 0,
        };
        let key = Key::new(text, start, end);
        let place = cache.place(&key);
        if let Some(ids) = place.of(&key) {
            for &id in ids {
                all.push(id);
            }
        } else {
            brief::merge(&key, |id| all.push(id));
            if all.count <= Entry::MOST_IDS {
                place.keep(&key, all.ids());
            }
        }
        all
    }

    #[inline]
    fn push(&mut self, id: u32) {
        if let Some(room) = self.ids.get_mut(self.count) {
            *room = id;
            self.count += 1;
        }
    }

    #[inline]
    fn ids(&self) -> &[u32] {
        self.ids.get(..self.count).unwrap_or_default()
    }
}
