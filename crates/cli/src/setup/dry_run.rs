//! The request of a dry run, readable or as its exact body.

use logue_agent::Prepared;
use logue_message::{ChatMessage, Content, ContentBlock, ImageSource};
use logue_model::{ModelRequest, Provider, ProviderError, RequestCapture, ToolChoice};
use logue_o200k::{SpecialSet, count, decode_lossy, encode_with_specials, special};
use logue_source::escape_line;
use serde_json::Value;

use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::setup::model::provider_failure;
use crate::terminal::{ignore_broken_pipe, print};

/// Prints the first request of a prepared turn; `capture` receives it.
pub(crate) async fn show_request(
    prepared: &Prepared,
    capture: &RequestCapture,
    as_json: bool,
) -> Result<Exit, CliError> {
    let shown = prepared.with_first_request(
        async |provider: &dyn Provider, request: &ModelRequest<'_>| {
            let asked = if matches!(provider.name(), "echo" | "replay") {
                request.validate()
            } else {
                // The capture ends it with an error.
                provider.complete(request, &mut |_| {}).await.map(drop)
            };
            (asked, readable(request))
        },
    );
    let (asked, readable) = shown.await;
    let text = text_of(asked, &readable, capture, as_json)?;
    ignore_broken_pipe(print(&text))
}

fn text_of(
    asked: Result<(), ProviderError>,
    readable: &Readable,
    capture: &RequestCapture,
    as_json: bool,
) -> Result<String, CliError> {
    match (asked, capture.body()) {
        (Err(error), None) => Err(provider_failure(&error)),
        (_, Some(body)) if as_json => Ok(format!("{body}\n")),
        (Ok(()), None) if as_json => {
            let message = "this model has no server, so there is no request body";
            Err(CliError::new(Exit::Usage, "usage", message)
                .with_help("run without --json, or with another model"))
        }
        (_, Some(body)) => Ok(match prompt_ids(&body) {
            Some(ids) => format!("{}{}", readable.head, rendered(&ids)),
            None => readable.whole(),
        }),
        (Ok(()), None) => Ok(readable.whole()),
    }
}

/// Returns the ids of a prompt that the client renders.
fn prompt_ids(body: &Value) -> Option<Vec<u32>> {
    match body.get("prompt")? {
        Value::String(text) => Some(encode_with_specials(text, &SpecialSet::HARMONY)),
        Value::Array(ids) => {
            let ids = ids.iter().map(|id| u32::try_from(id.as_u64()?).ok());
            ids.collect()
        }
        _ => None,
    }
}

/// Returns the messages of a rendered prompt with the count of ids of each.
fn rendered(ids: &[u32]) -> String {
    let mut starts = ids
        .iter()
        .enumerate()
        .filter(|(_, id)| **id == special::START);
    let mut lines = Vec::new();
    let mut next = starts.next();
    while let Some((at, _)) = next {
        next = starts.next();
        let end = next.map_or(ids.len(), |(end, _)| end);
        let message = ids.get(at..end).unwrap_or_default();
        let tokens = counted(message.len(), "token");
        lines.push(format!("\n({tokens}) {}", decode_lossy(message)));
    }
    let messages = counted(lines.len(), "message");
    let total = counted(ids.len(), "token");
    lines.push(format!(
        "\n{messages}, {total} in the vocabulary o200k, as rendered; nothing was sent\n"
    ));
    lines.join("\n")
}

/// A request for people.
struct Readable {
    /// The model, the settings and the tools.
    head: String,
    messages: String,
}

impl Readable {
    fn whole(&self) -> String {
        format!("{}{}", self.head, self.messages)
    }
}

/// Returns a request for people, with the number of tokens of each message.
fn readable(request: &ModelRequest<'_>) -> Readable {
    let mut lines = vec![format!("model: {}", escape_line(request.model))];
    lines.extend(settings(request));
    let mut total = 0;
    if !request.tools.is_empty() {
        let tools = request.tools.iter();
        let declared: usize = tools
            .clone()
            .map(|tool| count(&tool.description) + count(&tool.parameters.to_string()))
            .sum();
        total += declared;
        let names: Vec<&str> = tools.map(|tool| tool.name.as_str()).collect();
        let names = names.join(", ");
        let declared = counted(declared, "token");
        lines.push(format!("tools ({declared}): {}", escape_line(&names)));
    }
    let head = format!("{}\n", lines.join("\n"));
    lines.clear();
    for message in request.messages {
        let text = content(message);
        let tokens = count(&text);
        total += tokens;
        let tokens = counted(tokens, "token");
        lines.push(format!("\n{} ({tokens}):", title(message)));
        lines.push(text.strip_suffix('\n').unwrap_or(&text).to_owned());
    }
    let messages = counted(request.messages.len(), "message");
    let total = counted(total, "token");
    lines.push(format!(
        "\n{messages}, {total} in the vocabulary o200k; nothing was sent\n"
    ));
    let messages = lines.join("\n");
    Readable { head, messages }
}

fn settings(request: &ModelRequest<'_>) -> Option<String> {
    let settings = request.settings;
    let effort = settings.reasoning_effort.as_deref();
    let choice = match request.tool_choice {
        ToolChoice::Required => Some("required"),
        ToolChoice::None => Some("none"),
        ToolChoice::Tool(name) => Some(name.as_str()),
        _ => None,
    };
    let schema = request.response_schema.is_some();
    let mut list: Vec<String> = [
        settings.temperature.map(|it| format!("temperature {it}")),
        settings.max_tokens.map(|it| format!("max_tokens {it}")),
        effort.map(|it| format!("reasoning_effort {}", escape_line(it))),
        choice.map(|it| format!("tool_choice {}", escape_line(it))),
        schema.then(|| "a response schema".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let secondary = settings.secondary();
    list.extend(secondary.map(|(name, value)| format!("{name} {value}")));
    (!list.is_empty()).then(|| format!("settings: {}", escape_line(&list.join(", "))))
}

fn title(message: &ChatMessage) -> String {
    let role = if message.developer {
        "developer"
    } else {
        message.role.as_str()
    };
    let names = [&message.name, &message.tool_call_id];
    let names = names.into_iter().flatten();
    names.fold(role.to_owned(), |title, name| {
        format!("{title} {}", escape_line(name))
    })
}

/// Returns the text of a message, with descriptions of its other parts.
fn content(message: &ChatMessage) -> String {
    let mut text = match &message.content {
        Content::Absent => String::new(),
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => blocks.iter().map(part).collect(),
    };
    for call in &message.tool_calls {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let (name, id) = (escape_line(&call.name), escape_line(&call.id));
        let arguments = call.arguments.as_str();
        text.push_str(&format!("[call {name} {id}] {arguments}\n"));
    }
    text
}

fn part(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text, .. } => text.clone(),
        ContentBlock::Image {
            source: ImageSource::Url(url),
            ..
        } => format!("[image {}]", escape_line(url)),
        ContentBlock::Image {
            source: ImageSource::Inline(data),
            ..
        } => format!("[image, {} of Base64]", counted(data.len(), "byte")),
        ContentBlock::Thinking { text, .. } => format!("[reasoning] {text}\n"),
        _ => "[a part without text]\n".to_owned(),
    }
}
