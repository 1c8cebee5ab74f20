//! Documents that own their source: the same as those that borrow, anywhere and for longer.

use std::ops::Range;

use openchatml::{
    Channel, Document, Frame, FrameBuf, FrameRole, OwnedDocument, OwnedFrame, OwnedSource, View,
    check, check_structure, parse, parse_owned, write_frame,
};
use proptest::prelude::*;

use crate::strategies::broken_transcript;

/// The documents of all cases, whatever they are cases of.
const SUITES: [&str; 23] = [
    include_str!("../../../../conformance/openchatml/checks/json-schema.md"),
    include_str!("../../../../conformance/openchatml/checks/profiles.md"),
    include_str!("../../../../conformance/openchatml/checks/replies.md"),
    include_str!("../../../../conformance/openchatml/checks/typescript.md"),
    include_str!("../../../../conformance/openchatml/convert/from-2.0.md"),
    include_str!("../../../../conformance/openchatml/convert/from-2.2.md"),
    include_str!("../../../../conformance/openchatml/convert/harmony.md"),
    include_str!("../../../../conformance/openchatml/convert/json.md"),
    include_str!("../../../../conformance/openchatml/convert/openai.md"),
    include_str!("../../../../conformance/openchatml/convert/sharegpt.md"),
    include_str!("../../../../conformance/openchatml/envelope/bodies.md"),
    include_str!("../../../../conformance/openchatml/envelope/channels.md"),
    include_str!("../../../../conformance/openchatml/envelope/document-headers.md"),
    include_str!("../../../../conformance/openchatml/envelope/examples.md"),
    include_str!("../../../../conformance/openchatml/envelope/fixtures.md"),
    include_str!("../../../../conformance/openchatml/envelope/frame-headers.md"),
    include_str!("../../../../conformance/openchatml/envelope/version-2.0.md"),
    include_str!("../../../../conformance/openchatml/harmony/malformed.md"),
    include_str!("../../../../conformance/openchatml/harmony/sound.md"),
    include_str!("../../../../conformance/openchatml/legacy/malformed.md"),
    include_str!("../../../../conformance/openchatml/legacy/sound.md"),
    include_str!("../../../../conformance/openchatml/render/contents.md"),
    include_str!("../../../../conformance/openchatml/render/conversations.md"),
];

#[test]
fn every_case_is_the_same_owned() {
    let mut count = 0;
    for suite in SUITES {
        for case in suite.split("\n## ").skip(1) {
            for block in case.split("\n```").skip(1).step_by(2) {
                let (_info, text) = block.split_once('\n').unwrap_or((block, ""));
                assert_same(text.as_bytes());
                count += 1;
            }
        }
    }
    assert!(count > 400, "only {count} blocks were found");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(500, 40_000)))]

    #[test]
    fn anything_is_the_same_owned(source in broken_transcript()) {
        assert_same(&source);
    }
}

/// Every way to own `source` gives what borrowing gives.
fn assert_same(source: &[u8]) {
    let borrowed = parse(source);
    let mut owned = vec![
        parse_owned(source),
        parse_owned(source.to_vec()),
        parse(source).into_owned(),
        parse_owned(source).document().into_owned(),
    ];
    if let Ok(text) = std::str::from_utf8(source) {
        owned.push(parse_owned(text));
        owned.push(parse_owned(text.to_owned()));
    }
    for owned in owned {
        let document = owned.document();
        assert_equal(&document, &borrowed);
        assert_eq!(owned.source(), source);
        assert_eq!(owned.is_text(), std::str::from_utf8(source).is_ok());
        assert_eq!(owned.header(), borrowed.header());
        assert_eq!(owned.frames(), borrowed.frames());
        assert_eq!(owned.diagnostics(), borrowed.diagnostics());
        assert_eq!(owned.has_errors(), borrowed.has_errors());
        let handles: Vec<_> = owned.owned_frames().collect();
        assert_eq!(handles.len(), borrowed.frames().len());
        assert!(owned.frame(handles.len()).is_none());
        for (handle, frame) in handles.iter().zip(borrowed.frames()) {
            assert_says(handle, &borrowed, frame);
        }
        drop((document, handles));
        assert_eq!(owned.into_source().into_bytes(), source);
    }
}

fn assert_equal(one: &Document<'_>, other: &Document<'_>) {
    assert_eq!(one.source(), other.source());
    assert_eq!(one.header(), other.header());
    assert_eq!(one.frames(), other.frames());
    assert_eq!(one.diagnostics(), other.diagnostics());
    assert_eq!(one.diagnostics_dropped(), other.diagnostics_dropped());
    assert!(one.pieces().eq(other.pieces()));
    assert_eq!(check_structure(one), check_structure(other));
    assert_eq!(check(one), check(other));
    assert_eq!(one.to_transcript(), other.to_transcript());
    let (seen, also) = (View::new(one), View::new(other));
    assert!(seen.frames().eq(also.frames()));
}

fn assert_says(handle: &OwnedFrame, document: &Document<'_>, frame: &Frame) {
    assert_eq!(&**handle, frame);
    assert_eq!(handle.body(), document.body(frame));
    assert_eq!(handle.body_text(), document.body_text(frame));
    assert_eq!(handle.text(frame.span()), document.text(frame.span()));
    assert_eq!(handle.role_text(), document.role_text(frame));
    assert_eq!(handle.to(), document.to(frame));
    assert_eq!(handle.call_id(), document.call_id(frame));
    assert_eq!(handle.name(), document.name(frame));
    assert_eq!(handle.intent_text(), document.intent(frame));
    assert_eq!(handle.content_type(), document.content_type(frame));
    assert_eq!(handle.constrain(), document.constrain(frame));
    assert_eq!(handle.to_frame_buf(), document.to_owned_frame(frame));
}

const fn goes_anywhere<T: Clone + Send + Sync + 'static>() {}
const _: () = {
    goes_anywhere::<OwnedDocument>();
    goes_anywhere::<OwnedFrame>();
    goes_anywhere::<OwnedSource>();
};

const CALLED: &str = "version: 2.2\n\
    <|start|>user<|message|>Wie spät?<|end|>\n\
    <|start|>assistant to=functions.clock call_id=c1<|channel|>commentary<|constrain|>json\
    <|message|>{\"a\": \"<<|end|>\"}<|call|>\n";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the crate starts no threads; those who use it do"
)]
fn a_frame_outlives_its_document_on_another_thread() {
    let document = parse_owned(CALLED);
    let call = document.frame(1).unwrap();
    drop(document);
    let said = std::thread::spawn(move || {
        assert!(call.is_call());
        assert_eq!(call.role(), FrameRole::Assistant);
        assert_eq!(call.channel(), Channel::Commentary);
        assert_eq!(call.to().unwrap(), "functions.clock");
        assert_eq!(call.call_id().unwrap(), "c1");
        assert_eq!(call.document().frames().len(), 2);
        call.body_text().into_owned()
    });
    assert_eq!(said.join().unwrap(), "{\"a\": \"<|end|>\"}");
}

/// Where bytes lie in memory.
fn place(bytes: &[u8]) -> Range<*const u8> {
    bytes.as_ptr_range()
}

#[test]
fn clones_and_frames_share_one_copy() {
    let document = parse_owned(CALLED);
    let clone = document.clone();
    assert_eq!(place(clone.source()), place(document.source()));
    assert_eq!(clone.frames().as_ptr(), document.frames().as_ptr());
    let shared = place(document.source());
    for frame in document.owned_frames() {
        assert_eq!(place(frame.document().source()), shared);
    }
    let question = document.frame(0).unwrap();
    let body = question.body();
    assert!(matches!(body, std::borrow::Cow::Borrowed(_)));
    assert!(shared.contains(&place(&body).start));
    // A document that borrows from it takes nothing along either.
    assert_eq!(place(document.document().source()), shared);
    assert_eq!(
        document.document().frames().as_ptr(),
        document.frames().as_ptr()
    );
}

#[test]
fn what_is_handed_over_is_not_copied() {
    let text = CALLED.to_owned();
    let before = place(text.as_bytes());
    let document = parse_owned(text);
    assert_eq!(place(document.source()), before);
    let bytes = document.into_source().into_bytes();
    assert_eq!(place(&bytes), before);
    let document = parse_owned(bytes);
    assert_eq!(place(document.source()), before);
    // Somebody else has it still, and keeps it.
    let clone = document.clone();
    assert_ne!(place(document.into_source().as_bytes()), before);
    assert_eq!(place(clone.source()), before);
    assert_eq!(place(clone.into_source().as_bytes()), before);
}

/// Borrowed bytes are looked at in stretches, which must cut no character in two.
#[test]
fn long_texts_are_text_and_broken_ones_are_not() {
    for character in ["a", "é", "世", "🦀"] {
        for lead in 0..4 {
            let text = "x".repeat(lead) + &character.repeat(40_000 / character.len());
            let mut bytes = text.clone().into_bytes();
            assert!(OwnedSource::from(bytes.as_slice()).is_text());
            assert_eq!(OwnedSource::from(bytes.as_slice()), OwnedSource::from(text));
            let places = (0..8).chain(16_376..16_392).chain(39_990..bytes.len());
            for at in places {
                let whole = std::mem::replace(&mut bytes[at], 0xFF);
                let source = OwnedSource::from(bytes.as_slice());
                assert!(!source.is_text(), "{character} behind {lead}, {at}");
                assert_eq!(source.as_bytes(), bytes);
                bytes[at] = whole;
            }
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(
                OwnedSource::from(cut).is_text(),
                std::str::from_utf8(cut).is_ok()
            );
        }
    }
    let only_continued = vec![0x80; 40_000];
    assert!(!OwnedSource::from(only_continued.as_slice()).is_text());
}

#[test]
fn frames_that_own_their_text_are_still_to_be_had() {
    let mut text = String::from("version: 2.2\n");
    let frames = [FrameBuf::user("Hi <|end|>"), FrameBuf::answer("Hello.")];
    for frame in &frames {
        write_frame(&mut text, frame).unwrap();
    }
    let document = parse_owned(text);
    let apart: Vec<_> = document
        .owned_frames()
        .map(|frame| frame.to_frame_buf())
        .collect();
    assert_eq!(apart, frames);
}
