//! `fork`: a copy of the conversation that works on one task and answers once.
//!
//! The copy has the history and the tools of the conversation, without `fork`. Its answer is the
//! result of the call, and the conversation contains nothing else of it.

use std::fmt::Write as _;
use std::sync::Arc;

use logue_message::{Arguments, ChatMessage, ToolDefinition};
use logue_tools::{BoxFuture, Builtin, Tool, ToolInvocation, ToolResult};
use serde_json::Value;

use crate::agents::run_agent::{AGENT_DEPTH_HELP, AgentListener, too_deep, turn_failed};
use crate::prepare::environment::Environment;
use crate::prompt::scope::{AgentFailure, PromptScope};
use crate::transcript::item::NoTranscript;
use crate::turn::assistant::MAX_TURNS;
use crate::turn::budget::Budget;
use crate::turn::fork_point::{FORK, ForkPoint};
use crate::turn::listener::AgentCallPath;
use crate::turn::run::{Turn, TurnEnd};

/// The heading of the result in the answer of a fork.
const RESULT: &str = "===RESULT===";
/// The heading of what the conversation remembers.
const PERSIST: &str = "===PERSIST===";

/// The tool `fork` of a prompt.
#[derive(Debug)]
pub(crate) struct ForkTool {
    definition: ToolDefinition,
    scope: PromptScope,
}

impl ForkTool {
    pub(crate) fn new(scope: PromptScope) -> Self {
        let definition = Builtin::Fork.definition(&[]);
        Self { definition, scope }
    }
}

impl Tool for ForkTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let task = instruction(call.arguments);
            match self.scope.fork(call.id, task).await {
                Ok(answer) => ToolResult::success(answer),
                Err(failure) => failure.into_result(),
            }
        })
    }
}

/// Returns the message to a fork.
///
/// The router has validated the arguments.
fn instruction(arguments: &Arguments) -> String {
    let object = arguments.object().unwrap_or_default();
    let command = object.get("command").and_then(Value::as_str);
    let mut text = format!(
        "You are now a fork of this conversation. You have all of its history, and your steps are \
         not added to it. Work on this task only:\n\n{}\n",
        command.unwrap_or_default()
    );
    let arguments = object.get("arguments").and_then(Value::as_array);
    for argument in arguments.into_iter().flatten().filter_map(Value::as_str) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {argument}");
    }
    let _ = write!(
        text,
        "\nUse your tools if you need them; their effects are real. You cannot fork again. Then \
         answer once, in this form:\n\n{RESULT}\nthe result of the task, complete and short\n\
         {PERSIST}\nfacts and decisions that the conversation needs later, or nothing"
    );
    text
}

/// Runs a fork of the running call's conversation and returns its answer.
pub(crate) async fn run_fork(
    environment: &Environment,
    caller: &PromptScope,
    call_id: &str,
    instruction: String,
) -> Result<String, AgentFailure> {
    let Some(point) = ForkPoint::current() else {
        return Err(AgentFailure::own("a fork runs only in a turn"));
    };
    let budget = Budget::current().unwrap_or_else(|| environment.budget.clone());
    if caller.depth >= environment.max_agent_depth {
        let refused = AgentFailure::own(too_deep(environment.max_agent_depth));
        return Err(refused.with_help(AGENT_DEPTH_HELP));
    }
    let allowed = budget.require_request();
    allowed.map_err(|error| AgentFailure::own(format!("{error} ({MAX_TURNS})")))?;
    let history = point.history(call_id, &instruction);
    let turn = Turn::new(point.assistant(&budget), history, Box::new(NoTranscript));
    let listener = Arc::new(AgentListener::new(
        Arc::clone(&environment.listener),
        AgentCallPath {
            src: FORK.to_owned(),
            call_id: Some(call_id.to_owned()),
            depth: caller.depth + 1,
        },
    ));
    // Boxed, because a turn runs forks.
    let running: BoxFuture<'_, _> = Box::pin(turn.run(listener, None));
    let ended = running.await.map_err(turn_failed)?;
    let TurnEnd::Completed(report) = ended else {
        return Err(AgentFailure::own(
            "a tool call requires approval, which forks cannot wait for",
        ));
    };
    if let Some(cut) = report.truncated {
        let reason = cut.as_str();
        return Err(
            AgentFailure::own(format!("the answer of the fork is cut ({reason})"))
                .with_help("raise `max_tokens` in the `<config>`"),
        );
    }
    let answer = report.replies.last().map(ChatMessage::text);
    Ok(from_result(&answer.unwrap_or_default()).to_owned())
}

/// Returns the answer from its first heading on; all of it without one.
fn from_result(answer: &str) -> &str {
    let start = answer.find(RESULT).unwrap_or(0);
    answer.get(start..).unwrap_or(answer).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_begins_at_its_heading() {
        let answer = "I am done.\n===RESULT===\nIt is 3.\n===PERSIST===\nx = 3\n";
        assert_eq!(
            from_result(answer),
            "===RESULT===\nIt is 3.\n===PERSIST===\nx = 3"
        );
        assert_eq!(from_result(" It is 3. "), "It is 3.");
    }

    #[test]
    fn an_instruction_lists_the_arguments() {
        let arguments = Arguments::from_text(r#"{"command":"Count.","arguments":["a.txt","b c"]}"#);
        let text = instruction(&arguments);
        assert!(text.contains("\n\nCount.\n- a.txt\n- b c\n\n"), "{text}");
    }
}
