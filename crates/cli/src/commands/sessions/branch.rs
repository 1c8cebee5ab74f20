//! `logue sessions fork` and `rerun`: sessions that begin as another one.

use std::path::Path;
use std::sync::Arc;

use logue_agent::rename_pending;
use logue_harness::chat::{BranchError, BranchPoint, fork_session, rerun_session};
use logue_harness::store::SharedStore;
use logue_harness::{Clock as _, SystemClock};
use logue_source::{escape_line, quote_word};

use crate::arguments::{ForkArgs, RerunArgs};
use crate::commands::sessions::retry::TurnFlags;
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::files::read_file;
use crate::setup::output::Output;
use crate::setup::session_turn::{Ended, report_outcome, watch};
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal};
use crate::setup::store::{check_named, ids, known, new_id, open, shown_id, store_failure};
use crate::setup::suspended::refuse_file;
use crate::telemetry;
use crate::terminal::{ignore_broken_pipe, print};

/// The number of characters of a random id in a generated name.
const SUFFIX: usize = 8;

pub(super) async fn fork(store: SharedStore, arguments: &ForkArgs) -> Result<Exit, CliError> {
    refuse_file(&arguments.session)?;
    refuse_file(&arguments.new)?;
    check_named(&arguments.new)?;
    let info = known(&store, &arguments.session).await?;
    let point = match (arguments.messages, arguments.step) {
        (Some(upto), _) if upto > info.seq => {
            let has = counted(amount(info.seq), "message");
            let shown = shown_id(&info.session);
            let message = format!("--messages {upto}: session `{shown}` has {has}");
            let help = format!("name at most {}, or omit --messages to copy all", info.seq);
            return Err(CliError::new(Exit::Usage, "usage", message).with_help(help));
        }
        (Some(upto), _) => BranchPoint::Messages(upto),
        (None, Some(step)) => BranchPoint::Step(step),
        (None, None) => BranchPoint::Latest,
    };
    let ids = ids();
    let pending = arguments
        .with_pending
        .then_some((&*ids, &rename_pending as _));
    let (session, new) = (&arguments.session, &arguments.new);
    let now = SystemClock.now();
    let forked = fork_session(&*store, session, new, point, pending, now).await;
    let forked = forked.map_err(|error| branch_failure(&error, session))?;
    for signal in &forked.signals {
        let line = format!("{}: waits for {}\n", escape_line(new), escape_line(signal));
        ignore_broken_pipe(print(&line))?;
    }
    Ok(Exit::Done)
}

pub(super) fn rerun(arguments: &RerunArgs) -> Result<Exit, CliError> {
    let output = Arc::new(Output::new(arguments.json));
    output.show_as(arguments.display);
    let ended = Settings::load(arguments.trust.trust)
        .inspect(telemetry::start)
        .and_then(|settings| turn(arguments, &settings, &output));
    let base_url = arguments.model_args.base_url.as_deref();
    report_outcome(&output, &arguments.store, base_url, ended)
}

fn turn(
    arguments: &RerunArgs,
    settings: &Settings,
    output: &Arc<Output>,
) -> Result<Ended, CliError> {
    let session = arguments.session.as_str();
    refuse_file(session)?;
    let into = match &arguments.into {
        Some(into) => into.clone(),
        None => generated(session),
    };
    refuse_file(&into)?;
    check_named(&into)?;
    let edit = arguments.edit.as_deref().map(edit).transpose()?;
    let edit = edit.map(|edit| settings.redaction.arguments(&edit).into_owned());
    let store = open(&arguments.store, settings)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let flags = TurnFlags {
            crash: arguments.crash,
            trust: &arguments.trust,
            model_args: &arguments.model_args,
        };
        let prepared = async {
            // What cannot run creates no session.
            let chat = flags.chat_of(&store, session, &into, settings, output);
            let chat = chat.await?;
            let (step, edit) = (arguments.step, edit.as_deref());
            let (ids, now) = (ids(), SystemClock.now());
            let branch = rerun_session(&*store, session, &into, step, edit, &*ids, now).await;
            let branch = branch.map_err(|error| branch_failure(&error, session))?;
            Ok::<_, CliError>((chat, branch))
        };
        let (chat, branch) = match until_signal(prepared).await {
            Ok(prepared) => prepared?,
            Err(exit) => return Ok(Ended::Signalled(exit)),
        };
        output.branched(&into);
        match branch.entry {
            Some(entry) => Ok(watch(
                chat.entry_streaming(&into, entry),
                output,
                &into,
                arguments.crash.policy(settings),
            )
            .await),
            // The edited step is the end of the turn.
            None => Ok(Ended::Created),
        }
    });
    runtime.shutdown_background();
    ended
}

/// Returns the content of the file of `--edit`, without its last line break.
fn edit(file: &Path) -> Result<String, CliError> {
    let (name, bytes) = read_file(file)?;
    let mut text = String::from_utf8(bytes)
        .map_err(|_| CliError::user("E-SOURCE-READ", format!("`{name}` is not UTF-8 text")))?;
    if text.ends_with('\n') {
        text.pop();
    }
    if text.ends_with('\r') {
        text.pop();
    }
    Ok(text)
}

/// Returns an id for a branch of a session.
fn generated(session: &str) -> String {
    let id = new_id();
    let suffix: String = id.chars().filter(|c| *c != '-').take(SUFFIX).collect();
    format!("{session}-{suffix}")
}

fn branch_failure(error: &BranchError, session: &str) -> CliError {
    let usage = || CliError::new(Exit::Usage, "usage", error.to_string());
    let list = format!(
        "`logue sessions show {} --steps` lists the steps",
        quote_word(&shown_id(session))
    );
    match error {
        BranchError::Store(error) => store_failure(error),
        BranchError::NotEnded { .. } => {
            CliError::new(Exit::Busy, "session_busy", error.to_string()).with_help("try again")
        }
        BranchError::RecordInvalid { .. } => {
            CliError::user("suspension_record_invalid", error.to_string())
        }
        BranchError::NothingFollows { .. } => {
            usage().with_help("change it with --edit, or name an earlier step")
        }
        _ => usage().with_help(list),
    }
}
