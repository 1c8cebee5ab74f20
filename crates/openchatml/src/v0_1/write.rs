//! From frames to 0.1 or plain `ChatML`.
//!
//! There is no escape: a body that spells a token cannot be written and is refused, but for the
//! flags and function tokens that a system prompt may hold, and for JSON, which has an escape of
//! its own. What the version has no place for is dropped and listed. Nothing becomes visible or of
//! a higher rank that was not: a developer's message is dropped, because every role that 0.1 has
//! would either raise it or show it.

use serde_json::Value;
use serde_json::value::RawValue;

use super::event::Function;
use super::json::is_value;
use super::marker::{Marker, Thought};
use crate::convert::{
    ConvertError, ConvertOptions, Ordered, Pairing, WriteResult, Writing, assign_ids, finish,
    name_replies, note_implied_ids,
};
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{LossKind, LossSeverity};
use crate::messages::{recipient_of, tool_of};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};
use crate::write::frame::{WriteError, is_safe};

/// Options of the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Plain `ChatML`: messages only, and only two tokens.
    pub plain: bool,
    /// Text before the first message.
    pub begin: Option<String>,
    /// Text after the last message.
    pub end: Option<String>,
    /// Whether `<|im_end|>` is on a line of its own.
    pub newline: bool,
    /// The least severity of losses that refuse the conversion; `None` refuses none.
    pub strict: Option<LossSeverity>,
}

impl Default for WriteOptions {
    /// 0.1 as its specification lays it out, between `[BOS]` and `[EOS]`.
    fn default() -> Self {
        Self {
            plain: false,
            begin: Some("[BOS]".to_owned()),
            end: Some("[EOS]".to_owned()),
            newline: true,
            strict: None,
        }
    }
}

impl WriteOptions {
    /// Plain `ChatML` without edges.
    pub const fn plain() -> Self {
        Self {
            plain: true,
            begin: None,
            end: None,
            newline: false,
            strict: None,
        }
    }

    /// Sets the text before the first message.
    #[must_use]
    pub fn with_begin(mut self, begin: impl Into<Option<String>>) -> Self {
        self.begin = begin.into();
        self
    }

    /// Sets the text after the last message.
    #[must_use]
    pub fn with_end(mut self, end: impl Into<Option<String>>) -> Self {
        self.end = end.into();
        self
    }

    /// Sets whether `<|im_end|>` is on a line of its own.
    #[must_use]
    pub const fn with_newline(mut self, newline: bool) -> Self {
        self.newline = newline;
        self
    }

    /// Sets the least severity of losses that refuse the conversion.
    #[must_use]
    pub fn with_strict(mut self, strict: impl Into<Option<LossSeverity>>) -> Self {
        self.strict = strict.into();
        self
    }
}

/// Writes a transcript as OpenChatML 0.1 or plain `ChatML`. Reading gives back what the losses do
/// not name. Linear in the transcript.
///
/// ```
/// use openchatml::v0_1::{WriteOptions, write};
/// use openchatml::{FrameBuf, Transcript};
///
/// let transcript = Transcript::new(vec![FrameBuf::user("Hi"), FrameBuf::analysis("Hm.")]);
/// let written = write(&transcript, &WriteOptions::plain())?;
/// assert_eq!(written.text, "<|im_start|>user\nHi<|im_end|>\n");
/// assert_eq!(written.losses[0].to_string(), "frame 2: reasoning dropped");
/// # Ok::<(), openchatml::convert::ConvertError>(())
/// ```
///
/// # Errors
/// A body that spells a token, a name that is invalid in a role line; with
/// [`WriteOptions::strict`] a loss of that severity. Then nothing is written.
pub fn write(transcript: &Transcript, options: &WriteOptions) -> Result<WriteResult, ConvertError> {
    let ordered = Ordered::new(transcript, Pairing::Name);
    let transcript = &*ordered.transcript;
    let mut writer = Writer {
        options,
        out: Writing::default(),
        turn: None,
    };
    let begin = options.begin.as_deref().unwrap_or_default();
    writer.out.text.push_str(begin);
    if transcript.header.is_some() {
        writer
            .out
            .note_whole(LossKind::HeaderDropped, "the document header is dropped");
    }
    if !transcript.tools.is_empty() {
        let text = "the declarations of the tools dropped";
        writer.out.note_whole(LossKind::DeclarationDropped, text);
    }
    // A reply that names no tool is of the tool that a reader would find for it.
    let mut frames = ordered.transcript.frames.clone();
    name_replies(&mut frames);
    for frame in &mut frames {
        frame.call_id = None;
    }
    assign_ids(&mut frames);
    let mut written = ordered.frames.to_vec();
    for (index, (frame, matched)) in transcript.frames.iter().zip(&frames).enumerate() {
        writer.out.index = index;
        if frame.role == FrameRole::Tool && frame.name.is_none() && matched.name.is_some() {
            writer.out.note(LossKind::Assigned, "its tool was assigned");
            let name = matched.name.clone();
            if let Some(original) = written.get_mut(ordered.original(index)) {
                original.name.clone_from(&name);
            }
            writer.frame(&FrameBuf {
                name,
                ..frame.clone()
            })?;
        } else {
            writer.frame(frame)?;
        }
    }
    writer.flush();
    if let Some(end) = &options.end {
        let text = &mut writer.out.text;
        text.truncate(text.trim_end_matches('\n').len());
        text.push_str(end);
        text.push('\n');
    }
    ordered.finish(&mut writer.out.losses);
    // Reading pairs replies by the names that were written.
    note_implied_ids(&written, Pairing::Name, &mut writer.out.losses);
    let strict = options.strict;
    finish(
        writer.out,
        &ConvertOptions {
            strict,
            ..ConvertOptions::default()
        },
    )
}

struct Writer<'o> {
    options: &'o WriteOptions,
    out: Writing,
    turn: Option<Turn>,
}

/// An assistant's message that may get more.
struct Turn {
    name: Option<String>,
    items: Vec<String>,
}

impl Writer<'_> {
    fn frame(&mut self, frame: &FrameBuf) -> Result<(), ConvertError> {
        if let Some(name) = &frame.name {
            self.check_name(name)?;
        }
        match frame.role {
            FrameRole::Assistant => return self.assistant(frame),
            FrameRole::Developer => {
                self.out.note(
                    LossKind::MessageDropped,
                    "dropped: no role of this version has a developer's rank",
                );
                return Ok(());
            }
            FrameRole::Other => {
                self.out
                    .note(LossKind::MessageDropped, "dropped: its role is not known");
                return Ok(());
            }
            FrameRole::User if !frame.visibility().is_visible() => {
                self.out.note(
                    LossKind::HiddenOmitted,
                    "dropped: it is hidden, and this version would show it",
                );
                return Ok(());
            }
            FrameRole::System | FrameRole::User | FrameRole::Tool => {}
        }
        self.flush();
        let tool = frame.name.as_deref();
        let tool = tool.filter(|_| frame.role == FrameRole::Tool && !self.options.plain);
        let content = if let Some(tool) = tool {
            self.note_name(tool);
            output(tool, &frame.body)
        } else {
            self.check_body(&frame.body, frame.role == FrameRole::System)?;
            frame.body.clone()
        };
        self.note_losses(frame);
        let name = match frame.role {
            FrameRole::Tool if self.options.plain => frame.name.as_deref().map(tool_of),
            FrameRole::Tool => None,
            _ => frame.name.as_deref(),
        };
        self.message(frame.role, name, &content);
        Ok(())
    }

    fn assistant(&mut self, frame: &FrameBuf) -> Result<(), ConvertError> {
        let plain = self.options.plain;
        let visible = frame.visibility().is_visible();
        let channel = frame.effective_channel();
        let items = if visible {
            self.check_body(&frame.body, false)?;
            vec![frame.body.clone()]
        } else if frame.is_call() {
            self.call(frame).into_iter().collect()
        } else if frame.to.is_some() && frame.terminator == Terminator::None {
            self.out
                .note(LossKind::CallDropped, "a cut tool call is left out");
            return Ok(());
        } else if plain || channel == Channel::Unknown || frame.terminator == Terminator::None {
            let what = if channel == Channel::Analysis {
                "reasoning dropped"
            } else {
                "dropped: it is hidden, and this version would show it"
            };
            self.out.note(LossKind::HiddenOmitted, what);
            return Ok(());
        } else {
            if channel != Channel::Analysis {
                self.out.note(
                    LossKind::ChannelChanged,
                    "hidden commentary becomes a block of thought",
                );
            }
            self.thoughts(&frame.body)?
        };
        if items.is_empty() {
            return Ok(());
        }
        if visible && channel == Channel::Commentary {
            self.out
                .note(LossKind::PreambleChanged, "the preamble becomes an answer");
        }
        self.note_losses(frame);
        if self
            .turn
            .as_ref()
            .is_some_and(|turn| turn.name != frame.name)
        {
            self.flush();
        }
        let turn = self.turn.get_or_insert_with(|| Turn {
            name: frame.name.clone(),
            items: Vec::new(),
        });
        if visible && frame.body.is_empty() && !turn.items.is_empty() {
            self.out.note(
                LossKind::EmptyDropped,
                "an empty answer after other parts is dropped",
            );
            return Ok(());
        }
        turn.items.extend(items);
        if visible {
            self.flush();
        }
        Ok(())
    }

    /// Writes the assistant's message that is at hand.
    fn flush(&mut self) {
        if let Some(turn) = self.turn.take() {
            let content = turn.items.join("\n");
            self.message(FrameRole::Assistant, turn.name.as_deref(), &content);
        }
    }

    fn message(&mut self, role: FrameRole, name: Option<&str>, content: &str) {
        let newline = self.options.newline || content.ends_with('\n');
        let text = &mut self.out.text;
        text.push_str(Marker::ImStart.as_str());
        text.push_str(role.as_str().unwrap_or_default());
        if let Some(name) = name {
            text.push_str(" name=");
            text.push_str(name);
        }
        text.push('\n');
        text.push_str(content);
        if newline {
            text.push('\n');
        }
        text.push_str(Marker::ImEnd.as_str());
        text.push('\n');
    }

    /// The blocks of thought that a body makes: one for each marker, or one of reason.
    fn thoughts(&mut self, body: &str) -> Result<Vec<String>, ConvertError> {
        let opener = |text: &str| {
            Thought::ALL
                .into_iter()
                .find(|thought| text.starts_with(thought.opener()))
        };
        let mut rest = body;
        let mut thought = opener(body).unwrap_or(Thought::Reason);
        rest = rest.strip_prefix(thought.opener()).unwrap_or(rest);
        let mut blocks = Vec::new();
        loop {
            let closer = Marker::Close(thought).as_str();
            let next =
                Marker::find(rest, false).filter(|(_, mark)| matches!(mark, Marker::Open(_)));
            let (inner, behind) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
            let closed = inner.trim_end().strip_suffix(closer);
            let spelled = body.starts_with(Thought::Reason.opener());
            if closed.is_some() || next.is_some() || spelled {
                self.out.note(
                    LossKind::PartChanged,
                    "the markers of reasoning become blocks of their own",
                );
            }
            let inner = closed.unwrap_or(inner);
            self.check_body(inner, false)?;
            blocks.push(format!("{}{inner}{closer}", thought.opener()));
            let Some(following) = opener(behind) else {
                return Ok(blocks);
            };
            thought = following;
            rest = behind.strip_prefix(thought.opener()).unwrap_or_default();
        }
    }

    fn call(&mut self, frame: &FrameBuf) -> Option<String> {
        let recipient = frame.to.as_deref().unwrap_or_default();
        if self.options.plain {
            self.out.note(LossKind::CallDropped, "the call is dropped");
            return None;
        }
        let arguments = frame.body.trim();
        if arguments.len() < frame.body.len() {
            self.out.note(
                LossKind::SpellingChanged,
                "white space around the arguments dropped",
            );
        }
        let arguments = self.respelled(arguments);
        self.note_name(recipient);
        let name = json_string(tool_of(recipient));
        let json = format!("{{\"name\": {name}, \"arguments\": {arguments}}}");
        if !is_value(Function::Call, json.as_bytes()) {
            self.out.note(
                LossKind::CallDropped,
                "the call is dropped: its arguments are not a JSON object",
            );
            return None;
        }
        Some(format!("{}\n{json}", Marker::FunctionCall.as_str()))
    }

    /// JSON without tokens in its strings.
    fn respelled(&mut self, json: &str) -> String {
        if Marker::find(json, false).is_none() {
            return json.to_owned();
        }
        self.out.note(
            LossKind::SpellingChanged,
            "`<` before a bar is spelled `\\u003c`",
        );
        json.replace("<|", "\\u003c|")
    }

    fn check_body(&self, body: &str, system: bool) -> Result<(), ConvertError> {
        let mut from = 0;
        while let Some((at, mark)) =
            Marker::find(body.get(from..).unwrap_or_default(), self.options.plain)
        {
            let allowed = matches!(
                mark,
                Marker::Flag(_)
                    | Marker::FunctionList
                    | Marker::FunctionCall
                    | Marker::FunctionOutput
            );
            if !system || !allowed {
                return Err(ConvertError::Body {
                    index: self.out.index,
                    token: mark.as_str(),
                });
            }
            from += at + mark.as_str().len();
        }
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<(), ConvertError> {
        if is_safe(name) {
            return Ok(());
        }
        Err(ConvertError::Frame {
            index: self.out.index,
            reason: WriteError::UnsafeValue {
                field: "name".to_owned(),
                value: name.to_owned(),
            },
        })
    }

    /// A tool's name is written without its namespace.
    fn note_name(&mut self, recipient: &str) {
        if recipient_of(tool_of(recipient)) != recipient {
            self.out.note(
                LossKind::ToolRenamed,
                "the tool is written as a function of that name",
            );
        }
    }

    fn note_losses(&mut self, frame: &FrameBuf) {
        let call = frame.is_call();
        let tool = frame.role == FrameRole::Tool;
        let home = if call || tool {
            Channel::Commentary
        } else {
            Channel::Final
        };
        let thought =
            frame.role == FrameRole::Assistant && !frame.visibility().is_visible() && !call;
        let channel = frame.effective_channel();
        let kept_type = call && frame.constrain.as_deref() == Some("json");
        let lost = [
            (
                "channel",
                LossKind::ChannelChanged,
                channel != home && !thought && frame.intent.is_none(),
            ),
            (
                "to",
                LossKind::RecipientDropped,
                frame.to.is_some() && !call && !(tool && frame.to.as_deref() == Some("assistant")),
            ),
            ("call_id", LossKind::IdDropped, frame.call_id.is_some()),
            ("intent", LossKind::IntentDropped, frame.intent.is_some()),
            (
                "content_type",
                LossKind::TypeChanged,
                frame.content_type.is_some(),
            ),
            (
                "constrain",
                LossKind::TypeChanged,
                frame.constrain.is_some() && !kept_type,
            ),
            (
                "unknown attributes",
                LossKind::AttributeDropped,
                !frame.attributes.is_empty(),
            ),
            (
                "`<|return|>`",
                LossKind::TerminatorChanged,
                frame.terminator == Terminator::Return,
            ),
        ];
        for (what, kind, _) in lost.into_iter().filter(|(_, _, lost)| *lost) {
            self.out.note(kind, &format!("{what} dropped"));
        }
        if frame.terminator == Terminator::None {
            self.out.note(
                LossKind::CutCompleted,
                "the frame was cut; it is written as if it were whole",
            );
        }
    }
}

/// The output of a tool.
fn output(tool: &str, body: &str) -> String {
    let name = json_string(tool_of(tool));
    let raw = serde_json::from_str::<&RawValue>(body);
    // A string is the body's own spelling of a string, so it is spelled as one again.
    let verbatim = raw.is_ok_and(|raw| raw.get() == body)
        && !body.starts_with('"')
        && Marker::find(body, false).is_none();
    let content = if verbatim {
        body.to_owned()
    } else {
        json_string(body)
    };
    let token = Marker::FunctionOutput.as_str();
    format!("{token}\n{{\"name\": {name}, \"content\": {content}}}")
}

/// A JSON string that holds no token.
fn json_string(text: &str) -> String {
    Value::from(text).to_string().replace("<|", "\\u003c|")
}
