//! A conversation as one kind of server wants it.
//!
//! Every rule of [`Rules`] about messages is applied here, in one order, for all wire formats. The
//! conversation itself is not touched: what is made is the form that one request sends. It is one that
//! [`Request::validate`](crate::Request::validate) accepted, so each call has its result behind it.

use std::collections::{BTreeMap, BTreeSet};

use logue_message::{Arguments, CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};
use serde_json::{Map, Value, json};

use crate::rules::{Proof, ReasoningReplay, SystemPlace};
use crate::{Category, ProviderError, Rules};

/// The key under which arguments that are no object are sent to a server that wants one.
const BROKEN: &str = "INVALID_JSON";

/// The messages as a request to such a server holds them. Linear in the messages, with a logarithm
/// for ids.
///
/// # Errors
/// The server wants words of the user first, and there are none.
pub(crate) fn normalise(
    messages: &[ChatMessage],
    rules: &Rules,
) -> Result<Vec<ChatMessage>, ProviderError> {
    let mut messages = messages.to_vec();
    let replayed = replayed_from(&messages, rules.replay);
    for (index, message) in messages.iter_mut().enumerate() {
        message.developer &= rules.developer;
        if !rules.names && message.role != Role::Tool {
            message.name = None;
        }
        let replays = replayed.is_some_and(|from| index >= from);
        retain(&mut message.content, rules, replays);
        for call in &mut message.tool_calls {
            normalise_call(call, rules);
        }
    }
    if rules.plain_ids {
        make_ids_plain(&mut messages);
    }
    messages.retain(|message| {
        message.role == Role::Tool || !message.tool_calls.is_empty() || !is_void(message)
    });
    if rules.system == SystemPlace::First {
        instructions_first(&mut messages);
    }
    if rules.merge {
        messages = merged(messages);
    }
    if rules.begins_with_user {
        let first = messages.iter().find(|message| message.role != Role::System);
        if first.is_none_or(|message| message.role != Role::User) {
            return Err(ProviderError::new(
                Category::InvalidRequest,
                "the provider wants a message of the user first, and the conversation has none there",
            )
            .with_help("say something as the user before the assistant speaks"));
        }
    }
    Ok(messages)
}

/// From which message on reasoning is sent again.
fn replayed_from(messages: &[ChatMessage], replay: ReasoningReplay) -> Option<usize> {
    match replay {
        ReasoningReplay::Never => None,
        ReasoningReplay::Always => Some(0),
        ReasoningReplay::SinceLastUser => {
            let is_user = |message: &ChatMessage| message.role == Role::User;
            let user = messages.iter().rposition(is_user);
            Some(user.map_or(0, |at| at + 1))
        }
    }
}

/// Leaves out the blocks that this server is not sent.
fn retain(content: &mut Content, rules: &Rules, replays: bool) {
    let is_sent = |block: &ContentBlock| match block {
        ContentBlock::Text { text, .. } => rules.blank_text || !text.trim().is_empty(),
        ContentBlock::Thinking {
            text,
            signature,
            id,
        } => {
            let proven = match rules.proof {
                Proof::Text => !text.is_empty(),
                Proof::Signature => signature.is_some() && id.is_none(),
                Proof::Encrypted => signature.is_some() && id.is_some(),
                Proof::Item => id.is_some(),
            };
            replays && proven
        }
        ContentBlock::RedactedThinking { .. } => replays && rules.proof == Proof::Signature,
        _ => true,
    };
    // The parts of one reasoning item stand or fall together: only the last one is signed.
    let signed: Vec<String> = match content {
        Content::Blocks(blocks) if rules.proof == Proof::Encrypted => blocks
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Thinking {
                    signature: Some(_),
                    id: Some(id),
                    ..
                } => Some(id.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let is_part = |block: &ContentBlock| matches!(block, ContentBlock::Thinking { id: Some(id), .. } if replays && signed.contains(id));
    match content {
        Content::Absent => {}
        Content::Text(text) => {
            if !rules.blank_text && text.trim().is_empty() {
                *content = Content::Absent;
            }
        }
        Content::Blocks(blocks) => blocks.retain(|block| is_sent(block) || is_part(block)),
    }
}

fn is_void(message: &ChatMessage) -> bool {
    match &message.content {
        Content::Absent => true,
        // An empty text is the author's; only what was emptied here is left out.
        Content::Text(_) => false,
        Content::Blocks(blocks) => blocks.is_empty(),
    }
}

fn normalise_call(call: &mut ToolCall, rules: &Rules) {
    if call.kind == CallKind::Custom && !rules.custom_calls {
        call.kind = CallKind::Function;
        call.arguments = object_of("input", call.arguments.as_str());
        return;
    }
    if call.kind == CallKind::Function && rules.wrap_arguments {
        if call.arguments.as_str().trim().is_empty() {
            call.arguments = Arguments::from_text("{}");
        } else if call.arguments.object().is_err() {
            call.arguments = object_of(BROKEN, call.arguments.as_str());
        }
    }
}

fn object_of(key: &str, text: &str) -> Arguments {
    let mut object = Map::new();
    object.insert(key.to_owned(), json!(text));
    Arguments::from_text(Value::Object(object).to_string())
}

/// Writes ids of calls, and of the results that answer them, in the characters that every server
/// takes. Two that would become one stay two.
fn make_ids_plain(messages: &mut [ChatMessage]) {
    let mut plain: BTreeMap<String, String> = BTreeMap::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for message in messages {
        let calls = message.tool_calls.iter_mut().map(|call| &mut call.id);
        for id in calls.chain(&mut message.tool_call_id) {
            let known = plain.entry(id.clone()).or_insert_with(|| {
                let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let mut made: String = id
                    .chars()
                    .map(|c| if allowed(c) { c } else { '_' })
                    .collect();
                while made.is_empty() || !taken.insert(made.clone()) {
                    made.push('_');
                }
                made
            });
            id.clone_from(known);
        }
    }
}

/// Puts all instructions into one message before the others.
fn instructions_first(messages: &mut Vec<ChatMessage>) {
    let mut texts = Vec::new();
    messages.retain(|message| {
        let is_instruction = message.role == Role::System;
        if is_instruction {
            texts.push(message.text());
        }
        !is_instruction
    });
    if !texts.is_empty() {
        messages.insert(0, ChatMessage::system(texts.join("\n\n")));
    }
}

/// Joins adjacent messages of one role. Results of tools stay apart, each answers a call of its own,
/// and so do words of participants with different names.
fn merged(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut joined: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    for message in messages {
        match joined.last_mut() {
            Some(last)
                if last.role == message.role
                    && message.role != Role::Tool
                    && last.developer == message.developer
                    && last.name == message.name
                    && last.tool_calls.is_empty() =>
            {
                let before = std::mem::take(&mut last.content);
                last.content = join(before, message.content);
                last.tool_calls = message.tool_calls;
            }
            _ => joined.push(message),
        }
    }
    joined
}

fn join(before: Content, after: Content) -> Content {
    let blocks = |content: Content| match content {
        Content::Absent => Vec::new(),
        Content::Text(text) => vec![ContentBlock::text(text)],
        Content::Blocks(blocks) => blocks,
    };
    match (before, after) {
        (before, after) if after.is_empty() => before,
        (before, after) if before.is_empty() => after,
        (Content::Text(mut before), Content::Text(after)) => {
            before.push_str("\n\n");
            before.push_str(&after);
            Content::Text(before)
        }
        (before, after) => {
            let mut all = blocks(before);
            all.extend(blocks(after));
            Content::Blocks(all)
        }
    }
}
