//! Markers of private reasoning are found in every body that has one, however it is written.

use logue_source::DiagnosticCode;
use openchatml::{Channel, ControlToken, Document, Frame, FrameRole, check_structure, parse};
use proptest::prelude::*;

const MARKERS: [&str; 6] = [
    "<|start_reflect|>",
    "<|start_introspect|>",
    "<|start_reason|>",
    "<|end_reflect|>",
    "<|end_introspect|>",
    "<|end_reason|>",
];

/// Frames of the assistant and what breaks them, around markers in one piece and in several.
fn marked_transcript() -> impl Strategy<Value = String> {
    let pieces = [
        "<|start|>assistant<|channel|>final<|message|>",
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|start|>assistant<|message|>",
        "<|start|>user<|message|>",
        "<|start|>assistant<|channel|>fi<|end_reason|>nal<|message|>",
        "<|literal|><<|endliteral|>|start_reason|>",
        "<|start_<|literal|>reflect<|endliteral|>|>",
        "<<|end|>",
        "|start_reason|>",
        "<",
        "<|",
        "a",
        "\n",
    ];
    let pieces = MARKERS.iter().copied().chain(pieces);
    let tokens = ControlToken::ALL.iter().map(|token| token.as_str());
    let pieces: Vec<&str> = pieces.chain(tokens).collect();
    let version = proptest::sample::select(vec!["", "version: 2.0\n", "version: 2.2\n"]);
    let piece = proptest::sample::select(pieces);
    (version, proptest::collection::vec(piece, 0..16))
        .prop_map(|(version, pieces)| version.to_owned() + &pieces.concat())
}

fn is_marked(document: &Document<'_>, frame: &Frame) -> bool {
    let body = document.body_text(frame);
    frame.role() == FrameRole::Assistant
        && matches!(frame.channel(), Channel::Commentary | Channel::Final)
        && MARKERS.iter().any(|marker| body.contains(marker))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(1_250, 100_000)))]

    #[test]
    fn every_marker_is_found_and_nothing_else(source in marked_transcript()) {
        let document = parse(source.as_bytes());
        let marked = document.frames().iter().filter(|frame| is_marked(&document, frame));
        let marked: Vec<_> = marked.map(Frame::span).collect();
        let found = check_structure(&document);
        let found = found.iter().filter(|found| found.code == DiagnosticCode::ReasoningOutsideAnalysis);
        let found: Vec<_> = found.map(|found| found.primary).collect();
        prop_assert_eq!(found.len(), marked.len(), "{}", source);
        for (found, frame) in found.iter().zip(marked) {
            prop_assert!(frame.start <= found.start && found.end <= frame.end);
        }
    }
}
