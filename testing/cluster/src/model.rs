//! The model: its answer is a function of the request.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Random, Received, Reply};

use crate::hold::{HOLD, HeldAnswers};

/// The longest time of an answer, in milliseconds.
const LONGEST: usize = 40;

/// A message that the model answers, and its call.
pub(crate) const SAY: &str = "say ";
/// A message whose turn calls the tool.
pub(crate) const WORK: &str = "work ";

/// The prompt of the agent.
pub(crate) const AGENT: &str =
    "<config model=\"m\"/>\n<tool name=\"work\" command=\"sh work.sh\"/>\n";

/// The tool: each run appends a line with the id of its call, in one write.
pub(crate) const SCRIPT: &str = "printf '%s\\n' \"$1\" >>effects\nsleep 0.02\nprintf done\n";

/// Starts the model.
///
/// The message `say KEY` is answered by `echo KEY`. `work KEY` calls the tool with the key; after its
/// result, whatever it is, the answer is `did KEY`. The answer to `hold KEY` is [held](HeldAnswers).
pub(crate) fn start(seed: u64, held: HeldAnswers) -> io::Result<ModelServer> {
    let count = AtomicU64::new(seed);
    let answer = move |request: &Received| {
        let messages = request.body["messages"].as_array();
        let text = messages.and_then(|messages| last_user_text(messages));
        if text.is_some_and(|text| text.starts_with(HOLD)) {
            return held.reply();
        }
        let mut random = Random::new(count.fetch_add(1, Ordering::Relaxed));
        let time = random.below(LONGEST) as u64;
        std::thread::sleep(Duration::from_millis(time));
        Reply::Answer(answer(&request.body["messages"]))
    };
    ModelServer::start_by(answer, Delivery::Whole)
}

fn answer(messages: &Value) -> Answer {
    let messages = messages.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(last) = messages.last() else {
        return Answer::text("nothing");
    };
    if last["role"] == "tool" {
        let call = last["tool_call_id"].as_str().unwrap_or_default();
        let key = call.strip_prefix("call-").unwrap_or(call);
        return Answer::text(format!("did {key}"));
    }
    let text = last_user_text(messages).unwrap_or_default();
    if let Some(key) = text.strip_prefix(WORK) {
        let arguments = json!({ "arguments": [key] }).to_string();
        return Answer::text("").with_call(format!("call-{key}"), "work", arguments);
    }
    Answer::text(format!("echo {}", text.strip_prefix(SAY).unwrap_or(text)))
}

/// Returns the text of the last message of the user that this model understands.
fn last_user_text(messages: &[Value]) -> Option<&str> {
    let mut texts = messages.iter().rev().filter_map(user_text);
    texts.find(|text| [SAY, WORK, HOLD].iter().any(|kind| text.starts_with(kind)))
}

/// Returns the text of a message of the user.
pub(crate) fn user_text(message: &Value) -> Option<&str> {
    (message["role"] == "user").then(|| text(message))
}

/// Returns the text of a message.
pub(crate) fn text(message: &Value) -> &str {
    let content = &message["content"];
    let text = content.as_str().or_else(|| content[0]["text"].as_str());
    text.unwrap_or_default()
}
