//! Rendering in Harmony, the format of gpt-oss.

use openchatml::harmony::{
    Content, Conversation, DeveloperContent, Form, PieceContent, PiecePlace, Reasoning,
    RenderError, RenderMessage, RenderOptions, SystemContent, ToolNamespace,
};
use openchatml::{ControlToken, FrameRole};

use super::kept::{Kept, check_answers, keep, split_thoughts};
use super::marked::{Chat, Marked};
use super::options::MaskOptions;
use super::read::message_span;
use super::span::Rendered;
use crate::Refusal;

/// Renders a conversation; `row` is the place of what is refused.
pub(super) fn render(
    chat: Chat,
    options: &MaskOptions,
    row: &[u8],
    out: &mut Rendered,
) -> Result<(), Refusal> {
    let is_native = chat.native;
    let messages = if is_native {
        chat.messages
    } else {
        with_rules(chat, options)
    };
    let (kept, messages) = keep(messages, options);
    if !is_native {
        check_answers(&kept, &messages, row)?;
    }
    let conversation = Conversation::new(messages);
    let mut writing = Writing {
        kept: &kept,
        out,
        start: 0,
        body: 0,
    };
    let render_options = RenderOptions::default().with_reasoning(Reasoning::Keep);
    conversation
        .pieces(Form::Training, &render_options, |piece| {
            writing.piece(piece.message, piece.place, piece.content);
        })
        .map_err(|error| {
            let source = kept.get(error.message()).map_or(0, |kept| kept.source);
            let span = message_span(row, source);
            Refusal::new(RenderError::CODE, error.to_string(), span)
                .with_help("correct the message, or remove the row")
        })
}

/// Adds the messages that models of this format expect at the start of a conversation.
///
/// The instructions and tools of a chat row are those of a developer.
fn with_rules(chat: Chat, options: &MaskOptions) -> Vec<Marked> {
    let mut system = SystemContent::default().with_reasoning_effort(options.effort);
    system.current_date.clone_from(&options.date);
    let mut messages = vec![Marked::new(RenderMessage::system(system), 0)];
    let mut rest = chat.messages;
    order_replies(&mut rest);
    split_thoughts(&mut rest);
    let first = rest.first().map(|marked| marked.message.role);
    let has_rules = matches!(first, Some(FrameRole::System | FrameRole::Developer));
    let mut developer = DeveloperContent::default();
    let mut source = 0;
    let mut train = None;
    if has_rules {
        let rules = rest.remove(0);
        developer.instructions = Some(rules.text()).filter(|text| !text.is_empty());
        source = rules.source;
        train = rules.train;
    }
    if !chat.tools.is_empty() {
        developer = developer.with_tools(ToolNamespace::functions(chat.tools));
    }
    if developer != DeveloperContent::default() {
        let mut marked = Marked::new(RenderMessage::developer(developer), source);
        marked.train = train;
        messages.push(marked);
    }
    for marked in &mut rest {
        if marked.message.role == FrameRole::System {
            // Later rules have the rank of the first ones.
            marked.message.role = FrameRole::Developer;
        }
        if marked.message.role == FrameRole::Developer {
            let text = marked.text();
            let content = DeveloperContent::new(text);
            marked.message.content = vec![Content::from(content)];
        }
    }
    messages.append(&mut rest);
    messages
}

struct Writing<'w> {
    kept: &'w [Kept],
    out: &'w mut Rendered,
    /// The first byte of the message that the model emits.
    start: usize,
    body: usize,
}

impl Writing<'_> {
    fn piece(&mut self, message: usize, place: PiecePlace, content: PieceContent<'_>) {
        let Some(kept) = self.kept.get(message) else {
            return;
        };
        let before = self.out.text.len();
        match content {
            PieceContent::Token(token) => self.out.special(token.as_str()),
            PieceContent::Text(text) => self.out.ordinary(text),
        }
        let after = self.out.text.len();
        match (place, content) {
            (PiecePlace::Header, PieceContent::Token(ControlToken::Start)) => {
                // The prompt ends with the role.
                let role = FrameRole::Assistant.as_str().map_or(0, str::len);
                self.start = if kept.continues { before } else { after + role };
            }
            (PiecePlace::Header, PieceContent::Token(ControlToken::Message)) => {
                self.body = after;
                if kept.role != FrameRole::Assistant {
                    self.start = after;
                }
            }
            (PiecePlace::End, PieceContent::Token(token)) => {
                // The model ends a turn otherwise; only histories end it so.
                let is_end = token == ControlToken::End;
                let stop = (!(is_end && kept.ends_turn)).then_some(!is_end);
                kept.add_spans(self.out, (self.start, self.body, before), stop);
            }
            _ => {}
        }
    }
}

/// Puts the replies to parallel calls into the order of the calls.
///
/// Harmony has no ids, so that the order is all that pairs them.
fn order_replies(messages: &mut [Marked]) {
    let is_reply = |marked: &Marked| marked.message.role == FrameRole::Tool;
    let mut from = 0;
    while let Some(start) = messages.iter().skip(from).position(is_reply) {
        let start = from + start;
        let (before, rest) = messages.split_at_mut(start);
        let count = rest.iter().take_while(|marked| is_reply(marked)).count();
        let calls = before.iter().rev().take_while(|marked| !is_reply(marked));
        let ids: Vec<&str> = calls.filter_map(|marked| marked.id.as_deref()).collect();
        if let Some(replies) = rest.get_mut(..count) {
            replies.sort_by_key(|reply| {
                let place = ids.iter().position(|id| Some(*id) == reply.id.as_deref());
                place.map_or(ids.len(), |place| ids.len() - 1 - place)
            });
        }
        from = start + count;
    }
}
