//! The conversation of a row, as templates receive it.

use super::failure::Failure;
use super::marks::ValueSort;
use super::node::Node;
use super::python_json::float;
use minijinja::Value;

/// The conversation of a row.
pub(super) struct Input {
    pub(super) messages: Vec<Node>,
    pub(super) tools: Option<Node>,
    pub(super) documents: Option<Node>,
    pub(super) variables: Vec<(String, Node)>,
}

impl Input {
    pub(super) fn read(row: &[u8]) -> Result<Self, Failure> {
        let row = std::str::from_utf8(row).map_err(|error| Failure::Syntax(error.to_string()))?;
        let row = Node::parse(row).map_err(Failure::Syntax)?;
        let Some(Node::List(messages)) = row.get("messages") else {
            return Err(Failure::Shape("the row has no list `messages`"));
        };
        if messages
            .iter()
            .any(|message| !matches!(message, Node::Map(_)))
        {
            return Err(Failure::Shape("a message is not an object"));
        }
        let tools = match row.get("tools") {
            // A column of mixed types is stored as text.
            Some(Node::Text(text)) if !text.trim().is_empty() => {
                Some(Node::parse(text).map_err(|_| Failure::Shape("`tools` is not JSON"))?)
            }
            Some(Node::List(tools)) => Some(Node::List(tools.clone())),
            _ => None,
        };
        let variables = match row.get("chat_template_kwargs") {
            Some(Node::Map(variables)) => variables.clone(),
            _ => Vec::new(),
        };
        Ok(Self {
            messages: messages.iter().map(normal).collect(),
            tools,
            documents: row
                .get("documents")
                .filter(|value| **value != Node::Null)
                .cloned(),
            variables,
        })
    }

    /// Refuses numbers that the engine printed otherwise than Python.
    pub(super) fn check_numbers(&self, text: &str) -> Result<(), Failure> {
        let mut found = None;
        let nodes = self.messages.iter().chain(&self.tools);
        for node in nodes.chain(self.variables.iter().map(|variable| &variable.1)) {
            node.each_float(&mut |number| {
                let printed = Value::from(number).to_string();
                if printed != float(number) && text.contains(&printed) {
                    found = Some(float(number));
                }
            });
        }
        found.map_or(Ok(()), |number| {
            let reason = "is joined to text by the chat template, which is not supported";
            Err(Failure::Template(format!("the number {number} {reason}")))
        })
    }

    /// Replaces arguments that are the text of an object by the object.
    pub(super) fn parse_arguments(&mut self) {
        self.messages.iter_mut().for_each(parse_arguments_of);
    }

    pub(super) fn assistants(&self) -> Vec<usize> {
        let messages = self.messages.iter().enumerate();
        let found = messages.filter(|(_, message)| {
            message.get("role").and_then(Node::as_text) == Some("assistant")
        });
        found.map(|(index, _)| index).collect()
    }

    fn has(&self, names: &[&str]) -> bool {
        let is_set = |node: &Node| !matches!(node, Node::Null) && *node != Node::List(Vec::new());
        self.assistants().into_iter().any(|index| {
            let message = self.messages.get(index);
            let mut values = names
                .iter()
                .filter_map(|name| message.and_then(|message| message.get(name)));
            values.any(is_set)
        })
    }

    pub(super) fn has_content(&self) -> bool {
        self.has(&["content"])
    }

    pub(super) fn has_calls(&self) -> bool {
        self.has(&["tool_calls"])
    }

    pub(super) fn has_reasoning(&self) -> bool {
        self.has(&["reasoning_content"])
    }

    /// Returns whether a message has reasoning of a sort without marks, which may be nowhere.
    pub(super) fn has_unmarked_reasoning(&self, message: usize, sorts: &[ValueSort]) -> bool {
        let Some(message) = self.messages.get(message) else {
            return false;
        };
        let is_marked = |sort| sorts.contains(&sort);
        let of = |node: &Node, name: &str| {
            let text = node.get(name).and_then(Node::as_text);
            text.is_some_and(|text| !text.trim().is_empty())
        };
        let in_tags = |node: Option<&Node>| {
            let text = node.and_then(Node::as_text);
            text.is_some_and(|text| text.contains("</think>"))
        };
        let content = message.get("content");
        let parts = match content {
            Some(Node::List(parts)) => parts.as_slice(),
            _ => &[],
        };
        let in_parts = || {
            let mut names = ["thinking", "reasoning"].iter();
            names.any(|name| parts.iter().any(|part| of(part, name)))
        };
        let in_text = || in_tags(content) || parts.iter().any(|part| in_tags(part.get("text")));
        (!is_marked(ValueSort::Reasoning) && (of(message, "reasoning_content") || in_parts()))
            || (!is_marked(ValueSort::Content) && in_text())
    }
}

fn parse_arguments_of(message: &mut Node) {
    let Some(Node::List(calls)) = message.get_mut("tool_calls") else {
        return;
    };
    for call in calls {
        let function = match call.get("function") {
            Some(Node::Map(_)) => call.get_mut("function"),
            _ => Some(call),
        };
        let arguments = function.and_then(|function| function.get_mut("arguments"));
        let Some(arguments) = arguments else { continue };
        let parsed = arguments.as_text().map(Node::parse);
        if let Some(Ok(object @ Node::Map(_))) = parsed {
            *arguments = object;
        }
    }
}

/// Returns a message as `transformers` passes it: without null, with both names of reasoning.
fn normal(message: &Node) -> Node {
    let Node::Map(members) = message else {
        return message.clone();
    };
    let members = members.iter().filter(|member| member.1 != Node::Null);
    let members: Vec<(String, Node)> = members.cloned().collect();
    let mut message = Node::Map(members);
    let reasoning = ["reasoning_content", "thinking", "reasoning"]
        .iter()
        .find_map(|name| message.get(name))
        .cloned();
    if let Some(reasoning) = reasoning {
        if message.get("thinking").is_none()
            && let Node::Map(members) = &mut message
        {
            members.insert(0, ("thinking".to_owned(), reasoning.clone()));
        }
        message.set("reasoning_content", reasoning);
    }
    message
}
