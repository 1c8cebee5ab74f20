//! Marks around the values of a conversation.

use super::engine::MARK_CHARACTERS;
use super::node::Node;

/// The kind of a value.
///
/// A template may change under the marks of one kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueSort {
    /// Text of the assistant, or reasoning within it.
    Content,
    /// Reasoning in a field of its own.
    Reasoning,
    /// The name of a called tool.
    CallName,
    /// Arguments of a call.
    Arguments,
    /// Text of another role.
    Context,
}

impl ValueSort {
    pub(super) const ALL: [Self; 5] = [
        Self::Content,
        Self::Reasoning,
        Self::CallName,
        Self::Arguments,
        Self::Context,
    ];
}

/// The class of a marked value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueClass {
    Reasoning,
    Answer,
    Call,
    Context,
}

/// A marked value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkedValue {
    pub(super) sort: ValueSort,
    pub(super) class: ValueClass,
    /// The message in the row.
    pub(super) message: usize,
    /// Whether the value is the text of a JSON object.
    pub(super) is_object: bool,
    /// The number of the value in the row.
    pub(super) index: usize,
    /// The number of the first value with this reasoning under another name.
    pub(super) original: usize,
}

/// Marks values with characters that the row does not contain.
pub(super) struct Marks {
    /// The first character; each value has two.
    first: u32,
    pub(super) values: Vec<MarkedValue>,
}

/// Characters of marks in a plane for private use; one more is the witness.
const PLANE: u32 = 0xfffd;

impl Marks {
    /// Returns marks that the messages do not contain; `None` if there are none.
    pub(super) fn absent_from<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> Option<Self> {
        let mut is_used = [false; 2];
        let [in_first, in_second] = &mut is_used;
        for node in nodes {
            node.each_text(&mut |text| {
                // Characters of these planes begin with one of these bytes.
                if text.bytes().any(|byte| byte >= 0xf3) {
                    for character in text.chars() {
                        *in_first |= ('\u{f0000}'..='\u{ffffd}').contains(&character);
                        *in_second |= ('\u{100000}'..='\u{10fffd}').contains(&character);
                    }
                }
            });
        }
        let first = match is_used {
            [false, _] => 0xf_0000,
            [true, false] => 0x10_0000,
            [true, true] => return None,
        };
        Some(Self {
            first,
            values: Vec::new(),
        })
    }

    fn character(&self, index: usize) -> Option<char> {
        let index = u32::try_from(index).ok().filter(|index| *index < PLANE)?;
        char::from_u32(self.first + index)
    }

    /// Returns the name of a member that each part of a content gets.
    ///
    /// It is in a rendering if the template prints parts as Python does instead of their text.
    pub(super) fn witness(&self) -> Option<char> {
        char::from_u32(self.first + PLANE)
    }

    /// Returns the marks of a generation.
    pub(super) fn generation(&self) -> String {
        [self.character(0), self.character(1)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Encloses the text of a value without the white space around it, which templates remove.
    fn enclose(&mut self, text: &str, value: MarkedValue) -> String {
        let inner = text.trim_matches(is_python_space);
        let open = self.character(2 + 2 * self.values.len());
        let close = self.character(3 + 2 * self.values.len());
        let (Some(open), Some(close), false) = (open, close, inner.is_empty()) else {
            return text.to_owned();
        };
        self.values.push(value);
        let start = text.len() - text.trim_start_matches(is_python_space).len();
        let (before, rest) = text.split_at(start);
        let (inner, after) = rest.split_at(inner.len());
        format!("{before}{open}{inner}{close}{after}")
    }

    /// Returns a copy of the messages with marks around the values of some sorts.
    pub(super) fn mark(&mut self, messages: &[Node], sorts: &[ValueSort]) -> Vec<Node> {
        let mut messages = messages.to_vec();
        for (index, message) in messages.iter_mut().enumerate() {
            let is_assistant = message.get("role").and_then(Node::as_text) == Some("assistant");
            let mut marking = Marking {
                marks: self,
                sorts,
                message: index,
            };
            marking.content(message, is_assistant);
            if is_assistant {
                marking.reasoning(message);
                if let Some(Node::List(calls)) = message.get_mut("tool_calls") {
                    for call in calls {
                        marking.call(call);
                    }
                }
            }
        }
        messages
    }

    /// Returns the index of a mark and whether it is the first of its two.
    fn index(&self, character: char) -> Option<(usize, bool)> {
        if !MARK_CHARACTERS.contains(&character) {
            return None;
        }
        let index = usize::try_from(u32::from(character).checked_sub(self.first)?).ok()?;
        (index < 2 + 2 * self.values.len()).then_some((index / 2, index % 2 == 0))
    }

    /// Removes the marks from a rendering; `None` if they do not enclose text.
    pub(super) fn strip(&self, marked: &str) -> Option<Stripped> {
        let mut stripped = Stripped {
            text: String::with_capacity(marked.len()),
            ..Stripped::default()
        };
        let (mut value, mut generation) = (None, None);
        for character in marked.chars() {
            let Some((index, is_open)) = self.index(character) else {
                stripped.text.push(character);
                continue;
            };
            let at = stripped.text.len();
            let open = if index == 0 {
                &mut generation
            } else {
                &mut value
            };
            match (is_open, *open) {
                (true, None) => *open = Some((index, at)),
                (false, Some((opened, from))) if opened == index => {
                    *open = None;
                    if index == 0 {
                        stripped.generations.push((from, at));
                    } else {
                        let value = *self.values.get(index - 1)?;
                        stripped.values.push(Place {
                            from,
                            to: at,
                            value,
                        });
                    }
                }
                _ => return None,
            }
        }
        (value.is_none() && generation.is_none()).then_some(stripped)
    }
}

/// A rendering without its marks.
#[derive(Debug, Default)]
pub(super) struct Stripped {
    pub(super) text: String,
    /// The values in the order of the text.
    pub(super) values: Vec<Place>,
    /// The texts of generations.
    pub(super) generations: Vec<(usize, usize)>,
}

/// The place of a value in a rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) value: MarkedValue,
}

/// The marking of one message.
struct Marking<'m> {
    marks: &'m mut Marks,
    sorts: &'m [ValueSort],
    message: usize,
}

impl Marking<'_> {
    fn value(&mut self, text: &str, sort: ValueSort, class: ValueClass) -> String {
        if !self.sorts.contains(&sort) {
            return text.to_owned();
        }
        let value = MarkedValue {
            sort,
            class,
            message: self.message,
            is_object: sort == ValueSort::Arguments && text.trim_start().starts_with("{\""),
            index: self.marks.values.len(),
            original: self.marks.values.len(),
        };
        self.marks.enclose(text, value)
    }

    /// Marks reasoning in fields, of which several may have the same text.
    fn reasoning(&mut self, message: &mut Node) {
        let mut seen: Vec<(String, usize)> = Vec::new();
        for name in ["reasoning_content", "thinking", "reasoning"] {
            let Some(Node::Text(text)) = message.get_mut(name) else {
                continue;
            };
            let index = self.marks.values.len();
            let marked = self.value(text, ValueSort::Reasoning, ValueClass::Reasoning);
            let plain = std::mem::replace(text, marked);
            let original = seen.iter().find(|(text, _)| *text == plain);
            let original = original.map_or(index, |(_, original)| *original);
            if let Some(value) = self.marks.values.get_mut(index) {
                value.original = original;
            }
            seen.push((plain, original));
        }
    }

    fn content(&mut self, message: &mut Node, is_assistant: bool) {
        match message.get_mut("content") {
            Some(Node::Text(text)) => *text = self.text(text, is_assistant),
            Some(Node::List(parts)) => {
                for part in parts {
                    self.part(part, is_assistant);
                }
            }
            _ => {}
        }
    }

    fn part(&mut self, part: &mut Node, is_assistant: bool) {
        let kind = part.get("type").and_then(Node::as_text);
        let is_reasoning = is_assistant && matches!(kind, Some("thinking" | "reasoning"));
        for name in ["text", "thinking", "reasoning"] {
            match part.get_mut(name) {
                Some(Node::Text(text)) if is_reasoning => {
                    *text = self.value(text, ValueSort::Reasoning, ValueClass::Reasoning);
                }
                Some(Node::Text(text)) if name == "text" => *text = self.text(text, is_assistant),
                _ => {}
            }
        }
        if let Some(witness) = self.marks.witness() {
            part.set(&witness.to_string(), Node::Null);
        }
    }

    /// Marks text; reasoning between tags, at which templates divide it, has marks of its own.
    fn text(&mut self, text: &str, is_assistant: bool) -> String {
        const OPEN: &str = "<think>";
        const CLOSE: &str = "</think>";
        if !is_assistant {
            return self.value(text, ValueSort::Context, ValueClass::Context);
        }
        let mut marked = String::with_capacity(text.len() + 8);
        let mut rest = text;
        let mut is_reasoning = false;
        while let Some((at, tag)) = [OPEN, CLOSE]
            .into_iter()
            .filter_map(|tag| rest.find(tag).map(|at| (at, tag)))
            .min()
        {
            let (before, after) = rest.split_at(at);
            // Templates also take text before a lone closing tag for reasoning.
            let class = if is_reasoning || tag == CLOSE {
                ValueClass::Reasoning
            } else {
                ValueClass::Answer
            };
            marked.push_str(&self.value(before, ValueSort::Content, class));
            marked.push_str(tag);
            rest = after.get(tag.len()..).unwrap_or_default();
            is_reasoning = tag == OPEN;
        }
        let class = if is_reasoning {
            ValueClass::Reasoning
        } else {
            ValueClass::Answer
        };
        marked.push_str(&self.value(rest, ValueSort::Content, class));
        marked
    }

    fn call(&mut self, node: &mut Node) {
        let function = match node.get("function") {
            Some(Node::Map(_)) => node.get_mut("function"),
            _ => Some(node),
        };
        let Some(function) = function else { return };
        if let Some(Node::Text(name)) = function.get_mut("name") {
            *name = self.value(name, ValueSort::CallName, ValueClass::Call);
        }
        match function.get_mut("arguments") {
            Some(Node::Text(text)) => {
                *text = self.value(text, ValueSort::Arguments, ValueClass::Call);
            }
            Some(Node::Map(members)) => {
                for (_, member) in members {
                    if let Node::Text(text) = member {
                        *text = self.value(text, ValueSort::Arguments, ValueClass::Call);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns whether `str.strip` of Python removes a character.
fn is_python_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}
