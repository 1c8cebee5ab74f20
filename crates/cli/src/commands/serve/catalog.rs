//! The prompts of a server, each with the version that its turns use.
//!
//! A turn uses the text that was checked, not the file: a file that is being written or has errors
//! changes nothing for clients until a later content passes its check.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime};

use logue_agent::{HostError, read_bytes};

use crate::exit::{CliError, Exit};
use crate::setup::failures::source_failure;
use crate::setup::prompt_files::prompt_files;

/// The interval between two searches of the directories.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time in which a changed file must not change again before it is checked.
const SETTLE: Duration = Duration::from_millis(300);
/// The wait before an agent with an error is checked again. It doubles each time.
const RECHECK: Duration = Duration::from_secs(5);
/// The longest of these waits.
const MAX_RECHECK: Duration = Duration::from_secs(300);

/// The agents of a server by name.
pub(super) struct Catalog {
    paths: Vec<PathBuf>,
    agents: RwLock<BTreeMap<String, Entry>>,
}

/// A content of a prompt.
#[derive(Clone, Debug)]
pub(super) struct PromptVersion {
    /// The absolute path of the prompt.
    pub(super) file: PathBuf,
    pub(super) bytes: Arc<[u8]>,
}

/// A content of a prompt that has not been checked.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) name: String,
    /// The content, or the error of reading it.
    pub(super) version: Result<PromptVersion, CliError>,
    file: PathBuf,
}

impl Candidate {
    fn read(name: String, file: PathBuf) -> Self {
        let bytes = read_bytes(&file).map_err(|error| source_failure(&error));
        let version = bytes.map(|bytes| PromptVersion {
            file: file.clone(),
            bytes: bytes.into(),
        });
        Self {
            name,
            version,
            file,
        }
    }

    /// Returns whether the command line names the file itself.
    pub(super) fn is_named(&self, paths: &[PathBuf]) -> bool {
        paths.iter().any(|path| absolute(path) == self.file)
    }
}

/// The error of an agent whose current content is not served.
#[derive(Clone, Debug)]
pub(super) struct AgentFault {
    pub(super) error: Arc<CliError>,
    /// Whether an earlier content is served.
    pub(super) serves_earlier: bool,
}

impl AgentFault {
    /// Returns the error for the end of the command.
    pub(super) fn into_error(self) -> CliError {
        Arc::unwrap_or_clone(self.error)
    }

    /// Returns the error for clients, with the whole report as its message.
    pub(super) fn into_host_error(self) -> HostError {
        HostError::new(self.error.code.clone(), self.error.text())
    }
}

/// The change marks of a file; the default ones if it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FileState {
    modified: Option<SystemTime>,
    len: u64,
    /// The file's number and its last status change, where the system has them.
    identity: (u64, i64, i64),
}

#[derive(Debug)]
struct Entry {
    file: PathBuf,
    /// The state of the file at the last search.
    seen: Option<FileState>,
    /// The state of the file whose content was checked, or is being checked.
    checked: Option<FileState>,
    /// The content that turns use.
    served: Option<PromptVersion>,
    error: Option<Arc<CliError>>,
    /// The next check of an agent with an error, and the wait after it.
    recheck: (Instant, Duration),
    is_checking: bool,
    /// Whether the file was missing at the last search.
    is_missing: bool,
}

impl Entry {
    fn new(file: PathBuf) -> Self {
        Self {
            file,
            seen: None,
            checked: None,
            served: None,
            error: None,
            recheck: (Instant::now(), RECHECK),
            is_checking: false,
            is_missing: false,
        }
    }

    /// Returns whether the content is to be checked, and notes the state of the file.
    fn is_due(&mut self, now: FileState) -> bool {
        let is_settled = self.seen.replace(now) == Some(now);
        if self.is_checking || !is_settled {
            return false;
        }
        if self.checked == Some(now) {
            return self.error.is_some() && self.recheck.0 <= Instant::now();
        }
        self.recheck.1 = RECHECK;
        true
    }
}

/// Two files that would be one agent.
pub(super) type Repeated = (PathBuf, PathBuf);

impl Catalog {
    /// Creates the catalog of files and directories, whose prompts are not checked yet.
    pub(super) fn new(paths: &[PathBuf]) -> (Self, Option<Repeated>) {
        let paths: Vec<PathBuf> = paths.iter().map(|path| absolute(path)).collect();
        let (found, repeated) = search(&paths, &BTreeMap::new());
        let entries = found.into_iter();
        let entries = entries.map(|(name, file)| (name, Entry::new(file)));
        let agents = RwLock::new(entries.collect());
        (Self { paths, agents }, repeated)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Entry>> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Entry>> {
        self.agents.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the agents with their errors, by name.
    pub(super) fn agents(&self) -> Vec<(String, Option<AgentFault>)> {
        let agents = self.read();
        let faults = agents.iter().map(|(name, entry)| {
            let fault = entry.error.clone().map(|error| AgentFault {
                error,
                serves_earlier: entry.served.is_some(),
            });
            // What was never checked is not an agent yet.
            let is_known = entry.served.is_some() || fault.is_some();
            is_known.then(|| (name.clone(), fault))
        });
        faults.flatten().collect()
    }

    /// Returns the content for turns of an agent.
    ///
    /// # Errors
    /// Returns an error if the agent is unknown, or no content of it has passed its check.
    pub(super) fn version(&self, name: &str) -> Result<PromptVersion, CliError> {
        let agents = self.read();
        let entry = agents.get(name).ok_or_else(|| {
            CliError::user("agent_not_found", format!("agent `{name}` not found"))
        })?;
        entry.served.clone().ok_or_else(|| broken(name))
    }

    /// Returns the content for turns of the agent with this file.
    ///
    /// # Errors
    /// Returns an error if the file was removed, or no content of it has passed its check.
    pub(super) fn version_of_file(&self, file: &Path) -> Result<PromptVersion, CliError> {
        let agents = self.read();
        let mut entries = agents.iter();
        let Some((name, entry)) = entries.find(|(_, entry)| entry.file == file) else {
            let name = name_of(file);
            let message = format!("the prompt of the agent `{name}` was removed");
            return Err(CliError::user("agent_removed", message)
                .with_help("put the file back, or continue in a session of another agent"));
        };
        entry.served.clone().ok_or_else(|| broken(name))
    }

    /// Returns the name of the agent with this file, which may have been removed.
    ///
    /// The file of a removed agent is one that these paths once contained.
    pub(super) fn agent_of_file(&self, file: &Path) -> Option<String> {
        let agents = self.read();
        let found = agents.iter().find(|(_, entry)| entry.file == file);
        if let Some((name, _)) = found {
            return Some(name.clone());
        }
        let is_below = |path: &PathBuf| {
            let rest = file.strip_prefix(path);
            rest.is_ok_and(|rest| {
                // Hidden directories and `target` are not searched.
                let mut folders = rest.parent().into_iter().flat_map(Path::iter);
                !folders
                    .any(|folder| folder == "target" || folder.to_string_lossy().starts_with('.'))
            })
        };
        let ending = file.extension().and_then(|ending| ending.to_str());
        let is_prompt =
            matches!(ending, Some("md" | "chatmd")) || self.paths.iter().any(|path| path == file);
        (is_prompt && self.paths.iter().any(is_below)).then(|| name_of(file))
    }

    /// Returns the contents to check at the start.
    pub(super) fn first_candidates(&self) -> Vec<Candidate> {
        let mut agents = self.write();
        let entries = agents.iter_mut();
        let candidates = entries.map(|(name, entry)| {
            entry.seen = Some(file_state(&entry.file));
            entry.checked = entry.seen;
            entry.is_checking = true;
            Candidate::read(name.clone(), entry.file.clone())
        });
        candidates.collect()
    }

    /// Searches the directories, and returns the contents that are to be checked.
    ///
    /// A content is checked after its file had the same state in two searches, so that one that is
    /// being written is not. A file that is missing in two searches is removed.
    pub(super) fn search(&self) -> (Vec<Candidate>, Option<Repeated>) {
        let files = |(name, entry): (&String, &Entry)| (name.clone(), entry.file.clone());
        let known: BTreeMap<_, _> = self.read().iter().map(files).collect();
        // Reading directories may take long.
        let (found, repeated) = search(&self.paths, &known);
        let mut agents = self.write();
        for (name, file) in &found {
            let entry = agents.entry(name.clone());
            let entry = entry.or_insert_with(|| Entry::new(file.clone()));
            if entry.file != *file {
                *entry = Entry::new(file.clone());
            }
        }
        let mut due = Vec::new();
        agents.retain(|name, entry| {
            let now = file_state(&entry.file);
            if is_missing(&entry.file) {
                return !std::mem::replace(&mut entry.is_missing, true);
            }
            entry.is_missing = false;
            if entry.is_due(now) {
                entry.checked = Some(now);
                entry.is_checking = true;
                due.push((name.clone(), entry.file.clone(), now));
            }
            true
        });
        drop(agents);
        let mut candidates = Vec::new();
        for (name, file, state) in due {
            let candidate = Candidate::read(name, file);
            if file_state(&candidate.file) == state {
                candidates.push(candidate);
            } else {
                // It changed while it was read.
                self.unchecked(&candidate);
            }
        }
        (candidates, repeated)
    }

    /// Notes that a content is to be checked after all.
    fn unchecked(&self, candidate: &Candidate) {
        if let Some(entry) = self.write().get_mut(&candidate.name) {
            entry.is_checking = false;
            entry.checked = None;
        }
    }

    /// Returns the time until the next search.
    pub(super) fn pause(&self) -> Duration {
        let agents = self.read();
        let changes =
            |entry: &Entry| entry.is_missing || entry.checked != entry.seen && !entry.is_checking;
        if agents.values().any(changes) {
            SETTLE
        } else {
            INTERVAL
        }
    }

    /// Notes the result of a check. Returns the error if it was not known before.
    pub(super) fn checked(
        &self,
        candidate: &Candidate,
        result: Result<(), CliError>,
    ) -> Option<AgentFault> {
        let mut agents = self.write();
        let entry = agents.get_mut(&candidate.name)?;
        if entry.file != candidate.file {
            // Another file has the name since.
            return None;
        }
        entry.is_checking = false;
        match (&candidate.version, result) {
            (Ok(version), Ok(())) => {
                entry.served = Some(version.clone());
                entry.error = None;
                entry.recheck.1 = RECHECK;
                None
            }
            (_, result) => {
                let error = Arc::new(result.err()?);
                let known = entry.error.as_ref();
                let is_new = known.is_none_or(|known| known.text() != error.text());
                let wait = entry.recheck.1;
                entry.recheck = (Instant::now() + wait, (wait * 2).min(MAX_RECHECK));
                entry.error = Some(Arc::clone(&error));
                is_new.then_some(AgentFault {
                    error,
                    serves_earlier: entry.served.is_some(),
                })
            }
        }
    }
}

fn broken(name: &str) -> CliError {
    let message = format!("the prompt of the agent `{name}` has errors, and no version without");
    CliError::new(Exit::Retryable, "agent_broken", message)
        .with_help("GET /v1/agents shows the error")
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the name of the agent of a file.
fn name_of(file: &Path) -> String {
    let stem = file.file_stem();
    stem.map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns the prompts by name, and two files with one name.
///
/// A name remains that of the known file with it.
fn search(
    paths: &[PathBuf],
    known: &BTreeMap<String, PathBuf>,
) -> (BTreeMap<String, PathBuf>, Option<Repeated>) {
    let mut agents: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut repeated = None;
    for file in prompt_files(paths) {
        let file = absolute(&file);
        let name = name_of(&file);
        let own = agents.get(&name).or_else(|| {
            let own = known.get(&name);
            own.filter(|own| !is_missing(own))
        });
        match own {
            Some(own) if *own != file => repeated = Some((own.clone(), file)),
            _ => {
                agents.insert(name, file);
            }
        }
    }
    (agents, repeated)
}

/// Returns whether a file does not exist. Other errors may be temporary.
fn is_missing(file: &Path) -> bool {
    fs::metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn file_state(file: &Path) -> FileState {
    let metadata = fs::metadata(file);
    metadata.map_or_else(
        |_| FileState::default(),
        |metadata| FileState {
            modified: metadata.modified().ok(),
            len: metadata.len(),
            identity: identity(&metadata),
        },
    )
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, i64, i64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, i64, i64) {
    (0, 0, 0)
}
