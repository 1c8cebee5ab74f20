//! `append_to_file`: text behind what a file holds.

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::changing::{Changing, carry_out, preview};
use super::given::Given;
use crate::writing::{Change, Place, Plan};
use crate::{BoxFuture, Call, Outcome, Preview, Reach, Tool};

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
}

impl Changing for AppendToFile {
    fn reach(&self) -> &Reach {
        &self.reach
    }

    fn plan(&self, arguments: &Arguments) -> Result<Plan, String> {
        let given = Given::read(arguments, &["path", "file", "content"])?;
        let path = given.text(&["path", "file"])?;
        let content = given.text(&["content"])?;
        let place = Place::find(&self.reach, path)?;
        let like = place.metadata.clone();
        let mut bytes = match like {
            Some(_) => place.read()?,
            None => Vec::new(),
        };
        bytes.extend_from_slice(content.as_bytes());
        let size = bytes.len();
        let added = content.len();
        Ok(Plan {
            changes: vec![Change {
                place,
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

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Outcome> {
        carry_out(self, call)
    }

    fn preview<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Option<Preview>> {
        preview(self, call)
    }
}
