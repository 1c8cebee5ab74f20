//! The dialects of the envelope, and their names.

/// A text form of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// OpenChatML 2.2.
    V2_2,
    /// OpenChatML 2.0: six tokens, no escape, no `call_id`.
    V2_0,
    /// OpenChatML 0.1, the 1.x line: `<|im_start|>` with thoughts, functions, gaps and files.
    V0_1,
    /// The subset of 0.1 known as `ChatML`: messages only.
    ChatMl,
    /// The format that gpt-oss models read and emit.
    Harmony,
}

impl Dialect {
    /// Every dialect, the newest first.
    pub const ALL: [Self; 5] = [
        Self::V2_2,
        Self::V2_0,
        Self::V0_1,
        Self::ChatMl,
        Self::Harmony,
    ];

    /// The name on a command line: `ocml2.2`, `ocml2.0`, `ocml0.1`, `chatml` or `harmony`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2_2 => "ocml2.2",
            Self::V2_0 => "ocml2.0",
            Self::V0_1 => "ocml0.1",
            Self::ChatMl => "chatml",
            Self::Harmony => "harmony",
        }
    }

    /// The dialect of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.as_str() == name)
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
