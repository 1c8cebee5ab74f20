//! The content of messages and payloads: text and the elements inside it.

use logue_source::Span;

/// `<import>` (ChatMD §9).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Import {
    /// Span of the element.
    pub span: Span,
    /// Path of the imported file.
    pub src: String,
    /// Prefix of the ids that the imported file declares.
    pub namespace: Option<String>,
}

/// One item of a message or payload.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentItem {
    /// Text, verbatim.
    Text(Text),
    /// `<doc>`
    Doc(DocumentRef),
    /// `<img>`
    Img(Image),
    /// `<agent>`
    Agent(AgentElement),
    /// `<import>`
    Import(Import),
}

impl ContentItem {
    /// Returns the span of the item.
    pub fn span(&self) -> Span {
        match self {
            Self::Text(text) => text.span,
            Self::Doc(doc) => doc.span,
            Self::Img(img) => img.span,
            Self::Agent(agent) => agent.span,
            Self::Import(import) => import.span,
        }
    }
}

/// Text between two elements.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Text {
    /// Span of the text.
    pub span: Span,
    /// The text, untrimmed.
    pub text: String,
    /// Content of its RAW blocks, if the remaining text is white space.
    pub payload: Option<String>,
    /// The placeholders `{{name}}` in the text outside RAW blocks, as byte ranges of `text`.
    pub placeholders: Vec<std::ops::Range<usize>>,
}

/// `<doc>`: the text of a document in its place (ChatMD §8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentRef {
    /// Span of the element.
    pub span: Span,
    /// Path or address.
    pub src: String,
    /// Whether `src` is a path instead of an address.
    pub local: bool,
    /// Whether HTML is converted to plain text; takes precedence over `markdown`.
    pub strip: bool,
    /// Whether HTML is converted to Markdown.
    pub markdown: bool,
}

/// `<img>`: an image in its place (ChatMD §8.2).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// Span of the element.
    pub span: Span,
    /// Path or address.
    pub src: String,
    /// Whether `src` is a path instead of an address.
    pub local: bool,
}

/// `<agent>`: the answer of another prompt in its place (ChatMD §8.3).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentElement {
    /// Span of the element.
    pub span: Span,
    /// Path or address of the prompt.
    pub src: String,
    /// Whether `src` is a path instead of an address.
    pub local: bool,
    /// Input of the agent; agents nest at most [`MAX_AGENT_DEPTH`] deep.
    pub content: Vec<ContentItem>,
}

/// Maximum nesting depth of `<agent>` elements.
pub const MAX_AGENT_DEPTH: usize = 16;
