//! The place of declared tools: beside the messages of a row, or in the text of a message.
//!
//! | form | place |
//! |---|---|
//! | 2.2, §10 JSON | a developer's message: `namespace functions` if it holds all of the schemas, else JSON |
//! | 2.0 and its JSON | a developer's message, as JSON (2.0 §8.2) |
//! | Harmony | a developer's message, as `namespace functions` |
//! | 0.1 | a system message, each after `<|function_list|>` (0.1 §8.1) |
//! | rows of providers and data sets | `tools` |
//!
//! A section at the end of one of the first messages moves to `tools` and back. Sections that are not
//! understood stay text, so that no words are lost.

use std::borrow::Cow;

use serde_json::Value;

use super::error::ConvertError;
use crate::declare::read_back;
use crate::document::owned::{FrameBuf, Transcript};
use crate::harmony::{Conversation, DeveloperContent, FunctionTool, RenderMessage, ToolNamespace};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};

/// The beginning of a section of functions in a developer's message.
const HEADING: &str = "# Tools\n\n## functions\n";

/// The token before a function in a system message of 0.1.
const FUNCTION_LIST: &str = "<|function_list|>\n";

/// The place of declared tools in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Beside the messages.
    Row,
    /// A developer's message, as TypeScript if nothing is lost, else as JSON.
    Developer,
    /// A developer's message, as JSON.
    DeveloperJson,
    /// A developer's message, as TypeScript.
    Namespace,
    /// A system message.
    FunctionList,
    /// None.
    Nowhere,
}

/// The layout of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Namespace,
    Json,
    FunctionList,
}

/// A transcript whose declared tools are at the place of a form.
///
/// Indices of frames count after the placement until [`PlacedTools::finish`].
#[derive(Debug)]
pub struct PlacedTools<'t> {
    transcript: Cow<'t, Transcript>,
    losses: Vec<Loss>,
    /// The removed frame, by its index before.
    removed: Option<usize>,
    /// The added frame, by its index after.
    added: Option<usize>,
}

impl<'t> PlacedTools<'t> {
    /// Moves the tools that the first messages declare beside the messages. Linear in the transcript.
    ///
    /// ```
    /// use openchatml::convert::PlacedTools;
    /// use openchatml::{FrameBuf, Transcript};
    ///
    /// let body = "# Tools\n\n## functions\n\nnamespace functions {\n\ntype f = () => any;\n\n} // namespace functions";
    /// let transcript = Transcript::new(vec![FrameBuf::developer(body), FrameBuf::user("Hi")]);
    /// let placed = PlacedTools::beside(&transcript);
    /// assert_eq!(placed.transcript().frames, [FrameBuf::user("Hi")]);
    /// assert_eq!(placed.transcript().tools[0]["function"]["name"], "f");
    /// ```
    pub fn beside(transcript: &'t Transcript) -> Self {
        Self::new(transcript, Place::Row)
    }

    /// Moves declared tools into the text of a developer's message, as Harmony declares them. Linear in
    /// the transcript.
    ///
    /// ```
    /// use openchatml::convert::PlacedTools;
    /// use openchatml::{FrameBuf, Transcript};
    /// use serde_json::json;
    ///
    /// let mut transcript = Transcript::new(vec![FrameBuf::user("Hi")]);
    /// transcript.tools = vec![json!({"type": "function", "function": {"name": "f"}})];
    /// let placed = PlacedTools::in_harmony(&transcript);
    /// assert!(placed.transcript().frames[0].body.contains("type f = () => any;"));
    /// ```
    pub fn in_harmony(transcript: &'t Transcript) -> Self {
        Self::new(transcript, Place::Namespace)
    }

    /// The transcript after the placement.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Moves the declared tools of a transcript to the place of a form.
    ///
    /// Linear in the transcript.
    pub(crate) fn new(transcript: &'t Transcript, place: Place) -> Self {
        let mut placed = Self {
            transcript: Cow::Borrowed(transcript),
            losses: Vec::new(),
            removed: None,
            added: None,
        };
        let foreign: &[Layout] = match place {
            Place::Row => &[Layout::Namespace, Layout::Json, Layout::FunctionList],
            Place::Developer | Place::DeveloperJson => &[Layout::FunctionList],
            Place::Namespace => &[Layout::Json, Layout::FunctionList],
            Place::FunctionList | Place::Nowhere => &[],
        };
        placed.lift(foreign, place == Place::Row);
        if !placed.transcript.tools.is_empty() {
            placed.lower(place);
        }
        placed
    }

    /// Adds the losses of the placement to those of the writer.
    ///
    /// The writer's losses count frames after the placement.
    pub fn finish(self, losses: &mut Vec<Loss>) {
        for loss in losses.iter_mut() {
            loss.target = match loss.target {
                LossTarget::Frame(index) => self.original(index).map(LossTarget::Frame),
                LossTarget::Message(index) => self.original(index).map(LossTarget::Message),
                LossTarget::Transcript => None,
            }
            .unwrap_or(LossTarget::Transcript);
        }
        losses.splice(0..0, self.losses);
    }

    /// Returns an error with the place of its frame before the placement.
    pub(crate) fn restore(&self, error: ConvertError) -> ConvertError {
        let original = |index| self.original(index).unwrap_or(index);
        match error {
            ConvertError::Frame { index, reason } => ConvertError::Frame {
                index: original(index),
                reason,
            },
            ConvertError::Body { index, token } => ConvertError::Body {
                index: original(index),
                token,
            },
            other => other,
        }
    }

    /// The index of a frame before the placement; `None` for the added one.
    fn original(&self, index: usize) -> Option<usize> {
        let index = match self.added {
            Some(added) if added == index => return None,
            Some(added) if added < index => index - 1,
            _ => index,
        };
        let is_after = self.removed.is_some_and(|removed| removed <= index);
        Some(if is_after { index + 1 } else { index })
    }

    /// Moves a section of one of these layouts beside the messages.
    fn lift(&mut self, layouts: &[Layout], is_row: bool) {
        let transcript = &*self.transcript;
        if layouts.is_empty() || !transcript.tools.is_empty() {
            return;
        }
        let Some(section) = only_section(&transcript.frames, layouts) else {
            return;
        };
        let is_changed = section.is_changed();
        if is_changed {
            let text = "the declarations of the tools are laid out differently";
            self.note(LossKind::SpellingChanged, text);
        }
        let lifted = without(&self.transcript, &section);
        if lifted.frames.len() < self.transcript.frames.len() {
            self.removed = Some(section.index);
            let frame = self.transcript.frames.get(section.index);
            let bare = |frame: &FrameBuf| FrameBuf {
                channel: frame.channel,
                terminator: frame.terminator,
                ..FrameBuf::new(frame.role, frame.body.as_str())
            };
            if frame.is_some_and(|frame| bare(frame) != *frame) {
                let text = "the attributes of the message with the declarations dropped";
                self.note(LossKind::AttributeDropped, text);
            }
        }
        if is_row && !is_changed {
            let again = lowered(&lifted, section.layout, &section.text);
            if again.0.frames != self.transcript.frames {
                let text = "the declarations of the tools are read back into another message";
                self.note(LossKind::Regrouped, text);
            }
        }
        self.transcript = Cow::Owned(lifted);
    }

    /// Writes the tools as a section.
    fn lower(&mut self, place: Place) {
        let layout = match place {
            Place::Row => return,
            Place::Nowhere => {
                let text = "the declarations of the tools dropped";
                self.note(LossKind::DeclarationDropped, text);
                self.transcript.to_mut().tools.clear();
                return;
            }
            Place::Developer => match self.namespace() {
                Some(text) => return self.insert(Layout::Namespace, &text, true),
                None => Layout::Json,
            },
            Place::DeveloperJson => Layout::Json,
            Place::Namespace => Layout::Namespace,
            Place::FunctionList => Layout::FunctionList,
        };
        if layout != Layout::Json {
            self.keep_functions(layout);
        }
        if self.transcript.tools.is_empty() {
            return;
        }
        let text = section_text(&self.transcript.tools, layout);
        self.insert(layout, &text, false);
    }

    /// Inserts the section of the tools; `is_exact` if it reads back as they are.
    fn insert(&mut self, layout: Layout, text: &str, is_exact: bool) {
        let (lowered, added) = lowered(&self.transcript, layout, text);
        self.added = added;
        // Such a section is not parsed again.
        let is_found = is_exact && is_only_section(&lowered.frames, layout, text);
        if !is_found {
            self.note_changes(&lowered, layout);
        }
        self.transcript = Cow::Owned(lowered);
    }

    /// The section in TypeScript, if it holds everything that the tools declare.
    fn namespace(&self) -> Option<String> {
        let tools = &self.transcript.tools;
        if !tools.iter().all(is_function) {
            return None;
        }
        let text = section_text(tools, Layout::Namespace);
        let is_exact = read_section(&text, Layout::Namespace).as_ref() == Some(tools);
        is_exact.then_some(text)
    }

    /// Leaves out the tools that a layout of functions cannot name.
    fn keep_functions(&mut self, layout: Layout) {
        let tools = &self.transcript.tools;
        let kept: Vec<Value> = tools
            .iter()
            .filter(|tool| is_function(tool))
            .cloned()
            .collect();
        if kept.len() == tools.len() {
            return;
        }
        for (index, tool) in self.transcript.tools.clone().iter().enumerate() {
            if !is_function(tool) {
                let number = index + 1;
                let what = match layout {
                    Layout::FunctionList => "a function list",
                    Layout::Namespace | Layout::Json => "a namespace of functions",
                };
                let text =
                    format!("the declaration of tool {number} dropped: {what} cannot name it");
                self.note(LossKind::DeclarationDropped, text);
            }
        }
        self.transcript.to_mut().tools = kept;
    }

    /// Notes the tools that reading the section gives in another form.
    fn note_changes(&mut self, lowered: &Transcript, layout: Layout) {
        let read = only_section(&lowered.frames, &[layout]);
        let Some(section) = read else {
            let text = "the declarations of the tools are read back as text of their message";
            return self.note(LossKind::DeclarationChanged, text);
        };
        let frames = self.transcript.frames.iter().map(Cow::Borrowed);
        if !frames_without(&lowered.frames, &section).eq(frames) {
            let text = "a message is read back without the declarations at its end";
            self.note(LossKind::Regrouped, text);
        }
        let pairs = section.tools.iter().zip(&self.transcript.tools).enumerate();
        let changed = pairs.filter(|(_, (read, tool))| read != tool);
        let changed: Vec<usize> = changed.map(|(index, _)| index + 1).collect();
        for number in changed {
            let text = format!("the declaration of tool {number} keeps what TypeScript can state");
            self.note(LossKind::DeclarationChanged, text);
        }
    }

    fn note(&mut self, kind: LossKind, text: impl Into<String>) {
        let target = LossTarget::Transcript;
        self.losses.push(Loss::new(target, kind, text));
    }
}

/// A section of declared tools at the end of a frame.
struct Section {
    index: usize,
    layout: Layout,
    tools: Vec<Value>,
    /// The body before it.
    before: String,
    text: String,
}

impl Section {
    /// Returns whether writing the tools gives other text.
    fn is_changed(&self) -> bool {
        section_text(&self.tools, self.layout) != self.text
    }
}

/// The section of the first messages, if there is exactly one.
fn only_section(frames: &[FrameBuf], layouts: &[Layout]) -> Option<Section> {
    let leading = frames
        .iter()
        .enumerate()
        .take_while(|(_, it)| is_leading(it));
    let mut found = None;
    for (index, frame) in leading {
        let section = layouts
            .iter()
            .find_map(|layout| section(index, frame, *layout));
        if let Some(section) = section {
            if found.is_some() {
                return None;
            }
            found = Some(section);
        }
    }
    found
}

/// Returns whether reading finds this section, and no other, where it was written.
///
/// A conservative test: in doubt the section is not found.
fn is_only_section(frames: &[FrameBuf], layout: Layout, text: &str) -> bool {
    let (role, heading) = parts_of(layout);
    let leading = frames.iter().take_while(|frame| is_leading(frame));
    let with_heading = leading.filter(|frame| frame.body.contains(heading));
    let mut bodies = with_heading.map(|frame| (frame, frame.body.as_str()));
    let (Some((frame, body)), None) = (bodies.next(), bodies.next()) else {
        return false;
    };
    let Some(before) = body.strip_suffix(text) else {
        return false;
    };
    is_plain(frame, role)
        && body.matches(heading).count() == 1
        && (before.is_empty()
            || before
                .strip_suffix(separator(layout))
                .is_some_and(|before| !before.is_empty()))
}

/// Returns whether a frame may come before the first turn.
///
/// Frames that 2.x cannot write count as absent, so that reading what was written gives the same.
fn is_leading(frame: &FrameBuf) -> bool {
    let is_absent = frame.role == FrameRole::Other
        || frame.channel == Some(Channel::Unknown)
        || frame.terminator == Terminator::None;
    is_absent || matches!(frame.role, FrameRole::System | FrameRole::Developer)
}

/// Returns whether a frame has only its role, and perhaps a name.
fn is_plain(frame: &FrameBuf, role: FrameRole) -> bool {
    let is_final = frame.effective_channel() == Channel::Final;
    frame.role == role && is_final && frame.to.is_none() && frame.terminator != Terminator::None
}

fn section(index: usize, frame: &FrameBuf, layout: Layout) -> Option<Section> {
    let (role, heading) = parts_of(layout);
    if !is_plain(frame, role) {
        return None;
    }
    let body = frame.body.as_str();
    let separator = separator(layout);
    let (before, text) = match layout {
        Layout::FunctionList => {
            let at = memchr::memmem::find_iter(body.as_bytes(), heading)
                .find(|at| *at == 0 || body.get(..*at).is_some_and(|it| it.ends_with('\n')))?;
            body.split_at_checked(at)?
        }
        Layout::Namespace | Layout::Json => {
            let at = body.rfind(heading)?;
            body.split_at_checked(at)?
        }
    };
    let before = match before {
        "" => "",
        before => before.strip_suffix(separator)?,
    };
    let tools = read_section(text, layout)?;
    Some(Section {
        index,
        layout,
        tools,
        before: before.to_owned(),
        text: text.to_owned(),
    })
}

const fn parts_of(layout: Layout) -> (FrameRole, &'static str) {
    match layout {
        Layout::Namespace | Layout::Json => (FrameRole::Developer, HEADING),
        Layout::FunctionList => (FrameRole::System, FUNCTION_LIST),
    }
}

/// The text between a body and its section.
const fn separator(layout: Layout) -> &'static str {
    match layout {
        Layout::Namespace | Layout::Json => "\n\n",
        Layout::FunctionList => "\n",
    }
}

/// Parses a section, which must be the whole text.
fn read_section(text: &str, layout: Layout) -> Option<Vec<Value>> {
    let tools = match layout {
        Layout::Namespace => read_back::functions(text.strip_prefix(HEADING)?.trim())?,
        Layout::Json => serde_json::from_str(text.strip_prefix(HEADING)?.trim()).ok()?,
        Layout::FunctionList => {
            let mut items = text.split(FUNCTION_LIST);
            if items.next() != Some("") {
                return None;
            }
            let items = items.map(|item| serde_json::from_str(item.trim()).ok());
            items.collect::<Option<Vec<Value>>>()?
        }
    };
    let is_declared = match layout {
        Layout::Json => |tool: &Value| tool.get("type").is_some_and(Value::is_string),
        Layout::Namespace | Layout::FunctionList => is_function,
    };
    (!tools.is_empty() && tools.iter().all(is_declared)).then_some(tools)
}

/// Writes a section.
fn section_text(tools: &[Value], layout: Layout) -> String {
    // A token in JSON has an escape; in TypeScript the writer escapes or refuses it.
    let spelled = |tool: &Value| tool.to_string().replace("<|", "\\u003c|");
    match layout {
        Layout::Namespace => {
            let functions = tools.iter().filter_map(function);
            let content =
                DeveloperContent::default().with_tools(ToolNamespace::functions(functions));
            let message = RenderMessage::developer(content);
            let (transcript, _) = Conversation::new(vec![message]).to_transcript();
            let mut frames = transcript.frames.into_iter();
            frames.next().map(|frame| frame.body).unwrap_or_default()
        }
        Layout::Json => {
            let tools: Vec<String> = tools.iter().map(spelled).collect();
            format!("{HEADING}\n[\n{}\n]", tools.join(",\n"))
        }
        Layout::FunctionList => {
            let tools = tools.iter().map(spelled);
            let tools: Vec<String> = tools.map(|tool| format!("{FUNCTION_LIST}{tool}")).collect();
            tools.join("\n")
        }
    }
}

/// The function that a tool declares, as Harmony writes it.
fn function(tool: &Value) -> Option<FunctionTool> {
    let function = tool.get("function")?;
    let text = |key: &str| function.get(key).and_then(Value::as_str);
    let parameters = function
        .get("parameters")
        .filter(|schema| schema.is_object());
    let takes_none = |schema: &&Value| {
        let properties = schema.get("properties").and_then(Value::as_object);
        let object = schema.as_object();
        properties.is_some_and(serde_json::Map::is_empty) && object.is_some_and(|it| it.len() <= 2)
    };
    let parameters = parameters.filter(|schema| !takes_none(schema)).cloned();
    let description = text("description").unwrap_or_default();
    Some(FunctionTool::new(text("name")?, description, parameters))
}

/// Returns whether a tool is a function whose name is one word.
fn is_function(tool: &Value) -> bool {
    let name = tool
        .get("function")
        .and_then(|function| function.get("name")?.as_str());
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_type = tool.get("type").is_none_or(|kind| kind == "function");
    is_type && name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_part))
}

/// The transcript with a section beside its messages.
fn without(transcript: &Transcript, section: &Section) -> Transcript {
    let frames = frames_without(&transcript.frames, section);
    Transcript {
        header: transcript.header.clone(),
        frames: frames.map(Cow::into_owned).collect(),
        tools: section.tools.clone(),
    }
}

/// The frames without the section at the end of one.
fn frames_without<'t>(
    frames: &'t [FrameBuf],
    section: &'t Section,
) -> impl Iterator<Item = Cow<'t, FrameBuf>> {
    frames.iter().enumerate().filter_map(|(index, frame)| {
        if index != section.index {
            return Some(Cow::Borrowed(frame));
        }
        let mut frame = frame.clone();
        frame.body.clone_from(&section.before);
        (!frame.body.is_empty()).then_some(Cow::Owned(frame))
    })
}

/// The transcript with its tools in a message, as the text of their section.
///
/// Returns the index of the message as well, if it was added.
fn lowered(transcript: &Transcript, layout: Layout, text: &str) -> (Transcript, Option<usize>) {
    let mut lowered = Transcript {
        tools: Vec::new(),
        header: transcript.header.clone(),
        frames: transcript.frames.clone(),
    };
    let (role, _) = parts_of(layout);
    let leading = lowered.frames.iter().take_while(|frame| is_leading(frame));
    let end = leading.count();
    let frames = lowered.frames.get_mut(..end).unwrap_or_default();
    let last = frames.iter_mut().rev().find(|frame| is_plain(frame, role));
    if let Some(frame) = last.filter(|frame| !frame.body.is_empty()) {
        frame.body = format!("{}{}{text}", frame.body, separator(layout));
        return (lowered, None);
    }
    // The system comes first.
    let at = if role == FrameRole::System { 0 } else { end };
    lowered.frames.insert(at, FrameBuf::new(role, text));
    (lowered, Some(at))
}
