//! A header while it arrives.
//!
//! No event of a message is possible before its header is complete, so the machine holds it:
//! the text and, beside it, where control tokens cut it. A token is therefore never mistaken for
//! text that spells it. The buffers are used again for the next header.

use logue_source::Span;

use crate::ControlToken;
use crate::limits::MAX_FRAME_HEADER;
use crate::syntax::vocabulary::FrameRole;

/// The text after a control token of a header, or at its beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) kind: SegmentKind,
    /// Start of its text in [`Header::text`].
    pub(super) from: usize,
    /// The token in the input; empty where there is none.
    pub(super) at: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentKind {
    /// The role and attributes.
    Role,
    /// Attributes; the role is known.
    Implied,
    /// A channel and attributes.
    Channel,
    /// A content type and attributes.
    Constrain,
}

impl SegmentKind {
    /// The token in front of such a segment.
    pub(super) const fn token(self) -> Option<ControlToken> {
        match self {
            Self::Role | Self::Implied => None,
            Self::Channel => Some(ControlToken::Channel),
            Self::Constrain => Some(ControlToken::Constrain),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Header {
    /// Start of the message in the input.
    pub(super) start: usize,
    /// The role, where it is not written.
    pub(super) implied: Option<FrameRole>,
    pub(super) text: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    /// Offsets of the text with their place in the input, at each discontinuity.
    anchors: Vec<(usize, usize)>,
    /// Bytes of the input so far.
    size: usize,
}

impl Header {
    /// Begins a header whose text begins at `at.end`; `at` is `<|start|>`.
    pub(super) fn open(&mut self, at: Span) {
        self.reset(at.start, None);
        self.segment(SegmentKind::Role, at);
    }

    /// Begins a header at `start` whose role is not written.
    pub(super) fn open_implied(&mut self, start: usize, role: FrameRole) {
        self.reset(start, Some(role));
        self.segment(SegmentKind::Implied, Span::empty(start));
    }

    fn reset(&mut self, start: usize, implied: Option<FrameRole>) {
        self.start = start;
        self.implied = implied;
        self.text.clear();
        self.segments.clear();
        self.anchors.clear();
        self.size = 0;
    }

    /// Returns whether the input contributed nothing to it.
    pub(super) const fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Returns whether at most one word, possibly partial, follows `<|start|>`.
    pub(super) fn is_one_word(&self) -> bool {
        self.implied.is_none()
            && self.segments.len() == 1
            && !self.text.iter().any(u8::is_ascii_whitespace)
    }

    /// The number of further bytes that may be held.
    pub(super) const fn room(&self) -> usize {
        MAX_FRAME_HEADER.saturating_sub(self.size)
    }

    pub(super) fn push(&mut self, bytes: &[u8], at: usize) {
        if self.place(self.text.len()) != at {
            self.anchors.push((self.text.len(), at));
        }
        self.text.extend_from_slice(bytes);
        self.size += bytes.len();
    }

    /// A control token that opens a segment.
    pub(super) fn segment(&mut self, kind: SegmentKind, at: Span) {
        let from = self.text.len();
        self.segments.push(Segment { kind, from, at });
        self.anchors.push((from, at.end));
        self.size += at.len();
    }

    /// The part of the text that is segment `index`.
    pub(super) fn part(&self, index: usize) -> Span {
        let from = |index: usize| self.segments.get(index).map(|segment| segment.from);
        let end = from(index + 1).unwrap_or(self.text.len());
        Span::new(from(index).unwrap_or(end), end)
    }

    /// The segment that an offset of the text is in, or that ends there.
    pub(super) fn part_at(&self, offset: usize) -> Span {
        let behind = self.segments.partition_point(|one| one.from <= offset);
        self.part(behind.saturating_sub(1))
    }

    /// The input place of an offset of the text.
    pub(super) fn place(&self, offset: usize) -> usize {
        let behind = self.anchors.partition_point(|(text, _)| *text <= offset);
        let anchor = behind
            .checked_sub(1)
            .and_then(|last| self.anchors.get(last));
        anchor.map_or(offset, |(text, input)| input + (offset - text))
    }

    /// The input place of a part of the text within one segment.
    pub(super) fn span(&self, part: Span) -> Span {
        if part.is_empty() {
            return Span::empty(self.place(part.start));
        }
        Span::new(self.place(part.start), self.place(part.end - 1) + 1)
    }
}
