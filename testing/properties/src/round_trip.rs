//! OpenChatML 2.x: what is read can be written, and reads the same.

use openchatml::{
    Document, HeaderBuf, Rewrite, check, messages_from_frames, parse, write_frame, write_header,
};

/// The pieces of any text tile it, each frame that the writer takes reads back as itself, and so
/// does the document header.
pub fn round_trip(data: &[u8]) {
    let document = parse(data);
    assert_tiles(&document);
    for found in check(&document) {
        assert!(found.primary.start <= found.primary.end && found.primary.end <= data.len());
        assert!(found.expected.is_some() && !found.help.is_empty());
    }

    assert_eq!(
        Rewrite::new(&document).finish().as_deref(),
        Ok(data),
        "rewritten without changes"
    );

    let mut text = String::new();
    let mut written = Vec::new();
    let frames = document.to_owned_frames();
    drop(messages_from_frames(&frames));
    for frame in frames {
        if write_frame(&mut text, &frame).is_ok() {
            written.push(frame);
        }
    }
    let again = parse(text.as_bytes());
    assert_eq!(again.to_owned_frames(), written, "{text:?}");
    assert_tiles(&again);

    if let Some(header) = document.header().map(HeaderBuf::from)
        && let Ok(text) = write_header(&header)
    {
        let again = parse(text.as_bytes());
        assert_eq!(
            again.header().map(HeaderBuf::from),
            Some(header),
            "{text:?}"
        );
    }
}

fn assert_tiles(document: &Document<'_>) {
    let source = document.source();
    let mut at = 0;
    let mut frames = 0..;
    for piece in document.pieces() {
        let span = piece.span();
        assert!(!span.is_empty() && span.start == at, "{piece:?} after {at}");
        at = span.end;
        match piece {
            openchatml::SourcePiece::Frame(index, _) => {
                let Some(frame) = document.frames().get(index) else {
                    panic!("no frame {index}");
                };
                assert_eq!(Some(index), frames.next());
                for inner in [
                    frame.header_span(),
                    frame.body_span(),
                    frame.terminator_span(),
                ] {
                    assert!(span.start <= inner.start && inner.start <= inner.end);
                    assert!(inner.end <= span.end, "{inner:?} is not in {span:?}");
                }
            }
            openchatml::SourcePiece::Space(_) => {
                let text = span.bytes(source);
                let mark = text.starts_with("\u{FEFF}".as_bytes()) && span.start == 0;
                let rest = &text[if mark { 3 } else { 0 }..];
                assert!(rest.iter().all(u8::is_ascii_whitespace), "{text:?}");
            }
            openchatml::SourcePiece::Header(_) => {}
        }
    }
    assert_eq!(at, source.len());
    assert_eq!(frames.next(), Some(document.frames().len()));
}
