//! Permissions of tools: which calls run, require approval or are denied.
//!
//! The sources of a permission, from the strongest: the rules of the command line, the rules of the
//! user's and the project's configuration, the trust level of the prompt, and the effects of the
//! tool. A project's configuration comes with a checkout from an unknown author, so it can only
//! make permissions stricter.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use logue_tools::ServerAccess;
use serde_json::Value;

use crate::permission::approver::Approver;
use crate::permission::audit::{AuditLog, NoAudit};
use crate::permission::decision_source::{DecisionSource, PermissionDecision};
use crate::permission::rules::{Permission, PermissionFile, PermissionRule, PermissionRules};
use crate::trust::grant::{Grant, PromptDeclarations};
use crate::trust::prompt_trust::PromptTrust;

/// The permissions of a turn, with its approver and its audit log.
///
/// A tool that is not declared does not run under any rule.
#[derive(Clone)]
pub struct Permissions {
    flags: PermissionRules,
    own: Option<PermissionFile>,
    project: Option<PermissionFile>,
    pub(crate) trust: PromptTrust,
    unattended: bool,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) audit: Arc<dyn AuditLog>,
    pub(crate) timeout_seconds: Option<u64>,
    /// The description of the connection to the model.
    pub(crate) connection: Option<Arc<Value>>,
    /// The agent that makes the calls.
    pub(crate) agent: Option<String>,
}

impl Permissions {
    /// Allows every declared tool, without an approver or an audit log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule of the command line. It replaces an earlier one for the pattern.
    #[must_use]
    pub fn with(mut self, rule: PermissionRule) -> Self {
        self.flags.add(rule);
        self
    }

    /// Sets the rules of the user's own configuration.
    #[must_use]
    pub fn with_own(mut self, file: PermissionFile) -> Self {
        self.own = Some(file);
        self
    }

    /// Sets the rules of a project's configuration, which can only make permissions stricter.
    #[must_use]
    pub fn with_project(mut self, file: PermissionFile) -> Self {
        self.project = Some(file);
        self
    }

    /// Sets the trust level of the prompt.
    #[must_use]
    pub fn with_trust(mut self, trust: PromptTrust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the approver that decides about calls at once.
    #[must_use]
    pub fn with_approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets the log that records every decision.
    #[must_use]
    pub fn with_audit(mut self, audit: Arc<dyn AuditLog>) -> Self {
        self.audit = audit;
        self
    }

    /// Sets the seconds after which a pending call counts as denied.
    #[must_use]
    pub fn with_timeout(mut self, seconds: Option<u64>) -> Self {
        self.timeout_seconds = seconds;
        self
    }

    /// Sets the description of the connection to the model.
    ///
    /// A suspended turn has it in its metadata as [`CONNECTION`](crate::CONNECTION).
    #[must_use]
    pub fn with_connection(mut self, connection: Value) -> Self {
        self.connection = Some(Arc::new(connection));
        self
    }

    /// Denies calls that require approval.
    #[must_use]
    pub fn without_asking(mut self) -> Self {
        self.unattended = true;
        self.approver = None;
        self
    }

    /// Returns the permissions of an agent whose prompt at `path` declares `declared`.
    ///
    /// Approval cannot be requested there.
    pub(crate) fn for_agent(mut self, path: &Path, declared: &PromptDeclarations) -> Self {
        self.trust = self.trust.for_agent(path, declared);
        self.agent = Some(path.display().to_string());
        self.without_asking()
    }

    /// Returns the permissions of a fork of the conversation.
    ///
    /// They are the same; calls with effects need a decision each time.
    pub(crate) fn for_fork(mut self) -> Self {
        let caller = self.agent.map(|agent| format!("{agent} "));
        self.agent = Some(format!("{}fork", caller.unwrap_or_default()));
        self
    }

    /// Returns the disposition of a tool's calls.
    pub fn permission(&self, tool: &str) -> Permission {
        self.decide(tool).permission
    }

    /// Returns the disposition of a tool's calls and its source.
    pub fn decide(&self, tool: &str) -> PermissionDecision {
        let decision = self.flag(tool).unwrap_or_else(|| self.configured(tool));
        if self.unattended && decision.permission == Permission::Ask {
            return PermissionDecision {
                permission: Permission::Deny,
                by: DecisionSource::Unattended {
                    why: Box::new(decision.by),
                },
            };
        }
        decision
    }

    fn flag(&self, tool: &str) -> Option<PermissionDecision> {
        let rule = self.flags.matching(tool)?;
        Some(PermissionDecision {
            permission: rule.permission,
            by: DecisionSource::Flag {
                rule: rule.to_string(),
            },
        })
    }

    fn configured(&self, tool: &str) -> PermissionDecision {
        let of = |file: &Option<PermissionFile>| {
            let file = file.as_ref()?;
            let rule = file.rules.matching(tool)?;
            Some(PermissionDecision {
                permission: rule.permission,
                by: DecisionSource::Config {
                    path: file.path.clone(),
                    rule: rule.to_string(),
                },
            })
        };
        let lower = of(&self.own).unwrap_or_else(|| self.trust.decision(tool));
        match of(&self.project) {
            Some(stricter) if stricter.permission > lower.permission => stricter,
            _ => lower,
        }
    }

    /// Returns whether trust decides about any part of a grant.
    ///
    /// Rules may have decided about all of it.
    pub fn leaves_to_trust(&self, grant: &Grant) -> bool {
        let judged = self.clone().with_trust(PromptTrust::not_trusted(grant));
        let by_trust =
            |name: &str| matches!(judged.decide(name).by, DecisionSource::NotTrusted { .. });
        grant.names().any(|name| name.is_none_or(by_trust))
    }

    /// Returns whether declarations of the prompt may run before any call.
    ///
    /// A tool server, for example, is started to list its tools. No approval is requested for that,
    /// so the prompt must be trusted.
    pub fn trusts_prompt(&self) -> bool {
        self.trust.is_trusted()
    }

    /// Returns the access of a server program beyond that of commands, by its address.
    pub(crate) fn server_access(&self, server: &str) -> ServerAccess {
        self.trust.server_access(server)
    }

    /// The rules of the command line.
    pub fn rules(&self) -> impl Iterator<Item = PermissionRule> + '_ {
        self.flags.iter()
    }
}

impl Default for Permissions {
    fn default() -> Self {
        Self {
            flags: PermissionRules::default(),
            own: None,
            project: None,
            trust: PromptTrust::default(),
            unattended: false,
            approver: None,
            audit: Arc::new(NoAudit),
            timeout_seconds: None,
            connection: None,
            agent: None,
        }
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions")
            .field("flags", &self.flags)
            .field("own", &self.own)
            .field("project", &self.project)
            .field("standing", &self.trust)
            .field("unattended", &self.unattended)
            .field("approver", &self.approver.is_some())
            .field("timeout_seconds", &self.timeout_seconds)
            .finish_non_exhaustive()
    }
}
