//! `append_to_file`: text behind what a file holds.

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::blocking;
use super::given::Given;
use crate::writing::{Change, Place, commit, exclusively};
use crate::{BoxFuture, Call, Outcome, Reach, Tool};

/// Appends text to a file, or starts one.
#[derive(Clone, Debug)]
pub struct AppendToFile {
    definition: ToolDefinition,
    reach: Reach,
}

impl AppendToFile {
    /// A tool that writes what `reach` lets it.
    pub fn new(reach: Reach) -> Self {
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
            reach,
        }
    }

    fn append(&self, arguments: &Arguments) -> Result<String, String> {
        let given = Given::read(arguments, &["path", "file", "content"])?;
        let path = given.text(&["path", "file"])?;
        let content = given.text(&["content"])?;
        let _alone = exclusively();
        let place = Place::find(&self.reach, path)?;
        let like = place.metadata.clone();
        let mut bytes = match like {
            Some(_) => place.read()?,
            None => Vec::new(),
        };
        bytes.extend_from_slice(content.as_bytes());
        let size = bytes.len();
        commit(
            &self.reach,
            &[Change {
                place,
                content: Some(bytes),
                like,
            }],
        )?;
        let added = content.len();
        Ok(format!("{path}: {added} bytes appended, {size} in all"))
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

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Outcome> {
        let (tool, arguments) = (self.clone(), call.arguments.clone());
        blocking(move || tool.append(&arguments))
    }
}
