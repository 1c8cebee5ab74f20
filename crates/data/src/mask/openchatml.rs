//! Rendering in OpenChatML 2.2.

use openchatml::convert::assign_ids;
use openchatml::harmony::{
    Content, Conversation, DeveloperContent, Form, PieceContent, PiecePlace, RenderMessage,
    RenderOptions, ToolNamespace,
};
use openchatml::{
    Channel, ControlToken, FrameBuf, FrameRole, HeaderBuf, Terminator, WriteError, write_frame,
    write_header,
};

use super::kept::{Kept, check_answers, keep, split_thoughts};
use super::marked::{Chat, Marked, is_call};
use super::options::MaskOptions;
use super::read::message_span;
use super::span::Rendered;
use crate::Refusal;

/// Renders a conversation; `row` is the place of what is refused.
pub(super) fn render(
    mut chat: Chat,
    options: &MaskOptions,
    row: &[u8],
    out: &mut Rendered,
) -> Result<(), Refusal> {
    if !chat.native {
        split_thoughts(&mut chat.messages);
    }
    declare(&mut chat);
    let is_native = chat.native;
    let (kept, messages) = keep(chat.messages, options);
    if !is_native {
        check_answers(&kept, &messages, row)?;
    }
    let count = messages.len();
    let frames = messages.iter().zip(&kept).enumerate();
    let mut frames: Vec<FrameBuf> = frames
        .map(|(index, (message, kept))| frame(message, kept, index + 1 == count))
        .collect();
    // Other writers of frames give ids to calls and replies that have none.
    drop(assign_ids(&mut frames));
    let refuse = |error: WriteError, kept: Option<&Kept>| {
        let span = message_span(row, kept.map_or(0, |kept| kept.source));
        Refusal::new(WriteError::CODE, error.to_string(), span)
            .with_help("correct the message, or remove the row")
    };
    let header = write_header(&HeaderBuf::default()).map_err(|error| refuse(error, None))?;
    out.ordinary(&header);
    let mut text = String::new();
    for (frame, kept) in frames.iter().zip(&kept) {
        text.clear();
        write_frame(&mut text, frame).map_err(|error| refuse(error, Some(kept)))?;
        append(&text, frame, kept, out);
    }
    Ok(())
}

/// Adds the message that declares the tools, after the first rules.
fn declare(chat: &mut Chat) {
    if chat.tools.is_empty() {
        return;
    }
    let tools = ToolNamespace::functions(std::mem::take(&mut chat.tools));
    let content = DeveloperContent::default().with_tools(tools);
    let rules = chat.messages.iter().take_while(|marked| {
        matches!(
            marked.message.role,
            FrameRole::System | FrameRole::Developer
        )
    });
    let place = rules.count();
    let message = RenderMessage::developer(content);
    chat.messages.insert(place, Marked::new(message, 0));
}

fn frame(message: &RenderMessage, kept: &Kept, is_last: bool) -> FrameBuf {
    let mut frame = FrameBuf::new(message.role, body_of(message));
    let channel = message.channel.as_deref();
    frame.channel = channel.map(|name| Channel::parse(name.as_bytes()));
    frame.to.clone_from(&message.recipient);
    frame.name.clone_from(&message.name);
    frame.call_id.clone_from(&kept.id);
    if let Some(kind) = &message.content_type {
        match kind.strip_prefix(ControlToken::Constrain.as_str()) {
            Some(constrain) => frame.constrain = Some(constrain.to_owned()),
            None => frame.content_type = Some(kind.clone()),
        }
    }
    let is_commentary = frame.channel == Some(Channel::Commentary);
    if is_call(message) {
        frame.terminator = Terminator::Call;
    } else if message.role == FrameRole::Assistant && is_commentary {
        frame = frame.with_intent("preamble");
    } else if is_last && kept.ends_turn {
        frame.terminator = Terminator::Return;
    }
    frame
}

/// Returns the text of a body, with typed content as Harmony writes it.
fn body_of(message: &RenderMessage) -> String {
    let mut body = String::new();
    if message
        .content
        .iter()
        .all(|part| matches!(part, Content::Text(_)))
    {
        for part in &message.content {
            if let Content::Text(text) = part {
                body.push_str(text);
            }
        }
        return body;
    }
    let mut alone = RenderMessage::new(message.role, "");
    alone.content.clone_from(&message.content);
    let conversation = Conversation::new(vec![alone]);
    // Content of another role is text of nothing; the frame is then empty.
    let rendered = conversation.pieces(Form::Conversation, &RenderOptions::default(), |piece| {
        if let (PiecePlace::Body, PieceContent::Text(text)) = (piece.place, piece.content) {
            body.push_str(text);
        }
    });
    if rendered.is_err() {
        body.clear();
    }
    body
}

/// Appends a written frame with its spans.
fn append(text: &str, frame: &FrameBuf, kept: &Kept, out: &mut Rendered) {
    // Values of a header contain no `<|`, so each one in it begins a token.
    let opening = ControlToken::Message.as_str();
    let header = text.find(opening).unwrap_or_default();
    let (mut rest, after) = text.split_at(header);
    let mut start = out.text.len();
    if kept.continues {
        // The line end before a frame is emitted with it.
        start -= usize::from(out.text.ends_with('\n'));
    }
    while let Some(length) = rest.find("|>").map(|at| at + 2) {
        let (token, behind) = rest.split_at(length);
        out.special(token);
        let next = behind.find("<|").unwrap_or(behind.len());
        let (words, tail) = behind.split_at(next);
        if token == ControlToken::Start.as_str() && !kept.continues {
            let role = frame.role.as_str().map_or(0, str::len);
            start = out.text.len() + role;
        }
        out.ordinary(words);
        rest = tail;
    }
    out.special(opening);
    let body = out.text.len();
    let written = after.strip_prefix(opening).unwrap_or_default();
    let token = frame.terminator.token().map_or("", ControlToken::as_str);
    let content = written.trim_end_matches('\n');
    let content = content.strip_suffix(token).unwrap_or(content);
    out.ordinary(content);
    let end = out.text.len();
    out.special(token);
    let start = if frame.role == FrameRole::Assistant {
        start
    } else {
        body
    };
    let is_end = frame.terminator == Terminator::End;
    let stop = (!(is_end && kept.ends_turn)).then_some(!is_end);
    kept.add_spans(out, (start, body, end), stop);
    out.ordinary("\n");
}
