//! `write_file`: writes the complete content of a file.

use logue_message::Arguments;
use serde_json::json;

use super::arguments::ArgumentReader;
use super::file_edit::FileEdit;
use crate::AccessScope;
use crate::digest::sha256;
use crate::writing::{Change, MAX_FILE_BYTES, Plan, WriteTarget, lines_changed};

const DESCRIPTION: &str = "Writes the whole content of a file, exactly as it is given. A file that does \
    not exist is made; another one is replaced.";

/// Returns the tool `write_file` for files that `scope` allows.
pub(super) fn write_file(scope: &AccessScope) -> FileEdit {
    // style: allow(tell) sent to models
    let digest = "Replace the file only if this is the SHA-256 of what it holds, as an earlier write told it";
    let parameters = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file"},
            "content": {"type": "string", "description": "All that the file shall hold"},
            "create_only": {"type": "boolean", "description": "Whether to leave a file alone that is there already"},
            "expected_sha256": {"type": "string", "description": digest},
        },
        "required": ["path", "content"],
        "additionalProperties": false,
    });
    FileEdit::new(scope, "write_file", DESCRIPTION, parameters, plan)
}

/// The file that a call asks for.
struct Request<'a> {
    path: &'a str,
    content: &'a str,
    /// Fail if the file exists.
    create_only: bool,
    /// Fail unless the current content has this digest.
    expected: Option<String>,
}

fn plan(scope: &AccessScope, arguments: &Arguments) -> Result<Plan, String> {
    let known = ["path", "file", "content", "create_only", "expected_sha256"];
    let arguments = ArgumentReader::read(arguments, &known)?;
    let expected = arguments.optional_text("expected_sha256")?;
    let request = Request {
        path: arguments.text(&["path", "file"])?,
        content: arguments.text(&["content"])?,
        create_only: arguments.flag("create_only")?,
        expected: expected.map(parse_digest).transpose()?,
    };
    let (path, size) = (request.path, request.content.len());
    if request.create_only && request.expected.is_some() {
        return Err(
            "E-CALL-SCHEMA: expected_sha256: a file that is only made holds nothing before"
                .to_owned(),
        );
    }
    if size > MAX_FILE_BYTES {
        return Err(format!(
            "{path}: would have {size} bytes, more than the {MAX_FILE_BYTES} that tools write"
        ));
    }
    let target = WriteTarget::find(scope, path)?;
    let content = request.content.as_bytes();
    if target.metadata.is_some() {
        return replaced(target, &request);
    }
    if request.expected.is_some() {
        return Err(format!(
            "{path}: there is no such file. Nothing was changed"
        ));
    }
    let lines = lines_changed(b"", content).0;
    let digest = sha256(content);
    Ok(Plan {
        changes: vec![Change::replace(target, content.to_vec())],
        report: format!("{path}: created, {size} bytes, {lines} lines, sha256 {digest}"),
    })
}

/// Plans the replacement of a file that exists.
fn replaced(target: WriteTarget, request: &Request<'_>) -> Result<Plan, String> {
    let (path, content) = (request.path, request.content.as_bytes());
    if request.create_only {
        return Err(format!("{path}: is there already. Nothing was changed"));
    }
    let before = target.read()?;
    let found = sha256(&before);
    if request
        .expected
        .as_ref()
        .is_some_and(|expected| *expected != found)
    {
        return Err(format!(
            "{path}: holds something else than expected (sha256 {found}); read it again. \
             Nothing was changed"
        ));
    }
    let digest = sha256(content);
    if before == content {
        return Ok(Plan {
            changes: Vec::new(),
            report: format!("{path}: holds exactly that already, sha256 {digest}"),
        });
    }
    let (added, removed) = lines_changed(&before, content);
    let size = content.len();
    Ok(Plan {
        changes: vec![Change::replace(target, content.to_vec())],
        report: format!(
            "{path}: replaced, {size} bytes, +{added} -{removed} lines, sha256 {digest}"
        ),
    })
}

/// Parses a SHA-256 digest with an optional `sha256:` prefix.
fn parse_digest(text: &str) -> Result<String, String> {
    let digits = text.trim();
    let digits = digits.strip_prefix("sha256:").unwrap_or(digits);
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(digits.to_ascii_lowercase())
    } else {
        Err("E-CALL-SCHEMA: expected_sha256: must be 64 hexadecimal digits".to_owned())
    }
}
