//! Calls against the tools that the conversation has declared before them.

use logue_source::{Diagnostic, DiagnosticCode, Span, excerpt};

use serde_json::Value;

use crate::declare::{self, CallError, CallSchemas, ToolIndex};
use crate::document::Document;
use crate::document::frame::Frame;
use crate::limits::MAX_QUOTED_CHARS;
use crate::syntax::vocabulary::FrameRole;
use crate::visibility::Recipient;

/// The tools of the frames before, and their places.
#[derive(Default)]
pub(super) struct Tools {
    toolbox: ToolIndex,
    /// For each body: its pieces in the source, with the offset in the body at which each begins.
    places: Vec<Vec<(usize, Span)>>,
}

impl Tools {
    /// Takes the list of built-in tools of a header.
    pub(super) fn list_builtins(&mut self, names: Option<&Value>, schemas: &CallSchemas) {
        self.toolbox.list_builtins(names, schemas);
    }

    /// Takes what a frame declares, and reports what of it cannot be read.
    pub(super) fn learn(
        &mut self,
        document: &Document<'_>,
        frame: &Frame,
        found: &mut Vec<Diagnostic>,
    ) {
        let may_declare = matches!(frame.role(), FrameRole::System | FrameRole::Developer);
        if !may_declare || frame.is_stray() {
            return;
        }
        let body = document.body(frame);
        let Ok(text) = std::str::from_utf8(&body) else {
            return;
        };
        let declarations = declare::read(text);
        if declarations.is_empty() && declarations.issues().is_empty() {
            return;
        }
        let mut places = Vec::new();
        let mut offset = 0;
        for piece in document.body_pieces(frame) {
            places.push((offset, piece));
            offset += piece.len();
        }
        for issue in declarations.issues() {
            found.push(
                Diagnostic::warning(
                    DiagnosticCode::InvalidToolDeclaration,
                    issue.message.clone(),
                    first_line(document, span_in(&places, issue.span)),
                )
                .with_expected("a declaration of a tool that can be read")
                .with_help("correct the declaration; until then its calls are not fully checked"),
            );
        }
        self.toolbox.add(declarations);
        self.places.push(places);
    }

    /// Checks that the body of a call is JSON that fits its schema.
    pub(super) fn check(&self, document: &Document<'_>, frame: &Frame) -> Result<bool, Diagnostic> {
        let Some(recipient) = frame.to_span().filter(|_| is_checked(document, frame)) else {
            return Ok(false);
        };
        let name = document.text(recipient);
        match self.toolbox.judge(&name, &document.body(frame)) {
            Ok(is_judged) => Ok(is_judged),
            Err(CallError::Undeclared { namespace }) => {
                Err(undeclared(&name, namespace, IN_MESSAGE, recipient))
            }
            Err(CallError::Builtin { mismatch }) => {
                let place = place_in_body(document, frame, mismatch.span);
                Err(mismatched(&name, &mismatch, place))
            }
            Err(CallError::Arguments {
                mismatch,
                tool,
                body: index,
            }) => {
                let place = place_in_body(document, frame, mismatch.span);
                let places = self.places.get(index).map_or(&[][..], Vec::as_slice);
                let declared = first_line(document, span_in(places, tool.span));
                Err(mismatched(&name, &mismatch, place).with_label(declared, "declared here"))
            }
        }
    }
}

/// The place of declarations in forms with frames.
pub(crate) const IN_MESSAGE: &str = "declare the tool in a `developer` message before the call";

/// A finding of arguments that do not fit.
pub(crate) fn mismatched(
    name: &str,
    mismatch: &crate::argument_schema::SchemaMismatch,
    place: Span,
) -> Diagnostic {
    let name = excerpt(name.as_bytes(), MAX_QUOTED_CHARS);
    let path = excerpt(mismatch.path.as_bytes(), MAX_QUOTED_CHARS);
    let (expected, found) = (&mismatch.expected, &mismatch.found);
    let difference = match path.as_str() {
        path if found.starts_with("invalid") => format!("`{path}` is {found}"),
        "$" => format!("expected {expected}, found {found}"),
        path => format!("expected {expected} at `{path}`, found {found}"),
    };
    Diagnostic::error(
        DiagnosticCode::CallSchema,
        format!("the arguments of `{name}` do not fit its declaration: {difference}"),
        place,
    )
    .with_expected(mismatch.expected.clone())
    .with_help("call the tool again with arguments that fit, or correct its declaration")
}

/// A finding about an undeclared tool.
///
/// `remedy` names the place of declarations in the form.
pub(crate) fn undeclared(name: &str, namespace: &str, remedy: &str, place: Span) -> Diagnostic {
    let name = excerpt(name.as_bytes(), MAX_QUOTED_CHARS);
    let namespace = excerpt(namespace.as_bytes(), MAX_QUOTED_CHARS);
    Diagnostic::error(
        DiagnosticCode::CallSchema,
        format!("no tool `{name}` is declared"),
        place,
    )
    .with_expected(format!("a tool that `{namespace}` declares"))
    .with_help(format!("correct the name, or {remedy}"))
}

/// Returns whether a frame is a call whose body represents JSON arguments.
fn is_checked(document: &Document<'_>, frame: &Frame) -> bool {
    let is_other =
        |span: Option<Span>| span.is_some_and(|span| span.bytes(document.source()) != b"json");
    frame.is_call()
        && frame.recipient == Recipient::Tool
        && !is_other(frame.constrain_span().or(frame.content_type_span()))
}

/// The source place of a part of a frame's body.
fn place_in_body(document: &Document<'_>, frame: &Frame, part: Span) -> Span {
    let start = document.body_place(frame, part.start);
    if part.is_empty() {
        Span::empty(start)
    } else {
        Span::new(start, document.body_place(frame, part.end - 1) + 1)
    }
}

/// The source place of a part of a body.
fn span_in(places: &[(usize, Span)], part: Span) -> Span {
    let place = |offset: usize| {
        let index = places.partition_point(|(start, _)| *start <= offset);
        let (start, piece) = places.get(index.checked_sub(1)?)?;
        Some((piece.start + (offset - start)).min(piece.end))
    };
    let start = place(part.start).unwrap_or_default();
    let last = part.end.saturating_sub(1).max(part.start);
    Span::new(start, place(last).map_or(start, |last| last + 1))
}

/// The part of a span that is on its first line: enough to show which declaration is meant.
fn first_line(document: &Document<'_>, span: Span) -> Span {
    let bytes = span.bytes(document.source());
    let end = memchr::memchr(b'\n', bytes).map_or(span.end, |newline| span.start + newline);
    Span::new(span.start, end)
}
