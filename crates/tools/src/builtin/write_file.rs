//! `write_file`: the whole content of a file.

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::arguments::ArgumentReader;
use super::file_edit::{FileEdit, carry_out, preview};
use crate::writing::{Change, LARGEST, Plan, WriteTarget, lines_changed, sha256};
use crate::{AccessScope, BoxFuture, Preview, Tool, ToolInvocation, ToolResult};

/// Makes a file, or gives it another content.
#[derive(Clone, Debug)]
pub struct WriteFile {
    definition: ToolDefinition,
    scope: AccessScope,
}

impl WriteFile {
    /// A tool that writes what `reach` lets it.
    pub fn new(scope: AccessScope) -> Self {
        let description = "Writes the whole content of a file, exactly as it is given. A file that does not \
             exist is made; another one is replaced.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the file"},
                "content": {"type": "string", "description": "All that the file shall hold"},
                "create_only": {"type": "boolean", "description": "Whether to leave a file alone that is there already"},
                "expected_sha256": {"type": "string", "description": "Replace the file only if this is the SHA-256 of what it holds, as an earlier write told it"},
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("write_file", description, parameters),
            scope,
        }
    }
}

impl FileEdit for WriteFile {
    fn scope(&self) -> &AccessScope {
        &self.scope
    }

    fn plan(&self, arguments: &Arguments) -> Result<Plan, String> {
        let known = ["path", "file", "content", "create_only", "expected_sha256"];
        let given = ArgumentReader::read(arguments, &known)?;
        let path = given.text(&["path", "file"])?;
        let content = given.text(&["content"])?;
        let create_only = given.flag("create_only")?;
        let expected = given.optional_text("expected_sha256")?;
        let expected = expected.map(digest_of).transpose()?;
        if create_only && expected.is_some() {
            return Err(
                "E-CALL-SCHEMA: expected_sha256: a file that is only made holds nothing before"
                    .to_owned(),
            );
        }
        if content.len() > LARGEST {
            return Err(format!(
                "{path}: would have {} bytes, more than the {LARGEST} that tools write",
                content.len()
            ));
        }
        let target = WriteTarget::find(&self.scope, path)?;
        let size = content.len();
        let digest = sha256(content.as_bytes());
        let told = if target.metadata.is_none() {
            if expected.is_some() {
                return Err(format!(
                    "{path}: there is no such file. Nothing was changed"
                ));
            }
            let lines = lines_changed(b"", content.as_bytes()).0;
            format!("{path}: created, {size} bytes, {lines} lines, sha256 {digest}")
        } else {
            if create_only {
                return Err(format!("{path}: is there already. Nothing was changed"));
            }
            let before = target.read()?;
            let found = sha256(&before);
            if expected.is_some_and(|expected| expected != found) {
                return Err(format!(
                    "{path}: holds something else than expected (sha256 {found}); read it again. \
                     Nothing was changed"
                ));
            }
            if before == content.as_bytes() {
                return Ok(Plan {
                    changes: Vec::new(),
                    told: format!("{path}: holds exactly that already, sha256 {digest}"),
                });
            }
            let (added, removed) = lines_changed(&before, content.as_bytes());
            format!("{path}: replaced, {size} bytes, +{added} -{removed} lines, sha256 {digest}")
        };
        let like = target.metadata.clone();
        Ok(Plan {
            changes: vec![Change {
                target,
                content: Some(content.as_bytes().to_vec()),
                like,
            }],
            told,
        })
    }
}

impl Tool for WriteFile {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        carry_out(self, call)
    }

    fn preview<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<Preview>> {
        preview(self, call)
    }
}

/// A digest as a model may write it.
fn digest_of(text: &str) -> Result<String, String> {
    let digits = text.trim();
    let digits = digits.strip_prefix("sha256:").unwrap_or(digits);
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(digits.to_ascii_lowercase())
    } else {
        Err("E-CALL-SCHEMA: expected_sha256: must be 64 hexadecimal digits".to_owned())
    }
}
