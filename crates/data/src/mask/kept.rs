//! The messages that are rendered, and which of them are trained.

use std::ops::Range;

use openchatml::FrameRole;
use openchatml::harmony::{Content, RenderMessage};

use super::marked::{Marked, class_of, ends_turn, is_call};
use super::message_error::MessageError;
use super::options::{MaskOptions, ReasoningPolicy};
use super::span::{MaskSpan, Rendered, SpanClass};
use crate::Refusal;

/// A message that is rendered.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Kept {
    pub(super) role: FrameRole,
    pub(super) class: SpanClass,
    /// The index of its message in the row.
    pub(super) source: usize,
    /// The id of the call or of the answered call.
    pub(super) id: Option<String>,
    /// Whether the message ends the turn of the assistant.
    pub(super) ends_turn: bool,
    /// The number of rendered messages before.
    part: usize,
    details: Vec<(Range<usize>, bool)>,
    /// Whether parts of the body without a mark of their own are trained.
    trained: bool,
    /// Whether the options allow its training, whatever marks say.
    allowed: bool,
    /// Whether the model emits the message without a new prompt.
    pub(super) continues: bool,
    terminators: bool,
    /// Whether the message is not trained because its reasoning was left out.
    lacks_reasoning: bool,
}

impl Kept {
    /// Adds the spans of a message of the assistant.
    ///
    /// `start` is the first byte that the model emits, `body` that of the body, `end` that of the
    /// terminator. `stop` says whether the model stops with the terminator; `None`: it never emits
    /// it.
    pub(super) fn add_spans(
        &self,
        rendered: &mut Rendered,
        (start, body, end): (usize, usize, usize),
        stop: Option<bool>,
    ) {
        let (source, part) = (self.source, self.part);
        rendered.lacks_reasoning |= self.lacks_reasoning;
        let mut span = |start: usize, end: usize, trained: bool| {
            let span = MaskSpan::new(start, end, self.class, source)
                .with_part(part)
                .with_trained(trained);
            rendered.span(span);
        };
        let details = &self.details;
        let flag = |train: bool| self.allowed && train;
        let first = details.first().filter(|(range, _)| range.start == 0);
        let head = first.map_or(self.trained, |(_, train)| flag(*train));
        span(start, body, head);
        let mut at = body;
        for (range, train) in details {
            let from = (body + range.start).min(end);
            let to = (body + range.end).min(end);
            span(at, from, self.trained);
            span(from, to, flag(*train));
            at = at.max(to);
        }
        span(at, end, self.trained);
        let last = details.last().filter(|(range, _)| body + range.end >= end);
        let tail = last.map_or(self.trained, |(_, train)| flag(*train));
        let terminator = match self.class {
            SpanClass::Context => SpanClass::Context,
            _ => SpanClass::Terminator,
        };
        let trained = tail && stop.is_some() && self.terminators;
        let span = MaskSpan::new(end, rendered.text.len(), terminator, source)
            .with_part(part)
            .with_trained(trained)
            .with_stop(stop == Some(true));
        rendered.span(span);
    }
}

/// Chooses the messages that are rendered, in order.
pub(super) fn keep(
    mut messages: Vec<Marked>,
    options: &MaskOptions,
) -> (Vec<Kept>, Vec<RenderMessage>) {
    if options.drop_trailing
        && let Some(last) = messages
            .iter()
            .rposition(|marked| is_wanted(marked, options))
    {
        messages.truncate(last + 1);
    }
    let finished = finished(&messages, options.reasoning);
    let mut kept: Vec<Kept> = Vec::with_capacity(messages.len());
    let mut rendered: Vec<RenderMessage> = Vec::with_capacity(messages.len());
    // Whether reasoning of the turn was left out.
    let mut is_incomplete = false;
    for (index, marked) in messages.into_iter().enumerate() {
        let message = &marked.message;
        if message.role == FrameRole::User {
            is_incomplete = false;
        }
        if index < finished && is_reasoning(message) {
            is_incomplete = true;
            continue;
        }
        let class = class_of(message);
        let is_assistant = message.role == FrameRole::Assistant;
        let lacks_reasoning = is_assistant && is_incomplete && !options.train_without_reasoning;
        let allowed = is_allowed(message, options) && !lacks_reasoning;
        let continues = is_assistant
            && kept
                .last()
                .is_some_and(|before| before.role == FrameRole::Assistant && !before.ends_turn);
        kept.push(Kept {
            role: message.role,
            class,
            source: marked.source,
            id: marked.id,
            ends_turn: ends_turn(message),
            part: kept.len(),
            details: marked.details,
            trained: allowed && marked.train.unwrap_or(true),
            allowed,
            continues,
            terminators: !is_assistant || options.classes.contains(SpanClass::Terminator),
            lacks_reasoning,
        });
        rendered.push(marked.message);
    }
    (kept, rendered)
}

/// Refuses an answer without text that would be trained.
pub(super) fn check_answers(
    kept: &[Kept],
    messages: &[RenderMessage],
    row: &[u8],
) -> Result<(), Refusal> {
    let is_blank = |part: &Content| matches!(part, Content::Text(text) if text.trim().is_empty());
    for (kept, message) in kept.iter().zip(messages) {
        if kept.class == SpanClass::Answer && kept.trained && message.content.iter().all(is_blank) {
            return Err(MessageError::EmptyAnswer.place(row, kept.source));
        }
    }
    Ok(())
}

/// Returns whether the options allow the training of a message.
fn is_allowed(message: &RenderMessage, options: &MaskOptions) -> bool {
    let class = class_of(message);
    options.roles.contains(message.role)
        && (class == SpanClass::Context || options.classes.contains(class))
}

/// Returns whether something of a message is to be trained.
fn is_wanted(marked: &Marked, options: &MaskOptions) -> bool {
    let mut details = marked.details.iter();
    let is_marked = marked.train.unwrap_or(true) || details.any(|(_, train)| *train);
    is_marked && is_allowed(&marked.message, options)
}

fn is_reasoning(message: &RenderMessage) -> bool {
    message.channel.as_deref() == Some("analysis")
}

/// Returns the number of messages whose reasoning is left out.
fn finished(messages: &[Marked], policy: ReasoningPolicy) -> usize {
    let is_final = |message: &RenderMessage| message.channel.as_deref() == Some("final");
    let place = match policy {
        ReasoningPolicy::Keep => None,
        ReasoningPolicy::Drop => Some(messages.len()),
        ReasoningPolicy::DropFinished => {
            let is_answer = |marked: &Marked| {
                let message = &marked.message;
                message.role == FrameRole::Assistant && is_final(message) && !is_call(message)
            };
            let mut answers = messages.iter().enumerate().rev();
            let mut answers = answers.by_ref().filter(|(_, marked)| is_answer(marked));
            let last = answers.next().map(|(index, _)| index);
            let later = messages.iter().skip(last.map_or(0, |last| last + 1));
            let mut later = later.map(|marked| marked.message.role);
            // A turn is finished if the assistant emitted something after it.
            if later.any(|role| role == FrameRole::Assistant) {
                last
            } else {
                answers.next().map(|(index, _)| index)
            }
        }
        ReasoningPolicy::DropBeforeFirstFinal => {
            let mut backwards = messages.iter().rev();
            let last = backwards.find(|marked| marked.message.role == FrameRole::Assistant);
            last.filter(|marked| is_final(&marked.message))
                .and_then(|_| messages.iter().position(|marked| is_final(&marked.message)))
        }
    };
    place.unwrap_or(0)
}

/// Splits reasoning in tags at the start of answers into messages of its own.
pub(super) fn split_thoughts(messages: &mut Vec<Marked>) {
    let mut index = 0;
    while let Some(marked) = messages.get_mut(index) {
        if let Some(thought) = split_thought(marked) {
            messages.insert(index, thought);
            index += 1;
        }
        index += 1;
    }
}

/// Takes the reasoning at the start of an answer, if it is in balanced tags.
fn split_thought(marked: &mut Marked) -> Option<Marked> {
    if class_of(&marked.message) != SpanClass::Answer || !marked.details.is_empty() {
        return None;
    }
    let [Content::Text(text)] = marked.message.content.as_mut_slice() else {
        return None;
    };
    let (thought, answer) = text.strip_prefix("<think>")?.split_once("</think>")?;
    let (thought, answer) = (thought.trim(), answer.trim_start_matches(['\n', '\r']));
    let message = RenderMessage::assistant(thought).with_channel("analysis");
    *text = answer.to_owned();
    let mut split = Marked::new(message, marked.source);
    split.train = marked.train;
    Some(split)
}
