//! Comparison of a request with a recording.

use logue_message::ToolDefinition;
use logue_source::escape_untrusted;
use openchatml::{Channel, FrameBuf, FrameRole};
use serde_json::{Map, Value};

use crate::SamplingSettings;
use crate::wire::tool_body;

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

/// Returns the settings for the header of a recording.
pub(super) fn settings_json(settings: &SamplingSettings) -> Map<String, Value> {
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
            .secondary()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    map
}

/// Returns the tools for the header of a recording.
pub(super) fn tools_json(tools: &[ToolDefinition]) -> Vec<Value> {
    tools
        .iter()
        .filter_map(|tool| tool_body(tool).get("function").cloned())
        .collect()
}

/// Returns whether a frame is reasoning, which is neither compared nor a boundary.
pub(super) fn is_reasoning(frame: &FrameBuf) -> bool {
    frame.role == FrameRole::Assistant && frame.channel == Some(Channel::Analysis)
}

pub(super) fn is_final(frame: &FrameBuf) -> bool {
    frame.role == FrameRole::Assistant && matches!(frame.channel, None | Some(Channel::Final))
}

fn is_equal_value(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= f64::EPSILON * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// Compares the settings of a request with the recorded ones.
pub(super) fn compare_settings(
    name: &str,
    recorded: &Map<String, Value>,
    settings: &SamplingSettings,
) -> Option<String> {
    let current = settings_json(settings);
    for (key, value) in &current {
        let before = recorded.get(key);
        if before.is_none_or(|before| !is_equal_value(before, value)) {
            return Some(setting_differs(name, key, before, Some(value)));
        }
    }
    SETTINGS
        .iter()
        .find_map(|key| match (recorded.get(*key), current.get(*key)) {
            (Some(before), None) => Some(setting_differs(name, key, Some(before), None)),
            _ => None,
        })
}

/// Compares the tools of a request with the recorded ones.
pub(super) fn compare_tools(
    name: &str,
    recorded: &[Value],
    tools: &[ToolDefinition],
) -> Option<String> {
    let current = tools_json(tools);
    let tool_name = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
    for (recorded, current) in recorded.iter().zip(&current) {
        if recorded != current {
            return Some(format!(
                "the declaration of tool `{}` differs from {name}\n{}",
                tool_name(current).unwrap_or_default(),
                difference(&pretty(recorded), &pretty(current)),
            ));
        }
    }
    let (more, side) = if current.len() > recorded.len() {
        (&current[recorded.len()..], "offered now but not in")
    } else {
        (&recorded[current.len()..], "not offered now but in")
    };
    let names: Vec<String> = more.iter().filter_map(tool_name).collect();
    (!more.is_empty()).then(|| format!("tools {side} {name}: {}", names.join(", ")))
}

fn setting_differs(name: &str, key: &str, before: Option<&Value>, now: Option<&Value>) -> String {
    let show = |value: Option<&Value>| value.map_or("not set".to_owned(), Value::to_string);
    format!(
        "setting `{key}` differs from {name}\n  recorded | {}\n  now      | {}",
        show(before),
        show(now)
    )
}

/// Describes the difference between a recorded frame and one of the request.
///
/// Terminators are not compared: a sampled final ends in `<|return|>`, one in the history in `<|end|>`.
pub(super) fn compare_frames(recorded: &FrameBuf, current: &FrameBuf) -> Option<String> {
    let fields = [
        (
            "role",
            Some(role_of(recorded).to_owned()),
            Some(role_of(current).to_owned()),
        ),
        ("recipient", recorded.to.clone(), current.to.clone()),
        (
            "channel",
            Some(channel_of(recorded)),
            Some(channel_of(current)),
        ),
        ("call_id", recorded.call_id.clone(), current.call_id.clone()),
        ("name", recorded.name.clone(), current.name.clone()),
        ("intent", recorded.intent.clone(), current.intent.clone()),
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
    (recorded.body != current.body).then(|| difference(&recorded.body, &current.body))
}

pub(super) fn role_of(frame: &FrameBuf) -> &'static str {
    frame.role.as_str().unwrap_or("unknown")
}

fn channel_of(frame: &FrameBuf) -> String {
    let channel = frame.channel.unwrap_or(Channel::Final);
    channel.as_str().unwrap_or("unknown").to_owned()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// The maximum number of lines per side of a difference.
const MAX_LINES: usize = 6;

/// The maximum distance in lines to the next equal line.
const MAX_CHANGED_LINES: usize = 200;

/// Returns the numbers of lines on both sides before the next equal lines.
///
/// O(n²) in [`MAX_CHANGED_LINES`].
fn changed_lines(old: &[&str], new: &[&str]) -> (usize, usize) {
    for distance in 0..MAX_CHANGED_LINES {
        for removed in 0..=distance {
            let added = distance - removed;
            if let (Some(before), Some(now)) = (old.get(removed), new.get(added))
                && before == now
                && !before.trim().is_empty()
            {
                return (removed, added);
            }
        }
    }
    (old.len(), new.len())
}

/// Describes the first differing lines of two texts.
fn difference(before: &str, now: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split('\n').collect(), now.split('\n').collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[same..], &new[same..]);
    let (removed, added) = changed_lines(old_rest, new_rest);
    let (old_lines, old_rest) = old_rest.split_at(removed);
    let (new_lines, new_rest) = new_rest.split_at(added);
    let mut text = format!("  content, line {}\n", same + 1);
    if let Some(line) = same.checked_sub(1).and_then(|at| old.get(at)) {
        text.push_str(&format!("  same     | {}\n", excerpt(line)));
    }
    for (side, lines) in [("recorded", old_lines), ("now     ", new_lines)] {
        for line in lines.iter().take(MAX_LINES) {
            text.push_str(&format!("  {side} | {}\n", excerpt(line)));
        }
        if lines.len() > MAX_LINES {
            text.push_str(&format!(
                "  {side} | … {} more lines\n",
                lines.len() - MAX_LINES
            ));
        }
    }
    if old_rest != new_rest {
        text.push_str("  later lines differ too\n");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Quotes the first lines of a body.
pub(super) fn quote(side: &str, body: &str) -> String {
    let lines = body
        .split('\n')
        .take(MAX_LINES)
        .map(|line| format!("  {side} | {}", excerpt(line)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a line for a report: escaped, and truncated to 160 characters.
fn excerpt(line: &str) -> String {
    let text = escape_untrusted(line);
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}
