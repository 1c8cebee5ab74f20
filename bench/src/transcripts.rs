//! The conversations of [`crate::conversations`] as ChatMD, and texts that mean no good.

use chatmd::write::{self, Payload};
use openchatml::{Channel, FrameBuf, FrameRole};

/// The frames as one transcript, as the program writes it: calls and replies with their payloads in
/// RAW blocks, reasoning with a summary, answers in Markdown.
pub fn written(frames: &[FrameBuf]) -> String {
    let mut text = String::from(
        "<config model=\"gpt-4o\" temperature=\"0\" show_tool_call/>\n<tool name=\"read_file\"/>\n",
    );
    for (number, frame) in frames.iter().enumerate() {
        let id = frame.call_id.as_deref().unwrap_or_default();
        let element = match frame.role {
            FrameRole::System => write::system(&frame.body),
            FrameRole::Developer => write::developer(&frame.body),
            FrameRole::Tool => write::tool_response(&write::ToolResponseRecord::new(
                id,
                Payload::Inline(&frame.body),
            )),
            FrameRole::Assistant if frame.is_call() => write::tool_call(
                &write::ToolCallRecord::new(id, "read_file", Payload::Inline(&frame.body)),
            ),
            FrameRole::Assistant if frame.channel == Some(Channel::Analysis) => {
                write::reasoning(&format!("rs_{number}"), &[&frame.body])
            }
            FrameRole::Assistant => write::assistant(&frame.body, Some(&format!("msg_{number}"))),
            _ => write::user(&frame.body),
        };
        text.push_str(&element);
    }
    text
}

/// The words and answers alone, as a person types them: Markdown with code, nothing in RAW blocks.
pub fn typed(frames: &[FrameBuf]) -> String {
    let mut text = String::new();
    for frame in frames {
        let tag = match (frame.role, frame.channel) {
            (FrameRole::User, _) => "user",
            (FrameRole::Assistant, None | Some(Channel::Final)) => "assistant",
            _ => continue,
        };
        text.push_str(&format!("<{tag}>\n{}\n</{tag}>\n\n", frame.body));
    }
    text
}

/// A construct that is repeated, and what stands around all of it.
pub struct Hostile {
    /// What is repeated.
    pub name: &'static str,
    before: &'static str,
    unit: &'static str,
    after: &'static str,
}

impl Hostile {
    /// About `bytes` bytes of it.
    pub fn text(&self, bytes: usize) -> String {
        let units = bytes / self.unit.len();
        [self.before, &self.unit.repeat(units), self.after].concat()
    }
}

const fn hostile(
    name: &'static str,
    before: &'static str,
    unit: &'static str,
    after: &'static str,
) -> Hostile {
    Hostile {
        name,
        before,
        unit,
        after,
    }
}

/// Every construct of the language, repeated.
pub const HOSTILE: [Hostile; 16] = [
    hostile("`<user></user>`", "", "<user></user>", ""),
    hostile("`<user>` alone", "", "<user>", ""),
    hostile("`</user>` alone", "", "</user>", ""),
    hostile(
        "`<doc src=\"a\"/>`",
        "<user>",
        "<doc src=\"a\"/>",
        "</user>",
    ),
    hostile("attributes", "<user ", "a=\"b\" ", ">x</user>"),
    hostile("`<` alone", "<user>", "<", "</user>"),
    hostile("`<b ` alone", "<user>", "<b ", "</user>"),
    hostile("`<b>`", "<user>", "<b>", "</user>"),
    hostile("`<user a=\"`", "", "<user a=\"", ""),
    hostile("`<user a='x>`", "", "<user a='x>", ""),
    hostile("`\"`", "<user a=\"", "\" \"", ">x</user>"),
    hostile("`&` in a value", "<user a=\"", "&lt;&x", "\">x</user>"),
    hostile("`|`", "<user>", "|", "</user>"),
    hostile("`RAW|`", "<user>", "RAW|", "</user>"),
    hostile("`RAW||RAW `", "<user>", "RAW||RAW ", "</user>"),
    hostile("`<!---->`", "<user>", "<!---->", "</user>"),
];
