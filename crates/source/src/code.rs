//! The stable codes of findings.
//!
//! A code never changes its meaning and is never reused. Errors of languages and tools are written
//! `E-UPPER`; warnings, and errors about features of other programs, in kebab case. Categories of failures are written in snake case and defined
//! elsewhere: those of providers in `logue-model` (`Category`), those of sessions in `logue-harness`
//! (`chat/failure.rs`), those of turns in `logue-agent` (`turn/run.rs`), those of commands in
//! `logue-cli`. Each code has a page `docs/errors/CODE.md` and a line in `docs/errors/README.md`; a test
//! of `logue-cli` (`tests/cli/codes.rs`) compares the three lists.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+) => {
        /// The stable code of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DiagnosticCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DiagnosticCode {
            /// Every code, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the printed code, which is also the name of its page.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// Returns the meaning of the code in one sentence.
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
    /// A configuration file is malformed or names an unknown setting.
    ConfigInvalid = "E-CONFIG-INVALID",
    /// A project's configuration file grants access and is not trusted.
    ConfigNotTrusted = "E-CONFIG-NOT-TRUSTED",

    // OpenChatML 2.2 §14.
    /// A header, of the document or of a frame, is malformed.
    ParseHeader = "E-PARSE-HEADER",
    /// A channel is absent where the profile requires one.
    ParseChannelMissing = "E-PARSE-CHANNEL-MISSING",
    /// A body does not parse as its `<|constrain|>` type.
    BodyConstraintViolation = "E-BODY-CONSTRAINT-VIOLATION",
    /// A tool call has missing or invalid arguments, or an unmatched id.
    CallSchema = "E-CALL-SCHEMA",
    /// A tool exceeded its deadline.
    ToolTimeout = "E-TOOL-TIMEOUT",
    /// A tool was cancelled by the runtime.
    ToolCancelled = "E-TOOL-CANCELLED",
    /// A frame or stream ended without its stop token.
    StreamTruncated = "E-STREAM-TRUNCATED",
    /// A caller asked to display hidden content.
    PermVisibility = "E-PERM-VISIBILITY",

    // OpenChatML, specific to Logue.
    /// The document names an unsupported version.
    ParseVersion = "E-PARSE-VERSION",
    /// Text occurs between frames.
    ParseStrayText = "E-PARSE-STRAY-TEXT",
    /// A control token occurs in a body, where it has no meaning.
    ParseStrayToken = "E-PARSE-STRAY-TOKEN",
    /// A frame ends in a token that is not allowed on it.
    ParseTerminator = "E-PARSE-TERMINATOR",
    /// An attribute of a frame is repeated, contradicts itself or is unknown.
    AttributeConflict = "attribute-conflict",
    /// A malformed header from a model is read as its probable meaning.
    HeaderRepaired = "header-repaired",
    /// A transcript has no document header and is read as a fragment.
    FragmentWithoutHeader = "fragment-without-header",
    /// A tool is called on a channel that permits no calls.
    CallOutsideCommentary = "call-outside-commentary",
    /// Private reasoning is addressed to a tool.
    AnalysisToTool = "analysis-to-tool",
    /// A frame uses something that the header's capabilities do not list.
    OutsideCapabilities = "outside-capabilities",
    /// The declaration of a tool cannot be read.
    InvalidToolDeclaration = "invalid-tool-declaration",
    /// A marker of private reasoning occurs outside `analysis`.
    ReasoningOutsideAnalysis = "reasoning-outside-analysis",
    /// A value cannot be written in the requested format.
    WriteRefused = "E-WRITE-REFUSED",
    /// A text that should be JSON is not valid JSON.
    JsonSyntax = "E-JSON-SYNTAX",
    /// A JSON value is not a conversation in the expected form.
    JsonShape = "E-JSON-SHAPE",
    /// The text of a message contains a control token of some dialect.
    HiddenControlToken = "hidden-control-token",

    // ChatMD.
    /// Text or unknown markup occurs outside every element.
    MdTopLevelText = "E-MD-TOP-LEVEL-TEXT",
    /// An element is never closed.
    MdUnclosedTag = "E-MD-UNCLOSED-TAG",
    /// A closing tag has no open element.
    MdUnexpectedClosingTag = "E-MD-UNEXPECTED-CLOSING-TAG",
    /// A closing tag names another element than the open one.
    MdMismatchedTag = "E-MD-MISMATCHED-TAG",
    /// A quoted attribute value has no closing quote.
    MdUnterminatedQuote = "E-MD-UNTERMINATED-QUOTE",
    /// A RAW block has no `|RAW`.
    MdUnterminatedRaw = "E-MD-UNTERMINATED-RAW",
    /// A comment has no `-->`.
    MdUnterminatedComment = "E-MD-UNTERMINATED-COMMENT",
    /// An element lacks a required attribute.
    MdMissingAttribute = "E-MD-MISSING-ATTRIBUTE",
    /// An element lacks required content.
    MdMissingContent = "E-MD-MISSING-CONTENT",
    /// An attribute value has the wrong type.
    MdInvalidAttribute = "E-MD-INVALID-ATTRIBUTE",
    /// A tool declaration breaks the rules of ChatMD §5.5.
    MdToolDeclaration = "E-MD-TOOL-DECLARATION",
    /// Two declarations expose the same tool name.
    MdDuplicateTool = "E-MD-DUPLICATE-TOOL",
    /// A variable is declared wrongly, or has no value.
    MdVariable = "E-MD-VARIABLE",
    /// A summary, which is plain text, contains an element.
    MdSummaryElement = "E-MD-SUMMARY-ELEMENT",
    /// A declaration names an unknown built-in tool.
    MdUnknownTool = "E-MD-UNKNOWN-TOOL",
    /// A message has a role that is not one of the five.
    MdUnknownRole = "E-MD-UNKNOWN-ROLE",
    /// A document named by `<doc>` cannot be read.
    MdDocumentUnreadable = "E-MD-DOCUMENT-UNREADABLE",
    /// A payload file of a tool call or response does not exist.
    MdPayloadMissing = "E-MD-PAYLOAD-MISSING",
    /// A payload file changed after the transcript named it.
    MdPayloadChanged = "E-MD-PAYLOAD-CHANGED",
    /// The place of the payload files is not a directory beside the transcript.
    MdPayloadFolder = "E-MD-PAYLOAD-FOLDER",
    /// A text imports itself, directly or through others.
    MdImportCycle = "E-MD-IMPORT-CYCLE",
    /// Imports are nested too deeply, too many or too large.
    MdImportLimit = "E-MD-IMPORT-LIMIT",
    /// An agent of a prompt cannot run, or failed.
    MdAgentFailed = "E-MD-AGENT-FAILED",
    /// A path leads outside the roots.
    OutsideRoots = "E-OUTSIDE-ROOTS",
    /// A prompt names a host that is not allowed.
    NetworkDenied = "E-NETWORK-DENIED",
    /// A command is not run because its required sandbox is unavailable.
    SandboxUnavailable = "E-SANDBOX-UNAVAILABLE",
    /// A tool exceeded its limit of memory, output or processes.
    ToolLimitExceeded = "E-TOOL-LIMIT-EXCEEDED",
    /// A tool declaration names an invalid MCP server address.
    McpDeclarationInvalid = "E-MCP-DECLARATION-INVALID",
    /// An MCP server is declared by a prompt that is not trusted.
    McpServerNotTrusted = "E-MCP-SERVER-NOT-TRUSTED",
    /// A tool declaration names a tool that its MCP server lacks.
    McpToolNotFound = "E-MCP-TOOL-NOT-FOUND",
    /// An MCP server cannot be reached, or failed during a call.
    McpServerFailed = "E-MCP-SERVER-FAILED",
    /// A feature of the language that this version does not support.
    MdUnsupported = "E-MD-UNSUPPORTED",
    /// A built-in of another program that Logue does not provide.
    ToolUnsupported = "tool-unsupported",
    /// A program of a prompt that may change tool calls is not run.
    ScriptUnsupported = "script-unsupported",
    /// Rules of a prompt for commands that are not enforced.
    ShellAccessUnsupported = "shell-access-unsupported",
    /// A command tool in a mode that is not offered.
    ShellModeRefused = "shell-mode-refused",
    /// A directory of a prompt's `read_file` is outside what the user allows.
    ReadRootRefused = "read-root-refused",
    /// Content that is not sent to the model.
    ContentDropped = "content-dropped",
    /// A tool call without a response.
    CallWithoutResponse = "call-without-response",
    /// A tool response without a call.
    ResponseWithoutCall = "response-without-call",
    /// An id that is used twice.
    DuplicateId = "duplicate-id",
    /// A later `<config>` has no effect, because the first one counts.
    ConfigIgnored = "config-ignored",
    /// An attribute that its element does not define.
    UnknownAttribute = "unknown-attribute",
    /// An attribute occurs twice with different values.
    RepeatedAttribute = "repeated-attribute",
    /// A flag has a value that means "off", but its presence means "on".
    FlagAttributeHasValue = "flag-attribute-has-value",
    /// A status belongs to an answer without an id.
    StatusWithoutId = "status-without-id",
    /// A model with an empty name.
    EmptyModel = "empty-model",
    /// A call of a tool that the document does not declare.
    UndeclaredTool = "undeclared-tool",
    /// A placeholder names no declared variable.
    UndeclaredVariable = "undeclared-variable",
    /// A declared tool that the conversation never called.
    UnusedTool = "unused-tool",
    /// A document names a file that does not exist.
    MissingFile = "missing-file",

    // Training data.
    /// No token of a row would be trained.
    DataMaskEmpty = "E-DATA-MASK-EMPTY",
    /// A row ends without an answer of the assistant.
    DataNoAnswer = "data-no-answer",
    /// The last trained message of a row has no trained stop token.
    DataStopUntrained = "E-DATA-STOP-UNTRAINED",
    /// A row has content that the rendered form cannot hold.
    DataMaskContent = "E-DATA-MASK-CONTENT",
    /// A mark for training is invalid, contradictory or not read.
    DataMaskMark = "E-DATA-MASK-MARK",
    /// A row has more tokens than allowed.
    DataTooLong = "E-DATA-TOO-LONG",
    /// The tokenizer lacks a special token of the rendered form.
    DataSpecialToken = "E-DATA-SPECIAL-TOKEN",
    /// A rendered text begins with two tokens of its beginning.
    DataBeginTwice = "E-DATA-BEGIN-TWICE",
    /// A tokenizer file has a part that cannot be loaded exactly.
    DataTokenizer = "E-DATA-TOKENIZER",
    /// A chat template is invalid, fails, or refuses the conversation of a row.
    DataTemplate = "E-DATA-TEMPLATE",
    /// A chat template prints the day, and none is given.
    DataTemplateDate = "E-DATA-TEMPLATE-DATE",
    /// The spans of the assistant in the output of a chat template are unknown.
    DataTemplateSpans = "E-DATA-TEMPLATE-SPANS",
    /// A chat template leaves out an answer or a call of a row.
    DataTemplateDropped = "E-DATA-TEMPLATE-DROPPED",
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
