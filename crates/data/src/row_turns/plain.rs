//! A fast reader of the rows that most data sets have: lists of messages that are strings.
//!
//! It returns nothing for a row that it does not fully understand; the general reader decides there.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::RowTurn;

/// Returns the turns of a plain row. `None` for any other row, and for text that is not JSON.
pub(super) fn turns(row: &[u8]) -> Option<Vec<RowTurn<'_>>> {
    let row: PlainRow<'_> = serde_json::from_slice(row).ok()?;
    Some(row.turns)
}

struct PlainRow<'b> {
    turns: Vec<RowTurn<'b>>,
}

impl<'de> Deserialize<'de> for PlainRow<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = PlainRow<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut turns = None;
        while let Some(key) = map.next_key::<RowKey>()? {
            match key {
                RowKey::List if turns.is_none() => turns = Some(map.next_value::<Messages<'de>>()?),
                RowKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
                RowKey::List | RowKey::Deciding => return Err(A::Error::custom("another shape")),
            }
        }
        match turns {
            Some(Messages(turns)) if !turns.is_empty() => Ok(PlainRow { turns }),
            _ => Err(A::Error::custom("no messages")),
        }
    }
}

/// The part that a member of a row has for its shape.
enum RowKey {
    List,
    /// The member may make the row one of another shape, or add a turn.
    Deciding,
    Other,
}

impl<'de> Deserialize<'de> for RowKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(RowKeyVisitor)
    }
}

struct RowKeyVisitor;

impl Visitor<'_> for RowKeyVisitor {
    type Value = RowKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<RowKey, E> {
        Ok(match key {
            "messages" | "conversations" => RowKey::List,
            "header"
            | "system"
            | "system_prompt"
            | "conversation"
            | "chosen"
            | "rejected"
            | "rejected_response"
            | "input"
            | "output"
            | "instruction"
            | "instructions"
            | "preferred_output"
            | "preferred_completion"
            | "data"
            | "completions"
            | "completion"
            | "labels"
            | "query"
            | "question"
            | "answer"
            | "answers"
            | "response"
            | "role"
            | "from"
            | "history" => RowKey::Deciding,
            _ => RowKey::Other,
        })
    }
}

struct Messages<'b>(Vec<RowTurn<'b>>);

impl<'de> Deserialize<'de> for Messages<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(MessagesVisitor)
    }
}

struct MessagesVisitor;

impl<'de> Visitor<'de> for MessagesVisitor {
    type Value = Messages<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut turns = Vec::with_capacity(8);
        let mut is_share_gpt = None;
        while let Some(message) = items.next_element::<Message<'de>>()? {
            if is_share_gpt.is_some_and(|is| is != message.is_share_gpt) {
                return Err(A::Error::custom("two shapes of messages"));
            }
            is_share_gpt = Some(message.is_share_gpt);
            turns.push(message.turn);
        }
        Ok(Messages(turns))
    }
}

struct Message<'b> {
    turn: RowTurn<'b>,
    is_share_gpt: bool,
}

impl<'de> Deserialize<'de> for Message<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageVisitor)
    }
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut role, mut from, mut content, mut value) = (None, None, None, None);
        while let Some(key) = map.next_key::<MessageKey>()? {
            let place = match key {
                MessageKey::Role => &mut role,
                MessageKey::From => &mut from,
                MessageKey::Content => &mut content,
                MessageKey::Value => &mut value,
                MessageKey::Unset => {
                    map.next_value::<()>()?;
                    continue;
                }
            };
            let text = map.next_value::<Text<'de>>()?;
            if place.replace(text.0).is_some() {
                return Err(A::Error::custom("a key twice"));
            }
        }
        let (speaker, text, is_share_gpt) = match (role, content, from, value) {
            (Some(role), Some(text), None, None) => (of_role(&role), text, false),
            (None, None, Some(from), Some(text)) => (of_speaker(&from), text, true),
            _ => return Err(A::Error::custom("another shape")),
        };
        match speaker {
            Some(speaker) if !text.is_empty() => Ok(Message {
                turn: RowTurn {
                    speaker: Cow::Borrowed(speaker),
                    text,
                },
                is_share_gpt,
            }),
            _ => Err(A::Error::custom("another speaker")),
        }
    }
}

fn of_role(role: &str) -> Option<&'static str> {
    const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];
    ROLES.into_iter().find(|known| *known == role)
}

fn of_speaker(from: &str) -> Option<&'static str> {
    match from {
        "human" | "user" => Some("user"),
        "gpt" | "assistant" => Some("assistant"),
        "system" => Some("system"),
        _ => None,
    }
}

enum MessageKey {
    Role,
    Content,
    From,
    Value,
    /// A member that must be `null`, which readers of Parquet write for absent members.
    Unset,
}

impl<'de> Deserialize<'de> for MessageKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(MessageKeyVisitor)
    }
}

struct MessageKeyVisitor;

impl Visitor<'_> for MessageKeyVisitor {
    type Value = MessageKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<MessageKey, E> {
        Ok(match key {
            "role" => MessageKey::Role,
            "content" => MessageKey::Content,
            "from" => MessageKey::From,
            "value" => MessageKey::Value,
            _ => MessageKey::Unset,
        })
    }
}

/// A string, borrowed if it has no escapes.
struct Text<'b>(Cow<'b, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}
