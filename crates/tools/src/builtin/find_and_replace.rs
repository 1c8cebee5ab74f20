//! `find_and_replace`: other words for words in a file.

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::arguments::ArgumentReader;
use super::file_edit::{FileEdit, carry_out, preview};
use crate::writing::{Change, LARGEST, Plan, WriteTarget};
use crate::{AccessScope, BoxFuture, Preview, Tool, ToolInvocation, ToolResult};

/// Lines that an error names.
const NAMED: usize = 10;

/// Replaces a text in a file, once or everywhere.
#[derive(Clone, Debug)]
pub struct FindAndReplace {
    definition: ToolDefinition,
    scope: AccessScope,
}

impl FindAndReplace {
    /// A tool that writes what `reach` lets it.
    pub fn new(scope: AccessScope) -> Self {
        let description = "Replaces a text in a file, compared byte by byte. Without `all` the file must \
             hold it exactly once.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the file"},
                "find": {"type": "string", "description": "The text to find"},
                "replace": {"type": "string", "description": "What stands in its place afterwards"},
                "all": {"type": "boolean", "description": "Whether to replace it everywhere"},
            },
            "required": ["path", "find", "replace", "all"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("find_and_replace", description, parameters),
            scope,
        }
    }
}

impl FileEdit for FindAndReplace {
    fn scope(&self) -> &AccessScope {
        &self.scope
    }

    fn plan(&self, arguments: &Arguments) -> Result<Plan, String> {
        let known = ["path", "file", "find", "search", "replace", "all"];
        let given = ArgumentReader::read(arguments, &known)?;
        let path = given.text(&["path", "file"])?;
        let find = given.text(&["find", "search"])?;
        let replace = given.text(&["replace"])?;
        let all = given.flag("all")?;
        if find.is_empty() {
            return Err("E-CALL-SCHEMA: find: must not be empty".to_owned());
        }
        let target = WriteTarget::find(&self.scope, path)?;
        let text = target.text()?;
        let count = text.matches(find).count();
        if count == 0 {
            return Err(format!("{path}: {}", absent(&text, find)));
        }
        if count > 1 && !all {
            return Err(format!(
                "{path}: the text is there {count} times, {}; give more of what is around it, or set \
                 `all` to replace every one. Nothing was changed",
                lines_of(&text, find)
            ));
        }
        let size =
            (text.len() - count * find.len()).saturating_add(count.saturating_mul(replace.len()));
        if size > LARGEST {
            return Err(format!(
                "{path}: would have {size} bytes, more than the {LARGEST} that tools write"
            ));
        }
        let lines = lines_of(&text, find);
        let content = Some(text.replace(find, replace).into_bytes());
        let like = target.metadata.clone();
        Ok(Plan {
            changes: vec![Change {
                target,
                content,
                like,
            }],
            told: match count {
                1 => format!("{path}: replaced once, {lines}"),
                count => format!("{path}: replaced {count} times, {lines}"),
            },
        })
    }
}

impl Tool for FindAndReplace {
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

/// The lines at which a text begins, the first few of them.
fn lines_of(text: &str, find: &str) -> String {
    let mut line = 1;
    let mut seen = 0;
    let mut lines = Vec::new();
    let mut found = text.match_indices(find);
    for (at, _) in found.by_ref().take(NAMED) {
        line += text[seen..at].matches('\n').count();
        seen = at;
        lines.push(line.to_string());
    }
    let more = if found.next().is_some() { ", …" } else { "" };
    let word = if lines.len() == 1 { "line" } else { "lines" };
    format!("{word} {}{more}", lines.join(", "))
}

/// Why a text is not found, with the line that is most like its beginning.
fn absent(text: &str, find: &str) -> String {
    let wanted = find.lines().map(str::trim).find(|line| !line.is_empty());
    let like = wanted.and_then(|wanted| {
        let mut lines = text.lines().enumerate();
        lines.find(|(_, line)| line.trim() == wanted)
    });
    let hint = match like {
        Some((number, _))
            if text.contains("\r\n") && find.contains('\n') && !find.contains('\r') =>
        {
            format!(
                "; its first line is line {}, but the lines of the file end in CR LF",
                number + 1
            )
        }
        Some((number, _)) => format!(
            "; line {} is like its first line: compare white space and what follows",
            number + 1
        ),
        None => String::new(),
    };
    format!("the text is not there{hint}. Nothing was changed")
}
