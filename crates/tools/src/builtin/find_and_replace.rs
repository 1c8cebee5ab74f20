//! `find_and_replace`: replaces a text in a file.

use logue_message::Arguments;
use serde_json::json;

use super::arguments::ArgumentReader;
use super::file_edit::FileEdit;
use crate::AccessScope;
use crate::writing::{Change, MAX_FILE_BYTES, Plan, WriteTarget};

/// Maximum number of lines that an error lists.
const MAX_LISTED_LINES: usize = 10;

const DESCRIPTION: &str = "Replaces a text in a file, compared byte by byte. Without `all` the file must \
    hold it exactly once.";

/// Returns the tool `find_and_replace` for files that `scope` allows.
pub(super) fn find_and_replace(scope: &AccessScope) -> FileEdit {
    let parameters = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file"},
            "find": {"type": "string", "description": "The text to find"},
            "replace": {"type": "string", "description": "What stands in its place afterwards"}, // style: allow(stand) sent to models
            "all": {"type": "boolean", "description": "Whether to replace it everywhere"},
        },
        "required": ["path", "find", "replace", "all"],
        "additionalProperties": false,
    });
    FileEdit::new(scope, "find_and_replace", DESCRIPTION, parameters, plan)
}

/// The replacement that a call requests.
pub(super) struct Replacement {
    path: String,
    find: String,
    replace: String,
    all: bool,
}

impl Replacement {
    /// Reads the arguments of a call.
    pub(super) fn read(arguments: &Arguments) -> Result<Self, String> {
        let known = ["path", "file", "find", "search", "replace", "all"];
        let arguments = ArgumentReader::read(arguments, &known)?;
        let replacement = Self {
            path: arguments.text(&["path", "file"])?.to_owned(),
            find: arguments.text(&["find", "search"])?.to_owned(),
            replace: arguments.text(&["replace"])?.to_owned(),
            all: arguments.flag("all")?,
        };
        if replacement.find.is_empty() {
            return Err("E-CALL-SCHEMA: find: must not be empty".to_owned());
        }
        Ok(replacement)
    }
}

fn plan(scope: &AccessScope, arguments: &Arguments) -> Result<Plan, String> {
    let Replacement {
        path,
        find,
        replace,
        all,
    } = Replacement::read(arguments)?;
    let (path, find, replace) = (path.as_str(), find.as_str(), replace.as_str());
    let target = WriteTarget::find(scope, path)?;
    let text = target.text()?;
    let count = text.matches(find).count();
    if count == 0 {
        return Err(format!("{path}: {}", absent(&text, find)));
    }
    let lines = lines_of(&text, find);
    if count > 1 && !all {
        return Err(format!(
            "{path}: the text is there {count} times, {lines}; give more of what is around it, or set \
             `all` to replace every one. Nothing was changed"
        ));
    }
    let size =
        (text.len() - count * find.len()).saturating_add(count.saturating_mul(replace.len()));
    if size > MAX_FILE_BYTES {
        return Err(format!(
            "{path}: would have {size} bytes, more than the {MAX_FILE_BYTES} that tools write"
        ));
    }
    let content = text.replace(find, replace).into_bytes();
    Ok(Plan {
        changes: vec![Change::replace(target, content)],
        report: match count {
            1 => format!("{path}: replaced once, {lines}"),
            count => format!("{path}: replaced {count} times, {lines}"),
        },
    })
}

/// Lists the first lines on which a text begins.
fn lines_of(text: &str, find: &str) -> String {
    let mut line = 1;
    let mut seen = 0;
    let mut lines = Vec::new();
    let mut found = text.match_indices(find);
    for (at, _) in found.by_ref().take(MAX_LISTED_LINES) {
        line += text[seen..at].matches('\n').count();
        seen = at;
        lines.push(line.to_string());
    }
    let more = if found.next().is_some() { ", …" } else { "" };
    let word = if lines.len() == 1 { "line" } else { "lines" };
    format!("{word} {}{more}", lines.join(", "))
}

/// Explains a missing text with the line most similar to its first line.
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
