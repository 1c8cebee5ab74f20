//! The environment of a turn, resolved once from the configuration and the command line.

use std::collections::BTreeMap;
use std::sync::Arc;

use chatmd::ToolKind;
use logue_agent::{
    Approvals, AuditLog, Budget, Environment, PermissionRule, Permissions, PrepareObserver, Prompt,
    Refinement, SpendLimits,
};
use logue_source::{Severity, escape_line};
use logue_tools::ShellPolicy;

use crate::arguments::{LimitArgs, ModelArgs, TrustArgs};
use crate::exit::CliError;
use crate::setup::failures::place_line;
use crate::setup::model::ConfiguredModels;
use crate::setup::output::Output;
use crate::setup::permissions::{TrustRules, permissions};
use crate::setup::settings::{RunSettings, Settings};
use crate::setup::variables::environment_variable;
use crate::setup::{mcp, network, requirements, variables};
use crate::terminal::{print_error, report_style};

/// The settings of a command from which the environment of its turns is built.
pub(crate) struct TurnCommand<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) model_args: &'a ModelArgs,
    pub(crate) trust: &'a TrustArgs,
    pub(crate) output: &'a Arc<Output>,
    pub(crate) approvals: Approvals,
    /// The permission rules that this command names; remembered rules are not among them.
    pub(crate) rules: &'a [PermissionRule],
}

impl TurnCommand<'_> {
    /// Builds the environment of one turn, whose decisions are recorded in `audit`.
    ///
    /// `flags` has the permission rules of the command line.
    pub(crate) fn environment(
        &self,
        flags: Permissions,
        audit: Arc<dyn AuditLog>,
    ) -> Result<Environment, CliError> {
        let Self {
            settings,
            model_args,
            output,
            ..
        } = *self;
        let network = network::fetcher(&model_args.allow_hosts, settings)?;
        let mut environment =
            Environment::new(Arc::new(ConfiguredModels::new(model_args, settings)));
        environment.roots.clone_from(&model_args.roots);
        environment.roots.extend_from_slice(&settings.tools.roots);
        environment.shell = settings.tools.shell.clone();
        environment.servers = Some(mcp::servers(
            settings,
            network.clone(),
            output.hides_sources(),
        ));
        environment.network = network;
        environment.search = settings.search.clone().map(Arc::new);
        environment.permissions = permissions(self, flags, audit);
        environment.trust = Arc::new(TrustRules::new(self));
        environment.approvals = self.approvals;
        let named = self.rules.iter().map(|rule| rule.tool.clone());
        environment.rule_tools = named.collect();
        environment.budget = Budget::new(spend_limits(&settings.run, &model_args.limits));
        environment.max_requests = max_requests(&settings.run, model_args);
        environment.max_agent_depth = model_args
            .limits
            .max_agent_depth
            .unwrap_or(settings.run.max_agent_depth);
        environment.routing = settings.run.routing.clone();
        if model_args.response.schema.is_some() {
            output.print_answer_only();
        }
        environment.requirements = requirements::requirements(&model_args.response)?;
        environment.variables = Arc::new(variables::variables(&model_args.variables)?);
        environment.stop = output.stop().clone();
        environment.redaction = settings.redaction.clone();
        environment.is_fresh = model_args.fresh;
        if !model_args.no_cache {
            let caches = settings.caches.clone();
            environment.refined_prompts = caches.refined_prompts;
            environment.agent_responses = caches.agent_responses;
        }
        if settings.run.refines {
            environment.refinement = Refinement::Always;
        }
        if !output.is_silent() {
            environment.listener = output.clone();
            environment.progress = Arc::new(PrepareReports(Arc::clone(output)));
        }
        Ok(environment)
    }
}

/// Returns the spending limits of a run; flags take precedence over the settings.
fn spend_limits(settings: &RunSettings, flags: &LimitArgs) -> SpendLimits {
    let max_tokens = flags.max_total_tokens.or(settings.max_total_tokens);
    let max_cost = flags.max_cost.map(|amount| amount.0).or(settings.max_cost);
    SpendLimits::default()
        .with_max_tokens(max_tokens)
        .with_max_cost(max_cost)
        .with_prices(settings.prices.clone())
}

/// Returns the maximum number of model requests of a run; the flag takes precedence.
fn max_requests(settings: &RunSettings, flags: &ModelArgs) -> usize {
    let flag = flags.max_requests.map(usize::try_from);
    flag.and_then(Result::ok).unwrap_or(settings.max_requests)
}

/// Reports the progress of a preparation on standard error.
struct PrepareReports(Arc<Output>);

impl PrepareObserver for PrepareReports {
    fn refined(&self, name: &str, prompt: &str) {
        self.0.refined(prompt, name);
    }

    fn not_asked(&self, what: &str) {
        print_error(&format!("note: {}\n", escape_line(what)));
    }

    fn variable_replaced(&self, name: &str) {
        print_error(&format!(
            "note: the value of `{name}` is that of the environment ({}), not the recorded one; \
             --var {name}=… takes precedence over both\n",
            environment_variable(name)
        ));
    }

    fn unused_pattern(&self, pattern: &str) {
        print_error(&format!(
            "note: the rule for `{}` has no effect: no tool of the prompt has such a name\n",
            escape_line(pattern)
        ));
    }

    fn loaded(&self, prompt: &Prompt, shell: &ShellPolicy) {
        let map = prompt.source_map();
        let found = prompt.diagnostics.iter();
        for warning in found.filter(|found| found.severity == Severity::Warning) {
            if self.0.hides_sources() {
                print_error(&place_line(&map.place(warning.primary.start), warning));
            } else {
                print_error(&format!("{}\n", map.render(warning, report_style())));
            }
        }
        warn_unconfined(prompt, shell);
    }
}

/// Warns about missing confinement of a prompt's programs, once for each status.
///
/// A complete sandbox is not reported.
fn warn_unconfined(prompt: &Prompt, policy: &ShellPolicy) {
    let names = prompt.tools.iter().filter_map(|tool| match &tool.kind {
        ToolKind::Command { name, .. } | ToolKind::AnyProgram { name, .. } => Some(name.as_str()),
        ToolKind::Builtin { name } if name == "python" => Some(name.as_str()),
        _ => None,
    });
    let mut unconfined: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in names {
        let status = policy.of(name).sandbox.status();
        if status.missing.iter().any(|guard| !guard.is_minor()) {
            unconfined.entry(status.to_string()).or_default().push(name);
        }
    }
    for (status, names) in unconfined {
        let names = escape_line(&names.join(", ")).into_owned();
        print_error(&format!("warning: {names}: {status}\n"));
    }
}
