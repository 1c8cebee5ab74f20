//! The content of messages and payloads: text and the elements inside it.

use logue_source::Span;

/// `<import>` (ChatMD §9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Where it is.
    pub span: Span,
    /// What is imported.
    pub src: String,
}

/// One piece of a message or payload.
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
    Agent(Agent),
    /// `<import>`
    Import(Import),
}

impl ContentItem {
    /// Where it is.
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
pub struct Text {
    /// Where it is.
    pub span: Span,
    /// What it says, nothing trimmed.
    pub text: String,
    /// What its RAW blocks say, where everything else in it is white space.
    pub payload: Option<String>,
}

/// `<doc>`: a document in place (ChatMD §8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRef {
    /// Where it is.
    pub span: Span,
    /// Path or address.
    pub src: String,
    /// Whether it is a file rather than an address.
    pub local: bool,
    /// Whether HTML becomes plain text; wins over `markdown`.
    pub strip: bool,
    /// Whether HTML becomes Markdown.
    pub markdown: bool,
}

/// `<img>`: a picture in place (ChatMD §8.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where it is.
    pub span: Span,
    /// Path or address.
    pub src: String,
    /// Whether it is a file rather than an address.
    pub local: bool,
}

/// `<agent>`: the answer of another prompt in place (ChatMD §8.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Where it is.
    pub span: Span,
    /// The prompt: path or address.
    pub src: String,
    /// Whether it is a file rather than an address.
    pub local: bool,
    /// What the agent is told. Agents nest at most [`MAX_AGENT_DEPTH`] deep.
    pub content: Vec<ContentItem>,
}

/// How deep `<agent>` elements may stand inside one another.
pub const MAX_AGENT_DEPTH: usize = 16;
