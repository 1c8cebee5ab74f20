//! An answer that has to be a JSON value of a given shape, with one chance to mend it.
//!
//! A server that knows `response_schema` holds its model to it, more or less; another one ignores it.
//! So what comes is held against the schema here. An answer that does not meet it goes back to the
//! model once, with the places and what is wrong there; a second one that does not is an error.

use logue_message::schema::{Schema, Violation};
use logue_message::{ChatMessage, Content, ContentBlock};
use serde_json::Value;

use crate::{
    BoxFuture, Category, Event, EventSink, FinishReason, Provider, ProviderError, Request, Response,
};

/// Bytes of a schema that is told again with what is wrong.
const TOLD_SCHEMA: usize = 16 * 1024;

/// A provider whose answers meet the schema of the request, where it has one.
///
/// It refuses what [`Request::validate`] refuses. Without a schema it only passes on. With one,
/// [`Response::parsed`] is the value, unless the model calls tools, which it may do first. What the
/// model says is told when it is known to be the answer and not as it comes; a block of code around
/// the value is taken away. [`Response::usage`] counts both requests.
#[derive(Clone, Debug)]
pub struct Structured<P> {
    provider: P,
}

impl<P: Provider> Structured<P> {
    /// Holds the answers of `provider` to their schemas.
    pub const fn new(provider: P) -> Self {
        Self { provider }
    }

    async fn ask(
        &self,
        request: &Request<'_>,
        events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        request.validate()?;
        let Some(wanted) = request.response_schema else {
            return self.provider.complete(request, events).await;
        };
        let schema = Schema::compile(wanted).map_err(|error| {
            ProviderError::new(
                Category::InvalidRequest,
                format!("the response schema: {error}"),
            )
            .with_help("mend the schema; only references into itself (`#/…`) are followed")
        })?;
        let first = self.attempt(request, &mut *events).await?;
        let (first, faults) = match checked(first, &schema)? {
            Checked::Meets(attempt) => return Ok(attempt.told(events)),
            Checked::Fails(attempt, faults) => (attempt, faults),
        };
        let told = listed(&faults);
        events(Event::Reasking {
            reason: shortest(&faults),
        });
        let mut messages = request.messages.to_vec();
        messages.push(first.response.message);
        messages.push(ChatMessage::user(correction(&told, wanted)));
        let again = Request {
            messages: &messages,
            ..request.clone()
        };
        let mut second = self.attempt(&again, &mut *events).await?;
        second.response.usage = match (first.response.usage, second.response.usage) {
            (Some(mut first), Some(second)) => {
                first += second;
                Some(first)
            }
            (first, second) => first.or(second),
        };
        match checked(second, &schema)? {
            Checked::Meets(attempt) => Ok(attempt.told(events)),
            Checked::Fails(second, faults) => Err(invalid(
                format!("the answer does not meet the schema: {}", shortest(&faults)),
                second.response.message,
            )
            .with_help(
                "the model was told and failed again: name one that supports structured output, \
                 say in the prompt what the answer has to hold, or make the schema simpler",
            )),
        }
    }

    /// One request whose answer is not told yet.
    async fn attempt(
        &self,
        request: &Request<'_>,
        events: EventSink<'_>,
    ) -> Result<Attempt, ProviderError> {
        let mut held = Vec::new();
        let mut listen = |event: Event| match event {
            Event::Reasoning(_) | Event::Retrying { .. } => events(event),
            event => held.push(event),
        };
        let response = self.provider.complete(request, &mut listen).await?;
        Ok(Attempt { response, held })
    }
}

impl<P: Provider> Provider for Structured<P> {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(self.ask(request, events))
    }
}

/// An answer, and what is to be told of it if it counts.
struct Attempt {
    response: Response,
    held: Vec<Event>,
}

impl Attempt {
    fn told(self, events: EventSink<'_>) -> Response {
        if self.response.parsed.is_some() {
            // The pieces may be of a block of code that is not there any more.
            events(Event::Text(self.response.message.text()));
        } else {
            self.held.into_iter().for_each(events);
        }
        self.response
    }
}

enum Checked {
    Meets(Attempt),
    Fails(Attempt, Vec<Violation>),
}

/// # Errors
/// The answer is cut, so that the same request would be cut again.
fn checked(mut attempt: Attempt, schema: &Schema) -> Result<Checked, ProviderError> {
    if !attempt.response.message.tool_calls.is_empty() {
        return Ok(Checked::Meets(attempt));
    }
    let text = attempt.response.message.text();
    let json = without_fence(&text);
    let value: Value = match serde_json::from_str(json) {
        Ok(value) => value,
        Err(error) => {
            let why = match attempt.response.finish_reason {
                FinishReason::Length => "it reached the length limit",
                FinishReason::ContentFilter => "the server's filter ended it",
                _ => return Ok(Checked::Fails(attempt, vec![no_json(&error)])),
            };
            let message = format!("the answer is cut before its end: {why}");
            return Err(invalid(message, attempt.response.message)
                .with_help("raise `max_tokens` in <config/>, or ask for less"));
        }
    };
    let faults = schema.violations(&value);
    if !faults.is_empty() {
        return Ok(Checked::Fails(attempt, faults));
    }
    if json.len() != text.len() {
        set_text(&mut attempt.response.message, json);
    }
    attempt.response.parsed = Some(value);
    Ok(Checked::Meets(attempt))
}

fn invalid(message: String, answer: ChatMessage) -> ProviderError {
    let mut error = ProviderError::new(Category::StructuredOutputInvalid, message);
    error.answer = Some(Box::new(answer));
    error
}

fn no_json(error: &serde_json::Error) -> Violation {
    Violation::new("", format!("it is not JSON and nothing else ({error})"))
}

/// What is in a block of code, if a text is one; else the text without white space around it.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inside = || {
        let (_, rest) = text.strip_prefix("```")?.split_once('\n')?;
        rest.strip_suffix("```").map(str::trim)
    };
    inside().unwrap_or(text)
}

/// Puts `text` in the place of everything that a message says; what it thought stays.
fn set_text(message: &mut ChatMessage, text: &str) {
    message.content = match std::mem::take(&mut message.content) {
        Content::Blocks(blocks) => {
            let thought = blocks.into_iter();
            let mut blocks: Vec<ContentBlock> = thought
                .filter(|block| !matches!(block, ContentBlock::Text { .. }))
                .collect();
            blocks.push(ContentBlock::text(text));
            Content::Blocks(blocks)
        }
        _ => Content::Text(text.to_owned()),
    };
}

fn listed(faults: &[Violation]) -> String {
    let lines: Vec<String> = faults.iter().map(|fault| format!("- {fault}")).collect();
    lines.join("\n")
}

/// The first fault, and how many more there are.
fn shortest(faults: &[Violation]) -> String {
    let first = faults.first().map(ToString::to_string).unwrap_or_default();
    match faults.len() {
        0 | 1 => first,
        2 => format!("{first}, and one more fault"),
        count => format!("{first}, and {} more faults", count - 1),
    }
}

fn correction(faults: &str, schema: &Value) -> String {
    let schema = schema.to_string();
    let schema = if schema.len() <= TOLD_SCHEMA {
        format!("\nThe JSON Schema is:\n{schema}\n")
    } else {
        String::new()
    };
    format!(
        "That answer does not meet the JSON Schema that it has to meet:\n{faults}\n{schema}\n\
         Answer again: the whole JSON value, corrected, with nothing before or behind it."
    )
}
