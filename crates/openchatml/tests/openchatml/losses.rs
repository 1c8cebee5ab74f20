//! What a mapping cannot keep is noted, and what was cut or never called does not come to life.

use logue_message::{ChatMessage, Content, ContentBlock, ImageSource};
use openchatml::convert::{self, ConvertOptions};
use openchatml::project::{self, JsonFormat};
use openchatml::{
    Channel, Dialect, FrameRole, LossKind, LossTarget, frames_from_messages, messages_from_frames,
};
use proptest::prelude::*;

use crate::conversations::frames;
use crate::strategies::frame;

#[test]
fn losses_are_noted() {
    let image = ContentBlock::Image {
        source: ImageSource::Url("file:///a.png".into()),
        media_type: None,
        detail: None,
    };
    let signed = |text: &str| ContentBlock::Text {
        text: text.into(),
        signature: Some("s".into()),
        preamble: false,
    };
    let messages = [
        ChatMessage::user(vec![ContentBlock::text("look"), image.clone()]),
        ChatMessage::user(vec![image.clone()]),
        ChatMessage::system(vec![ContentBlock::text("rules"), image]),
        ChatMessage::assistant(vec![
            ContentBlock::RedactedThinking {
                data: "x".repeat(64 * 1024),
            },
            ContentBlock::Thinking {
                text: "t".into(),
                signature: Some("two words".into()),
                id: Some("i".into()),
            },
            signed("a"),
        ]),
        ChatMessage::assistant(Content::Absent),
    ];
    let (frames, notes) = frames_from_messages(&messages);
    let bodies: Vec<_> = frames.iter().map(|frame| frame.body.as_str()).collect();
    assert_eq!(bodies, ["look", "rules", "t", "a"]);
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "message 1: an image dropped",
            "message 2: an image dropped",
            "message 3: an image dropped",
            "message 4: reasoning that only its provider can read dropped",
            "message 4: a signature dropped",
            "message 4: a signature dropped",
            "message 5: an empty message left out",
        ],
    );
}

#[test]
fn what_proves_reasoning_to_its_provider_is_kept_in_text() {
    let message = ChatMessage::assistant(vec![
        ContentBlock::RedactedThinking {
            data: "EmwKAhgB+/==".into(),
        },
        ContentBlock::Thinking {
            text: "Look first.".into(),
            signature: Some("EqQBCgIYAhIM1gbcDa9GJwZA2b3h==".into()),
            id: None,
        },
        ContentBlock::Thinking {
            text: String::new(),
            signature: Some("gAAAAABo+/x=".into()),
            id: Some("rs_68af".into()),
        },
        ContentBlock::text("Done."),
    ]);
    let (frames, losses) = frames_from_messages(std::slice::from_ref(&message));
    assert_eq!(losses, []);
    let mut text = "---\nversion: 2.2\n---\n".to_owned();
    for frame in &frames {
        openchatml::write_frame(&mut text, frame).unwrap();
    }
    let document = openchatml::parse(text.as_bytes());
    assert_eq!(document.diagnostics(), [], "{text}");
    let (messages, losses) = messages_from_frames(&document.to_owned_frames());
    assert_eq!((messages, losses), (vec![message], Vec::new()), "{text}");
}

#[test]
fn what_a_message_cannot_hold_is_noted() {
    let (messages, notes) = messages_from_frames(&frames(
        "stray <|start|>user intent=debug lang=en<|message|>a<|end|>
<|start|>assistant<|channel|>private<|message|>b<|end|>
<|start|>assistant<|channel|>commentary<|message|>c<|end|>
<|start|>assistant to=functions.f call_id=1<|channel|>commentary<|message|>{\"half\":",
    ));
    let expected = [
        ChatMessage::user("a"),
        ChatMessage::assistant(vec![ContentBlock::thinking("c")]),
    ];
    assert_eq!(messages, expected);
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "frame 1: left out, because its role is not known",
            "frame 2: intent dropped",
            "frame 2: unknown attributes dropped",
            "frame 3: left out, because its channel is not known",
            "frame 4: commentary that is not a preamble is kept as reasoning",
            "frame 5: a cut tool call is left out",
        ],
    );
}

#[test]
fn what_a_call_a_reply_or_an_instruction_loses_is_noted() {
    let cases: [(&str, &[&str]); 11] = [
        (
            "assistant to=functions.f call_id=1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>",
            &[],
        ),
        (
            "assistant to=functions.f call_id=1<|channel|>analysis<|constrain|>json<|message|>{}<|call|>",
            &["its channel dropped; a call or reply reads as on `commentary`"],
        ),
        (
            "tool name=python call_id=1 to=assistant<|channel|>analysis<|message|>a<|end|>",
            &["its channel dropped; a call or reply reads as on `commentary`"],
        ),
        (
            "assistant to=functions.f call_id=1<|channel|>commentary<|constrain|>yaml<|message|>a: b<|call|>",
            &["constrain dropped"],
        ),
        (
            "assistant to=functions.f call_id=1<|channel|>commentary<|constrain|>json<|message|>{broken<|call|>",
            &["constrain dropped"],
        ),
        (
            "assistant to=functions.f call_id=1 content_type=markdown<|channel|>commentary<|message|>a<|call|>",
            &["content_type dropped"],
        ),
        (
            "assistant to=functions.f call_id=1 content_type=text<|channel|>commentary<|message|>a<|call|>",
            &[],
        ),
        (
            "assistant to=f call_id=1<|channel|>commentary<|message|>a<|call|>",
            &["the tool is read as a function of that name"],
        ),
        (
            "tool name=f call_id=1 to=assistant<|channel|>commentary<|message|>a<|end|>",
            &["the tool is read as a function of that name"],
        ),
        (
            "system<|channel|>final<|message|>a<|end|>",
            &["channel dropped"],
        ),
        (
            "developer<|channel|>commentary<|message|>a<|end|>",
            &["channel dropped"],
        ),
    ];
    for (frame, expected) in cases {
        let (messages, notes) = messages_from_frames(&frames(&format!("<|start|>{frame}")));
        assert_eq!(messages.len(), 1, "{frame}");
        let notes: Vec<&str> = notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(notes, expected, "{frame}");
    }
}

#[test]
fn what_was_not_called_is_no_call_unless_it_was_answered() {
    const AT_REST: &str =
        "<|start|>assistant to=functions.f call_id=1<|channel|>commentary<|message|>{}<|end|>\n";
    const CALL: &str =
        "<|start|>assistant to=functions.f call_id=1<|channel|>commentary<|message|>[]<|call|>\n";
    const REPLY: &str = "<|start|>tool name=functions.f call_id=1 to=assistant<|channel|>commentary<|message|>a<|end|>\n";
    const BROKEN_REPLY: &str = "<|start|>tool oh name=functions.f call_id=1 to=assistant<|channel|>commentary<|message|>a<|end|>\n";
    const OTHER: &str = "<|start|>tool name=functions.f call_id=2 to=assistant<|channel|>commentary<|message|>a<|end|>\n";
    let cases: [(&[&str], usize); 8] = [
        (&[AT_REST], 0),
        (&[AT_REST, REPLY], 1),
        (&[AT_REST, OTHER], 0),
        (&[AT_REST, BROKEN_REPLY], 0),
        (&[REPLY, AT_REST], 0),
        (&[AT_REST, CALL, REPLY], 1),
        (&[AT_REST, AT_REST, REPLY], 1),
        (&[CALL], 1),
    ];
    for (parts, calls) in cases {
        let (messages, notes) = messages_from_frames(&frames(&parts.concat()));
        let made: usize = messages
            .iter()
            .map(|message| message.tool_calls.len())
            .sum();
        assert_eq!(made, calls, "{parts:?}");
        let rest = parts.iter().filter(|part| **part == AT_REST).count();
        let live = parts.contains(&CALL);
        let kept = rest + usize::from(live) - calls;
        let thoughts = messages
            .iter()
            .filter_map(|message| match &message.content {
                Content::Blocks(blocks) => Some(blocks),
                _ => None,
            })
            .flatten()
            .filter(|block| **block == ContentBlock::thinking("{}"));
        assert_eq!(thoughts.count(), kept, "{parts:?}");
        let said = notes
            .iter()
            .filter(|note| note.message.contains("not called is kept as reasoning"));
        assert_eq!(said.count(), kept, "{parts:?}");
    }
}

/// Nothing behind a literal block that is never closed speaks with the frame's authority.
#[test]
fn what_an_unclosed_literal_block_swallows_is_left_out() {
    for role in ["system", "user"] {
        let (messages, notes) = messages_from_frames(&frames(&format!(
            "<|start|>{role}<|message|>a<|literal|>b<|end|>
<|start|>assistant<|channel|>analysis<|message|>SECRET<|end|>
<|start|>tool name=functions.f call_id=1<|message|>EVIL<|end|>"
        )));
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].text(), "ab");
        let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
        assert_eq!(
            notes,
            [
                "frame 1: the frame was cut; the message holds what there is of it",
                "frame 2: left out, because its role is not known",
            ],
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(500, 40_000)))]

    /// What comes back as another frame has a note, but for what means the same.
    #[test]
    fn no_loss_is_silent(frame in frame()) {
        let (messages, notes) = messages_from_frames(std::slice::from_ref(&frame));
        let (back, more) = frames_from_messages(&messages);
        if notes.is_empty() && more.is_empty() && !frame.body.is_empty() {
            let mut same = frame;
            if same.is_call() && same.content_type.is_none() && back[0].constrain.is_some() {
                same.constrain = Some("json".to_owned());
            }
            if same.role == FrameRole::Tool {
                same.to = Some("assistant".to_owned());
            }
            if matches!(same.role, FrameRole::User | FrameRole::Assistant) && same.effective_channel() == Channel::Final {
                same.channel = back[0].channel;
                same.terminator = back[0].terminator;
            }
            prop_assert_eq!(back, [same]);
        }
    }
}

#[test]
fn a_reply_of_a_later_call_is_listed_where_there_are_no_ids() {
    let frames = frames(
        "<|start|>assistant to=functions.f call_id=a<|channel|>commentary<|message|>{}<|call|>
<|start|>assistant to=functions.f call_id=b<|channel|>commentary<|message|>{}<|call|>
<|start|>tool name=functions.f call_id=b to=assistant<|channel|>commentary<|message|>1<|end|>",
    );
    let transcript = openchatml::Transcript::new(frames);
    let options = openchatml::convert::ConvertOptions::default();
    for dialect in [Dialect::V2_0, Dialect::Harmony, Dialect::V0_1] {
        let losses = openchatml::convert::write(&transcript, dialect, &options)
            .unwrap()
            .losses;
        let lost = losses
            .iter()
            .filter(|loss| loss.kind == LossKind::PairingLost);
        let lost: Vec<_> = lost.map(|loss| loss.target).collect();
        assert_eq!(lost, [LossTarget::Frame(2)], "{dialect}");
    }
}

#[test]
fn images_of_a_result_are_no_replies_of_their_own() {
    let transcript = openchatml::Transcript::new(frames(
        "<|start|>assistant to=functions.f call_id=a<|channel|>commentary<|message|>{}<|call|>
<|start|>assistant to=functions.f call_id=b<|channel|>commentary<|message|>{}<|call|>
<|start|>tool name=functions.f call_id=a to=assistant<|channel|>commentary<|message|>1<|end|>
<|start|>tool name=functions.f call_id=a to=assistant content_type=image_url continues=message<|channel|>commentary<|message|>https://example.org/a.png<|end|>
<|start|>tool name=functions.f call_id=b to=assistant<|channel|>commentary<|message|>2<|end|>",
    ));
    let (conversation, losses) = openchatml::convert::harmony_conversation(&transcript);
    assert_eq!(conversation.messages.len(), 4);
    let content = losses
        .iter()
        .filter(|loss| loss.is_at_least(openchatml::LossSeverity::Content));
    let content: Vec<_> = content.map(|loss| (loss.kind, loss.target)).collect();
    assert_eq!(content, [(LossKind::ImageDropped, LossTarget::Frame(3))]);
}

#[test]
fn declared_tools_stay_where_replies_are_moved() {
    let mut transcript = openchatml::Transcript::new(frames(
        "<|start|>assistant to=functions.f call_id=a<|channel|>commentary<|message|>{}<|call|>
<|start|>assistant to=functions.f call_id=b<|channel|>commentary<|message|>{}<|call|>
<|start|>tool name=functions.f call_id=b to=assistant<|channel|>commentary<|message|>1<|end|>
<|start|>tool name=functions.f call_id=a to=assistant<|channel|>commentary<|message|>2<|end|>",
    ));
    transcript.tools = vec![serde_json::json!({"type": "function", "function": {"name": "f"}})];
    let options = openchatml::convert::ConvertOptions::default();
    let format = openchatml::project::JsonFormat::ShareGpt;
    let written = openchatml::project::write(&transcript, format, &options).unwrap();
    let read = openchatml::project::read(written.text.as_bytes(), format, &options);
    assert_eq!(read.transcript.tools, transcript.tools, "{}", written.text);
}

#[test]
fn a_reply_of_2_0_goes_to_the_assistant_as_in_every_form() {
    let text = "version: 2.2
<|start|>assistant to=functions.f call_id=1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>
<|start|>tool name=functions.f call_id=1 to=assistant<|channel|>commentary<|message|>2<|end|>
";
    let options = ConvertOptions::default();
    let frames = convert::read(text.as_bytes(), None, &options).transcript;
    for form in JsonFormat::ALL {
        let written = project::write(&frames, form, &options).unwrap().text;
        let read = project::read(written.as_bytes(), form, &options).transcript;
        let recipients: Vec<_> = read.frames.iter().map(|it| it.to.as_deref()).collect();
        let expected = [Some("functions.f"), Some("assistant")];
        assert_eq!(recipients, expected, "{form}: {written}");
    }
}

#[test]
fn the_severity_of_each_kind_is_that_of_the_documentation() {
    use openchatml::{LossKind, LossSeverity};

    let of_severity = |severity: Option<LossSeverity>| {
        let kinds = LossKind::ALL
            .iter()
            .filter(|kind| kind.severity() == severity);
        kinds
            .map(|kind| kind.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        of_severity(Some(LossSeverity::Content)),
        "message-dropped text-dropped image-dropped part-dropped call-dropped \
         pairing-lost bytes-replaced preamble-hidden"
    );
    assert_eq!(
        of_severity(Some(LossSeverity::Structure)),
        "reference-kept channel-changed preamble-changed intent-dropped \
         recipient-dropped type-changed terminator-changed cut-completed order-changed \
         parts-joined regrouped part-changed spelling-changed empty-dropped \
         header-dropped setting-dropped declaration-dropped declaration-changed \
         attribute-dropped comment-dropped signature-dropped"
    );
    assert_eq!(
        of_severity(Some(LossSeverity::Identity)),
        "id-dropped name-dropped tool-renamed"
    );
    assert_eq!(of_severity(None), "assigned implied hidden-omitted");
}

#[test]
fn a_message_that_cannot_be_read_is_a_loss_of_its_index() {
    let cases = [
        (JsonFormat::OpenAi, r#"{"role":"User","content":"b"}"#),
        (JsonFormat::OpenAi, r#"{"role":"user","content":5}"#),
        (JsonFormat::OpenAi, r#"{"role":"user"}"#),
        (JsonFormat::OpenAi, "5"),
        (JsonFormat::HarmonyJson, r#"{"role":"user","content":5}"#),
        (JsonFormat::Anthropic, r#"{"role":"x","content":"b"}"#),
        (JsonFormat::Responses, r#"{"role":"x","content":"b"}"#),
        (JsonFormat::Json, r#"{"role":"user","content":5}"#),
    ];
    for (format, message) in cases {
        let row = format!(r#"[{{"role":"user","content":"a"}},{message}]"#);
        let read = project::read(row.as_bytes(), format, &ConvertOptions::default());
        let dropped = read.losses.iter();
        let dropped = dropped.filter(|loss| loss.kind == LossKind::MessageDropped);
        let targets: Vec<LossTarget> = dropped.map(|loss| loss.target).collect();
        assert_eq!(targets, [LossTarget::Message(1)], "{format:?} {message}");
    }
    for row in ["[{", "5", r#"{"messages":5}"#] {
        let read = project::read(
            row.as_bytes(),
            JsonFormat::OpenAi,
            &ConvertOptions::default(),
        );
        let kinds: Vec<LossKind> = read.losses.iter().map(|loss| loss.kind).collect();
        assert_eq!(kinds, [LossKind::MessageDropped], "{row}");
    }
}
