//! Whoever controls the values of a frame controls nothing around it.

use openchatml::harmony::{self, HarmonyReadOptions};
use openchatml::{Channel, FrameBuf, FrameRole, Terminator, parse, write_frame};

use crate::input::Input;

/// A frame of any values is refused, or is written so that it reads back as itself, alone and
/// between others. The reader of Harmony, which knows the same escapes, gives the same body.
///
/// The first byte is the role, the second the channel, the third the terminator, the fourth says
/// which values there are. Each value is a line; the rest is the body.
pub fn forging(data: &[u8]) {
    let frame = frame(data);
    let mut text = "kept".to_owned();
    if write_frame(&mut text, &frame).is_err() {
        assert_eq!(text, "kept", "a refusal has written something");
        return;
    }
    let text = &text["kept".len()..];
    let document = parse(text.as_bytes());
    assert_eq!(
        document.to_owned_frames(),
        std::slice::from_ref(&frame),
        "{text:?}"
    );
    assert!(document.frames()[0].is_complete());
    reads_as_harmony(text, &frame);

    let around = [
        FrameBuf::system("rules"),
        FrameBuf::user("?"),
        frame,
        FrameBuf::analysis("secret"),
        FrameBuf::answer("4.").with_terminator(Terminator::Return),
    ];
    let mut text = "version: 2.2\n".to_owned();
    for frame in &around {
        if let Err(error) = write_frame(&mut text, frame) {
            panic!("refused the second time: {error}");
        }
    }
    let document = parse(text.as_bytes());
    assert_eq!(document.to_owned_frames(), around, "{text:?}");
}

fn reads_as_harmony(text: &str, frame: &FrameBuf) {
    // This token is Harmony's alone, so the writer does not escape it.
    if text.contains("<|endoftext|>") {
        return;
    }
    let document = harmony::read(text.as_bytes(), &HarmonyReadOptions::default());
    assert_eq!(document.messages.len(), 1, "{text:?}");
    let message = &document.messages[0];
    assert_eq!(message.content, frame.body, "{text:?}");
    assert!(message.complete && !message.head.stray);
    // Commentary without a recipient is for the user in Harmony, and hidden in 2.2.
    let may_be_shown = frame.visibility().is_visible() || message.is_preamble();
    assert!(!message.is_visible() || may_be_shown, "{text:?}");
}

fn frame(data: &[u8]) -> FrameBuf {
    let mut input = Input::new(data);
    let role = match input.byte() % 6 {
        0 => FrameRole::System,
        1 => FrameRole::Developer,
        2 => FrameRole::User,
        3 => FrameRole::Assistant,
        4 => FrameRole::Tool,
        _ => FrameRole::Other,
    };
    let channel = match input.byte() % 5 {
        0 => None,
        1 => Some(Channel::Analysis),
        2 => Some(Channel::Commentary),
        3 => Some(Channel::Final),
        _ => Some(Channel::Unknown),
    };
    let terminator = match input.byte() % 4 {
        0 => Terminator::End,
        1 => Terminator::Call,
        2 => Terminator::Return,
        _ => Terminator::None,
    };
    let which = input.byte();
    let mut value = |bit: u8| {
        let wanted = which & (1 << bit) != 0;
        wanted.then(|| String::from_utf8_lossy(input.line()).into_owned())
    };
    let mut frame = FrameBuf::new(role, "");
    frame.channel = channel;
    frame.terminator = terminator;
    frame.to = value(0);
    frame.call_id = value(1);
    frame.name = value(2);
    frame.intent = value(3);
    frame.content_type = value(4);
    frame.constrain = value(5);
    if let Some(key) = value(6) {
        frame.attributes.push((key, value(6)));
    }
    if let Some(key) = value(7) {
        frame.attributes.push((key, None));
    }
    frame.body = String::from_utf8_lossy(input.rest()).into_owned();
    frame
}
