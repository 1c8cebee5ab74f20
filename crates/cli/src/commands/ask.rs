//! `logue ask`: asks a question that is kept as a session.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use logue_agent::{Approvals, is_pending};
use logue_harness::chat::{OnCrash, SendOptions};
use logue_harness::store::{SessionFilter, SharedStore};
use logue_source::escape_line;

use crate::arguments::AskArgs;
use crate::conversion::form::Form;
use crate::conversion::in_memory::write_messages;
use crate::exit::{CliError, Exit};
use crate::files::io_cause;
use crate::setup::attachments::{Asked, piped};
use crate::setup::local_server;
use crate::setup::output::Output;
use crate::setup::prompt::input;
use crate::setup::question::{ASKED, Question};
use crate::setup::session_agent::{Agent, AgentPrompt, SessionCommand};
use crate::setup::session_labels::SessionLabels;
use crate::setup::session_turn::{Ended, report_outcome, watch};
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal};
use crate::setup::store::{known as known_session, new_id, open, store_failure};
use crate::setup::stored_messages::{messages, typed};
use crate::telemetry;
use crate::terminal::print_error;

pub(crate) fn ask(arguments: &AskArgs) -> Result<Exit, CliError> {
    let output = Arc::new(Output::new(arguments.json));
    output.show_as(arguments.display);
    let ended = Settings::load(arguments.trust.trust)
        .inspect(telemetry::start)
        .and_then(|settings| turn(arguments, &settings, &output))
        .map_err(|failure| {
            local_server::explained(failure, |flags| format!("logue ask {flags} \"…\""))
        });
    let base_url = arguments.model_args.base_url.as_deref();
    report_outcome(&output, &arguments.store, base_url, ended)
}

fn turn(arguments: &AskArgs, settings: &Settings, output: &Arc<Output>) -> Result<Ended, CliError> {
    let model_args = &arguments.model_args;
    let given = new_question(arguments, settings)?;
    let mut asked = Asked::default();
    if let Some(text) = input::message(&arguments.prompt)? {
        asked.push(&text);
    }
    let on_crash = policy(arguments, settings);
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let prepared = async {
            let hosts = &model_args.allow_hosts;
            asked
                .attach(&arguments.attachments, hosts, settings)
                .await?;
            if arguments.prompt != ["-"]
                && let Some(text) = piped()?
            {
                asked.push(text.strip_suffix('\n').unwrap_or(&text));
            }
            if asked.text.is_empty() && asked.images.is_empty() {
                return Err(CliError::new(Exit::Usage, "usage", "no question")
                    .with_help("logue ask \"What is …?\""));
            }
            if let (Some(file), Some(question)) = (&arguments.save, &given) {
                save(
                    file,
                    question,
                    model_args.model.as_deref(),
                    "",
                    &asked,
                    settings,
                )?;
            }
            let store = open(&arguments.store, settings)?;
            let (session, known) = if arguments.continues {
                let last = last(&store).await?;
                (last.session.clone(), Some(last))
            } else {
                (format!("{ASKED}{}", new_id()), None)
            };
            let agent = Agent::new(
                &session,
                known.as_ref(),
                given.clone().map(AgentPrompt::Question),
                model_args.model.as_deref(),
                &arguments.permissions,
            )?;
            let command = SessionCommand {
                settings,
                model_args,
                trust: &arguments.trust,
                output,
                rules: &arguments.permissions,
                on_crash,
                approvals: Approvals::Suspend,
            };
            let chat = agent.chat(Arc::clone(&store), &session, &command).await?;
            agent
                .remember(&SessionLabels::new(&store, &session, known.as_ref()))
                .await?;
            if let (Some(file), Some(last)) = (&arguments.save, &known)
                && let AgentPrompt::Question(question) = &agent.prompt
            {
                if last.pending > 0 {
                    // The part of an interrupted answer becomes history.
                    let settled = chat.recover(&session).await;
                    settled.map_err(|error| store_failure(&error))?;
                }
                let conversation = conversation(&store, &session).await?;
                save(
                    file,
                    question,
                    agent.model(),
                    &conversation,
                    &asked,
                    settings,
                )?;
            }
            Ok::<_, CliError>((chat, session))
        };
        let (chat, session) = match Box::pin(until_signal(prepared)).await {
            Ok(prepared) => prepared?,
            Err(exit) => return Ok(Ended::Signalled(exit)),
        };
        output.asked(&session);
        let message = chat.redacted(asked.message());
        let turn = chat.send_streaming_with(&session, message, SendOptions::new());
        Ok(watch(turn, output, &session, arguments.crash.policy(settings)).await)
    });
    // Cancelled tools have been killed. The shutdown does not wait for reading threads.
    runtime.shutdown_background();
    ended
}

/// Returns the prompt of a new question; `None` if the last one is continued.
fn new_question(arguments: &AskArgs, settings: &Settings) -> Result<Option<Question>, CliError> {
    if arguments.continues {
        return Ok(None);
    }
    let system = arguments.system.as_deref();
    Question::new(system, &arguments.tools, &settings.redaction).map(Some)
}

fn policy(arguments: &AskArgs, settings: &Settings) -> OnCrash {
    if arguments.continues {
        arguments.crash.policy_before_message(settings)
    } else {
        arguments.crash.policy(settings)
    }
}

/// Returns the question that was asked or continued last.
async fn last(store: &SharedStore) -> Result<logue_harness::store::SessionInfo, CliError> {
    let filter = SessionFilter {
        prefix: Some(ASKED.to_owned()),
        limit: Some(1),
        ..SessionFilter::default()
    };
    let found = store.list(filter).await;
    let found = found.map_err(|error| store_failure(&error))?;
    found.into_iter().next().ok_or_else(|| {
        CliError::user("session_not_found", "no question has been asked yet")
            .with_help("ask without --continue")
    })
}

/// Returns the messages of a session as ChatMD.
async fn conversation(store: &SharedStore, session: &str) -> Result<String, CliError> {
    let info = known_session(store, session).await?;
    let messages = messages(store, session, 0, info.seq).await?;
    let mut messages = typed(&messages)?;
    // Messages about pending approvals do not come from the model.
    messages.retain(|message| !is_pending(message));
    let (text, losses) = write_messages(&messages, Form::Chatmd)?;
    for loss in losses {
        print_error(&format!("warning: {}\n", escape_line(&loss)));
    }
    Ok(text)
}

/// Writes a new prompt file.
fn save(
    file: &Path,
    question: &Question,
    model: Option<&str>,
    conversation: &str,
    asked: &Asked,
    settings: &Settings,
) -> Result<(), CliError> {
    let model = settings.model.of_flag(model);
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let text = question.to_file(model.as_deref(), conversation, asked, folder);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let message = format!("cannot write {}: {}", file.display(), io_cause(&error));
        let help = if error.kind() == io::ErrorKind::AlreadyExists {
            "name a new file: --save does not overwrite"
        } else {
            "name a file in an existing directory that you may write"
        };
        CliError::user("transcript_write_failed", message).with_help(help)
    })
}
