//! The output of a run: the answer, progress, or JSON events.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use logue_agent::{AgentLog, Listener, ResponseProjection, TurnEvent, TurnReport, is_pending};
use logue_graph::SignalDescriptor;
use logue_harness::chat::CompletedTurn;
use logue_message::{ChatMessage, Role, ToolCall};
use logue_model::FinishReason;
use logue_source::{
    UntrustedEscaper, escape_json, escape_line, escape_untrusted, excerpt, quote_word,
};
use logue_tools::{APPROVAL_STALE, ARGUMENTS_REDACTED};
use openchatml::stream::{Audience, ResponseEvent};
use serde_json::{Value, json};

use crate::arguments::JsonEvents;
use crate::exit::{CliError, Exit};
use crate::setup::evaluation::not_kept;
use crate::setup::preview::previews;
use crate::setup::terminal_approver;
use crate::terminal::{print_error, print_part};

/// The characters of a call's arguments in a progress line.
const ARGUMENTS: usize = 60;

/// The characters of a failed call's result in a warning.
const REASON: usize = 300;

/// The listener of a run.
pub(crate) struct Output {
    json: bool,
    /// The mapping to response events, if standard output receives those.
    responses: Option<Mutex<ResponseProjection>>,
    /// Whether standard error is a terminal that can show a spinner.
    animated: bool,
    /// Whether text is shown as it arrives.
    ///
    /// A pipe receives only the turn's answer, so text is withheld until no tool call follows it.
    streams: bool,
    state: Mutex<State>,
    /// The log of agents whose error is reported at the end.
    agents: OnceLock<Arc<AgentLog>>,
}

#[derive(Default)]
struct State {
    /// The spinner, which is shown while no text arrives.
    ///
    /// The answer may use the same terminal, so the spinner is removed before text is printed.
    spinner: Option<ProgressBar>,
    /// Whether the current line of standard output contains text.
    mid_line: bool,
    /// Whether the turn's answer was shown.
    answered: bool,
    /// Escapes the text for a terminal.
    escaper: UntrustedEscaper,
    /// The ids of the calls that this command approves.
    approved: BTreeSet<String>,
    /// The error of standard output; the turn continues for the transcript.
    refused: Option<io::Error>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let animated = !json && io::stderr().is_terminal();
        Self {
            json,
            responses: None,
            animated,
            streams: json || io::stdout().is_terminal(),
            state: Mutex::default(),
            agents: OnceLock::new(),
        }
    }

    /// Creates the output of a run with these events; `None` prints text.
    pub(crate) fn of_run(events: Option<JsonEvents>) -> Self {
        match events {
            None => Self::new(false),
            Some(JsonEvents::Turn) => Self::new(true),
            Some(JsonEvents::Responses) => Self {
                responses: Some(Mutex::default()),
                animated: false,
                ..Self::new(false)
            },
        }
    }

    /// Prints response events, except those of hidden text.
    fn respond(
        &self,
        map: impl FnOnce(&mut ResponseProjection, &mut dyn FnMut(ResponseEvent<'_>)),
    ) {
        let Some(projection) = &self.responses else {
            return;
        };
        let mut lines = String::new();
        let mut projection = projection.lock().unwrap_or_else(PoisonError::into_inner);
        map(&mut projection, &mut |event| {
            if event.audience() == Audience::Hidden {
                return;
            }
            if let Ok(line) = serde_json::to_string(&event) {
                lines.push_str(&line);
                lines.push('\n');
            }
        });
        if !lines.is_empty() {
            self.write(&lines);
        }
    }

    /// Reports that another run holds the file.
    pub(crate) fn waiting(&self, file: &Path) {
        let file = file.display().to_string();
        if self.json {
            self.emit(&json!({"event": "transcript.waiting", "file": file}));
        } else {
            print_error(&format!(
                "waiting: another run is writing to {}\n",
                escape_line(&file)
            ));
        }
    }

    pub(crate) fn started(&self, model: &str, file: &str) {
        if self.json {
            self.emit(&json!({"event": "turn.started", "model": model, "file": file}));
        } else {
            self.busy("starting".to_owned());
        }
    }

    /// Reports the session that a command created under a generated or given id.
    pub(crate) fn branched(&self, session: &str) {
        if self.json {
            self.emit(&json!({"event": "session.created", "session_id": session}));
        } else {
            print_error(&format!("new session: {}\n", escape_line(session)));
        }
    }

    /// Keeps the log of agents, to report its error at the end. A command has one.
    pub(crate) fn keep_agents(&self, agents: Arc<AgentLog>) {
        drop(self.agents.set(agents));
    }

    /// Reports the session of a question.
    pub(crate) fn asked(&self, session: &str) {
        if self.json {
            self.emit(&json!({"event": "session.created", "session_id": session}));
        }
    }

    /// Reports that the prompt was rewritten; its file stays unchanged.
    pub(crate) fn refined(&self, prompt: &str, file: &str) {
        if self.json {
            self.emit(&json!({"event": "prompt.refined", "file": file, "prompt": prompt}));
        } else {
            print_error(&format!(
                "the prompt runs as rewritten; {} stays unchanged:\n\n{}\n",
                escape_line(file),
                escape_untrusted(prompt)
            ));
        }
    }

    /// Returns whether the user can be asked while a turn runs.
    pub(crate) fn asks(&self) -> bool {
        !self.json && self.responses.is_none() && terminal_approver::is_possible()
    }

    /// Warns that a prompt is not trusted and that the user cannot be asked.
    pub(crate) fn not_trusted(&self, file: &str) {
        if self.json {
            self.emit(&json!({"event": "prompt.not_trusted", "file": file}));
        } else {
            print_error(&format!(
                "warning[prompt_not_trusted]: {} is not trusted, so its tools require approval; \
                 `logue trust add {}` trusts it\n",
                escape_line(file),
                quote_word(file)
            ));
        }
    }

    /// Warns that a signal expired, which counts as a denial.
    pub(crate) fn expired(&self, signal_id: &str) {
        if self.json {
            self.emit(&json!({"event": "approval.expired", "signal_id": signal_id}));
        } else {
            print_error(&format!(
                "warning[approval_expired]: the decision about {} was not made in time, so its calls are not run\n",
                escape_line(signal_id)
            ));
        }
    }

    /// Sets the calls that this command approves; a failure of one is reported.
    pub(crate) fn approves<'a>(&self, ids: impl Iterator<Item = &'a str>) {
        self.state().approved = ids.map(str::to_owned).collect();
    }

    pub(crate) fn completed(&self, report: &TurnReport) {
        self.respond(|responses, mut out| responses.finish(report.truncated, &mut out));
        if self.json {
            let cut = report.truncated.map(FinishReason::as_str);
            self.emit(
                &json!({"event": "turn.completed", "requests": report.requests,
                "usage": usage(report), "cost": cost(report), "cut": cut}),
            );
        }
        warn_of_cut(report.truncated);
    }

    /// Reports the completed turn of a session.
    pub(crate) fn answered(&self, turn: &CompletedTurn) {
        let report = TurnReport::from_session(turn);
        if self.json {
            let replies: Vec<Value> = turn.replies.iter().map(ChatMessage::to_json).collect();
            self.emit(&json!({
                "event": "turn.completed",
                "invocation_id": turn.invocation_id,
                "requests": report.requests,
                "usage": usage(&report),
                "cost": cost(&report),
                "cut": report.truncated.map(FinishReason::as_str),
                "replies": replies,
            }));
        } else if self.responses.is_none() && !self.state().answered {
            // Another process ran the turn, so this one prints its answer.
            let is_said =
                |reply: &&ChatMessage| reply.role == Role::Assistant && !is_pending(reply);
            let answer = turn.replies.iter().rfind(is_said);
            self.write(&answer.map(ChatMessage::text).unwrap_or_default());
            self.end_line();
        }
        warn_of_cut(report.truncated);
    }

    /// Reports a suspended turn and the command that resumes it.
    pub(crate) fn suspended(
        &self,
        invocation_id: &str,
        descriptor: &SignalDescriptor,
        pending: Option<&str>,
        command: &str,
    ) {
        if self.json {
            self.emit(&json!({
                "event": "turn.suspended",
                "invocation_id": invocation_id,
                "signal_id": descriptor.signal_id,
                "metadata": descriptor.metadata,
                "resume": command,
            }));
            return;
        }
        let pending = pending.unwrap_or("The turn requires a decision.");
        let previews = previews(descriptor.metadata.as_ref());
        print_error(&format!(
            "{}\n{}\n  {}\n",
            escape_untrusted(pending),
            escape_untrusted(&previews),
            escape_untrusted(command)
        ));
    }

    /// Reports that a signal cancelled the turn.
    pub(crate) fn cancelled(&self, exit: Exit, file: Option<&str>) {
        self.respond(|responses, mut out| responses.cancel("turn_cancelled", &mut out));
        if self.json {
            self.emit(&json!({"event": "turn.cancelled", "exit_status": exit.number()}));
        }
        let kept = match file.map(escape_line) {
            Some(file) => {
                format!(" Completed parts are in {file}; an incomplete answer is not.")
            }
            None => String::new(),
        };
        print_error(&format!("cancelled.{kept}\n"));
    }

    /// Reports that a signal ended this process, and how its turn continues.
    pub(crate) fn stopped(&self, exit: Exit, left: &str) {
        self.respond(|responses, mut out| responses.cancel("turn_cancelled", &mut out));
        if self.json {
            let status = exit.number();
            self.emit(&json!({"event": "turn.cancelled", "exit_status": status, "message": left}));
        }
        print_error(&format!("{}\n", escape_line(left)));
    }

    pub(crate) fn failed(&self, failure: &CliError) {
        self.respond(|responses, mut out| responses.fail(&failure.code, &mut out));
        if self.json {
            self.emit(&json!({"event": "turn.failed", "code": failure.code,
                "message": failure.message, "help": failure.help,
                "retry_after_seconds": failure.retry_after.map(|wait| wait.as_secs_f64()),
                "exit_status": failure.exit.number()}));
        }
    }

    /// Removes the spinner and ends the line of the answer.
    pub(crate) fn finish(&self) {
        self.clear_spinner();
        self.end_line();
        if let Some(error) = self.agents.get().and_then(|agents| agents.take_error()) {
            not_kept(&error);
        }
    }

    /// Returns the error of standard output, if any; a closed pipe is not an error.
    pub(crate) fn written(&self) -> io::Result<()> {
        match self.state().refused.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn emit(&self, event: &Value) {
        self.write(&format!("{event}\n"));
    }

    /// Writes to standard output; an error must not end the turn, which is still recorded.
    fn write(&self, text: &str) {
        let state = &mut *self.state();
        if state.refused.is_none() {
            state.refused = print_part(text, &mut state.escaper).err();
        }
        state.mid_line = !text.ends_with('\n');
    }

    fn end_line(&self) {
        let mid_line = self.state().mid_line;
        if mid_line {
            self.write("\n");
        }
    }

    fn show(&self, event: TurnEvent) {
        match event {
            TurnEvent::Asking(_) => self.busy("thinking".to_owned()),
            TurnEvent::Retrying {
                attempt,
                wait,
                category,
                message,
            } => {
                self.clear_spinner();
                self.end_line();
                print_error(&format!(
                    "retrying in {} (attempt {attempt} failed: {category}: {})\n",
                    shown_wait(wait),
                    escape_line(&message)
                ));
                self.busy("waiting".to_owned());
            }
            TurnEvent::Reasking { reason } => {
                self.clear_spinner();
                self.end_line();
                print_error(&format!(
                    "asking the model again, as its answer does not match the schema: {}\n",
                    escape_line(&reason)
                ));
                self.busy("thinking".to_owned());
            }
            TurnEvent::Calling(name) => {
                self.end_line();
                self.busy(format!("calling {}", escape_line(&name)));
            }
            TurnEvent::Delta(text) if self.streams => {
                self.clear_spinner();
                self.write(&text);
            }
            TurnEvent::MessageCompleted(message) if message.role == Role::Assistant => {
                self.clear_spinner();
                let is_answer = message.tool_calls.is_empty();
                if !self.streams && is_answer {
                    self.write(&message.text());
                }
                self.state().answered |= is_answer;
                self.end_line();
            }
            TurnEvent::Unchecked { tool, why } => {
                self.clear_spinner();
                print_error(&format!(
                    "warning: the arguments of `{}` are not checked: {}\n",
                    escape_line(&tool),
                    escape_line(&why)
                ));
            }
            TurnEvent::ToolStarted(call) => self.busy(described(&call)),
            TurnEvent::ToolEnded {
                call,
                ok,
                code,
                text,
            } => {
                self.clear_spinner();
                if self.animated {
                    let mark = if ok { "✓" } else { "✗" };
                    print_error(&format!("{mark} {}\n", described(&call)));
                }
                let is_approved = self.state().approved.contains(&call.id);
                if is_refused(code) || (is_approved && !ok) {
                    without_effect(&call.name, code, &text);
                }
            }
            _ => {}
        }
    }

    /// Shows the current activity and its duration in a spinner.
    fn busy(&self, what: String) {
        if !self.animated {
            return;
        }
        let spinner = ProgressBar::new_spinner().with_message(what);
        spinner.set_draw_target(ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            spinner.set_style(style);
        }
        self.clear_spinner();
        spinner.enable_steady_tick(Duration::from_millis(120));
        self.state().spinner = Some(spinner);
    }

    /// Removes the spinner.
    fn clear_spinner(&self) {
        let spinner = self.state().spinner.take();
        if let Some(spinner) = spinner {
            spinner.finish_and_clear();
        }
    }

    fn emit_event(&self, event: TurnEvent) {
        let (agent, event) = match event {
            TurnEvent::OfAgent { agent, event } => (Some(agent), *event),
            event => (None, event),
        };
        let mut line = match event {
            TurnEvent::Retrying {
                attempt,
                wait,
                category,
                message,
            } => json!({"event": "model.retry", "attempt": attempt,
                "wait_seconds": wait.as_secs_f64(), "category": category, "message": message}),
            TurnEvent::Reasking { reason } => {
                json!({"event": "model.schema_retry", "reason": reason})
            }
            TurnEvent::Unchecked { tool, why } => {
                json!({"event": "tool.schema_unavailable", "name": tool, "reason": why})
            }
            TurnEvent::ToolStarted(call) => json!({"event": "tool.call",
                "call_id": call.id, "name": call.name, "arguments": call.arguments.as_str()}),
            TurnEvent::ToolEnded { call, ok, text, .. } => json!({"event": "tool.result",
                "call_id": call.id, "name": call.name, "ok": ok, "content": text}),
            // The text of an agent is not shown to the user.
            _ if agent.is_some() => return,
            TurnEvent::Delta(text) => json!({"event": "response.delta", "text": text}),
            TurnEvent::MessageCompleted(message) if message.role == Role::Assistant => {
                let text = message.text();
                if text.is_empty() {
                    return;
                }
                json!({"event": "message.completed", "role": "assistant", "content": text})
            }
            _ => return,
        };
        if let (Some(agent), Some(event)) = (agent, line.as_object_mut()) {
            let place = json!({"src": agent.src, "call_id": agent.call_id, "depth": agent.depth});
            event.insert("agent".to_owned(), place);
        }
        self.emit(&line);
    }
}

impl Listener for Output {
    fn event(&self, event: TurnEvent) {
        if self.responses.is_some() {
            self.respond(|responses, mut out| responses.event(&event, &mut out));
        } else if self.json {
            self.emit_event(event);
        } else {
            self.show(event);
        }
    }
}

fn usage(report: &TurnReport) -> Option<Value> {
    report.usage.map(
        |usage| json!({"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}),
    )
}

/// Returns the cost of the turn in US dollars, without binary rounding errors.
fn cost(report: &TurnReport) -> Option<f64> {
    report.cost.map(|cost| (cost * 1e9).round() / 1e9)
}

/// Returns whether the code means that an approved call was not run.
fn is_refused(code: Option<&str>) -> bool {
    matches!(code, Some(APPROVAL_STALE | ARGUMENTS_REDACTED))
}

/// Warns that an approved call did not run, or failed.
fn without_effect(name: &str, code: Option<&str>, text: &str) {
    let reason = code.and_then(|code| text.split_once(code));
    let reason = reason.map_or(text, |(_, reason)| reason.trim_start_matches(": "));
    let what = if is_refused(code) {
        "was not run"
    } else {
        "failed"
    };
    let code = code.map_or(String::new(), |code| format!("[{code}]"));
    print_error(&format!(
        "warning{code}: the approved call of {} {what}: {}\n",
        escape_line(name),
        excerpt(reason, REASON)
    ));
}

fn warn_of_cut(cut: Option<FinishReason>) {
    let why = match cut {
        None => return,
        Some(FinishReason::Length) => {
            "it reached the length limit; raise `max_tokens` in <config/>"
        }
        Some(_) => "the server's filter ended it",
    };
    print_error(&format!("warning: the answer is incomplete: {why}\n"));
}

/// Formats a wait for people.
fn shown_wait(wait: Duration) -> String {
    format!("{:.1} s", wait.as_secs_f64())
}

/// Formats a call as one short line.
fn described(call: &ToolCall) -> String {
    let arguments = escape_json(call.arguments.as_str());
    let arguments = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = match arguments.char_indices().nth(ARGUMENTS) {
        Some((at, _)) => format!("{}…", &arguments[..at]),
        None => arguments,
    };
    format!("{} {short}", escape_line(&call.name))
}
