//! The agents of a server: its prompts, with the settings of the command.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;

use chatmd::Tag;
use logue_agent::{Approvals, HostError};
use logue_harness::BoxFuture;
use logue_harness::chat::StateCache;
use logue_harness::events::ListenState;
use logue_harness::store::{SessionInfo, SharedStore, Suspension};
use logue_message::ChatMessage;
use logue_model::SamplingSettings;
use logue_server::{
    AgentInfo, ChatHost, ExportForm, SessionChat, TraceContexts, TurnAgent, TurnFailure,
    TurnParameters,
};
use logue_source::{Source, escape_line, quote_word};
use logue_tools::HiddenFiles;
use openchatml::Dialect;
use serde_json::{Value, json};

use crate::arguments::ServeArgs;
use crate::commands::serve::catalog::{AgentFault, Candidate, Catalog, PromptVersion, Repeated};
use crate::commands::serve::first_agent;
use crate::conversion::form::Form;
use crate::conversion::in_memory::write_messages;
use crate::exit::CliError;
use crate::setup::output::Output;
use crate::setup::provider_pool::ProviderPool;
use crate::setup::session_agent::{AGENT, Agent, AgentPrompt, SessionCommand, TTL};
use crate::setup::session_labels::{SessionLabels, replaced};
use crate::setup::settings::Settings;
use crate::setup::settings::connection_record::ConnectionRecord;
use crate::setup::store::store_failure;
use crate::setup::store_log::print_listening;
use crate::setup::suspended::file_of;
use crate::telemetry;
use crate::terminal::print_error;

/// The code of a prompt without a model.
const MODEL_NOT_CONFIGURED: &str = "model_not_configured";
/// The number of sessions whose states are kept between their turns.
const STATES: usize = 256;
/// The bytes of their texts.
const STATE_BYTES: usize = 32 << 20;

/// The agents of a server.
pub(super) struct ServedAgents {
    arguments: ServeArgs,
    settings: Settings,
    store: SharedStore,
    /// The states of sessions between their turns.
    states: Arc<StateCache>,
    catalog: Catalog,
    /// The prompts, which no tool of a turn reads.
    hidden: HiddenFiles,
}

impl ServedAgents {
    pub(super) fn new(
        arguments: ServeArgs,
        mut settings: Settings,
        store: SharedStore,
    ) -> Result<Self, CliError> {
        // Connections to models are kept between turns.
        settings.model.pool = Some(ProviderPool::default());
        let (catalog, repeated) = Catalog::new(&arguments.paths);
        if let Some(repeated) = repeated {
            return Err(agent_repeated(&repeated));
        }
        Ok(Self {
            arguments,
            settings,
            store,
            states: Arc::new(StateCache::new(STATES).with_max_bytes(STATE_BYTES)),
            catalog,
            hidden: HiddenFiles::default(),
        })
    }

    /// Checks each agent once.
    ///
    /// # Errors
    /// Returns the errors of the prompts that the command line names, or of all prompts.
    pub(super) async fn check(&self) -> Result<(), CliError> {
        let candidates = self.catalog.first_candidates();
        if candidates.is_empty() {
            return Err(
                CliError::user("agent_not_found", "no ChatMD prompt was found")
                    .with_help("name ChatMD prompts, or directories of them"),
            );
        }
        let (mut failures, mut faults) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let checked = self.prepared_once(&candidate).await;
            let fault = self.catalog.checked(&candidate, checked);
            if let Some(fault) = fault {
                if candidate.is_named(&self.arguments.paths) {
                    failures.push(self.shown(fault.into_error()));
                } else {
                    faults.push((candidate.name, fault));
                }
            }
        }
        if failures.len() + faults.len() == self.catalog.agents().len() {
            let others = faults.drain(..);
            failures.extend(others.map(|(_, fault)| self.shown(fault.into_error())));
        }
        if let Some(failure) = CliError::joined(failures) {
            return Err(failure);
        }
        for (name, fault) in faults {
            self.report(&name, fault);
        }
        Ok(())
    }

    /// Returns whether reports quote nothing of prompts, as they may be collected in a log.
    fn hides_sources(&self) -> bool {
        !self.arguments.debug_view && !io::stderr().is_terminal()
    }

    fn shown(&self, error: CliError) -> CliError {
        if self.hides_sources() {
            error.without_sources()
        } else {
            error
        }
    }

    /// Reports the error of an agent on standard error.
    fn report(&self, name: &str, fault: AgentFault) {
        let effect = if fault.serves_earlier {
            "its earlier version is still served"
        } else {
            "it is not served"
        };
        let name = escape_line(name);
        let report = self.shown(fault.into_error()).text();
        print_error(&format!(
            "{report}note: agent `{name}` has errors: {effect}\n"
        ));
    }

    /// Searches the directories until the future is dropped, and checks what has changed.
    ///
    /// An agent whose check takes long delays no other one.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut known = None;
        loop {
            tokio::time::sleep(self.catalog.pause()).await;
            let host = Arc::clone(&self);
            // Reading directories may block.
            let found = tokio::task::spawn_blocking(move || host.catalog.search()).await;
            let Ok((candidates, repeated)) = found else {
                continue;
            };
            if repeated != known {
                if let Some(repeated) = &repeated {
                    print_error(&agent_repeated(repeated).text());
                }
                known = repeated;
            }
            for candidate in candidates {
                let host = Arc::clone(&self);
                tokio::spawn(async move {
                    let checked = host.prepared_once(&candidate).await;
                    if let Some(fault) = host.catalog.checked(&candidate, checked) {
                        host.report(&candidate.name, fault);
                    }
                });
            }
        }
    }

    /// Prepares an agent over an empty store.
    async fn prepared_once(&self, candidate: &Candidate) -> Result<(), CliError> {
        let version = candidate.version.clone()?;
        self.hidden.hide(&version.file);
        let output = Arc::new(Output::of_check(self.hides_sources()));
        let store: SharedStore = Arc::new(logue_harness::store::MemoryStore::new());
        let checked = async {
            let agent = self.agent("check", None, Some(&version), true)?;
            agent.chat(store, "check", &self.command(&output)).await
        };
        let checked = checked.await;
        output.finish();
        checked.map(drop).map_err(|error| placed(error, &version))
    }

    /// Returns the agent of a session, which uses a version of its prompt.
    fn agent(
        &self,
        session: &str,
        known: Option<&SessionInfo>,
        version: Option<&PromptVersion>,
        is_named: bool,
    ) -> Result<Agent, CliError> {
        let file = version.map(|version| AgentPrompt::File(version.file.clone()));
        let agent = Agent::new(session, known, file.filter(|_| is_named), None, &[])?;
        let agent = self.served(agent);
        Ok(agent.with_text(version.map(|version| Arc::clone(&version.bytes))))
    }

    /// Returns the version of the prompt for a turn of a known session.
    fn version_of(&self, known: Option<&SessionInfo>) -> Result<Option<PromptVersion>, CliError> {
        let label = known.and_then(|info| info.labels.get(AGENT));
        let file = label.and_then(Value::as_str);
        let version = file.map(|file| self.catalog.version_of_file(Path::new(file)));
        version.transpose()
    }

    fn served(&self, agent: Agent) -> Agent {
        let model = self.arguments.model_args.model.as_deref();
        let agent = agent.served_with(model, &self.arguments.permissions);
        agent.with_hidden(self.hidden.clone())
    }

    fn command<'a>(&'a self, output: &'a Arc<Output>) -> SessionCommand<'a> {
        SessionCommand {
            settings: &self.settings,
            model_args: &self.arguments.model_args,
            trust: &self.arguments.trust,
            output,
            rules: &self.arguments.permissions,
            on_crash: self.arguments.crash.policy(&self.settings),
            approvals: Approvals::Suspend,
        }
    }

    /// Returns the name of the agent with this prompt.
    pub(super) fn agent_of_file(&self, file: &Path) -> Option<String> {
        self.catalog.agent_of_file(file)
    }

    async fn session(&self, session: &str) -> Result<Option<SessionInfo>, CliError> {
        let known = self.store.session(session).await;
        known.map_err(|error| store_failure(&error))
    }

    async fn prepare(
        &self,
        session: &str,
        agent: TurnAgent<'_>,
        parameters: TurnParameters,
    ) -> Result<SessionChat, CliError> {
        match agent {
            TurnAgent::Own(known) => {
                let own = (Some(known), None);
                self.prepare_read(session, own, parameters).await
            }
            TurnAgent::First {
                name,
                session: read,
            } => {
                let first = (read, Some(name));
                let chat = self.prepare_read(session, first, parameters.clone());
                let chat = chat.await?;
                let has_agent = read.is_some_and(|info| info.labels.contains_key(AGENT));
                if chat.begins || has_agent {
                    return Ok(chat);
                }
                // Another request began the session since: its labels apply, such as its rules. A session
                // that has taken the id after that was not compared with the request.
                let known = self.session(session).await?;
                let known = known.filter(|info| Some(info.created_at) == chat.created_at);
                let known = known.ok_or_else(|| replaced(session))?;
                self.prepare_read(session, (Some(&known), None), parameters)
                    .await
            }
            _ => {
                let known = self.session(session).await?;
                let own = (known.as_ref(), None);
                self.prepare_read(session, own, parameters).await
            }
        }
    }

    /// Prepares a turn of a session as it was read.
    ///
    /// `named` is the agent that a first turn names.
    async fn prepare_read(
        &self,
        session: &str,
        (known, named): (Option<&SessionInfo>, Option<&str>),
        parameters: TurnParameters,
    ) -> Result<SessionChat, CliError> {
        let name = named.map(str::to_owned);
        let name = name.or_else(|| self.agent_of(known?));
        let version = match named {
            Some(name) => Some(self.catalog.version(name)?),
            None => self.version_of(known)?,
        };
        let agent = self.agent(session, known, version.as_ref(), named.is_some())?;
        let agent = limited(agent, parameters);
        let output = Arc::new(Output::of_turn(self.hides_sources()));
        let chat = agent
            .chat(Arc::clone(&self.store), session, &self.command(&output))
            .await?;
        let (labels, begins) = if let Some(name) = named {
            first_agent::remember(self, &agent, (session, known), name).await?
        } else {
            let labels = SessionLabels::new(&self.store, session, known);
            agent.remember(&labels).await?;
            (labels, false)
        };
        let has_own = known.is_some_and(|info| info.labels.contains_key(TTL));
        if let Some(ttl) = self.settings.session_ttl.filter(|_| !has_own) {
            labels.set(TTL, json!(ttl.as_secs())).await?;
        }
        let stop = output.stop().clone();
        Ok(SessionChat {
            chat: chat.with_shared_states(&self.states),
            agent: name.unwrap_or_default(),
            begins,
            created_at: labels.created_at(),
            stop,
        })
    }

    async fn prepare_stateless(
        &self,
        name: &str,
        store: SharedStore,
        session: &str,
        parameters: TurnParameters,
    ) -> Result<SessionChat, CliError> {
        let version = self.catalog.version(name)?;
        let agent = self.agent(session, None, Some(&version), true)?;
        let agent = limited(agent, parameters);
        let output = Arc::new(Output::of_turn(self.hides_sources()));
        let mut command = self.command(&output);
        command.approvals = Approvals::Never;
        let chat = agent.chat(store, session, &command).await?;
        let stop = output.stop().clone();
        Ok(SessionChat {
            chat,
            agent: name.to_owned(),
            begins: true,
            created_at: None,
            stop,
        })
    }

    async fn prepare_resumed(
        &self,
        session: &str,
        waiting: &Suspension,
    ) -> Result<SessionChat, CliError> {
        let known = self.session(session).await?;
        let record = ConnectionRecord::of(waiting);
        let mut settings = self.settings.clone();
        if let Some(record) = &record {
            settings.model = settings.model.resuming(record);
        }
        let flag = self.arguments.model_args.model.as_deref();
        let version = self.version_of(known.as_ref())?;
        let agent = self.agent(session, known.as_ref(), version.as_ref(), false)?;
        let agent = agent.resuming(flag, record.as_ref());
        let output = Arc::new(Output::of_turn(self.hides_sources()));
        let mut command = self.command(&output);
        command.settings = &settings;
        let chat = agent
            .chat(Arc::clone(&self.store), session, &command)
            .await?;
        let stop = output.stop().clone();
        let name = known.as_ref().and_then(|known| self.agent_of(known));
        Ok(SessionChat {
            chat: chat.with_shared_states(&self.states),
            agent: name.unwrap_or_default(),
            begins: false,
            created_at: known.map(|info| info.created_at),
            stop,
        })
    }
}

impl ChatHost for ServedAgents {
    fn agents(&self) -> Vec<AgentInfo> {
        let agents = self.catalog.agents().into_iter();
        let agents = agents.map(|(name, fault)| {
            let info = AgentInfo::new(name);
            match fault {
                None => info,
                Some(fault) => info.with_fault(fault.serves_earlier, fault.into_host_error()),
            }
        });
        agents.collect()
    }

    fn store(&self) -> &SharedStore {
        &self.store
    }

    fn traces(&self) -> Option<&dyn TraceContexts> {
        telemetry::contexts()
    }

    fn listening_changed(&self, state: &ListenState) {
        print_listening(state);
    }

    fn turn_failed(&self, failure: &TurnFailure<'_>) {
        print_error(&failure_line(failure));
    }

    fn agent_of(&self, session: &SessionInfo) -> Option<String> {
        if file_of(&session.session).is_some() {
            return None;
        }
        let own = session.labels.get(AGENT).and_then(Value::as_str)?;
        self.agent_of_file(Path::new(own))
    }

    fn write_messages(
        &self,
        messages: &[ChatMessage],
        form: ExportForm,
    ) -> Result<String, HostError> {
        let form = match form {
            ExportForm::ChatMd => Form::Chatmd,
            ExportForm::OpenChatMl => Form::Dialect(Dialect::V2_2),
            other => {
                let message = format!("unknown form {other:?}");
                return Err(CliError::user("usage", message).into());
            }
        };
        let (mut text, _) = write_messages(messages, form)?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }

    fn chat_with<'a>(
        &'a self,
        session: &'a str,
        agent: TurnAgent<'a>,
        parameters: TurnParameters,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>> {
        Box::pin(async move { Ok(self.prepare(session, agent, parameters).await?) })
    }

    fn stateless_chat<'a>(
        &'a self,
        agent: &'a str,
        store: SharedStore,
        session: &'a str,
        parameters: TurnParameters,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>> {
        Box::pin(async move {
            let chat = self.prepare_stateless(agent, store, session, parameters);
            Ok(chat.await?)
        })
    }

    fn resumed_chat<'a>(
        &'a self,
        session: &'a str,
        waiting: &'a Suspension,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>> {
        Box::pin(async move { Ok(self.prepare_resumed(session, waiting).await?) })
    }
}

/// Returns an error with its place in the prompt, unless it names the prompt already.
fn placed(mut error: CliError, version: &PromptVersion) -> CliError {
    let name = version.file.display().to_string();
    if error.report.is_some() || error.message.contains(&name) {
        return error;
    }
    let text = String::from_utf8_lossy(&version.bytes);
    // Errors of models are about the element that names the model.
    let is_of_model = error.code == MODEL_NOT_CONFIGURED || error.code.starts_with("provider_");
    let tree = chatmd::parse(&text);
    let config = tree.elements().find(|element| element.tag() == Tag::Config);
    let config = config.filter(|_| is_of_model);
    let start = config.map_or(0, |config| config.opener().start);
    let place = Source::new(name, text.as_bytes()).place(start);
    error.message = format!("{place}: {}", error.message);
    error
}

/// Returns an agent with the parameters of a turn.
fn limited(agent: Agent, parameters: TurnParameters) -> Agent {
    let limits = SamplingSettings::default()
        .with_stop(parameters.stop)
        .with_max_tokens(parameters.max_tokens);
    agent.with_limits(parameters.response_schema, limits)
}

/// Returns the line about a failed turn, which contains nothing of the conversation.
fn failure_line(failure: &TurnFailure<'_>) -> String {
    let mut line = format!(
        "turn failed: {} agent={}",
        failure.code,
        quoted(failure.agent)
    );
    if let Some(session) = failure.session {
        line.push_str(&format!(" session={}", quoted(session)));
    }
    if let Some(status) = failure.status {
        line.push_str(&format!(" status={status}"));
    }
    line.push('\n');
    line
}

/// Returns a name as one word of a line.
fn quoted(name: &str) -> String {
    quote_word(&escape_line(name))
}

fn agent_repeated((one, other): &Repeated) -> CliError {
    let message = format!(
        "`{}` and `{}` would be one agent",
        one.display(),
        other.display()
    );
    CliError::user("agent_repeated", message)
        .with_help("an agent is named after its file: rename one of them")
}
