//! The batch reader: a whole text, tokens in, frames out.
//!
//! A scanner finds the tokens, the [`Machine`] gives them their meaning. It is the machine of the
//! [`Stream`](crate::stream::Stream), so a text gives the same frames however it arrives.

use logue_source::{Diagnostic, DiagnosticCode, Severity, Span};

use crate::document::frame::Frame;
use crate::document::{Contents, Document};
use crate::limits::MAX_LITERAL_HELD;
use crate::read::machine::{Handler, Machine, State};
use crate::read::preamble;
use crate::syntax::findings::Findings;
use crate::syntax::offset_slice::OffsetSlice;
use crate::syntax::rules::Rules;
use crate::syntax::scanner::Scanner;
use crate::syntax::token::ControlToken;

/// Reads a transcript. Never fails: what is wrong is a diagnostic, and every byte is in the
/// result. Linear in the length of `source`, and copies nothing of it but the document header.
///
/// Implements OpenChatML 2.2 §2, §3 and §6.
pub fn parse(source: &[u8]) -> Document<'_> {
    parse_fragment_as(source, Rules::V2_2)
}

/// [`parse`] with the rules that count where no header names a version.
pub(crate) fn parse_fragment_as(source: &[u8], fragment: Rules) -> Document<'_> {
    Document::new(source, read(source, fragment))
}

/// Reads `source`, by the rules of `fragment` if no header names a version.
pub(crate) fn read(source: &[u8], fragment: Rules) -> Contents {
    let mut findings = Findings::default();
    let mut preamble = preamble::read(source, &mut findings);
    let header = preamble.header.as_ref();
    if header.is_none_or(|header| header.version().is_empty()) {
        preamble.rules = fragment;
    }
    let window = OffsetSlice::new(source, 0);
    let part = Span::new(preamble.frames_from, source.len());
    let mut machine = Machine::new(preamble.rules);
    let mut out = FrameCollector {
        frames: Vec::with_capacity(source.len() / USUAL_FRAME),
        findings,
        may_be_marked: false,
    };
    let mut scanner = Scanner::new(source, part, preamble.rules);
    // Start of the text that the machine has not received.
    let mut from = part.start;
    // One frame usually follows the other directly.
    let mut directly = true;
    loop {
        let start = directly.then(|| scanner.start_here()).flatten();
        directly = false;
        let Some(hit) = start.or_else(|| scanner.next()) else {
            break;
        };
        out.may_be_marked |= scanner.passed_others();
        if hit.escaped {
            continue;
        }
        if matches!(machine.state(), State::Between { .. }) {
            let gap = Span::new(from, hit.span.start);
            machine.between(window.get(gap), from, &mut out);
            if hit.token == ControlToken::Start
                && let Some(body) = machine.begin(window, hit.span, &mut out)
            {
                scanner.skip_to(body);
                continue;
            }
        }
        machine.token(window, hit.token, hit.span, &mut out);
        from = hit.span.end;
        directly = matches!(
            hit.token,
            ControlToken::End | ControlToken::Call | ControlToken::Return
        );
        if hit.token == ControlToken::Literal {
            from = literal(&mut machine, &mut scanner, window, hit.span, &mut out);
        }
    }
    out.may_be_marked |= scanner.passed_others();
    let rest = Span::new(from, source.len());
    machine.between(window.get(rest), from, &mut out);
    machine.finish(window, source.len(), &mut out);
    Contents {
        header: preamble.header,
        header_span: preamble.span,
        rules: preamble.rules,
        frames: out.frames,
        findings: out.findings,
    }
}

/// Reads a transcript that must be free of errors and have a document header. Linear like [`parse`].
///
/// ```
/// let refused = openchatml::parse_strict(b"version: 2.2\n<|start|>user<|message|>Hi").unwrap_err();
/// assert_eq!(refused.error.code.as_str(), "E-STREAM-TRUNCATED");
/// assert_eq!(refused.document.frames().len(), 1); // nothing is lost
/// ```
///
/// # Errors
/// The first error that the reader comes to, which is the one that a strict
/// [`Stream`](crate::stream::Stream) ends with; beside it the document as [`parse`] gives it.
pub fn parse_strict(source: &[u8]) -> Result<Document<'_>, Box<StrictError<'_>>> {
    let document = parse(source);
    let findings = document.diagnostics().iter().cloned();
    let error = findings.map(missing_is_an_error).find(Diagnostic::is_error);
    match error {
        None => Ok(document),
        Some(error) => Err(Box::new(StrictError { error, document })),
    }
}

/// A document that strict reading refuses.
#[derive(Debug)]
#[non_exhaustive]
pub struct StrictError<'s> {
    /// The first error in it.
    pub error: Diagnostic,
    /// The document, erroneous parts included.
    pub document: Document<'s>,
}

impl std::fmt::Display for StrictError<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.error.code, self.error.message)
    }
}

impl std::error::Error for StrictError<'_> {}

/// Strict reading requires a document header (OpenChatML 2.2 §2).
pub(crate) fn missing_is_an_error(mut finding: Diagnostic) -> Diagnostic {
    if finding.code != DiagnosticCode::FragmentWithoutHeader {
        return finding;
    }
    finding.code = DiagnosticCode::ParseHeader;
    finding.severity = Severity::Error;
    "the transcript has no document header".clone_into(&mut finding.message);
    finding
}

/// Bytes of a frame, about; for the first guess at how many there are.
const USUAL_FRAME: usize = 1024;

/// Skips the literal block that `open` begins.
///
/// Returns the start of the text that the machine
/// has not received.
fn literal(
    machine: &mut Machine,
    scanner: &mut Scanner<'_>,
    window: OffsetSlice<'_>,
    open: Span,
    out: &mut FrameCollector,
) -> usize {
    let in_body = machine.state() == State::Body;
    let first = scanner.first_raw().map(|span| span.start);
    let close = scanner.skip_literal();
    out.may_be_marked |= scanner.passed_others();
    let late = match (first, close) {
        (Some(first), Some(close)) => close.start - first > MAX_LITERAL_HELD,
        (_, close) => close.is_none(),
    };
    if !in_body || !late {
        return open.end;
    }
    let cut = first.unwrap_or(window.end());
    machine.unclosed_literal(window, open, cut, out);
    cut
}

/// The frames and findings of a document.
#[derive(Debug, Default)]
struct FrameCollector {
    frames: Vec<Frame>,
    findings: Findings,
    /// Whether something may be a marker in what was read since the last frame ended.
    may_be_marked: bool,
}

impl Handler for FrameCollector {
    fn ended(&mut self, _window: OffsetSlice<'_>, frame: &mut Frame) {
        frame.may_be_marked = std::mem::take(&mut self.may_be_marked);
        self.frames.push(frame.take());
    }

    fn extended(&mut self, end: usize) {
        if let Some(call) = self.frames.last_mut() {
            call.span.end = end;
        }
    }

    fn findings(&mut self) -> &mut Findings {
        &mut self.findings
    }
}
