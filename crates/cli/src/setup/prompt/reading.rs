//! Reading a prompt for a run: its imports, documents, pictures and agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{Agents, Budget, FileWorld, Listener, Models, Permissions, Prompt, Surroundings};
use logue_source::{Diagnostic, DiagnosticCode, Severity, SourceMap};
use logue_tools::{Fetcher, Roots};

use crate::arguments::Asking;
use crate::exit::Failure;
use crate::language::Language;
use crate::setup::config::{Config, tools};
use crate::setup::model::Connection;
use crate::setup::prompt::input::Input;
use crate::setup::{mcp, model};
use crate::terminal::{complain, error_style};

/// The same with agents, whose tools are as the prompt's are.
pub(crate) fn with_agents(
    surroundings: Surroundings,
    asking: &Asking,
    permissions: &Permissions,
    config: &Config,
    (budget, listener): (&Budget, Arc<dyn Listener>),
) -> Surroundings {
    let agents = Agents {
        models: Arc::new(ModelsInForce {
            connection: Connection::new(asking, config),
            model: asking.model.clone().or_else(|| config.model()),
        }),
        cache: (!asking.no_cache).then(|| config.agent_cache()).flatten(),
        max_requests: config.max_turns(asking.max_turns),
        routing: config.routing(),
        budget: budget.clone(),
        max_depth: config.max_depth(&asking.limits),
        listener,
        permissions: permissions.clone(),
    };
    surroundings.with_agents(Arc::new(agents))
}

/// What the prompt may reach, but for agents.
pub(crate) fn surroundings(
    input: &Input,
    roots: Arc<Roots>,
    asking: &Asking,
    config: &Config,
) -> Result<Surroundings, Failure> {
    let mut world = FileWorld::new(roots, &input.transcript_folder());
    if let Some(path) = input.prompt_file() {
        world = world.of_file(path);
    }
    let mut surroundings = Surroundings::new(world, config.shell_policy());
    if let Some(transcript) = &input.transcript {
        surroundings = surroundings.keeping(transcript.path());
    }
    if let Some(engine) = config.search() {
        surroundings = surroundings.with_search(Arc::new(engine));
    }
    let policy = config.network(&asking.allow_hosts);
    let mut network = None;
    // Without a host there is nothing to fetch, and setting TLS up takes time.
    if !policy.hosts.is_empty() {
        let fetcher = Fetcher::new(policy).map_err(|error| {
            let failure = Failure::user("E-NETWORK-DENIED", error.message);
            error.help.into_iter().fold(failure, Failure::with_help)
        })?;
        let fetcher = Arc::new(fetcher);
        network = Some(Arc::clone(&fetcher));
        surroundings = surroundings.with_network(fetcher);
    }
    Ok(surroundings.with_tool_servers(mcp::servers(config, network)))
}

/// Reads the prompt or transcript and reports what is wrong with it.
pub(crate) async fn load(input: &Input, surroundings: &Surroundings) -> Result<Prompt, Failure> {
    let prompt = match input.language {
        Language::Chatmd => surroundings.load(&input.name, &input.text).await,
        Language::Openchatml => Prompt::of_openchatml(&input.name, &input.text),
        Language::Harmony | Language::Ocml0_1 | Language::Chatml => {
            let message = format!(
                "`{}` is a transcript in a dialect that has no escape and no call ids, so it cannot \
                 be gone on with",
                input.name
            );
            return Err(
                Failure::user(DiagnosticCode::WriteRefused.as_str(), message).with_help(format!(
                    "make one of OpenChatML 2.2 of it: `logue convert --to ocml2.2 {}`",
                    input.name
                )),
            );
        }
    };
    let map = prompt.source_map();
    let (errors, others): (Vec<_>, Vec<_>) = prompt
        .diagnostics
        .iter()
        .partition(|found| found.is_error());
    if !errors.is_empty() {
        return Err(rendered_in(&map, errors));
    }
    for warning in others
        .iter()
        .filter(|found| found.severity == Severity::Warning)
    {
        complain(&format!("{}\n", map.render(warning, error_style())));
    }
    drop(map);
    tools::tell(&prompt, surroundings.shell());
    Ok(prompt)
}

/// A failure from diagnostics of several texts: all of them are reported, the first one names it.
pub(crate) fn rendered_in<'d>(
    map: &SourceMap<'_>,
    errors: impl IntoIterator<Item = &'d Diagnostic>,
) -> Failure {
    let errors: Vec<&Diagnostic> = errors.into_iter().collect();
    let reports: Vec<String> = errors
        .iter()
        .map(|error| map.render(error, error_style()))
        .collect();
    let (code, message) = errors
        .first()
        .map_or(("E-SOURCE-READ", String::new()), |first| {
            let place = map.place(first.primary.start);
            (first.code.as_str(), format!("{place}: {}", first.message))
        });
    Failure {
        report: Some(reports.join("\n")),
        ..Failure::user(code, message)
    }
}

/// The models that agents name, or the one of the command line and the configuration.
struct ModelsInForce {
    connection: Connection,
    model: Option<String>,
}

impl Models for ModelsInForce {
    fn find(&self, named: Option<&str>, folder: &Path) -> Result<logue_agent::Model, String> {
        let (name, folder) = match (named, &self.model) {
            (Some(name), _) => (name, folder.to_owned()),
            (None, Some(name)) => (name.as_str(), PathBuf::new()),
            (None, None) => {
                return Err("it names no model, and none is in force".to_owned());
            }
        };
        model::connect(name, &folder, &self.connection).map_err(|failure| failure.message)
    }
}
