//! The specials: ids that stand for structure, and never for ordinary text.

use std::ops::RangeInclusive;

use crate::table::{self, FIRST_SPECIAL, LAST_SPECIAL};

/// `<|startoftext|>`
pub const START_OF_TEXT: u32 = 199_998;
/// `<|endoftext|>`
pub const END_OF_TEXT: u32 = 199_999;
/// `<|return|>`: the model is done.
pub const RETURN: u32 = 200_002;
/// `<|constrain|>`: a content type follows.
pub const CONSTRAIN: u32 = 200_003;
/// `<|channel|>`: a channel's name follows.
pub const CHANNEL: u32 = 200_005;
/// `<|start|>`: a message's header follows.
pub const START: u32 = 200_006;
/// `<|end|>`: the message ends.
pub const END: u32 = 200_007;
/// `<|message|>`: the header ends, the body follows.
pub const MESSAGE: u32 = 200_008;
/// `<|call|>`: the message ends and calls a tool.
pub const CALL: u32 = 200_012;

/// How many specials there are: 1,091.
pub const COUNT: usize = (LAST_SPECIAL - FIRST_SPECIAL) as usize + 1;

/// The ids of all specials, `199998..=201088`.
pub const IDS: RangeInclusive<u32> = FIRST_SPECIAL..=LAST_SPECIAL;

/// Bytes of the longest name.
pub(crate) const LONGEST_NAME: usize = "<|reserved_200000|>".len();

/// Whether `id` is a special.
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

/// The name of a special, such as `<|start|>`, or nothing if `id` is none.
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

/// The special of this name, angle brackets and bars included.
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
    // The table has the last word: a reserved id that got a name is not reserved any more, and a
    // number has one spelling.
    (table::token(id)? == name).then_some(id)
}

/// A set of specials: which of them a text may contain as such.
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
    /// No special.
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

    /// The specials that Harmony messages are made of: `<|start|>`, `<|channel|>`, `<|constrain|>`,
    /// `<|message|>`, `<|end|>`, `<|call|>`, `<|return|>`.
    pub const HARMONY: Self = Self::NONE
        .with(START)
        .with(CHANNEL)
        .with(CONSTRAIN)
        .with(MESSAGE)
        .with(END)
        .with(CALL)
        .with(RETURN);

    /// The set with `id` in it; the same set if `id` is no special.
    #[must_use]
    pub const fn with(mut self, id: u32) -> Self {
        if is_special(id) {
            let place = (id - FIRST_SPECIAL) as usize;
            self.bits[place / 64] |= 1 << (place % 64);
        }
        self
    }

    /// Whether `id` is in the set.
    pub const fn contains(&self, id: u32) -> bool {
        if !is_special(id) {
            return false;
        }
        let place = (id - FIRST_SPECIAL) as usize;
        self.bits[place / 64] & (1 << (place % 64)) != 0
    }

    /// The members, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        IDS.filter(|&id| self.contains(id))
    }

    fn is_empty(&self) -> bool {
        self.bits.iter().all(|&bits| bits == 0)
    }
}

impl FromIterator<u32> for SpecialSet {
    /// The set of those ids that are specials.
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        ids.into_iter().fold(Self::NONE, Self::with)
    }
}

impl std::fmt::Debug for SpecialSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// The first special of `allowed` in `text` from byte `from` on: where it begins, and its id.
pub(crate) fn next_in(text: &str, from: usize, allowed: &SpecialSet) -> Option<(usize, u32)> {
    if allowed.is_empty() {
        return None;
    }
    let rest = text.get(from..)?;
    rest.match_indices("<|").find_map(|(at, _)| {
        let bytes = rest.as_bytes().get(at..)?;
        let bytes = bytes.get(..LONGEST_NAME).unwrap_or(bytes);
        // The end of the name; `<|>` has none of its own, its bar belongs to the opening.
        let end = bytes.windows(2).skip(2).position(|pair| pair == b"|>")? + 4;
        let id = id_of(bytes.get(..end)?)?;
        allowed.contains(id).then_some((from + at, id))
    })
}
