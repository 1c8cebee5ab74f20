//! The point of a conversation from which a call of `fork` continues.

use std::future::Future;
use std::sync::Arc;

use logue_graph::{List, State};
use logue_message::{ChatMessage, Role, ToolCall};
use logue_tools::{Router, ToolResult, Toolbox};

use crate::turn::assistant::{Assistant, MESSAGES};
use crate::turn::budget::Budget;
use crate::turn::request::request_messages;
use crate::turn::response_requirements::ResponseRequirements;

/// The name of the tool.
pub(crate) const FORK: &str = "fork";

/// The result of the other calls of the answer, in the history of a fork.
const ELSEWHERE: &str =
    "This call belongs to the conversation that was forked; its result is not known here.";

tokio::task_local! {
    /// The point of the running calls.
    static OF_CALLS: ForkPoint;
}

/// An assistant and the conversation up to an answer with a call of `fork`.
#[derive(Clone)]
pub(crate) struct ForkPoint(Arc<Inner>);

struct Inner {
    assistant: Assistant,
    messages: Vec<ChatMessage>,
}

impl ForkPoint {
    /// Returns the point of `calls`, if one of them is a call of `fork`.
    pub(crate) fn of_calls(
        assistant: &Assistant,
        router: &Router,
        state: &State,
        calls: &[ToolCall],
    ) -> Option<Self> {
        let is_fork = |call: &ToolCall| call.name == FORK;
        if !calls.iter().any(is_fork) || router.toolbox().get(FORK).is_none() {
            return None;
        }
        let none = List::new();
        let conversation: &List<ChatMessage> = state.list_of(MESSAGES).unwrap_or(&none);
        Some(Self(Arc::new(Inner {
            messages: request_messages(&assistant.prefix, conversation),
            assistant: Assistant {
                toolbox: without_fork(router.toolbox()),
                ..assistant.clone()
            },
        })))
    }

    /// Makes the point known to the calls that `work` runs.
    pub(crate) async fn for_calls<F: Future>(this: Option<Self>, work: F) -> F::Output {
        match this {
            Some(point) => OF_CALLS.scope(point, work).await,
            None => work.await,
        }
    }

    /// Returns the point of the running call.
    pub(crate) fn current() -> Option<Self> {
        OF_CALLS.try_with(Clone::clone).ok()
    }

    /// Returns the assistant of a fork: without `fork`, with the same permissions or fewer.
    pub(crate) fn assistant(&self, budget: &Budget) -> Assistant {
        let assistant = self.0.assistant.clone();
        Assistant {
            prefix: Vec::new(),
            earlier_requests: 0,
            budget: budget.of_fork(),
            requirements: ResponseRequirements::default(),
            permissions: assistant.permissions.clone().for_fork(),
            ..assistant
        }
    }

    /// Returns the history of a fork, in which `instruction` is the result of the call.
    pub(crate) fn history(&self, call_id: &str, instruction: &str) -> Vec<ChatMessage> {
        let routing = &self.0.assistant.routing;
        let result = |text: String| routing.model_text(&ToolResult::success(text), None);
        let mut messages = self.0.messages.clone();
        let caller = messages.iter().rposition(|message| {
            let mut calls = message.tool_calls.iter();
            calls.any(|call| call.id == call_id)
        });
        // Each call of the answer has a result, which says that its outcome is unknown.
        let results = messages.iter_mut().skip(caller.map_or(0, |at| at + 1));
        for message in results.filter(|message| message.role == Role::Tool) {
            let id = message.tool_call_id.clone().unwrap_or_default();
            let text = if id == call_id {
                instruction.to_owned()
            } else {
                ELSEWHERE.to_owned()
            };
            let name = message.name.clone().unwrap_or_default();
            *message = ChatMessage::tool(id, result(text)).with_name(name);
        }
        messages
    }
}

/// Returns the tools without `fork`.
fn without_fork(toolbox: &Toolbox) -> Toolbox {
    let mut others = Toolbox::new();
    for definition in toolbox.definitions() {
        if definition.name == FORK {
            continue;
        }
        if let Some(tool) = toolbox.get(&definition.name) {
            // The names were compared before.
            drop(others.add(Arc::clone(tool)));
        }
    }
    others
}
