//! The previews of the calls of a suspended turn.

use logue_source::{escape_json, escape_unambiguous};
use serde_json::Value;

/// Returns the previews of a suspended turn's calls, with a bar before each line.
///
/// The name of its tool precedes each preview. Without a preview, the arguments are shown.
pub(crate) fn previews(metadata: Option<&Value>) -> String {
    let calls = metadata.and_then(|metadata| metadata.get("calls")?.as_array());
    let shown = calls.into_iter().flatten().filter_map(|call| {
        let name = call.get("name")?.as_str()?.replace(['\n', '\t'], " ");
        let arguments = || escape_json(&call.get("arguments").unwrap_or_default().to_string());
        let preview = call.get("preview").and_then(Value::as_str);
        let preview = preview.map_or_else(arguments, str::to_owned);
        let lines = preview.lines().map(|line| format!("  │ {line}\n"));
        let name = escape_unambiguous(name);
        Some(format!("{name}:\n{}", lines.collect::<String>()))
    });
    shown.collect()
}
