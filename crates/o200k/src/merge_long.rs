//! The BPE merge of long pieces, in windows of sixteen bytes.
//!
//! A sequence of tokens is the merge of its bytes if each two neighbours are the merge of their
//! bytes: the first join across a boundary would also occur with these two alone. The tokens of a
//! window are therefore kept except the last one, which the window may have cut. The next window
//! begins there. Its first token and the last kept token are merged separately to verify the
//! boundary; if they change, the last kept token is removed. Windows use the cache of words, so a
//! repetitive piece is fast.
//!
//! The method suits letters, whose tokens are short. It gives up if tokens are as long as the window
//! or too many are removed; `merge` handles every piece.

use crate::cache::{Cache, Entry};
use crate::index::Key;
use crate::merge_short;
use crate::table;

/// Removed tokens after which the method gives up.
const MAX_REMOVED: usize = 8;
/// Bytes per additional removal, which keeps the time linear.
const BYTES_PER_REMOVAL: usize = 16;

/// The buffer of long merges.
#[derive(Clone, Default)]
pub(crate) struct LongMerger {
    ids: Vec<u32>,
}

impl LongMerger {
    /// Returns the tokens of `text[start..end]`, or `None` if the method gives up.
    pub(crate) fn merge(
        &mut self,
        cache: &mut Cache,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Option<&[u32]> {
        self.ids.clear();
        let mut at = start;
        let mut removed = 0;
        loop {
            let stop = end.min(at + Key::MAX_LEN);
            let window = Tokens::merge(text, at, stop, cache);
            let [tokens @ .., last] = window.ids() else {
                return None;
            };
            if let Some(&before) = self.ids.last() {
                let first = tokens.first().unwrap_or(last);
                let left = length(before);
                let right = length(*first);
                if left + right > Key::MAX_LEN {
                    return None;
                }
                let pair = Tokens::merge(text, at - left, at + right, cache);
                if pair.ids() != [before, *first] {
                    self.ids.pop();
                    at -= left;
                    removed += 1;
                    if removed > MAX_REMOVED + (at - start) / BYTES_PER_REMOVAL {
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

/// Returns the length of a token in bytes.
fn length(id: u32) -> usize {
    table::bounds(id).map_or(0, |(begin, end)| end - begin)
}

/// The tokens of up to sixteen bytes.
struct Tokens {
    ids: [u32; Key::MAX_LEN],
    count: usize,
}

impl Tokens {
    fn merge(text: &[u8], start: usize, end: usize, cache: &mut Cache) -> Self {
        let mut all = Self {
            ids: [0; Key::MAX_LEN],
            count: 0,
        };
        let key = Key::new(text, start, end);
        let slot = cache.slot(&key);
        if let Some(ids) = slot.tokens_of(&key) {
            for &id in ids {
                all.push(id);
            }
        } else {
            merge_short::merge(&key, |id| all.push(id));
            if all.count <= Entry::MAX_IDS {
                slot.store(&key, all.ids());
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
