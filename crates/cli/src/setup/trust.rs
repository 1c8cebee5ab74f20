//! The trust in prompts, and the question to the user about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{FileLoader, Grant, GrantChange, PromptScope, TrustFile, Trusted};
use logue_harness::Clock as _;
use logue_source::escape_unambiguous;
use logue_tools::Roots;
use logue_tools::mcp::McpOptions;

use crate::exit::CliError;
use crate::files::folder_of;
use crate::language::Language;
use crate::setup::evaluation::base_of;
use crate::setup::failures::source_failure;
use crate::setup::server_access::{self, AccessByServer};
use crate::setup::settings::{Settings, TrustSettings};
use crate::setup::terminal_approver::line;
use crate::setup::trust_changes::{self, TrustChange};
use crate::setup::trust_file::failed;
use crate::terminal::print_error;
use logue_harness::SystemClock;

/// Returns the path of a prompt; standard input is `-` in the current directory.
pub(crate) fn place_of(prompt: Option<&Path>) -> PathBuf {
    let path = prompt.unwrap_or(Path::new("-"));
    let real = path.canonicalize();
    real.unwrap_or_else(|_| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Returns whether a prompt is in a trusted directory.
pub(crate) fn is_own(settings: &TrustSettings, place: &Path) -> bool {
    let mut folders = settings
        .directories
        .iter()
        .filter_map(|folder| folder.canonicalize().ok());
    folders.any(|folder| place.starts_with(folder))
}

/// Reads a prompt and returns its grant. Nothing that the prompt names is started.
pub(crate) fn grant_of(path: &Path, settings: &Settings) -> Result<Grant, CliError> {
    let name = path.display().to_string();
    let bytes = logue_agent::read_bytes(path).map_err(|error| source_failure(&error))?;
    let text = logue_agent::into_text(&name, bytes).map_err(|error| source_failure(&error))?;
    let language = Language::detect(Some(path), text.as_bytes());
    let base = base_of(path, &text, language);
    let base = base.as_deref().unwrap_or(path);
    let folder = folder_of(base);
    // A run may name agents in the directories of the configuration.
    let roots = settings.tools.roots.iter().cloned();
    let roots = Roots::new(std::iter::once(folder.clone()).chain(roots)).map_err(|error| {
        let message = format!("cannot use a directory of `{name}`: {error}");
        CliError::user("E-SOURCE-READ", message)
    })?;
    let world = FileLoader::new(Arc::new(roots), &folder_of(path)).with_file(base);
    Ok(PromptScope::new(world, settings.tools.shell.clone()).grant(&name, &text))
}

/// The reason why a prompt is or is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrustReason {
    /// Its tools only read.
    Harmless,
    /// `LOGUE_TRUST=all`.
    Everything,
    /// It is in a trusted directory.
    OwnDirectory,
    /// The trust file contains its grant, with the access of its server programs.
    Listed(AccessByServer),
    /// A file that it covers cannot be hashed.
    NotCoverable(String),
    /// The trust file contains another grant of the prompt.
    Changed,
    /// The trust file does not contain the prompt.
    Unknown,
}

impl TrustReason {
    /// Determines the reason from the settings and the trust file.
    pub(crate) fn find(
        settings: &TrustSettings,
        file: Option<&TrustFile>,
        place: &Path,
        grant: &Grant,
    ) -> Result<Self, CliError> {
        if grant.is_empty() {
            return Ok(Self::Harmless);
        }
        if settings.everything {
            return Ok(Self::Everything);
        }
        if is_own(settings, place) {
            return Ok(Self::OwnDirectory);
        }
        if let Some(reason) = grant.not_coverable() {
            return Ok(Self::NotCoverable(reason));
        }
        let Some(file) = file else {
            return Ok(Self::Unknown);
        };
        if let Some(entry) = file.entry(grant).map_err(|error| failed(file, &error))? {
            return Ok(Self::Listed(entry.servers));
        }
        let known = file.known(place).map_err(|error| failed(file, &error))?;
        Ok(known.map_or(Self::Unknown, |_| Self::Changed))
    }

    pub(crate) fn is_trusted(&self) -> bool {
        matches!(
            self,
            Self::Harmless | Self::Everything | Self::OwnDirectory | Self::Listed(_)
        )
    }

    /// Returns the access of server programs that the user gave with the trust.
    pub(crate) fn servers(self) -> AccessByServer {
        match self {
            Self::Listed(servers) => servers,
            _ => AccessByServer::new(),
        }
    }
}

/// The question about an unknown prompt.
pub(crate) struct TrustRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: &'a Path,
    pub(crate) grant: &'a Grant,
    pub(crate) file: Option<&'a TrustFile>,
    pub(crate) mcp: &'a McpOptions,
}

impl TrustRequest<'_> {
    /// Asks at the terminal whether to trust the prompt, and stores the trust.
    ///
    /// Returns the access of its server programs; `None` if it is not trusted.
    pub(crate) async fn ask(&self) -> Result<Option<AccessByServer>, CliError> {
        print_error(&self.words()?);
        // A grant that is not coverable cannot be stored.
        let file = self.file.filter(|_| self.grant.not_coverable().is_none());
        loop {
            print_error("Trust it? [y/o/N/?] ");
            let Some(line) = line().await else {
                print_error("\n");
                return Ok(None);
            };
            match (line.trim(), file) {
                ("y" | "Y" | "yes", Some(file)) => {
                    let Some(servers) = server_access::ask(self.grant, self.mcp).await else {
                        return Ok(None);
                    };
                    let now = SystemClock.now();
                    file.add_with_servers(self.place, self.grant, servers.clone(), now)
                        .map_err(|error| failed(file, &error))?;
                    return Ok(Some(servers));
                }
                ("y" | "Y" | "yes", None) | ("o" | "O", _) => {
                    return Ok(server_access::ask(self.grant, self.mcp).await);
                }
                ("" | "n" | "N" | "no", _) => return Ok(None),
                _ => print_error(
                    "  y  yes, until its declarations or these files change (`logue trust remove` withdraws it)\n  \
                     o  once, for this command\n  \
                     n  no: each call of these tools requires approval\n",
                ),
            }
        }
    }

    fn words(&self) -> Result<String, CliError> {
        let known = self.file.map(|file| {
            let known = file.known(self.place);
            known.map_err(|error| failed(file, &error))
        });
        let known = known.transpose()?.flatten();
        let name = single(self.name);
        let mut text = match &known {
            None => format!("\n{name} is not trusted yet. Its model may use:\n"),
            Some(_) => format!(
                "\n{name} has different declarations than those you trusted (- before, + now):\n"
            ),
        };
        let known = self.file.zip(known.as_ref());
        for line in diff(self.grant, known) {
            text.push_str(&format!("  │ {}\n", single(&line)));
        }
        if !self.grant.files().is_empty() {
            text.push_str(
                "Trust covers the content of these files, and not what they load in turn.\n",
            );
        }
        text.push_str(&uncovered(self.grant));
        if let Some(reason) = self.grant.not_coverable() {
            text.push_str(&format!(
                "The question returns at the next command, because of a file. {}\n",
                single(&reason)
            ));
        }
        Ok(text)
    }
}

/// Returns the lines and files of a grant, after the differences from an earlier one.
fn diff(grant: &Grant, known: Option<(&TrustFile, &Trusted)>) -> Vec<String> {
    let files = grant.files().into_iter();
    let files = files.map(|file| (format!("file {}", file.name), file.name));
    let lines = grant.lines().into_iter().map(|line| (line.clone(), line));
    let Some((file, known)) = known else {
        return lines.chain(files).map(|(text, _)| text).collect();
    };
    let changes = grant.changes_since(known);
    let is_changed = |subject: &str| {
        changes.iter().any(|change| match change {
            GrantChange::Added { declares } => declares == subject,
            GrantChange::FileAdded { path } | GrantChange::FileChanged { path } => path == subject,
            _ => false,
        })
    };
    let same = lines
        .chain(files)
        .filter(|(_, subject)| !is_changed(subject));
    let same = same.map(|(text, _)| format!("  {text}"));
    let changed = trust_changes::since(file, known, grant);
    let changed = changed.iter().flat_map(TrustChange::lines);
    changed.chain(same).collect()
}

/// Names the commands and servers of which trust covers the words only.
pub(crate) fn uncovered(grant: &Grant) -> String {
    let commands = grant.commands_without_files().into_iter();
    let lines = commands
        .map(|command| format!("No file of this command is covered, only its words: {command}\n"));
    lines.collect()
}

/// Returns escaped text of a prompt on one line.
pub(crate) fn single(text: &str) -> String {
    escape_unambiguous(text.replace(['\n', '\t'], " "))
}
