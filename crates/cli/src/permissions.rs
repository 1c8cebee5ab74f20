//! `[permissions]` and `[trust]` of `logue.toml`, and who decides about the calls of a turn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{
    AuditError, AuditFile, AuditLog, AuditRecord, Authority, Grant, Permission, PermissionRule,
    PermissionRules, Permissions, Standing, Surroundings,
};
use logue_harness::BoxFuture;
use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

use crate::arguments::TrustArgs;
use crate::asking::Terminal;
use crate::config::{Config, variable};
use crate::exit::Failure;
use crate::run::input::Input;
use crate::run::output::Output;
use crate::trust;

/// The key among the tools' names that is none.
const TIMEOUT: &str = "timeout_seconds";

/// `[permissions]`: tools, or patterns of names, and what becomes of their calls.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct PermissionTable(BTreeMap<String, Spanned<Value>>);

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    Word(String),
    Seconds(u64),
}

impl PermissionTable {
    /// The rules.
    ///
    /// # Errors
    /// The first value that is none, with its place in the file.
    pub(crate) fn rules(&self) -> Result<PermissionRules, (Span, String)> {
        let rules = self.0.iter().filter(|(tool, _)| *tool != TIMEOUT);
        rules
            .map(|(tool, value)| {
                let permission = match value.get_ref() {
                    Value::Word(word) => Permission::parse(word),
                    Value::Seconds(_) => None,
                };
                let failed = || {
                    let message = format!("`{tool}` is \"allow\", \"ask\" or \"deny\"");
                    (Span::from(value.span()), message)
                };
                Ok(PermissionRule {
                    tool: tool.clone(),
                    permission: permission.ok_or_else(failed)?,
                })
            })
            .collect()
    }

    /// How long a turn waits for a person.
    ///
    /// # Errors
    /// It is no number of seconds, with its place in the file.
    pub(crate) fn timeout_seconds(&self) -> Result<Option<u64>, (Span, String)> {
        let Some(value) = self.0.get(TIMEOUT) else {
            return Ok(None);
        };
        match value.get_ref() {
            Value::Seconds(seconds) if *seconds > 0 => Ok(Some(*seconds)),
            _ => Err((
                Span::from(value.span()),
                format!("`{TIMEOUT}` is a number of seconds, at least 1"),
            )),
        }
    }
}

/// `[trust]`: whose prompts are the user's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustTable {
    #[serde(default)]
    folders: Vec<Spanned<PathBuf>>,
}

impl TrustTable {
    /// Whether a file may say what it says: a project's comes with a checkout, which could call
    /// itself trusted.
    ///
    /// # Errors
    /// Why not, and its place in the file.
    pub(crate) fn check(&self, own: bool) -> Result<(), (Span, &'static str)> {
        match self.folders.first() {
            Some(folder) if !own => Err((
                Span::from(folder.span()),
                "only your own logue/config.toml may say which folders are trusted",
            )),
            _ => Ok(()),
        }
    }

    /// The folders; relative ones count from the file's, and `~/` is the home folder.
    pub(crate) fn folders(&self, of_file: &Path, home: Option<&Path>) -> Vec<PathBuf> {
        let folders = self.folders.iter().map(Spanned::get_ref);
        folders
            .map(|folder| match (folder.strip_prefix("~"), home) {
                (Ok(below), Some(home)) => home.join(below),
                _ => of_file.join(folder),
            })
            .collect()
    }
}

/// Who decides in a command.
pub(crate) struct Desk<'a> {
    pub(crate) config: &'a Config,
    pub(crate) arguments: &'a TrustArgs,
    pub(crate) output: &'a Arc<Output>,
    /// Whether the turn can wait for a signal.
    pub(crate) can_wait: bool,
}

impl Desk<'_> {
    /// The rules of flags and files, and where decisions are recorded; nothing is known of a prompt.
    pub(crate) fn rules(&self, flags: Permissions, audit: Arc<dyn AuditLog>) -> Permissions {
        let mut permissions = flags.with_audit(audit).with_timeout(
            self.arguments
                .approval_timeout
                .or_else(|| self.config.approval_timeout()),
        );
        for (own, file) in self.config.permission_files() {
            permissions = if own {
                permissions.with_own(file)
            } else {
                permissions.with_project(file)
            };
        }
        if self.output.asks() {
            let terminal = Terminal::new(Arc::clone(self.output), self.can_wait);
            permissions = permissions.with_asker(Arc::new(terminal));
        }
        permissions
    }

    /// The same for the prompt of `input`. On a terminal a prompt that nobody knows is asked about.
    pub(crate) async fn judged(
        &self,
        permissions: Permissions,
        input: &Input,
        surroundings: &Surroundings,
    ) -> Result<Permissions, Failure> {
        let grant = surroundings.grant(&input.name, &input.text);
        let standing = self.standing(&permissions, input, &grant).await?;
        Ok(permissions.with_standing(standing))
    }

    async fn standing(
        &self,
        permissions: &Permissions,
        input: &Input,
        grant: &Grant,
    ) -> Result<Standing, Failure> {
        let everything = variable("LOGUE_TRUST").is_some_and(|what| what == "all");
        if grant.is_empty() || self.arguments.trust || everything {
            return Ok(Standing::trusted(grant));
        }
        let place = trust::place_of(input.prompt_file());
        if trust::is_own(self.config, &place) {
            return Ok(Standing::trusted(grant));
        }
        let file = trust::file();
        let trusted = match &file {
            Some(file) => file
                .trusts(grant)
                .map_err(|error| trust::failed(file, &error))?,
            None => false,
        };
        if trusted {
            return Ok(Standing::trusted(grant));
        }
        let not_trusted = Standing::not_trusted(grant);
        // Rules may have decided about all of it.
        if !permissions.leaves_to_trust(grant) {
            return Ok(not_trusted);
        }
        if self.output.asks() {
            let question = trust::Question {
                name: &input.name,
                place: &place,
                grant,
                file: file.as_ref(),
            };
            self.output.finish();
            return Ok(if question.ask().await? {
                Standing::trusted(grant)
            } else {
                not_trusted
            });
        }
        if self.can_wait {
            self.output.not_trusted(&input.name);
        }
        Ok(not_trusted)
    }
}

/// The audit of a conversation in a file. Where nothing is to be written, calls that only read are not
/// recorded; an effect is, whatever becomes of the conversation.
pub(crate) fn audit_of(file: &Path, writes: bool, config: &Config) -> Arc<dyn AuditLog> {
    let log = file_audit(file, config);
    if writes {
        log
    } else {
        Arc::new(OfEffects(log))
    }
}

fn file_audit(file: &Path, config: &Config) -> Arc<dyn AuditLog> {
    match audit_folder() {
        Some(folder) => Arc::new(AuditFile::new(
            &folder,
            file,
            config.redaction().clone(),
            Arc::new(crate::store::SystemClock),
        )),
        None => Arc::new(NoFolder),
    }
}

/// Where the audits of files are.
pub(crate) fn audit_folder() -> Option<PathBuf> {
    crate::config::data_folder().map(|folder| folder.join("audit"))
}

/// Leaves out what only reads.
struct OfEffects(Arc<dyn AuditLog>);

impl AuditLog for OfEffects {
    fn record(&self, mut records: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>> {
        records.retain(|record| record.by != Authority::Harmless);
        self.0.record(records)
    }
}

/// Stands where there is no folder for what belongs to the user.
struct NoFolder;

impl AuditLog for NoFolder {
    fn record(&self, _: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>> {
        let message = "there is no folder to keep records in; set HOME or XDG_DATA_HOME";
        Box::pin(std::future::ready(Err(AuditError(message.to_owned()))))
    }
}
