//! The selection and order of the rendered messages, and the end of each.

use super::conversation::{Content, Conversation, RenderMessage};
use super::error::RenderError;
use super::header::{self, ALL};
use super::layout;
use super::options::{Form, Reasoning, RenderOptions, RendererCompat};
use crate::ControlToken;
use crate::syntax::vocabulary::FrameRole;

/// A receiver of a rendering: text, or ids.
pub(super) trait Sink {
    /// The beginning of message number `message`.
    fn message(&mut self, message: usize);
    /// A control token.
    fn token(&mut self, token: ControlToken);
    /// Text of a header.
    fn text(&mut self, text: &str);
    /// Text of a body, which may come in parts.
    fn body(&mut self, part: &str);
    /// The end of the body of message number `message`, before its last token.
    fn body_ends(&mut self, message: usize) -> Result<(), RenderError>;
}

/// Renders a conversation. `words` is room for what is put together.
pub(super) fn conversation(
    conversation: &Conversation,
    form: Form,
    options: RenderOptions,
    sink: &mut impl Sink,
    words: &mut String,
) -> Result<(), RenderError> {
    let messages = &conversation.messages;
    let next = match form {
        Form::Completion(role) => {
            let message = messages.len();
            Some(role.as_str().ok_or(RenderError::UnknownRole { message })?)
        }
        Form::Conversation | Form::Training => None,
    };
    let function_tools = conversation.declares_functions();
    let finished = finished(messages, options.reasoning);
    for (index, message) in messages.iter().enumerate() {
        if index < finished && message.is_on(ANALYSIS) {
            continue;
        }
        let last = index + 1 == messages.len();
        let end = if last && form == Form::Training && may_return(message, options.compat) {
            ControlToken::Return
        } else {
            terminator(message, options.compat)
        };
        write(message, index, end, function_tools, options, sink, words)?;
    }
    if let Some(role) = next {
        sink.message(messages.len());
        sink.token(ControlToken::Start);
        sink.text(role);
    }
    Ok(())
}

/// Renders one message without a conversation.
pub(super) fn message(
    message: &RenderMessage,
    function_tools: bool,
    options: RenderOptions,
    sink: &mut impl Sink,
    words: &mut String,
) -> Result<(), RenderError> {
    let end = terminator(message, options.compat);
    write(message, 0, end, function_tools, options, sink, words)
}

const ANALYSIS: &str = "analysis";
const FINAL: &str = "final";

fn write(
    message: &RenderMessage,
    index: usize,
    end: ControlToken,
    function_tools: bool,
    options: RenderOptions,
    sink: &mut impl Sink,
    words: &mut String,
) -> Result<(), RenderError> {
    sink.message(index);
    header::write(message, index, options.check_headers, sink, words)?;
    for part in &message.content {
        let (belongs_to, role) = match part {
            Content::Text(text) => {
                sink.body(text);
                continue;
            }
            Content::System(_) => ("system", FrameRole::System),
            Content::Developer(_) => ("developer", FrameRole::Developer),
        };
        if message.role != role {
            return Err(RenderError::MisplacedContent {
                message: index,
                belongs_to,
            });
        }
        words.clear();
        match part {
            Content::System(content) => {
                layout::system(content, function_tools, options.compat, words);
            }
            Content::Developer(content) => layout::developer(content, options.compat, words),
            Content::Text(_) => {}
        }
        sink.body(words);
    }
    sink.body_ends(index)?;
    sink.token(end);
    Ok(())
}

/// The number of messages that are of finished turns, as far as reasoning goes.
fn finished(messages: &[RenderMessage], reasoning: Reasoning) -> usize {
    let place = match reasoning {
        Reasoning::Keep => None,
        Reasoning::DropFinished => messages.iter().rposition(|message| {
            message.role == FrameRole::Assistant && message.is_on(FINAL) && !is_call(message)
        }),
        Reasoning::DropBeforeFirstFinal => {
            let mut backwards = messages.iter().rev();
            let last = backwards.find(|message| message.role == FrameRole::Assistant);
            let first = || messages.iter().position(|message| message.is_on(FINAL));
            last.filter(|message| message.is_on(FINAL))
                .and_then(|_| first())
        }
    };
    place.unwrap_or(0)
}

fn terminator(message: &RenderMessage, compat: RendererCompat) -> ControlToken {
    let calls = match compat {
        RendererCompat::Meant => is_call(message),
        RendererCompat::OpenAi0_0_8 => {
            message.role == FrameRole::Assistant && message.recipient.is_some()
        }
    };
    if calls {
        ControlToken::Call
    } else {
        ControlToken::End
    }
}

/// Returns whether the message, as the last one of a lesson, may end in `<|return|>`.
fn may_return(message: &RenderMessage, compat: RendererCompat) -> bool {
    let calls = compat == RendererCompat::Meant && is_call(message);
    message.role == FrameRole::Assistant && message.is_on(FINAL) && !calls
}

/// Returns whether the assistant addresses a recipient, which then answers.
fn is_call(message: &RenderMessage) -> bool {
    let addressed = message.recipient.as_deref().is_some_and(|to| to != ALL);
    message.role == FrameRole::Assistant && addressed
}
