//! Harmony that is rendered reads back as what was rendered, as ids and as escaped text.

use openchatml::harmony::{
    Content, Conversation, Form, HarmonyDocument, HarmonyReadOptions, Reasoning, RenderOptions,
    Renderer, read, read_harmony_ids,
};
use openchatml::parse;

/// The conversation of any OpenChatML text is refused, or gives ids that read back as one message
/// for each of its own, with the same role and body; and so does its text.
pub fn render(data: &[u8]) {
    let transcript = parse(data).to_transcript();
    let (conversation, _losses) = Conversation::from_transcript(&transcript);
    let options = RenderOptions::default().with_reasoning(Reasoning::Keep);
    let ids = Renderer::new().ids(&conversation, Form::Conversation, &options);
    if let Ok(ids) = &ids {
        let read = read_harmony_ids(ids.iter().copied(), &HarmonyReadOptions::default());
        assert_is(&read, &conversation);
    }
    let text = conversation.to_text(Form::Conversation, &options.with_escape(true));
    assert_eq!(text.is_ok(), ids.is_ok(), "{text:?}, {ids:?}");
    if let Ok(text) = text {
        assert_is(
            &read(text.as_bytes(), &HarmonyReadOptions::default()),
            &conversation,
        );
    }
}

fn assert_is(document: &HarmonyDocument, conversation: &Conversation) {
    let shown = || format!("{:?}", conversation.messages);
    assert_eq!(
        document.messages.len(),
        conversation.messages.len(),
        "{}",
        shown()
    );
    for (read, meant) in document.messages.iter().zip(&conversation.messages) {
        let body = meant.content.iter().map(|part| match part {
            Content::Text(text) => text.as_str(),
            other => unreachable!("no frame has such a part: {other:?}"),
        });
        assert_eq!(read.content, body.collect::<String>(), "{}", shown());
        assert_eq!(read.head.role, meant.role, "{}", shown());
        assert!(!read.head.stray && read.complete, "{}", shown());
    }
}
