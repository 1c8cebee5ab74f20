//! Agents: other prompts that are run for their answer (ChatMD §5.3, §8.3).
//!
//! An agent has a history of its own: its prompt, and what it is told as one message of the user.
//! Its paths count from its own folder, its tools are what its own prompt declares, and what it
//! says last is the answer. Nothing of it is written into the caller's transcript.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chatmd::{WorldError, WorldErrorKind};
use logue_message::{ChatMessage, ContentBlock, Role};
use logue_model::Provider;
use logue_tools::BoxFuture;

use crate::agents::response_cache::{AnswerCache, key_of};
use crate::permission::permissions::Permissions;
use crate::prompt::document::{Prompt, toolbox};
use crate::prompt::environment::Surroundings;
use crate::transcript::item::NoTranscript;
use crate::trust::grant::Declared;
use crate::turn::budget::Budget;
use crate::turn::listener::{AgentPlace, Listener, TurnEvent};
use crate::turn::response_requirements::Demands;
use crate::turn::routing::Routing;
use crate::turn::run::{Turn, TurnEnd};

/// How deep agents may call agents where nothing else is said.
pub const MAX_AGENT_CALLS: usize = 8;

/// How agents are run.
#[derive(Clone)]
pub struct Agents {
    /// Who answers for an agent.
    pub models: Arc<dyn Models>,
    /// Answers that need not be asked for again.
    pub cache: Option<AnswerCache>,
    /// How often an agent's model may be asked for one answer.
    pub max_requests: usize,
    /// Which tools of agents run. Nobody can be asked while one runs, so those that a person would be
    /// asked about do not. An agent is trusted as far as the prompt that names it is.
    pub permissions: Permissions,
    /// How the calls of an agent's answer are run.
    pub routing: Routing,
    /// What agents may spend that are asked while a prompt is read. Those that a turn's tools ask
    /// spend what the turn may.
    pub budget: Budget,
    /// How deep agents may ask agents; with 0, none runs.
    pub max_depth: usize,
    /// Who is told what agents do, as [`TurnEvent::OfAgent`].
    pub listener: Arc<dyn Listener>,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agents")
            .field("cache", &self.cache)
            .field("max_requests", &self.max_requests)
            .finish_non_exhaustive()
    }
}

/// Finds the model that a prompt names.
pub trait Models: Send + Sync {
    /// The model named `named` in a prompt of that folder, or the one in force if the prompt names
    /// none.
    ///
    /// # Errors
    /// There is no such model, or it cannot be set up: why, and what to do.
    fn find(&self, named: Option<&str>, folder: &Path) -> Result<Model, String>;
}

/// A model that can be asked.
#[derive(Clone)]
pub struct Model {
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// What answers of it are told apart by from those of other servers and models.
    pub identity: String,
    /// Its name at the provider.
    pub name: String,
}

/// Whether an earlier answer to the same question will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// It will: the document asks it again each time that it is read.
    MayRepeat,
    /// It will not: a model asks, and may want another answer.
    Fresh,
}

impl Surroundings {
    /// What an agent says last when it is told `input`; `call_id` is the call that asks it, if a model
    /// does.
    ///
    /// # Errors
    /// Agents are off here, nested too deeply, or the agent's prompt or model failed; the message
    /// says which, the kind is [`WorldErrorKind::Agent`].
    pub(crate) fn ask_agent<'a>(
        &'a self,
        src: &'a str,
        local: bool,
        input: Vec<ContentBlock>,
        freshness: Freshness,
        call_id: Option<&'a str>,
    ) -> BoxFuture<'a, Result<String, WorldError>> {
        // Boxed, because an agent may ask agents.
        Box::pin(self.ask(src, local, input, freshness, call_id))
    }

    async fn ask(
        &self,
        src: &str,
        local: bool,
        input: Vec<ContentBlock>,
        freshness: Freshness,
        call_id: Option<&str>,
    ) -> Result<String, WorldError> {
        let Some(agents) = &self.agents else {
            return Err(failed("agents are not run here".to_owned()));
        };
        let as_agent = |error: WorldError| WorldError {
            kind: match error.kind {
                WorldErrorKind::Denied => WorldErrorKind::Denied,
                _ => WorldErrorKind::Agent,
            },
            ..error
        };
        let (text, path) = if local {
            self.world.prompt(src).map_err(as_agent)?
        } else {
            let page = self.page(src).await.map_err(as_agent)?;
            (page.text, PathBuf::from(src))
        };
        let chain = || {
            let names = self
                .callers
                .iter()
                .map(|caller| caller.display().to_string());
            names
                .chain([path.display().to_string()])
                .collect::<Vec<_>>()
                .join(" > ")
        };
        // What stands in a document is asked each time that it is read, so it would never end.
        if freshness == Freshness::MayRepeat && self.callers.contains(&path) {
            let message = format!("it asks for itself: {}", chain());
            return Err(failed(message).with_help("remove the agent that asks for its own prompt"));
        }
        if self.depth >= agents.max_depth {
            let message = format!(
                "agents call agents more than {} deep: {}",
                agents.max_depth,
                chain()
            );
            return Err(failed(message).with_help("let one of them do its part itself"));
        }
        // A prompt from the network has no folder, and nothing of this machine.
        let folder = path.parent().filter(|_| local);
        let inside = self.inside(folder, &path).map_err(failed)?;
        let prompt = inside.load(src, &text).await;
        if let Some(error) = prompt.diagnostics.iter().find(|found| found.is_error()) {
            let place = prompt.source_map().place(error.primary.start);
            let help = if local {
                format!("`logue check {src}` shows what is wrong with it")
            } else {
                "save it to a file; `logue check` shows what is wrong with it".to_owned()
            };
            return Err(
                failed(format!("{place}: {} ({})", error.message, error.code)).with_help(help),
            );
        }
        if !local && !prompt.tools.is_empty() {
            return Err(
                failed("a prompt from the network may declare no tools".to_owned())
                    .with_help("save it to a file, read it, and use that"),
            );
        }
        let place = AgentPlace {
            src: src.to_owned(),
            call_id: call_id.map(str::to_owned),
            depth: inside.depth,
        };
        let asked = (input, freshness);
        agents.run(&inside, prompt, asked, &path, place).await
    }
}

impl Agents {
    async fn run(
        &self,
        inside: &Surroundings,
        prompt: Prompt,
        (input, freshness): (Vec<ContentBlock>, Freshness),
        path: &Path,
        place: AgentPlace,
    ) -> Result<String, WorldError> {
        let folder = inside.world.roots().base();
        let mut history = prompt.messages.clone();
        if !input.is_empty() {
            history.push(ChatMessage::user(input));
        }
        if !matches!(
            history.last().map(|last| last.role),
            Some(Role::User | Role::Tool)
        ) {
            return Err(failed("it is told nothing that it could answer".to_owned())
                .with_help("write what it shall do between `<agent …>` and `</agent>`"));
        }
        let model = self
            .models
            .find(prompt.config.model.as_deref(), folder)
            .map_err(failed)?;
        let declared = Declared::of(prompt.tools.iter(), folder);
        let permissions = self.permissions.clone().of_agent(path, &declared);
        let toolbox = toolbox(&prompt, inside, &permissions)
            .await
            .map_err(|error| failed(format!("{} ({})", error.message, error.code)))?;
        let settings = prompt.settings();
        let key = {
            let offered = toolbox.current().await;
            key_of(&model.identity, &settings, offered.definitions(), &history)
        };
        // What tools find is not in the key, so an agent that has some is asked each time.
        let may_repeat = freshness == Freshness::MayRepeat && prompt.tools.is_empty();
        let cache = self.cache.as_ref().filter(|_| may_repeat);
        if let Some(answer) = cache.and_then(|cache| cache.get(&key)) {
            return Ok(answer);
        }
        let turn = Turn {
            provider: model.provider,
            model: model.name,
            settings,
            toolbox,
            permissions,
            history,
            transcript: Box::new(NoTranscript),
            listener: Arc::new(Heard {
                listener: Arc::clone(&self.listener),
                place,
            }),
            max_requests: self.max_requests,
            routing: self.routing.clone(),
            budget: Budget::of_turn().unwrap_or_else(|| self.budget.clone()),
            demands: Demands::default(),
            invocation_id: None,
        };
        let ended = turn.run().await.map_err(|error| {
            let error_of_turn = failed(format!("{} ({})", error.message, error.category));
            error
                .help
                .into_iter()
                .fold(error_of_turn, WorldError::with_help)
        })?;
        let TurnEnd::Completed(report) = ended else {
            return Err(failed(
                "it waits for a person, whom nobody can ask".to_owned(),
            ));
        };
        let answer = report
            .replies
            .last()
            .map(ChatMessage::text)
            .unwrap_or_default();
        if let Some(cut) = report.cut {
            let reason = cut.as_str();
            return Err(failed(format!("its answer is cut ({reason})"))
                .with_help("raise `max_tokens` in its `<config>`"));
        }
        if let Some(cache) = cache {
            cache.put(&key, &answer);
        }
        Ok(answer)
    }
}

/// Tells what an agent does, and which one.
struct Heard {
    listener: Arc<dyn Listener>,
    place: AgentPlace,
}

impl Listener for Heard {
    fn event(&self, event: TurnEvent<'_>) {
        // An agent that an agent asks tells the same listener by itself.
        self.listener.event(TurnEvent::OfAgent {
            agent: &self.place,
            event: &event,
        });
    }
}

fn failed(message: String) -> WorldError {
    WorldError::new(WorldErrorKind::Agent, message)
}
