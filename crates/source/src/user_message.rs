//! Messages for end users.
//!
//! Findings address the author of a text. A user of the finished application gets one of these
//! sentences instead. It names no code, file or format, and quotes no message (OpenChatML 2.2 §14).

use crate::DiagnosticCode;

impl DiagnosticCode {
    /// Returns one short sentence for an end user, without technical detail.
    ///
    /// ```
    /// use logue_source::DiagnosticCode;
    /// assert_eq!(DiagnosticCode::ToolTimeout.user_message(), "A tool took too long to answer.");
    /// ```
    pub const fn user_message(self) -> &'static str {
        match self {
            Self::SourceRead
            | Self::MdDocumentUnreadable
            | Self::MdPayloadMissing
            | Self::MdPayloadChanged
            | Self::MdPayloadFolder
            | Self::MissingFile => "A document could not be opened.",
            Self::SourceTooLarge => "The text is too long.",
            Self::SourceNotUtf8 => "Some of the text cannot be displayed.",
            Self::ConfigInvalid => "The application is not set up correctly.",
            Self::ConfigNotTrusted => "The settings need permission first.",

            Self::ParseHeader
            | Self::ParseChannelMissing
            | Self::ParseStrayToken
            | Self::ParseTerminator => "A message could not be understood.",
            Self::ParseVersion => "The conversation is in a version that is not supported.",
            Self::ParseStrayText => "Some text does not belong to any message.",
            Self::BodyConstraintViolation => "A message has content of the wrong kind.",
            Self::CallSchema => "A tool was not used correctly.",
            Self::ToolTimeout => "A tool took too long to answer.",
            Self::ToolCancelled => "A tool was stopped before it finished.",
            Self::StreamTruncated => "The answer ended too early.",
            Self::PermVisibility => "This content cannot be shown.",
            Self::WriteRefused => "The conversation could not be written.",
            Self::AttributeConflict => "Some details of a message were ignored.",
            Self::HeaderRepaired => "A message had a small mistake, which was corrected.",
            Self::FragmentWithoutHeader => "The conversation may be incomplete.",
            Self::CallOutsideCommentary => "A tool was used in an unexpected place.",
            Self::AnalysisToTool => "Something private was meant for a tool.",
            Self::ReasoningOutsideAnalysis => {
                "An answer may contain text that was meant to be private."
            }
            Self::OutsideCapabilities => {
                "The conversation uses something that may not be supported."
            }
            Self::JsonSyntax | Self::JsonShape => "The conversation could not be read.",
            Self::HiddenControlToken => "The text contains something that a model may misread.",
            Self::InvalidToolDeclaration => "The description of a tool could not be understood.",

            Self::DataMaskEmpty
            | Self::DataNoAnswer
            | Self::DataStopUntrained
            | Self::DataMaskContent
            | Self::DataMaskMark
            | Self::DataTooLong
            | Self::DataSpecialToken
            | Self::DataBeginTwice => "A conversation cannot be used for training.",

            Self::MdTopLevelText
            | Self::MdUnclosedTag
            | Self::MdUnexpectedClosingTag
            | Self::MdMismatchedTag
            | Self::MdUnterminatedQuote
            | Self::MdUnterminatedRaw
            | Self::MdUnterminatedComment
            | Self::MdMissingAttribute
            | Self::MdMissingContent
            | Self::MdInvalidAttribute
            | Self::MdVariable
            | Self::MdSummaryElement
            | Self::MdUnknownRole => "The prompt has a mistake.",
            Self::MdToolDeclaration
            | Self::MdDuplicateTool
            | Self::McpDeclarationInvalid
            | Self::McpToolNotFound => "A tool is not set up correctly.",
            Self::McpServerNotTrusted => "A tool needs permission first.",
            Self::MdUnknownTool
            | Self::ToolUnsupported
            | Self::ShellModeRefused
            | Self::UndeclaredTool
            | Self::McpServerFailed => "A tool is not available.",
            Self::MdImportCycle | Self::MdImportLimit => "The prompt includes too much.",
            Self::MdAgentFailed => "A part of the prompt could not be evaluated.",
            Self::NetworkDenied => "A page may not be opened.",
            Self::SandboxUnavailable => "A tool may not be used here.",
            Self::ToolLimitExceeded => "A tool used more than its limit.",
            Self::OutsideRoots | Self::ReadRootRefused => "A document may not be opened.",
            Self::MdUnsupported | Self::ScriptUnsupported | Self::ShellAccessUnsupported => {
                "The prompt uses something that is not supported yet."
            }
            Self::ContentDropped => "Some content was left out.",
            Self::CallWithoutResponse => "A tool has not answered.",
            Self::ResponseWithoutCall => "A tool answered without being asked.",
            Self::ConfigIgnored
            | Self::UnknownAttribute
            | Self::RepeatedAttribute
            | Self::FlagAttributeHasValue
            | Self::StatusWithoutId
            | Self::EmptyModel
            | Self::UndeclaredVariable => "Some settings have no effect.",
            Self::UnusedTool => "A tool was not used.",
            Self::DuplicateId => "Two uses of a tool cannot be told apart.",

            Self::DataTokenizer
            | Self::DataTemplate
            | Self::DataTemplateDate
            | Self::DataTemplateSpans
            | Self::DataTemplateDropped => "The training data could not be prepared.",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::DiagnosticCode;

    #[test]
    fn each_code_has_one_plain_sentence() {
        for code in DiagnosticCode::ALL {
            let text = code.user_message();
            assert!(
                text.ends_with('.') && text.matches('.').count() == 1,
                "{code}"
            );
            assert!(text.len() <= 80, "{code}");
            assert!(
                text.starts_with(|first: char| first.is_uppercase()),
                "{code}"
            );
            let is_plain = |char: char| char.is_ascii_alphabetic() || " ,.".contains(char);
            assert!(text.chars().all(is_plain), "{code}: {text}");
            assert!(!text.contains(code.as_str()));
        }
    }
}
