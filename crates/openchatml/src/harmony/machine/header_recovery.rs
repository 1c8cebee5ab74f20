//! Headers that never come to `<|message|>`.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use super::super::event::End;
use super::super::header::{Header, SegmentKind};
use super::super::recover;
use super::{Machine, Sink, State};

/// The reason that a header ends without `<|message|>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderAbort {
    Stop(End),
    Start,
    Eos,
    /// Content that requires a body.
    Body,
    TooLong,
}

impl Machine {
    /// Ends a header without `<|message|>`. What follows its longest sound beginning is text; where
    /// a channel is named in that text, it is another message's.
    pub(super) fn break_off(&mut self, why: HeaderAbort, at: Span, sink: &mut Sink<'_>) {
        let header = std::mem::take(&mut self.header);
        self.state = State::Between;
        self.report(broken_header(&header, why, at), sink);
        let mut role = header.implied.unwrap_or(self.default_role);
        let mut first = 0;
        let mut start = header.start;
        while self.state != State::Stopped {
            let mut reading = recover::read(&header, first, true, role, &self.tools);
            reading.head.sound = false;
            let (rest, segment) = match reading.rest {
                Some(rest) => rest,
                None => (header.text.len(), header.segments.len()),
            };
            let later = header.segments.iter().enumerate().skip(segment + 1);
            let next = later.filter(|(_, later)| later.kind == SegmentKind::Channel);
            let next = next.map(|(index, later)| (index, *later)).next();
            // A possible part of a role is not text.
            let half = why == HeaderAbort::Eos && header.is_one_word();
            let empty = reading.rest.is_none() || half;
            if why == HeaderAbort::TooLong {
                reading.head.channel = None;
            }
            if empty && matches!(why, HeaderAbort::Start | HeaderAbort::Eos) {
                break;
            }
            role = reading.head.role;
            self.begin_read(reading, start, header.place(rest), sink);
            let last = next.map_or(header.segments.len(), |(index, _)| index);
            for index in segment..last {
                let part = header.part(index);
                let from = part.start.max(rest);
                if index > segment
                    && let Some(opened) = header.segments.get(index)
                    && let Some(token) = opened.kind.token()
                {
                    self.text(token.as_str().as_bytes(), opened.at.start, sink);
                }
                let text = Span::new(from, part.end);
                self.text(text.bytes(&header.text), header.place(from), sink);
            }
            let Some((index, later)) = next else {
                match why {
                    HeaderAbort::Stop(end) => self.end(end, at, sink),
                    HeaderAbort::Start => self.end(End::Implicit, Span::empty(at.start), sink),
                    HeaderAbort::Eos => self.end(End::Eos, Span::empty(at.start), sink),
                    HeaderAbort::Body | HeaderAbort::TooLong => {}
                }
                break;
            };
            self.end(End::Implicit, Span::empty(later.at.start), sink);
            first = index;
            start = later.at.start;
        }
        self.header = header;
    }
}

fn broken_header(header: &Header, why: HeaderAbort, at: Span) -> Diagnostic {
    let (code, message) = match why {
        HeaderAbort::Eos => (
            DiagnosticCode::StreamTruncated,
            "the text ends in a message's header",
        ),
        HeaderAbort::TooLong => (
            DiagnosticCode::ParseHeader,
            "the message's header is too long",
        ),
        _ => (
            DiagnosticCode::ParseHeader,
            "the message's header has no `<|message|>`",
        ),
    };
    Diagnostic::error(code, message, Span::new(header.start, at.start))
        .with_expected("`<|message|>` followed by a body")
        .with_help("the remaining text is read as the message's body")
}
