//! Rows of a conversation with another answer to its last request.
//!
//! The other answer is a text, or messages after the last one of the user. A list that begins with a
//! request is a conversation of its own.

use serde_json::Value;

use super::{Row, instruction, spelled};
use crate::project::node::{Kind, Node, Object};

/// The key of the other answer.
pub(super) const KEY: &str = "rejected_response";

/// Returns both conversations: with the answer of the row, and with the other one.
pub(super) fn rows(object: &Object<'_>, answer: Node<'_>) -> [Row; 2] {
    let lists = ["messages", "conversations", "conversation"];
    let list = lists.into_iter().find_map(|key| {
        let node = object.get(key)?;
        (node.kind() == Kind::Array).then_some((key, node))
    });
    let (mut chosen, mut rejected) = if let Some((key, list)) = list {
        let messages: Vec<Node<'_>> = list.items().collect();
        let row = |messages: &[Node<'_>]| {
            let mut row = Row::default();
            row.take(object, "system", "system");
            row.messages.extend(messages.iter().copied().map(spelled));
            row.used.push(key);
            row
        };
        let kept = messages.get(..kept(&messages, answer));
        (row(&messages), row(kept.unwrap_or_default()))
    } else {
        let mut rejected = instruction(object);
        rejected.messages.pop();
        (instruction(object), rejected)
    };
    match answer.string() {
        Some(text) => {
            let is_from = rejected.messages.iter().any(|it| super::is_from_value(it));
            let text = Value::from(text);
            rejected.messages.push(if is_from {
                format!("{{\"from\":\"gpt\",\"value\":{text}}}")
            } else {
                format!("{{\"role\":\"assistant\",\"content\":{text}}}")
            });
        }
        None => rejected.messages.extend(answer.items().map(spelled)),
    }
    for row in [&mut chosen, &mut rejected] {
        row.used.push(KEY);
    }
    [chosen, rejected]
}

/// Returns the number of messages that the other answer does not replace.
fn kept(messages: &[Node<'_>], answer: Node<'_>) -> usize {
    if answer.kind() == Kind::String {
        let is_answer = messages.last().is_some_and(|it| speaks(*it, ANSWERING));
        return messages.len() - usize::from(is_answer);
    }
    if answer.items().next().is_some_and(|it| speaks(it, ASKING)) {
        return 0;
    }
    let request = messages.iter().rposition(|it| speaks(*it, &ASKING[..2]));
    request.map_or(0, |index| index + 1)
}

/// The speakers of a request; those of its last message first.
const ASKING: &[&str] = &["user", "human", "system", "developer"];

/// The speakers of an answer.
const ANSWERING: &[&str] = &["assistant", "gpt"];

/// Returns whether a message is of one of these speakers.
fn speaks(message: Node<'_>, speakers: &[&str]) -> bool {
    let message = message.object();
    let speaker = message.and_then(|it| it.get("role").or_else(|| it.get("from"))?.string());
    speaker.is_some_and(|speaker| speakers.contains(&speaker.as_str()))
}
