//! The mapping of the machine's output to events.

use logue_source::{Diagnostic, Span};

use super::event::{Event, FrameEnd, FrameHeader, StreamOptions};
use crate::document::frame::Frame;
use crate::document::header::Header;
use crate::document::owned::FrameBuf;
use crate::read::batch::missing_is_an_error;
use crate::read::machine::Handler;
use crate::syntax::findings::Findings;
use crate::syntax::offset_slice::OffsetSlice;
use crate::syntax::utf8::{Decoder, Piece};
use crate::syntax::vocabulary::Terminator;

/// A receiver of events.
pub(super) type Sink<'s> = dyn FnMut(Event<'_>) + 's;

/// The state between two events.
#[derive(Debug)]
pub(super) struct Emitter {
    options: StreamOptions,
    findings: Findings,
    decoder: Decoder,
    /// White space in stray text, if more of it follows.
    blank: Vec<u8>,
    /// Start of the open frame and of its body.
    begun: Option<(usize, usize)>,
    stopped: bool,
}

impl Emitter {
    pub(super) fn new(options: StreamOptions) -> Self {
        Self {
            options,
            findings: Findings::default(),
            decoder: Decoder::default(),
            blank: Vec::new(),
            begun: None,
            stopped: false,
        }
    }

    /// Returns whether an error ended the reading.
    pub(super) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Binds the emitter to `sink`. The output has its place at `at`.
    pub(super) fn to<'t, 's>(
        &'t mut self,
        at: usize,
        sink: &'t mut Sink<'s>,
    ) -> BoundEmitter<'t, 's> {
        BoundEmitter {
            emitter: self,
            sink,
            at,
        }
    }
}

pub(super) struct BoundEmitter<'t, 's> {
    emitter: &'t mut Emitter,
    sink: &'t mut Sink<'s>,
    at: usize,
}

impl BoundEmitter<'_, '_> {
    /// Emits the text before the first frame.
    pub(super) fn opened(&mut self, header: Option<&Header>, mut findings: Findings) {
        let strict = self.emitter.options.strict;
        for finding in findings.take() {
            self.emitter.findings.add(if strict {
                missing_is_an_error(finding)
            } else {
                finding
            });
        }
        self.flush();
        self.event(Event::Opened(header));
    }

    /// More of a body.
    pub(super) fn delta(&mut self, bytes: &[u8]) {
        if self.emitter.stopped {
            return;
        }
        let Self { emitter, sink, .. } = self;
        emitter
            .decoder
            .push_lossy(bytes, &mut |text| sink(Event::Delta(text)));
    }

    /// Emits the findings so far. In strict mode the first error is the last event,
    /// but for the end of a frame that was begun.
    pub(super) fn flush(&mut self) {
        if self.emitter.findings.is_empty() {
            return;
        }
        let found: Vec<Diagnostic> = self.emitter.findings.take().collect();
        for finding in found {
            let fatal = self.emitter.options.strict && finding.is_error();
            self.event(Event::Diagnostic(finding));
            if fatal {
                self.stop();
            }
        }
    }

    fn stop(&mut self) {
        if let Some((start, body)) = self.emitter.begun.take() {
            self.end_of_text();
            let end = self.at.max(body);
            self.event(Event::End(FrameEnd {
                terminator: Terminator::None,
                complete: false,
                span: Span::new(start, end),
                body: Span::new(body, end),
            }));
        }
        self.emitter.stopped = true;
    }

    fn event(&mut self, event: Event<'_>) {
        if !self.emitter.stopped {
            (self.sink)(event);
        }
    }

    /// Gives up on a character that the text has only the beginning of.
    fn end_of_text(&mut self) {
        let mut bad = false;
        self.emitter
            .decoder
            .flush(&mut |piece| bad |= matches!(piece, Piece::Bad(_)));
        if bad {
            self.event(Event::Delta("\u{FFFD}"));
        }
    }

    fn start(&mut self, window: OffsetSlice<'_>, frame: &Frame) {
        let head = FrameHeader {
            frame: FrameBuf::head_of(frame, |span| {
                String::from_utf8_lossy(window.get(span)).into_owned()
            }),
            visibility: frame.visibility(),
            stray: frame.is_stray(),
        };
        self.flush();
        self.event(Event::Start(&head));
    }
}

impl Handler for BoundEmitter<'_, '_> {
    fn begun(&mut self, window: OffsetSlice<'_>, frame: &Frame) {
        self.start(window, frame);
        self.emitter.begun = Some((frame.span().start, frame.body_span().start));
    }

    fn stray_begun(&mut self, at: usize) {
        let frame = Frame::stray_text(Span::empty(at));
        self.start(OffsetSlice::new(&[], at), &frame);
        self.emitter.begun = Some((at, at));
    }

    fn stray(&mut self, text: &[u8]) {
        let mut blank = std::mem::take(&mut self.emitter.blank);
        self.delta(&blank);
        self.delta(text);
        blank.clear();
        self.emitter.blank = blank;
    }

    fn blank(&mut self, text: &[u8]) {
        self.emitter.blank.extend_from_slice(text);
    }

    fn ended(&mut self, window: OffsetSlice<'_>, frame: &mut Frame) {
        self.emitter.blank.clear();
        if self.emitter.begun.is_none() {
            self.start(window, frame);
        }
        self.end_of_text();
        // An error about its end does not take the end away.
        self.emitter.begun = None;
        self.event(Event::End(FrameEnd {
            terminator: frame.terminator(),
            complete: frame.is_complete(),
            span: frame.span(),
            body: frame.body_span(),
        }));
        self.flush();
    }

    fn extended(&mut self, end: usize) {
        self.event(Event::Extended(end));
    }

    fn findings(&mut self) -> &mut Findings {
        &mut self.emitter.findings
    }
}
