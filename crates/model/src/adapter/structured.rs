//! Structured output: validation of responses against a schema, with one correction.
//!
//! Servers enforce a response schema more or less, or ignore it, so the response is validated here.
//! An invalid response is sent back to the model once, with its violations; a second invalid response
//! is an error.

use logue_message::schema::{Schema, Violation};
use logue_message::{ChatMessage, Content, ContentBlock};
use serde_json::Value;

use crate::{
    BoxFuture, Category, EventHandler, FinishReason, ModelEvent, ModelRequest, ModelResponse,
    Provider, ProviderError, TokenLogprob, ToolChoice,
};

/// The maximum size in bytes of a schema that is repeated with the violations.
const MAX_REPEATED_SCHEMA_BYTES: usize = 16 * 1024;

/// The text between reasoning and a preamble, which becomes reasoning.
const SEPARATOR: &str = "\n\n";

/// A provider adapter whose responses match the schema of the request.
///
/// Requests must pass [`ModelRequest::validate`]. A request without a schema is passed on. For a
/// request with a schema, [`ModelResponse::parsed`] is the value, unless the model calls tools first.
/// Text is reported after its validation, without a code fence around the value. The text of preambles
/// becomes reasoning.
/// [`ModelResponse::usage`] counts both requests.
#[derive(Clone, Debug)]
pub struct StructuredProvider<P> {
    provider: P,
}

impl<P: Provider> StructuredProvider<P> {
    /// Wraps a provider.
    pub const fn new(provider: P) -> Self {
        Self { provider }
    }

    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        events: EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        request.validate()?;
        let Some(source) = request.response_schema else {
            return self.provider.complete(request, events).await;
        };
        let schema = Schema::compile(source).map_err(|error| {
            ProviderError::new(
                Category::InvalidRequest,
                format!("invalid response schema: {error}"),
            )
            .without_quotes()
            .with_help("correct the schema; only references within it (`#/…`) are supported")
        })?;
        let first = self.attempt(request, &mut *events).await?;
        let (first, violations) = match check(first, &schema)? {
            CheckResult::Valid(attempt) => return Ok(attempt.report(events)),
            CheckResult::Invalid(attempt, violations) => (attempt, violations),
        };
        events(ModelEvent::SchemaRetry {
            reason: summary(&violations),
        });
        let mut messages = request.messages.to_vec();
        // A message cannot be empty.
        if !first.response.message.text().trim().is_empty() {
            messages.push(first.response.message);
        }
        messages.push(ChatMessage::user(correction(&list(&violations), source)));
        let correction = ModelRequest {
            messages: &messages,
            // A model that has to call a tool again could not correct its answer.
            tool_choice: match request.tool_choice {
                ToolChoice::None => &ToolChoice::None,
                _ => &ToolChoice::Auto,
            },
            ..request.clone()
        };
        let mut second = self.attempt(&correction, &mut *events).await?;
        second.response.usage = match (first.response.usage, second.response.usage) {
            (Some(mut first), Some(second)) => {
                first += second;
                Some(first)
            }
            (first, second) => first.or(second),
        };
        match check(second, &schema)? {
            CheckResult::Valid(attempt) => Ok(attempt.report(events)),
            CheckResult::Invalid(second, violations) => Err(invalid(
                format!("the answer does not meet the schema: {}", summary(&violations)),
                second.response.message,
            )
            .with_help(
                "use a model that supports structured output, describe the answer in the prompt, or \
                 simplify the schema; one correction was requested",
            )),
        }
    }

    /// Sends one request and retains the events of its response.
    async fn attempt(
        &self,
        request: &ModelRequest<'_>,
        events: EventHandler<'_>,
    ) -> Result<Attempt, ProviderError> {
        let mut retained = Vec::new();
        let mut handler = |event: ModelEvent| match event {
            ModelEvent::Reasoning(_)
            | ModelEvent::ReasoningSummary { .. }
            | ModelEvent::Repair { .. }
            | ModelEvent::Retry { .. } => events(event),
            event => retained.push(event),
        };
        let response = self.provider.complete(request, &mut handler).await?;
        Ok(Attempt {
            response,
            events: retained,
            preamble: None,
        })
    }
}

impl<P: Provider> Provider for StructuredProvider<P> {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn takes_images(&self) -> bool {
        self.provider.takes_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(self.ask(request, events))
    }
}

/// A response and its unreported events.
struct Attempt {
    response: ModelResponse,
    events: Vec<ModelEvent>,
    /// The text of preambles, which a valid answer does not contain.
    preamble: Option<String>,
}

impl Attempt {
    /// Reports the retained events.
    fn report(self, events: EventHandler<'_>) -> ModelResponse {
        if self.response.parsed.is_some() {
            if let Some(preamble) = self.preamble {
                events(ModelEvent::Reasoning(preamble));
            }
            // The pieces may include a code fence, which was removed.
            let text = self.response.message.text();
            let logprobs = tokens_of(&text, self.events);
            if !logprobs.is_empty() {
                events(ModelEvent::TextLogprobs(logprobs));
            }
            events(ModelEvent::Text(text));
        } else {
            self.events.into_iter().for_each(events);
        }
        self.response
    }
}

/// Returns the tokens of a part of the reported text.
fn tokens_of(text: &str, events: Vec<ModelEvent>) -> Vec<TokenLogprob> {
    let tokens = events.into_iter().filter_map(|event| match event {
        ModelEvent::TextLogprobs(tokens) => Some(tokens),
        _ => None,
    });
    let tokens: Vec<TokenLogprob> = tokens.flatten().collect();
    let bytes = tokens.iter().flat_map(|token| &token.token.bytes);
    let bytes: Vec<u8> = bytes.copied().collect();
    let Some(start) = memchr::memmem::rfind(&bytes, text.as_bytes()) else {
        return Vec::new();
    };
    let end = start + text.len();
    let mut at = 0;
    // A token that continues outside the text has the bytes of the text.
    let within = tokens.into_iter().filter_map(|token| {
        let (from, to) = (at, at + token.token.bytes.len());
        at = to;
        if start <= from && to <= end {
            return Some(token);
        }
        let own = start.max(from).checked_sub(from)?..end.min(to).checked_sub(from)?;
        let own = token.token.bytes.get(own).filter(|own| !own.is_empty())?;
        Some(token.with_bytes(own))
    });
    within.collect()
}

enum CheckResult {
    Valid(Attempt),
    Invalid(Attempt, Vec<Violation>),
}

/// Validates a response.
///
/// # Errors
/// Returns an error if the response is truncated, because a second one would be truncated too.
fn check(mut attempt: Attempt, schema: &Schema) -> Result<CheckResult, ProviderError> {
    if !attempt.response.message.tool_calls.is_empty() {
        return Ok(CheckResult::Valid(attempt));
    }
    let text = answer_text(&attempt.response.message);
    let json = without_fence(&text);
    let value: Value = match serde_json::from_str(json) {
        Ok(value) => value,
        Err(error) => {
            let cause = match attempt.response.finish_reason {
                FinishReason::Length => "it reached the length limit",
                FinishReason::ContentFilter => "the server's filter ended it",
                _ => return Ok(CheckResult::Invalid(attempt, vec![not_json(json, &error)])),
            };
            let message = format!("the answer is truncated: {cause}");
            return Err(invalid(message, attempt.response.message)
                .with_help("raise `max_tokens` in <config/>, or request a shorter answer"));
        }
    };
    let violations = schema.violations(&value);
    if !violations.is_empty() {
        return Ok(CheckResult::Invalid(attempt, violations));
    }
    attempt.preamble = take_preambles(&mut attempt.response.message);
    if json.len() != text.len() {
        set_text(&mut attempt.response.message, json);
    }
    attempt.response.parsed = Some(value);
    Ok(CheckResult::Valid(attempt))
}

fn invalid(message: String, answer: ChatMessage) -> ProviderError {
    let mut error = ProviderError::new(Category::StructuredOutputInvalid, message).without_quotes();
    error.answer = Some(Box::new(answer));
    error
}

fn not_json(json: &str, error: &serde_json::Error) -> Violation {
    if json.is_empty() {
        return Violation::new("", "it is empty");
    }
    Violation::new("", format!("it is not a single JSON value ({error})"))
}

/// Returns the content of a code fence, or the trimmed text without one.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let content = || {
        let (_, body) = text.strip_prefix("```")?.split_once('\n')?;
        body.strip_suffix("```").map(str::trim)
    };
    content().unwrap_or(text)
}

/// Returns the text after the preambles; all text if there are only preambles.
fn answer_text(message: &ChatMessage) -> String {
    let Content::Blocks(blocks) = &message.content else {
        return message.text();
    };
    let answer = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text {
            text,
            preamble: false,
            ..
        } => Some(text.as_str()),
        _ => None,
    });
    let answer: String = answer.collect();
    if answer.trim().is_empty() {
        message.text()
    } else {
        answer
    }
}

/// Turns the preambles before the answer into reasoning. Returns their text, to be reported.
fn take_preambles(message: &mut ChatMessage) -> Option<String> {
    let Content::Blocks(blocks) = &mut message.content else {
        return None;
    };
    let is_answer = |block: &ContentBlock| matches!(block, ContentBlock::Text { preamble: false, text, .. } if !text.trim().is_empty());
    if !blocks.iter().any(is_answer) {
        return None;
    }
    let mut reported = String::new();
    let mut follows = false;
    for block in blocks {
        match block {
            ContentBlock::Text {
                text,
                preamble: true,
                ..
            } => {
                if follows {
                    reported.push_str(SEPARATOR);
                }
                reported.push_str(text);
                follows = true;
                *block = ContentBlock::thinking(std::mem::take(text));
            }
            ContentBlock::Thinking { .. } => follows = true,
            _ => {}
        }
    }
    (!reported.is_empty()).then_some(reported)
}

/// Replaces all text of a message and keeps its reasoning.
fn set_text(message: &mut ChatMessage, text: &str) {
    message.content = match std::mem::take(&mut message.content) {
        Content::Blocks(blocks) => {
            let mut blocks: Vec<ContentBlock> = blocks
                .into_iter()
                .filter(|block| !matches!(block, ContentBlock::Text { .. }))
                .collect();
            blocks.push(ContentBlock::text(text));
            Content::Blocks(blocks)
        }
        _ => Content::Text(text.to_owned()),
    };
}

fn list(violations: &[Violation]) -> String {
    let lines: Vec<String> = violations
        .iter()
        .map(|violation| format!("- {violation}"))
        .collect();
    lines.join("\n")
}

/// Returns the first violation and the number of others.
fn summary(violations: &[Violation]) -> String {
    let first = violations
        .first()
        .map(ToString::to_string)
        .unwrap_or_default();
    match violations.len() {
        0 | 1 => first,
        2 => format!("{first}, and one more violation"),
        count => format!("{first}, and {} more violations", count - 1),
    }
}

fn correction(violations: &str, schema: &Value) -> String {
    let schema = schema.to_string();
    let schema = if schema.len() <= MAX_REPEATED_SCHEMA_BYTES {
        format!("\nThe JSON Schema is:\n{schema}\n")
    } else {
        String::new()
    };
    format!(
        "That answer does not meet the JSON Schema that it has to meet:\n{violations}\n{schema}\n\
         Answer again: the whole JSON value, corrected, with nothing before or behind it." // style: allow(behind) sent to models
    )
}
