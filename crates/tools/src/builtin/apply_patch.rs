//! `apply_patch`: changes several files, all of them or none.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::PathBuf;

use logue_message::Arguments;
use serde_json::{Value, json};

use super::arguments::ArgumentReader;
use super::file_edit::FileEdit;
use crate::AccessScope;
use crate::patch::apply::{Budget, apply};
use crate::patch::parse::{Action, Hunk, Section, parse};
use crate::writing::{Change, MAX_FILE_BYTES, Plan, WriteTarget, decode_text};

/// Maximum number of bytes that one patch writes and holds in memory.
const MAX_TOTAL_BYTES: usize = 4 * MAX_FILE_BYTES;

/// Maximum number of files that one patch changes.
const MAX_FILES: usize = 1_000;

const DESCRIPTION: &str = "Changes files by a patch, all of them or none. Its form:\n\
    *** Begin Patch\n\
    *** Add File: PATH\n\
    +each line of the new file\n\
    *** Delete File: PATH\n\
    *** Update File: PATH\n\
    *** Move to: NEW PATH (only to rename)\n\
    @@ a line before the change, if the lines below are not unique\n \
    a line that stays\n\
    -a line that goes\n\
    +a line that comes\n\
    *** End of File (only if the hunk ends where the file ends)\n\
    *** End Patch\n\
    Give about three lines that stay before and after each change. Hunks come in the order of the \
    file and have no line numbers.";

/// Returns the tool `apply_patch` for files that `scope` allows.
pub(super) fn apply_patch(scope: &AccessScope) -> FileEdit {
    let parameters = json!({
        "type": "object",
        "properties": {
            "input": {"type": "string", "description": "The patch, from *** Begin Patch to *** End Patch"},
        },
        "required": ["input"],
        "additionalProperties": false,
    });
    FileEdit::new(scope, "apply_patch", DESCRIPTION, parameters, plan)
}

fn plan(scope: &AccessScope, arguments: &Arguments) -> Result<Plan, String> {
    let patch = patch_text(arguments)?;
    if patch.len() > MAX_FILE_BYTES {
        return Err(format!("the patch has more than {MAX_FILE_BYTES} bytes"));
    }
    let unchanged = |reason: String| format!("{reason}. Nothing was changed");
    let sections = parse(&patch).map_err(unchanged)?;
    let files: usize = sections.iter().map(Section::files).sum();
    if files > MAX_FILES {
        return Err(unchanged(format!(
            "the patch names {files} files, and {MAX_FILES} are the most; make smaller patches"
        )));
    }
    let mut patched = Patched::new(scope);
    for section in &sections {
        patched.apply(section).map_err(unchanged)?;
    }
    let Patched { files, report, .. } = patched;
    let changes = files.into_values().filter_map(PlannedFile::change);
    Ok(Plan {
        changes: changes.collect(),
        report,
    })
}

/// Returns the patch: the parameter `input` or `patch`, or the text of a custom call.
pub(super) fn patch_text(arguments: &Arguments) -> Result<String, String> {
    let text = arguments.as_str();
    let start = text.trim_start();
    if !start.is_empty() && !start.starts_with(['{', '[', '"']) {
        return Ok(text.to_owned());
    }
    if let Ok(Value::String(patch)) = serde_json::from_str(text) {
        return Ok(patch);
    }
    let arguments = ArgumentReader::read(arguments, &["input", "patch"])?;
    arguments.text(&["input", "patch"]).map(str::to_owned)
}

/// The files as the patch leaves them, before any is written.
struct Patched<'a> {
    scope: &'a AccessScope,
    files: BTreeMap<PathBuf, PlannedFile>,
    budget: Budget,
    /// Number of bytes that may still be written.
    remaining_bytes: usize,
    /// The result that the model gets after the files are written.
    report: String,
}

/// A file of the patch.
struct PlannedFile {
    target: WriteTarget,
    state: State,
    like: Option<Metadata>,
}

/// The content of a file after the sections applied so far.
enum State {
    Absent,
    /// Unchanged on the disk.
    OnDisk,
    New(Vec<u8>),
}

impl PlannedFile {
    fn change(self) -> Option<Change> {
        let content = match self.state {
            State::OnDisk => return None,
            // Created and removed by the same patch.
            State::Absent if self.target.metadata.is_none() => return None,
            State::Absent => None,
            State::New(content) => Some(content),
        };
        Some(Change {
            target: self.target,
            content,
            like: self.like,
        })
    }

    fn is_there(&self) -> bool {
        !matches!(self.state, State::Absent)
    }
}

impl<'a> Patched<'a> {
    fn new(scope: &'a AccessScope) -> Self {
        Self {
            scope,
            files: BTreeMap::new(),
            budget: Budget::default(),
            remaining_bytes: MAX_TOTAL_BYTES,
            report: "The patch is applied:".to_owned(),
        }
    }

    fn apply(&mut self, section: &Section<'_>) -> Result<(), String> {
        let path = section.path;
        match &section.action {
            Action::Add(lines) => {
                let mut content = lines.join("\n");
                if !lines.is_empty() {
                    content.push('\n');
                }
                let file = self.file(path)?;
                if file.is_there() {
                    return Err(format!("{path}: is there already; use `*** Update File:`"));
                }
                file.like.clone_from(&file.target.metadata);
                self.set(path, content.into_bytes())?;
                self.report("A", path);
            }
            Action::Delete => {
                self.own(path)?.state = State::Absent;
                self.report("D", path);
            }
            Action::Update { to, hunks } => {
                let (content, loose) = self.updated(path, hunks)?;
                match to {
                    None => {
                        self.set(path, content)?;
                        self.report("M", path);
                    }
                    Some(to) => self.move_to(path, to, content)?,
                }
                for line in loose {
                    self.report.push_str(&format!(
                        "\n{path}: the hunk at line {line} was placed by lines that differ in white space"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Applies hunks; returns the content and the lines of inexact matches.
    fn updated(&mut self, path: &str, hunks: &[Hunk<'_>]) -> Result<(Vec<u8>, Vec<usize>), String> {
        let file = self.file(path)?;
        let content = match &mut file.state {
            State::Absent => {
                return Err(format!(
                    "{path}: there is no such file; use `*** Add File:`"
                ));
            }
            State::OnDisk => file.target.read()?,
            // The caller sets the new content.
            State::New(content) => std::mem::take(content),
        };
        if hunks.is_empty() {
            return Ok((content, Vec::new()));
        }
        let text = decode_text(path, content)?;
        let applied =
            apply(&text, hunks, &mut self.budget).map_err(|reason| format!("{path}: {reason}"))?;
        Ok((applied.text.into_bytes(), applied.loose))
    }

    fn move_to(&mut self, path: &str, to: &str, content: Vec<u8>) -> Result<(), String> {
        let like = self.own(path)?.like.clone();
        let target = self.file(to)?;
        if target.is_there() {
            return Err(format!(
                "{to}: is there already, so `{path}` does not move there"
            ));
        }
        target.like = like;
        self.set(to, content)?;
        self.own(path)?.state = State::Absent;
        self.report("M", &format!("{path} -> {to}"));
        Ok(())
    }

    /// Sets the new content of a file.
    fn set(&mut self, path: &str, content: Vec<u8>) -> Result<(), String> {
        self.remaining_bytes = self.remaining_bytes.checked_sub(content.len()).ok_or_else(|| {
            format!("{path}: with it the patch writes more than {MAX_TOTAL_BYTES} bytes; make smaller patches")
        })?;
        self.file(path)?.state = State::New(content);
        Ok(())
    }

    /// Returns the file that a path names; it may not exist.
    fn file(&mut self, path: &str) -> Result<&mut PlannedFile, String> {
        let target = WriteTarget::find(self.scope, path)?;
        let real = target.real.clone();
        Ok(self.files.entry(real).or_insert_with(|| PlannedFile {
            state: match target.metadata {
                Some(_) => State::OnDisk,
                None => State::Absent,
            },
            like: target.metadata.clone(),
            target,
        }))
    }

    /// Returns an existing file that is not a link.
    fn own(&mut self, path: &str) -> Result<&mut PlannedFile, String> {
        let file = self.file(path)?;
        if !file.is_there() {
            return Err(format!("{path}: there is no such file"));
        }
        if file.target.is_link {
            return Err(format!("{path}: is a link, so it is not removed"));
        }
        Ok(file)
    }

    fn report(&mut self, what: &str, path: &str) {
        self.report.push_str(&format!("\n{what} {path}"));
    }
}
