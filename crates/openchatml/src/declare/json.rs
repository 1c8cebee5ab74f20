//! JSON lists of tools, as providers take them.

use logue_source::Span;
use serde_json::{Map, Value};

use super::{Declarations, DeclaredTool, openapi};
use crate::argument_schema::{self, ArgumentSchema};
use crate::syntax::json::stopped_at;
use crate::syntax::vocabulary::FUNCTIONS;

/// Keys of the argument schema.
const SCHEMAS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];

/// Keys of an object that holds a list of tools.
const LISTS: [&str; 2] = ["tools", "functions"];

/// Reads the JSON text at `start`, if it is one that declares tools. Returns the place after what
/// was read, so that no byte is parsed twice.
pub(super) fn read(text: &str, start: usize, found: &mut Declarations) -> Option<usize> {
    let rest = text.get(start..)?;
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let value = match values.next()? {
        Ok(value) => value,
        Err(error) => {
            let end = start + stopped_at(rest.as_bytes(), &error);
            if looks_like_tools(text.get(start..end).unwrap_or_default()) {
                let what = "the JSON of these tools breaks off, so their calls are not checked";
                found.issue(Span::new(start, end), what);
                found.note("functions", false);
            }
            return Some(end);
        }
    };
    let span = Span::new(start, start + values.byte_offset());
    match &value {
        Value::Array(items) if items.iter().any(is_tool) => {
            let places = argument_schema::places_of_items(span.bytes(text.as_bytes()));
            list(items, |index| place(&places, index, span), found);
        }
        Value::Object(object) if openapi::is_document(object) => {
            openapi::read(&value, object, span, found);
        }
        Value::Object(object) => {
            let lists = LISTS.iter().filter_map(|key| object.get(*key)?.as_array());
            if is_tool(&value) {
                list(std::slice::from_ref(&value), |_| span, found);
            } else {
                for items in lists.filter(|items| items.iter().any(is_tool)) {
                    list(items, |_| span, found);
                }
            }
        }
        _ => {}
    }
    Some(span.end)
}

/// The full name of a tool of the `functions` namespace.
pub(super) fn full_name(name: &str) -> String {
    if name.starts_with(FUNCTIONS) {
        name.to_owned()
    } else {
        format!("{FUNCTIONS}{name}")
    }
}

fn place(places: &[Span], index: usize, whole: Span) -> Span {
    let place = places.get(index).copied();
    place.map_or(whole, |place| place.shifted(whole.start))
}

fn list(items: &[Value], place: impl Fn(usize) -> Span, found: &mut Declarations) {
    let mut complete = true;
    for (index, item) in items.iter().enumerate() {
        let span = place(index);
        if let Some(tool) = tool(item, span) {
            found.add(tool);
        } else if !is_provider_tool(item) {
            complete = false;
            found.issue(span, "this is in a list of tools and has no name");
        }
    }
    found.note("functions", complete);
}

fn tool(item: &Value, span: Span) -> Option<DeclaredTool> {
    let object = definition(item)?;
    let name = object
        .get("name")?
        .as_str()
        .filter(|name| !name.is_empty())?;
    let schema = SCHEMAS.iter().find_map(|key| object.get(*key));
    let description = object.get("description").and_then(Value::as_str);
    Some(DeclaredTool {
        name: full_name(name),
        description: description.map(str::to_owned),
        schema: schema
            .filter(|schema| schema.is_object())
            .map(ArgumentSchema::from_json_schema),
        span,
    })
}

/// The object that has the name: the tool itself, or the value of `function`.
fn definition(item: &Value) -> Option<&Map<String, Value>> {
    let object = item.as_object()?;
    Some(match object.get("function") {
        Some(Value::Object(function)) => function,
        _ => object,
    })
}

/// Returns whether a value declares a tool and is not other JSON in a prompt.
fn is_tool(item: &Value) -> bool {
    let Some(object) = item.as_object() else {
        return false;
    };
    let is_function = object.get("type").and_then(Value::as_str) == Some("function");
    let has_schema = SCHEMAS.iter().any(|key| object.contains_key(*key));
    let named = definition(item).is_some_and(|object| object.contains_key("name"));
    named && (is_function || has_schema || object.get("function").is_some_and(Value::is_object))
}

/// Returns whether a list item is a provider's own tool, such as a search.
fn is_provider_tool(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind != "function")
}

fn looks_like_tools(text: &str) -> bool {
    let has = |word: &str| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    has("\"name\"") && SCHEMAS.iter().any(|key| has(&format!("\"{key}\"")))
        || has("\"type\"") && has("\"function\"")
}
