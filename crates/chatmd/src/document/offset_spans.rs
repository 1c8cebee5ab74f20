//! Translation of spans from one text into the address space of several texts.

use logue_source::{Diagnostic, Span};

use crate::document::content::{AgentElement, ContentItem, DocumentRef, Image, Import, Text};
use crate::document::element::{
    Config, Element, MessageElement, ReasoningElement, Summary, ToolCallElement,
    ToolResponseElement,
};
use crate::document::read_root::ReadRoot;
use crate::document::shell_access::ShellAccess;
use crate::document::tool::ToolDecl;
use crate::document::variable::Variable;

/// A value that contains spans.
pub(crate) trait OffsetSpans {
    /// Adds `by` to every offset in it.
    fn shift(&mut self, by: usize);
}

impl OffsetSpans for Span {
    fn shift(&mut self, by: usize) {
        self.start += by;
        self.end += by;
    }
}

impl<T: OffsetSpans> OffsetSpans for Vec<T> {
    fn shift(&mut self, by: usize) {
        for item in self {
            item.shift(by);
        }
    }
}

impl OffsetSpans for Diagnostic {
    fn shift(&mut self, by: usize) {
        self.primary.shift(by);
        for label in &mut self.labels {
            label.span.shift(by);
        }
    }
}

impl OffsetSpans for Element {
    fn shift(&mut self, by: usize) {
        match self {
            Self::Config(Config { span, opener, .. }) => [span, opener].map(|at| at.shift(by)),
            Self::Message(MessageElement {
                span,
                opener,
                content,
                ..
            })
            | Self::ToolCall(ToolCallElement {
                span,
                opener,
                content,
                ..
            })
            | Self::ToolResponse(ToolResponseElement {
                span,
                opener,
                content,
                ..
            }) => {
                content.shift(by);
                [span, opener].map(|at| at.shift(by))
            }
            Self::Reasoning(ReasoningElement {
                span, summaries, ..
            }) => {
                for Summary { span, .. } in summaries {
                    span.shift(by);
                }
                span.shift(by);
                [(); 2]
            }
            Self::Tool(ToolDecl { span, roots, .. }) => {
                for ReadRoot { span, .. } in roots {
                    span.shift(by);
                }
                span.shift(by);
                [(); 2]
            }
            Self::ShellAccess(ShellAccess { span, .. })
            | Self::Import(Import { span, .. })
            | Self::Variable(Variable { span, .. }) => {
                span.shift(by);
                [(); 2]
            }
        };
    }
}

impl OffsetSpans for ContentItem {
    fn shift(&mut self, by: usize) {
        match self {
            Self::Agent(AgentElement { span, content, .. }) => {
                content.shift(by);
                span.shift(by);
            }
            Self::Text(Text { span, .. })
            | Self::Doc(DocumentRef { span, .. })
            | Self::Img(Image { span, .. })
            | Self::Import(Import { span, .. }) => span.shift(by),
        }
    }
}
