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

    /// Creates the content of a text and the images that follow it.
    ///
    /// It is a string without images, and blocks with them; an empty text is then omitted.
    pub fn with_images(text: impl Into<String>, images: Vec<ContentBlock>) -> Self {
        let text = text.into();
        if images.is_empty() {
            return Self::Text(text);
        }
        let text = (!text.is_empty()).then(|| ContentBlock::text(text));
        Self::Blocks(text.into_iter().chain(images).collect())
    }

    /// Returns the image blocks.
    pub fn images(&self) -> impl Iterator<Item = &ContentBlock> {
        let blocks = match self {
            Self::Blocks(blocks) => blocks.as_slice(),
            Self::Absent | Self::Text(_) => &[],
        };
        blocks.iter().filter(|block| block.is_image())
    }

    /// Returns whether there is an image block.
    pub fn has_image(&self) -> bool {
        self.images().next().is_some()
    }

    /// Removes the image blocks and returns their number.
    ///
    /// Blocks of which only plain text remains become one string.
    pub fn remove_images(&mut self) -> usize {
        let Self::Blocks(blocks) = self else {
            return 0;
        };
        let before = blocks.len();
        blocks.retain(|block| !block.is_image());
        let removed = before - blocks.len();
        let plain = |block: &ContentBlock| match block {
            ContentBlock::Text {
                text,
                signature: None,
                preamble: false,
            } => Some(text.clone()),
            _ => None,
        };
        if removed > 0
            && let Some(texts) = blocks.iter().map(plain).collect::<Option<Vec<String>>>()
        {
            *self = Self::Text(texts.concat());
        }
        removed
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

    /// Creates a block of an image whose data is in the message.
    pub fn inline_image(media_type: impl Into<String>, base64: impl Into<String>) -> Self {
        Self::Image {
            source: ImageSource::Inline(base64.into()),
            media_type: Some(media_type.into()),
            detail: None,
        }
    }

    /// Returns whether the block is an image.
    pub fn is_image(&self) -> bool {
        matches!(self, Self::Image { .. })
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

/// Detects a PNG, JPEG, GIF or WebP image and returns its media type.
///
/// ```
/// let type_of = logue_message::image_media_type;
/// assert_eq!(type_of(b"GIF89a..."), Some("image/gif"));
/// assert_eq!(type_of(b"<svg/>"), None);
/// ```
pub fn image_media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, rest @ ..] if rest.starts_with(b"WEBP") => {
            Some("image/webp")
        }
        _ => None,
    }
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
