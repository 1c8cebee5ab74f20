//! The environment of a turn, resolved once from the configuration and the command line.

use std::sync::Arc;

use logue_agent::{
    Approvals, AuditLog, Budget, Environment, Permissions, PrepareObserver, Prompt, Refinement,
};
use logue_source::Severity;
use logue_tools::{Fetcher, ShellPolicy};

use crate::arguments::{ModelArgs, TrustArgs};
use crate::exit::CliError;
use crate::setup::config::{Config, tools};
use crate::setup::environment::variable;
use crate::setup::model::ConfiguredModels;
use crate::setup::output::Output;
use crate::setup::permissions::{TrustRules, permissions};
use crate::setup::{mcp, requirements};
use crate::terminal::{error_style, print_error};

/// The settings of a command from which the environment of its turns is built.
pub(crate) struct TurnSettings<'a> {
    pub(crate) config: &'a Config,
    pub(crate) model_args: &'a ModelArgs,
    pub(crate) trust: &'a TrustArgs,
    pub(crate) output: &'a Arc<Output>,
    pub(crate) approvals: Approvals,
}

impl TurnSettings<'_> {
    /// Builds the environment of one turn, whose decisions are recorded in `audit`.
    ///
    /// `flags` has the permission rules of the command line.
    pub(crate) fn environment(
        &self,
        flags: Permissions,
        audit: Arc<dyn AuditLog>,
    ) -> Result<Environment, CliError> {
        let Self {
            config,
            model_args,
            output,
            ..
        } = *self;
        let network = self.fetcher()?;
        let mut environment = Environment::new(Arc::new(ConfiguredModels::new(model_args, config)));
        environment.roots = model_args
            .roots
            .iter()
            .cloned()
            .chain(config.roots())
            .collect();
        environment.shell = config.shell_policy();
        environment.servers = Some(mcp::servers(config, network.clone()));
        environment.network = network;
        environment.search = config.search().map(Arc::new);
        environment.permissions = permissions(self, flags, audit);
        environment.trust = Arc::new(TrustRules::new(self));
        environment.approvals = self.approvals;
        environment.budget = Budget::new(config.spending(&model_args.limits));
        environment.max_requests = config.max_requests(model_args.max_requests);
        environment.max_agent_depth = config.max_depth(&model_args.limits);
        environment.routing = config.routing();
        environment.requirements = requirements::requirements(&model_args.response)?;
        environment.redaction = config.redaction().clone();
        if !model_args.no_cache {
            environment.refined_prompts = config.refined_prompts();
            environment.agent_responses = config.agent_cache();
        }
        if is_refinement_requested() {
            environment.refinement = Refinement::Always;
        }
        environment.listener = output.clone();
        environment.progress = Arc::new(PrepareReports(Arc::clone(output)));
        Ok(environment)
    }

    /// The fetcher of allowed hosts. Without a host there is none, since setting up TLS takes time.
    fn fetcher(&self) -> Result<Option<Arc<Fetcher>>, CliError> {
        let policy = self.config.network(&self.model_args.allow_hosts);
        if policy.hosts.is_empty() {
            return Ok(None);
        }
        let fetcher = Fetcher::new(policy).map_err(|error| {
            let failure = CliError::user("E-NETWORK-DENIED", error.message);
            error.help.into_iter().fold(failure, CliError::with_help)
        })?;
        Ok(Some(Arc::new(fetcher)))
    }
}

/// Returns whether a variable requests that prompts are rewritten before they run.
fn is_refinement_requested() -> bool {
    ["LOGUE_META_REFINE", "OCHAT_META_REFINE"]
        .into_iter()
        .filter_map(variable)
        .any(|value| chatmd::refine::is_truthy(&value))
}

/// Reports the progress of a preparation on standard error.
struct PrepareReports(Arc<Output>);

impl PrepareObserver for PrepareReports {
    fn refined(&self, name: &str, prompt: &str) {
        self.0.refined(prompt, name);
    }

    fn loaded(&self, prompt: &Prompt, shell: &ShellPolicy) {
        let map = prompt.source_map();
        let found = prompt.diagnostics.iter();
        for warning in found.filter(|found| found.severity == Severity::Warning) {
            print_error(&format!("{}\n", map.render(warning, error_style())));
        }
        tools::warn_unconfined(prompt, shell);
    }
}
