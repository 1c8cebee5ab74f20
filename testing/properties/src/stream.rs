//! OpenChatML as it arrives: however it is split, it is what the batch reader reads.

use logue_source::{Diagnostic, Span};
use openchatml::stream::{Event, Stream, StreamOptions};
use openchatml::{FrameBuf, parse};

use crate::input::{Cuts, Input};

/// What was read, deltas merged.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    version: Option<String>,
    frames: Vec<HeardFrame>,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, PartialEq)]
struct HeardFrame {
    frame: FrameBuf,
    visible: bool,
    stray: bool,
    complete: bool,
    span: Span,
    body: Span,
}

/// The first byte says how to cut the rest, which is the text; a capital letter reads strictly.
pub fn stream(data: &[u8]) {
    let mut input = Input::new(data);
    let seed = input.byte();
    let options = StreamOptions::default().with_strict(seed.is_ascii_uppercase());
    let text = input.rest();
    let whole = hear(&[text], options);
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(hear(&single, options), whole, "byte by byte");
    let parts = Cuts::new(seed).parts(text);
    assert_eq!(hear(&parts, options), whole, "as {parts:?}");
    if !options.strict {
        assert_eq!(whole, read(text));
    }
}

fn hear(parts: &[&[u8]], options: StreamOptions) -> Heard {
    let mut heard = Heard::default();
    let mut opened = 0;
    let mut open = false;
    let mut sink = |event: Event<'_>| match event {
        Event::Opened(header) => {
            opened += 1;
            heard.version = header.map(|header| header.version().to_owned());
        }
        Event::Start(head) => {
            assert!(!open && opened == 1, "a frame begins in another one");
            open = true;
            heard.frames.push(HeardFrame {
                frame: head.frame.clone(),
                visible: head.is_visible(),
                stray: head.stray,
                complete: false,
                span: Span::default(),
                body: Span::default(),
            });
        }
        Event::Diagnostic(found) => heard.diagnostics.push(found),
        other => {
            let Some(last) = heard.frames.last_mut() else {
                panic!("of no frame: {other:?}");
            };
            match other {
                Event::Delta(text) => {
                    assert!(open && !text.is_empty());
                    last.frame.body.push_str(text);
                }
                Event::End(ended) => {
                    assert!(open);
                    open = false;
                    last.frame.terminator = ended.terminator;
                    last.complete = ended.complete;
                    (last.span, last.body) = (ended.span, ended.body);
                }
                Event::Extended(end) => last.span.end = end,
                other => unreachable!("an event that nobody compares: {other:?}"),
            }
        }
    };
    let mut stream = Stream::new(options);
    for part in parts {
        stream.push(part, &mut sink);
    }
    stream.finish(&mut sink);
    assert!(!open && opened <= 1);
    sort(&mut heard.diagnostics);
    heard
}

fn read(source: &[u8]) -> Heard {
    let document = parse(source);
    let frames = document.frames().iter().map(|frame| HeardFrame {
        frame: document.to_owned_frame(frame),
        visible: frame.visibility().is_visible(),
        stray: frame.is_stray(),
        complete: frame.is_complete(),
        span: frame.span(),
        body: frame.body_span(),
    });
    let mut diagnostics = document.diagnostics().to_vec();
    sort(&mut diagnostics);
    Heard {
        version: document.header().map(|header| header.version().to_owned()),
        frames: frames.collect(),
        diagnostics,
    }
}

/// The order in which two findings come up is no part of what was read.
fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by_key(|found| (found.primary, found.code, found.message.clone()));
}
