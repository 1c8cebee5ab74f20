//! The special tokens: ids for structure, never for ordinary text.

use std::ops::RangeInclusive;

use crate::table::{self, FIRST_SPECIAL, LAST_SPECIAL};

/// The id of `<|startoftext|>`.
pub const START_OF_TEXT: u32 = 199_998;
/// The id of `<|endoftext|>`.
pub const END_OF_TEXT: u32 = 199_999;
/// The id of `<|return|>`, which ends the answer of the model.
pub const RETURN: u32 = 200_002;
/// The id of `<|constrain|>`, before a content type.
pub const CONSTRAIN: u32 = 200_003;
/// The id of `<|channel|>`, before the name of a channel.
pub const CHANNEL: u32 = 200_005;
/// The id of `<|start|>`, before the header of a message.
pub const START: u32 = 200_006;
/// The id of `<|end|>`, which ends a message.
pub const END: u32 = 200_007;
/// The id of `<|message|>`, between header and body.
pub const MESSAGE: u32 = 200_008;
/// The id of `<|call|>`, which ends a message that calls a tool.
pub const CALL: u32 = 200_012;

/// The number of specials, 1,091.
pub const COUNT: usize = (LAST_SPECIAL - FIRST_SPECIAL) as usize + 1;

/// The ids of all specials, `199998..=201088`.
pub const IDS: RangeInclusive<u32> = FIRST_SPECIAL..=LAST_SPECIAL;

/// Maximum length of a name in bytes.
pub(crate) const MAX_NAME_LEN: usize = "<|reserved_200000|>".len();

/// Returns whether `id` is a special.
///
/// ```
/// use logue_o200k::special;
///
/// assert!(special::is_special(special::START));
/// assert!(!special::is_special(13));
/// assert!(!special::is_special(201_089));
/// ```
pub const fn is_special(id: u32) -> bool {
    *IDS.start() <= id && id <= *IDS.end()
}

/// Returns the name of a special, such as `<|start|>`.
///
/// Returns `None` if `id` is not a special.
///
/// ```
/// use logue_o200k::special;
///
/// assert_eq!(special::name(200_006), Some("<|start|>"));
/// assert_eq!(special::name(201_088), Some("<|reserved_201088|>"));
/// assert_eq!(special::name(13), None);
/// ```
pub fn name(id: u32) -> Option<&'static str> {
    if !is_special(id) {
        return None;
    }
    std::str::from_utf8(table::token(id)?).ok()
}

/// Returns the special with this name, angle brackets and bars included.
///
/// ```
/// use logue_o200k::special;
///
/// assert_eq!(special::id("<|start|>"), Some(special::START));
/// assert_eq!(special::id("start"), None);
/// assert_eq!(special::id("<|reserved_200006|>"), None);
/// ```
pub fn id(name: &str) -> Option<u32> {
    id_of(name.as_bytes())
}

pub(crate) fn id_of(name: &[u8]) -> Option<u32> {
    let inner = name.strip_prefix(b"<|")?.strip_suffix(b"|>")?;
    let id = match inner {
        b"startoftext" => START_OF_TEXT,
        b"endoftext" => END_OF_TEXT,
        b"return" => RETURN,
        b"constrain" => CONSTRAIN,
        b"channel" => CHANNEL,
        b"start" => START,
        b"end" => END,
        b"message" => MESSAGE,
        b"call" => CALL,
        _ => {
            let digits = inner.strip_prefix(b"reserved_")?;
            let id = std::str::from_utf8(digits).ok()?.parse().ok()?;
            if !is_special(id) {
                return None;
            }
            id
        }
    };
    // The table decides: a reserved id with a name is no longer reserved, and a number has one
    // spelling.
    (table::token(id)? == name).then_some(id)
}

/// A set of specials that a text may contain.
///
/// ```
/// use logue_o200k::SpecialSet;
/// use logue_o200k::special::{END, START};
///
/// const FRAME: SpecialSet = SpecialSet::NONE.with(START).with(END);
/// assert!(FRAME.contains(START));
/// assert!(!FRAME.contains(200_002));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpecialSet {
    bits: [u64; COUNT.div_ceil(64)],
}

impl SpecialSet {
    /// The empty set.
    pub const NONE: Self = Self {
        bits: [0; COUNT.div_ceil(64)],
    };

    /// Every special, the reserved ones included.
    pub const ALL: Self = {
        let mut set = Self::NONE;
        let mut id = FIRST_SPECIAL;
        while is_special(id) {
            set = set.with(id);
            id += 1;
        }
        set
    };

    /// The specials of Harmony messages.
    ///
    /// These are `<|start|>`, `<|channel|>`, `<|constrain|>`, `<|message|>`, `<|end|>`, `<|call|>` and
    /// `<|return|>`.
    pub const HARMONY: Self = Self::NONE
        .with(START)
        .with(CHANNEL)
        .with(CONSTRAIN)
        .with(MESSAGE)
        .with(END)
        .with(CALL)
        .with(RETURN);

    /// Adds `id` to the set, if it is a special.
    #[must_use]
    pub const fn with(mut self, id: u32) -> Self {
        if is_special(id) {
            let place = (id - FIRST_SPECIAL) as usize;
            self.bits[place / 64] |= 1 << (place % 64);
        }
        self
    }

    /// Returns whether `id` is in the set.
    pub const fn contains(&self, id: u32) -> bool {
        if !is_special(id) {
            return false;
        }
        let place = (id - FIRST_SPECIAL) as usize;
        self.bits[place / 64] & (1 << (place % 64)) != 0
    }

    /// Returns the members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        IDS.filter(|&id| self.contains(id))
    }

    fn is_empty(&self) -> bool {
        self.bits.iter().all(|&bits| bits == 0)
    }
}

impl FromIterator<u32> for SpecialSet {
    /// Collects the specials among the ids.
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        ids.into_iter().fold(Self::NONE, Self::with)
    }
}

impl std::fmt::Debug for SpecialSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// Returns the first special of `allowed` in `text` from byte `from`, with its offset.
pub(crate) fn next_in(text: &str, from: usize, allowed: &SpecialSet) -> Option<(usize, u32)> {
    if allowed.is_empty() {
        return None;
    }
    let remaining = text.get(from..)?;
    remaining.match_indices("<|").find_map(|(at, _)| {
        let bytes = remaining.as_bytes().get(at..)?;
        let bytes = bytes.get(..MAX_NAME_LEN).unwrap_or(bytes);
        // The end of the name. The bar of `<|>` belongs to the opening.
        let end = bytes.windows(2).skip(2).position(|pair| pair == b"|>")? + 4;
        let id = id_of(bytes.get(..end)?)?;
        allowed.contains(id).then_some((from + at, id))
    })
}
