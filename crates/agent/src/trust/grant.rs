//! The grant of a prompt: tools that can do more than read its directory.
//!
//! A [`Grant`] covers the declarations of the prompt and its imports, and those of every agent that
//! it can reach. Its [`id`](Grant::id) is a hash of their canonical form only: messages, settings
//! and the order of declarations do not change it, so a growing conversation keeps its id and a
//! changed command does not. The canonical form contains the directory of every declaration and the
//! content of the files that declarations execute or load: programs and scripts that a command or
//! server names, imports and agents. Files that those load in turn are not part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chatmd::{ShellDetails, ShellProfile, SourcePart, ToolDecl, ToolKind};
use logue_source::{quote_word, quote_words};
use logue_tools::{
    Builtin, BuiltinPower, FileContent, FileHasher, ShellPolicy, command_words, server_command,
};
use sha2::{Digest as _, Sha256};

use crate::trust::form::{DeclarationForm, GrantForm, PowerForm, PowerKind, path_text};

/// The grant of a prompt and its agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    pub(crate) own: PromptDeclarations,
    /// The agents, by canonical path.
    pub(crate) agents: BTreeMap<PathBuf, PromptDeclarations>,
    /// The directory of the prompt.
    pub(crate) folder: PathBuf,
}

/// A file whose content a grant covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct GrantFile {
    /// The path relative to the directory of the prompt, or absolute outside it.
    pub name: String,
    /// The content.
    pub content: FileContent,
}

/// A tool that does more than read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Power {
    /// The tool names for the model; `None` for a server, which names its own.
    names: Option<Vec<String>>,
    /// The description for people.
    line: String,
    /// The address of a server that is a program.
    server: Option<String>,
}

/// The declarations of one prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptDeclarations {
    /// Tools that do more than read, by their canonical form.
    powers: BTreeMap<PowerForm, Power>,
    /// Names of tools that only read or call an agent.
    pub(crate) harmless: BTreeSet<String>,
    /// The files that declarations execute or load, by absolute path.
    files: BTreeMap<PathBuf, FileContent>,
    /// The files that commands execute or load; `None` for a missing one.
    programs: ProgramFiles,
    /// The commands and servers that name no file below the directory, quoted for people.
    bare: BTreeSet<String>,
    /// The paths that tools cannot write: of those files and of missing ones.
    protected: BTreeSet<PathBuf>,
}

/// Files that commands execute or load, by absolute path; `None` for missing ones.
pub(crate) type ProgramFiles = BTreeMap<PathBuf, Option<FileContent>>;

impl PromptDeclarations {
    /// Classifies the tools of a document and hashes the files that they name.
    pub(crate) fn from_tools<'d>(
        tools: impl Iterator<Item = &'d ToolDecl>,
        folder: &Path,
        shell: &ShellPolicy,
        hasher: &mut FileHasher,
    ) -> Self {
        let mut declared = Self::default();
        for tool in tools {
            let names = tool.exposed_names().into_iter().map(str::to_owned);
            if let Some((kind, line)) = power(tool, folder) {
                let form = PowerForm::new(kind, folder.to_owned());
                // The tools of a server are known after it was asked.
                let is_server = matches!(tool.kind, ToolKind::McpServer { .. });
                let names = (!is_server).then(|| names.collect());
                let power = Power {
                    names,
                    line,
                    server: server_program(tool),
                };
                declared.powers.insert(form, power);
                declared.cover_command(tool, folder, shell, hasher);
            } else {
                declared.harmless.extend(names);
            }
        }
        declared
    }

    /// Adds the content of the imports among the parts of the document.
    #[must_use]
    pub(crate) fn with_imports(mut self, parts: &[SourcePart<'_>], folder: &Path) -> Self {
        for part in parts.iter().filter(|part| part.imported_at.is_some()) {
            self.cover_text(folder.join(&*part.name), &part.text);
        }
        self
    }

    /// Adds the text of an agent's prompt.
    #[must_use]
    pub(crate) fn with_prompt(mut self, path: &Path, text: &str) -> Self {
        self.cover_text(path.to_owned(), text);
        self
    }

    fn cover_text(&mut self, path: PathBuf, text: &str) {
        let content = FileContent::Hashed(format!("{:x}", Sha256::digest(text)));
        self.protected
            .insert(path.canonicalize().unwrap_or_else(|_| path.clone()));
        self.files.insert(path, content);
    }

    /// Adds the files that the words of a command or server name.
    fn cover_command(
        &mut self,
        tool: &ToolDecl,
        folder: &Path,
        shell: &ShellPolicy,
        hasher: &mut FileHasher,
    ) {
        let (name, words) = match &tool.kind {
            ToolKind::Command { name, command, .. } => (name.as_str(), command_words(command).ok()),
            ToolKind::McpServer { server, .. } => ("", server_command(server)),
            _ => return,
        };
        let environment = &shell.of(name).environment;
        let path = environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.as_os_str());
        let words = words.unwrap_or_default();
        let found = hasher.command(folder, &words, path);
        if found.files.is_empty() && !words.is_empty() {
            self.bare.insert(quote_words(&words));
        }
        let absent = found.absent.iter().map(|path| (path.clone(), None));
        self.programs.extend(absent);
        self.protected.extend(found.absent);
        for file in found.files {
            self.protected.insert(file.real);
            self.programs
                .insert(file.path.clone(), Some(file.content.clone()));
            self.files.insert(file.path, file.content);
        }
    }

    /// The canonical form.
    fn form(&self) -> DeclarationForm {
        DeclarationForm {
            powers: self.powers.keys().cloned().collect(),
            files: self.files.clone(),
        }
    }

    /// The id of the declarations of the prompt at `path`.
    pub(crate) fn id(&self, path: &Path) -> String {
        self.form().agent_id(path)
    }

    /// Returns whether no tool does more than read.
    pub(crate) fn is_empty(&self) -> bool {
        self.powers.is_empty()
    }
}

impl Grant {
    /// Returns whether there is nothing to trust.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.agents.values().all(PromptDeclarations::is_empty)
    }

    /// The id: `sha256:` and 64 digits.
    pub fn id(&self) -> String {
        self.form().id()
    }

    /// The canonical form, whose hash is the id.
    pub fn form(&self) -> GrantForm {
        let agents = self.agents.iter();
        let agents = agents.map(|(path, declared)| (path.clone(), declared.form()));
        GrantForm {
            folder: self.folder.clone(),
            own: self.own.form(),
            agents: agents.collect(),
        }
    }

    /// Describes the grant for people, one line per tool.
    ///
    /// The lines may contain characters that control a terminal.
    pub fn lines(&self) -> Vec<String> {
        let own = self.own.powers.values().map(|power| power.line.clone());
        let of_agents = self.agents.iter().flat_map(|(path, declared)| {
            let powers = declared.powers.values();
            powers.map(move |power| {
                let name = self.name(path);
                format!("agent {}: {}", quote_word(&name), power.line)
            })
        });
        own.chain(of_agents).collect()
    }

    /// Returns the addresses of the servers that are programs.
    ///
    /// The addresses may contain characters that control a terminal.
    pub fn server_programs(&self) -> BTreeSet<&str> {
        let all = std::iter::once(&self.own).chain(self.agents.values());
        let powers = all.flat_map(|declared| declared.powers.values());
        powers.filter_map(|power| power.server.as_deref()).collect()
    }

    /// Returns the files whose content the grant covers, sorted by name.
    ///
    /// The names may contain characters that control a terminal.
    pub fn files(&self) -> Vec<GrantFile> {
        let all = std::iter::once(&self.own).chain(self.agents.values());
        let files: BTreeMap<_, _> = all.flat_map(|declared| &declared.files).collect();
        let files = files.into_iter().map(|(path, content)| GrantFile {
            name: self.name(path),
            content: content.clone(),
        });
        let mut files: Vec<GrantFile> = files.collect();
        files.sort();
        files
    }

    /// Returns the covered files by absolute path.
    pub(crate) fn all_files(&self) -> BTreeMap<&PathBuf, &FileContent> {
        let all = std::iter::once(&self.own).chain(self.agents.values());
        all.flat_map(|declared| &declared.files).collect()
    }

    /// Returns the path and the content of the file with a name of [`files`](Self::files).
    pub(crate) fn file(&self, name: &str) -> Option<(&PathBuf, &FileContent)> {
        let mut files = self.all_files().into_iter();
        files.find(|(path, _)| self.name(path) == name)
    }

    /// Returns the commands and servers of whose files none is covered, shell-quoted.
    pub fn commands_without_files(&self) -> BTreeSet<&str> {
        let all = std::iter::once(&self.own).chain(self.agents.values());
        let bare = all.flat_map(|declared| &declared.bare);
        bare.map(String::as_str).collect()
    }

    /// Returns the files that commands of the prompt and its agents execute or load.
    pub(crate) fn programs(&self) -> ProgramFiles {
        let all = std::iter::once(&self.own).chain(self.agents.values());
        let programs = all.flat_map(|declared| declared.programs.clone());
        programs.collect()
    }

    /// Returns why the grant cannot be trusted beyond one command: a file could not be hashed.
    pub fn not_coverable(&self) -> Option<String> {
        let mut files = self.files().into_iter();
        files.find_map(|file| Some(format!("{}: {}", file.name, file.content.reason()?)))
    }

    /// Returns whether the prompt itself has exactly these declarations.
    pub(crate) fn has_own(&self, declared: &PromptDeclarations) -> bool {
        self.own.form() == declared.form()
    }

    /// Returns the paths that tools of the run cannot write.
    pub(crate) fn protected(&self) -> impl Iterator<Item = &PathBuf> {
        let all = std::iter::once(&self.own).chain(self.agents.values());
        all.flat_map(|declared| &declared.protected)
    }

    /// Returns a path relative to the directory of the prompt, if it is below it.
    fn name(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.folder).unwrap_or(path);
        path_text(name)
    }

    /// Iterates over the tool names; `None` for a server, which names its own.
    pub fn names(&self) -> impl Iterator<Item = Option<&str>> {
        let all = std::iter::once(&self.own).chain(self.agents.values());
        let powers = all.flat_map(|declared| declared.powers.values());
        powers.flat_map(|power| match &power.names {
            Some(names) => names.iter().map(|name| Some(name.as_str())).collect(),
            None => vec![None],
        })
    }

    pub(crate) fn harmless(&self) -> &BTreeSet<String> {
        &self.own.harmless
    }

    /// The ids of the covered agents.
    pub(crate) fn members(&self) -> BTreeSet<String> {
        let agents = self.agents.iter();
        agents.map(|(path, declared)| declared.id(path)).collect()
    }
}

/// Describes the effects of a tool beyond reading below the prompt's directory.
///
/// Returns the declared tool and a line for people. An agent is limited to the declarations of its
/// own prompt.
fn power(tool: &ToolDecl, folder: &Path) -> Option<(PowerKind, String)> {
    let place = path_text(folder);
    match &tool.kind {
        ToolKind::Builtin { name } => {
            // A tool that does not exist here is not offered.
            let line = match Builtin::named(name)?.iter().map(|it| it.power()).max()? {
                BuiltinPower::Reads => return None,
                BuiltinPower::Asks => {
                    "asks the model with the conversation, on the budget of the run"
                }
                BuiltinPower::Network => "reads pages of the network",
                BuiltinPower::Writes => "changes files below its folder",
                BuiltinPower::Runs => "runs programs that the model writes, in a sandbox",
                _ => "a built-in tool",
            };
            let text = format!("{name}: {line}, in {}", quote_word(&place));
            Some((PowerKind::Builtin(name.clone()), text))
        }
        ToolKind::Command { name, command, .. } => {
            // An invalid command runs nothing.
            let words = command_words(command).unwrap_or_default();
            let shown = quote_words(&words);
            let line = format!(
                "{}: in {} runs: {shown} …",
                quote_word(name),
                quote_word(&place)
            );
            Some(match &tool.shell {
                None => (PowerKind::Command(name.clone(), words), line),
                Some(shell) => restricted(&(name, words), shell, line),
            })
        }
        ToolKind::AnyProgram { name, .. } => {
            let line = format!(
                "{}: in {} runs any program that the model names",
                quote_word(name),
                quote_word(&place)
            );
            let shell = tool.shell.clone().unwrap_or_default();
            Some(restricted(&(name, "any program"), &shell, line))
        }
        ToolKind::Agent { .. } => None,
        ToolKind::McpServer { server, names, .. } => {
            let which = names.as_ref().map_or_else(
                || "all tools".to_owned(),
                |names| format!("the tools {}", quote_words(names)),
            );
            let shown = (quote_word(server), quote_word(&place));
            let line = format!("{which} of the MCP server {}, in {}", shown.0, shown.1);
            Some((PowerKind::Server(server.clone(), names.clone()), line))
        }
        other => {
            let words = format!("{other:?}");
            Some((PowerKind::Other(words.clone()), words))
        }
    }
}

/// Returns the power of a command with its restrictions, which trust covers.
fn restricted(
    command: &impl std::fmt::Debug,
    shell: &ShellDetails,
    line: String,
) -> (PowerKind, String) {
    let (profile, limits) = (shell.profile, &shell.arguments);
    let fields = format!("{command:?} {profile:?} {limits:?}");
    let line = match profile {
        Some(ShellProfile::ReadOnly) => format!("{line} (changes no files)"),
        _ => line,
    };
    (PowerKind::Other(fields), line)
}

/// Returns the address of a server that is a program.
fn server_program(tool: &ToolDecl) -> Option<String> {
    match &tool.kind {
        ToolKind::McpServer { server, .. } if server_command(server).is_some() => {
            Some(server.trim().to_owned())
        }
        _ => None,
    }
}
