//! The permissions, the trust policy and the audit of a turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{
    Approvals, AuditError, AuditFile, AuditLog, AuditRecord, DecisionSource, Grant, HostError,
    Permissions, PromptSource, PromptTrust, TrustPolicy,
};
use logue_harness::BoxFuture;
use logue_tools::mcp::McpOptions;

use crate::exit::CliError;
use crate::setup::environment::{data_folder, file_owners};
use crate::setup::output::Output;
use crate::setup::question;
use crate::setup::settings::connection_record::ConnectionRecord;
use crate::setup::settings::{Settings, TrustQuestions, TrustSettings};
use crate::setup::terminal_approver::Terminal;
use crate::setup::trust::TrustReason;
use crate::setup::turn_environment::TurnCommand;
use crate::setup::{trust, trust_file};

/// The permissions of a turn: the rules of flags and files, the audit and the approver.
pub(crate) fn permissions(
    command: &TurnCommand<'_>,
    flags: Permissions,
    audit: Arc<dyn AuditLog>,
) -> Permissions {
    let settings = &command.settings.permissions;
    let timeout = command.trust.approval_timeout.or(settings.approval_timeout);
    let connection = ConnectionRecord::new(command.model_args, command.settings);
    let mut permissions = flags
        .with_audit(audit)
        .with_timeout(timeout)
        .with_connection(connection.to_json());
    if let Some(file) = &settings.user {
        permissions = permissions.with_own(file.clone());
    }
    if let Some(file) = &settings.project {
        permissions = permissions.with_project(file.clone());
    }
    if command.output.asks() {
        let can_wait = command.approvals == Approvals::Suspend;
        let terminal = Terminal::new(Arc::clone(command.output), can_wait);
        permissions = permissions.with_approver(Arc::new(terminal));
    }
    permissions
}

/// A trust policy of flags, trusted directories, the trust file and questions.
pub(crate) struct TrustRules {
    settings: TrustSettings,
    mcp: McpOptions,
    trusts_everything: bool,
    can_wait: bool,
    output: Arc<Output>,
}

impl TrustRules {
    pub(crate) fn new(command: &TurnCommand<'_>) -> Self {
        let settings = command.settings.trust.clone();
        Self {
            trusts_everything: command.trust.trust || settings.everything,
            settings,
            mcp: command.settings.mcp.clone(),
            can_wait: command.approvals == Approvals::Suspend,
            output: Arc::clone(command.output),
        }
    }

    async fn decide(
        &self,
        source: &PromptSource,
        grant: &Grant,
        permissions: &Permissions,
    ) -> Result<PromptTrust, CliError> {
        if grant.is_empty() || self.trusts_everything {
            return Ok(PromptTrust::trusted(grant));
        }
        let place = trust::place_of(source.file());
        let file = trust_file::file();
        let reason = TrustReason::find(&self.settings, file.as_ref(), &place, grant)?;
        if let TrustReason::Listed(servers) = reason {
            let trust = PromptTrust::trusted(grant).with_servers(servers);
            return Ok(trust.bound_to(grant));
        }
        if reason.is_trusted() {
            return Ok(PromptTrust::trusted(grant));
        }
        let not_trusted = PromptTrust::not_trusted(grant);
        // Rules may have decided about every tool.
        if !permissions.leaves_to_trust(grant) {
            return Ok(not_trusted);
        }
        if source.file().is_none() && source.name == question::NAME {
            // The user named its tools. A fork only asks the model, which the question does too.
            let asks_only = grant.names().all(|name| name == Some("fork"));
            return Ok(if asks_only {
                PromptTrust::trusted(grant)
            } else {
                not_trusted
            });
        }
        let is_asked = match self.settings.questions {
            TrustQuestions::All => true,
            TrustQuestions::Servers => grant.names().any(|name| name.is_none()),
            TrustQuestions::None => false,
        };
        if !is_asked {
            return Ok(not_trusted);
        }
        if self.output.asks() {
            let question = trust::TrustRequest {
                name: &source.name,
                place: &place,
                grant,
                file: file.as_ref(),
                mcp: &self.mcp,
            };
            self.output.finish();
            return Ok(match question.ask().await? {
                Some(servers) => PromptTrust::trusted(grant)
                    .with_servers(servers)
                    .bound_to(grant),
                None => not_trusted,
            });
        }
        if self.can_wait {
            self.output.not_trusted(&source.name);
        }
        Ok(not_trusted)
    }
}

impl TrustPolicy for TrustRules {
    fn judge<'a>(
        &'a self,
        source: &'a PromptSource,
        grant: &'a Grant,
        permissions: &'a Permissions,
    ) -> BoxFuture<'a, Result<PromptTrust, HostError>> {
        Box::pin(async move { Ok(self.decide(source, grant, permissions).await?) })
    }
}

/// Returns the audit of a conversation in a file.
///
/// If the conversation is not written, calls that only read are not recorded; effects always are.
pub(crate) fn audit_of(file: &Path, writes: bool, settings: &Settings) -> Arc<dyn AuditLog> {
    let log = file_audit(file, settings);
    if writes {
        log
    } else {
        Arc::new(EffectAudit(log))
    }
}

fn file_audit(file: &Path, settings: &Settings) -> Arc<dyn AuditLog> {
    match audit_folder() {
        Some(folder) => {
            let (redaction, clock) = (settings.redaction.clone(), logue_harness::SystemClock);
            let log = AuditFile::new(&folder, file, redaction, Arc::new(clock));
            Arc::new(log.with_owners(file_owners()))
        }
        None => Arc::new(MissingAudit),
    }
}

/// Returns the directory of the audits of files.
pub(crate) fn audit_folder() -> Option<PathBuf> {
    data_folder().map(|folder| folder.join("audit"))
}

/// An audit that omits calls that only read.
struct EffectAudit(Arc<dyn AuditLog>);

impl AuditLog for EffectAudit {
    fn record(&self, mut records: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>> {
        records.retain(|record| record.by != DecisionSource::Harmless);
        self.0.record(records)
    }
}

/// The failing audit of a user without a data directory.
struct MissingAudit;

impl AuditLog for MissingAudit {
    fn record(&self, _: Vec<AuditRecord>) -> BoxFuture<'_, Result<(), AuditError>> {
        let message = "no directory for audit records; set HOME or XDG_DATA_HOME";
        Box::pin(std::future::ready(Err(AuditError(message.to_owned()))))
    }
}
