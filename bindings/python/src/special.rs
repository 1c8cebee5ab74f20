//! Special tokens of the two encodings, and which of them a text may hold.

use logue_o200k::{SpecialSet, special};
use memchr::memmem;

/// The most bytes of a name.
const MAX_NAME: usize = "<|reserved_200000|>".len();

/// `<|endofprompt|>` of `o200k_base`.
pub(crate) const END_OF_PROMPT: (&str, u32) = ("<|endofprompt|>", 200_018);

/// An encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `o200k_base`: `<|endoftext|>` and `<|endofprompt|>`.
    Base,
    /// `o200k_harmony`: 1,091 specials.
    Harmony,
}

impl Kind {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "o200k_base" => Some(Self::Base),
            "o200k_harmony" => Some(Self::Harmony),
            _ => None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Base => "o200k_base",
            Self::Harmony => "o200k_harmony",
        }
    }

    pub(crate) const fn max_token_value(self) -> u32 {
        match self {
            Self::Base => END_OF_PROMPT.1,
            Self::Harmony => *special::IDS.end(),
        }
    }

    /// All specials.
    pub(crate) fn specials(self) -> SpecialSet {
        match self {
            Self::Base => SpecialSet::NONE
                .with(special::END_OF_TEXT)
                .with(END_OF_PROMPT.1),
            Self::Harmony => SpecialSet::ALL,
        }
    }

    /// The id of a special's name.
    pub(crate) fn id(self, name: &str) -> Option<u32> {
        match self {
            Self::Base if name == END_OF_PROMPT.0 => Some(END_OF_PROMPT.1),
            Self::Base => special::id(name).filter(|id| *id == special::END_OF_TEXT),
            Self::Harmony => special::id(name),
        }
    }

    /// The bytes of a token, of a special its name; `None` for an unknown id.
    pub(crate) fn bytes(self, id: u32) -> Option<&'static [u8]> {
        if self == Self::Base && special::is_special(id) {
            return match id {
                special::END_OF_TEXT => logue_o200k::token_bytes(id),
                _ if id == END_OF_PROMPT.1 => Some(END_OF_PROMPT.0.as_bytes()),
                _ => None,
            };
        }
        logue_o200k::token_bytes(id)
    }

    /// The first special of `set` in `text` from byte `from`: its place and id.
    pub(crate) fn find(
        self,
        text: &str,
        from: usize,
        set: &SpecialSet,
    ) -> Option<(usize, usize, u32)> {
        let bytes = text.as_bytes();
        let rest = bytes.get(from..)?;
        memmem::find_iter(rest, b"<|").find_map(|at| {
            let start = from + at;
            let window = bytes.get(start..)?;
            let window = window.get(..MAX_NAME).unwrap_or(window);
            let close = window.windows(2).skip(2).position(|pair| pair == b"|>")? + 4;
            let name = std::str::from_utf8(window.get(..close)?).ok()?;
            let id = self.id(name)?;
            set.contains(id).then_some((start, start + close, id))
        })
    }
}
