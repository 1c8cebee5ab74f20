//! Approval of tool calls at the terminal.
//!
//! Each line of a preview follows a bar, and characters that could move the cursor are escaped, so
//! that no tool, file or model can forge a question or an answer. Input typed before the question
//! is discarded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};

use logue_agent::{ApprovalRequest, ApprovalResponse, Approver, DecisionSource, EditedCall};
use logue_harness::BoxFuture;
use logue_source::{ColorMode, escape_json, escape_unambiguous, escape_untrusted};

use crate::counted::counted;
use crate::setup::argument_editor::{self, spread};
use crate::setup::output::Output;
use crate::terminal::{answered, error_style, print_error};

/// The lines of a preview that are shown; the key `s` shows all.
const LINES: usize = 40;
/// The characters of a line that are shown.
const WIDTH: usize = 400;

/// An approver that asks the user at the terminal.
pub(crate) struct Terminal {
    output: Arc<Output>,
    can_wait: bool,
    /// The decisions about all calls of a tool in this run.
    lasting: Mutex<BTreeMap<String, ApprovalResponse>>,
}

/// The parsed answer to a question.
enum TypedAnswer {
    Once(bool, String),
    Always(bool, String),
    Edit,
    Everything,
    Help,
}

impl Terminal {
    pub(crate) fn new(output: Arc<Output>, can_wait: bool) -> Self {
        Self {
            output,
            can_wait,
            lasting: Mutex::default(),
        }
    }

    async fn asked(&self, question: ApprovalRequest<'_>) -> Option<ApprovalResponse> {
        let tool = question.call.name.clone();
        let lasting = |answers: &Mutex<BTreeMap<String, ApprovalResponse>>| {
            let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.get(&tool).cloned()
        };
        // Each call of a fork needs a decision of its own.
        let is_forked = matches!(question.why, DecisionSource::Fork);
        if !is_forked && let Some(answer) = lasting(&self.lasting) {
            return Some(answer);
        }
        self.output.finish();
        let mut draft: Option<String> = None;
        let mut edited: Option<EditedCall> = None;
        print_error(&shown(&question, None, false));
        loop {
            print_error(&format!(
                "Run {}{}? [y/N/{}e/s/?] ",
                escape_unambiguous(tool.replace(['\n', '\t'], " ")),
                edited.as_ref().map_or("", |_| " as edited"),
                if is_forked { "" } else { "a/d/" },
            ));
            let Some(line) = line().await else {
                print_error("\n");
                // A turn that is not stored cannot be resumed, so the call is denied.
                return (!self.can_wait).then(|| ApprovalResponse::new(false));
            };
            match TypedAnswer::parse(&line) {
                Some(TypedAnswer::Once(approved, note)) => {
                    return Some(response(approved, note, edited));
                }
                Some(TypedAnswer::Always(..)) if is_forked => print_error(HELP_OF_FORK),
                Some(TypedAnswer::Always(approved, note)) => {
                    let answer = response(approved, note, edited);
                    let mut answers = self.lasting.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.insert(tool, answer.clone().for_tool());
                    return Some(answer);
                }
                Some(TypedAnswer::Edit) => {
                    let before = draft.take();
                    let before = before.unwrap_or_else(|| spread(&question.call.arguments));
                    let Some(text) = argument_editor::edited(&before).await else {
                        continue;
                    };
                    match question.edited(&text).await {
                        Ok(call) => {
                            print_error(&shown(&question, Some(&call), false));
                            edited = Some(call);
                        }
                        Err(error) => {
                            let error = error.to_string();
                            print_error(&format!("not edited: {}\n", escape_untrusted(&error)));
                        }
                    }
                    draft = Some(text);
                }
                Some(TypedAnswer::Everything) => {
                    print_error(&shown(&question, edited.as_ref(), true));
                }
                Some(TypedAnswer::Help) | None => print_error(HELP),
            }
        }
    }
}

const HELP: &str = "\
  y  run it this once        a  run every call of this tool until this command ends
  n  do not run it           d  run no call of this tool until this command ends
  e  edit the arguments      s  show all of it
  A reason after n or d is sent to the model, and so are edited arguments.
  Enter alone is n. Ctrl-D leaves the decision open, Ctrl-C ends the command.
";

const HELP_OF_FORK: &str = "\
  a and d do not apply: each call of a fork needs a decision
";

impl Approver for Terminal {
    fn ask<'a>(&'a self, question: ApprovalRequest<'a>) -> BoxFuture<'a, Option<ApprovalResponse>> {
        Box::pin(self.asked(question))
    }
}

impl TypedAnswer {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (key, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let note = reason.trim().to_owned();
        Some(match key {
            "y" | "Y" | "yes" if note.is_empty() => Self::Once(true, note),
            "a" | "A" if note.is_empty() => Self::Always(true, note),
            "" | "n" | "N" | "no" => Self::Once(false, note),
            "d" | "D" => Self::Always(false, note),
            "e" | "E" => Self::Edit,
            "s" | "S" => Self::Everything,
            "?" => Self::Help,
            _ => return None,
        })
    }
}

/// Returns the answer about a call; an edit belongs to an approval.
fn response(approved: bool, note: String, edited: Option<EditedCall>) -> ApprovalResponse {
    let response = ApprovalResponse::new(approved).with_note(note);
    match edited.filter(|_| approved) {
        Some(edited) => response.with_edit(edited),
        None => response,
    }
}

/// Returns the preview of a call, or its escaped arguments.
fn described(question: &ApprovalRequest<'_>, edited: Option<&EditedCall>) -> String {
    let (preview, arguments) = match edited {
        Some(edited) => (edited.preview.as_ref(), &edited.arguments),
        None => (question.preview, &question.call.arguments),
    };
    // A preview is escaped by its tool; arguments are JSON.
    match preview {
        Some(preview) => preview.text.clone(),
        None => escape_json(arguments.as_str()),
    }
}

fn shown(question: &ApprovalRequest<'_>, edited: Option<&EditedCall>, all: bool) -> String {
    let name = question.call.name.replace(['\n', '\t'], " ");
    let name = escape_unambiguous(name);
    let why = match question.why {
        DecisionSource::NotTrusted { .. } => "The prompt is not trusted. ",
        DecisionSource::Fork => "In a fork of the conversation: ",
        _ => "",
    };
    let mut text = match edited {
        Some(_) => format!("\nThe edited call of {name}:\n"),
        None => format!("\n{why}The model requests a call of {name}:\n"),
    };
    let what = described(question, edited);
    let is_diff = error_style() == ColorMode::Ansi && what.contains("\n@@ -");
    let lines: Vec<&str> = what.lines().collect();
    let most = if all { lines.len() } else { LINES };
    for line in lines.iter().take(most) {
        let line = escape_untrusted(line);
        let end = line.char_indices().nth(WIDTH).filter(|_| !all);
        match end {
            Some((at, _)) => {
                let start = line.get(..at).unwrap_or_default();
                text.push_str(&format!("  │ {start}… (s shows all)\n"));
            }
            None => text.push_str(&format!("  │ {}\n", coloured(&line, is_diff))),
        }
    }
    if lines.len() > most {
        let left = lines.len() - most;
        text.push_str(&format!(
            "  │ … {} (s shows them)\n",
            counted(left, "more line")
        ));
    }
    text
}

/// Returns a line of a preview, with the colour of its change in a diff.
fn coloured(line: &str, is_diff: bool) -> Cow<'_, str> {
    let colour = match line.chars().next() {
        Some('+') if is_diff => 32,
        Some('-') if is_diff => 31,
        _ => return Cow::Borrowed(line),
    };
    Cow::Owned(format!("\u{1b}[{colour}m{line}\u{1b}[0m"))
}

/// Returns whether standard input and standard error are terminals.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Reads a newly typed line from the terminal; returns `None` at its end.
pub(crate) async fn line() -> Option<String> {
    #[cfg(unix)]
    {
        use nix::sys::termios::{FlushArg, tcflush};
        // Input typed before the question is not an answer to it.
        let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    }
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        // A line without a newline is incomplete.
        (read.is_ok() && line.ends_with('\n')).then(|| {
            answered();
            line
        })
    });
    read.await.ok().flatten()
}
