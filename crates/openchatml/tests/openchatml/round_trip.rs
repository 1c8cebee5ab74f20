//! Reading what was written gives it back, and nothing more.

use openchatml::{Channel, FrameBuf, FrameRole, Terminator, parse, write_frame};
use proptest::prelude::*;

use crate::strategies::{frame, marked_text};

fn written(frames: &[FrameBuf]) -> String {
    let mut text = String::from("version: 2.2\n");
    for frame in frames {
        write_frame(&mut text, frame).unwrap();
    }
    text
}

/// One frame for each terminator, all with the same body.
fn with_each_terminator(body: &str) -> [FrameBuf; 3] {
    [
        FrameBuf::user(body),
        FrameBuf::call("functions.f", "c", body),
        FrameBuf::answer(body).with_terminator(Terminator::Return),
    ]
}

fn assert_survives(body: &str) {
    let frames = with_each_terminator(body);
    let text = written(&frames);
    let document = parse(text.as_bytes());
    assert_eq!(document.to_owned_frames(), frames, "{body:?} as {text:?}");
    assert!(document.diagnostics().is_empty(), "{body:?} as {text:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(750, 60_000)))]

    #[test]
    fn every_body_survives(body in marked_text()) {
        assert_survives(&body);
    }

    #[test]
    fn every_text_survives(body in any::<String>()) {
        assert_survives(&body);
    }

    #[test]
    fn every_frame_survives_and_none_is_forged(
        frames in proptest::collection::vec(frame(), 0..6),
    ) {
        let text = written(&frames);
        let document = parse(text.as_bytes());
        prop_assert_eq!(document.frames().len(), frames.len());
        prop_assert_eq!(document.to_owned_frames(), frames, "{}", text);
    }

    /// Whoever controls one body controls nothing around it.
    #[test]
    fn a_body_changes_no_other_frame(body in marked_text()) {
        let frames = [
            FrameBuf::system("rules"),
            FrameBuf::user(body),
            FrameBuf::analysis("secret"),
            FrameBuf::answer("4.").with_terminator(Terminator::Return),
        ];
        let text = written(&frames);
        let document = parse(text.as_bytes());
        prop_assert_eq!(document.to_owned_frames(), frames);
    }
}

/// All strings of up to five pieces of a small alphabet that has every way to build or break a
/// token.
#[test]
fn all_short_bodies_survive() {
    const ALPHABET: [&str; 8] = [
        "<",
        "|end|>",
        "|literal|>",
        "<|endliteral|>",
        "<|",
        "|start|>",
        "a",
        "\n",
    ];
    const LENGTH: u32 = 5;
    let mut body = String::new();
    let mut count = 0_u32;
    for length in 0..=LENGTH {
        for number in 0..8_u32.pow(length) {
            body.clear();
            for digit in 0..length {
                let piece = ALPHABET[(number / 8_u32.pow(digit) % 8) as usize];
                body.push_str(piece);
            }
            assert_survives(&body);
            count += 1;
        }
    }
    assert_eq!(count, 37_449);
}

#[test]
fn each_frame_has_its_line() {
    let frames = with_each_terminator("a");
    assert_eq!(
        written(&frames),
        "version: 2.2\n\
         <|start|>user<|message|>a<|end|>\n\
         <|start|>assistant to=functions.f call_id=c<|channel|>commentary<|constrain|>json<|message|>a<|call|>\n\
         <|start|>assistant<|channel|>final<|message|>a<|return|>\n",
    );
}

#[test]
fn the_order_of_a_header_is_canonical() {
    let mut frame = FrameBuf::new(FrameRole::Assistant, "{}")
        .with_constrain("json")
        .with_content_type("json")
        .with_intent("debug")
        .with_name("planner")
        .with_call_id("1")
        .with_to("python")
        .with_channel(Channel::Commentary)
        .with_terminator(Terminator::Call);
    frame.attributes.push(("seed".into(), Some("7".into())));
    let mut text = String::new();
    write_frame(&mut text, &frame).unwrap();
    assert_eq!(
        text,
        "<|start|>assistant to=python call_id=1 name=planner intent=debug content_type=json seed=7\
         <|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n",
    );
    let mut text = String::new();
    write_frame(&mut text, &FrameBuf::reply("functions.f", "1", "{}")).unwrap();
    assert_eq!(
        text,
        "<|start|>tool name=functions.f call_id=1 to=assistant<|channel|>commentary<|message|>{}<|end|>\n",
    );
}

#[test]
fn escapes_look_as_the_specification_has_them() {
    let cases = [
        ("<|end|>", "<<|end|>"),
        ("<<|end|>", "<<<|end|>"),
        ("<|nothing|>", "<|nothing|>"),
        ("a <", "a <|literal|><<|endliteral|>"),
        ("a <<<", "a <|literal|><<<<|endliteral|>"),
        ("<|endliteral|>", "<<|endliteral|>"),
        ("<|end|><", "<<|end|><|literal|><<|endliteral|>"),
        ("a < b", "a < b"),
    ];
    for (body, expected) in cases {
        let mut text = String::new();
        write_frame(&mut text, &FrameBuf::user(body)).unwrap();
        assert_eq!(text, format!("<|start|>user<|message|>{expected}<|end|>\n"));
    }
}
