//! `read_dir`: lists the entries of a directory.

use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::Builtin;
use super::arguments::ArgumentReader;
use super::blocking::blocking;
use crate::roots::PlaceEntry;
use crate::{BoxFuture, EntryKind, RootError, Roots, Tool, ToolInvocation, ToolResult};

/// Maximum number of entries in a result.
const MAX_ENTRIES: usize = 2_000;

/// Lists a directory. Declared as `read_dir` or `read_directory`; the model calls the latter.
#[derive(Clone, Debug)]
pub struct ReadDirectory {
    definition: ToolDefinition,
    roots: Arc<Roots>,
}

impl ReadDirectory {
    /// Creates a tool confined to `roots`.
    pub fn new(roots: Arc<Roots>) -> Self {
        let description =
            "Lists the entries of a folder in the order of their names; a folder's name ends in /.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the folder"},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("read_directory", description, parameters),
            roots,
        }
    }

    fn list(&self, arguments: &Arguments) -> Result<String, String> {
        let arguments = ArgumentReader::read(arguments, &["path"])?;
        let path = arguments.text(&["path"])?;
        let path = if path.is_empty() { "." } else { path };
        let place = self.roots.find(path).map_err(|error| error.to_string())?;
        let folder = match (&place.entry, place.trail.last()) {
            (PlaceEntry::Folder, Some(folder)) => folder,
            (PlaceEntry::Absent { .. } | PlaceEntry::Nowhere(_), _) => {
                return Err(RootError::NotFound(path.to_owned()).to_string());
            }
            _ => return Err(format!("{path}: is not a folder")),
        };
        let found = folder.entries(usize::MAX);
        let found = found.map_err(|error| format!("{path}: {error}"))?;
        let entries = found.entries.into_iter();
        let names = entries.map(|(name, kind)| {
            let mut name = name.to_string_lossy().into_owned();
            if kind == EntryKind::Folder {
                name.push('/');
            }
            name
        });
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        if names.is_empty() {
            return Ok(format!("{path}: the folder is empty"));
        }
        let more = names.len().saturating_sub(MAX_ENTRIES);
        names.truncate(MAX_ENTRIES);
        let mut answer = names.join("\n");
        if more > 0 {
            answer.push_str(&format!("\n[{more} more entries]"));
        }
        Ok(answer)
    }
}

impl Tool for ReadDirectory {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_read_only(&self) -> bool {
        Builtin::ReadDirectory.is_read_only()
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let (tool, arguments) = (self.clone(), call.arguments.clone());
        blocking(move || tool.list(&arguments))
    }
}
