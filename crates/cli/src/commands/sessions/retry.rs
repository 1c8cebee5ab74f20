//! `logue sessions retry`: tries the latest turn of a session again.

use std::sync::Arc;

use logue_agent::{Approvals, TurnEvent};
use logue_harness::chat::ChatHarness;
use logue_harness::store::SharedStore;

use crate::arguments::{CrashArgs, ModelArgs, RetryArgs, TrustArgs};
use crate::exit::{CliError, Exit};
use crate::setup::output::Output;
use crate::setup::session_agent::{Agent, SessionCommand};
use crate::setup::session_turn::{Ended, not_retried, report_outcome, watch};
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal};
use crate::setup::store::{open, usable};
use crate::setup::suspended;
use crate::telemetry;

pub(super) fn retry(arguments: &RetryArgs) -> Result<Exit, CliError> {
    let output = Arc::new(Output::new(arguments.json));
    output.show_as(arguments.display);
    let ended = Settings::load(arguments.trust.trust)
        .inspect(telemetry::start)
        .and_then(|settings| turn(arguments, &settings, &output));
    let base_url = arguments.model_args.base_url.as_deref();
    report_outcome(&output, &arguments.store, base_url, ended)
}

fn turn(
    arguments: &RetryArgs,
    settings: &Settings,
    output: &Arc<Output>,
) -> Result<Ended, CliError> {
    let session = arguments.session.as_str();
    suspended::refuse_file(session)?;
    let store = open(&arguments.store, settings)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let flags = TurnFlags {
            crash: arguments.crash,
            trust: &arguments.trust,
            model_args: &arguments.model_args,
        };
        let prepared = async {
            let chat = flags.chat(&store, session, settings, output).await?;
            let turn = chat.retry_streaming(session).await;
            turn.map_err(|error| not_retried(&error))
        };
        match until_signal(prepared).await {
            Ok(turn) => Ok(watch(turn?, output, session, arguments.crash.policy(settings)).await),
            Err(exit) => Ok(Ended::Signalled(exit)),
        }
    });
    runtime.shutdown_background();
    ended
}

/// The flags of a command that runs turns of known sessions.
pub(super) struct TurnFlags<'a> {
    pub(super) crash: CrashArgs,
    pub(super) trust: &'a TrustArgs,
    pub(super) model_args: &'a ModelArgs,
}

impl TurnFlags<'_> {
    /// Prepares the chat of a session with the agent that it remembers.
    pub(super) async fn chat(
        &self,
        store: &SharedStore,
        session: &str,
        settings: &Settings,
        output: &Arc<Output>,
    ) -> Result<ChatHarness<TurnEvent>, CliError> {
        self.chat_of(store, session, session, settings, output)
            .await
    }

    /// Prepares the chat of a session with the agent that `origin` remembers.
    pub(super) async fn chat_of(
        &self,
        store: &SharedStore,
        origin: &str,
        session: &str,
        settings: &Settings,
        output: &Arc<Output>,
    ) -> Result<ChatHarness<TurnEvent>, CliError> {
        let known = usable(store, origin).await?;
        let model = self.model_args.model.as_deref();
        let agent = Agent::new(session, Some(&known), None, model, &[])?;
        let command = SessionCommand {
            settings,
            model_args: self.model_args,
            trust: self.trust,
            output,
            rules: &[],
            on_crash: self.crash.policy(settings),
            approvals: Approvals::Suspend,
        };
        agent.chat(Arc::clone(store), session, &command).await
    }
}
