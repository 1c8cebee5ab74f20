//! The agent of a session: the prompt that answers in it, and what the session remembers of that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{
    Assistant, AuditLog, Budget, Permission, PermissionRule, Permissions, Prompt, SessionAudit,
    chat, toolbox,
};
use logue_harness::Clock as _;
use logue_harness::chat::ChatHarness;
use logue_harness::store::{SessionInfo, SharedStore};
use serde_json::{Value, json};

use crate::arguments::Asking;
use crate::exit::{Exit, Failure};
use crate::language::Language;
use crate::setup::config::limits::require_price;
use crate::setup::permissions::Desk;
use crate::setup::prompt::input::Input;
use crate::setup::prompt::{reading, refining};
use crate::setup::roots::roots;
use crate::setup::store::{SystemClock, ids, store_failure};
use crate::setup::transcript::routing_of;
use crate::setup::{model, requirements};

/// The label with the path of the prompt that answers.
pub(crate) const AGENT: &str = "agent";
/// The label with the model that was named over the prompt's.
const MODEL: &str = "model";
/// The label with the rules of what tools may do.
const PERMISSIONS: &str = "permissions";

/// Who answers in a session.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    /// The prompt.
    pub(crate) file: PathBuf,
    /// The model that the prompt's is replaced by.
    model: Option<String>,
    permissions: Permissions,
    /// What the session does not remember yet.
    news: Vec<(&'static str, Value)>,
}

impl Agent {
    /// The agent of a session: what the command line names over what the session remembers.
    pub(crate) fn of(
        session: &str,
        known: Option<&SessionInfo>,
        file: Option<&Path>,
        model: Option<&str>,
        rules: &[PermissionRule],
    ) -> Result<Self, Failure> {
        let label = |name: &str| known.and_then(|info| info.labels.get(name));
        let text = |name: &str| label(name).and_then(Value::as_str).map(str::to_owned);
        let mut news = Vec::new();
        let mut note = |name: &'static str, value: Value| {
            if label(name) != Some(&value) {
                news.push((name, value));
            }
        };
        let file = match (file, text(AGENT)) {
            (Some(file), _) => {
                let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
                note(AGENT, json!(file.display().to_string()));
                file
            }
            (None, Some(file)) => PathBuf::from(file),
            (None, None) => {
                let message = format!("nobody answers in the session `{session}` yet");
                return Err(Failure::user("agent_not_configured", message)
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
        let remembered: Vec<PermissionRule> = remembered
            .map(|rule| rule.as_str().unwrap_or_default().parse())
            .collect::<Result<_, _>>()
            // What cannot be read may have been a prohibition.
            .unwrap_or_else(|_| {
                vec![PermissionRule {
                    tool: "*".to_owned(),
                    permission: Permission::Deny,
                }]
            });
        let permissions = remembered.into_iter().chain(rules.iter().cloned());
        let permissions = permissions.fold(Permissions::new(), Permissions::with);
        if !rules.is_empty() {
            let rules: Vec<String> = permissions.rules().map(|rule| rule.to_string()).collect();
            note(PERMISSIONS, json!(rules));
        }
        Ok(Self {
            file,
            model,
            permissions,
            news,
        })
    }

    /// Lets the session remember what is new.
    pub(crate) async fn remember(&self, session: &str, store: &SharedStore) -> Result<(), Failure> {
        for (name, value) in &self.news {
            let now = SystemClock.now();
            let noted = store.set_label(session, name, value.clone(), now).await;
            noted.map_err(|error| store_failure(&error))?;
        }
        Ok(())
    }

    /// Reads the prompt and sets everything up that a turn needs. Nothing is stored.
    pub(crate) async fn chat(
        &self,
        store: SharedStore,
        session: &str,
        asking: &Asking,
        desk: &Desk<'_>,
    ) -> Result<ChatHarness, Failure> {
        let input = Input::of_agent(&self.file)?;
        if input.language == Language::Openchatml {
            let message = format!(
                "`{}` is a transcript, and no prompt of an agent",
                input.name
            );
            return Err(Failure::user("E-MD-TOP-LEVEL-TEXT", message)
                .with_help("`logue run` goes on with it; `logue view` shows it"));
        }
        let audit = SessionAudit::new(
            Arc::clone(&store),
            session,
            desk.config.redaction().clone(),
            Arc::new(SystemClock),
        );
        let prepared = self.assistant(input, asking, desk, Arc::new(audit)).await?;
        chat_over(prepared.assistant, store)
    }

    /// The assistant that a prompt describes; every request of it begins with the prompt's messages.
    pub(crate) async fn assistant(
        &self,
        mut input: Input,
        asking: &Asking,
        desk: &Desk<'_>,
        audit: Arc<dyn AuditLog>,
    ) -> Result<Prepared, Failure> {
        let (config, output) = (desk.config, desk.output);
        let mut asking = asking.clone();
        asking.model.clone_from(&self.model);
        let folder = input.prompt_folder();
        let roots = roots(&folder, &asking, config)?;
        let budget = Budget::new(config.spending(&asking.limits));
        let surroundings = reading::surroundings(&input, roots, &asking, config)?;
        refining::refine(&mut input, &surroundings, &asking, config, output).await?;
        let permissions = desk.rules(self.permissions.clone(), audit);
        let permissions = desk.judged(permissions, &input, &surroundings).await?;
        let spending = (&budget, Arc::clone(output) as _);
        let surroundings =
            reading::with_agents(surroundings, &asking, &permissions, config, spending);
        let prompt = reading::load(&input, &surroundings).await?;
        let toolbox = toolbox(&prompt, &surroundings, &permissions)
            .await
            .map_err(|diagnostic| reading::rendered_in(&prompt.source_map(), [&*diagnostic]))?;
        let named = prompt.config.model.as_deref();
        let model = model::choose(&asking, None, config, named, &folder)?;
        require_price(budget.limits(), &model)?;
        let demands = {
            let offered = toolbox.current().await;
            requirements::demands(&asking.demanding, offered.definitions())?
        };
        output.started(&model.name, &input.name);
        let assistant = Assistant {
            provider: model.provider,
            model: model.name,
            settings: prompt.settings(),
            toolbox,
            permissions,
            prefix: prompt.messages.clone(),
            max_requests: config.max_turns(asking.max_turns),
            routing: routing_of(&prompt, config),
            budget,
            demands,
        };
        Ok(Prepared {
            assistant,
            prompt,
            input,
        })
    }
}

/// An assistant, and what it was made of.
pub(crate) struct Prepared {
    pub(crate) assistant: Assistant,
    pub(crate) prompt: Prompt,
    pub(crate) input: Input,
}

/// A chat with an assistant over a store, with this machine's clock and random names.
pub(crate) fn chat_over(assistant: Assistant, store: SharedStore) -> Result<ChatHarness, Failure> {
    chat(assistant, store, Arc::new(SystemClock), ids())
        .map_err(|error| Failure::new(Exit::Internal, error.category, error.message))
}
