//! The tokens of OpenChatML 0.1.

/// The subject of a block of thought (OpenChatML 0.1 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thought {
    /// The user's position and intent.
    Reflect,
    /// The model's own.
    Introspect,
    /// The chain of thought.
    Reason,
}

impl Thought {
    /// All three, in the order of the specification.
    pub const ALL: [Self; 3] = [Self::Reflect, Self::Introspect, Self::Reason];

    /// The word in its tokens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reflect => "reflect",
            Self::Introspect => "introspect",
            Self::Reason => "reason",
        }
    }

    /// The token that opens a block, also a marker in OpenChatML 2.x (2.2 §7).
    pub const fn opener(self) -> &'static str {
        Marker::Open(self).as_str()
    }
}

/// A token (OpenChatML 0.1 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Marker {
    ImStart,
    ImEnd,
    Open(Thought),
    Close(Thought),
    Flag(Thought),
    FunctionList,
    FunctionCall,
    FunctionOutput,
    FimPrefix,
    FimMiddle,
    FimSuffix,
    FileSeparator,
}

impl Marker {
    pub(crate) const ALL: [Self; 18] = [
        Self::ImStart,
        Self::ImEnd,
        Self::Open(Thought::Reflect),
        Self::Open(Thought::Introspect),
        Self::Open(Thought::Reason),
        Self::Close(Thought::Reflect),
        Self::Close(Thought::Introspect),
        Self::Close(Thought::Reason),
        Self::Flag(Thought::Reflect),
        Self::Flag(Thought::Introspect),
        Self::Flag(Thought::Reason),
        Self::FunctionList,
        Self::FunctionCall,
        Self::FunctionOutput,
        Self::FimPrefix,
        Self::FimMiddle,
        Self::FimSuffix,
        Self::FileSeparator,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ImStart => "<|im_start|>",
            Self::ImEnd => "<|im_end|>",
            Self::Open(Thought::Reflect) => "<|start_reflect|>",
            Self::Open(Thought::Introspect) => "<|start_introspect|>",
            Self::Open(Thought::Reason) => "<|start_reason|>",
            Self::Close(Thought::Reflect) => "<|end_reflect|>",
            Self::Close(Thought::Introspect) => "<|end_introspect|>",
            Self::Close(Thought::Reason) => "<|end_reason|>",
            Self::Flag(Thought::Reflect) => "<|reflect|>",
            Self::Flag(Thought::Introspect) => "<|introspect|>",
            Self::Flag(Thought::Reason) => "<|reason|>",
            Self::FunctionList => "<|function_list|>",
            Self::FunctionCall => "<|function_call|>",
            Self::FunctionOutput => "<|function_output|>",
            Self::FimPrefix => "<|fim_prefix|>",
            Self::FimMiddle => "<|fim_middle|>",
            Self::FimSuffix => "<|fim_suffix|>",
            Self::FileSeparator => "<|file_separator|>",
        }
    }

    /// The token that `text` begins with; in plain `ChatML` only two are.
    pub(crate) fn at(text: &[u8], plain: bool) -> Option<Self> {
        let known = Self::known(plain).iter();
        let mut found = known.filter(|mark| text.starts_with(mark.as_str().as_bytes()));
        found.next().copied()
    }

    /// Returns whether more text could make `text` a token.
    pub(crate) fn may_become(text: &[u8], plain: bool) -> bool {
        Self::known(plain).iter().any(|mark| {
            let mark = mark.as_str().as_bytes();
            mark.len() > text.len() && mark.starts_with(text)
        })
    }

    /// The first token in `text` with its place.
    pub(crate) fn find(text: &str, plain: bool) -> Option<(usize, Self)> {
        memchr::memmem::find_iter(text.as_bytes(), b"<|").find_map(|at| {
            let mark = Self::at(text.as_bytes().get(at..)?, plain)?;
            Some((at, mark))
        })
    }

    fn known(plain: bool) -> &'static [Self] {
        if plain {
            &[Self::ImStart, Self::ImEnd]
        } else {
            &Self::ALL
        }
    }
}
