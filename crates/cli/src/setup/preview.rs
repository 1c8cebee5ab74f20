//! What the calls would do that a turn waits with.

use serde_json::Value;

/// What the calls would do that a turn waits with: each line behind a bar, as no text of its own.
pub(crate) fn previews(metadata: Option<&Value>) -> String {
    let calls = metadata.and_then(|metadata| metadata.get("calls")?.as_array());
    let shown = calls.into_iter().flatten().filter_map(|call| {
        let preview = call.get("preview")?.as_str()?;
        let lines = preview.lines().map(|line| format!("  │ {line}\n"));
        Some(lines.collect::<String>())
    });
    shown.collect::<Vec<_>>().join("  │\n")
}
