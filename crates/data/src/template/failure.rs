//! The reasons why a row has no rendering.

use super::engine::{self, TemplateFailure};
use super::regions::NoRegion;
use crate::Refusal;
use logue_source::{DiagnosticCode, Span};

/// The reason why a row has no rendering.
#[derive(Debug)]
pub(super) enum Failure {
    Syntax(String),
    Shape(&'static str),
    Template(String),
    NoDate,
    NoMarks,
    Changed,
    PrintedParts,
    Region(NoRegion),
    Dropped(&'static str, usize),
    EncodedTwice(usize),
    DoubleBegin(String),
}

impl Failure {
    pub(super) fn template(error: &minijinja::Error) -> Self {
        match engine::reported(error) {
            Some(TemplateFailure::NoDate) => Self::NoDate,
            Some(TemplateFailure::Raised(message)) => Self::Template(format!(
                "the chat template refuses the conversation: {message}"
            )),
            Some(failure @ TemplateFailure::DateFormat(_)) => Self::Template(failure.to_string()),
            None => Self::Template(format!("the chat template fails: {error}")),
        }
    }

    pub(super) fn refusal(self, place: Span) -> Refusal {
        use DiagnosticCode as Code;
        let unknown = "the spans of the assistant are unknown";
        let (code, message, help) = match self {
            Self::Syntax(error) => (Code::JsonSyntax, error, "correct or remove the row"),
            Self::Shape(message) => (
                Code::JsonShape,
                message.to_owned(),
                "convert the data set to messages with `logue data convert`",
            ),
            Self::Template(message) => (
                Code::DataTemplate,
                message,
                "change the row, or use the template of another model",
            ),
            Self::NoDate => (
                Code::DataTemplateDate,
                "the chat template prints the day, which is not given".to_owned(),
                "give the day with `--date`",
            ),
            Self::NoMarks => (
                Code::DataTemplateSpans,
                format!("{unknown}: the row has characters of both planes for private use"),
                "remove these characters, or the row",
            ),
            Self::Changed => (
                Code::DataTemplateSpans,
                format!("{unknown}: the template tests or changes the text of messages"),
                "add `{% generation %}` to the template",
            ),
            Self::PrintedParts => (
                Code::DataTemplate,
                "the chat template prints the parts of a content as Python does, not their text"
                    .to_owned(),
                "write the content as one text, or use a template that reads parts",
            ),
            Self::Region(NoRegion::Stop) => (
                Code::DataStopUntrained,
                "no stop token follows an answer in the output of the template".to_owned(),
                "name the stop token with `--stop-token`",
            ),
            Self::Region(reason) => {
                let reason = match reason {
                    NoRegion::Header => "an answer does not follow the prompt for answers",
                    _ => "values are not in the order of their messages",
                };
                (
                    Code::DataTemplateSpans,
                    format!("{unknown}: {reason}"),
                    "add `{% generation %}` to the template",
                )
            }
            Self::Dropped(what, message) => (
                Code::DataTemplateDropped,
                format!("the chat template leaves out {what} of message {message}"),
                "use a template that renders it",
            ),
            Self::EncodedTwice(message) => (
                Code::DataTemplate,
                format!("the chat template encodes the arguments of message {message} twice"),
                "write the arguments as an object instead of as text",
            ),
            Self::DoubleBegin(token) => (
                Code::DataBeginTwice,
                format!("the text begins with `{token}` twice"),
                "remove the token from the first message",
            ),
        };
        Refusal::new(code, message, place).with_help(help)
    }
}
