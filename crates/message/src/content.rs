//! What a message says: nothing, a string, or a list of blocks, kept in the form it came in.

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Content {
    /// No content at all, as an assistant message that only calls tools may have.
    #[default]
    Absent,
    /// One string.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<ContentBlock>),
}

impl Content {
    /// Whether there is nothing in it: absent, an empty string or an empty list.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.is_empty(),
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<ContentBlock>> for Content {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self::Blocks(blocks)
    }
}

/// One piece of content. Opaque values (signatures, encrypted thinking) are kept verbatim.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Visible text.
    Text {
        /// The text; not empty in a valid message.
        text: String,
        /// A provider's signature over it.
        signature: Option<String>,
        /// Whether it is a preamble: words for the user that come before tool calls
        /// (OpenChatML 2.2 §6, `intent=preamble`).
        preamble: bool,
    },
    /// A picture.
    Image {
        /// Where it is.
        source: ImageSource,
        /// Its media type, such as `image/png`; required for inline data.
        media_type: Option<String>,
        /// How closely the model should look.
        detail: Option<ImageDetail>,
    },
    /// Private reasoning. Never shown to a user.
    ///
    /// Adjacent blocks with the same id are the parts of one reasoning item; the last one is signed.
    Thinking {
        /// The reasoning; not empty in a valid message, unless it is signed: some providers give only
        /// the signature.
        text: String,
        /// A provider's signature over it.
        signature: Option<String>,
        /// The provider's id of the reasoning item.
        id: Option<String>,
    },
    /// Private reasoning that only the provider can read.
    RedactedThinking {
        /// The provider's opaque data.
        data: String,
    },
}

impl ContentBlock {
    /// A block of plain visible text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            signature: None,
            preamble: false,
        }
    }

    /// A block of private reasoning.
    pub fn thinking(text: impl Into<String>) -> Self {
        Self::Thinking {
            text: text.into(),
            signature: None,
            id: None,
        }
    }

    /// Whether the block is private reasoning, readable or not.
    pub fn is_reasoning(&self) -> bool {
        matches!(self, Self::Thinking { .. } | Self::RedactedThinking { .. })
    }
}

/// Where a picture is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// At an address that the provider fetches.
    Url(String),
    /// In the message, as base64.
    Inline(String),
}

/// How closely a model looks at a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageDetail {
    /// The provider decides.
    Auto,
    /// Coarsely.
    Low,
    /// Closely.
    High,
}

impl ImageDetail {
    /// The word that wire formats use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Low => "low",
            Self::High => "high",
        }
    }

    /// The detail that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "auto" => Self::Auto,
            "low" => Self::Low,
            "high" => Self::High,
            _ => return None,
        })
    }
}
