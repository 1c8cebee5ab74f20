//! An MCP server whose tools and results are the content of a file.

use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;

use serde_json::{Value, json};

/// Serves `{"tools": […], "result": …}` on standard input and output.
pub(super) fn serve(path: &Path) -> io::Result<()> {
    let content: Value = serde_json::from_slice(&fs::read(path)?)?;
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        let Some(id) = message.get("id") else {
            continue;
        };
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "file", "version": "1"},
                "instructions": content["instructions"],
            }),
            "tools/list" => json!({"tools": content["tools"]}),
            "tools/call" => content["result"].clone(),
            _ => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        let mut out = io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
