//! Whatever a model answers is written and reads back equal: words, reasoning, calls, with ids,
//! signatures and any text in them, in every mode of keeping payloads.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logue_agent::{FileLoader, Prompt, TranscriptFile, TranscriptItem, TranscriptWriter as _};
use logue_message::{CallKind, ChatMessage, Content, ContentBlock, ToolCall};
use logue_tools::Roots;
use proptest::prelude::*;

fn load(path: &Path) -> Prompt {
    let folder = path.parent().unwrap();
    let roots = Arc::new(Roots::new([folder.to_owned()]).unwrap());
    let text = fs::read_to_string(path).unwrap();
    Prompt::load("prompt.md", &text, &mut FileLoader::new(roots, folder))
}

/// Strings made of what could break the format, and others.
fn text() -> impl Strategy<Value = String> {
    let marker = prop_oneof![
        Just("|RAW"),
        Just("RAW|"),
        Just("</tool_response>"),
        Just("</summary>"),
        Just("<system>"),
        Just("</user>"),
        Just("<!--"),
        Just("-->"),
        Just("&lt;"),
        Just("\n"),
        Just("\n\n"),
        Just(" "),
        Just("\""),
        Just("'"),
        Just("\\"),
        Just(">"),
        Just("|"),
        Just("RAW"),
        Just("\u{0}"),
        Just("é🦀"),
        Just("<doc src=\"prompt.md\" local/>"),
    ];
    prop_oneof![
        2 => proptest::collection::vec(marker, 0..8).prop_map(|parts| parts.concat()),
        1 => any::<String>(),
    ]
}

/// Ids of providers, ids that look like ours, and anything.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        "rs_[a-z0-9]{8}",
        "reasoning_[0-9]{0,2}",
        Just("reasoning_1x".to_owned()),
        text(),
    ]
}

fn opaque() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(text())
}

fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        4 => (text(), opaque(), any::<bool>()).prop_map(|(text, signature, preamble)| ContentBlock::Text {
            text,
            signature,
            preamble,
        }),
        3 => (text(), opaque(), proptest::option::of(id())).prop_map(|(text, signature, id)| {
            ContentBlock::Thinking { text, signature, id }
        }),
        1 => text().prop_map(|data| ContentBlock::RedactedThinking { data }),
    ]
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        Just(Content::Absent),
        text().prop_map(Content::Text),
        proptest::collection::vec(block(), 0..6).prop_map(Content::Blocks),
    ]
}

fn call() -> impl Strategy<Value = (ToolCall, String)> {
    let call = (id(), text(), text(), any::<bool>(), opaque());
    let call = call.prop_map(|(id, name, arguments, custom, signature)| {
        let kind = if custom {
            CallKind::Custom
        } else {
            CallKind::Function
        };
        ToolCall::new(id, name, arguments)
            .with_kind(kind)
            .with_signature(signature)
    });
    (call, text())
}

/// Answers with the results of their calls.
fn turn() -> impl Strategy<Value = Vec<(Content, Vec<(ToolCall, String)>)>> {
    proptest::collection::vec((content(), proptest::collection::vec(call(), 0..4)), 1..4)
}

/// The message without what says nothing: empty text, words of white space that stand alone, and the
/// mark of a preamble before calls.
fn canonical(mut message: ChatMessage) -> ChatMessage {
    let says_something = !message.tool_calls.is_empty() || !message.text().trim().is_empty();
    let blocks = match message.content {
        Content::Absent => Vec::new(),
        Content::Text(text) => vec![ContentBlock::text(text)],
        Content::Blocks(blocks) => blocks,
    };
    let kept = |block: &ContentBlock| match block {
        ContentBlock::Text {
            text, signature, ..
        } => says_something && (!text.is_empty() || signature.is_some()),
        ContentBlock::Thinking {
            text, signature, ..
        } => !text.is_empty() || signature.is_some(),
        _ => true,
    };
    let mut blocks: Vec<ContentBlock> = blocks.into_iter().filter(kept).collect();
    for block in &mut blocks {
        if let ContentBlock::Text { preamble, .. } = block {
            *preamble &= message.tool_calls.is_empty();
        }
    }
    message.content = match blocks.as_slice() {
        [] => Content::Absent,
        [block] if *block == ContentBlock::text(message_text(block)) => {
            Content::Text(message_text(block))
        }
        _ => Content::Blocks(blocks),
    };
    message
}

fn message_text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text, .. } => text.clone(),
        _ => String::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn a_turn_reads_back_equal(
        said in text(),
        turn in turn(),
        external in any::<bool>(),
        inline_bytes in prop_oneof![Just(0_usize), Just(6), Just(100_000)],
    ) {
        prop_assume!(!said.trim().is_empty());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompt.md");
        fs::write(&path, "<config model=\"m\"/>").unwrap();
        let mut file = TranscriptFile::open(&path, Duration::ZERO, || {}).unwrap();
        if external {
            file.externalise_payloads();
        }
        file.set_inline_bytes(inline_bytes);
        let mut history = vec![ChatMessage::user(said.clone())];
        file.append(&[TranscriptItem::User(said)]).unwrap();
        for (content, exchanges) in turn {
            let calls: Vec<ToolCall> = exchanges.iter().map(|(call, _)| call.clone()).collect();
            let answer = ChatMessage::assistant(content).with_tool_calls(calls);
            file.append(&TranscriptItem::from_answer(&answer)).unwrap();
            let answer = canonical(answer);
            if answer.content != Content::Absent || !answer.tool_calls.is_empty() {
                history.push(answer);
            }
            // Ids may repeat: the tool of a result is that of the last call with its id.
            let name_of = |id: &str| {
                let named = exchanges.iter().rev().find(|(call, _)| call.id == id);
                named.map(|(call, _)| call.name.clone()).unwrap()
            };
            for (call, result) in &exchanges {
                let text = result.clone();
                history.push(
                    ChatMessage::tool(call.id.clone(), text.clone()).with_name(name_of(&call.id)),
                );
                file.append(&[TranscriptItem::ToolResponse { call: call.clone(), text, images: Vec::new() }]).unwrap();
            }
            // Somebody speaks between two answers, or they would be one.
            if exchanges.is_empty() {
                history.push(ChatMessage::user("go on"));
                file.append(&[TranscriptItem::User("go on".to_owned())]).unwrap();
            }
        }
        let text = fs::read(&path).unwrap();
        prop_assert_eq!(&text, file.content());
        let prompt = load(&path);
        let known = ["E-CALL-SCHEMA", "duplicate-id", "response-without-call", "call-without-response"];
        let unexpected = prompt.diagnostics.iter().find(|found| {
            found.is_error() || !known.contains(&found.code.as_str())
        });
        prop_assert!(unexpected.is_none(), "{:?}\n{}", unexpected, String::from_utf8_lossy(&text));
        prop_assert_eq!(&prompt.messages, &history, "{}", String::from_utf8_lossy(&text));
        // A program that forgot what it wrote counts on from the same number.
        prop_assert_eq!(
            prompt.reasoning_count(),
            String::from_utf8_lossy(&text).matches("\n<reasoning id=").count()
        );
    }
}

#[test]
fn an_answer_as_it_stands_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt.md");
    fs::write(&path, "<user>go</user>\n").unwrap();
    let mut file = TranscriptFile::open(&path, Duration::ZERO, || {}).unwrap();
    let thinking = |id: Option<&str>, signature: Option<&str>, text: &str| ContentBlock::Thinking {
        text: text.to_owned(),
        signature: signature.map(str::to_owned),
        id: id.map(str::to_owned),
    };
    let call = ToolCall::new("c1", "apply_patch", "*** Begin Patch")
        .with_kind(CallKind::Custom)
        .with_signature("s3".to_owned());
    let answer = ChatMessage::assistant(vec![
        thinking(Some("rs_1"), Some("s1"), "First."),
        ContentBlock::RedactedThinking {
            data: "b64==".to_owned(),
        },
        thinking(None, None, "Then."),
        ContentBlock::Text {
            text: "Let me patch.".to_owned(),
            signature: Some("s2".to_owned()),
            preamble: false,
        },
        thinking(Some("reasoning_7"), None, "Wait."),
        ContentBlock::text("Now."),
    ])
    .with_tool_calls(vec![call.clone()]);
    file.append(&TranscriptItem::from_answer(&answer)).unwrap();
    let text = "ok".to_owned();
    file.append(&[TranscriptItem::ToolResponse {
        call,
        text,
        images: Vec::new(),
    }])
    .unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "<user>go</user>\n\
         <reasoning id=\"rs_1\" signature=\"s1\">\n<summary>\nRAW|First.|RAW</summary>\n</reasoning>\n\
         <reasoning id=\"reasoning_2\" encrypted=\"b64==\">\n</reasoning>\n\
         <reasoning id=\"reasoning_3\">\n<summary>\nRAW|Then.|RAW</summary>\n</reasoning>\n\
         <assistant signature=\"s2\">\nRAW|Let me patch.|RAW</assistant>\n\
         <reasoning id=\"reasoning_7\" provider_id continued>\n<summary>\nRAW|Wait.|RAW</summary>\n\
         </reasoning>\n\
         <assistant continued>\nRAW|Now.|RAW</assistant>\n\
         <tool_call type=\"custom_tool_call\" tool_call_id=\"c1\" function_name=\"apply_patch\" \
         signature=\"s3\">\nRAW|*** Begin Patch|RAW</tool_call>\n\
         <tool_response type=\"custom_tool_call\" tool_call_id=\"c1\">\nRAW|ok|RAW</tool_response>\n"
    );
    // A preamble without its calls, as an answer that broke off may be.
    let preamble = ChatMessage::assistant(vec![ContentBlock::Text {
        text: "Let me see.".to_owned(),
        signature: None,
        preamble: true,
    }]);
    file.append(&TranscriptItem::from_answer(&preamble))
        .unwrap();
    let written = "<assistant phase=\"commentary\">\nRAW|Let me see.|RAW</assistant>\n";
    assert!(fs::read_to_string(&path).unwrap().ends_with(written));
    let prompt = load(&path);
    assert_eq!(
        (&prompt.messages[1], &prompt.messages[3]),
        (&answer, &preamble)
    );
    assert!(prompt.diagnostics.is_empty(), "{:?}", prompt.diagnostics);
}

#[test]
fn white_space_is_said_beside_a_call_and_nothing_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt.md");
    fs::write(&path, "<user>go</user>\n").unwrap();
    let mut file = TranscriptFile::open(&path, Duration::ZERO, || {}).unwrap();
    let call = ToolCall::new("c1", "f", "{}");
    let answer = ChatMessage::assistant("\n\n").with_tool_calls(vec![call.clone()]);
    file.append(&TranscriptItem::from_answer(&answer)).unwrap();
    file.append(&[TranscriptItem::ToolResponse {
        call,
        text: String::new(),
        images: Vec::new(),
    }])
    .unwrap();
    assert_eq!(
        TranscriptItem::from_answer(&ChatMessage::assistant(" \n")),
        []
    );
    let prompt = load(&path);
    assert_eq!(prompt.messages[1], answer);
    assert!(prompt.diagnostics.is_empty(), "{:?}", prompt.diagnostics);

    // Written by somebody else, it is left out and told.
    fs::write(&path, "<user>go</user>\n<assistant>RAW| |RAW</assistant>\n").unwrap();
    let prompt = load(&path);
    assert_eq!(prompt.messages, [ChatMessage::user("go")]);
    assert_eq!(prompt.diagnostics.len(), 1);
}
