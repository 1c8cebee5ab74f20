//! Frames and messages: there and back.

use logue_message::{Arguments, CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};
use logue_source::{Diagnostic, DiagnosticCode};
use openchatml::{
    Channel, FrameBuf, FrameRole, Loss, LossKind, LossTarget, Terminator, check,
    frames_from_messages, messages_from_frames, parse, write_frame,
};
use proptest::prelude::*;

use crate::strategies::marked_text;

/// Messages to frames to text to frames to messages, with the notes of both ways.
fn there_and_back(messages: &[ChatMessage]) -> (Vec<ChatMessage>, Vec<Loss>) {
    let (frames, mut notes) = frames_from_messages(messages);
    let mut text = String::from("version: 2.2\n");
    for frame in &frames {
        write_frame(&mut text, frame).unwrap();
    }
    let document = parse(text.as_bytes());
    assert!(document.diagnostics().is_empty(), "{text}");
    let violated = |found: &Diagnostic| found.code == DiagnosticCode::BodyConstraintViolation;
    assert!(!check(&document).iter().any(violated), "{text}");
    let read = document.to_owned_frames();
    assert_eq!(read, frames);
    let (messages, more) = messages_from_frames(&read);
    notes.extend(more);
    (messages, notes)
}

fn preamble(text: &str) -> ContentBlock {
    ContentBlock::Text {
        text: text.to_owned(),
        signature: None,
        preamble: true,
    }
}

pub(crate) fn frames(text: &str) -> Vec<FrameBuf> {
    parse(text.as_bytes()).to_owned_frames()
}

#[test]
fn a_turn_is_one_message() {
    let (messages, notes) = messages_from_frames(&frames(
        "<|start|>user name=Ann<|message|>Weather?<|end|>
<|start|>assistant<|channel|>analysis<|message|>Two cities.<|end|>
<|start|>assistant intent=preamble<|channel|>commentary<|message|>I will look.<|end|>
<|start|>assistant to=functions.weather call_id=1<|channel|>commentary<|constrain|>json<|message|>{ \"c\": 1 }<|call|>
<|start|>assistant to=python call_id=2<|channel|>analysis<|message|>1+1<|call|>
<|start|>tool name=functions.weather call_id=1 to=assistant<|channel|>commentary<|message|>20<|end|>
<|start|>python call_id=x<|message|>not a known role<|end|>
<|start|>tool name=python call_id=2 to=assistant<|channel|>commentary<|message|>2<|end|>
<|start|>assistant<|channel|>analysis<|message|>Sum up.<|end|>
<|start|>assistant<|channel|>final<|message|>20 and 2.<|return|>",
    ));
    let expected = [
        ChatMessage::user("Weather?").with_name("Ann"),
        ChatMessage::assistant(vec![
            ContentBlock::thinking("Two cities."),
            preamble("I will look."),
        ])
        .with_tool_calls(vec![
            ToolCall::new("1", "weather", "{ \"c\": 1 }"),
            ToolCall::new("2", "python", "1+1"),
        ]),
        ChatMessage::tool("1", "20").with_name("weather"),
        ChatMessage::tool("2", "2").with_name("python"),
        ChatMessage::assistant(vec![
            ContentBlock::thinking("Sum up."),
            ContentBlock::text("20 and 2."),
        ]),
    ];
    assert_eq!(messages, expected);
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "frame 5: its channel dropped; a call or reply reads as on `commentary`",
            "frame 7: left out, because its role is not known",
        ],
    );
}

#[test]
fn return_ends_the_last_answer_only() {
    let turn = |text: &str| ChatMessage::assistant(text);
    let ends = |messages: &[ChatMessage]| -> Vec<Terminator> {
        let (frames, _) = frames_from_messages(messages);
        frames.iter().map(|frame| frame.terminator).collect()
    };
    let user = ChatMessage::user("q");
    assert_eq!(
        ends(&[user.clone(), turn("a"), user.clone(), turn("b")]),
        [
            Terminator::End,
            Terminator::End,
            Terminator::End,
            Terminator::Return
        ],
    );
    assert_eq!(
        ends(&[turn("a"), user.clone()]),
        [Terminator::End, Terminator::End]
    );
    let thinking = ChatMessage::assistant(vec![ContentBlock::thinking("t")]);
    assert_eq!(ends(&[user, thinking]), [Terminator::End, Terminator::End]);
    let call = turn("").with_tool_calls(vec![ToolCall::new("1", "f", "{}")]);
    assert_eq!(ends(&[call]), [Terminator::Call]);
}

#[test]
fn calls_are_written_by_their_kind() {
    let custom = ToolCall::new("2", "shell", "ls -l").with_kind(CallKind::Custom);
    let message = ChatMessage::assistant(Content::Absent).with_tool_calls(vec![
        ToolCall::new("1", "f", "{broken"),
        custom,
        ToolCall::new("3", "now", ""),
        ToolCall::new("4", "browser.search", "{}"),
    ]);
    let (frames, _) = frames_from_messages(std::slice::from_ref(&message));
    let seen: Vec<_> = frames
        .iter()
        .map(|frame| {
            let part = |value: &Option<String>| value.clone().unwrap_or_default();
            (
                part(&frame.to),
                part(&frame.constrain),
                part(&frame.content_type),
            )
        })
        .collect();
    let expected = [
        ("functions.f", "", ""),
        ("functions.shell", "", "text"),
        ("functions.now", "", ""),
        ("browser.search", "json", ""),
    ];
    let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(seen, expected);
    assert_eq!(
        there_and_back(std::slice::from_ref(&message)),
        (vec![message], vec![])
    );
}

#[test]
fn a_reply_finds_the_name_of_its_tool() {
    let messages = [
        ChatMessage::assistant("").with_tool_calls(vec![ToolCall::new("1", "f", "{}")]),
        ChatMessage::tool("1", "done"),
    ];
    let (read, notes) = there_and_back(&messages);
    assert_eq!(read[1], ChatMessage::tool("1", "done").with_name("f"));
    assert!(notes.is_empty());
    let (frames, notes) = frames_from_messages(&[ChatMessage::tool("9", "done")]);
    assert_eq!(frames[0].name, None);
    assert_eq!(notes[0].target, LossTarget::Message(0));
}

#[test]
fn a_call_that_is_no_json_stays_valid() {
    let source = "version: 2.2
<|start|>assistant to=python call_id=1<|channel|>commentary<|message|>print(1)<|call|>
";
    let (messages, notes) = messages_from_frames(&frames(source));
    assert_eq!(
        messages[0].tool_calls,
        [ToolCall::new("1", "python", "print(1)")]
    );
    assert!(notes.is_empty());
    assert_eq!(there_and_back(&messages), (messages.clone(), vec![]));
    let (back, _) = frames_from_messages(&messages);
    assert_eq!(back, frames(source));
}

#[test]
fn a_tool_keeps_its_name_whatever_it_is() {
    let names = [
        ("f", "functions.f"),
        ("functions.f", "functions.functions.f"),
        ("functions.", "functions.functions."),
        ("functions", "functions.functions"),
        ("python", "python"),
        ("functions.python", "functions.python"),
        ("browser.open", "browser.open"),
        ("functions.browser.open", "functions.browser.open"),
        ("pythons", "functions.pythons"),
    ];
    for (name, recipient) in names {
        let messages = [
            ChatMessage::assistant(Content::Absent)
                .with_tool_calls(vec![ToolCall::new("1", name, "{}")]),
            ChatMessage::tool("1", "a").with_name(name),
        ];
        let (frames, _) = frames_from_messages(&messages);
        assert_eq!(frames[0].to.as_deref(), Some(recipient));
        assert_eq!(there_and_back(&messages), (messages.to_vec(), vec![]));
    }
}

#[test]
fn an_answer_behind_open_calls_is_its_own_message() {
    let call = FrameBuf::call("functions.f", "1", "{}");
    let (messages, _) = messages_from_frames(&[
        call.clone(),
        FrameBuf::analysis("and"),
        FrameBuf::call("functions.g", "2", "{}"),
        FrameBuf::answer("never mind"),
    ]);
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].tool_calls.len(), 2);
    assert_eq!(
        messages[0].content,
        vec![ContentBlock::thinking("and")].into()
    );
    assert_eq!(messages[1], ChatMessage::assistant("never mind"));
}

#[test]
fn an_empty_answer_stays_one() {
    let empty = [ChatMessage::user("q"), ChatMessage::assistant("")];
    assert_eq!(there_and_back(&empty), (empty.to_vec(), vec![]));
}

/// A text of one to a few pieces; messages may not be empty.
fn said() -> impl Strategy<Value = String> {
    marked_text().prop_filter("not empty", |text| !text.is_empty())
}

fn tool_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_]{1,8}",
        Just("python".to_owned()),
        Just("browser.open".to_owned()),
        Just("a.b".to_owned()),
        Just("functions.a".to_owned()),
    ]
}

/// One exchange in normal form: whatever it holds, it ends so that nothing joins it.
fn named(mut message: ChatMessage, name: Option<String>) -> ChatMessage {
    message.name = name;
    message
}

fn exchange() -> impl Strategy<Value = Vec<ChatMessage>> {
    let thought = prop_oneof![
        said().prop_map(ContentBlock::thinking),
        said().prop_map(|text| preamble(&text)),
    ];
    let thoughts = proptest::collection::vec(thought, 0..3);
    let call = (tool_name(), marked_text(), any::<bool>(), marked_text());
    let calls = proptest::collection::vec(call, 1..4);
    let name = proptest::option::of("[a-z]{1,4}");
    prop_oneof![
        (said(), name.clone()).prop_map(|(text, name)| vec![named(ChatMessage::user(text), name)]),
        said().prop_map(|text| vec![ChatMessage::system(text)]),
        said().prop_map(|text| vec![ChatMessage::developer(text)]),
        (thoughts.clone(), said(), name.clone()).prop_map(|(mut blocks, answer, name)| {
            let content = if blocks.is_empty() {
                Content::Text(answer)
            } else {
                blocks.push(ContentBlock::text(answer));
                Content::Blocks(blocks)
            };
            vec![named(ChatMessage::assistant(content), name)]
        }),
        (thoughts, calls, name).prop_map(|(blocks, calls, name)| {
            let content = if blocks.is_empty() {
                Content::Absent
            } else {
                Content::Blocks(blocks)
            };
            let mut message = named(ChatMessage::assistant(content), name);
            let mut replies = Vec::new();
            for (index, (tool, arguments, custom, reply)) in calls.into_iter().enumerate() {
                let id = format!("call_{index}");
                replies.push(ChatMessage::tool(id.as_str(), reply).with_name(tool.as_str()));
                let kind = if custom {
                    CallKind::Custom
                } else {
                    CallKind::Function
                };
                let call = ToolCall::new(id, tool, arguments).with_kind(kind);
                message.tool_calls.push(call);
            }
            // Answered in another order than called.
            replies.reverse();
            replies.insert(0, message);
            replies
        }),
    ]
}

/// Valid messages of any form.
fn message() -> impl Strategy<Value = ChatMessage> {
    let text = || {
        (said(), any::<bool>()).prop_map(|(text, preamble)| ContentBlock::Text {
            text,
            signature: None,
            preamble,
        })
    };
    let block = prop_oneof![said().prop_map(ContentBlock::thinking), text()];
    let content = prop_oneof![
        said().prop_map(Content::Text),
        proptest::collection::vec(block, 1..5).prop_map(Content::Blocks),
    ];
    let calls = proptest::collection::vec((tool_name(), marked_text()), 0..3);
    prop_oneof![
        said().prop_map(ChatMessage::system),
        proptest::collection::vec(text(), 1..3).prop_map(ChatMessage::user),
        (content, calls).prop_map(|(content, calls)| {
            let calls = calls.into_iter().enumerate();
            let calls =
                calls.map(|(index, (tool, text))| ToolCall::new(format!("c{index}"), tool, text));
            ChatMessage::assistant(content).with_tool_calls(calls.collect())
        }),
        ("c[0-2]", marked_text(), tool_name())
            .prop_map(|(id, text, tool)| ChatMessage::tool(id, text).with_name(tool)),
    ]
}

/// What no mapping may change, whatever the form: who said what, and which tools were called.
type Essence = Vec<(Role, String, Vec<(String, Arguments)>)>;

fn essence(messages: &[ChatMessage]) -> Essence {
    let mut essence: Essence = Vec::new();
    for message in messages {
        let calls = message.tool_calls.iter();
        let calls = calls.map(|call| (call.name.clone(), call.arguments.clone()));
        match essence.last_mut() {
            Some((Role::Assistant, text, all)) if message.role == Role::Assistant => {
                text.push_str(&message.text());
                all.extend(calls);
            }
            _ => essence.push((message.role, message.text(), calls.collect())),
        }
    }
    essence
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 20_000)))]

    #[test]
    fn messages_in_normal_form_survive(
        exchanges in proptest::collection::vec(exchange(), 0..6),
    ) {
        let messages = exchanges.concat();
        for message in &messages {
            prop_assert!(message.validate().is_ok());
        }
        let (read, notes) = there_and_back(&messages);
        prop_assert_eq!(read, messages);
        prop_assert!(notes.is_empty());
    }

    #[test]
    fn other_messages_come_to_their_normal_form(messages in proptest::collection::vec(message(), 0..6)) {
        let (once, notes) = there_and_back(&messages);
        // Two messages that call become one, with its words before its calls.
        prop_assert!(notes.iter().all(|note| note.kind == LossKind::OrderChanged), "{notes:?}");
        prop_assert_eq!(essence(&once), essence(&messages));
        let (twice, _) = there_and_back(&once);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn no_mapping_raises_authority_or_visibility(frames in proptest::collection::vec(crate::strategies::frame(), 0..6)) {
        let (messages, _) = messages_from_frames(&frames);
        let (back, _) = frames_from_messages(&messages);
        for frame in &back {
            let same = frames.iter().filter(|other| other.body == frame.body);
            let highest = same.clone().map(|other| other.role.authority()).max();
            let seen = same.clone().any(|other| other.visibility().is_visible());
            if let Some(highest) = highest {
                prop_assert!(frame.role.authority() <= highest);
                prop_assert!(seen || !frame.visibility().is_visible(), "{frame:?}");
            }
        }
    }
}

#[test]
fn private_reasoning_stays_private_on_the_way() {
    let messages = [ChatMessage::assistant(vec![
        ContentBlock::thinking("SECRET"),
        ContentBlock::text("4."),
    ])];
    let (frames, _) = frames_from_messages(&messages);
    assert_eq!(frames[0].channel, Some(Channel::Analysis));
    assert!(frames[0].role == FrameRole::Assistant && !frames[0].visibility().is_visible());
}
