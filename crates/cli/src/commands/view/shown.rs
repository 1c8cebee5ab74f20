//! Output of messages as text and as JSON.

use std::borrow::Cow;
use std::io;

use logue_source::{ColorMode, escape_line, escape_untrusted};
use serde_json::{Map, Value, json};

use crate::commands::view::fold::{MESSAGE_LIMITS, TOOL_LIMITS, fold, size};
use crate::commands::view::image::with_short_images;
use crate::terminal::{output_style, print, print_as_is};

/// A message to show.
pub(super) struct Shown {
    pub(super) role: String,
    pub(super) channel: Option<String>,
    /// Recipient, call id and the like, for the heading.
    pub(super) details: Vec<(&'static str, String)>,
    pub(super) text: String,
    /// Files that hold the content of the message, instead of `text`.
    pub(super) payloads: Vec<Payload>,
    /// Whether `text` contains the payloads.
    pub(super) is_inline: bool,
    pub(super) hidden: bool,
    pub(super) complete: bool,
}

/// A file that holds the arguments or the result of a tool.
pub(super) struct Payload {
    /// The path, as written.
    pub(super) src: String,
    /// The size of the file; `None` if it is not found.
    pub(super) bytes: Option<u64>,
    /// Whether a directory to search for the file is known.
    pub(super) looked_for: bool,
}

impl Payload {
    /// Returns the line that shows the file instead of its content.
    pub(super) fn line(&self) -> String {
        let size = match self.bytes {
            Some(bytes) => format!(" ({})", size(bytes)),
            None if self.looked_for => " (not found)".to_owned(),
            None => String::new(),
        };
        format!("→ {}{size}\n", self.src)
    }
}

impl Shown {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("role".into(), json!(self.role));
        object.insert("channel".into(), json!(self.channel));
        for (key, value) in &self.details {
            object.insert((*key).into(), json!(value));
        }
        object.insert("content".into(), json!(self.text));
        if !self.payloads.is_empty() {
            let payloads = self
                .payloads
                .iter()
                .map(|payload| json!({"src": payload.src, "bytes": payload.bytes}));
            object.insert("payloads".into(), payloads.collect());
        }
        object.insert("hidden".into(), json!(self.hidden));
        object.insert("complete".into(), json!(self.complete));
        Value::Object(object)
    }

    fn heading(&self) -> String {
        let mut heading = self.role.clone();
        if let Some(channel) = &self.channel {
            heading.push_str(&format!(" · {channel}"));
        }
        for (key, value) in &self.details {
            heading.push_str(&format!(" · {key} {value}"));
        }
        if self.hidden {
            heading.push_str(" · hidden from users");
        }
        if !self.complete {
            heading.push_str(" · incomplete");
        }
        heading
    }

    /// Returns the text under the heading.
    fn body(&self, full: bool, shortens_images: bool) -> Cow<'_, str> {
        if !self.payloads.is_empty() && !self.is_inline {
            return Cow::Owned(self.payloads.iter().map(Payload::line).collect());
        }
        let text = if shortens_images {
            with_short_images(&self.text)
        } else {
            Cow::Borrowed(self.text.as_str())
        };
        if full {
            return text;
        }
        // Tool results, tool calls and reasoning.
        let is_tool_text = self.role == "tool" || (self.role == "assistant" && self.hidden);
        let limits = if is_tool_text {
            TOOL_LIMITS
        } else {
            MESSAGE_LIMITS
        };
        match text {
            Cow::Borrowed(text) => fold(text, limits),
            Cow::Owned(text) => Cow::Owned(fold(&text, limits).into_owned()),
        }
    }

    /// Returns the colour of the heading as parameters of its escape sequence.
    fn colour(&self) -> &'static str {
        match (self.role.as_str(), self.hidden) {
            ("user", _) => "1;36",
            ("assistant", false) => "1;32",
            ("assistant", true) => "32",
            ("tool", _) => "35",
            ("system" | "developer", _) => "33",
            _ => "1",
        }
    }
}

/// Prints each message as one complete JSON object.
pub(super) fn print_json(messages: &[Shown], file: Option<&str>) -> io::Result<()> {
    messages.iter().try_for_each(|message| {
        let mut value = message.to_json();
        if let Some(file) = file {
            value["file"] = json!(file);
        }
        print(&format!("{value}\n"))
    })
}

/// Prints heading and text of each message.
///
/// Only escape sequences of this program reach the terminal or a pager.
///
/// `shortens_images` replaces the data of images by a short form.
pub(super) fn print_messages(
    messages: &[Shown],
    full: bool,
    shortens_images: bool,
) -> io::Result<()> {
    let colour = output_style() == ColorMode::Ansi;
    for (number, message) in messages.iter().enumerate() {
        let mut text = String::from(if number == 0 { "" } else { "\n" });
        let heading = message.heading();
        let heading = escape_line(&heading);
        if colour {
            text.push_str(&format!("\u{1b}[{}m{heading}\u{1b}[0m\n", message.colour()));
        } else {
            text.push_str(&format!("{heading}\n"));
        }
        // A carriage return before a line feed must not be shown as an escape.
        let body = message.body(full, shortens_images).replace("\r\n", "\n");
        text.push_str(&escape_untrusted(&body));
        if !text.ends_with('\n') {
            text.push('\n');
        }
        print_as_is(&text)?;
    }
    Ok(())
}
