//! The output of a run: the answer, progress, or JSON events.

mod events;
mod parts;
mod progress;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use logue_agent::{
    AgentLog, Listener, ResponseProjection, TurnEvent, TurnReport, TurnStop, is_pending,
};
use logue_graph::SignalDescriptor;
use logue_harness::chat::CompletedTurn;
use logue_message::{ChatMessage, Role, ToolCall};
use logue_model::FinishReason;
use logue_source::{UntrustedEscaper, escape_line, escape_untrusted, quote_word};
use openchatml::stream::{Audience, ResponseEvent};
use serde_json::{Value, json};

use self::events::{cost, json_event, usage};
use self::parts::{TextParts, TextPiece};
use self::progress::{
    described, dim, is_refused, on_one_line, outcome_line, shown_time, shown_wait, usage_line,
    warn_of_cut, without_effect,
};
use crate::arguments::{DisplayArgs, JsonEvents};
use crate::exit::{CliError, Exit};
use crate::setup::evaluation::not_kept;
use crate::setup::preview::previews;
use crate::setup::terminal_approver;
use crate::terminal::markdown::{Look, Renderer};
use crate::terminal::{
    MIN_WIDTH, end_question, output_look, output_width, print_as_is, print_error, print_part,
};

/// The columns of a spinner and its time beside the activity.
const SPINNER: usize = 12;

/// The form in which a run is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputForm {
    Text,
    Json,
    /// Nothing is printed, and no person is asked.
    Silent,
}

/// The listener of a run.
pub(crate) struct Output {
    form: OutputForm,
    /// The mapping to response events, if standard output receives those.
    responses: Option<Mutex<ResponseProjection>>,
    /// Whether standard error is a terminal that can show a spinner.
    animated: bool,
    /// Whether standard output is a terminal.
    is_terminal: bool,
    /// The appearance of rendered Markdown; `None` if text is printed as received.
    look: Option<Look>,
    /// The start of the command.
    begun: Instant,
    state: Mutex<State>,
    /// Stops the turn of the command.
    stop: TurnStop,
    /// Whether warnings of a prompt are printed without its text.
    hides_sources: bool,
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
    /// Whether only the answer is printed, without the text before tool calls.
    is_answer_only: bool,
    /// The parts of the printed text.
    parts: TextParts,
    /// The form of the text and of the report at the end.
    display: DisplayArgs,
    /// Renders the current part.
    renderer: Option<Renderer>,
    /// The beginning of the reasoning that has not been reported.
    thinking: Option<Instant>,
    /// The beginnings of the running calls.
    running: BTreeMap<String, Instant>,
    /// Escapes the text for a terminal.
    escaper: UntrustedEscaper,
    /// The ids of the calls that this command approves.
    approved: BTreeSet<String>,
    /// The ids of the calls about which this command decides otherwise.
    undecided: BTreeSet<String>,
    /// The data that a failure of the turn leaves.
    received: Received,
    /// The error of standard output; the turn continues for the transcript.
    refused: Option<io::Error>,
}

/// The data that a failure of the turn leaves.
#[derive(Default)]
struct Received {
    /// Whether a part of an answer was received that is not complete.
    has_part: bool,
    /// Whether a call ended.
    has_calls: bool,
}

impl State {
    /// Writes to standard output.
    fn write(&mut self, text: &str) {
        if self.refused.is_none() {
            self.refused = print_part(text, &mut self.escaper).err();
        }
        self.mid_line = !text.ends_with('\n');
    }

    /// Writes rendered words, whose text is escaped.
    fn write_lines(&mut self, lines: &str) {
        if lines.is_empty() {
            return;
        }
        if self.refused.is_none() {
            self.refused = print_as_is(lines).err();
        }
        self.mid_line = !lines.ends_with('\n');
    }
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let animated = !json && io::stderr().is_terminal();
        Self {
            form: if json {
                OutputForm::Json
            } else {
                OutputForm::Text
            },
            responses: None,
            animated,
            is_terminal: io::stdout().is_terminal(),
            look: if json { None } else { output_look() },
            begun: Instant::now(),
            state: Mutex::default(),
            stop: TurnStop::new(),
            hides_sources: false,
            agents: OnceLock::new(),
        }
    }

    /// Creates the output of a server's checks, which may hide the text of prompts.
    pub(crate) fn of_check(hides_sources: bool) -> Self {
        Self {
            hides_sources,
            ..Self::new(false)
        }
    }

    /// Returns whether warnings of a prompt are printed without its text.
    pub(crate) const fn hides_sources(&self) -> bool {
        self.hides_sources
    }

    /// Creates the output of a server's turns, without print and questions.
    pub(crate) fn of_turn(hides_sources: bool) -> Self {
        Self {
            form: OutputForm::Silent,
            animated: false,
            hides_sources,
            ..Self::new(false)
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
        if self.is_json() {
            self.emit(&json!({"event": "transcript.waiting", "file": file}));
        } else {
            print_error(&format!(
                "waiting: another run is writing to {}\n",
                escape_line(&file)
            ));
        }
    }

    pub(crate) fn started(&self, model: &str, file: &str) {
        if self.is_json() {
            self.emit(&json!({"event": "turn.started", "model": model, "file": file}));
        } else {
            self.busy("starting");
        }
    }

    /// Reports the session that a command created under a generated or given id.
    pub(crate) fn branched(&self, session: &str) {
        if self.is_json() {
            self.emit(&json!({"event": "session.created", "session_id": session}));
        } else {
            print_error(&format!("new session: {}\n", escape_line(session)));
        }
    }

    fn is_json(&self) -> bool {
        self.form == OutputForm::Json
    }

    /// Returns whether nothing is printed.
    pub(crate) fn is_silent(&self) -> bool {
        self.form == OutputForm::Silent
    }

    /// Keeps the log of agents, to report its error at the end. A command has one.
    pub(crate) fn keep_agents(&self, agents: Arc<AgentLog>) {
        drop(self.agents.set(agents));
    }

    /// Returns the request to stop the turn of the command.
    pub(crate) const fn stop(&self) -> &TurnStop {
        &self.stop
    }

    /// Reports the session of a question.
    pub(crate) fn asked(&self, session: &str) {
        if self.is_json() {
            self.emit(&json!({"event": "session.created", "session_id": session}));
        }
    }

    /// Reports that the prompt was rewritten; its file stays unchanged.
    pub(crate) fn refined(&self, prompt: &str, file: &str) {
        if self.is_json() {
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
        self.form == OutputForm::Text
            && self.responses.is_none()
            && terminal_approver::is_possible()
    }

    /// Warns that a prompt is not trusted and that the user cannot be asked.
    pub(crate) fn not_trusted(&self, file: &str) {
        if self.is_silent() {
            return;
        }
        if self.is_json() {
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
        if self.is_json() {
            self.emit(&json!({"event": "approval.expired", "signal_id": signal_id}));
        } else {
            print_error(&format!(
                "warning[approval_expired]: the decision about {} was not made in time, so its calls are not run\n",
                escape_line(signal_id)
            ));
        }
    }

    /// Sets the form of the text and of the report at the end.
    pub(crate) fn show_as(&self, display: DisplayArgs) {
        self.state().display = display;
    }

    /// Prints only the answer into a pipe, without the text before tool calls.
    pub(crate) fn print_answer_only(&self) {
        self.state().is_answer_only = true;
    }

    /// Sets the calls that this command approves; a failure of one is reported.
    pub(crate) fn approves<'a>(&self, ids: impl Iterator<Item = &'a str>) {
        self.state().approved = ids.map(str::to_owned).collect();
    }

    /// Sets the calls that this command may deny; a denial of one is reported.
    pub(crate) fn denies<'a>(&self, ids: impl Iterator<Item = &'a str>) {
        self.state().undecided = ids.map(str::to_owned).collect();
    }

    /// Returns whether a part of an answer was received that is not complete.
    pub(crate) fn has_part(&self) -> bool {
        self.state().received.has_part
    }

    /// Returns whether a call ended in this command.
    pub(crate) fn has_calls(&self) -> bool {
        self.state().received.has_calls
    }

    pub(crate) fn completed(&self, report: &TurnReport) {
        self.respond(|responses, mut out| responses.finish(report.truncated, &mut out));
        if self.is_json() {
            let cut = report.truncated.map(FinishReason::as_str);
            self.emit(
                &json!({"event": "turn.completed", "requests": report.requests,
                "usage": usage(report), "cost": cost(report), "cut": cut}),
            );
        }
        warn_of_cut(report.truncated);
        self.report_usage(report);
    }

    /// Reports the completed turn of a session.
    pub(crate) fn answered(&self, turn: &CompletedTurn) {
        let report = TurnReport::from_session(turn);
        if self.is_json() {
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
        self.report_usage(&report);
    }

    /// Reports a suspended turn and the command that resumes it.
    pub(crate) fn suspended(
        &self,
        invocation_id: &str,
        descriptor: &SignalDescriptor,
        pending: Option<&str>,
        command: &str,
    ) {
        if self.is_json() {
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
        if self.is_json() {
            self.emit(&json!({"event": "turn.cancelled", "exit_status": exit.number()}));
        }
        let part = if self.has_part() {
            ", and the received part of the answer"
        } else {
            ""
        };
        let kept = file.map(|file| format!(" Completed parts are in {}{part}.", escape_line(file)));
        end_question();
        print_error(&format!("cancelled.{}\n", kept.unwrap_or_default()));
    }

    /// Reports that a signal ended this process, and how its turn continues.
    pub(crate) fn stopped(&self, exit: Exit, left: &str) {
        self.respond(|responses, mut out| responses.cancel("turn_cancelled", &mut out));
        if self.is_json() {
            let status = exit.number();
            self.emit(&json!({"event": "turn.cancelled", "exit_status": status, "message": left}));
        }
        end_question();
        print_error(&format!("{}\n", escape_line(left)));
    }

    pub(crate) fn failed(&self, failure: &CliError) {
        self.respond(|responses, mut out| responses.fail(&failure.code, &mut out));
        if self.is_json() {
            self.emit(&json!({"event": "turn.failed", "code": failure.code,
                "message": failure.message, "help": failure.help,
                "retry_after_seconds": failure.retry_after.map(|wait| wait.as_secs_f64()),
                "exit_status": failure.exit.number()}));
        }
    }

    /// Removes the spinner and ends the line of the answer.
    pub(crate) fn finish(&self) {
        self.clear_spinner();
        self.end_part();
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
        self.state().write(text);
    }

    /// Returns whether text is printed as it arrives.
    fn streams(&self) -> bool {
        self.is_terminal || !self.state().is_answer_only
    }

    /// Prints a piece of the model's text.
    fn write_part(&self, text: &str) {
        let Some(piece) = self.state().parts.piece(text) else {
            return;
        };
        self.clear_spinner();
        match piece {
            TextPiece::First { text, follows_part } => {
                self.end_line();
                // In a pipe a blank line separates the parts.
                let is_separated = follows_part && !self.is_terminal;
                let separator = if is_separated { "\n" } else { "" };
                self.begin_rendering();
                self.show_text(&format!("{separator}{text}"));
            }
            TextPiece::Next => self.show_text(text),
        }
    }

    /// Renders the next part, if the terminal is wide enough.
    fn begin_rendering(&self) {
        let Some(look) = self.look else {
            return;
        };
        let mut state = self.state();
        let is_rendered = !state.display.plain && output_width() >= MIN_WIDTH;
        state.renderer = is_rendered.then(|| Renderer::new(look));
    }

    /// Prints text as received, or the words of it that are complete.
    fn show_text(&self, text: &str) {
        let state = &mut *self.state();
        let Some(renderer) = &mut state.renderer else {
            state.write(text);
            return;
        };
        let lines = renderer.push(&state.escaper.escape(text), output_width());
        state.write_lines(&lines);
    }

    /// Prints the remaining lines of the rendered part.
    fn end_rendering(&self) {
        let state = &mut *self.state();
        if let Some(mut renderer) = state.renderer.take() {
            let lines = renderer.finish(output_width());
            state.write_lines(&lines);
            state.escaper = UntrustedEscaper::default();
        }
    }

    /// Ends the part of the model's text and its line.
    fn end_part(&self) {
        self.end_rendering();
        self.end_line();
        self.state().parts.end();
    }

    /// Ends the line of the text, so that another line can follow.
    fn end_line(&self) {
        let state = &mut *self.state();
        if let Some(renderer) = &mut state.renderer {
            let end = renderer.interrupt();
            state.write_lines(&end);
        }
        if state.mid_line {
            state.write("\n");
        }
    }

    fn show(&self, event: TurnEvent) {
        match event {
            TurnEvent::Asking(_) => self.busy("thinking"),
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
                    escape_line(&on_one_line(&message))
                ));
                self.busy("waiting");
            }
            TurnEvent::Reasking { reason } => {
                self.clear_spinner();
                self.end_line();
                print_error(&format!(
                    "asking the model again, as its answer does not match the schema: {}\n",
                    escape_line(&on_one_line(&reason))
                ));
                self.busy("thinking");
            }
            TurnEvent::Calling(name) => {
                self.fold_reasoning();
                self.end_rendering();
                self.end_line();
                self.busy(&format!("calling {}", escape_line(&name)));
            }
            TurnEvent::Reasoning(_) | TurnEvent::ReasoningSummary { .. } => {
                self.state().thinking.get_or_insert_with(Instant::now);
            }
            TurnEvent::Delta(text) if self.streams() => {
                self.fold_reasoning();
                self.write_part(&text);
            }
            TurnEvent::MessageCompleted(message) if message.role == Role::Assistant => {
                self.fold_reasoning();
                self.clear_spinner();
                let is_answer = message.tool_calls.is_empty();
                if !self.streams() && is_answer {
                    self.write_part(&message.text());
                }
                self.state().answered |= is_answer;
                self.end_part();
            }
            TurnEvent::Unchecked { tool, why } => {
                self.clear_spinner();
                self.end_line();
                print_error(&format!(
                    "warning: the arguments of `{}` are not checked: {}\n",
                    escape_line(&tool),
                    escape_line(&on_one_line(&why))
                ));
            }
            TurnEvent::ImagesDropped(count) => {
                self.clear_spinner();
                self.end_line();
                let images = if count == 1 {
                    "1 image of a tool result is".to_owned()
                } else {
                    format!("{count} images of tool results are")
                };
                print_error(&format!(
                    "warning: {images} not sent: the model takes no images\n"
                ));
            }
            TurnEvent::ToolStarted(call) => {
                let id = call.id.clone();
                self.state().running.insert(id, Instant::now());
                self.busy(&described(&call));
            }
            TurnEvent::ToolFailed { call, diagnostic } => {
                self.clear_spinner();
                self.end_line();
                print_error(&format!(
                    "warning: `{}` failed: {}\n",
                    escape_line(&call.name),
                    escape_line(&on_one_line(&diagnostic))
                ));
            }
            TurnEvent::ToolEnded {
                call,
                ok,
                code,
                text,
            } => self.end_call(&call, ok, code, &text),
            _ => {}
        }
    }

    /// Reports the outcome of a call.
    fn end_call(&self, call: &ToolCall, ok: bool, code: Option<&str>, text: &str) {
        self.clear_spinner();
        let begun = self.state().running.remove(&call.id);
        if self.animated {
            let took = begun.map(|begun| begun.elapsed());
            print_error(&format!("{}\n", outcome_line(call, ok, took)));
        }
        let is_denied = begun.is_none() && !ok && self.state().undecided.contains(&call.id);
        if is_denied && !self.animated {
            print_error(&format!(
                "denied: the call of {} was not run\n",
                escape_line(&call.name)
            ));
        }
        let is_approved = self.state().approved.contains(&call.id);
        if is_refused(code) || (is_approved && !ok) {
            without_effect(&call.name, code, text);
        }
    }

    /// Reports the reasoning before this step in one line, without its text.
    fn fold_reasoning(&self) {
        let begun = self.state().thinking.take();
        if let (Some(begun), true) = (begun, self.animated) {
            self.clear_spinner();
            self.end_line();
            let took = shown_time(begun.elapsed());
            print_error(&format!("{}\n", dim(&format!("thought for {took}"))));
        }
    }

    /// Reports tokens, cost and time, if requested or on a terminal.
    fn report_usage(&self, report: &TurnReport) {
        let is_default = self.animated && self.is_terminal && self.responses.is_none();
        if !self.is_json() && (is_default || self.state().display.usage) {
            let line = usage_line(report, self.begun.elapsed());
            print_error(&format!("{}\n", dim(&line)));
        }
    }

    /// Shows the current activity and its duration in a spinner.
    fn busy(&self, what: &str) {
        if !self.animated {
            return;
        }
        // A line that the terminal wraps could not be removed.
        let fits = output_width().saturating_sub(SPINNER).max(1);
        let what: String = what.chars().take(fits).collect();
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
}

impl Listener for Output {
    fn event(&self, event: TurnEvent) {
        match &event {
            TurnEvent::Delta(_) => self.state().received.has_part = true,
            TurnEvent::Asking(_) | TurnEvent::MessageCompleted(_) => {
                self.state().received.has_part = false;
            }
            TurnEvent::ToolEnded { .. } => self.state().received.has_calls = true,
            _ => {}
        }
        if self.responses.is_some() {
            self.respond(|responses, mut out| responses.event(&event, &mut out));
        } else if self.is_json() {
            if let Some(line) = json_event(event) {
                self.emit(&line);
            }
        } else {
            self.show(event);
        }
    }
}
