//! The places of calls and replies in a row, whatever its form.

use logue_source::{Diagnostic, DiagnosticCode, Span};
use serde_json::Value;

use super::node::{Kind, Node, Object};
use super::settings::check_settings;
use crate::check::transcript_calls::{self, CallPlace, Places, Spelling};
use crate::declare::CallSchemas;
use crate::document::owned::Transcript;

/// Checks the calls, replies and settings of a row that was read from `text`.
///
/// Calls are compared with the tools that the row declares; findings have their places in the text.
/// Linear in the text, with a logarithm for the ids.
///
/// ```
/// use openchatml::convert::ConvertOptions;
/// use openchatml::project::{self, JsonFormat};
///
/// let text = br#"{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["a"]}}}],
///   "messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"g","arguments":"{}"}}]}]}"#;
/// let read = project::read(text, JsonFormat::OpenAi, &ConvertOptions::default());
/// let found = project::check(text, &read.transcript);
/// assert_eq!(found[0].code.as_str(), "E-CALL-SCHEMA");
/// assert_eq!(found[0].primary.bytes(text), b"\"g\"");
/// ```
pub fn check(text: &[u8], transcript: &Transcript) -> Vec<Diagnostic> {
    check_with(text, transcript, &CallSchemas::new())
}

/// Checks a row like [`check`], with the schemas of built-in tools that its header lists.
pub fn check_with(text: &[u8], transcript: &Transcript, schemas: &CallSchemas) -> Vec<Diagnostic> {
    let values = Node::values(text, Span::new(0, text.len())).unwrap_or_default();
    let mut places = Places {
        fallback: Span::new(0, 1.min(text.len())),
        remedy: "declare the tool in the `tools` of the row",
        ..Places::default()
    };
    let mut found = Vec::new();
    for value in &values {
        match value.object() {
            Some(row) => {
                found.extend(check_settings(&row));
                found.extend(row.get("tools").and_then(malformed_tools));
                let lists = [
                    "messages",
                    "conversations",
                    "conversation",
                    "input",
                    "output",
                ];
                let list = lists.iter().find_map(|key| row.get(key));
                match list {
                    Some(list) => list.items().for_each(|message| places.message(message)),
                    None => places.message(*value),
                }
            }
            None => value.items().for_each(|message| places.message(message)),
        }
    }
    found.extend(transcript_calls::check(transcript, text, &places, schemas));
    found.sort_by_key(|found| found.primary.start);
    found
}

/// Returns a warning about the first thing in `tools` that declares no tool.
fn malformed_tools(tools: Node<'_>) -> Option<Diagnostic> {
    let is_list = |text: &str| matches!(serde_json::from_str(text), Ok(Value::Array(_)));
    let message = match tools.kind() {
        Kind::Array => {
            let nameless = tools.items().find(|tool| !declares(*tool))?;
            return Some(no_declaration("this tool has no name", nameless.span()));
        }
        Kind::Null => return None,
        Kind::String => match tools.string() {
            Some(text) if text.trim().is_empty() || is_list(&text) => return None,
            _ => "`tools` is a text that is not a JSON list of tools",
        },
        _ => "`tools` is not a list of tools",
    };
    Some(no_declaration(message, tools.span()))
}

/// Returns whether an item of `tools` has a name, or needs none.
fn declares(tool: Node<'_>) -> bool {
    let Some(tool) = tool.object() else {
        return false;
    };
    let kind = tool.get("type").and_then(Node::string);
    let inner = tool.get("function").and_then(Node::object);
    let name = inner.as_ref().unwrap_or(&tool).get("name");
    let is_named = name
        .and_then(Node::string)
        .is_some_and(|name| !name.is_empty());
    let lists = ["functionDeclarations", "function_declarations"];
    is_named
        || kind.is_some_and(|kind| kind != "function")
        || lists.iter().any(|key| tool.get(key).is_some())
}

fn no_declaration(message: &str, place: Span) -> Diagnostic {
    Diagnostic::warning(DiagnosticCode::InvalidToolDeclaration, message, place)
        .with_expected("`[{\"type\": \"function\", \"function\": {\"name\": \"…\", …}}]`")
        .with_help("correct the declaration; until then its calls are not fully checked")
}

impl Places {
    fn message(&mut self, node: Node<'_>) {
        let Some(message) = node.object() else {
            return;
        };
        let word = |key: &str| message.get(key).and_then(Node::string).unwrap_or_default();
        let (role, from, kind) = (word("role"), word("from"), word("type"));
        let from = from.to_ascii_lowercase().replace('-', "_");
        let speaks =
            |words: &[&str]| words.contains(&role.as_str()) || words.contains(&from.as_str());
        if speaks(&["function_call", "tool_call"]) {
            return self.spelled_calls(&message);
        }
        let results = [
            "tool",
            "function",
            "tool_response",
            "function_response",
            "observation",
            "ipython",
        ];
        if speaks(&results) || role.starts_with("functions.") || kind.ends_with("_output") {
            let keys = ["tool_call_id", "call_id", "name"];
            let key = keys.iter().find_map(|key| message.get(key));
            self.replies.push(key.map_or(message.span, Node::span));
            return;
        }
        self.call(&message);
        for part in message.get("content").into_iter().flat_map(Node::items) {
            let Some(part) = part.object() else {
                continue;
            };
            let kind = part.get("type").and_then(Node::string);
            match kind.as_deref() {
                Some("tool_use") => self.call(&part),
                Some("tool_result") => {
                    let id = part.get("tool_use_id");
                    self.replies.push(id.map_or(part.span, Node::span));
                }
                _ => {}
            }
        }
        let calls = message.get("tool_calls");
        if let Some(text) = calls.filter(|calls| calls.kind() == Kind::String) {
            self.calls_inside(text, 0);
        }
        let calls = calls.into_iter().flat_map(Node::items);
        let older = ["function_call", "tool_call"];
        let calls = calls.chain(older.iter().filter_map(|key| message.get(key)));
        for call in calls {
            if call.kind() == Kind::String {
                self.calls_inside(call, 1);
            }
            let Some(call) = call.object() else {
                continue;
            };
            let levels = ["function", "custom"];
            let inner = levels.iter().find_map(|key| call.get(key)?.object());
            self.call(&inner.unwrap_or(call));
        }
    }

    /// A value that has a name and arguments.
    fn call(&mut self, object: &Object<'_>) {
        let find = |keys: &[&str]| keys.iter().find_map(|key| object.get(key));
        let (Some(name), Some(arguments)) =
            (find(&["name", "recipient"]), find(&["arguments", "input"]))
        else {
            return;
        };
        let spelling = match arguments.kind() {
            Kind::String => Spelling::Escaped,
            _ => Spelling::Verbatim,
        };
        self.calls.push(CallPlace {
            name: name.span(),
            arguments: arguments.span(),
            spelling,
        });
    }

    /// Calls as JSON in a text.
    fn spelled_calls(&mut self, message: &Object<'_>) {
        let Some(value) = message.get("value").or_else(|| message.get("content")) else {
            return;
        };
        self.calls_inside(value, 1);
    }

    /// Adds the calls of a list in a text, else this many.
    fn calls_inside(&mut self, value: Node<'_>, otherwise: usize) {
        let text = value.string().unwrap_or_default();
        let list = serde_json::from_str::<Vec<serde_json::Value>>(&text);
        let place = CallPlace {
            name: value.span(),
            arguments: value.span(),
            spelling: Spelling::Inside,
        };
        let count = list.map_or(otherwise, |list| list.len());
        self.calls.extend(std::iter::repeat_n(place, count));
    }
}
