//! The text before the first frame: the region of the document header.
//!
//! A header that opens with a fence (`---`) ends at the closing one; any other ends at the first
//! line that begins with `<|start|>`, because a header may hold that token as a value
//! (OpenChatML 2.2 §2). A fence after such a line closes nothing: it is a line of some body.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::header::{self, Header, parse_yaml, read_values};
use crate::limits::MAX_DOCUMENT_HEADER;
use crate::syntax::findings::Findings;
use crate::syntax::rules::Rules;
use crate::syntax::scanner::Scanner;
use crate::syntax::token::ControlToken;

/// Bytes of a text among which its document header must end: a header as long as it may be, its
/// fences and the first frame's `<|start|>`.
pub(crate) const MAX_OPENING: usize = MAX_DOCUMENT_HEADER + 1024;

/// The text before the frames.
pub(crate) struct Preamble {
    pub(crate) header: Option<Header>,
    pub(crate) span: Option<Span>,
    pub(crate) frames_from: usize,
    pub(crate) rules: Rules,
}

/// An optional mark at the beginning of a text, without meaning.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the text before the first frame. Only its first [`MAX_OPENING`] bytes count,
/// so that a stream needs no more.
pub(crate) fn read(source: &[u8], findings: &mut Findings) -> Preamble {
    let whole = source.len() <= MAX_OPENING;
    let head = source.get(..MAX_OPENING).unwrap_or(source);
    let region = match Search::default().look(head, whole) {
        Decision::Header(region) => region,
        Decision::Fragment => return fragment(source, findings),
        Decision::Open => return overlong(source, findings),
    };
    let parsed = parse_yaml(source, region.yaml);
    if region.fence_open {
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "the document header's preamble `---` has no closing one before the first frame",
                Span::new(region.span.start, region.yaml.start),
            )
            .with_label(
                Span::empty(region.span.end),
                "the header is read up to here",
            )
            .with_expected("a line `---` after the header")
            .with_help("close the header, or leave out both fences"),
        );
    }
    let (header, rules) = match parsed {
        Ok(entries) => {
            let (header, rules) = read_values(source, region.span, region.yaml, entries, findings);
            (Some(header), rules)
        }
        Err(finding) => {
            findings.add(*finding);
            (None, Rules::V2_2)
        }
    };
    Preamble {
        header,
        span: Some(region.span),
        frames_from: region.span.end,
        rules,
    }
}

/// A text without a document header.
fn fragment(source: &[u8], findings: &mut Findings) -> Preamble {
    let from = content_start(source);
    findings.add(
        Diagnostic::warning(
            DiagnosticCode::FragmentWithoutHeader,
            "the transcript has no document header and is read as a fragment",
            Span::empty(from),
        )
        .with_expected("`version: 2.2`")
        .with_help("begin the transcript with a line `version: 2.2`"),
    );
    without_header(from)
}

/// A text whose header does not end in time.
fn overlong(source: &[u8], findings: &mut Findings) -> Preamble {
    findings.add(header::too_long(MAX_OPENING));
    without_header(content_start(source))
}

const fn without_header(from: usize) -> Preamble {
    Preamble {
        header: None,
        span: None,
        frames_from: from,
        rules: Rules::V2_2,
    }
}

#[derive(Clone, Copy, Debug)]
struct Region {
    span: Span,
    yaml: Span,
    /// Whether it opens with a fence and has no closing one.
    fence_open: bool,
}

/// The offset after a byte order mark.
fn content_start(source: &[u8]) -> usize {
    if source.starts_with(BYTE_ORDER_MARK) {
        BYTE_ORDER_MARK.len()
    } else {
        0
    }
}

/// The header as far as the beginning of a text decides it.
#[derive(Clone, Copy, Debug)]
enum Decision {
    /// Nothing yet; more of the text is needed.
    Open,
    /// The text has none.
    Fragment,
    /// Its region.
    Header(Region),
}

/// The search for the header's region in a text that may grow. Each byte is looked at a fixed
/// number of times, however the text arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Search {
    stage: Stage,
    /// Start of the current line, and of its first possible letter.
    line: usize,
    letter: usize,
    /// Bytes that were there the last time.
    seen: usize,
}

/// The object of the search.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// A byte order mark.
    #[default]
    Mark,
    /// The first line that is neither blank nor a comment; whether there was a comment.
    First { comment: bool },
    /// The closing fence of the YAML that begins at `yaml`, or the first frame.
    Fence { yaml: usize },
    /// The first frame.
    Frame,
}

impl Search {
    /// Returns whether `beginning` decides the end of the preamble.
    ///
    /// It begins with the bytes of the previous call and may
    /// continue.
    pub(crate) fn is_decided(&mut self, beginning: &[u8]) -> bool {
        beginning.len() > MAX_OPENING || !matches!(self.look(beginning, false), Decision::Open)
    }

    /// The header's region, if the text begins with one. `whole`: there is no more than `source`.
    fn look(&mut self, source: &[u8], whole: bool) -> Decision {
        let start = content_start(source);
        if matches!(self.stage, Stage::Mark) {
            if !whole && BYTE_ORDER_MARK.starts_with(source) {
                return Decision::Open;
            }
            self.go_behind(start);
            self.stage = Stage::First { comment: false };
        }
        while self.line < source.len() {
            let from = self.seen.max(self.line);
            let newline = memchr::memchr(b'\n', source.get(from..).unwrap_or_default());
            let end = newline.map_or(source.len(), |at| from + at + 1);
            let line = Span::new(self.line, end);
            let complete = whole || newline.is_some();
            let decision = match self.stage {
                Stage::Mark | Stage::First { .. } => self.first(source, line, complete),
                Stage::Fence { .. } | Stage::Frame => self.later(source, start, line, complete),
            };
            if !matches!(decision, Decision::Open) {
                return decision;
            }
            if self.line == line.start {
                // More of the line is needed, or the line is to be looked at in another stage.
                if matches!(self.stage, Stage::First { .. }) || !complete {
                    break;
                }
            }
        }
        self.seen = source.len();
        if whole {
            self.at_the_end(source, start)
        } else {
            Decision::Open
        }
    }

    fn go_behind(&mut self, end: usize) {
        (self.line, self.letter) = (end, end);
    }

    /// A line before the first one that says something, or that line.
    fn first(&mut self, source: &[u8], line: Span, complete: bool) -> Decision {
        let rest = Span::new(self.letter, line.end).bytes(source);
        self.letter += rest.len() - rest.trim_ascii_start().len();
        let letter = (self.letter < line.end).then(|| source.get(self.letter));
        match letter.flatten() {
            None | Some(b'#') => {
                if complete {
                    let Stage::First { comment } = self.stage else {
                        return Decision::Open;
                    };
                    let comment = comment || letter.is_some();
                    self.stage = Stage::First { comment };
                    self.go_behind(line.end);
                }
                return Decision::Open;
            }
            Some(_) => {}
        }
        if complete && is_fence(line.bytes(source)) {
            self.stage = Stage::Fence { yaml: line.end };
            self.go_behind(line.end);
            return Decision::Open;
        }
        match begins_with_markup(source, line, self.seen) {
            Some(true) => return Decision::Fragment,
            Some(false) => self.stage = Stage::Frame,
            None if complete => self.stage = Stage::Frame,
            None => {}
        }
        Decision::Open
    }

    /// Reads a line of the header, or after it.
    fn later(&mut self, source: &[u8], start: usize, line: Span, complete: bool) -> Decision {
        let bytes = line.bytes(source);
        if bytes.starts_with(ControlToken::Start.as_str().as_bytes()) {
            return self.header_until(start, line.start);
        }
        if complete {
            if let Stage::Fence { yaml } = self.stage
                && is_fence(bytes)
            {
                return Decision::Header(Region {
                    span: Span::new(start, line.end),
                    yaml: Span::new(yaml, line.start),
                    fence_open: false,
                });
            }
            self.go_behind(line.end);
        }
        Decision::Open
    }

    /// The decision about a text that ends without a frame.
    fn at_the_end(&self, source: &[u8], start: usize) -> Decision {
        match self.stage {
            Stage::Mark | Stage::First { comment: false } => Decision::Fragment,
            // A text of comments only is still a header, if an empty one.
            _ => self.header_until(start, source.len()),
        }
    }

    const fn header_until(&self, start: usize, end: usize) -> Decision {
        let span = Span::new(start, end);
        Decision::Header(match self.stage {
            Stage::Fence { yaml } => Region {
                span,
                yaml: Span::new(yaml, end),
                fence_open: true,
            },
            _ => Region {
                span,
                yaml: span,
                fence_open: false,
            },
        })
    }
}

/// Returns whether a first line is a frame, or text before one, rather than YAML: it has a token
/// and no key before that. `None` if no token in it ends after `seen`.
fn begins_with_markup(source: &[u8], line: Span, seen: usize) -> Option<bool> {
    let longest = ControlToken::EndLiteral.as_str().len();
    let from = seen.saturating_sub(longest + 1).max(line.start);
    let mut hits = Scanner::new(source, Span::new(from, line.end), Rules::V2_2);
    let hit = hits.find(|hit| !hit.escaped && hit.span.end > seen)?;
    let before = Span::new(line.start, hit.span.start).bytes(source);
    Some(memchr::memchr3(b':', b'#', b'{', before).is_none())
}

fn is_fence(line: &[u8]) -> bool {
    line.trim_ascii_end() == b"---"
}
