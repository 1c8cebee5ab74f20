//! One call: a prompt with what it is told, run with a history of its own.

use std::path::Path;
use std::sync::Arc;

use logue_agent::{
    Demands, Element, Listener, NoTranscript, Prompt, Turn, TurnEnd, into_text, read_bytes, toolbox,
};
use logue_message::{ChatMessage, ContentBlock, Role};

use crate::{Kitchen, ServeOptions, Setting};

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The stable code or category.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        match &self.help {
            Some(help) => write!(f, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

fn failed(code: &str, message: impl Into<String>) -> Failed {
    Failed {
        code: code.to_owned(),
        message: message.into(),
        help: None,
    }
}

/// The prompt in a file, evaluated.
pub(crate) async fn prepare(
    kitchen: &dyn Kitchen,
    file: &Path,
) -> Result<(Prompt, Setting), Failed> {
    let name = file.display().to_string();
    let source = |error: &logue_agent::SourceError| {
        let found = &error.diagnostic;
        failed(found.code.as_str(), found.message.clone())
    };
    let bytes = read_bytes(file).map_err(|error| source(&error))?;
    let text = into_text(&name, bytes).map_err(|error| source(&error))?;
    let mut setting = kitchen
        .surroundings(file)
        .await
        .map_err(|error| failed("E-MD-AGENT-FAILED", error))?;
    let prompt = setting.surroundings.load(&name, &text).await;
    if let Some(error) = prompt.diagnostics.iter().find(|found| found.is_error()) {
        let place = prompt.source_map().place(error.primary.start);
        return Err(failed(
            error.code.as_str(),
            format!("{place}: {}", error.message),
        ));
    }
    setting.permissions = setting.permissions.without_asking();
    Ok((prompt, setting))
}

/// What the prompt in a file says last when it is told `input`.
///
/// Dropping the future cancels everything that was started.
pub(crate) async fn answer(
    kitchen: &dyn Kitchen,
    options: &ServeOptions,
    file: &Path,
    input: &str,
    listener: Arc<dyn Listener>,
) -> Result<String, Failed> {
    let (prompt, setting) = prepare(kitchen, file).await?;
    let surroundings = setting.surroundings.clone();
    let order = Order {
        kitchen,
        options,
        file,
        input,
    };
    let answered = order.turn(listener, prompt, setting).await;
    surroundings.close().await;
    answered
}

/// What is asked for.
struct Order<'a> {
    kitchen: &'a dyn Kitchen,
    options: &'a ServeOptions,
    file: &'a Path,
    input: &'a str,
}

impl Order<'_> {
    async fn turn(
        &self,
        listener: Arc<dyn Listener>,
        prompt: Prompt,
        setting: Setting,
    ) -> Result<String, Failed> {
        let Setting {
            surroundings,
            permissions,
            budget,
        } = setting;
        let &Self {
            kitchen,
            options,
            file,
            input,
        } = self;
        let mut history = prompt.messages.clone();
        let unanswered = prompt.unanswered_calls();
        history.extend(unanswered.iter().filter_map(Element::to_message));
        if !input.trim().is_empty() {
            history.push(ChatMessage::user(vec![ContentBlock::text(input)]));
        }
        if !matches!(
            history.last().map(|last| last.role),
            Some(Role::User | Role::Tool)
        ) {
            return Err(failed(
                "no_user_input",
                "the prompt says nothing that a model could answer, and `input` is empty",
            ));
        }
        let folder = file.parent().unwrap_or(Path::new("."));
        let model = kitchen
            .model(prompt.config.model.as_deref(), folder)
            .map_err(|error| failed("E-MD-AGENT-FAILED", error))?;
        let toolbox = toolbox(&prompt, &surroundings, &permissions)
            .await
            .map_err(|found| Failed {
                code: found.code.as_str().to_owned(),
                message: found.message.clone(),
                help: found.help.first().cloned(),
            })?;
        let turn = Turn {
            provider: model.provider,
            model: model.name,
            settings: prompt.settings(),
            toolbox,
            permissions,
            history,
            transcript: Box::new(NoTranscript),
            listener,
            max_requests: options.max_requests,
            routing: options.routing.clone(),
            demands: Demands::default(),
            budget,
            invocation_id: None,
        };
        let ended = turn.run().await.map_err(|error| Failed {
            code: error.category,
            message: error.message,
            help: error.help,
        })?;
        let TurnEnd::Completed(report) = ended else {
            return Err(failed(
                "suspended",
                "it waits for a person, whom nobody can ask",
            ));
        };
        let said = report.replies.last().map(ChatMessage::text);
        match report.cut {
            Some(cut) => Err(Failed {
                help: Some("raise `max_tokens` in the prompt's `<config>`".to_owned()),
                ..failed(
                    "answer_cut",
                    format!("the answer is cut ({})", cut.as_str()),
                )
            }),
            None => Ok(said.unwrap_or_default()),
        }
    }
}
