//! `apply_patch`: changes in several files, all of them or none.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::PathBuf;

use logue_message::{Arguments, ToolDefinition};
use serde_json::{Value, json};

use super::arguments::ArgumentReader;
use super::file_edit::{FileEdit, carry_out, preview};
use crate::patch::apply::{Budget, apply};
use crate::patch::parse::{Action, Hunk, Section, parse};
use crate::writing::{Change, LARGEST, Plan, WriteTarget, text};
use crate::{AccessScope, BoxFuture, Preview, Tool, ToolInvocation, ToolResult};

/// Bytes that one patch writes, and has in memory before.
const ALL: usize = 4 * LARGEST;

/// Applies a patch to the files below the roots.
#[derive(Clone, Debug)]
pub struct ApplyPatch {
    definition: ToolDefinition,
    scope: AccessScope,
}

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

impl ApplyPatch {
    /// A tool that writes what `reach` lets it.
    pub fn new(scope: AccessScope) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "input": {"type": "string", "description": "The patch, from *** Begin Patch to *** End Patch"},
            },
            "required": ["input"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("apply_patch", DESCRIPTION, parameters),
            scope,
        }
    }
}

impl FileEdit for ApplyPatch {
    fn scope(&self) -> &AccessScope {
        &self.scope
    }

    fn plan(&self, arguments: &Arguments) -> Result<Plan, String> {
        let patch = patch_of(arguments)?;
        if patch.len() > LARGEST {
            return Err(format!("the patch has more than {LARGEST} bytes"));
        }
        let unchanged = |why: String| format!("{why}. Nothing was changed");
        let sections = parse(&patch).map_err(unchanged)?;
        let mut patched = Patched::new(&self.scope);
        for section in &sections {
            patched.take(section).map_err(unchanged)?;
        }
        let Patched { files, told, .. } = patched;
        let changes = files.into_values().filter_map(Planned::change).collect();
        Ok(Plan { changes, told })
    }
}

impl Tool for ApplyPatch {
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

/// The patch of a call: the parameter `input` or `patch`, or the free text of a custom call.
fn patch_of(arguments: &Arguments) -> Result<String, String> {
    let text = arguments.as_str();
    let start = text.trim_start();
    if !start.is_empty() && !start.starts_with(['{', '[', '"']) {
        return Ok(text.to_owned());
    }
    if let Ok(Value::String(patch)) = serde_json::from_str(text) {
        return Ok(patch);
    }
    let given = ArgumentReader::read(arguments, &["input", "patch"])?;
    given.text(&["input", "patch"]).map(str::to_owned)
}

/// The files as the patch leaves them, before anything is written.
struct Patched<'a> {
    scope: &'a AccessScope,
    files: BTreeMap<PathBuf, Planned>,
    budget: Budget,
    /// Bytes that may still be written.
    room: usize,
    /// What the model is told when all is done.
    told: String,
}

/// A file of the plan.
struct Planned {
    target: WriteTarget,
    state: State,
    like: Option<Metadata>,
}

/// What a file of the plan holds by now.
enum State {
    Absent,
    /// What the disk has.
    OnDisk,
    New(Vec<u8>),
}

impl Planned {
    fn change(self) -> Option<Change> {
        let content = match self.state {
            State::OnDisk => return None,
            // Made and removed by the same patch.
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
            room: ALL,
            told: "The patch is applied:".to_owned(),
        }
    }

    fn take(&mut self, section: &Section<'_>) -> Result<(), String> {
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
                self.tell("A", path);
            }
            Action::Delete => {
                self.own(path)?.state = State::Absent;
                self.tell("D", path);
            }
            Action::Update { to, hunks } => {
                let (content, loose) = self.updated(path, hunks)?;
                match to {
                    None => {
                        self.set(path, content)?;
                        self.tell("M", path);
                    }
                    Some(to) => self.move_to(path, to, content)?,
                }
                for line in loose {
                    self.told.push_str(&format!(
                        "\n{path}: the hunk at line {line} was placed by lines that differ in white space"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The content of a file with hunks put in, and where they were placed loosely.
    fn updated(&mut self, path: &str, hunks: &[Hunk<'_>]) -> Result<(Vec<u8>, Vec<usize>), String> {
        let file = self.file(path)?;
        let content = match &mut file.state {
            State::Absent => {
                return Err(format!(
                    "{path}: there is no such file; use `*** Add File:`"
                ));
            }
            State::OnDisk => file.target.read()?,
            // It gets its new content at once.
            State::New(content) => std::mem::take(content),
        };
        if hunks.is_empty() {
            return Ok((content, Vec::new()));
        }
        let text = text(path, content)?;
        let applied =
            apply(&text, hunks, &mut self.budget).map_err(|why| format!("{path}: {why}"))?;
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
        self.tell("M", &format!("{path} -> {to}"));
        Ok(())
    }

    /// Gives a file its content.
    fn set(&mut self, path: &str, content: Vec<u8>) -> Result<(), String> {
        self.room = self.room.checked_sub(content.len()).ok_or_else(|| {
            format!("{path}: with it the patch writes more than {ALL} bytes; make smaller patches")
        })?;
        self.file(path)?.state = State::New(content);
        Ok(())
    }

    /// The file that a path names, there or not.
    fn file(&mut self, path: &str) -> Result<&mut Planned, String> {
        let target = WriteTarget::find(self.scope, path)?;
        let real = target.real.clone();
        Ok(self.files.entry(real).or_insert_with(|| Planned {
            state: match target.metadata {
                Some(_) => State::OnDisk,
                None => State::Absent,
            },
            like: target.metadata.clone(),
            target,
        }))
    }

    /// A file that is there under its own name.
    fn own(&mut self, path: &str) -> Result<&mut Planned, String> {
        let file = self.file(path)?;
        if !file.is_there() {
            return Err(format!("{path}: there is no such file"));
        }
        if file.target.is_link {
            return Err(format!("{path}: is a link, so it is not removed"));
        }
        Ok(file)
    }

    fn tell(&mut self, what: &str, path: &str) {
        self.told.push_str(&format!("\n{what} {path}"));
    }
}
