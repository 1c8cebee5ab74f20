//! Losses of mappings and conversions.

/// The item that a [`Loss`] refers to, by its index in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossTarget {
    /// The transcript as a whole, or its header.
    Transcript,
    /// A frame.
    Frame(usize),
    /// A message.
    Message(usize),
}

/// The importance of a loss. The greatest is content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossSeverity {
    /// Ids and names.
    Identity,
    /// Channels, the order and the types of parts, settings, declarations.
    Structure,
    /// Words, images, calls, results, and the pairs of calls and results.
    Content,
}

impl LossSeverity {
    /// Every severity, the greatest first.
    pub const ALL: [Self; 3] = [Self::Content, Self::Structure, Self::Identity];

    /// The stable name: `content`, `structure` or `identity`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Structure => "structure",
            Self::Identity => "identity",
        }
    }

    /// Returns the severity of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|severity| severity.as_str() == name)
    }
}

impl std::fmt::Display for LossSeverity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! loss_kinds {
    ($($(#[$doc:meta])* $kind:ident, $name:literal, $severity:expr;)*) => {
        /// The kind of a loss, with a stable name and a severity.
        ///
        /// Kinds without a severity are notes: reading restores the value, or a documented default
        /// left out what is hidden.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum LossKind {
            $($(#[$doc])* $kind,)*
        }

        impl LossKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The stable name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// The severity; `None` for a note.
            pub const fn severity(self) -> Option<LossSeverity> {
                match self {
                    $(Self::$kind => $severity,)*
                }
            }
        }
    };
}

const CONTENT: Option<LossSeverity> = Some(LossSeverity::Content);
const STRUCTURE: Option<LossSeverity> = Some(LossSeverity::Structure);
const IDENTITY: Option<LossSeverity> = Some(LossSeverity::Identity);

loss_kinds! {
    /// A message that is left out.
    MessageDropped, "message-dropped", CONTENT;
    /// Words that are left out.
    TextDropped, "text-dropped", CONTENT;
    /// An image that is left out.
    ImageDropped, "image-dropped", CONTENT;
    /// Content of another kind that is left out.
    PartDropped, "part-dropped", CONTENT;
    /// A call that is left out.
    CallDropped, "call-dropped", CONTENT;
    /// A call or result whose counterpart is lost.
    PairingLost, "pairing-lost", CONTENT;
    /// Bytes that are not text and were replaced.
    BytesReplaced, "bytes-replaced", CONTENT;
    /// A preamble that reads back as hidden.
    PreambleHidden, "preamble-hidden", CONTENT;
    /// A reference to a document, an import or an agent that is kept as text.
    ReferenceKept, "reference-kept", STRUCTURE;
    /// A text on another channel.
    ChannelChanged, "channel-changed", STRUCTURE;
    /// A preamble that becomes an answer.
    PreambleChanged, "preamble-changed", STRUCTURE;
    /// An intent.
    IntentDropped, "intent-dropped", STRUCTURE;
    /// A recipient that is not a tool.
    RecipientDropped, "recipient-dropped", STRUCTURE;
    /// A type of content.
    TypeChanged, "type-changed", STRUCTURE;
    /// The end of a message.
    TerminatorChanged, "terminator-changed", STRUCTURE;
    /// A cut message that reads as complete.
    CutCompleted, "cut-completed", STRUCTURE;
    /// A part in another place.
    OrderChanged, "order-changed", STRUCTURE;
    /// Parts that are joined.
    PartsJoined, "parts-joined", STRUCTURE;
    /// A message that is divided, or grouped with others.
    Regrouped, "regrouped", STRUCTURE;
    /// A part of another type, with its words.
    PartChanged, "part-changed", STRUCTURE;
    /// Another spelling of the same value.
    SpellingChanged, "spelling-changed", STRUCTURE;
    /// A message without words that is left out.
    EmptyDropped, "empty-dropped", STRUCTURE;
    /// A document header, or a part of it.
    HeaderDropped, "header-dropped", STRUCTURE;
    /// A setting of the model.
    SettingDropped, "setting-dropped", STRUCTURE;
    /// A declaration of a tool.
    DeclarationDropped, "declaration-dropped", STRUCTURE;
    /// A declaration of a tool that reads back with less.
    DeclarationChanged, "declaration-changed", STRUCTURE;
    /// An attribute or a key.
    AttributeDropped, "attribute-dropped", STRUCTURE;
    /// A comment.
    CommentDropped, "comment-dropped", STRUCTURE;
    /// A provider's proof of reasoning.
    SignatureDropped, "signature-dropped", STRUCTURE;
    /// An id.
    IdDropped, "id-dropped", IDENTITY;
    /// A name.
    NameDropped, "name-dropped", IDENTITY;
    /// A tool of another name.
    ToolRenamed, "tool-renamed", IDENTITY;
    /// An id or a name that reading added.
    Assigned, "assigned", None;
    /// An id or a name that reading restores from the order.
    Implied, "implied", None;
    /// Hidden text that the form leaves out by default.
    HiddenOmitted, "hidden-omitted", None;
}

impl std::fmt::Display for LossKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A loss of a mapping or a conversion, or an interpretation that it required.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The item that it refers to.
    pub target: LossTarget,
    /// Its kind.
    pub kind: LossKind,
    /// Its description. Contains nothing of the text.
    pub message: String,
}

impl Loss {
    /// Creates a loss of `target`; the message contains nothing of the text.
    pub fn new(target: LossTarget, kind: LossKind, message: impl Into<String>) -> Self {
        Self {
            target,
            kind,
            message: message.into(),
        }
    }

    /// Returns its severity; `None` for a note.
    pub const fn severity(&self) -> Option<LossSeverity> {
        self.kind.severity()
    }

    /// Returns whether it is at least of this severity.
    pub fn is_at_least(&self, severity: LossSeverity) -> bool {
        self.severity() >= Some(severity)
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.target {
            LossTarget::Transcript => write!(f, "transcript: {}", self.message),
            LossTarget::Frame(index) => write!(f, "frame {}: {}", index + 1, self.message),
            LossTarget::Message(index) => write!(f, "message {}: {}", index + 1, self.message),
        }
    }
}
