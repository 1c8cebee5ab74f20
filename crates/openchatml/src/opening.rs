//! What stands before the first frame: which part of a text is its document header.
//!
//! A header that opens with a fence (`---`) ends at the closing one; any other ends at the first
//! line that begins with `<|start|>`, because a header may hold that token as a value
//! (OpenChatML 2.2 §2). A fence behind such a line closes nothing: it is a line of some body.

use logue_source::{Code, Diagnostic, Span};
use memchr::memmem;

use crate::findings::Findings;
use crate::header::{Header, Rules, parse_yaml, read_values};
use crate::token::{Scanner, Token};

/// What stands before the frames.
pub(crate) struct Opening {
    pub(crate) header: Option<Header>,
    pub(crate) span: Option<Span>,
    pub(crate) frames_from: usize,
    pub(crate) rules: Rules,
}

/// Reads what stands before the first frame.
pub(crate) fn read(source: &[u8], findings: &mut Findings) -> Opening {
    let Some(region) = find(source) else {
        let from = content_start(source);
        findings.add(
            Diagnostic::warning(
                Code::FragmentWithoutHeader,
                "the transcript has no document header and is read as a fragment",
                Span::empty(from),
            )
            .with_expected("`version: 2.2`")
            .with_help("begin the transcript with a line `version: 2.2`"),
        );
        return Opening {
            header: None,
            span: None,
            frames_from: from,
            rules: Rules::V2_2,
        };
    };
    let parsed = parse_yaml(source, region.yaml);
    if region.fence_open {
        findings.add(
            Diagnostic::error(
                Code::ParseHeader,
                "the document header's opening `---` has no closing one before the first frame",
                Span::new(region.span.start, region.yaml.start),
            )
            .with_label(
                Span::empty(region.span.end),
                "the header is read up to here",
            )
            .with_expected("a line `---` behind the header")
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
    Opening {
        header,
        span: Some(region.span),
        frames_from: region.span.end,
        rules,
    }
}

#[derive(Clone, Copy, Debug)]
struct Region {
    span: Span,
    yaml: Span,
    /// Whether it opens with a fence and has no closing one.
    fence_open: bool,
}

/// Behind a byte order mark.
fn content_start(source: &[u8]) -> usize {
    if source.starts_with(b"\xef\xbb\xbf") {
        3
    } else {
        0
    }
}

/// The header's region, if the text begins with one.
fn find(source: &[u8]) -> Option<Region> {
    let start = content_start(source);
    let first = first_significant_line(source, start)?;
    if is_fence(first.bytes(source)) {
        let from = first.end;
        let frame = unfenced_end(source, Span::new(from, source.len()));
        let end = frame.unwrap_or(source.len());
        let fence = lines(source, from)
            .take_while(|line| line.start < end)
            .find(|line| is_fence(line.bytes(source)));
        return Some(match fence {
            Some(line) => Region {
                span: Span::new(start, line.end),
                yaml: Span::new(from, line.start),
                fence_open: false,
            },
            None => Region {
                span: Span::new(start, end),
                yaml: Span::new(from, end),
                fence_open: true,
            },
        });
    }
    if begins_with_markup(source, first) {
        return None;
    }
    let rest = Span::new(start, source.len());
    let end = unfenced_end(source, rest).unwrap_or(source.len());
    let span = Span::new(start, end);
    Some(Region {
        span,
        yaml: span,
        fence_open: false,
    })
}

/// Whether a first line is rather a frame, or text before one, than YAML: a token stands in it
/// and no key before that.
fn begins_with_markup(source: &[u8], line: Span) -> bool {
    let token = Scanner::new(source, line, Rules::V2_2).find(|hit| !hit.escaped);
    token.is_some_and(|hit| {
        let before = Span::new(line.start, hit.span.start).bytes(source);
        memchr::memchr3(b':', b'#', b'{', before).is_none()
    })
}

/// The first line of `part` that begins with `<|start|>`.
fn unfenced_end(source: &[u8], part: Span) -> Option<usize> {
    memmem::find_iter(part.bytes(source), Token::Start.as_str())
        .map(|found| part.start + found)
        .find(|at| *at == part.start || source.get(at - 1) == Some(&b'\n'))
}

fn first_significant_line(source: &[u8], start: usize) -> Option<Span> {
    let mut significant = lines(source, start).filter(|line| {
        let text = line.bytes(source).trim_ascii_start();
        !text.is_empty() && text.first() != Some(&b'#')
    });
    // A text of comments only is still a header, if an empty one.
    significant.next().or_else(|| {
        let mut any = lines(source, start);
        any.find(|line| !line.bytes(source).trim_ascii().is_empty())
    })
}

fn is_fence(line: &[u8]) -> bool {
    line.trim_ascii_end() == b"---"
}

/// The lines from `start`, newlines included.
fn lines(source: &[u8], start: usize) -> impl Iterator<Item = Span> {
    let mut at = start;
    std::iter::from_fn(move || {
        let rest = source.get(at..).filter(|rest| !rest.is_empty())?;
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let line = Span::new(at, at + length);
        at = line.end;
        Some(line)
    })
}
