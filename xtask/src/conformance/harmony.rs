//! The reader of Harmony against cases.
//!
//! A case is a line with a JSON object: `name`, `raw_text`, optionally `start_role`, `tokens` and
//! `context.tools`, and `expected` with `messages` and `diagnostics`. Of a message `role`,
//! `recipient`, `channel`, `content_type` and `content` are compared, and `end`, `name`, `call_id`,
//! `intent`, `stray` and `incomplete` where the case has them. A diagnostic says where one is due: a
//! code of the language (`E-…`) must be found as often as the case has it; another word asks only
//! that there are as many findings as the case has in all.
//!
//! `tokens` are fed as ids. No vocabulary is needed: the text of the ids between two control tokens
//! is that of `raw_text` there. At an unknown id (`<id N>` in `raw_text`), or one that spells a broken character (`<N xM>`: a blank and half a character), the
//! text is cut there.

use std::collections::BTreeMap;

use openchatml::harmony::{
    HarmonyDocument, HarmonyReadOptions, Message, control_id, read, read_ids,
};
use openchatml::{ControlToken, FrameRole};
use serde_json::Value;

/// Returns the difference between a case and the reading.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let raw = case["raw_text"].as_str().ok_or("no `raw_text`")?;
    let tools = case["context"]["tools"].as_array();
    let tools = tools.into_iter().flatten();
    let options = HarmonyReadOptions::default()
        .with_start_role(
            case["start_role"]
                .as_str()
                .map(|role| FrameRole::parse(role.as_bytes())),
        )
        .with_tools(
            tools
                .filter_map(|tool| tool.as_str().map(str::to_owned))
                .collect(),
        );
    let found = if let Some(ids) = case["tokens"].as_array() {
        let ids: Vec<u32> = ids
            .iter()
            .filter_map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
            .collect();
        let words = vocabulary(&ids, raw).ok_or("`tokens` and `raw_text` do not fit together")?;
        let mut index = 0;
        // The same id may stand for different pieces of text, so each place has its own.
        let places = ids.iter().map(|id| {
            let place = u32::try_from(index).unwrap_or(u32::MAX);
            index += 1;
            if is_control(*id) { *id } else { place }
        });
        let bytes_of = |place: u32| words.get(&place).map(Vec::as_slice);
        read_ids(places, bytes_of, &options)
    } else {
        read(raw.as_bytes(), &options)
    };
    compare(&case["expected"], &found)
}

fn is_control(id: u32) -> bool {
    ControlToken::ALL
        .iter()
        .any(|token| control_id(*token) == Some(id))
}

/// Returns the bytes at each index of `ids` without a control token.
///
/// An unknown id has no bytes.
fn vocabulary(ids: &[u32], raw: &str) -> Option<BTreeMap<u32, Vec<u8>>> {
    let mut words = BTreeMap::new();
    let mut rest = raw;
    let mut from = 0;
    let last = ids.iter().rposition(|id| is_control(*id))?;
    for (index, id) in ids.iter().enumerate() {
        let token = ControlToken::ALL
            .into_iter()
            .find(|token| control_id(*token) == Some(*id));
        let Some(token) = token.map(ControlToken::as_str) else {
            continue;
        };
        let at = if index == last {
            rest.rfind(token)
        } else {
            rest.find(token)
        }?;
        spell(ids.get(from..index)?, from, rest.get(..at)?, &mut words)?;
        rest = rest.get(at + token.len()..)?;
        from = index + 1;
    }
    Some(words)
}

/// Distributes `text` over `ids`, the first of which has the index `from`.
fn spell(ids: &[u32], from: usize, text: &str, words: &mut BTreeMap<u32, Vec<u8>>) -> Option<()> {
    let mut put = |place: usize, bytes: &[u8]| {
        words.insert(u32::try_from(from + place).ok()?, bytes.to_vec());
        Some(())
    };
    let shown = text.split_once('<').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('>')?;
        Some((before, inside, after))
    });
    let unknown = ids.iter().position(|id| *id > 201_088);
    if let Some(unknown) = unknown {
        let (before, _, after) = shown?;
        for place in 0..unknown {
            put(place, if place == 0 { before.as_bytes() } else { b"" })?;
        }
        for place in unknown + 1..ids.len() {
            let first = place == unknown + 1;
            put(place, if first { after.as_bytes() } else { b"" })?;
        }
        return Some(());
    }
    if let Some(("", inside, after)) = shown
        && let Some((_, times)) = inside.split_once(" x")
        && let Ok(times) = times.parse::<usize>()
    {
        for place in 0..ids.len() {
            let bytes = match place.cmp(&times) {
                std::cmp::Ordering::Less => &b" \xF0"[..],
                std::cmp::Ordering::Equal => after.as_bytes(),
                std::cmp::Ordering::Greater => b"",
            };
            put(place, bytes)?;
        }
        return Some(());
    }
    // Cut between any two bytes: the reader must not mind.
    let (most, last) = text
        .as_bytes()
        .split_at(text.len().min(ids.len().saturating_sub(1)));
    for place in 0..ids.len() {
        let byte = most.get(place..=place).unwrap_or_default();
        put(place, if place + 1 == ids.len() { last } else { byte })?;
    }
    Some(())
}

fn compare(expected: &Value, found: &HarmonyDocument) -> Result<(), String> {
    let messages = expected["messages"].as_array().ok_or("no messages")?;
    if messages.len() != found.messages.len() {
        return Err(format!(
            "{} messages expected, {} found: {:?}",
            messages.len(),
            found.messages.len(),
            found.messages
        ));
    }
    for (number, (expected, message)) in messages.iter().zip(&found.messages).enumerate() {
        let found = to_json(message);
        let always = ["role", "recipient", "channel", "content_type", "content"];
        let sometimes = ["end", "name", "call_id", "intent", "stray", "incomplete"];
        let sometimes = sometimes
            .into_iter()
            .filter(|key| expected.get(key).is_some());
        for key in always.into_iter().chain(sometimes) {
            if expected[key] != found[key] {
                return Err(format!(
                    "message {}: `{key}` is {}, expected {}",
                    number + 1,
                    found[key],
                    expected[key]
                ));
            }
        }
    }
    let due = expected["diagnostics"].as_array().ok_or("no diagnostics")?;
    let mut codes = BTreeMap::new();
    for due in due.iter().filter_map(Value::as_str) {
        let code = due.split([' ', '@']).next().unwrap_or_default();
        if code.starts_with("E-") {
            *codes.entry(code).or_insert(0) += 1;
        }
    }
    let is = &found.diagnostics;
    for (code, times) in codes {
        let there = is.iter().filter(|found| found.code.as_str() == code);
        if there.count() < times {
            return Err(format!("{times} of `{code}` expected in {is:?}"));
        }
    }
    if is.len() < due.len() {
        return Err(format!(
            "{} diagnostics expected, {} found: {is:?}",
            due.len(),
            is.len()
        ));
    }
    Ok(())
}

fn to_json(message: &Message) -> Value {
    let head = &message.head;
    serde_json::json!({
        "role": head.role.as_str(),
        "recipient": head.recipient,
        "channel": head.channel,
        "content_type": head.content_type,
        "content": message.content,
        "end": message.end.as_str(),
        "name": head.name,
        "call_id": head.call_id,
        "intent": head.intent,
        "stray": head.stray,
        "incomplete": !message.complete,
    })
}
