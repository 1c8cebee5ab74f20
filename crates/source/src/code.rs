//! The stable codes, all in one place.
//!
//! A code never changes its meaning and is never used again for another one. Errors of a language
//! are written `E-…`, warnings in lower case. Each has a page `docs/errors/CODE.md`; a test holds
//! the two lists against each other.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+) => {
        /// A stable code of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DiagnosticCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DiagnosticCode {
            /// Every code, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code as it is printed and as its page is named.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// What a finding of this code says, in one sentence.
            ///
            /// ```
            /// use logue_source::DiagnosticCode;
            ///
            /// assert_eq!(DiagnosticCode::MdUnclosedTag.summary(), "An element is never closed.");
            /// ```
            pub fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_start(),)+
                }
            }
        }
    };
}

codes! {
    // Any text.
    /// The file cannot be opened or read.
    SourceRead = "E-SOURCE-READ",
    /// The text is larger than the limit of its reader.
    SourceTooLarge = "E-SOURCE-TOO-LARGE",
    /// The text is not valid UTF-8.
    SourceNotUtf8 = "E-SOURCE-NOT-UTF8",
    /// A configuration file is malformed or names a setting that nobody knows.
    ConfigInvalid = "E-CONFIG-INVALID",

    // OpenChatML 2.2 §14.
    /// A header, of the document or of a frame, is malformed.
    ParseHeader = "E-PARSE-HEADER",
    /// A channel is absent where the profile requires one.
    ParseChannelMissing = "E-PARSE-CHANNEL-MISSING",
    /// A body does not parse as its `<|constrain|>` type.
    BodyConstraintViolation = "E-BODY-CONSTRAINT-VIOLATION",
    /// The arguments of a tool call are missing or invalid, or its id does not match.
    CallSchema = "E-CALL-SCHEMA",
    /// A tool exceeded its deadline.
    ToolTimeout = "E-TOOL-TIMEOUT",
    /// A tool was cancelled by the runtime.
    ToolCancelled = "E-TOOL-CANCELLED",
    /// A frame or stream ended without its stop token.
    StreamTruncated = "E-STREAM-TRUNCATED",
    /// Something asked to display hidden content.
    PermVisibility = "E-PERM-VISIBILITY",

    // OpenChatML, our own.
    /// The document names a version that is not read.
    ParseVersion = "E-PARSE-VERSION",
    /// Text stands between frames.
    ParseStrayText = "E-PARSE-STRAY-TEXT",
    /// A control token stands in a body, where it has no meaning.
    ParseStrayToken = "E-PARSE-STRAY-TOKEN",
    /// A frame ends in a token that is not allowed on it.
    ParseTerminator = "E-PARSE-TERMINATOR",
    /// An attribute of a frame is repeated, contradicts itself or is unknown.
    AttributeConflict = "attribute-conflict",
    /// A header that a model emitted malformed is read as what it was meant to be.
    HeaderRepaired = "header-repaired",
    /// A transcript has no document header and is read as a fragment.
    FragmentWithoutHeader = "fragment-without-header",
    /// A tool is called on a channel where it may not be called.
    CallOutsideCommentary = "call-outside-commentary",
    /// Private reasoning is addressed to a tool.
    AnalysisToTool = "analysis-to-tool",
    /// A frame uses something that the header's capabilities do not list.
    OutsideCapabilities = "outside-capabilities",
    /// The declaration of a tool cannot be read.
    InvalidToolDeclaration = "invalid-tool-declaration",
    /// A marker of private reasoning stands outside `analysis`.
    ReasoningOutsideAnalysis = "reasoning-outside-analysis",
    /// A value cannot be written in the format asked for.
    WriteRefused = "E-WRITE-REFUSED",
    /// A text that should be JSON is not.
    JsonSyntax = "E-JSON-SYNTAX",
    /// JSON that is no conversation of the form that it is read as.
    JsonShape = "E-JSON-SHAPE",
    /// A control token, or what another dialect takes for one, stands in what somebody said.
    HiddenControlToken = "hidden-control-token",

    // ChatMD.
    /// Text or unknown markup stands outside every element.
    MdTopLevelText = "E-MD-TOP-LEVEL-TEXT",
    /// An element is never closed.
    MdUnclosedTag = "E-MD-UNCLOSED-TAG",
    /// A closing tag closes nothing.
    MdUnexpectedClosingTag = "E-MD-UNEXPECTED-CLOSING-TAG",
    /// A closing tag names another element than the open one.
    MdMismatchedTag = "E-MD-MISMATCHED-TAG",
    /// A quoted attribute value has no closing quote.
    MdUnterminatedQuote = "E-MD-UNTERMINATED-QUOTE",
    /// A RAW block has no `|RAW`.
    MdUnterminatedRaw = "E-MD-UNTERMINATED-RAW",
    /// A comment has no `-->`.
    MdUnterminatedComment = "E-MD-UNTERMINATED-COMMENT",
    /// An element lacks an attribute that it needs.
    MdMissingAttribute = "E-MD-MISSING-ATTRIBUTE",
    /// An element lacks the content that it needs.
    MdMissingContent = "E-MD-MISSING-CONTENT",
    /// An attribute value is not of the kind that it must be.
    MdInvalidAttribute = "E-MD-INVALID-ATTRIBUTE",
    /// A tool declaration breaks the rules of ChatMD §5.5.
    MdToolDeclaration = "E-MD-TOOL-DECLARATION",
    /// Two declarations expose the same tool name.
    MdDuplicateTool = "E-MD-DUPLICATE-TOOL",
    /// A summary, which is text, holds an element.
    MdSummaryElement = "E-MD-SUMMARY-ELEMENT",
    /// A built-in tool that nobody knows.
    MdUnknownTool = "E-MD-UNKNOWN-TOOL",
    /// A message has a role that is not one of the five.
    MdUnknownRole = "E-MD-UNKNOWN-ROLE",
    /// A document named by `<doc>` cannot be read.
    MdDocumentUnreadable = "E-MD-DOCUMENT-UNREADABLE",
    /// A payload file that a tool call or response names is not there.
    MdPayloadMissing = "E-MD-PAYLOAD-MISSING",
    /// A payload file holds something else than when the transcript named it.
    MdPayloadChanged = "E-MD-PAYLOAD-CHANGED",
    /// A text imports itself, directly or through others.
    MdImportCycle = "E-MD-IMPORT-CYCLE",
    /// Imports are nested too deeply, too many or too large.
    MdImportLimit = "E-MD-IMPORT-LIMIT",
    /// An agent that a prompt names cannot be run, or failed.
    MdAgentFailed = "E-MD-AGENT-FAILED",
    /// A path leads out of the roots.
    OutsideRoots = "E-OUTSIDE-ROOTS",
    /// A prompt names an address of a host that nobody allowed.
    NetworkDenied = "E-NETWORK-DENIED",
    /// A command is not run because it cannot be confined as it has to be.
    SandboxUnavailable = "E-SANDBOX-UNAVAILABLE",
    /// A tool used more memory, output or processes than it may.
    ToolLimitExceeded = "E-TOOL-LIMIT-EXCEEDED",
    /// A tool declaration names an invalid MCP server address.
    McpDeclarationInvalid = "E-MCP-DECLARATION-INVALID",
    /// An MCP server is declared by a prompt that is not trusted.
    McpServerNotTrusted = "E-MCP-SERVER-NOT-TRUSTED",
    /// A tool declaration names a tool that its MCP server lacks.
    McpToolNotFound = "E-MCP-TOOL-NOT-FOUND",
    /// An MCP server cannot be reached, or failed during a call.
    McpServerFailed = "E-MCP-SERVER-FAILED",
    /// Something that the language has and this version does not run yet.
    MdUnsupported = "E-MD-UNSUPPORTED",
    /// A built-in of another program that Logue does not have.
    ToolUnsupported = "tool-unsupported",
    /// Content that the model will not see.
    ContentDropped = "content-dropped",
    /// A tool call without a response.
    CallWithoutResponse = "call-without-response",
    /// A tool response without a call.
    ResponseWithoutCall = "response-without-call",
    /// An id that is used twice.
    DuplicateId = "duplicate-id",
    /// A `<config>` behind the first one, which is the one that counts.
    ConfigIgnored = "config-ignored",
    /// An attribute that its element does not have.
    UnknownAttribute = "unknown-attribute",
    /// An attribute that is given twice with different values.
    RepeatedAttribute = "repeated-attribute",
    /// A flag with a value that means off, although a flag is on wherever it is given.
    FlagAttributeHasValue = "flag-attribute-has-value",
    /// The status of an answer that has no id.
    StatusWithoutId = "status-without-id",
    /// A model with an empty name.
    EmptyModel = "empty-model",
    /// A call of a tool that the document does not declare.
    UndeclaredTool = "undeclared-tool",
    /// A declared tool that the conversation never called.
    UnusedTool = "unused-tool",
    /// A document names a file that does not exist.
    MissingFile = "missing-file",
}

impl std::fmt::Display for DiagnosticCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::DiagnosticCode;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_codes_share_their_text() {
        let texts: BTreeSet<&str> = DiagnosticCode::ALL
            .iter()
            .map(|code| code.as_str())
            .collect();
        assert_eq!(texts.len(), DiagnosticCode::ALL.len());
    }
}
