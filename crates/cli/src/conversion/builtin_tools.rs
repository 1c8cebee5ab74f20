//! Built-in tools of a conversation as declarations, for rows of providers.

use std::borrow::Cow;

use logue_message::ToolDefinition;
use logue_tools::Builtin;
use openchatml::{Loss, LossKind, LossTarget, Transcript};
use serde_json::{Value, json};

use crate::conversion::chatmd::BUILTIN_TOOLS;

/// Returns the tools of a built-in's name; `None` for other names.
///
/// They are declared as in Chat Completions.
pub(crate) fn declarations(name: &str) -> Option<Vec<Value>> {
    let builtins = Builtin::named(name)?.into_iter();
    let tools = builtins.map(|builtin| declaration(&builtin.definition(&[])));
    Some(tools.collect())
}

fn declaration(tool: &ToolDefinition) -> Value {
    json!({"type": "function", "function": {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }})
}

/// Replaces the list of built-in tools in the header with declarations.
///
/// Does nothing if a name is not a built-in tool.
pub(crate) fn declared(transcript: &Transcript) -> (Cow<'_, Transcript>, Option<Loss>) {
    let unchanged = (Cow::Borrowed(transcript), None);
    let header = transcript.header.as_ref();
    let setting = header.and_then(|header| header.generation_settings.get(BUILTIN_TOOLS));
    let Some(names) = setting.and_then(Value::as_array) else {
        return unchanged;
    };
    let tools = names.iter().map(|name| declarations(name.as_str()?));
    let Some(tools) = tools.collect::<Option<Vec<_>>>() else {
        return unchanged;
    };
    let mut expanded = transcript.clone();
    expanded.tools.extend(tools.into_iter().flatten());
    expanded.header = expanded.header.map(|mut header| {
        header.generation_settings.shift_remove(BUILTIN_TOOLS);
        header
    });
    let what = "built-in tools become declarations of functions";
    let loss = Loss::new(LossTarget::Transcript, LossKind::DeclarationChanged, what);
    (Cow::Owned(expanded), Some(loss))
}
