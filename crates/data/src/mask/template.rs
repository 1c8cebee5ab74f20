//! Renderings of chat templates, with what the row says about training.

use super::marks::{MarkError, train_of};
use super::options::MaskOptions;
use super::read::message_span;
use super::row::{Body, RawMessage, RawRow};
use super::span::Rendered;
use crate::{ChatTemplate, Refusal, Tokenizer};
use logue_source::{DiagnosticCode, Span};

/// Renders a row by a template and marks the trained spans.
pub(super) fn render(
    template: &ChatTemplate,
    row: &[u8],
    options: &MaskOptions,
    tokenizer: &dyn Tokenizer,
) -> Result<Rendered, Refusal> {
    let mut rendered = template.render(row)?;
    check_stops(&rendered, row, options, tokenizer)?;
    // The template has read the row, so that it is JSON with messages.
    let raw: RawRow<'_> = serde_json::from_slice(row).map_err(|error| {
        let place = Span::new(0, row.len());
        Refusal::new(DiagnosticCode::JsonShape, error.to_string(), place)
    })?;
    let mut trained = Vec::new();
    for (index, message) in raw.messages.unwrap_or_default().iter().enumerate() {
        let train = train(message, options);
        let train = train.map_err(|error| error.into_refusal(message_span(row, index)))?;
        trained.push(train.unwrap_or(true));
    }
    for span in &mut rendered.spans {
        let is_trained = trained.get(span.message).copied().unwrap_or(true);
        span.trained =
            is_trained && options.roles.assistant && options.classes.contains(span.class);
    }
    Ok(rendered)
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
            let message = format!("the tokenizer has no special token `{name}`");
            let place = Span::new(0, row.len());
            return Err(
                Refusal::new(DiagnosticCode::DataSpecialToken, message, place)
                    .with_help("name the tokenizer of the model that has this template"),
            );
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
