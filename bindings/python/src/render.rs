//! Prompts: conversations to the text and the ids of Harmony.

use logue_source::DiagnosticCode;
use openchatml::convert::{PlacedTools, harmony_conversation};
use openchatml::harmony::{
    Conversation, Form, Reasoning, RenderError, RenderMessage, RenderOptions, Renderer,
    RendererCompat, ToolNamespace,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMemoryView, PyString};
use serde_json::{Value, json};

use crate::error;
use crate::ids;
use crate::input;
use crate::json;

/// The options of rendering a conversation.
struct How {
    form: Form,
    options: RenderOptions,
}

fn how(
    py: Python<'_>,
    next_role: Option<&Bound<'_, PyAny>>,
    training: bool,
    reasoning: Option<&str>,
    compat: Option<&str>,
    escape: bool,
) -> PyResult<How> {
    let form = match (input::role(next_role)?, training) {
        (Some(_), true) => {
            let message = "next_role and training exclude each other";
            return Err(error::invalid(py, message));
        }
        (Some(role), false) => Form::Completion(role),
        (None, true) => Form::Training,
        (None, false) => Form::Conversation,
    };
    let compat = match compat {
        None => RendererCompat::Meant,
        Some("openai-0.0.8") => RendererCompat::OpenAi0_0_8,
        Some(name) => {
            let message = format!("unknown renderer `{name}`; known is openai-0.0.8");
            return Err(error::invalid(py, &message));
        }
    };
    let mut options = RenderOptions::compat(compat).with_escape(escape);
    if let Some(name) = reasoning {
        options = options.with_reasoning(match name {
            "keep" => Reasoning::Keep,
            "drop-finished" => Reasoning::DropFinished,
            "drop-before-first-final" => Reasoning::DropBeforeFirstFinal,
            _ => {
                let message = format!(
                    "unknown policy `{name}`; known are keep, drop-finished, \
                     drop-before-first-final"
                );
                return Err(error::invalid(py, &message));
            }
        });
    }
    Ok(How { form, options })
}

/// The conversation of a text, of JSON, or of dicts and lists.
fn conversation(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    form: Option<&str>,
) -> PyResult<Conversation> {
    let is_text = source.is_instance_of::<PyString>()
        || source.is_instance_of::<PyBytes>()
        || source.is_instance_of::<PyByteArray>()
        || source.is_instance_of::<PyMemoryView>();
    let text = if is_text {
        input::bytes(source)?.into_owned()
    } else if let Ok(method) = source.getattr("to_json") {
        input::bytes(&method.call0()?)?.into_owned()
    } else {
        let value = value_of(source)?;
        if !matches!(value, Value::Array(_) | Value::Object(_)) {
            let message = "expected a list of messages, a dict with `messages`, or a text";
            return Err(PyTypeError::new_err(message));
        }
        value.to_string().into_bytes()
    };
    let is_harmony = match form {
        None => !text.trim_ascii_start().starts_with(b"<|"),
        Some(form) => form == "harmony-json",
    };
    if is_harmony && let Some(conversation) = harmony_json(&text) {
        return Ok(conversation);
    }
    let transcript = crate::convert::transcript_of(py, &text, form, !is_text)?;
    let placed = PlacedTools::in_harmony(&transcript);
    let (conversation, mut losses) = harmony_conversation(placed.transcript());
    placed.finish(&mut losses);
    crate::convert::all_kept(py, &losses)?;
    Ok(conversation)
}

/// The value of a conversation; an error names the message.
fn value_of(source: &Bound<'_, PyAny>) -> PyResult<Value> {
    json::from_python(source).map_err(|failure| {
        let py = source.py();
        let messages = source.get_item("messages");
        let messages = messages.unwrap_or_else(|_| source.clone());
        let Ok(mut items) = messages.try_iter() else {
            return failure;
        };
        let is_bad = |item: PyResult<Bound<'_, PyAny>>| {
            item.is_ok_and(|item| json::from_python(&item).is_err())
        };
        let Some(index) = items.position(is_bad) else {
            return failure;
        };
        let value = failure.value(py);
        let failure = if failure.is_instance_of::<PyValueError>(py) {
            let code = value.getattr("code").and_then(|code| code.extract());
            let code: String = code.unwrap_or_else(|_| DiagnosticCode::JsonShape.to_string());
            let message = format!("message {}: {value}", index + 1);
            error::error(py, &code, &message, None)
        } else {
            failure
        };
        // An exception without the index is still the exception.
        let _ignored = failure.value(py).setattr("message_index", index);
        failure
    })
}

/// A conversation in the JSON of openai-harmony; `None` if it is of another form.
fn harmony_json(text: &[u8]) -> Option<Conversation> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let value = match value {
        Value::Array(messages) => json!({ "messages": messages }),
        other => other,
    };
    let messages = value.get("messages")?.as_array()?;
    // Tools beside the messages need a message of their own.
    let has_tools = ["tools", "functions"].iter().any(|key| is_set(&value, key));
    // A field of Chat Completions that this form does not have would be lost.
    let has_more = messages.iter().any(|message| {
        [
            "tool_calls",
            "tool_call_id",
            "reasoning_content",
            "function_call",
        ]
        .iter()
        .any(|key| message.get(key).is_some())
            || ["reasoning", "thinking", "reasoning_details", "refusal"]
                .iter()
                .any(|key| is_set(message, key))
    });
    if has_more || has_tools {
        return None;
    }
    serde_json::from_value(value).ok()
}

/// Returns whether an object has a value for a key.
fn is_set(object: &Value, key: &str) -> bool {
    object.get(key).is_some_and(|value| !value.is_null())
}

fn refused(py: Python<'_>, failure: &RenderError) -> PyErr {
    let error = error::error(py, RenderError::CODE.as_str(), &failure.to_string(), None);
    // An exception without the index is still the exception.
    let _ignored = error.value(py).setattr("message_index", failure.message());
    error
}

/// Renders a conversation to the text of Harmony.
#[pyfunction]
#[pyo3(signature = (conversation, *, form=None, next_role=None, training=false, reasoning=None, compat=None, escape=false))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn render<'py>(
    py: Python<'py>,
    conversation: &Bound<'py, PyAny>,
    form: Option<&str>,
    next_role: Option<&Bound<'py, PyAny>>,
    training: bool,
    reasoning: Option<&str>,
    compat: Option<&str>,
    escape: bool,
) -> PyResult<Bound<'py, PyString>> {
    let how = how(py, next_role, training, reasoning, compat, escape)?;
    let conversation = self::conversation(py, conversation, form)?;
    let text = py
        .detach(|| conversation.to_text(how.form, &how.options))
        .map_err(|failure| refused(py, &failure))?;
    // Raises where there is no memory.
    PyString::from_bytes(py, text.as_bytes())
}

/// Renders a conversation to ids of `o200k_harmony`.
#[pyfunction]
#[pyo3(signature = (conversation, *, form=None, next_role=None, training=false, reasoning=None, compat=None))]
pub(crate) fn render_ids<'py>(
    py: Python<'py>,
    conversation: &Bound<'py, PyAny>,
    form: Option<&str>,
    next_role: Option<&Bound<'py, PyAny>>,
    training: bool,
    reasoning: Option<&str>,
    compat: Option<&str>,
) -> PyResult<Bound<'py, PyList>> {
    let how = how(py, next_role, training, reasoning, compat, false)?;
    let conversation = self::conversation(py, conversation, form)?;
    let ids = py
        .detach(|| Renderer::new().ids(&conversation, how.form, &how.options))
        .map_err(|failure| refused(py, &failure))?;
    ids::list(py, &ids)
}

/// Renders one message of a conversation to ids, as openai-harmony does.
#[pyfunction]
#[pyo3(signature = (message, *, has_functions, compat=None))]
pub(crate) fn render_message_ids(
    py: Python<'_>,
    message: &str,
    has_functions: bool,
    compat: Option<&str>,
) -> PyResult<Vec<u32>> {
    let how = how(py, None, false, None, compat, false)?;
    let message: RenderMessage = serde_json::from_str(message)
        .map_err(|failure| error::invalid(py, &format!("invalid message JSON: {failure}")))?;
    let mut ids = Vec::new();
    Renderer::new()
        .append_message(&message, has_functions, &how.options, &mut ids)
        .map_err(|failure| refused(py, &failure))?;
    Ok(ids)
}

/// A built-in tool namespace, `browser` or `python`, as a dict.
#[pyfunction]
pub(crate) fn tool_namespace<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    let namespace = match name {
        "browser" => ToolNamespace::browser(),
        "python" => ToolNamespace::python(),
        _ => {
            let message = format!("Unknown tool namespace: {name}");
            return Err(error::invalid(py, &message));
        }
    };
    let tools = namespace.functions.iter().map(|function| {
        let mut tool = json!({
            "name": function.name,
            "description": function.description,
        });
        if let (Some(parameters), Some(tool)) = (&function.parameters, tool.as_object_mut()) {
            tool.insert("parameters".to_owned(), parameters.clone());
        }
        tool
    });
    let value = json!({
        "name": namespace.name,
        "description": namespace.description,
        "tools": tools.collect::<Vec<_>>(),
    });
    Ok(json::to_python(py, &value)?.cast_into()?)
}
