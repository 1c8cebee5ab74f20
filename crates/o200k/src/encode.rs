//! Encoding of text to token ids.

use std::fmt;

use crate::cache::{Cache, Entry};
use crate::hash::EMPTY;
use crate::index::{self, Key};
use crate::merge::Merger;
use crate::merge_long::LongMerger;
use crate::merge_short;
use crate::pretokenize::piece_end;
use crate::special::{self, SpecialSet};

/// Encodes ordinary text.
///
/// Text that looks like a special never becomes the id of one. Time is linear for realistic text and
/// n log n in the worst case.
///
/// ```
/// let ids = logue_o200k::encode("Hello, world!");
/// assert_eq!(ids, [13225, 11, 2375, 0]);
/// let ids = logue_o200k::encode("<|start|>");
/// assert_eq!(ids, [27, 91, 5236, 91, 29]);
/// ```
pub fn encode(text: &str) -> Vec<u32> {
    Encoder::for_text(text).encode(text)
}

/// Encodes ordinary text and appends its ids to a list.
///
/// ```
/// let mut ids = vec![logue_o200k::special::START];
/// logue_o200k::encode_into("user", &mut ids);
/// assert_eq!(ids, [200_006, 1428]);
/// ```
pub fn encode_into(text: &str, ids: &mut Vec<u32>) {
    Encoder::for_text(text).encode_into(text, ids);
}

/// Encodes text in which the names of the specials in `allowed` become specials.
///
/// The text between two specials is encoded separately. The names of other specials are ordinary
/// text.
///
/// ```
/// use logue_o200k::{SpecialSet, encode_with_specials, special};
///
/// let ids = encode_with_specials("<|start|>user<|end|>", &SpecialSet::HARMONY);
/// assert_eq!(ids, [special::START, 1428, special::END]);
///
/// let only_end = SpecialSet::NONE.with(special::END);
/// let ids = encode_with_specials("<|start|>user<|end|>", &only_end);
/// assert_eq!(ids, [27, 91, 5236, 91, 29, 1428, special::END]);
/// ```
pub fn encode_with_specials(text: &str, allowed: &SpecialSet) -> Vec<u32> {
    Encoder::for_text(text).encode_with_specials(text, allowed)
}

/// Counts the tokens of [`encode`] without storing them.
///
/// ```
/// assert_eq!(logue_o200k::count("Hello, world!"), 4);
/// assert_eq!(logue_o200k::count(""), 0);
/// ```
pub fn count(text: &str) -> usize {
    Encoder::for_text(text).count(text)
}

/// Counts the tokens of [`encode_with_specials`] without storing them.
///
/// ```
/// use logue_o200k::{SpecialSet, count_with_specials};
///
/// assert_eq!(count_with_specials("<|start|>user<|end|>", &SpecialSet::HARMONY), 3);
/// assert_eq!(count_with_specials("<|start|>user<|end|>", &SpecialSet::NONE), 11);
/// ```
pub fn count_with_specials(text: &str, allowed: &SpecialSet) -> usize {
    Encoder::for_text(text).count_with_specials(text, allowed)
}

/// An encoder for many texts, with a cache of merged pieces.
///
/// The results equal those of the free functions. For short texts, such as the messages of a
/// conversation, it is up to twice as fast. It uses half a megabyte of memory.
///
/// ```
/// use logue_o200k::Encoder;
///
/// let mut encoder = Encoder::new();
/// let sizes = ["Hello, world!", "Hello again"].map(|text| encoder.count(text));
/// assert_eq!(sizes, [4, 2]);
/// ```
#[derive(Clone)]
pub struct Encoder {
    cache: Cache,
    merger: Merger,
    long_merger: LongMerger,
}

/// Length above which a piece is merged in parts, in bytes.
const MAX_UNSPLIT_LEN: usize = 64;

impl Encoder {
    /// Creates an encoder with an empty cache.
    pub fn new() -> Self {
        Self {
            cache: Cache::largest(),
            merger: Merger::new(),
            long_merger: LongMerger::default(),
        }
    }

    /// Encodes ordinary text, like the function [`encode`].
    ///
    /// ```
    /// let mut encoder = logue_o200k::Encoder::new();
    /// assert_eq!(encoder.encode("Hello, world!"), [13225, 11, 2375, 0]);
    /// ```
    pub fn encode(&mut self, text: &str) -> Vec<u32> {
        let mut ids = Vec::with_capacity(capacity(text));
        self.encode_into(text, &mut ids);
        ids
    }

    /// Encodes ordinary text and appends its ids, like the function [`encode_into`].
    ///
    /// ```
    /// let mut ids = vec![logue_o200k::special::START];
    /// logue_o200k::Encoder::new().encode_into("user", &mut ids);
    /// assert_eq!(ids, [200_006, 1428]);
    /// ```
    pub fn encode_into(&mut self, text: &str, ids: &mut Vec<u32>) {
        self.each(text, &mut |id| ids.push(id));
    }

    /// Encodes text with specials, like the function [`encode_with_specials`].
    ///
    /// ```
    /// use logue_o200k::{Encoder, SpecialSet, special};
    ///
    /// let ids = Encoder::new().encode_with_specials("user<|end|>", &SpecialSet::HARMONY);
    /// assert_eq!(ids, [1428, special::END]);
    /// ```
    pub fn encode_with_specials(&mut self, text: &str, allowed: &SpecialSet) -> Vec<u32> {
        let mut ids = Vec::with_capacity(capacity(text));
        self.each_with_specials(text, allowed, &mut |id| ids.push(id));
        ids
    }

    /// Counts the tokens of ordinary text, like the function [`count`].
    ///
    /// ```
    /// assert_eq!(logue_o200k::Encoder::new().count("Hello, world!"), 4);
    /// ```
    pub fn count(&mut self, text: &str) -> usize {
        let mut count = 0;
        self.each(text, &mut |_| count += 1);
        count
    }

    /// Counts the tokens of text with specials, like the function [`count_with_specials`].
    ///
    /// ```
    /// use logue_o200k::{Encoder, SpecialSet};
    ///
    /// assert_eq!(Encoder::new().count_with_specials("user<|end|>", &SpecialSet::HARMONY), 2);
    /// ```
    pub fn count_with_specials(&mut self, text: &str, allowed: &SpecialSet) -> usize {
        let mut count = 0;
        self.each_with_specials(text, allowed, &mut |_| count += 1);
        count
    }

    /// Creates an encoder for one text.
    fn for_text(text: &str) -> Self {
        Self {
            cache: Cache::for_text(text.len()),
            merger: Merger::new(),
            long_merger: LongMerger::default(),
        }
    }

    fn each_with_specials(&mut self, text: &str, allowed: &SpecialSet, sink: &mut impl FnMut(u32)) {
        let mut at = 0;
        while let Some((begin, id)) = special::next_in(text, at, allowed) {
            self.each(text.get(at..begin).unwrap_or_default(), sink);
            sink(id);
            at = begin + special::name(id).map_or(0, str::len);
        }
        self.each(text.get(at..).unwrap_or_default(), sink);
    }

    /// Passes the tokens of ordinary text to `sink`, in order.
    fn each(&mut self, text: &str, sink: &mut impl FnMut(u32)) {
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() {
            let end = piece_end(text, at);
            if end - at <= Key::MAX_LEN {
                self.short(text, at, end, sink);
            } else if let Some(id) = index::find(text, at, end) {
                sink(id);
            } else {
                self.long(text, at, end, sink);
            }
            at = end;
        }
    }

    /// Passes the tokens of a piece too long for the cache to `sink`.
    fn long(&mut self, text: &[u8], start: usize, end: usize, sink: &mut impl FnMut(u32)) {
        if end - start > MAX_UNSPLIT_LEN
            && let Some(ids) = self.long_merger.merge(&mut self.cache, text, start, end)
        {
            for &id in ids {
                sink(id);
            }
        } else {
            self.merger.merge(text, start, end, sink);
        }
    }

    /// Passes the tokens of a piece that fits into the cache to `sink`.
    #[inline]
    fn short(&mut self, text: &[u8], start: usize, end: usize, sink: &mut impl FnMut(u32)) {
        let key = Key::new(text, start, end);
        let id = key.id();
        if id != EMPTY {
            sink(id);
            return;
        }
        let slot = self.cache.slot(&key);
        if let Some(ids) = slot.tokens_of(&key) {
            for &id in ids {
                sink(id);
            }
        } else {
            let mut ids = [0; Entry::MAX_IDS];
            let mut count = 0;
            merge_short::merge(&key, |id| {
                if let Some(room) = ids.get_mut(count) {
                    *room = id;
                }
                count += 1;
                sink(id);
            });
            if let Some(ids) = ids.get(..count) {
                slot.store(&key, ids);
            }
        }
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encoder").finish_non_exhaustive()
    }
}

/// Returns a capacity that suffices for the tokens of most texts.
fn capacity(text: &str) -> usize {
    text.len() / 4 + 1
}
