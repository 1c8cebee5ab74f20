//! What holds of reading any bytes at all.

use logue_source::DiagnosticCode;
use openchatml::{Frame, SourcePiece, Terminator, check, limits, parse};
use proptest::prelude::*;

use crate::strategies::broken_transcript;

/// The pieces are in order and leave nothing out, and every part of a frame is inside it.
fn assert_tiled(source: &[u8]) {
    let document = parse(source);
    let mut at = 0;
    let mut frames = 0;
    for piece in document.pieces() {
        let span = piece.span();
        assert_eq!(span.start, at, "{piece:?}");
        assert!(span.end > span.start, "{piece:?}");
        at = span.end;
        match piece {
            SourcePiece::Space(span) => {
                let space = span.bytes(source);
                let space = if span.start == 0 {
                    space.strip_prefix(b"\xef\xbb\xbf").unwrap_or(space)
                } else {
                    space
                };
                assert!(space.trim_ascii().is_empty(), "text counts as white space");
            }
            SourcePiece::Frame(index, span) => {
                assert_eq!(index, frames);
                frames += 1;
                assert_inside(&document.frames()[index], span);
            }
            // A header that could not be read has its error.
            SourcePiece::Header(_) => assert!(document.header().is_some() || document.has_errors()),
        }
    }
    assert_eq!(at, source.len());
    assert_eq!(frames, document.frames().len());
    let stray = document.frames().iter().filter(|frame| frame.is_stray());
    let said = |code| {
        document
            .diagnostics()
            .iter()
            .filter(|found| found.code == code)
            .count()
    };
    assert_eq!(stray.count(), said(DiagnosticCode::ParseStrayText));
    for found in check(&document) {
        assert!(found.primary.start <= found.primary.end && found.primary.end <= source.len());
        assert!(
            found.expected.is_some() && !found.help.is_empty(),
            "{found:?}"
        );
    }
}

fn assert_inside(frame: &Frame, span: logue_source::Span) {
    let inside = |part: logue_source::Span| span.start <= part.start && part.end <= span.end;
    assert!(inside(frame.body_span()) && inside(frame.terminator_span()));
    assert!(inside(frame.header_span()) && inside(frame.role_span()));
    assert!(frame.body_span().end <= frame.terminator_span().start);
    // In 2.0 an `<|end|>` may follow a call.
    assert!(frame.terminator_span().end == span.end || frame.terminator() == Terminator::Call);
    let parts = [
        frame.to_span(),
        frame.call_id_span(),
        frame.name_span(),
        frame.intent_span(),
        frame.content_type_span(),
        frame.constrain_span(),
        frame.channel_span(),
    ];
    for part in parts.into_iter().flatten() {
        assert!(inside(part));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(500, 40_000)))]

    #[test]
    fn pieces_tile_broken_transcripts(source in broken_transcript()) {
        assert_tiled(&source);
    }

    #[test]
    fn pieces_tile_any_bytes(source in proptest::collection::vec(any::<u8>(), 0..200)) {
        assert_tiled(&source);
    }

    #[test]
    fn a_body_is_a_concatenation_of_its_source(source in broken_transcript()) {
        let document = parse(&source);
        for frame in document.frames() {
            let body = document.body(frame);
            for (offset, byte) in body.iter().enumerate() {
                prop_assert_eq!(source[document.body_place(frame, offset)], *byte);
            }
        }
    }
}

/// In 2.0 an `<|end|>` may follow any `<|call|>`, that of a broken frame too.
#[test]
fn a_broken_call_goes_on_to_its_end() {
    let source = b"version: 2.0\n<|start|><|call|><|end|>";
    assert_tiled(source);
    assert_eq!(parse(source).frames().len(), 1);
}

#[test]
fn every_prefix_of_a_transcript_is_read() {
    let source = include_str!("../../../../conformance/openchatml/envelope/fixtures.md");
    for end in 0..source.len() {
        assert_tiled(&source.as_bytes()[..end]);
    }
}

#[test]
fn a_byte_order_mark_and_crlf_change_nothing() {
    let source =
        b"\xef\xbb\xbfversion: 2.2\r\nmodel: m\r\n\r\n<|start|>user<|message|>a<|end|>\r\n";
    assert_tiled(source);
    let document = parse(source);
    assert_eq!(document.header().unwrap().version(), "2.2");
    assert_eq!(document.header().unwrap().model(), Some("m"));
    assert_eq!(document.frames().len(), 1);
    assert!(
        document.diagnostics().is_empty(),
        "{:?}",
        document.diagnostics()
    );
    let fragment = b"\xef\xbb\xbf<|start|>user<|message|>a<|end|>";
    assert_tiled(fragment);
    assert_eq!(parse(fragment).frames().len(), 1);
}

#[test]
fn bytes_that_are_no_text_survive_and_cost_a_finding() {
    let source = b"version: 2.2\n<|start|>user name=\xfe<|message|>a\xff<<|end|>b<|end|>";
    let document = parse(source);
    let frame = &document.frames()[0];
    assert_eq!(&*document.body(frame), b"a\xff<|end|>b");
    assert_eq!(document.body_text(frame), "a\u{fffd}<|end|>b");
    assert_eq!(document.name(frame).unwrap(), "\u{fffd}");
    let found = check(&document);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code, DiagnosticCode::SourceNotUtf8);
    assert_eq!(found[0].primary.bytes(source), b"\xfe");
}

#[test]
fn a_body_without_markup_is_borrowed() {
    let source = b"<|start|>user<|message|>a < b | c<|end|>";
    let document = parse(source);
    let body = document.body(&document.frames()[0]);
    assert!(matches!(body, std::borrow::Cow::Borrowed(b"a < b | c")));
}

#[test]
fn findings_are_bounded_and_errors_are_not_forgotten() {
    let source = "<|start|>".repeat(limits::MAX_DIAGNOSTICS);
    let document = parse(source.as_bytes());
    assert_eq!(document.diagnostics().len(), limits::MAX_DIAGNOSTICS);
    assert!(document.diagnostics_dropped() > 0);
    assert!(document.has_errors());
    assert_eq!(document.frames().len(), limits::MAX_DIAGNOSTICS);
}

#[test]
fn a_frame_header_is_bounded() {
    let words = "a=b ".repeat(limits::MAX_FRAME_HEADER);
    let source = format!("<|start|>user {words}<|message|>x<|end|>");
    let document = parse(source.as_bytes());
    let frame = &document.frames()[0];
    assert!(frame.attributes().is_empty());
    assert!(!frame.visibility().is_visible());
    assert!(document.has_errors());
}

/// Repeating what could be looked at again and again must cost in proportion. The inputs are so
/// long that anything quadratic would not come to an end.
#[test]
fn hostile_repetition_is_linear() {
    const TIMES: usize = 300_000;
    let pieces = [
        "<",
        "<|",
        "<<|end|>",
        "<|literal|>",
        "<|start|>user<|message|>",
        "<|end",
        "|end|>",
        "---\n",
        "<|start|>",
        "<|message|>",
        "a: b\n",
        "<|literal|><|endliteral|>",
        "<|start|><|literal|>",
        "<|literal|><|start|>user<|message|>",
        "x=<| ",
        "\n<|start|",
        "[",
    ];
    for piece in pieces {
        for before in [
            "",
            "version: 2.2\n<|start|>user<|message|>",
            "---\n",
            "version: 2.2\na: ",
            "version: 2.0\n<|start|>assistant to=f<|message|>",
        ] {
            let source = format!("{before}{}", piece.repeat(TIMES / piece.len().max(2)));
            assert_tiled(source.as_bytes());
        }
    }
}
