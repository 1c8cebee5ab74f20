//! Harmony written: what holds for every conversation.

use openchatml::harmony::{
    Content, Conversation, End, Form, HarmonyReadOptions, Message, Reasoning, RenderError,
    RenderMessage, RenderOptions, RendererCompat, read,
};
use openchatml::{FrameBuf, FrameRole, Terminator, Transcript, recipient_of};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rendering::written;
use crate::strategies::{frame, marked_text, word};

fn role() -> impl Strategy<Value = FrameRole> {
    proptest::sample::select(vec![
        FrameRole::System,
        FrameRole::Developer,
        FrameRole::User,
        FrameRole::Assistant,
        FrameRole::Tool,
    ])
}

/// What may stand in a header, and what somebody may want to smuggle into one.
fn value() -> BoxedStrategy<String> {
    let words = vec![
        "final",
        "analysis",
        "commentary",
        "Final",
        "finale",
        "system",
        "assistant",
        "assistant:x",
        "tool",
        "user",
        "functions.f",
        "functions.",
        "python",
        "all",
        "json",
        "a b",
        "",
        "to=x",
        "channel=final",
        "f<",
        "<",
        "f<|end|>",
        "<|constrain|>json",
        "x<|channel|>final",
        "a\u{a0}b",
        "a\u{2028}b",
        "\u{0}",
        "final?",
        "??",
        "assistantassistant",
        "{}",
        "x=y",
        ":",
        ":a",
    ];
    prop_oneof![
        6 => word(),
        6 => proptest::sample::select(words).prop_map(str::to_owned),
        2 => marked_text(),
        1 => (word(), marked_text()).prop_map(|(word, text)| word + &text),
    ]
    .boxed()
}

fn message(value: BoxedStrategy<String>) -> impl Strategy<Value = RenderMessage> {
    let optional = move || proptest::option::of(value.clone());
    let content_type = prop_oneof![
        3 => optional(),
        1 => optional().prop_map(|value| value.map(|value| format!("<|constrain|>{value}"))),
    ];
    let body = proptest::collection::vec(marked_text(), 0..3);
    (
        role(),
        optional(),
        optional(),
        optional(),
        content_type,
        body,
    )
        .prop_map(|(role, name, recipient, channel, content_type, body)| {
            let mut message = RenderMessage::new(role, "");
            message.name = name;
            message.recipient = recipient;
            message.channel = channel;
            message.content_type = content_type;
            message.content = body.into_iter().map(Content::Text).collect();
            message
        })
}

fn conversation(value: BoxedStrategy<String>) -> impl Strategy<Value = Conversation> {
    proptest::collection::vec(message(value), 0..5).prop_map(Conversation::new)
}

/// Values that every reader takes as they are.
fn plain() -> BoxedStrategy<String> {
    "[a-z]{1,6}"
        .prop_filter("a role or channel", |word| {
            let taken = [
                "final",
                "analysis",
                "commentary",
                "system",
                "developer",
                "user",
                "assistant",
                "tool",
                "all",
            ];
            !taken.iter().any(|taken| word.starts_with(taken))
        })
        .boxed()
}

fn keep() -> RenderOptions {
    RenderOptions::default().with_reasoning(Reasoning::Keep)
}

fn body(message: &RenderMessage) -> String {
    let texts = message.content.iter().map(|part| match part {
        Content::Text(text) => text.as_str(),
        _ => panic!("no other content is generated"),
    });
    texts.collect()
}

/// Whether what was read is what was written, and nothing else.
fn assert_same(read: &[Message], written: &[RenderMessage]) {
    assert_eq!(read.len(), written.len(), "{read:?}");
    for (read, written) in read.iter().zip(written) {
        let head = &read.head;
        assert_eq!(head.role, written.role);
        assert_eq!(head.name, written.name);
        let recipient = written.recipient.clone().filter(|to| to != "all");
        assert_eq!(head.recipient, recipient);
        assert_eq!(head.channel, written.channel);
        let content_type = written.content_type.as_deref();
        let content_type = content_type.map(|word| word.trim_start_matches("<|constrain|>"));
        assert_eq!(head.content_type.as_deref(), content_type);
        assert_eq!((&head.call_id, &head.intent), (&None, &None));
        assert!(head.sound && !head.stray && read.complete);
        assert_eq!(read.content, body(written));
        let calls = written.role == FrameRole::Assistant && recipient.is_some();
        assert_eq!(read.end, if calls { End::Call } else { End::End });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]
    /// Nothing that a conversation holds makes a reader of the text see another one.
    #[test]
    fn a_text_is_refused_or_reads_back(conversation in conversation(value()), escape in any::<bool>()) {
        let options = keep().with_escape(escape);
        match conversation.to_text(Form::Conversation, &options) {
            Ok(text) => assert_same(&read(text.as_bytes(), &HarmonyReadOptions::default()).messages, &conversation.messages),
            Err(RenderError::ControlToken { .. } | RenderError::BracketAtEnd { .. }) => prop_assert!(!escape),
            Err(RenderError::Header { .. } | RenderError::ToolWithoutName { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    /// The same where only one value is odd, so that no other one is refused before it.
    #[test]
    fn one_odd_value_is_refused_or_reads_back(written in message(plain()), field in 0..5, odd in value()) {
        let mut written = written;
        if written.role == FrameRole::Tool {
            written.name.get_or_insert_with(|| "lamp".to_owned());
        }
        match field {
            0 => written.name = Some(odd),
            1 => written.recipient = Some(odd),
            2 => written.channel = Some(odd),
            3 => written.content_type = Some(odd),
            _ => written.content_type = Some(format!("<|constrain|>{odd}")),
        }
        match written.to_text(false, &keep().with_escape(true)) {
            Ok(text) => assert_same(&read(text.as_bytes(), &HarmonyReadOptions::default()).messages, &[written]),
            Err(RenderError::Header { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn any_bodies_are_escaped_so_that_they_read_back(bodies in proptest::collection::vec(marked_text(), 0..4)) {
        let conversation: Conversation = bodies.iter().map(|body| RenderMessage::user(body.as_str())).collect();
        let text = conversation.to_text(Form::Conversation, &keep().with_escape(true)).unwrap();
        let document = read(text.as_bytes(), &HarmonyReadOptions::default());
        prop_assert_eq!(document.diagnostics, Vec::new());
        assert_same(&document.messages, &conversation.messages);
    }

    #[test]
    fn plain_values_are_never_refused(conversation in conversation(plain())) {
        let mut conversation = conversation;
        for message in &mut conversation.messages {
            if message.role == FrameRole::Tool {
                message.name.get_or_insert_with(|| "lamp".to_owned());
            }
        }
        let text = conversation.to_text(Form::Conversation, &keep().with_escape(true)).unwrap();
        assert_same(&read(text.as_bytes(), &HarmonyReadOptions::default()).messages, &conversation.messages);
    }

    #[test]
    fn json_gives_the_conversation_back(conversation in conversation(value())) {
        prop_assert_eq!(&Conversation::from_json(&conversation.to_json()).unwrap(), &conversation);
    }

    /// Whatever reasoning is left out, the rest stays as it is and in order.
    #[test]
    fn only_reasoning_is_left_out(conversation in conversation(plain()), first in any::<bool>(), form in proptest::sample::select(vec![Form::Conversation, Form::Completion(FrameRole::Assistant)])) {
        let mut conversation = conversation;
        for (index, message) in conversation.messages.iter_mut().enumerate() {
            message.content = vec![Content::Text(format!("{index}"))];
            message.channel = ["analysis", "final", "commentary"].get(message.channel.as_ref().map_or(3, |channel| channel.len() % 4)).map(|name| (*name).to_owned());
            message.name = (message.role == FrameRole::Tool).then(|| "lamp".to_owned());
        }
        let reasoning = if first { Reasoning::DropBeforeFirstFinal } else { Reasoning::DropFinished };
        let options = keep().with_escape(true);
        let text = conversation.to_text(form, &options.with_reasoning(reasoning)).unwrap();
        let found = read(text.as_bytes(), &HarmonyReadOptions::default()).messages;
        let mut found = found.iter().map(|message| &message.content);
        let mut next = found.next();
        for message in &conversation.messages {
            if next == Some(&body(message)) {
                next = found.next();
            } else {
                prop_assert_eq!(message.channel.as_deref(), Some("analysis"));
            }
        }
        prop_assert_eq!(next, None);
    }

    /// What is written of a schema is TypeScript: closed strings, brackets in pairs, and comments
    /// that hide no bracket.
    #[test]
    fn a_schema_becomes_balanced_typescript(schema in schema()) {
        let text = written(&schema, RendererCompat::Meant);
        let mut open = Vec::new();
        for line in text.lines() {
            let mut characters = line.chars().peekable();
            while let Some(character) = characters.next() {
                match character {
                    '"' => loop {
                        match characters.next() {
                            Some('\\') => {
                                characters.next();
                            }
                            Some('"') => break,
                            Some(_) => {}
                            None => prop_assert!(false, "a string is open: {text}"),
                        }
                    },
                    '/' if characters.peek() == Some(&'/') => break,
                    '(' => open.push(')'),
                    '[' => open.push(']'),
                    '{' => open.push('}'),
                    ')' | ']' | '}' => prop_assert_eq!(open.pop(), Some(character), "{}", text),
                    _ => {}
                }
            }
        }
        prop_assert_eq!(open, Vec::<char>::new(), "{}", text);
        // The other renderer promises no more than to come to an end.
        written(&schema, RendererCompat::OpenAi0_0_8);
    }

    #[test]
    fn a_frame_becomes_nothing_more_than_it_is(frame in frame(), cut in any::<bool>()) {
        let mut frame = frame;
        if cut {
            frame.terminator = Terminator::None;
        }
        let (conversation, _) = Conversation::from_transcript(&Transcript::new(vec![frame.clone()]));
        for message in &conversation.messages {
            prop_assert_eq!(message.role, frame.role);
            prop_assert_eq!(body(message), frame.body.as_str());
        }
        let Ok(text) = conversation.to_text(Form::Conversation, &keep().with_escape(true)) else {
            return Ok(());
        };
        for message in read(text.as_bytes(), &HarmonyReadOptions::default()).messages {
            prop_assert!(!message.is_visible() || frame.visibility().is_visible());
            prop_assert!(message.end != End::Call || frame.is_call());
        }
    }

    #[test]
    fn a_conversation_becomes_frames_and_back(conversation in conversation(plain())) {
        let mut conversation = conversation;
        for (index, message) in conversation.messages.iter_mut().enumerate() {
            message.content = vec![Content::Text(body(message))];
            let named = matches!(message.role, FrameRole::Assistant | FrameRole::Tool);
            message.channel = named.then(|| ["analysis", "commentary", "final"][index % 3].to_owned());
            if message.role == FrameRole::Tool {
                let name = message.name.take().unwrap_or_else(|| "functions.lamp".to_owned());
                message.name = Some(if name.contains('.') { name } else { recipient_of(&name) });
            }
        }
        let (transcript, _) = conversation.to_transcript();
        let (again, losses) = Conversation::from_transcript(&transcript);
        prop_assert_eq!(&again, &conversation);
        prop_assert!(losses.iter().all(|loss| loss.message.contains("call_id")), "{:?}", losses);
        // And the same from what a reader makes of the text.
        let text = conversation.to_text(Form::Conversation, &keep().with_escape(true)).unwrap();
        let (read, _) = read(text.as_bytes(), &HarmonyReadOptions::default()).to_transcript();
        for (read, built) in read.frames.iter().zip(&transcript.frames) {
            let told = |frame: &FrameBuf| (frame.role, frame.channel, frame.call_id.clone(), frame.terminator, frame.body.clone());
            prop_assert_eq!(told(read), told(built));
        }
    }
}

/// Schemas of all kinds, sound or not.
fn schema() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![2 => "[a-z \"/\\\\\n]{0,8}", 1 => marked_text()];
    let small = prop_oneof![
        text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    let types = vec![
        "string", "number", "integer", "boolean", "null", "array", "object", "odd",
    ];
    let leaf = prop_oneof![
        4 => proptest::sample::select(types.clone()).prop_map(|name| json!({"type": name})),
        2 => proptest::sample::subsequence(types, 0..4).prop_map(|names| json!({"type": names})),
        2 => proptest::collection::vec(small.clone(), 0..3).prop_map(|values| json!({"enum": values})),
        1 => small.clone().prop_map(|value| json!({"const": value})),
        1 => small.clone(),
        1 => proptest::sample::select(vec!["#", "#/items", "#/$defs/x", "x"]).prop_map(|at| json!({"$ref": at})),
    ];
    let told =
        move |schema: Value,
              about: (Option<String>, Option<String>, Option<Value>, Option<bool>)| {
            let mut schema = schema;
            if let Value::Object(schema) = &mut schema {
                let (title, description, default, nullable) = about;
                let about = [
                    ("title", title.map(Value::from)),
                    ("description", description.map(Value::from)),
                    ("default", default),
                    ("nullable", nullable.map(Value::from)),
                ];
                for (key, value) in about {
                    if let Some(value) = value {
                        schema.insert(key.to_owned(), value);
                    }
                }
            }
            schema
        };
    let about = (
        proptest::option::of(text()),
        proptest::option::of(text()),
        proptest::option::of(small),
        proptest::option::of(any::<bool>()),
    );
    leaf.prop_recursive(5, 40, 4, move |inner| {
        let several = proptest::collection::vec(inner.clone(), 0..4);
        let properties = proptest::collection::vec((text(), inner.clone()), 0..4);
        let union = proptest::sample::select(vec!["oneOf", "anyOf", "allOf"]);
        let made = prop_oneof![
            3 => (properties, proptest::option::of(inner.clone())).prop_map(|(properties, others)| {
                let properties: serde_json::Map<_, _> = properties.into_iter().collect();
                let mut schema = json!({"type": "object", "properties": properties});
                if let Some(others) = others {
                    schema["additionalProperties"] = others;
                }
                schema
            }),
            2 => inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            3 => (union, several.clone(), inner).prop_map(|(key, several, beside)| {
                let mut schema = if beside.is_object() { beside } else { json!({}) };
                schema[key] = several.into();
                schema
            }),
            1 => several.prop_map(|items| json!({"prefixItems": items})),
        ];
        (made, about.clone()).prop_map(move |(schema, about)| told(schema, about))
    })
}

#[cfg(feature = "o200k")]
mod ids {
    use logue_o200k::{SpecialSet, encode_with_specials};
    use openchatml::harmony::{Renderer, read_harmony_ids};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]
        /// As ids, bodies are never refused and headers only for what they are.
        #[test]
        fn ids_are_refused_or_read_back(conversation in conversation(value())) {
            match Renderer::new().ids(&conversation, Form::Conversation, &keep()) {
                Ok(ids) => assert_same(&read_harmony_ids(ids, &HarmonyReadOptions::default()).messages, &conversation.messages),
                Err(RenderError::Header { .. } | RenderError::ToolWithoutName { .. }) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
        }

        /// Where there is a text, its ids are the ids.
        #[test]
        fn the_ids_are_those_of_the_text(conversation in conversation(plain()), training in any::<bool>()) {
            let mut conversation = conversation;
            for message in &mut conversation.messages {
                // Parts are encoded one by one.
                message.content = vec![Content::Text(body(message))];
            }
            let form = if training { Form::Training } else { Form::Completion(FrameRole::User) };
            if let Ok(text) = conversation.to_text(form, &keep()) {
                let ids = Renderer::new().ids(&conversation, form, &keep()).unwrap();
                prop_assert_eq!(ids, encode_with_specials(&text, &SpecialSet::HARMONY));
            }
        }

        #[test]
        fn a_renderer_that_has_seen_much_gives_the_same(conversations in proptest::collection::vec(conversation(value()), 1..4)) {
            let mut used = Renderer::new();
            let mut all = Vec::new();
            for conversation in &conversations {
                let before = all.len();
                let appended = used.append(conversation, Form::Training, &keep(), &mut all);
                let alone = Renderer::new().ids(conversation, Form::Training, &keep());
                match alone {
                    Ok(ids) => prop_assert_eq!(&all[before..], ids),
                    Err(error) => {
                        prop_assert_eq!(appended, Err(error));
                        prop_assert_eq!(all.len(), before);
                    }
                }
            }
        }
    }
}
