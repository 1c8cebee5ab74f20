//! Message content: absent, a string or a list of blocks, kept in its original form.

/// The content of a message.
///
/// The three forms are closed: message formats have no others. New kinds of content are blocks.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Content {
    /// No content, as in an assistant message that only calls tools.
    #[default]
    Absent,
    /// One string.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<ContentBlock>),
}

impl Content {
    /// Returns whether the content is absent, an empty string or an empty list.
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

/// A content block.
///
/// Opaque values (signatures, encrypted reasoning) are kept verbatim.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Visible text.
    Text {
        /// The text; not empty in a valid message.
        text: String,
        /// A provider's signature over the text.
        signature: Option<String>,
        /// Whether the text is a preamble for the user, before tool calls.
        ///
        /// Written `intent=preamble` in OpenChatML 2.2 §6.
        preamble: bool,
    },
    /// An image.
    Image {
        /// The location of the image data.
        source: ImageSource,
        /// The media type, such as `image/png`; required for inline data.
        media_type: Option<String>,
        /// The level of detail at which the model reads the image.
        detail: Option<ImageDetail>,
    },
    /// Private reasoning, never shown to a user.
    ///
    /// Adjacent blocks with the same id are the parts of one reasoning item; the last one is signed.
    Thinking {
        /// The reasoning.
        ///
        /// Empty in a valid message only if signed: some providers send only the signature.
        text: String,
        /// A provider's signature over the reasoning.
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
    /// Creates a block of plain visible text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            signature: None,
            preamble: false,
        }
    }

    /// Creates a block of private reasoning.
    pub fn thinking(text: impl Into<String>) -> Self {
        Self::Thinking {
            text: text.into(),
            signature: None,
            id: None,
        }
    }

    /// Returns whether the block is private reasoning, readable or not.
    pub fn is_reasoning(&self) -> bool {
        matches!(self, Self::Thinking { .. } | Self::RedactedThinking { .. })
    }
}

/// The location of image data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageSource {
    /// A URL that the provider fetches.
    Url(String),
    /// Base64 data in the message.
    Inline(String),
}

/// The level of detail at which a model reads an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageDetail {
    /// The provider decides.
    Auto,
    /// Low resolution.
    Low,
    /// High resolution.
    High,
}

impl ImageDetail {
    /// Returns the word that wire formats use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Low => "low",
            Self::High => "high",
        }
    }

    /// Parses a word of a wire format.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "auto" => Self::Auto,
            "low" => Self::Low,
            "high" => Self::High,
            _ => return None,
        })
    }
}
