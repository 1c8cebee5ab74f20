//! The canonical form of a grant: the bytes whose hash is its id.
//!
//! Different grants have different forms: every value is an element of a JSON array or a string in
//! it, and paths are written without loss.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use logue_source::escape_unambiguous;
use logue_tools::FileContent;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The version of the canonical form. Grants of another version are not equal to any of this one.
const FORM: &str = "grant-3";

/// The contents of a grant that its id identifies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantForm {
    /// The directory of the prompt.
    pub folder: PathBuf,
    /// The declarations of the prompt and its imports.
    pub own: DeclarationForm,
    /// The declarations of each agent, by canonical path.
    pub agents: BTreeMap<PathBuf, DeclarationForm>,
}

/// The declarations of one prompt, and the files that they execute or load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclarationForm {
    /// The tools that do more than read.
    pub powers: BTreeSet<PowerForm>,
    /// The content of each file, by absolute path.
    pub files: BTreeMap<PathBuf, FileContent>,
}

/// A tool that does more than read, in the directory of its declaration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PowerForm {
    /// The declared tool.
    pub tool: PowerKind,
    /// The directory.
    pub folder: PathBuf,
}

/// The declaration of a tool that does more than read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PowerKind {
    /// A tool of the program.
    Builtin(String),
    /// A command: its name and its words.
    Command(String, Vec<String>),
    /// A server: its address, and the names of its tools; `None` for all of them.
    Server(String, Option<Vec<String>>),
    /// A tool of another kind, described by its fields.
    Other(String),
}

impl GrantForm {
    /// Returns the canonical bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let agents = self.agents.iter();
        let agents = agents.map(|(path, form)| json!([path_text(path), form.value()]));
        let agents: Vec<Value> = agents.collect();
        let value = json!([
            FORM,
            "prompt",
            path_text(&self.folder),
            self.own.value(),
            agents
        ]);
        value.to_string().into_bytes()
    }

    /// Returns the id: `sha256:` and 64 digits.
    pub(crate) fn id(&self) -> String {
        format!("sha256:{:x}", Sha256::digest(self.bytes()))
    }
}

impl DeclarationForm {
    fn value(&self) -> Value {
        let powers: Vec<Value> = self.powers.iter().map(PowerForm::value).collect();
        let files = self.files.iter();
        let files = files.map(|(path, content)| json!([path_text(path), content.label()]));
        json!([powers, files.collect::<Vec<Value>>()])
    }

    /// Returns the id of these declarations as those of the agent at `path`.
    pub(crate) fn agent_id(&self, path: &Path) -> String {
        let value = json!([FORM, "agent", path_text(path), self.value()]);
        format!("{:x}", Sha256::digest(value.to_string()))
    }
}

impl PowerForm {
    /// Creates the form of a tool in a directory.
    pub fn new(tool: PowerKind, folder: PathBuf) -> Self {
        Self { tool, folder }
    }

    fn value(&self) -> Value {
        let folder = path_text(&self.folder);
        match &self.tool {
            PowerKind::Builtin(name) => json!(["builtin", name, folder]),
            PowerKind::Command(name, words) => json!(["command", name, words, folder]),
            PowerKind::Server(server, names) => json!(["mcp", server, names, folder]),
            PowerKind::Other(fields) => json!(["other", fields, folder]),
        }
    }
}

/// Returns a path as text without loss: bytes that are not UTF-8 are escaped.
///
/// Different paths have different texts.
pub fn path_text(path: &Path) -> String {
    escape_unambiguous(path.as_os_str().as_encoded_bytes())
}
