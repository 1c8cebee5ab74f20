//! A recording: an OpenChatML transcript that can play the model's part.
//!
//! A recording is one conversation. Its header names the settings and the tools of the run
//! (`tools:`, a key of ours that other readers ignore); its frames are what the model was sent and
//! what it answered. The n-th request of a run is the part of the transcript before the n-th
//! answer, so nothing is written twice and the file stays readable as a conversation.
//!
//! Reasoning (`analysis`) is played back but never compared: whether earlier reasoning is sent
//! again is a rule of the provider, not of the conversation. What proves it to its own provider
//! (ids, signatures, encrypted parts) is left out of a recording.

use logue_message::{ChatMessage, ToolDefinition};
use logue_source::{LineIndex, Severity, escape_untrusted};
use openchatml::{Channel, FrameBuf, FrameRole, frames_from_messages, messages_from_frames, parse};
use serde_json::{Map, Value};

use crate::{Request, Settings, wire};

/// A recording that was read.
#[derive(Clone, Debug)]
pub struct Recording {
    name: String,
    frames: Vec<RecordedFrame>,
    settings: Option<Map<String, Value>>,
    tools: Option<Value>,
}

#[derive(Clone, Debug)]
struct RecordedFrame {
    frame: FrameBuf,
    /// Line of the frame in the file, from 1.
    line: usize,
}

/// A recording that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}:{line}: {message}")]
pub struct RecordingError {
    /// The file.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, with its code.
    pub message: String,
}

/// Where a request stands in a recording.
#[derive(Debug)]
pub(crate) enum Position {
    /// The recorded answer.
    Answer(Box<ChatMessage>),
    /// The request differs; the text shows how.
    Differs(String),
    /// The recording ends with this request.
    Ends,
}

impl Recording {
    /// Reads a recording, which messages will call `name`.
    ///
    /// # Errors
    /// The text is not an OpenChatML transcript, or has an error in it.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self, RecordingError> {
        let document = parse(text);
        let lines = LineIndex::new(text);
        let error = document
            .diagnostics()
            .iter()
            .find(|found| found.severity == Severity::Error);
        if let Some(error) = error {
            return Err(RecordingError {
                name: name.to_owned(),
                line: lines.line_column(text, error.primary.start).line,
                message: format!("{}: {}", error.code, error.message),
            });
        }
        let header = document.header();
        let frames = document
            .frames()
            .iter()
            .zip(document.to_owned_frames())
            .map(|(read, frame)| RecordedFrame {
                frame,
                line: lines.line_column(text, read.span().start).line,
            })
            .collect();
        Ok(Self {
            name: name.to_owned(),
            frames,
            settings: header.map(|header| header.generation_settings().clone()),
            tools: header.and_then(|header| header.get("tools")).cloned(),
        })
    }

    /// How many answers of the model the recording holds.
    pub fn answers(&self) -> usize {
        let mut answers = 0;
        let mut at = 0;
        while at < self.frames.len() {
            if self.frames[at].frame.role == FrameRole::Assistant {
                answers += 1;
                at = self.answer_end(at);
            } else {
                at += 1;
            }
        }
        answers
    }

    /// Compares a request with the recording and finds what the model answered to it.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Position {
        if let Some(difference) = self.compare_settings(request) {
            return Position::Differs(difference);
        }
        let (asked, _) = frames_from_messages(request.messages);
        let asked = asked.iter().filter(|frame| !is_reasoning(frame));
        let mut at = 0;
        for (index, frame) in asked.enumerate() {
            while self
                .frames
                .get(at)
                .is_some_and(|recorded| is_reasoning(&recorded.frame))
            {
                at += 1;
            }
            let Some(recorded) = self.frames.get(at) else {
                return Position::Ends;
            };
            if let Some(difference) = compare_frames(&recorded.frame, frame) {
                return Position::Differs(format!(
                    "message {} of the request differs from {}:{}\n{difference}",
                    index + 1,
                    self.name,
                    recorded.line,
                ));
            }
            at += 1;
        }
        if at >= self.frames.len() {
            return Position::Ends;
        }
        let end = self.answer_end(at);
        let answer: Vec<FrameBuf> = self.frames[at..end]
            .iter()
            .map(|recorded| recorded.frame.clone())
            .collect();
        if answer.is_empty() {
            let recorded = &self.frames[at];
            return Position::Differs(format!(
                "the request ends where {}:{} goes on with a message of role {}:\n{}",
                self.name,
                recorded.line,
                role_of(&recorded.frame),
                quoted("recorded", &recorded.frame.body),
            ));
        }
        let (messages, _) = messages_from_frames(&answer);
        match messages.into_iter().next() {
            Some(message) => Position::Answer(Box::new(message)),
            None => Position::Ends,
        }
    }

    /// The end of the answer that begins at frame `at`: behind a `final`, or before the next frame
    /// that is not the assistant's.
    fn answer_end(&self, at: usize) -> usize {
        let mut end = at;
        while let Some(recorded) = self.frames.get(end) {
            if recorded.frame.role != FrameRole::Assistant {
                break;
            }
            end += 1;
            if is_final(&recorded.frame) {
                break;
            }
        }
        end
    }

    fn compare_settings(&self, request: &Request<'_>) -> Option<String> {
        if let Some(recorded) = &self.settings {
            let asked = settings_json(request.settings);
            for (key, value) in &asked {
                let before = recorded.get(key);
                if before.is_none_or(|before| !same_number_or_value(before, value)) {
                    return Some(setting_differs(&self.name, key, before, Some(value)));
                }
            }
            for key in SETTINGS {
                if let (Some(before), None) = (recorded.get(*key), asked.get(*key)) {
                    return Some(setting_differs(&self.name, key, Some(before), None));
                }
            }
        }
        let recorded = self.tools.as_ref()?.as_array()?;
        let asked = tools_json(request.tools);
        let name = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
        for (recorded, asked) in recorded.iter().zip(&asked) {
            if recorded != asked {
                return Some(format!(
                    "the declaration of tool `{}` differs from {}\n{}",
                    name(asked).unwrap_or_default(),
                    self.name,
                    difference(&pretty(recorded), &pretty(asked)),
                ));
            }
        }
        let (more, side) = if asked.len() > recorded.len() {
            (&asked[recorded.len()..], "offered now but not in")
        } else {
            (&recorded[asked.len()..], "not offered now but in")
        };
        let names: Vec<String> = more.iter().filter_map(name).collect();
        (!more.is_empty()).then(|| format!("tools {side} {}: {}", self.name, names.join(", ")))
    }
}

const SETTINGS: &[&str] = &[
    "temperature",
    "max_tokens",
    "reasoning_effort",
    "top_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "stop",
];

/// The settings as the header of a recording holds them.
pub(crate) fn settings_json(settings: &Settings) -> Map<String, Value> {
    let mut map = Map::new();
    if let Some(temperature) = settings.temperature {
        map.insert("temperature".into(), temperature.into());
    }
    if let Some(max_tokens) = settings.max_tokens {
        map.insert("max_tokens".into(), max_tokens.into());
    }
    if let Some(effort) = &settings.reasoning_effort {
        map.insert("reasoning_effort".into(), effort.as_str().into());
    }
    map.extend(
        settings
            .further()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    map
}

/// The tools as the header of a recording holds them.
pub(crate) fn tools_json(tools: &[ToolDefinition]) -> Vec<Value> {
    tools
        .iter()
        .filter_map(|tool| wire::tool_body(tool).get("function").cloned())
        .collect()
}

/// Reasoning is neither compared nor a boundary.
pub(crate) fn is_reasoning(frame: &FrameBuf) -> bool {
    frame.role == FrameRole::Assistant && frame.channel == Some(Channel::Analysis)
}

fn is_final(frame: &FrameBuf) -> bool {
    frame.role == FrameRole::Assistant && matches!(frame.channel, None | Some(Channel::Final))
}

fn same_number_or_value(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= f64::EPSILON * a.abs().max(b.abs()),
        _ => a == b,
    }
}

fn setting_differs(name: &str, key: &str, before: Option<&Value>, now: Option<&Value>) -> String {
    let show = |value: Option<&Value>| value.map_or("not set".to_owned(), Value::to_string);
    format!(
        "setting `{key}` differs from {name}\n  recorded | {}\n  now      | {}",
        show(before),
        show(now)
    )
}

/// What differs between a recorded frame and one of the request, as text; `None` if nothing does.
/// The terminator is not compared: a final ends in `<|return|>` when it is sampled and in `<|end|>`
/// when it is history.
pub(crate) fn compare_frames(recorded: &FrameBuf, asked: &FrameBuf) -> Option<String> {
    let fields = [
        (
            "role",
            Some(role_of(recorded).to_owned()),
            Some(role_of(asked).to_owned()),
        ),
        ("recipient", recorded.to.clone(), asked.to.clone()),
        (
            "channel",
            Some(channel_of(recorded)),
            Some(channel_of(asked)),
        ),
        ("call_id", recorded.call_id.clone(), asked.call_id.clone()),
        ("name", recorded.name.clone(), asked.name.clone()),
        ("intent", recorded.intent.clone(), asked.intent.clone()),
    ];
    for (field, before, now) in fields {
        if before != now {
            let show = |value: Option<String>| value.unwrap_or_else(|| "not set".to_owned());
            return Some(format!(
                "  {field}\n  recorded | {}\n  now      | {}",
                show(before),
                show(now)
            ));
        }
    }
    (recorded.body != asked.body).then(|| difference(&recorded.body, &asked.body))
}

fn role_of(frame: &FrameBuf) -> &'static str {
    frame.role.as_str().unwrap_or("unknown")
}

fn channel_of(frame: &FrameBuf) -> String {
    let channel = frame.channel.unwrap_or(Channel::Final);
    channel.as_str().unwrap_or("unknown").to_owned()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Lines of each side that a difference shows.
const SHOWN: usize = 6;

/// The first place in which two texts differ, line by line.
fn difference(before: &str, now: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split('\n').collect(), now.split('\n').collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let old_rest = &old[same..];
    let new_rest = &new[same..];
    let tail = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let mut text = format!("  content, line {}\n", same + 1);
    if let Some(line) = same.checked_sub(1).and_then(|at| old.get(at)) {
        text.push_str(&format!("  same     | {}\n", shown(line)));
    }
    for (side, lines) in [("recorded", old_rest), ("now     ", new_rest)] {
        let lines = &lines[..lines.len() - tail];
        for line in lines.iter().take(SHOWN) {
            text.push_str(&format!("  {side} | {}\n", shown(line)));
        }
        if lines.len() > SHOWN {
            text.push_str(&format!(
                "  {side} | … {} more lines\n",
                lines.len() - SHOWN
            ));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn quoted(side: &str, body: &str) -> String {
    let lines = body
        .split('\n')
        .take(SHOWN)
        .map(|line| format!("  {side} | {}", shown(line)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a line for a report: escaped, and cut to its maximum length.
fn shown(line: &str) -> String {
    let text = escape_untrusted(line);
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}
