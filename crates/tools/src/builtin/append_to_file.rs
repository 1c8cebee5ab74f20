//! `append_to_file`: text behind what a file holds.

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::arguments::ArgumentReader;
use super::file_edit::{FileEdit, carry_out, preview};
use crate::writing::{Change, Plan, WriteTarget};
use crate::{AccessScope, BoxFuture, Preview, Tool, ToolInvocation, ToolResult};

/// Appends text to a file, or starts one.
#[derive(Clone, Debug)]
pub struct AppendToFile {
    definition: ToolDefinition,
    scope: AccessScope,
}

impl AppendToFile {
    /// A tool that writes what `reach` lets it.
    pub fn new(scope: AccessScope) -> Self {
        let description = "Appends text to a file, exactly as it is given; begin it with a line break \
             where a new line shall begin. A file that does not exist is made.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the file"},
                "content": {"type": "string", "description": "The text"},
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("append_to_file", description, parameters),
            scope,
        }
    }
}

impl FileEdit for AppendToFile {
    fn scope(&self) -> &AccessScope {
        &self.scope
    }

    fn plan(&self, arguments: &Arguments) -> Result<Plan, String> {
        let given = ArgumentReader::read(arguments, &["path", "file", "content"])?;
        let path = given.text(&["path", "file"])?;
        let content = given.text(&["content"])?;
        let target = WriteTarget::find(&self.scope, path)?;
        let like = target.metadata.clone();
        let mut bytes = match like {
            Some(_) => target.read()?,
            None => Vec::new(),
        };
        bytes.extend_from_slice(content.as_bytes());
        let size = bytes.len();
        let added = content.len();
        Ok(Plan {
            changes: vec![Change {
                target,
                content: Some(bytes),
                like,
            }],
            told: format!("{path}: {added} bytes appended, {size} in all"),
        })
    }
}

impl Tool for AppendToFile {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn checks_arguments(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        carry_out(self, call)
    }

    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        preview(self, call)
    }
}
