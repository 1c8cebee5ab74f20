//! `read_file`: reads lines of a text file.

use std::io::Read as _;
use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::Builtin;
use super::arguments::ArgumentReader;
use super::blocking::blocking;
use crate::{BoxFuture, Roots, Tool, ToolInvocation, ToolResult};

/// Maximum size of a result in bytes.
const MAX_RESULT_BYTES: usize = 380_928;

/// Maximum size in bytes of a file that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Number of bytes examined to distinguish text from binary content.
const PROBE_BYTES: usize = 8_000;

/// Reads a text file, or some of its lines.
#[derive(Clone, Debug)]
pub struct ReadFile {
    definition: ToolDefinition,
    roots: Arc<Roots>,
}

/// The lines that a call requests.
pub(super) struct ReadRequest {
    path: String,
    offset: usize,
    count: Option<usize>,
}

impl ReadRequest {
    /// Reads the arguments of a call.
    pub(super) fn read(arguments: &Arguments) -> Result<Self, String> {
        let known = ["file", "path", "offset", "line_count"];
        let arguments = ArgumentReader::read(arguments, &known)?;
        Ok(Self {
            path: arguments.text(&["file", "path"])?.to_owned(),
            offset: arguments.line_count("offset")?.unwrap_or(0),
            count: arguments.line_count("line_count")?,
        })
    }
}

impl ReadFile {
    /// Creates a tool confined to `roots`.
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
        let ReadRequest {
            path,
            offset,
            count,
        } = ReadRequest::read(arguments)?;
        let path = path.as_str();
        let opened = self.roots.open_file(path);
        let opened = opened.map_err(|error| error.to_string())?;
        let size = opened.metadata.len();
        if size > MAX_FILE_BYTES {
            return Err(format!(
                "{path}: has {size} bytes, more than the {MAX_FILE_BYTES} that are read"
            ));
        }
        let mut bytes = Vec::new();
        // The file may grow while it is read, so the limit applies here too.
        let mut file = opened.file.take(MAX_FILE_BYTES);
        file.read_to_end(&mut bytes)
            .map_err(|error| format!("{path}: {error}"))?;
        if bytes.iter().take(PROBE_BYTES).any(|byte| *byte == 0) {
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
        Builtin::ReadFile.is_read_only()
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let (tool, arguments) = (self.clone(), call.arguments.clone());
        blocking(move || tool.read(&arguments))
    }
}

/// Formats the requested lines under a heading with their numbers.
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
        let room = MAX_RESULT_BYTES - shown.len();
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
            "[cut after {MAX_RESULT_BYTES} bytes; read on with offset {}]",
            offset + lines
        ));
    }
    answer
}
