//! What stands before the first frame: which part of a text is its document header.
//!
//! A header that opens with a fence (`---`) ends at the closing one; any other ends at the first
//! line that begins with `<|start|>`, because a header may hold that token as a value
//! (OpenChatML 2.2 §2). A fence behind such a line closes nothing: it is a line of some body.

use logue_source::{Code, Diagnostic, Span};
use memchr::memmem;

use crate::findings::Findings;
use crate::header::{self, Header, Rules, parse_yaml, read_values};
use crate::limits::MAX_DOCUMENT_HEADER;
use crate::token::{Scanner, Token};

/// Bytes of a text among which its document header must end: a header as long as it may be, its
/// fences and the first frame's `<|start|>`.
pub(crate) const MAX_OPENING: usize = MAX_DOCUMENT_HEADER + 1024;

/// What stands before the frames.
pub(crate) struct Opening {
    pub(crate) header: Option<Header>,
    pub(crate) span: Option<Span>,
    pub(crate) frames_from: usize,
    pub(crate) rules: Rules,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether the beginning of a text, which may go on, says what stands before the first frame.
pub(crate) fn is_decided(beginning: &[u8]) -> bool {
    beginning.len() > MAX_OPENING || !matches!(find(beginning, false), Decision::Open)
}

/// Reads what stands before the first frame. Of a text only its first [`MAX_OPENING`] bytes count,
/// so that a stream needs no more.
pub(crate) fn read(source: &[u8], findings: &mut Findings) -> Opening {
    let whole = source.len() <= MAX_OPENING;
    let head = source.get(..MAX_OPENING).unwrap_or(source);
    let region = match find(head, whole) {
        Decision::Header(region) => region,
        Decision::Fragment => return fragment(source, findings),
        Decision::Open => return overlong(source, findings),
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

/// A text without a document header.
fn fragment(source: &[u8], findings: &mut Findings) -> Opening {
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
    without_header(from)
}

/// A text whose header does not end in time.
fn overlong(source: &[u8], findings: &mut Findings) -> Opening {
    findings.add(header::too_long(MAX_OPENING));
    without_header(content_start(source))
}

const fn without_header(from: usize) -> Opening {
    Opening {
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

/// Behind a byte order mark.
fn content_start(source: &[u8]) -> usize {
    if source.starts_with(BYTE_ORDER_MARK) {
        BYTE_ORDER_MARK.len()
    } else {
        0
    }
}

/// What the beginning of a text says about its header.
#[derive(Clone, Copy, Debug)]
enum Decision {
    /// Nothing yet; more of the text is needed.
    Open,
    /// The text has none.
    Fragment,
    /// It stands there.
    Header(Region),
}

/// The header's region, if the text begins with one. `whole`: there is no more text than `source`.
fn find(source: &[u8], whole: bool) -> Decision {
    if !whole && BYTE_ORDER_MARK.starts_with(source) {
        return Decision::Open;
    }
    let start = content_start(source);
    let first = match first_significant_line(source, start, whole) {
        Some(first) => first,
        None if whole => return Decision::Fragment,
        None => return Decision::Open,
    };
    let complete = whole || first.bytes(source).ends_with(b"\n");
    if is_fence(first.bytes(source)) {
        if complete {
            return fenced(source, start, first.end, whole);
        }
        return Decision::Open;
    }
    match begins_with_markup(source, first) {
        Some(true) => return Decision::Fragment,
        None if !complete => return Decision::Open,
        _ => {}
    }
    let end = unfenced_end(source, Span::new(start, source.len()));
    let Some(end) = end.or(whole.then_some(source.len())) else {
        return Decision::Open;
    };
    let span = Span::new(start, end);
    Decision::Header(Region {
        span,
        yaml: span,
        fence_open: false,
    })
}

/// The region of a header whose opening fence ends at `from`.
fn fenced(source: &[u8], start: usize, from: usize, whole: bool) -> Decision {
    let frame = unfenced_end(source, Span::new(from, source.len()));
    let end = frame.unwrap_or(source.len());
    let fence = lines(source, from)
        .take_while(|line| line.start < end)
        .filter(|line| whole || line.bytes(source).ends_with(b"\n"))
        .find(|line| is_fence(line.bytes(source)));
    match fence {
        Some(line) => Decision::Header(Region {
            span: Span::new(start, line.end),
            yaml: Span::new(from, line.start),
            fence_open: false,
        }),
        None if frame.is_none() && !whole => Decision::Open,
        None => Decision::Header(Region {
            span: Span::new(start, end),
            yaml: Span::new(from, end),
            fence_open: true,
        }),
    }
}

/// Whether a first line is rather a frame, or text before one, than YAML: a token stands in it
/// and no key before that. `None` where no token stands in it.
fn begins_with_markup(source: &[u8], line: Span) -> Option<bool> {
    let hit = Scanner::new(source, line, Rules::V2_2).find(|hit| !hit.escaped)?;
    let before = Span::new(line.start, hit.span.start).bytes(source);
    Some(memchr::memchr3(b':', b'#', b'{', before).is_none())
}

/// The first line of `part` that begins with `<|start|>`.
fn unfenced_end(source: &[u8], part: Span) -> Option<usize> {
    memmem::find_iter(part.bytes(source), Token::Start.as_str())
        .map(|found| part.start + found)
        .find(|at| *at == part.start || source.get(at - 1) == Some(&b'\n'))
}

fn first_significant_line(source: &[u8], start: usize, whole: bool) -> Option<Span> {
    let mut significant = lines(source, start).filter(|line| {
        let text = line.bytes(source).trim_ascii_start();
        !text.is_empty() && text.first() != Some(&b'#')
    });
    // A text of comments only is still a header, if an empty one.
    significant.next().or_else(|| {
        if !whole {
            return None;
        }
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
