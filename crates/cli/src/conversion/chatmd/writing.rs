//! Writing of a transcript as a ChatMD document.

use std::collections::BTreeMap;

use chatmd::{BuiltinDeclaration, MessageRole, write as element};
use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role};
use openchatml::convert::{PlacedTools, distinct_ids};
use openchatml::project::terminator_losses;
use openchatml::{
    HeaderBuf, Loss, LossKind, LossTarget, Transcript, image_address, messages_from_frames,
};
use serde_json::Value;

use crate::conversion::builtin_tools;
use crate::conversion::chatmd::losses::conversation_loss;
use crate::conversion::chatmd::{BUILTIN_TOOLS, CHOICES, choice_value};
use crate::conversion::form::Text;

pub(crate) fn write(transcript: &Transcript) -> Text {
    let (transcript, changed) = distinct_ids(transcript);
    let placed = PlacedTools::beside(&transcript);
    let transcript = placed.transcript();
    let mut out = String::new();
    let mut losses = Vec::new();
    if let Some(header) = &transcript.header {
        config(header, &mut out, &mut losses);
    }
    tools(transcript, &mut out, &mut losses);
    let (messages, more) = messages_from_frames(&transcript.frames);
    losses.extend(more);
    losses.extend(terminator_losses(&transcript.frames));
    let mut calls = Calls::new();
    let mut reasoning = 0;
    for (index, message) in messages.iter().enumerate() {
        let mut writing = Writing {
            out: &mut out,
            losses: &mut losses,
            index,
            reasoning: &mut reasoning,
        };
        writing.message(message, &mut calls);
    }
    placed.finish(&mut losses);
    losses.extend(changed);
    Text { text: out, losses }
}

/// Writes the declared tools that are built-in tools.
fn tools(transcript: &Transcript, out: &mut String, losses: &mut Vec<Loss>) {
    let settings = transcript.header.as_ref();
    let settings = settings.map(|header| &header.generation_settings);
    let written = builtins(settings.and_then(|settings| settings.get(BUILTIN_TOOLS)));
    let written = written.into_iter().flatten().filter_map(|(_, name)| name);
    let mut written: Vec<&str> = written.collect();
    for (index, tool) in transcript.tools.iter().enumerate() {
        let name = tool
            .get("function")
            .and_then(|function| function.get("name"));
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let declared = builtin_tools::declarations(name).unwrap_or_default();
        let number = index + 1;
        let [own] = declared.as_slice() else {
            losses.push(conversation_loss(
                LossKind::DeclarationDropped,
                format!("the declaration of tool {number} dropped: it is not a built-in tool"),
            ));
            continue;
        };
        if own != tool {
            losses.push(conversation_loss(
                LossKind::DeclarationChanged,
                format!("the declaration of tool {number} becomes that of the built-in tool"),
            ));
        }
        if !written.contains(&name) {
            written.push(name);
            out.push_str(&element::builtin_tool(name));
        }
    }
}

fn config(header: &HeaderBuf, out: &mut String, losses: &mut Vec<Loss>) {
    let settings = &header.generation_settings;
    let stop = settings.get("stop").and_then(stop_attribute);
    // Values that ChatMD refuses are dropped, and listed.
    let max_tokens = settings.get("max_tokens").and_then(Value::as_u64);
    let max_tokens = max_tokens.filter(|count| *count > 0);
    let temperature = settings.get("temperature").and_then(Value::as_f64);
    let temperature = temperature.filter(|temperature| *temperature >= 0.0);
    let top_p = settings.get("top_p").and_then(Value::as_f64);
    let top_p = top_p.filter(|mass| (0.0..=1.0).contains(mass));
    let values = element::ConfigRecord::default()
        .with_model(header.model.as_deref())
        .with_max_tokens(max_tokens)
        .with_temperature(temperature)
        .with_reasoning_effort(settings.get("reasoning_effort").and_then(Value::as_str))
        .with_top_p(top_p)
        .with_seed(settings.get("seed").and_then(Value::as_i64))
        .with_stop(stop.as_deref())
        .with_tool_choice(settings.get("tool_choice").and_then(choice_attribute));
    let kept = [
        ("max_tokens", values.max_tokens.is_some()),
        ("temperature", values.temperature.is_some()),
        ("reasoning_effort", values.reasoning_effort.is_some()),
        ("top_p", values.top_p.is_some()),
        ("seed", values.seed.is_some()),
        ("stop", values.stop.is_some()),
        ("tool_choice", values.tool_choice.is_some()),
    ];
    if values.stop.is_some() && settings.get("stop").is_some_and(Value::is_string) {
        losses.push(conversation_loss(
            LossKind::SpellingChanged,
            "the text of the setting `stop` becomes a list",
        ));
    }
    let builtins = builtins(settings.get(BUILTIN_TOOLS));
    for key in settings.keys() {
        if key == BUILTIN_TOOLS && builtins.is_some() {
            continue;
        }
        if !kept.contains(&(key.as_str(), true)) {
            losses.push(conversation_loss(
                LossKind::SettingDropped,
                format!("the setting {key:?} dropped"),
            ));
        }
    }
    for key in header.extra.keys() {
        losses.push(conversation_loss(
            LossKind::HeaderDropped,
            format!("the key {key:?} of the header dropped"),
        ));
    }
    if values != element::ConfigRecord::default() {
        out.push_str(&element::config(&values));
    }
    for (entry, name) in builtins.into_iter().flatten() {
        match name {
            Some(name) => out.push_str(&element::builtin_tool(name)),
            None => losses.push(builtin_tools::unknown(entry)),
        }
    }
}

/// Returns the entries of a list of built-in tools, with their ChatMD names.
fn builtins(setting: Option<&Value>) -> Option<Vec<(&Value, Option<&str>)>> {
    let known = |name: &&str| BuiltinDeclaration::find(name).is_some();
    let entries = setting?.as_array()?.iter();
    let named = entries.map(|entry| (entry, entry.as_str().filter(known)));
    Some(named.collect())
}

/// Returns the attribute for a choice of tools: a word, or the name of a function.
fn choice_attribute(choice: &Value) -> Option<&str> {
    let function = choice
        .get("function")
        .and_then(|function| function.get("name"));
    let name = function.and_then(Value::as_str);
    let name = name.filter(|name| choice_value(name) == *choice);
    let word = choice.as_str().filter(|word| CHOICES.contains(word));
    word.or(name).filter(|name| !name.is_empty())
}

/// Returns the attribute for `stop`: one plain text, or a JSON list.
fn stop_attribute(stop: &Value) -> Option<String> {
    let texts = match stop {
        Value::String(text) => vec![text.as_str()],
        Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    match texts.as_slice() {
        [] => None,
        [text] if !text.is_empty() && !text.trim_start().starts_with('[') => {
            Some((*text).to_owned())
        }
        texts => Some(Value::from(texts.to_vec()).to_string()),
    }
}

struct Writing<'w> {
    out: &'w mut String,
    losses: &'w mut Vec<Loss>,
    index: usize,
    /// The number of reasoning elements so far, from which their ids are built.
    reasoning: &'w mut usize,
}

/// The kind and the tool of each call so far, by call id.
type Calls<'m> = BTreeMap<&'m str, (CallKind, &'m str)>;

impl Writing<'_> {
    fn message<'m>(&mut self, message: &'m ChatMessage, calls: &mut Calls<'m>) {
        let speaker = match message.role {
            Role::Assistant => return self.assistant(message, calls),
            Role::Tool => return self.reply(message, calls),
            Role::User => MessageRole::User,
            Role::System if message.developer => MessageRole::Developer,
            Role::System => MessageRole::System,
        };
        if speaker == MessageRole::User && self.parts(message) {
            return;
        }
        self.write_message(speaker, &message.text(), message.name.as_deref());
    }

    /// Writes a message with images; returns whether it is one.
    fn parts(&mut self, message: &ChatMessage) -> bool {
        let Content::Blocks(blocks) = &message.content else {
            return false;
        };
        let is_image = |block: &ContentBlock| matches!(block, ContentBlock::Image { .. });
        if !blocks.iter().any(is_image) {
            return false;
        }
        let mut addresses = Vec::new();
        for block in blocks {
            if let ContentBlock::Image {
                source,
                media_type,
                detail,
            } = block
            {
                if detail.is_some() {
                    self.note(LossKind::SettingDropped, "the detail of an image dropped");
                }
                addresses.push(image_address(source, media_type.as_deref()));
            }
        }
        let mut addresses = addresses.iter();
        let parts = blocks.iter().filter_map(|block| match block {
            ContentBlock::Text { text, .. } => Some(element::UserPart::Text(text)),
            ContentBlock::Image { .. } => {
                let address = addresses.next()?.as_deref()?;
                Some(element::UserPart::Image(address))
            }
            _ => None,
        });
        let parts: Vec<_> = parts.collect();
        self.out
            .push_str(&element::user_parts(&parts, message.name.as_deref()));
        true
    }

    fn reply(&mut self, message: &ChatMessage, calls: &Calls<'_>) {
        let Some(id) = message.tool_call_id.as_deref() else {
            self.note(
                LossKind::MessageDropped,
                "a tool's reply without the id of a call left out",
            );
            return;
        };
        let call = calls.get(id);
        let called = call.map(|(_, tool)| *tool);
        if message.name.is_some() && message.name.as_deref() != called {
            self.note(
                LossKind::NameDropped,
                "the name of a tool dropped, as its call does not contain it",
            );
        }
        let images = self.result_images(&message.content);
        self.out.push_str(&element::tool_response(
            &element::ToolResponseRecord::new(id, element::Payload::Inline(&message.text()))
                .with_custom(call.is_some_and(|(kind, _)| *kind == CallKind::Custom))
                .with_images(&images),
        ));
    }

    /// Returns the images of a result, which follow its text.
    fn result_images(&mut self, content: &Content) -> Vec<element::ImageRecord> {
        let Content::Blocks(blocks) = content else {
            return Vec::new();
        };
        if blocks.iter().skip(1).any(|block| !block.is_image()) {
            let text = "the parts of the text are joined, before the images";
            self.note(LossKind::PartsJoined, text);
        }
        let mut images = Vec::new();
        for block in blocks {
            let ContentBlock::Image {
                source,
                media_type,
                detail,
            } = block
            else {
                continue;
            };
            if detail.is_some() {
                self.note(LossKind::SettingDropped, "the detail of an image dropped");
            }
            match image_address(source, media_type.as_deref()) {
                Some(address) => images.push(element::ImageRecord::remote(address)),
                None => self.note(LossKind::ImageDropped, "an image dropped"),
            }
        }
        images
    }

    fn assistant<'m>(&mut self, message: &'m ChatMessage, calls: &mut Calls<'m>) {
        let name = message.name.as_deref();
        let mut named = false;
        match &message.content {
            Content::Absent => {}
            Content::Text(text) => {
                named = true;
                self.answer(message, text);
            }
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        ContentBlock::Text { text, preamble, .. } => {
                            // Before a call its place makes it a preamble.
                            let needs_phase = *preamble && message.tool_calls.is_empty();
                            if needs_phase && name.is_some() {
                                self.note(
                                    LossKind::PreambleChanged,
                                    "a preamble becomes an answer",
                                );
                            }
                            if named {
                                self.note(
                                    LossKind::Regrouped,
                                    "a message of several texts becomes several messages",
                                );
                            }
                            if needs_phase && name.is_none() {
                                let words = element::AssistantMessage::new(text);
                                let words = words.with_preamble(true);
                                self.out.push_str(&element::assistant_message(&words));
                                continue;
                            }
                            named = true;
                            self.answer(message, text);
                        }
                        ContentBlock::Thinking {
                            text,
                            signature,
                            id,
                        } => {
                            let summaries = [text.as_str()];
                            let record = element::ReasoningRecord::new(0, &summaries)
                                .with_id(id.as_deref())
                                .with_signature(signature.as_deref());
                            self.record(record, named);
                        }
                        ContentBlock::RedactedThinking { data } => {
                            let record = element::ReasoningRecord::new(0, &[]);
                            self.record(record.with_encrypted(data.as_str()), named);
                        }
                        _ => self.note(LossKind::PartDropped, "content of an unknown kind dropped"),
                    }
                }
            }
        }
        if name.is_some() && !named {
            self.note(
                LossKind::NameDropped,
                "the name of a message without words dropped",
            );
        }
        for call in &message.tool_calls {
            calls.insert(&call.id, (call.kind, &call.name));
            self.out.push_str(&element::tool_call(
                &element::ToolCallRecord::new(
                    &call.id,
                    &call.name,
                    element::Payload::Inline(call.arguments.as_str()),
                )
                .with_custom(call.kind == CallKind::Custom)
                .with_signature(call.signature.as_deref()),
            ));
        }
    }

    /// Writes a record of reasoning with the next number.
    fn record(&mut self, record: element::ReasoningRecord<'_>, is_after_text: bool) {
        if is_after_text {
            let text = "reasoning after a text becomes a separate message";
            self.note(LossKind::Regrouped, text);
        }
        *self.reasoning += 1;
        let record = record.with_number(*self.reasoning);
        self.out.push_str(&element::reasoning_record(&record));
    }

    fn answer(&mut self, message: &ChatMessage, text: &str) {
        let name = message.name.as_deref();
        if let (false, Some(phase), None) = (message.interrupted, &message.phase, name) {
            let words = element::AssistantMessage::new(text).with_phase(phase.as_str());
            self.out.push_str(&element::assistant_message(&words));
            return;
        }
        if message.phase.is_some() {
            let text = "the phase of an answer dropped";
            self.note(LossKind::AttributeDropped, text);
        }
        if !message.interrupted {
            return self.write_message(MessageRole::Assistant, text, name);
        }
        if name.is_some() {
            let text = "the name of an interrupted answer dropped";
            self.note(LossKind::NameDropped, text);
        }
        let part = element::AssistantMessage::new(text).with_status(element::INTERRUPTED);
        self.out.push_str(&element::assistant_message(&part));
    }

    fn write_message(&mut self, speaker: MessageRole, text: &str, name: Option<&str>) {
        if text.trim().is_empty() {
            self.note(
                LossKind::EmptyDropped,
                "a message of white space, which readers ignore",
            );
        }
        self.out.push_str(&element::message(
            &element::MessageRecord::new(speaker, text).with_name(name),
        ));
    }

    fn note(&mut self, kind: LossKind, text: &str) {
        let target = LossTarget::Message(self.index);
        self.losses.push(Loss::new(target, kind, text));
    }
}
