//! Messages of Chat Completions requests.

use logue_message::{ChatMessage, Content, ContentBlock, ImageDetail, ImageSource, Role};
use serde_json::Value;

use crate::chat::accepted_images::check_images;
use crate::chat::problem::Problem;

/// The messages of a request: the earlier ones, and the one to answer.
pub(crate) struct Conversation {
    pub(crate) earlier: Vec<ChatMessage>,
    pub(crate) message: ChatMessage,
}

/// Parses the messages of a request.
///
/// Instructions of a client have the rank of a user: only the agent's prompt has a higher one.
///
/// # Errors
/// Returns a problem if a message is malformed, or if the last one is not of the user.
pub(crate) fn conversation(messages: &[Value]) -> Result<Conversation, Problem> {
    let mut parsed = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        let message =
            parse(message).map_err(|cause| Problem::invalid(format!("messages[{at}]: {cause}")))?;
        parsed.extend(message);
    }
    match parsed.pop() {
        Some(message) if message.role == Role::User => Ok(Conversation {
            earlier: parsed,
            message,
        }),
        _ => Err(Problem::invalid(
            "the last message must have the role `user`",
        )),
    }
}

/// Parses a message; `None` for an answer without content, as of a waiting turn.
fn parse(message: &Value) -> Result<Option<ChatMessage>, String> {
    let role = message.get("role").and_then(Value::as_str);
    let content = match (role, message.get("content")) {
        (Some("assistant"), None | Some(Value::Null)) => Content::Absent,
        (_, given) => content(given)?,
    };
    let message = match role {
        Some("user" | "system" | "developer") => ChatMessage::user(content),
        Some("assistant") => {
            let calls = message.get("tool_calls").and_then(Value::as_array);
            if calls.is_some_and(|calls| !calls.is_empty()) {
                return Err("`tool_calls` are not accepted: the server runs the tools".to_owned());
            }
            if content.is_empty() {
                return Ok(None);
            }
            ChatMessage::assistant(content)
        }
        Some(role) => return Err(format!("the role `{role}` is not accepted")),
        None => return Err("`role` is missing".to_owned()),
    };
    message.validate().map_err(|error| error.to_string())?;
    check_images(&message)?;
    Ok(Some(message))
}

fn content(content: Option<&Value>) -> Result<Content, String> {
    match content {
        Some(Value::String(text)) => Ok(text.as_str().into()),
        Some(Value::Array(parts)) => {
            let blocks = parts.iter().map(block).collect::<Result<Vec<_>, _>>()?;
            // One text is the same message in both forms.
            match blocks.as_slice() {
                [ContentBlock::Text { text, .. }] => Ok(text.as_str().into()),
                _ => Ok(blocks.into()),
            }
        }
        _ => Err("`content` must be a text or a list of parts".to_owned()),
    }
}

fn block(part: &Value) -> Result<ContentBlock, String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    match part.get("type").and_then(Value::as_str) {
        Some("text") => text(part.get("text"))
            .map(ContentBlock::text)
            .ok_or_else(|| "a part of the type `text` requires `text`".to_owned()),
        Some("image_url") => {
            let url = part.get("image_url").and_then(|image| image.get("url"));
            let url = text(url).ok_or("a part of the type `image_url` requires `image_url.url`")?;
            let detail = part.get("image_url").and_then(|image| image.get("detail"));
            Ok(image(&url, detail.and_then(Value::as_str)))
        }
        Some(kind) => Err(format!("parts of the type `{kind}` are not accepted")),
        None => Err("a part requires `type`".to_owned()),
    }
}

/// Returns an image of a request by its URL, which may contain the data.
pub(crate) fn image(url: &str, detail: Option<&str>) -> ContentBlock {
    let inline = url
        .strip_prefix("data:")
        .and_then(|data| data.split_once(";base64,"));
    let (source, media_type) = match inline {
        Some((kind, data)) => (ImageSource::Inline(data.to_owned()), Some(kind.to_owned())),
        None => (ImageSource::Url(url.to_owned()), None),
    };
    ContentBlock::Image {
        source,
        media_type,
        detail: detail.and_then(ImageDetail::parse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn instructions_of_a_client_have_the_rank_of_a_user() {
        let messages = [
            json!({"role": "system", "content": "be brief"}),
            json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
        ];
        let conversation = conversation(&messages).unwrap();
        assert_eq!(conversation.earlier, [ChatMessage::user("be brief")]);
        assert_eq!(conversation.message, ChatMessage::user("hi"));
    }
}
