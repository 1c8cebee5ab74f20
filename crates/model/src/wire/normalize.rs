//! Adaptation of a conversation to the requirements of a server.
//!
//! The message rules of [`ServerProfile`] are applied in one order for all wire formats, to a copy of
//! the conversation. The input has passed [`ModelRequest::validate`](crate::ModelRequest::validate), so
//! each result follows its call.

use std::collections::{BTreeMap, BTreeSet};

use logue_message::{Arguments, CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};
use serde_json::{Map, Value, json};

use crate::server::{ReasoningEvidence, ReasoningReplay, SystemPlacement, ToolImagePlacement};
use crate::{Category, ProviderError, ServerProfile};

/// The key that wraps invalid arguments for a server that requires an object.
const INVALID_ARGUMENTS_KEY: &str = "INVALID_JSON";

/// Returns the messages in the form that the server requires.
///
/// The time is O(n log n) for ids and linear for the rest.
///
/// # Errors
/// Returns an error if the server requires a user message first and there is none.
pub(crate) fn normalize(
    messages: &[ChatMessage],
    profile: &ServerProfile,
) -> Result<Vec<ChatMessage>, ProviderError> {
    let mut messages = messages.to_vec();
    let replayed = replayed_from(&messages, profile.reasoning_replay);
    for (index, message) in messages.iter_mut().enumerate() {
        message.developer &= profile.supports_developer_role;
        if !profile.supports_names && message.role != Role::Tool {
            message.name = None;
        }
        let replays = replayed.is_some_and(|from| index >= from);
        retain(&mut message.content, profile, replays);
        for call in &mut message.tool_calls {
            normalize_call(call, profile);
        }
    }
    if profile.requires_plain_ids {
        make_ids_plain(&mut messages);
    }
    if profile.tool_images == ToolImagePlacement::UserMessage {
        messages = with_images_after_results(messages);
    }
    messages.retain(|message| {
        message.role == Role::Tool || !message.tool_calls.is_empty() || !is_void(message)
    });
    if profile.system_placement == SystemPlacement::First {
        instructions_first(&mut messages);
    }
    if profile.merge_adjacent {
        messages = merged(messages);
    }
    if profile.requires_user_first {
        let first = messages.iter().find(|message| message.role != Role::System);
        if first.is_none_or(|message| message.role != Role::User) {
            return Err(ProviderError::new(
                Category::InvalidRequest,
                "the provider requires a user message before any other",
            )
            .with_help("add a user message before the first assistant message"));
        }
    }
    Ok(messages)
}

/// Returns the index of the first message with reasoning that is sent back.
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

/// Removes the blocks that are not sent to the server.
fn retain(content: &mut Content, profile: &ServerProfile, replays: bool) {
    let is_sent = |block: &ContentBlock| match block {
        ContentBlock::Text { text, .. } => profile.accepts_blank_text || !text.trim().is_empty(),
        ContentBlock::Thinking {
            text,
            signature,
            id,
        } => {
            let proven = match profile.reasoning_evidence {
                ReasoningEvidence::Text => !text.is_empty(),
                ReasoningEvidence::Signature => signature.is_some() && id.is_none(),
                ReasoningEvidence::Encrypted => signature.is_some() && id.is_some(),
                ReasoningEvidence::Item => id.is_some(),
            };
            replays && proven
        }
        ContentBlock::RedactedThinking { .. } => {
            replays && profile.reasoning_evidence == ReasoningEvidence::Signature
        }
        _ => true,
    };
    // Only the last part of a reasoning item is signed; the parts are kept or removed together.
    let signed: Vec<String> = match content {
        Content::Blocks(blocks) if profile.reasoning_evidence == ReasoningEvidence::Encrypted => {
            blocks
                .iter()
                .filter_map(|block| match block {
                    ContentBlock::Thinking {
                        signature: Some(_),
                        id: Some(id),
                        ..
                    } => Some(id.clone()),
                    _ => None,
                })
                .collect()
        }
        _ => Vec::new(),
    };
    let is_part = |block: &ContentBlock| matches!(block, ContentBlock::Thinking { id: Some(id), .. } if replays && signed.contains(id));
    match content {
        Content::Absent => {}
        Content::Text(text) => {
            if !profile.accepts_blank_text && text.trim().is_empty() {
                *content = Content::Absent;
            }
        }
        Content::Blocks(blocks) => blocks.retain(|block| is_sent(block) || is_part(block)),
    }
}

fn is_void(message: &ChatMessage) -> bool {
    match &message.content {
        Content::Absent => true,
        // An empty text is the author's; only content that this module emptied is removed.
        Content::Text(_) => false,
        Content::Blocks(blocks) => blocks.is_empty(),
    }
}

fn normalize_call(call: &mut ToolCall, profile: &ServerProfile) {
    if call.kind == CallKind::Custom && !profile.supports_custom_calls {
        call.kind = CallKind::Function;
        call.arguments = object_of("input", call.arguments.as_str());
        return;
    }
    if call.kind == CallKind::Function && profile.wraps_plain_arguments {
        if call.arguments.as_str().trim().is_empty() {
            call.arguments = Arguments::from_text("{}");
        } else if call.arguments.object().is_err() {
            call.arguments = object_of(INVALID_ARGUMENTS_KEY, call.arguments.as_str());
        }
    }
}

fn object_of(key: &str, text: &str) -> Arguments {
    let mut object = Map::new();
    object.insert(key.to_owned(), json!(text));
    Arguments::from_text(Value::Object(object).to_string())
}

/// Restricts call ids to the characters that every server accepts.
///
/// The ids of calls and results change alike, and distinct ids remain distinct.
fn make_ids_plain(messages: &mut [ChatMessage]) {
    let mut plain: BTreeMap<String, String> = BTreeMap::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for message in messages {
        let calls = message.tool_calls.iter_mut().map(|call| &mut call.id);
        for id in calls.chain(&mut message.tool_call_id) {
            let known = plain.entry(id.clone()).or_insert_with(|| {
                let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let mut plain_id: String = id
                    .chars()
                    .map(|c| if allowed(c) { c } else { '_' })
                    .collect();
                while plain_id.is_empty() || !taken.insert(plain_id.clone()) {
                    plain_id.push('_');
                }
                plain_id
            });
            id.clone_from(known);
        }
    }
}

/// Moves the images of tool results into a user message after their round.
///
/// A label with the id and the tool of the call precedes the images of each result.
fn with_images_after_results(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut moved = Vec::with_capacity(messages.len());
    let mut images: Vec<ContentBlock> = Vec::new();
    for mut message in messages {
        if message.role != Role::Tool {
            moved.extend(take_images(&mut images));
        } else if message.content.has_image() {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            let tool = message.name.as_deref();
            let tool = tool.map(|name| format!(" (`{name}`)")).unwrap_or_default();
            let count = message.content.images().count();
            let label = if count == 1 {
                format!("The image in the result of the call `{id}`{tool}:")
            } else {
                format!("The {count} images in the result of the call `{id}`{tool}:")
            };
            images.push(ContentBlock::text(label));
            images.extend(message.content.images().cloned());
            message.content.remove_images();
        }
        moved.push(message);
    }
    moved.extend(take_images(&mut images));
    moved
}

fn take_images(images: &mut Vec<ContentBlock>) -> Option<ChatMessage> {
    (!images.is_empty()).then(|| ChatMessage::user(std::mem::take(images)))
}

/// Moves all instructions into one message before the others.
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

/// Merges adjacent messages of one role.
///
/// Tool results and messages of differently named participants remain separate.
fn merged(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut joined: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    for message in messages {
        match joined.last_mut() {
            Some(last)
                if last.role == message.role
                    && message.role != Role::Tool
                    && last.developer == message.developer
                    && last.name == message.name
                    && last.phase == message.phase
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
