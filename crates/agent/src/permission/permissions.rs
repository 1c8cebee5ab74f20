//! Permissions of tools: which calls run, require approval or are denied.
//!
//! The sources of a permission, from the strongest: the rules of the command line, the rules of the
//! user's and the project's configuration, the trust level of the prompt, and the effects of the
//! tool. A project's configuration comes with a checkout from an unknown author, so it can only
//! make permissions stricter.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::permission::approver::Asker;
use crate::permission::audit::{AuditLog, NoAudit};
use crate::permission::decision_source::{Authority, Ruling};
use crate::trust::grant::{Declared, Grant};
use crate::trust::prompt_trust::Standing;

/// The disposition of a tool's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permission {
    /// The call runs.
    #[default]
    Allow,
    /// The call requires approval: the turn waits until a person decides.
    Ask,
    /// The call never runs; the model receives an error.
    Deny,
}

/// The permissions of a turn, with its approver and its audit log.
///
/// A tool that is not declared does not run under any rule.
#[derive(Clone)]
pub struct Permissions {
    flags: PermissionRules,
    own: Option<PermissionFile>,
    project: Option<PermissionFile>,
    pub(crate) standing: Standing,
    unattended: bool,
    pub(crate) asker: Option<Arc<dyn Asker>>,
    pub(crate) audit: Arc<dyn AuditLog>,
    pub(crate) timeout_seconds: Option<u64>,
    /// The agent that makes the calls.
    pub(crate) agent: Option<String>,
}

/// Rules by the pattern of tool names that they apply to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionRules(BTreeMap<String, Permission>);

/// The rules of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionFile {
    /// The file, for reports.
    pub path: PathBuf,
    /// The rules.
    pub rules: PermissionRules,
}

/// A rule, written `TOOL=allow`, `TOOL=ask` or `TOOL=deny`.
///
/// A `*` in the tool's name matches any characters; the most exact rule takes precedence.
///
/// ```
/// use logue_agent::{Permission, PermissionRule, Permissions};
///
/// let rules = ["*=deny", "git_*=ask", "git_push=deny", "git_log=allow"];
/// let rules: Vec<PermissionRule> = rules.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?;
/// let permissions = rules.into_iter().fold(Permissions::new(), Permissions::with);
/// assert_eq!(permissions.of("git_log"), Permission::Allow);
/// assert_eq!(permissions.of("git_push"), Permission::Deny);
/// assert_eq!(permissions.of("git_commit"), Permission::Ask);
/// assert_eq!(permissions.of("deploy"), Permission::Deny);
/// # Ok::<(), logue_agent::PermissionRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRule {
    /// The tool, or a pattern of names.
    pub tool: String,
    /// The disposition of their calls.
    pub permission: Permission,
}

/// An invalid permission rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid rule `{0}`: write TOOL=allow, TOOL=ask or TOOL=deny, and `*` for all other tools")]
pub struct PermissionRuleError(String);

impl Permission {
    /// The name of the permission.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Parses the name of a permission.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Deny]
            .into_iter()
            .find(|permission| permission.as_str() == word)
    }
}

impl PermissionRules {
    /// Adds a rule, which replaces an earlier one for the same pattern.
    pub fn add(&mut self, rule: PermissionRule) {
        self.0.insert(rule.tool, rule.permission);
    }

    /// Returns the most exact rule for a tool.
    ///
    /// A tool's own name takes precedence over a pattern, and a pattern over one with fewer literal
    /// characters; among equals, the strictest rule is returned.
    pub fn about(&self, tool: &str) -> Option<PermissionRule> {
        let exactness = |pattern: &str| {
            let own = pattern.chars().filter(|c| *c != '*').count();
            (pattern == tool, own)
        };
        let matching = self.0.iter().filter(|(pattern, _)| fits(pattern, tool));
        let best = matching.max_by_key(|(pattern, permission)| (exactness(pattern), **permission));
        best.map(|(pattern, permission)| PermissionRule {
            tool: pattern.clone(),
            permission: *permission,
        })
    }

    /// Iterates over all rules in the order of their patterns.
    pub fn iter(&self) -> impl Iterator<Item = PermissionRule> + '_ {
        self.0.iter().map(|(tool, permission)| PermissionRule {
            tool: tool.clone(),
            permission: *permission,
        })
    }
}

impl FromIterator<PermissionRule> for PermissionRules {
    fn from_iter<I: IntoIterator<Item = PermissionRule>>(rules: I) -> Self {
        let mut all = Self::default();
        rules.into_iter().for_each(|rule| all.add(rule));
        all
    }
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
    pub fn with_standing(mut self, standing: Standing) -> Self {
        self.standing = standing;
        self
    }

    /// Sets the approver that decides about calls at once.
    #[must_use]
    pub fn with_asker(mut self, asker: Arc<dyn Asker>) -> Self {
        self.asker = Some(asker);
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

    /// Denies calls that require approval.
    #[must_use]
    pub fn without_asking(mut self) -> Self {
        self.unattended = true;
        self.asker = None;
        self
    }

    /// Returns the permissions of an agent whose prompt at `path` declares `declared`.
    ///
    /// Approval cannot be requested there.
    pub(crate) fn of_agent(mut self, path: &Path, declared: &Declared) -> Self {
        let path = path.display().to_string();
        self.standing = self.standing.of_agent(&path, declared);
        self.agent = Some(path);
        self.without_asking()
    }

    /// Returns the disposition of a tool's calls.
    pub fn of(&self, tool: &str) -> Permission {
        self.decide(tool).permission
    }

    /// Returns the disposition of a tool's calls and its source.
    pub fn decide(&self, tool: &str) -> Ruling {
        let ruling = self.flag(tool).unwrap_or_else(|| self.configured(tool));
        if self.unattended && ruling.permission == Permission::Ask {
            return Ruling {
                permission: Permission::Deny,
                by: Authority::Unattended {
                    why: Box::new(ruling.by),
                },
            };
        }
        ruling
    }

    fn flag(&self, tool: &str) -> Option<Ruling> {
        let rule = self.flags.about(tool)?;
        Some(Ruling {
            permission: rule.permission,
            by: Authority::Flag {
                rule: rule.to_string(),
            },
        })
    }

    fn configured(&self, tool: &str) -> Ruling {
        let of = |file: &Option<PermissionFile>| {
            let file = file.as_ref()?;
            let rule = file.rules.about(tool)?;
            Some(Ruling {
                permission: rule.permission,
                by: Authority::Config {
                    path: file.path.clone(),
                    rule: rule.to_string(),
                },
            })
        };
        let lower = of(&self.own).unwrap_or_else(|| self.standing.ruling(tool));
        match of(&self.project) {
            Some(stricter) if stricter.permission > lower.permission => stricter,
            _ => lower,
        }
    }

    /// Returns whether trust decides about any part of a grant.
    ///
    /// Rules may have decided about all of it.
    pub fn leaves_to_trust(&self, grant: &Grant) -> bool {
        let judged = self.clone().with_standing(Standing::not_trusted(grant));
        let by_trust = |name: &str| matches!(judged.decide(name).by, Authority::NotTrusted { .. });
        grant.names().any(|name| name.is_none_or(by_trust))
    }

    /// Returns whether declarations of the prompt may run before any call.
    ///
    /// A tool server, for example, is started to list its tools. No approval is requested for that,
    /// so the prompt must be trusted.
    pub fn trusts_prompt(&self) -> bool {
        self.standing.is_trusted()
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
            standing: Standing::default(),
            unattended: false,
            asker: None,
            audit: Arc::new(NoAudit),
            timeout_seconds: None,
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
            .field("standing", &self.standing)
            .field("unattended", &self.unattended)
            .field("asker", &self.asker.is_some())
            .field("timeout_seconds", &self.timeout_seconds)
            .finish_non_exhaustive()
    }
}

impl FromStr for PermissionRule {
    type Err = PermissionRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = text.rsplit_once('=').and_then(|(tool, word)| {
            let permission = Permission::parse(word)?;
            (!tool.is_empty()).then(|| Self {
                tool: tool.to_owned(),
                permission,
            })
        });
        rule.ok_or_else(|| PermissionRuleError(text.to_owned()))
    }
}

impl fmt::Display for PermissionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.tool, self.permission.as_str())
    }
}

/// Returns whether a name matches a pattern with `*` for any characters.
///
/// The cost is at most the product of both lengths.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(head) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    // Text between two stars is matched at its first occurrence, which leaves the most for the
    // rest.
    for piece in pieces {
        let Some(at) = left.find(piece) else {
            return false;
        };
        left = left.get(at + piece.len()..).unwrap_or_default();
    }
    left.ends_with(last)
}
