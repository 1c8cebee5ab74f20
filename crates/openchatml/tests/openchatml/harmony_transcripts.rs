//! Harmony and transcripts, both ways: what is kept, and what is told of what is not.

use openchatml::harmony::{
    Conversation, DeveloperContent, FunctionTool, HarmonyReadOptions, RenderMessage, ToolNamespace,
    read,
};
use openchatml::{
    Channel, FrameBuf, FrameRole, HeaderBuf, Loss, LossTarget, Terminator, Transcript, Visibility,
};
use proptest::prelude::*;

use crate::strategies::broken_transcript;

fn told(losses: &[Loss]) -> Vec<String> {
    losses.iter().map(Loss::to_string).collect()
}

fn from_frames(frames: Vec<FrameBuf>) -> (Vec<RenderMessage>, Vec<String>) {
    let (conversation, losses) = Conversation::from_transcript(&Transcript::new(frames));
    (conversation.messages, told(&losses))
}

fn from_text(text: &str) -> (Vec<FrameBuf>, Vec<String>) {
    let (transcript, losses) =
        read(text.as_bytes(), &HarmonyReadOptions::default()).to_transcript();
    (transcript.frames, told(&losses))
}

fn ids(frames: &[FrameBuf]) -> Vec<&str> {
    let ids = frames.iter().map(|frame| frame.call_id.as_deref());
    ids.map(|id| id.unwrap_or("-")).collect()
}

#[test]
fn a_conversation_is_made_of_frames() {
    let (messages, losses) = from_frames(vec![
        FrameBuf::system("Be kind.").with_channel(Channel::Final),
        FrameBuf::user("hi").with_name("ann"),
        FrameBuf::analysis("Hm."),
        FrameBuf::new(FrameRole::Assistant, "No channel is an answer."),
        FrameBuf::answer("[1]")
            .with_constrain("json")
            .with_terminator(Terminator::Return),
    ]);
    let expected = [
        RenderMessage::system("Be kind."),
        RenderMessage::user("hi").with_name("ann"),
        RenderMessage::assistant("Hm.").with_channel("analysis"),
        RenderMessage::assistant("No channel is an answer.").with_channel("final"),
        RenderMessage::assistant("[1]")
            .with_channel("final")
            .with_constrain("json"),
    ];
    assert_eq!(messages, expected);
    assert_eq!(losses, Vec::<String>::new());
}

#[test]
fn what_harmony_has_no_place_for_is_told() {
    let mut odd = FrameBuf::preamble("Looking.").with_call_id("c9");
    odd.attributes.push(("x".to_owned(), Some("1".to_owned())));
    let frames = vec![
        odd,
        FrameBuf::answer("{}")
            .with_content_type("code")
            .with_constrain("json"),
        FrameBuf::answer("cut").with_terminator(Terminator::None),
        FrameBuf::new(FrameRole::Other, "stray").with_channel(Channel::Unknown),
        FrameBuf::user("secret").with_channel(Channel::Unknown),
    ];
    let transcript = Transcript::new(frames).with_header(HeaderBuf::default());
    let (conversation, losses) = Conversation::from_transcript(&transcript);
    assert_eq!(conversation.messages.len(), 3);
    assert_eq!(
        told(&losses),
        [
            "transcript: Harmony has no document header",
            "frame 1: `call_id` is lost; replies are told apart by order and name",
            "frame 1: its other attributes are lost",
            "frame 2: its content type is lost, because the one of its body takes its place",
            "frame 3: it was cut, and reads as if it was whole",
            "frame 4: left out, because its role is not known",
            "frame 5: left out, because its channel is not known",
        ]
    );
}

#[test]
fn what_was_no_call_becomes_none() {
    let call = || FrameBuf::call("functions.rm", "c1", "{}");
    let not_called = |frame: FrameBuf| {
        let (messages, losses) = from_frames(vec![frame]);
        assert_eq!(messages[0].recipient, None);
        assert_eq!(messages[0].channel.as_deref(), Some("analysis"));
        assert!(
            losses.iter().any(|loss| loss.contains("was not called")),
            "{losses:?}"
        );
    };
    not_called(call().with_terminator(Terminator::End));
    not_called(call().with_terminator(Terminator::None));
    not_called(FrameBuf::answer("{}").with_to("functions.rm"));

    // A call that was answered was run, however it ended, unless it was cut.
    let reply = || FrameBuf::reply("functions.rm", "c1", "done");
    let (messages, _) = from_frames(vec![call().with_terminator(Terminator::End), reply()]);
    assert_eq!(messages[0].recipient.as_deref(), Some("functions.rm"));
    let (messages, _) = from_frames(vec![call().with_terminator(Terminator::None), reply()]);
    assert_eq!(messages[0].recipient, None);

    // Who is no tool is not called either.
    let (messages, losses) = from_frames(vec![FrameBuf::answer("hi").with_to("user")]);
    assert_eq!(
        messages,
        [RenderMessage::assistant("hi").with_channel("final")]
    );
    assert_eq!(
        losses,
        ["frame 1: its recipient is lost, because Harmony would write a call"]
    );
}

#[test]
fn a_reply_without_a_name_is_of_the_tool_that_was_called() {
    let mut reply = FrameBuf::reply("x", "c1", "on");
    reply.name = None;
    let call = FrameBuf::call("functions.lamp", "c1", "{}");
    let (messages, _) = from_frames(vec![call, reply.clone()]);
    assert_eq!(messages[1], RenderMessage::tool("functions.lamp", "on"));
    let (messages, losses) = from_frames(vec![reply]);
    assert_eq!(messages, []);
    assert_eq!(losses, ["frame 1: left out, because its tool is not known"]);
}

const CALL_A: &str = "<|start|>assistant to=functions.a<|channel|>commentary<|message|>{}<|call|>";
const CALL_B: &str = "<|start|>assistant to=functions.b<|channel|>commentary<|message|>{}<|call|>";
const REPLY_A: &str = "<|start|>functions.a to=assistant<|channel|>commentary<|message|>1<|end|>";
const REPLY_B: &str = "<|start|>functions.b to=assistant<|channel|>commentary<|message|>2<|end|>";

#[test]
fn replies_find_their_calls_by_name_and_order() {
    let (frames, losses) = from_text(&[CALL_A, CALL_B, CALL_A, REPLY_B, REPLY_A, REPLY_A].concat());
    assert_eq!(
        ids(&frames),
        ["call_1", "call_2", "call_3", "call_2", "call_1", "call_3"]
    );
    assert_eq!(losses.len(), 6);
    assert_eq!(
        losses[0],
        "message 1: its call has got an id, because Harmony has none"
    );
    let found = "message 4: it has got the id of the first call of its tool without a reply";
    assert_eq!(losses[3], found);

    let (frames, losses) = from_text(&[REPLY_A, CALL_A, REPLY_A, REPLY_A].concat());
    assert_eq!(ids(&frames), ["call_1", "call_2", "call_2", "call_3"]);
    let alone = "no call of its tool waits for it; it has got an id of its own";
    assert_eq!(losses[0], format!("message 1: {alone}"));
    assert_eq!(losses[3], format!("message 4: {alone}"));
}

#[test]
fn replies_without_a_tool_get_the_calls_that_named_ones_leave() {
    const REPLY: &str = "<|start|>tool<|channel|>commentary<|message|>1<|end|>";
    let (frames, losses) = from_text(&[CALL_A, REPLY].concat());
    assert_eq!(ids(&frames), ["call_1", "call_1"]);
    let first = "message 2: it names no tool; it has got the id of the first call without a reply";
    assert_eq!(losses[1], first);
    let (frames, _) = from_text(&[CALL_A, CALL_B, CALL_A, REPLY, REPLY_A, REPLY].concat());
    assert_eq!(
        ids(&frames),
        ["call_1", "call_2", "call_3", "call_2", "call_1", "call_3"]
    );
    let (frames, _) = from_text(&[CALL_A, REPLY, REPLY_A].concat());
    assert_eq!(ids(&frames), ["call_1", "call_2", "call_1"]);
}

#[test]
fn ids_that_are_there_are_kept_and_not_given_twice() {
    let call = "<|start|>assistant to=functions.a call_id=call_1<|channel|>commentary<|message|>{}<|call|>";
    let reply = "<|start|>tool name=functions.a call_id=call_1 to=assistant<|channel|>commentary<|message|>1<|end|>";
    let (frames, losses) = from_text(&[CALL_A, call, reply, REPLY_A].concat());
    assert_eq!(ids(&frames), ["call_2", "call_1", "call_1", "call_2"]);
    assert_eq!(losses.len(), 2);
    let (frames, _) = from_text(&[call, CALL_A, reply, REPLY_A].concat());
    assert_eq!(ids(&frames), ["call_1", "call_2", "call_1", "call_2"]);
}

#[test]
fn what_is_hidden_in_harmony_stays_hidden() {
    let cases = [
        ("junk<|end|>", FrameRole::Other, Terminator::None),
        (
            "<|start|>assistant<|message|>no channel<|end|>",
            FrameRole::Assistant,
            Terminator::End,
        ),
        (
            "<|start|>assistant<|channel|>scratch<|message|>x<|end|>",
            FrameRole::Assistant,
            Terminator::End,
        ),
        (
            "<|start|>user channel=final<|message|>x<|end|>",
            FrameRole::User,
            Terminator::End,
        ),
    ];
    for (text, role, terminator) in cases {
        let (frames, _) = from_text(text);
        assert_eq!(frames[0].channel, Some(Channel::Unknown), "{text}");
        assert_eq!(
            (frames[0].role, frames[0].terminator),
            (role, terminator),
            "{text}"
        );
        assert_ne!(frames[0].visibility(), Visibility::Visible, "{text}");
    }
}

#[test]
fn a_last_token_out_of_place_is_told() {
    let (frames, losses) = from_text("<|start|>user<|message|>x<|call|>");
    assert_eq!(frames, [FrameBuf::user("x")]);
    let text = "message 1: its last token is invalid for such a message; it ends in `<|end|>`";
    assert_eq!(losses, [text]);
    let (frames, _) = from_text("<|start|>assistant<|channel|>final<|message|>x<|return|>");
    assert_eq!(
        frames,
        [FrameBuf::answer("x").with_terminator(Terminator::Return)]
    );
    let (frames, _) = from_text("<|start|>assistant<|channel|>final<|message|>x");
    assert_eq!(frames[0].terminator, Terminator::None);
}

#[test]
fn a_type_of_json_is_a_promise_only_if_it_is_kept() {
    let text = |body| {
        format!("<|start|>assistant<|channel|>final <|constrain|>json<|message|>{body}<|end|>")
    };
    let (frames, _) = from_text(&text("{}"));
    assert_eq!(frames, [FrameBuf::answer("{}").with_constrain("json")]);
    let (frames, _) = from_text(&text("{"));
    assert_eq!(frames, [FrameBuf::answer("{").with_content_type("json")]);
}

#[test]
fn contents_become_what_the_model_is_told() {
    let tools = ToolNamespace::functions([FunctionTool::new("f", "", None)]);
    let conversation = Conversation::new(vec![
        RenderMessage::system(openchatml::harmony::SystemContent::default()),
        RenderMessage::developer(DeveloperContent::new("Be brief.").with_tools(tools)),
        RenderMessage::user("a")
            .with_part("b")
            .with_recipient("all"),
        RenderMessage::call("functions.f", "{}"),
    ]);
    let (transcript, losses) = conversation.to_transcript();
    let bodies: Vec<_> = transcript
        .frames
        .iter()
        .map(|frame| frame.body.as_str())
        .collect();
    assert!(
        bodies[0].ends_with("channel: 'functions'."),
        "{}",
        bodies[0]
    );
    assert!(bodies[1].starts_with("# Instructions\n\nBe brief.\n\n# Tools\n\n"));
    assert_eq!(transcript.frames[2], FrameBuf::user("ab"));
    assert_eq!(
        transcript.frames[3],
        FrameBuf::call("functions.f", "call_1", "{}")
    );
    assert_eq!(losses.len(), 1);
    assert_eq!(losses[0].target, LossTarget::Message(3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]
    #[test]
    fn no_reading_shows_more_as_a_transcript(text in broken_transcript()) {
        let document = read(&text, &HarmonyReadOptions::default());
        let (transcript, _) = document.to_transcript();
        prop_assert_eq!(transcript.frames.len(), document.messages.len());
        for (frame, message) in transcript.frames.iter().zip(&document.messages) {
            prop_assert_eq!(&frame.body, &message.content);
            prop_assert!(frame.role.authority() <= message.head.role.authority());
            prop_assert!(!frame.visibility().is_visible() || message.is_visible());
            prop_assert!(!frame.is_call() || (message.end == openchatml::harmony::End::Call && !message.head.stray));
        }
    }
}
