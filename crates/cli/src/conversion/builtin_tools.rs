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

/// Returns the loss of an entry in the list of built-in tools that names none.
pub(crate) fn unknown(entry: &Value) -> Loss {
    let text =
        format!("{entry} in the setting \"{BUILTIN_TOOLS}\" dropped: it is not a built-in tool");
    Loss::new(LossTarget::Transcript, LossKind::SettingDropped, text)
}

/// Replaces the list of built-in tools in the header with declarations.
///
/// Entries that name no built-in tool are dropped and listed.
pub(crate) fn declared(transcript: &Transcript) -> (Cow<'_, Transcript>, Vec<Loss>) {
    let header = transcript.header.as_ref();
    let setting = header.and_then(|header| header.generation_settings.get(BUILTIN_TOOLS));
    let Some(entries) = setting.and_then(Value::as_array) else {
        return (Cow::Borrowed(transcript), Vec::new());
    };
    let mut expanded = transcript.clone();
    let (mut losses, mut is_declared) = (Vec::new(), false);
    for entry in entries {
        match entry.as_str().and_then(declarations) {
            Some(tools) => {
                expanded.tools.extend(tools);
                is_declared = true;
            }
            None => losses.push(unknown(entry)),
        }
    }
    expanded.header = expanded.header.map(|mut header| {
        header.generation_settings.shift_remove(BUILTIN_TOOLS);
        header
    });
    if is_declared {
        let what = "built-in tools become declarations of functions";
        let target = LossTarget::Transcript;
        losses.push(Loss::new(target, LossKind::DeclarationChanged, what));
    }
    (Cow::Owned(expanded), losses)
}
