//! The previews of the calls of a suspended turn.

use serde_json::Value;

/// Returns the previews of a suspended turn's calls, with a bar before each line.
pub(crate) fn previews(metadata: Option<&Value>) -> String {
    let calls = metadata.and_then(|metadata| metadata.get("calls")?.as_array());
    let shown = calls.into_iter().flatten().filter_map(|call| {
        let preview = call.get("preview")?.as_str()?;
        let lines = preview.lines().map(|line| format!("  │ {line}\n"));
        Some(lines.collect::<String>())
    });
    shown.collect::<Vec<_>>().join("  │\n")
}
