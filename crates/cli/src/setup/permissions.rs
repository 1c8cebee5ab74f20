//! `[permissions]` and `[trust]` of `logue.toml`, and who decides about the calls of a turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{
    AuditError, AuditFile, AuditLog, AuditRecord, Authority, Grant, Permissions, Standing,
    Surroundings,
};
use logue_harness::BoxFuture;

use crate::arguments::TrustArgs;
use crate::exit::Failure;
use crate::setup::config::Config;
use crate::setup::environment::variable;
use crate::setup::output::Output;
use crate::setup::prompt::input::Input;
use crate::setup::terminal_approver::Terminal;
use crate::setup::trust;

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
            Arc::new(crate::setup::store::SystemClock),
        )),
        None => Arc::new(NoFolder),
    }
}

/// Where the audits of files are.
pub(crate) fn audit_folder() -> Option<PathBuf> {
    crate::setup::environment::data_folder().map(|folder| folder.join("audit"))
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
