//! `apply_patch`: changes in several files, all of them or none.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::PathBuf;

use logue_message::{Arguments, ToolDefinition};
use serde_json::{Value, json};

use super::blocking;
use super::given::Given;
use crate::patch::apply::{Budget, apply};
use crate::patch::parse::{Action, Section, parse};
use crate::writing::{Change, LARGEST, Place, commit, exclusively};
use crate::{BoxFuture, Outcome, Reach, Tool};

/// Applies a patch to the files below the roots.
#[derive(Clone, Debug)]
pub struct ApplyPatch {
    definition: ToolDefinition,
    reach: Reach,
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
    pub fn new(reach: Reach) -> Self {
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
            reach,
        }
    }

    fn patch(&self, arguments: &Arguments) -> Result<String, String> {
        let patch = patch_of(arguments)?;
        if patch.len() > LARGEST {
            return Err(format!("the patch has more than {LARGEST} bytes"));
        }
        let unchanged = |why: String| format!("{why}. Nothing was changed");
        let sections = parse(&patch).map_err(unchanged)?;
        let _alone = exclusively();
        let mut plan = Plan::new(&self.reach);
        for section in &sections {
            plan.take(section).map_err(unchanged)?;
        }
        let Plan { files, told, .. } = plan;
        let changes: Vec<Change> = files.into_values().filter_map(Planned::change).collect();
        commit(&self.reach, &changes)?;
        Ok(told)
    }
}

impl Tool for ApplyPatch {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
        let (tool, arguments) = (self.clone(), arguments.clone());
        blocking(move || tool.patch(&arguments))
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
    let given = Given::read(arguments, &["input", "patch"])?;
    given.text(&["input", "patch"]).map(str::to_owned)
}

/// The files as the patch leaves them, before anything is written.
struct Plan<'a> {
    reach: &'a Reach,
    files: BTreeMap<PathBuf, Planned>,
    budget: Budget,
    /// What the model is told when all is done.
    told: String,
}

/// A file of the plan.
struct Planned {
    place: Place,
    /// What it holds by now; `None` if it is not there.
    content: Option<String>,
    like: Option<Metadata>,
}

impl Planned {
    fn change(self) -> Option<Change> {
        // Made and removed by the same patch.
        if self.content.is_none() && self.place.metadata.is_none() {
            return None;
        }
        Some(Change {
            place: self.place,
            content: self.content.map(String::into_bytes),
            like: self.like,
        })
    }
}

impl<'a> Plan<'a> {
    fn new(reach: &'a Reach) -> Self {
        Self {
            reach,
            files: BTreeMap::new(),
            budget: Budget::default(),
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
                if file.content.is_some() {
                    return Err(format!("{path}: is there already; use `*** Update File:`"));
                }
                file.content = Some(content);
                file.like.clone_from(&file.place.metadata);
                self.tell("A", path);
            }
            Action::Delete => {
                let file = self.own(path)?;
                file.content = None;
                self.tell("D", path);
            }
            Action::Update { to, hunks } => {
                let mut budget = std::mem::take(&mut self.budget);
                let file = self.file(path)?;
                let Some(content) = &file.content else {
                    return Err(format!(
                        "{path}: there is no such file; use `*** Add File:`"
                    ));
                };
                let applied =
                    apply(content, hunks, &mut budget).map_err(|why| format!("{path}: {why}"))?;
                self.budget = budget;
                match to {
                    None => {
                        let file = self.file(path)?;
                        file.content = Some(applied.text);
                        self.tell("M", path);
                    }
                    Some(to) => self.move_to(path, to, applied.text)?,
                }
                for line in applied.loose {
                    self.told.push_str(&format!(
                        "\n{path}: the hunk at line {line} was placed by lines that differ in white space"
                    ));
                }
            }
        }
        Ok(())
    }

    fn move_to(&mut self, path: &str, to: &str, content: String) -> Result<(), String> {
        let like = self.own(path)?.like.clone();
        let target = self.file(to)?;
        if target.content.is_some() {
            return Err(format!(
                "{to}: is there already, so `{path}` does not move there"
            ));
        }
        target.content = Some(content);
        target.like = like;
        self.own(path)?.content = None;
        self.tell("M", &format!("{path} -> {to}"));
        Ok(())
    }

    /// The file that a path names, there or not.
    fn file(&mut self, path: &str) -> Result<&mut Planned, String> {
        let place = Place::find(self.reach, path)?;
        let planned = match self.files.entry(place.real.clone()) {
            std::collections::btree_map::Entry::Occupied(planned) => planned.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                let content = place.metadata.as_ref().map(|_| place.text()).transpose()?;
                free.insert(Planned {
                    like: place.metadata.clone(),
                    place,
                    content,
                })
            }
        };
        Ok(planned)
    }

    /// A file that is there under its own name.
    fn own(&mut self, path: &str) -> Result<&mut Planned, String> {
        let file = self.file(path)?;
        if file.content.is_none() {
            return Err(format!("{path}: there is no such file"));
        }
        if file.place.is_link {
            return Err(format!("{path}: is a link, so it is not removed"));
        }
        Ok(file)
    }

    fn tell(&mut self, what: &str, path: &str) {
        self.told.push_str(&format!("\n{what} {path}"));
    }
}
