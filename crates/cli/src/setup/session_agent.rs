//! The agent of a session, and the labels that store it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use logue_agent::{
    AgentLog, Approvals, Assistant, AuditLog, EvaluationRecord, History, Permission,
    PermissionRule, Permissions, Prepared, SessionAudit, TurnEvent, chat, prepare,
};
use logue_harness::SystemClock;
use logue_harness::chat::{ChatHarness, OnCrash};
use logue_harness::store::{LOST_LABELS, SessionInfo, SharedStore};
use logue_model::SamplingSettings;
use logue_tools::HiddenFiles;
use serde_json::{Map, Value, json};

use crate::arguments::{ModelArgs, TrustArgs};
use crate::exit::{CliError, Exit};
use crate::language::Language;
use crate::setup::evaluation::{not_recorded, record_beside, record_of_session};
use crate::setup::output::Output;
use crate::setup::prepare_failure::prepare_failure;
use crate::setup::prompt::input::Input;
use crate::setup::question::{QUESTION, Question};
use crate::setup::session_labels::SessionLabels;
use crate::setup::settings::Settings;
use crate::setup::settings::connection_record::ConnectionRecord;
use crate::setup::store::{ids, shown_id};
use crate::setup::turn_environment::TurnCommand;

/// The label with the path of the agent's prompt.
pub(crate) const AGENT: &str = "agent";
/// The label with the seconds after its last change when a session may be removed.
pub(crate) const TTL: &str = "ttl_seconds";
/// The label with the model that replaces the prompt's.
const MODEL: &str = "model";
/// The label with what evaluation of the prompt obtained.
pub(crate) const EVALUATED: &str = "evaluated";
/// The label with the values of variables; `null` for one that was redacted.
pub(crate) const VARIABLES: &str = "variables";
/// The labels whose values are texts.
pub(crate) const TEXT_LABELS: &[&str] = &[AGENT, MODEL, "prompt"];
/// The label with the permission rules of tools.
const PERMISSIONS: &str = "permissions";

/// The prompt of an agent.
#[derive(Clone, Debug)]
pub(crate) enum AgentPrompt {
    File(PathBuf),
    /// The prompt of `logue ask`, which the session keeps.
    Question(Question),
}

/// The agent of a session.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) prompt: AgentPrompt,
    /// The model that replaces the prompt's.
    model: Option<String>,
    permissions: Permissions,
    /// The label with what evaluation of the prompt obtained.
    evaluated: Option<Value>,
    /// The label with the values of variables.
    variables: Map<String, Value>,
    /// The values of variables after this command, if they changed.
    given: Arc<OnceLock<Value>>,
    /// The record of the evaluation for this command.
    record: Arc<OnceLock<Arc<EvaluationRecord>>>,
    /// The labels that the session does not contain yet.
    news: Vec<(&'static str, Value)>,
    /// The content of the prompt's file that was checked; `None` to read the file.
    text: Option<Arc<[u8]>>,
    /// The JSON Schema of the turn's answer, besides the prompt's.
    schema: Option<Arc<Value>>,
    /// The settings of the turn that restrict those of the prompt.
    limits: SamplingSettings,
    /// The prompts of the server, which tools do not read.
    hidden: Option<HiddenFiles>,
}

impl Agent {
    /// Returns the agent of a session.
    ///
    /// The command line takes precedence over the labels of the session.
    pub(crate) fn new(
        session: &str,
        known: Option<&SessionInfo>,
        given: Option<AgentPrompt>,
        model: Option<&str>,
        rules: &[PermissionRule],
    ) -> Result<Self, CliError> {
        let label = |name: &str| known.and_then(|info| info.labels.get(name));
        let text = |name: &str| label(name).and_then(Value::as_str).map(str::to_owned);
        let mut news = Vec::new();
        let mut note = |name: &'static str, value: Value| {
            if label(name) != Some(&value) {
                news.push((name, value));
            }
        };
        let question = label(QUESTION).and_then(Question::from_json);
        let prompt = match (given, text(AGENT), question) {
            (Some(AgentPrompt::File(file)), ..) => {
                let file = std::path::absolute(&file).unwrap_or(file);
                note(AGENT, json!(file.display().to_string()));
                AgentPrompt::File(file)
            }
            (Some(AgentPrompt::Question(question)), ..) => {
                note(QUESTION, question.to_json());
                AgentPrompt::Question(question)
            }
            (None, Some(file), _) => AgentPrompt::File(PathBuf::from(file)),
            (None, None, Some(question)) => AgentPrompt::Question(question),
            (None, None, None) => {
                let message = format!("session `{}` has no agent", shown_id(session));
                return Err(CliError::user("agent_not_configured", message)
                    .with_help("name a prompt: --agent FILE; the session remembers it"));
            }
        };
        let model = match model {
            Some(model) => {
                note(MODEL, json!(model));
                Some(model.to_owned())
            }
            None => text(MODEL),
        };
        let remembered = label(PERMISSIONS).and_then(Value::as_array);
        let remembered = remembered.into_iter().flatten();
        let mut remembered: Vec<PermissionRule> = remembered
            .map(|rule| rule.as_str().unwrap_or_default().parse())
            .collect::<Result<_, _>>()
            // An unreadable rule may have been a denial.
            .unwrap_or_else(|_| vec![PermissionRule::new("*", Permission::Deny)]);
        if label(LOST_LABELS).is_some() {
            // A lost rule may have asked or denied.
            remembered.insert(0, PermissionRule::new("*", Permission::Ask));
        }
        let permissions = remembered.into_iter().chain(rules.iter().cloned());
        let permissions = permissions.fold(Permissions::new(), Permissions::with);
        if !rules.is_empty() {
            let rules: Vec<String> = permissions.rules().map(|rule| rule.to_string()).collect();
            note(PERMISSIONS, json!(rules));
        }
        Ok(Self {
            prompt,
            model,
            permissions,
            evaluated: label(EVALUATED).cloned(),
            variables: label(VARIABLES)
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            given: Arc::default(),
            record: Arc::default(),
            news,
            text: None,
            schema: None,
            limits: SamplingSettings::default(),
            hidden: None,
        })
    }

    /// Returns the model that replaces the prompt's.
    pub(crate) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the agent with the model and rules of a server, which sessions omit.
    pub(crate) fn served_with(mut self, model: Option<&str>, rules: &[PermissionRule]) -> Self {
        if let Some(model) = model {
            self.model = Some(model.to_owned());
        }
        self.permissions = rules
            .iter()
            .cloned()
            .fold(self.permissions, Permissions::with);
        self
    }

    /// Returns the agent of a server, whose tools do not read these prompts.
    pub(crate) fn with_hidden(mut self, hidden: HiddenFiles) -> Self {
        self.hidden = Some(hidden);
        self
    }

    /// Returns the agent with a content of its prompt, whose file is not read.
    pub(crate) fn with_text(mut self, text: Option<Arc<[u8]>>) -> Self {
        self.text = text;
        self
    }

    /// Returns the agent for a turn with a schema and limits.
    pub(crate) fn with_limits(
        mut self,
        schema: Option<Arc<Value>>,
        limits: SamplingSettings,
    ) -> Self {
        self.schema = schema;
        self.limits = limits;
        self
    }

    /// Returns the agent with the model of the suspended turn that it resumes.
    ///
    /// Later messages may have changed the model of the session. A flag takes precedence.
    pub(crate) fn resuming(
        mut self,
        flag: Option<&str>,
        record: Option<&ConnectionRecord>,
    ) -> Self {
        if let (None, Some(record)) = (flag, record) {
            self.model.clone_from(&record.model);
        }
        self
    }

    /// Stores the new labels in the session.
    pub(crate) async fn remember(&self, labels: &SessionLabels<'_>) -> Result<(), CliError> {
        self.remember_all(labels, |_| true).await
    }

    /// Stores the agent in a session that has none yet.
    ///
    /// Returns the label of the agent that the session has already.
    pub(crate) async fn remember_first(
        &self,
        labels: &SessionLabels<'_>,
    ) -> Result<Option<Value>, CliError> {
        match self.own_label() {
            Some(own) => labels.set_once(AGENT, own).await,
            None => self.remember(labels).await.map(|()| None),
        }
    }

    /// Returns the label of an agent with a file.
    pub(crate) fn own_label(&self) -> Option<Value> {
        match &self.prompt {
            AgentPrompt::File(file) => Some(json!(file.display().to_string())),
            AgentPrompt::Question(_) => None,
        }
    }

    /// Stores the new labels in a session that has this agent.
    pub(crate) async fn remember_others(&self, labels: &SessionLabels<'_>) -> Result<(), CliError> {
        self.remember_all(labels, |name| name != AGENT).await
    }

    async fn remember_all(
        &self,
        labels: &SessionLabels<'_>,
        is_stored: impl Fn(&str) -> bool,
    ) -> Result<(), CliError> {
        let news = self.news.iter().filter(|(name, _)| is_stored(name));
        for (name, value) in news {
            labels.set(name, value.clone()).await?;
        }
        if let Some(values) = self.given.get() {
            labels.set(VARIABLES, values.clone()).await?;
        }
        let record = self.record.get().map(|record| record.changed_value());
        match record {
            Some(Ok(Some(value))) => labels.set(EVALUATED, value).await?,
            Some(Err(error)) => not_recorded(&error),
            _ => {}
        }
        Ok(())
    }

    /// Prepares the chat of a session without storing anything.
    pub(crate) async fn chat(
        &self,
        store: SharedStore,
        session: &str,
        command: &SessionCommand<'_>,
    ) -> Result<ChatHarness<TurnEvent>, CliError> {
        let input = match &self.prompt {
            AgentPrompt::File(file) => match &self.text {
                Some(text) => Input::for_agent_text(file, text.to_vec())?,
                None => Input::for_agent(file)?,
            },
            AgentPrompt::Question(question) => {
                question.check_directory()?;
                Input::for_question(question)
            }
        };
        if input.language == Language::Openchatml {
            let message = format!("`{}` is a transcript, not an agent's prompt", input.name);
            return Err(CliError::user("E-MD-TOP-LEVEL-TEXT", message)
                .with_help("`logue run` continues it; `logue view` prints it"));
        }
        let audit = SessionAudit::new(
            Arc::clone(&store),
            session,
            command.settings.redaction.clone(),
            Arc::new(SystemClock),
        );
        let prepared = self.prepare(&input, History::Session, command, Arc::new(audit));
        chat_over(prepared.await?.assistant, store, command.on_crash)
    }

    /// Prepares the assistant of a prompt for a session or a suspended turn.
    pub(crate) async fn prepare(
        &self,
        input: &Input,
        history: History,
        command: &SessionCommand<'_>,
        audit: Arc<dyn AuditLog>,
    ) -> Result<Prepared, CliError> {
        let mut model_args = command.model_args.clone();
        model_args.model.clone_from(&self.model);
        let turn = TurnCommand {
            settings: command.settings,
            model_args: &model_args,
            trust: command.trust,
            output: command.output,
            approvals: command.approvals,
            rules: command.rules,
        };
        let mut environment = turn.environment(self.permissions.clone(), audit)?;
        if let Some(schema) = &self.schema {
            environment.requirements = environment
                .requirements
                .with_response_schema(Arc::clone(schema));
        }
        environment.hidden.clone_from(&self.hidden);
        let variables = Arc::make_mut(&mut environment.variables);
        for (name, value) in &self.variables {
            match value.as_str() {
                Some(value) => variables.set_recorded(name, value),
                None => variables.require(name),
            }
        }
        if let Some(file) = input.transcript_path() {
            let redaction = command.settings.redaction.clone();
            let log = AgentLog::new(&file, redaction, Arc::clone(&environment.listener));
            // The transcript exists, and its turn was accepted before it waited.
            log.begin();
            let log = Arc::new(log);
            command.output.keep_agents(Arc::clone(&log));
            environment.listener = log;
        }
        let mut source = input.source(history)?;
        source.record = match input.transcript_path() {
            Some(file) => {
                let transcript = input.recorded_text(&file);
                record_beside(transcript, None, true, &model_args, command.settings)
            }
            None => record_of_session(self.evaluated.as_ref(), &model_args, command.settings),
        };
        let record = source.record.clone();
        let prepared = prepare(&environment, source).await;
        let mut prepared = prepared.map_err(|error| prepare_failure(&error, &model_args))?;
        self.restrict(&mut prepared.assistant.settings);
        if let (Some(record), None) = (record, &input.transcript) {
            // One command prepares its session once.
            drop(self.record.set(record));
        }
        if input.transcript.is_none() {
            self.note_values(&prepared.prompt.given_values(), command.settings);
        }
        command
            .output
            .started(&prepared.assistant.model, &input.name);
        Ok(prepared)
    }

    /// Adds the stop texts and the lower limit of tokens.
    fn restrict(&self, settings: &mut SamplingSettings) {
        settings.stop.extend_from_slice(&self.limits.stop);
        let most = [settings.max_tokens, self.limits.max_tokens];
        settings.max_tokens = most.into_iter().flatten().min();
    }

    /// Notes the values of variables for later turns, without those that are redacted.
    fn note_values(&self, given: &BTreeMap<String, String>, settings: &Settings) {
        let mut values = self.variables.clone();
        for (name, value) in given {
            let is_redacted = settings.redaction.finds(value);
            let value = if is_redacted {
                Value::Null
            } else {
                json!(value)
            };
            values.insert(name.clone(), value);
        }
        if values != self.variables {
            drop(self.given.set(Value::Object(values)));
        }
    }
}

/// The settings of a command that runs a turn of a session.
pub(crate) struct SessionCommand<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) model_args: &'a ModelArgs,
    pub(crate) trust: &'a TrustArgs,
    pub(crate) output: &'a Arc<Output>,
    /// The permission rules that this command names.
    pub(crate) rules: &'a [PermissionRule],
    /// The policy for turns whose process died.
    pub(crate) on_crash: OnCrash,
    /// The policy for calls that require a decision.
    pub(crate) approvals: Approvals,
}

/// Creates a chat over a store, with the system clock and random ids.
pub(crate) fn chat_over(
    assistant: Assistant,
    store: SharedStore,
    on_crash: OnCrash,
) -> Result<ChatHarness<TurnEvent>, CliError> {
    chat(assistant, store, Arc::new(SystemClock), ids(), on_crash)
        .map_err(|error| CliError::new(Exit::Internal, error.category, error.message))
}
