//! `read_file`: lines of one text file.

use std::io::Read as _;
use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use serde_json::{Map, Value, json};

use crate::{BoxFuture, Roots, Tool, ToolInvocation, ToolResult};

/// Bytes of text that one call gives.
const SHOWN: usize = 380_928;

/// Bytes of a file that is read at all.
const FILE: u64 = 64 * 1024 * 1024;

/// Bytes that are looked at to tell text from binary.
const PROBE: usize = 8_000;

/// Reads a text file, or some of its lines.
#[derive(Clone, Debug)]
pub struct ReadFile {
    definition: ToolDefinition,
    roots: Arc<Roots>,
}

impl ReadFile {
    /// A reader confined to `roots`.
    pub fn new(roots: Arc<Roots>) -> Self {
        let description = "Reads a text file. The answer begins with the lines that it shows and the number of \
             lines of the whole file.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "file": {"type": "string", "description": "Path of the file"},
                "offset": {"type": "integer", "minimum": 0, "description": "Lines to skip; 0 if absent"},
                "line_count": {"type": "integer", "minimum": 1, "description": "Lines to show; all if absent"},
            },
            "required": ["file"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("read_file", description, parameters),
            roots,
        }
    }

    fn read(&self, arguments: &Arguments) -> Result<String, String> {
        let object = arguments
            .object()
            .map_err(|error| format!("the arguments are {error}"))?;
        let known = ["file", "path", "offset", "line_count"];
        if let Some(other) = object.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!(
                "E-CALL-SCHEMA: `{other}` is no parameter of this tool"
            ));
        }
        let path = object
            .get("file")
            .or_else(|| object.get("path"))
            .and_then(Value::as_str)
            .ok_or("E-CALL-SCHEMA: file: is required, a string")?;
        let offset = number(&object, "offset")?.unwrap_or(0);
        let count = number(&object, "line_count")?;

        let (file, metadata) = self
            .roots
            .open_file(path)
            .map_err(|error| error.to_string())?;
        if metadata.len() > FILE {
            return Err(format!(
                "{path}: has {} bytes, more than the {FILE} that are read",
                metadata.len()
            ));
        }
        let mut bytes = Vec::new();
        // The size may grow while it is read, so the limit holds here too.
        file.take(FILE)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{path}: {error}"))?;
        if bytes.iter().take(PROBE).any(|byte| *byte == 0) {
            return Err(format!("{path}: is a binary file, not text"));
        }
        Ok(show(path, &String::from_utf8_lossy(&bytes), offset, count))
    }
}

impl Tool for ReadFile {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn checks_arguments(&self) -> bool {
        true
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let (tool, arguments) = (self.clone(), call.arguments.clone());
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || tool.read(&arguments)).await;
            match read {
                Ok(Ok(text)) => ToolResult::success(text),
                Ok(Err(why)) => ToolResult::failure(why),
                Err(error) => ToolResult::failure(format!("the file could not be read: {error}")),
            }
        })
    }
}

fn number(object: &Map<String, Value>, key: &str) -> Result<Option<usize>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| format!("E-CALL-SCHEMA: {key}: must be a whole number of lines")),
    }
}

/// The lines asked for under a heading that says which they are.
fn show(path: &str, text: &str, offset: usize, count: Option<usize>) -> String {
    let total = text.lines().count();
    let wanted = text
        .split_inclusive('\n')
        .skip(offset)
        .take(count.unwrap_or(usize::MAX));
    let mut shown = String::new();
    let mut lines = 0;
    let mut cut = false;
    for line in wanted {
        let room = SHOWN - shown.len();
        if line.len() > room {
            let end = (0..=room)
                .rev()
                .find(|at| line.is_char_boundary(*at))
                .unwrap_or(0);
            shown.push_str(&line[..end]);
            lines += usize::from(end > 0);
            cut = true;
            break;
        }
        shown.push_str(line);
        lines += 1;
    }
    let first = if lines == 0 { offset } else { offset + 1 };
    let mut answer = format!(
        "{path}:{first}-{}\ntotal lines: {total}\n{shown}",
        offset + lines
    );
    if cut {
        if !answer.ends_with('\n') {
            answer.push('\n');
        }
        answer.push_str(&format!(
            "[cut after {SHOWN} bytes; read on with offset {}]",
            offset + lines
        ));
    }
    answer
}
