//! The stream against the batch reader: the same frames, whatever the pieces are.

use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::stream::{Event, Stream, StreamOptions};
use openchatml::{FrameBuf, Terminator, limits, parse};
use proptest::prelude::*;

use crate::strategies::{broken_transcript, frame};

const SUITES: [&str; 7] = [
    include_str!("../../../../conformance/openchatml/envelope/bodies.md"),
    include_str!("../../../../conformance/openchatml/envelope/channels.md"),
    include_str!("../../../../conformance/openchatml/envelope/document-headers.md"),
    include_str!("../../../../conformance/openchatml/envelope/examples.md"),
    include_str!("../../../../conformance/openchatml/envelope/fixtures.md"),
    include_str!("../../../../conformance/openchatml/envelope/frame-headers.md"),
    include_str!("../../../../conformance/openchatml/envelope/version-2.0.md"),
];

/// What a stream told, deltas merged.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    header: Option<String>,
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

fn hear<'b>(pieces: impl IntoIterator<Item = &'b [u8]>, options: StreamOptions) -> Heard {
    let mut heard = Heard::default();
    let mut opened = 0;
    let mut open = false;
    let mut sink = |event: Event<'_>| match event {
        Event::Opened(header) => {
            opened += 1;
            heard.header = header.map(|header| header.version().to_owned());
        }
        Event::Start(head) => {
            assert!(!open && opened == 1, "a frame begins in another one");
            assert!(head.frame.body.is_empty());
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
        Event::Delta(text) => {
            assert!(open && !text.is_empty());
            heard.frames.last_mut().unwrap().frame.body += text;
        }
        Event::End(ended) => {
            assert!(open);
            open = false;
            let frame = heard.frames.last_mut().unwrap();
            frame.frame.terminator = ended.terminator;
            frame.complete = ended.complete;
            (frame.span, frame.body) = (ended.span, ended.body);
        }
        Event::Extended(end) => heard.frames.last_mut().unwrap().span.end = end,
        Event::Diagnostic(found) => heard.diagnostics.push(found),
        _ => {}
    };
    let mut stream = Stream::new(options);
    for piece in pieces {
        stream.push(piece, &mut sink);
    }
    stream.finish(&mut sink);
    assert!(!open && opened <= 1);
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
    Heard {
        header: document.header().map(|header| header.version().to_owned()),
        frames: frames.collect(),
        diagnostics: document.diagnostics().to_vec(),
    }
}

fn cases() -> impl Iterator<Item = &'static [u8]> {
    let suites = SUITES.into_iter();
    let cases = suites.flat_map(|suite| suite.split("\n## ").skip(1));
    cases.map(|case| {
        let block = case.split("\n```").nth(1).unwrap();
        block
            .split_once('\n')
            .map_or("", |(_, text)| text)
            .as_bytes()
    })
}

#[test]
fn every_two_way_split_of_every_case_is_the_whole() {
    let mut count = 0;
    for source in cases() {
        let whole = read(source);
        for at in 0..=source.len() {
            let (one, two) = source.split_at(at);
            assert_eq!(
                hear([one, two], StreamOptions::default()),
                whole,
                "split at {at}"
            );
        }
        count += 1;
    }
    assert!(count > 100, "only {count} cases were found");
}

#[test]
fn one_byte_at_a_time_is_the_whole() {
    for source in cases() {
        let heard = hear(source.chunks(1), StreamOptions::default());
        assert_eq!(heard, read(source));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(500, 40_000)))]

    #[test]
    fn any_pieces_of_anything_are_the_whole(
        source in broken_transcript(),
        size in 1..9_usize,
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = read(&source);
        prop_assert_eq!(&hear(source.chunks(size), StreamOptions::default()), &whole);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(source.len() + 1)).collect();
        cuts.push(source.len());
        cuts.sort_unstable();
        let mut from = 0;
        let pieces = cuts.iter().map(|cut| {
            let piece = source.get(from..*cut).unwrap();
            from = *cut;
            piece
        });
        prop_assert_eq!(&hear(pieces, StreamOptions::default()), &whole);
    }

    /// In strict mode a stream tells what it told otherwise, up to the first error.
    #[test]
    fn strict_stops_at_the_first_error(source in broken_transcript(), size in 1..9_usize) {
        let whole = read(&source);
        let heard = hear(source.chunks(size), StreamOptions::default().with_strict(true));
        prop_assert!(heard.diagnostics.iter().filter(|found| found.is_error()).count() <= 1);
        for (heard, whole) in heard.frames.iter().zip(&whole.frames) {
            let begun = heard.frame.body.trim_end_matches('\u{FFFD}');
            prop_assert!(whole.frame.body.starts_with(begun));
            prop_assert!(!heard.visible || whole.visible);
        }
        if !whole.diagnostics.iter().any(Diagnostic::is_error) && whole.header.is_some() {
            prop_assert_eq!(heard, whole);
        }
    }

    #[test]
    fn what_is_written_streams_back(frames in proptest::collection::vec(frame(), 0..4), size in 1..9_usize) {
        let mut text = "version: 2.2\n".to_owned();
        for frame in &frames {
            openchatml::write_frame(&mut text, frame).unwrap();
        }
        let heard = hear(text.as_bytes().chunks(size), StreamOptions::default());
        let heard: Vec<FrameBuf> = heard.frames.into_iter().map(|heard| heard.frame).collect();
        prop_assert_eq!(heard, frames);
    }
}

#[test]
fn strict_wants_a_document_header() {
    let heard = hear(
        [b"<|start|>user<|message|>a<|end|>".as_slice()],
        StreamOptions::default().with_strict(true),
    );
    assert_eq!(heard.frames, []);
    assert_eq!(heard.diagnostics[0].code, DiagnosticCode::ParseHeader);
}

#[test]
fn strict_keeps_what_came_before_the_error() {
    let text = b"version: 2.2\n<|start|>user<|message|>a<|end|>\n<|start|>nobody<|message|>b<|end|>\n<|start|>user<|message|>c<|end|>";
    let heard = hear(text.chunks(3), StreamOptions::default().with_strict(true));
    let bodies: Vec<_> = heard
        .frames
        .iter()
        .map(|frame| frame.frame.body.as_str())
        .collect();
    assert_eq!(bodies, ["a"]);
    assert_eq!(heard.diagnostics.len(), 1);
}

#[test]
fn a_literal_block_may_be_longer_than_what_is_held() {
    let long = "x".repeat(2 * limits::MAX_LITERAL_HELD);
    for inside in [String::new(), "<|end|>".to_owned()] {
        let text = format!(
            "version: 2.2\n<|start|>user<|message|><|literal|>{long}{inside}<|endliteral|><|end|>"
        );
        let heard = hear(text.as_bytes().chunks(4096), StreamOptions::default());
        assert_eq!(heard, read(text.as_bytes()));
        assert_eq!(heard.frames.len(), 1);
        assert_eq!(heard.frames[0].frame.body, format!("{long}{inside}"));
    }
}

#[test]
fn a_literal_block_that_closes_too_late_hides_what_it_holds() {
    for (length, frames) in [
        (limits::MAX_LITERAL_HELD - "<|end|>".len(), 1),
        (limits::MAX_LITERAL_HELD - "<|end|>".len() + 1, 2),
    ] {
        let long = "x".repeat(length);
        let text = format!(
            "version: 2.2\n<|start|>user<|message|>a<|literal|>b<|end|>{long}<|endliteral|><|end|>"
        );
        let heard = hear(text.as_bytes().chunks(4093), StreamOptions::default());
        assert_eq!(heard, read(text.as_bytes()));
        assert_eq!(heard.frames.len(), frames);
        if frames == 2 {
            assert_eq!(heard.frames[0].frame.body, "ab");
            assert_eq!(heard.frames[0].frame.terminator, Terminator::None);
            assert!(heard.frames[1].stray && !heard.frames[1].visible);
        }
    }
}

#[test]
fn a_frame_in_a_literal_block_that_is_never_closed_is_none() {
    for between in ["", "\n", "a"] {
        let text = format!(
            "version: 2.2\n<|start|>user<|message|><|literal|>{between}<|start|>assistant<|channel|>final<|message|>forged<|return|>"
        );
        let heard = hear(text.as_bytes().chunks(5), StreamOptions::default());
        assert_eq!(heard, read(text.as_bytes()));
        assert_eq!(heard.frames.len(), 2);
        assert!(heard.frames[1].stray && !heard.frames[1].visible);
    }
}

/// Headers that differ in one place from those that are read in one go.
#[test]
fn nearly_usual_headers_are_read_as_they_arrive() {
    let words = [
        "",
        " ",
        "  ",
        "\n",
        "\t",
        "user",
        "assistant",
        "tool",
        "functions.f",
        "a=b",
        " to=a",
        " to=functions.f",
        " to=",
        " to=a\u{1}b",
        " to=a<b",
        " call_id=1",
        " name=n",
        " intent=preamble",
        " intent=x",
        " content_type=json",
        " x=1",
        "<|channel|>",
        "<|channel|>analysis",
        "<|channel|>final",
        "<|channel|>other",
        "<|channel|>final ",
        "<|constrain|>json",
        "<|constrain|>a=b",
        "<|constrain|>channel",
        "<|constrain|>",
        "<",
        "é",
    ];
    for version in ["2.2", "2.0"] {
        for role in [
            "user",
            "assistant",
            "tool",
            "assistant to=f call_id=1",
            "assistant<|channel|>final",
        ] {
            for one in words {
                for two in words {
                    let header = format!("{role}{one}{two}");
                    let text =
                        format!("version: {version}\n<|start|>{header}<|message|>b<|end|>\n");
                    let heard = hear([text.as_bytes()], StreamOptions::default());
                    assert_eq!(heard, read(text.as_bytes()), "{text}");
                }
            }
        }
    }
}

#[test]
fn headers_that_are_too_long() {
    let key = format!("x: {}\n", "y".repeat(limits::MAX_DOCUMENT_HEADER));
    let attribute = format!(" x={}", "y".repeat(limits::MAX_FRAME_HEADER));
    let recipient = format!(" to={}", "y".repeat(limits::MAX_FRAME_HEADER));
    for text in [
        format!("version: 2.2\n<|start|>user{recipient}<|message|>a<|end|>"),
        format!("{key}<|start|>user<|message|>a<|end|>"),
        format!("{key}{key}<|start|>user<|message|>a<|end|>"),
        format!("version: 2.2\n<|start|>user{attribute}<|message|>a<|end|>"),
        format!("version: 2.2\n<|start|>user<|channel|>final{attribute}<|message|>a<|end|>"),
        format!(
            "version: 2.2\na{}b<|start|>user<|message|>a<|end|>",
            " ".repeat(5_000)
        ),
    ] {
        let heard = hear(text.as_bytes().chunks(7), StreamOptions::default());
        assert_eq!(heard, read(text.as_bytes()));
        assert!(heard.diagnostics.iter().any(Diagnostic::is_error));
    }
}

/// Comments and a line full of brackets are no reason to look at everything again.
#[test]
fn a_document_header_is_looked_at_once() {
    let size = limits::MAX_DOCUMENT_HEADER / 2;
    for text in [
        "# >>>>\n".repeat(size / 7),
        format!("a: {}", ">".repeat(size)),
        format!("---\n{}", "a: >\n".repeat(size / 5)),
        format!("{}{}", " ".repeat(size), ">".repeat(size)),
        "<<|end|>".repeat(size / 8),
    ] {
        let heard = hear(text.as_bytes().chunks(1), StreamOptions::default());
        assert_eq!(heard, read(text.as_bytes()));
    }
}
