//! The agents of a server: its prompts, with the settings of the command.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use logue_agent::{Approvals, HostError};
use logue_harness::store::{SessionInfo, SharedStore, Suspension};
use logue_harness::{BoxFuture, Clock as _, SystemClock};
use logue_message::ChatMessage;
use logue_server::{AgentInfo, ChatHost, ExportForm, SessionChat, TraceContexts};
use openchatml::Dialect;
use serde_json::{Value, json};
use std::sync::PoisonError;

use crate::arguments::ServeArgs;
use crate::conversion::form::Form;
use crate::conversion::in_memory::write_messages;
use crate::exit::CliError;
use crate::setup::output::Output;
use crate::setup::prompt_files::prompt_files;
use crate::setup::session_agent::{AGENT, Agent, AgentPrompt, SessionCommand, TTL};
use crate::setup::settings::Settings;
use crate::setup::settings::connection_record::ConnectionRecord;
use crate::setup::store::store_failure;
use crate::setup::suspended::file_of;
use crate::telemetry;

/// The agents by name, each with the absolute path of its prompt.
type Catalog = BTreeMap<String, PathBuf>;

/// The agents of a server.
pub(super) struct ServedAgents {
    arguments: ServeArgs,
    settings: Settings,
    store: SharedStore,
    catalog: RwLock<Arc<Catalog>>,
}

impl ServedAgents {
    pub(super) fn new(
        arguments: ServeArgs,
        settings: Settings,
        store: SharedStore,
    ) -> Result<Self, CliError> {
        let (catalog, repeated) = catalog(&arguments.paths);
        if let Some((one, other)) = repeated {
            let message = format!(
                "`{}` and `{}` would be one agent",
                one.display(),
                other.display()
            );
            return Err(CliError::user("agent_repeated", message)
                .with_help("an agent is named after its file: rename one of them"));
        }
        if catalog.is_empty() {
            return Err(
                CliError::user("agent_not_found", "no ChatMD prompt was found")
                    .with_help("name ChatMD prompts, or directories of them"),
            );
        }
        Ok(Self {
            arguments,
            settings,
            store,
            catalog: RwLock::new(Arc::new(catalog)),
        })
    }

    /// Prepares each agent once, so that warnings and errors appear at the start.
    pub(super) async fn check(&self) -> Result<(), CliError> {
        let output = Arc::new(Output::new(false));
        for file in self.catalog().values() {
            let store: SharedStore = Arc::new(logue_harness::store::MemoryStore::new());
            let agent = Agent::new(
                "check",
                None,
                Some(AgentPrompt::File(file.clone())),
                None,
                &[],
            )?;
            let agent = self.served(agent);
            let checked = agent.chat(store, "check", &self.command(&output)).await;
            output.finish();
            drop(checked?);
        }
        Ok(())
    }

    /// Searches the directories again.
    pub(super) fn refresh(&self) {
        let (found, _) = catalog(&self.arguments.paths);
        if found != *self.catalog() {
            let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
            *catalog = Arc::new(found);
        }
    }

    fn catalog(&self) -> Arc<Catalog> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&catalog)
    }

    fn served(&self, agent: Agent) -> Agent {
        let model = self.arguments.model_args.model.as_deref();
        agent.served_with(model, &self.arguments.permissions)
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

    async fn session(&self, session: &str) -> Result<Option<SessionInfo>, CliError> {
        let known = self.store.session(session).await;
        known.map_err(|error| store_failure(&error))
    }

    async fn prepare(&self, session: &str, named: Option<&str>) -> Result<SessionChat, CliError> {
        let known = self.session(session).await?;
        let name = named.map(str::to_owned);
        let name = name.or_else(|| self.agent_of(known.as_ref()?));
        let prompt = match named {
            None => None,
            Some(name) => {
                let file = self.catalog().get(name).cloned().ok_or_else(|| {
                    CliError::user("agent_not_found", format!("agent `{name}` not found"))
                })?;
                Some(AgentPrompt::File(file))
            }
        };
        let agent = Agent::new(session, known.as_ref(), prompt, None, &[])?;
        let agent = self.served(agent);
        let output = Arc::new(Output::silent());
        let chat = agent
            .chat(Arc::clone(&self.store), session, &self.command(&output))
            .await?;
        agent.remember(session, &self.store).await?;
        let has_own = known.is_some_and(|info| info.labels.contains_key(TTL));
        if let Some(ttl) = self.settings.session_ttl.filter(|_| !has_own) {
            let (seconds, now) = (json!(ttl.as_secs()), SystemClock.now());
            let noted = self.store.set_label(session, TTL, seconds, now).await;
            noted.map_err(|error| store_failure(&error))?;
        }
        let stop = output.stop().clone();
        Ok(SessionChat {
            chat,
            agent: name.unwrap_or_default(),
            stop,
        })
    }

    async fn prepare_stateless(
        &self,
        name: &str,
        store: SharedStore,
        session: &str,
    ) -> Result<SessionChat, CliError> {
        let file = self.catalog().get(name).cloned().ok_or_else(|| {
            CliError::user("agent_not_found", format!("agent `{name}` not found"))
        })?;
        let agent = Agent::new(session, None, Some(AgentPrompt::File(file)), None, &[])?;
        let output = Arc::new(Output::silent());
        let mut command = self.command(&output);
        command.approvals = Approvals::Never;
        let chat = self.served(agent).chat(store, session, &command).await?;
        let stop = output.stop().clone();
        Ok(SessionChat {
            chat,
            agent: name.to_owned(),
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
        let agent = Agent::new(session, known.as_ref(), None, None, &[])?;
        let agent = self.served(agent.resuming(flag, record.as_ref()));
        let output = Arc::new(Output::silent());
        let mut command = self.command(&output);
        command.settings = &settings;
        let chat = agent
            .chat(Arc::clone(&self.store), session, &command)
            .await?;
        let stop = output.stop().clone();
        let name = known.as_ref().and_then(|known| self.agent_of(known));
        Ok(SessionChat {
            chat,
            agent: name.unwrap_or_default(),
            stop,
        })
    }
}

impl ChatHost for ServedAgents {
    fn agents(&self) -> Vec<AgentInfo> {
        self.catalog().keys().map(AgentInfo::new).collect()
    }

    fn store(&self) -> &SharedStore {
        &self.store
    }

    fn traces(&self) -> Option<&dyn TraceContexts> {
        telemetry::contexts()
    }

    fn agent_of(&self, session: &SessionInfo) -> Option<String> {
        if file_of(&session.session).is_some() {
            return None;
        }
        let own = session.labels.get(AGENT).and_then(Value::as_str)?;
        let catalog = self.catalog();
        let mut agents = catalog.iter();
        let found = agents.find(|(_, file)| file.display().to_string() == own);
        found.map(|(name, _)| name.clone())
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

    fn chat<'a>(
        &'a self,
        session: &'a str,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>> {
        Box::pin(async move { Ok(self.prepare(session, agent).await?) })
    }

    fn stateless_chat<'a>(
        &'a self,
        agent: &'a str,
        store: SharedStore,
        session: &'a str,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>> {
        Box::pin(async move { Ok(self.prepare_stateless(agent, store, session).await?) })
    }

    fn resumed_chat<'a>(
        &'a self,
        session: &'a str,
        waiting: &'a Suspension,
    ) -> BoxFuture<'a, Result<SessionChat, HostError>> {
        Box::pin(async move { Ok(self.prepare_resumed(session, waiting).await?) })
    }
}

/// Returns the agents of files and directories, and two files with one name.
fn catalog(paths: &[PathBuf]) -> (Catalog, Option<(PathBuf, PathBuf)>) {
    let mut agents = Catalog::new();
    let mut repeated = None;
    for file in prompt_files(paths) {
        let file = std::path::absolute(&file).unwrap_or(file);
        let name = file
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        match agents.get(&name) {
            Some(known) if *known != file => repeated = Some((known.clone(), file)),
            _ => {
                agents.insert(name, file);
            }
        }
    }
    (agents, repeated)
}
