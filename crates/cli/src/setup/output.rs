//! What a run shows: the answer on standard output, a spinner on a terminal, or JSON events.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use logue_agent::{Listener, TurnEvent, TurnReport, is_pending};
use logue_graph::SignalDescriptor;
use logue_harness::chat::CompletedTurn;
use logue_message::{ChatMessage, Role, ToolCall};
use logue_model::FinishReason;
use logue_source::escape_untrusted;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::setup::preview::previews;
use crate::setup::terminal_approver;
use crate::terminal::{complain, print};

/// Characters of a call's arguments that the progress shows.
const ARGUMENTS: usize = 60;

/// The listener of a run.
pub(crate) struct Output {
    json: bool,
    /// Whether standard error is a terminal that a spinner may stand on.
    animated: bool,
    /// Whether words are shown as they come. Into a pipe goes only the turn's answer, so words are
    /// held back until it is known that no tool call follows them.
    streams: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Turns while nothing else is shown. The answer and the spinner may share a terminal, so it is
    /// taken away before words come.
    spinner: Option<ProgressBar>,
    /// Something stands on the current line of standard output.
    mid_line: bool,
    /// The turn's answer was shown.
    answered: bool,
    /// Standard output takes no more; the turn goes on for the transcript's sake.
    refused: Option<io::Error>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let animated = !json && io::stderr().is_terminal();
        Self {
            json,
            animated,
            streams: json || io::stdout().is_terminal(),
            state: Mutex::default(),
        }
    }

    /// Another run holds the file.
    pub(crate) fn waiting(&self, file: &Path) {
        let file = file.display().to_string();
        if self.json {
            self.emit(&json!({"event": "transcript.waiting", "file": file}));
        } else {
            complain(&format!(
                "waiting: another run is writing to {}\n",
                escape_untrusted(&file)
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

    /// The prompt was rewritten; its file was not.
    pub(crate) fn refined(&self, prompt: &str, file: &str) {
        if self.json {
            self.emit(&json!({"event": "prompt.refined", "file": file, "prompt": prompt}));
        } else {
            complain(&format!(
                "the prompt is run in these words; {file} stays as it is:\n\n{}\n",
                escape_untrusted(prompt)
            ));
        }
    }

    /// Whether a person can be asked while a turn runs.
    pub(crate) fn asks(&self) -> bool {
        !self.json && terminal_approver::is_possible()
    }

    /// Nobody trusts the prompt, and nobody is there to be asked.
    pub(crate) fn not_trusted(&self, file: &str) {
        if self.json {
            self.emit(&json!({"event": "prompt.not_trusted", "file": file}));
        } else {
            complain(&format!(
                "warning[prompt_not_trusted]: {0} is not trusted, so a person is asked about its tools; \
                 `logue trust add {0}` trusts it\n",
                escape_untrusted(file)
            ));
        }
    }

    /// The decision came too late, and counts as a denial.
    pub(crate) fn expired(&self, signal_id: &str) {
        if self.json {
            self.emit(&json!({"event": "approval.expired", "signal_id": signal_id}));
        } else {
            complain(&format!(
                "warning[approval_expired]: nobody decided about {} in time, so its calls are not run\n",
                escape_untrusted(signal_id)
            ));
        }
    }

    pub(crate) fn completed(&self, report: &TurnReport) {
        if self.json {
            let cut = report.truncated.map(FinishReason::as_str);
            self.emit(
                &json!({"event": "turn.completed", "requests": report.requests,
                "usage": usage(report), "cost": cost(report), "cut": cut}),
            );
        }
        warn_of_cut(report.truncated);
    }

    /// The turn of a session completed.
    pub(crate) fn answered(&self, turn: &CompletedTurn) {
        let report = TurnReport::of_session(turn);
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
        } else if !self.state().answered {
            // Another process ran the turn.
            let is_said =
                |reply: &&ChatMessage| reply.role == Role::Assistant && !is_pending(reply);
            let answer = turn.replies.iter().rfind(is_said);
            self.write(&answer.map(ChatMessage::text).unwrap_or_default());
            self.end_line();
        }
        warn_of_cut(report.truncated);
    }

    /// The turn waits for a person, and this command lets it go on.
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
        let pending = pending.unwrap_or("The turn waits for a person.");
        let previews = previews(descriptor.metadata.as_ref());
        complain(&format!(
            "{}\n{}\n  {}\n",
            escape_untrusted(pending),
            escape_untrusted(&previews),
            escape_untrusted(command)
        ));
    }

    /// The turn was ended from outside.
    pub(crate) fn cancelled(&self, exit: Exit, file: Option<&str>) {
        if self.json {
            self.emit(&json!({"event": "turn.cancelled", "exit_status": exit.number()}));
        }
        let kept = match file {
            Some(file) => {
                format!(" What was completed is in {file}; an answer that was cut is not.")
            }
            None => String::new(),
        };
        complain(&format!("cancelled.{}\n", escape_untrusted(&kept)));
    }

    pub(crate) fn failed(&self, failure: &Failure) {
        if self.json {
            self.emit(&json!({"event": "turn.failed", "code": failure.code,
                "message": failure.message, "help": failure.help,
                "retry_after_seconds": failure.retry_after.map(|wait| wait.as_secs_f64()),
                "exit_status": failure.exit.number()}));
        }
    }

    /// Leaves the terminal as it was found, with the answer on lines of its own.
    pub(crate) fn finish(&self) {
        self.rest();
        self.end_line();
    }

    /// Whether everything that was to be shown was written. A reader that went away wanted no more.
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

    /// A reader that went away must not end the turn: what happens is still recorded.
    fn write(&self, text: &str) {
        let mut state = self.state();
        if state.refused.is_none() {
            state.refused = print(text).err();
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
                self.rest();
                self.end_line();
                complain(&format!(
                    "asking again in {} (attempt {attempt} failed: {category}: {})\n",
                    shown_wait(wait),
                    escape_untrusted(&message)
                ));
                self.busy("waiting".to_owned());
            }
            TurnEvent::Reasking { reason } => {
                self.rest();
                self.end_line();
                complain(&format!(
                    "asking again: the answer does not meet the schema: {}\n",
                    escape_untrusted(&reason)
                ));
                self.busy("thinking".to_owned());
            }
            TurnEvent::Calling(name) => {
                self.end_line();
                self.busy(format!("calling {}", escape_untrusted(&name)));
            }
            TurnEvent::Delta(text) if self.streams => {
                self.rest();
                self.write(&text);
            }
            TurnEvent::MessageCompleted(message) if message.role == Role::Assistant => {
                self.rest();
                let is_answer = message.tool_calls.is_empty();
                if !self.streams && is_answer {
                    self.write(&message.text());
                }
                self.state().answered |= is_answer;
                self.end_line();
            }
            TurnEvent::Unchecked { tool, why } => {
                self.rest();
                complain(&format!(
                    "warning: what `{}` is called with is not checked: {}\n",
                    escape_untrusted(&tool),
                    escape_untrusted(&why)
                ));
            }
            TurnEvent::ToolStarted(call) => self.busy(described(&call)),
            TurnEvent::ToolEnded { call, ok, .. } => {
                self.rest();
                if self.animated {
                    let mark = if ok { "✓" } else { "✗" };
                    complain(&format!("{mark} {}\n", described(&call)));
                }
            }
            _ => {}
        }
    }

    /// Says what is going on, with the time that it takes.
    fn busy(&self, what: String) {
        if !self.animated {
            return;
        }
        let spinner = ProgressBar::new_spinner().with_message(what);
        spinner.set_draw_target(ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            spinner.set_style(style);
        }
        self.rest();
        spinner.enable_steady_tick(Duration::from_millis(120));
        self.state().spinner = Some(spinner);
    }

    /// Takes the spinner away.
    fn rest(&self) {
        let spinner = self.state().spinner.take();
        if let Some(spinner) = spinner {
            spinner.finish_and_clear();
        }
    }

    fn tell(&self, event: TurnEvent) {
        let (agent, event) = match event {
            TurnEvent::OfAgent { agent, event } => (Some(agent), *event),
            event => (None, event),
        };
        let mut told = match event {
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
            TurnEvent::ToolEnded { call, ok, text } => json!({"event": "tool.result",
                "call_id": call.id, "name": call.name, "ok": ok, "content": text}),
            // What an agent says is not said to the user.
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
        if let (Some(agent), Some(event)) = (agent, told.as_object_mut()) {
            let place = json!({"src": agent.src, "call_id": agent.call_id, "depth": agent.depth});
            event.insert("agent".to_owned(), place);
        }
        self.emit(&told);
    }
}

impl Listener for Output {
    fn event(&self, event: TurnEvent) {
        if self.json {
            self.tell(event);
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

/// What the turn cost in US dollars, without the dust of adding binary fractions.
fn cost(report: &TurnReport) -> Option<f64> {
    report.cost.map(|cost| (cost * 1e9).round() / 1e9)
}

fn warn_of_cut(cut: Option<FinishReason>) {
    let why = match cut {
        None => return,
        Some(FinishReason::Length) => {
            "it reached the length limit; raise `max_tokens` in <config/>"
        }
        Some(_) => "the server's filter ended it",
    };
    complain(&format!("warning: the answer is cut: {why}\n"));
}

/// A wait, for people.
fn shown_wait(wait: Duration) -> String {
    format!("{:.1} s", wait.as_secs_f64())
}

/// A call in one short line.
fn described(call: &ToolCall) -> String {
    let arguments: Vec<&str> = call.arguments.as_str().split_whitespace().collect();
    let arguments = arguments.join(" ");
    let short = match arguments.char_indices().nth(ARGUMENTS) {
        Some((at, _)) => format!("{}…", &arguments[..at]),
        None => arguments,
    };
    escape_untrusted(&format!("{} {short}", call.name)).into_owned()
}
