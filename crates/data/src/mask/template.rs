//! Renderings of chat templates, with what the row says about training.

use super::marks::{MarkError, row_train, train_of};
use super::message_error::MessageError;
use super::options::MaskOptions;
use super::read::{invalid, message_span};
use super::row::{Body, RawMessage, RawRow};
use super::span::{MaskSpan, Rendered, SpanClass};
use super::tokens::no_special_token;
use crate::template::TemplateRendering;
use crate::{ChatTemplate, Refusal, Tokenizer};
use logue_source::{DiagnosticCode, Span};

/// The rendering of rows by a template.
pub(super) struct Rendering<'t> {
    pub(super) template: &'t ChatTemplate,
    pub(super) options: &'t MaskOptions,
    pub(super) tokenizer: &'t dyn Tokenizer,
}

impl Rendering<'_> {
    /// Renders a row and marks the trained spans.
    ///
    /// Arguments of calls are passed as written, or as objects if the template requires objects. In
    /// a row of another shape, objects are first.
    pub(super) fn render(&self, row: &[u8], is_converted: bool) -> Result<Rendered, Refusal> {
        let first = self.render_with(row, is_converted);
        match &first {
            Err(refusal) if refusal.finding.code == DiagnosticCode::DataTemplate => {
                self.render_with(row, !is_converted).or(first)
            }
            _ => first,
        }
    }

    fn render_with(&self, row: &[u8], has_objects: bool) -> Result<Rendered, Refusal> {
        let Self {
            template,
            options,
            tokenizer,
        } = *self;
        let raw: RawRow<'_> = serde_json::from_slice(row).map_err(|error| invalid(row, &error))?;
        let is_row_trained = row_train(&raw, options.marks)
            .map_err(|error| error.into_refusal(Span::new(0, row.len())))?;
        let messages = raw.messages.unwrap_or_default();
        let mut turns = Vec::with_capacity(messages.len());
        for (index, message) in messages.iter().enumerate() {
            let turn = Turn::read(message, options);
            let mut turn = turn.map_err(|error| error.place(row, index))?;
            turn.is_trained &= is_row_trained;
            turns.push(turn);
        }
        if options.drop_trailing {
            let last = turns
                .iter()
                .rposition(|turn| turn.is_assistant && turn.is_trained);
            turns.truncate(last.map_or(turns.len(), |last| last + 1));
        }
        let TemplateRendering {
            mut rendered,
            without_reasoning,
        } = template.render_first(row, turns.len(), has_objects)?;
        check_stops(&rendered, row, options, tokenizer)?;
        let is_last_turn = turns.iter().rposition(|turn| turn.is_user);
        let is_last_turn = |message: usize| is_last_turn.is_none_or(|user| message > user);
        // Whether reasoning of the turn was left out.
        let mut is_incomplete = false;
        for (index, turn) in turns.iter_mut().enumerate() {
            is_incomplete &= !turn.is_user;
            let lacks_reasoning = without_reasoning.contains(&index);
            is_incomplete |= lacks_reasoning;
            let is_trained = |span: &MaskSpan| {
                span.message == index
                    && span.class != SpanClass::Terminator
                    && options.classes.contains(span.class)
            };
            if !turn.is_assistant || !turn.is_trained {
                continue;
            }
            if turn.is_empty && options.classes.contains(SpanClass::Answer) {
                return Err(MessageError::EmptyAnswer.place(row, index));
            }
            if options.train_without_reasoning || !rendered.spans.iter().any(is_trained) {
                continue;
            }
            if lacks_reasoning && is_last_turn(index) && !template.allows_dropped() {
                let message = format!(
                    "the chat template leaves out or changes the reasoning of message {index}"
                );
                let place = message_span(row, index);
                return Err(
                    Refusal::new(DiagnosticCode::DataTemplateDropped, message, place).with_help(
                        "use a template that renders it, or train answers without it with \
                     --train-without-reasoning",
                    ),
                );
            }
            turn.is_trained &= !is_incomplete;
            rendered.lacks_reasoning |= is_incomplete;
        }
        for span in &mut rendered.spans {
            let turn = turns.get(span.message);
            let is_trained = turn.is_none_or(|turn| turn.is_trained);
            span.trained =
                is_trained && options.roles.assistant && options.classes.contains(span.class);
        }
        Ok(rendered)
    }
}

/// A message of the row.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Turn {
    is_user: bool,
    is_assistant: bool,
    /// Whether marks of the row allow its training.
    is_trained: bool,
    /// Whether the message has neither text nor a call.
    is_empty: bool,
}

impl Turn {
    fn read(message: &RawMessage<'_>, options: &MaskOptions) -> Result<Self, MessageError> {
        message.check_lost()?;
        let role = message.role.as_ref().map(|role| &*role.0);
        let parts = match &message.content {
            Body::Parts(parts) => parts.as_slice(),
            Body::Text(_) | Body::Absent => &[],
        };
        for part in parts.iter().filter(|part| !part.is_thought()) {
            part.check_text()?;
        }
        let train = train(message, options)?;
        let is_assistant = role == Some("assistant");
        if is_assistant {
            message.reasoning()?;
        }
        let is_blank = |text: &str| text.trim().is_empty();
        let has_text = match &message.content {
            Body::Absent => false,
            Body::Text(text) => !is_blank(text),
            Body::Parts(parts) => parts.iter().any(|part| !part.is_thought()),
        };
        let has_calls = message
            .tool_calls
            .as_ref()
            .is_some_and(|calls| !calls.is_empty());
        Ok(Self {
            is_user: role == Some("user"),
            is_assistant,
            is_trained: train.unwrap_or(true),
            is_empty: !has_text && !has_calls && message.function_call.is_none(),
        })
    }
}

/// Refuses stop tokens that the tokenizer would encode as ordinary text.
fn check_stops(
    rendered: &Rendered,
    row: &[u8],
    options: &MaskOptions,
    tokenizer: &dyn Tokenizer,
) -> Result<(), Refusal> {
    if options.allow_untrained_stop {
        return Ok(());
    }
    let stops = rendered.spans.iter().filter(|span| span.stop);
    let names = stops.map(|span| rendered.text.get(span.start..span.end).unwrap_or_default());
    for name in names {
        if tokenizer.special(name).is_none() {
            return Err(no_special_token(name, row));
        }
    }
    Ok(())
}

/// Returns what a message says about its training as a whole.
fn train(message: &RawMessage<'_>, options: &MaskOptions) -> Result<Option<bool>, MarkError> {
    let train = train_of(message, options.marks)?;
    let has_details = options.marks.train_detail && message.train_detail.is_some();
    let has_marked_parts = match &message.content {
        Body::Parts(parts) => parts
            .iter()
            .any(|part| part.train.is_some() || part.weight.is_some()),
        Body::Text(_) | Body::Absent => false,
    };
    if has_details || has_marked_parts {
        return Err(MarkError::new(
            "a part of a message is marked, which is not read with a chat template".to_owned(),
            "mark whole messages, or render another form",
        ));
    }
    Ok(train)
}
