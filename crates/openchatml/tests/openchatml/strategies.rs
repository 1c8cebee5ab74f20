//! Inputs for the properties: texts made of what the language is made of.

use openchatml::{Channel, ControlToken, FrameBuf, FrameRole, Terminator};
use proptest::prelude::*;

/// Texts of tokens, pieces of tokens, brackets, white space, JSON and letters.
pub(crate) fn marked_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => proptest::sample::select(ControlToken::ALL.to_vec()).prop_map(|token| token.as_str().to_owned()),
        3 => (proptest::sample::select(ControlToken::ALL.to_vec()), 1..13_usize).prop_map(|(token, cut)| {
            let text = token.as_str();
            text[..cut.min(text.len())].to_owned()
        }),
        2 => (proptest::sample::select(ControlToken::ALL.to_vec()), 1..13_usize).prop_map(|(token, cut)| {
            let text = token.as_str();
            text[cut.min(text.len())..].to_owned()
        }),
        4 => "<{1,5}",
        2 => proptest::sample::select(vec!["\n", " ", "\r\n", "\t", "|", "|>", "<|", "version: 2.2\n", "---\n"])
            .prop_map(str::to_owned),
        1 => Just(r#"{"a":[1,"<|end|>"]}"#.to_owned()),
        2 => "[a-zé🦀]{1,4}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Bytes of tokens, header words and garbage: broken transcripts of all kinds.
pub(crate) fn broken_transcript() -> impl Strategy<Value = Vec<u8>> {
    let words = vec![
        "user",
        "assistant",
        "system",
        "tool",
        "functions.f",
        "analysis",
        "commentary",
        "final",
        " to=functions.f",
        " call_id=1",
        " name=x",
        " intent=preamble",
        " json",
        "---",
        "version: 2.2",
        "version: 2.0\n",
        " analysis",
        " channel=analysis",
        "<|Channel|>",
    ];
    let piece = prop_oneof![
        4 => marked_text().prop_map(String::into_bytes),
        4 => proptest::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
        2 => proptest::sample::select(ControlToken::ALL.to_vec())
            .prop_map(|token| token.as_str().as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// A word that may stand in a header.
pub(crate) fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[A-Za-z0-9_.:/+-]{1,12}",
        1 => "[!-;=-~é🦀]{1,8}",
        1 => "<[a-z|>]{0,1}[a-z]{1,2}".prop_filter("no token begins", |word| !word.contains("<|")),
    ]
}

/// Whether the writer refuses the word as a type: read back, it may be a lost channel or recipient.
fn names_an_attribute(word: &str) -> bool {
    let key = word.split('=').next().unwrap_or_default();
    key.eq_ignore_ascii_case("channel") || key.eq_ignore_ascii_case("to")
}

/// Frames that may be written, of every kind.
pub(crate) fn frame() -> impl Strategy<Value = FrameBuf> {
    let optional = || proptest::option::of(word());
    let channel = proptest::option::of(proptest::sample::select(vec![
        Channel::Analysis,
        Channel::Commentary,
        Channel::Final,
    ]));
    let role = proptest::sample::select(vec![
        FrameRole::System,
        FrameRole::Developer,
        FrameRole::User,
        FrameRole::Assistant,
        FrameRole::Tool,
    ]);
    let ends =
        proptest::sample::select(vec![Terminator::End, Terminator::Call, Terminator::Return]);
    let unknown = proptest::collection::vec(("x_[a-z]{1,3}", word().prop_map(Some)), 0..3);
    (
        (role, channel, ends, marked_text(), word(), word()),
        (
            optional(),
            optional(),
            optional(),
            optional(),
            optional(),
            optional(),
            unknown,
        ),
    )
        .prop_map(
            |((role, channel, end, body, some_word, other_word), parts)| {
                let (to, call_id, name, intent, content_type, constrain, attributes) = parts;
                let mut frame = FrameBuf::new(role, body);
                frame.to = to;
                frame.call_id = call_id;
                frame.name = name;
                frame.intent = intent;
                frame.content_type = content_type;
                frame.constrain = constrain.filter(|word| !names_an_attribute(word));
                frame.attributes = attributes;
                frame.channel = channel;
                // Bring the parts together that need each other.
                if role == FrameRole::Tool {
                    frame.name.get_or_insert_with(|| some_word.clone());
                    frame.call_id.get_or_insert_with(|| other_word.clone());
                }
                if role == FrameRole::Assistant {
                    frame.terminator = end;
                    if end == Terminator::Call {
                        frame.to.get_or_insert(some_word);
                        frame.call_id.get_or_insert(other_word);
                    }
                    if end == Terminator::Return {
                        frame.channel = frame.channel.map(|_| Channel::Final);
                    }
                }
                frame
            },
        )
}
