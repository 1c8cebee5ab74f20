//! `append_to_file`: appends text to a file.

use logue_message::Arguments;
use serde_json::json;

use super::arguments::ArgumentReader;
use super::file_edit::FileEdit;
use crate::AccessScope;
use crate::writing::{Change, Plan, WriteTarget};

const DESCRIPTION: &str = "Appends text to a file, exactly as it is given; begin it with a line break \
    where a new line shall begin. A file that does not exist is made.";

/// Returns the tool `append_to_file` for files that `scope` allows.
pub(super) fn append_to_file(scope: &AccessScope) -> FileEdit {
    let parameters = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file"},
            "content": {"type": "string", "description": "The text"},
        },
        "required": ["path", "content"],
        "additionalProperties": false,
    });
    FileEdit::new(scope, "append_to_file", DESCRIPTION, parameters, plan)
}

/// Reads the arguments of a call.
pub(super) fn path_and_content(arguments: &Arguments) -> Result<(String, String), String> {
    let arguments = ArgumentReader::read(arguments, &["path", "file", "content"])?;
    let path = arguments.text(&["path", "file"])?.to_owned();
    let content = arguments.text(&["content"])?.to_owned();
    Ok((path, content))
}

fn plan(scope: &AccessScope, arguments: &Arguments) -> Result<Plan, String> {
    let (path, content) = path_and_content(arguments)?;
    let target = WriteTarget::find(scope, &path)?;
    let mut bytes = match target.metadata {
        Some(_) => target.read()?,
        None => Vec::new(),
    };
    bytes.extend_from_slice(content.as_bytes());
    let (added, size) = (content.len(), bytes.len());
    Ok(Plan {
        changes: vec![Change::replace(target, bytes)],
        report: format!("{path}: {added} bytes appended, {size} in all"),
    })
}
