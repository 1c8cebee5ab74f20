//! Frames and headers that own their text: what programs build and the writer takes.

use logue_source::Span;
use serde_json::{Map, Value};

use crate::document::frame::{Frame, Part};
use crate::read::attributes::{INTERRUPTED, STATUS};
use crate::syntax::vocabulary::{Channel, FrameRole, Intent, Terminator};
use crate::visibility::{Recipient, Visibility, visibility};

/// The values of a document header (OpenChatML 2.2 §2).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeaderBuf {
    /// The version, major and minor with a dot between.
    pub version: String,
    /// The model's name.
    pub model: Option<String>,
    /// Settings for the whole transcript; not written when empty.
    pub generation_settings: Map<String, Value>,
    /// Every other key, in order.
    pub extra: Map<String, Value>,
}

impl HeaderBuf {
    /// A header that names its version only.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            model: None,
            generation_settings: Map::new(),
            extra: Map::new(),
        }
    }

    /// Sets the model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Adds a generation setting.
    #[must_use]
    pub fn with_setting(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.generation_settings.insert(key.into(), value.into());
        self
    }

    /// Adds another key.
    #[must_use]
    pub fn with_extra(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(key.into(), value.into());
        self
    }
}

impl Default for HeaderBuf {
    /// A header of version 2.2.
    fn default() -> Self {
        Self::new("2.2")
    }
}

/// A frame that owns its text (OpenChatML 2.2 §6).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameBuf {
    /// The speaker.
    pub role: FrameRole,
    /// The recipient.
    pub to: Option<String>,
    /// The channel; `None` where the frame names none, which means `final`.
    pub channel: Option<Channel>,
    /// The id of a call or of the call that the frame answers.
    pub call_id: Option<String>,
    /// The tool's name on a reply, else a participant's.
    pub name: Option<String>,
    /// The intent's word.
    pub intent: Option<String>,
    /// The content type.
    pub content_type: Option<String>,
    /// The type that the body must have.
    pub constrain: Option<String>,
    /// Unknown parts of the header, in order: words, with a value if there is an `=`. A
    /// word without one breaks a header, so the writer refuses it.
    pub attributes: Vec<(String, Option<String>)>,
    /// The body, without escapes.
    pub body: String,
    /// The terminator.
    pub terminator: Terminator,
}

impl FrameBuf {
    /// The header and terminator of a read frame. `text` returns the text of a place.
    pub(crate) fn head_of(frame: &Frame, text: impl Fn(Span) -> String) -> Self {
        let part = |part: Part| frame.part(part).map(&text);
        let known = frame.channel() == Channel::Final && !frame.has_channel();
        let pairs = frame.attributes().iter();
        let pairs = pairs.map(|pair| (text(pair.key), pair.value.map(&text)));
        Self {
            role: frame.role(),
            to: part(Part::To),
            channel: (!known).then(|| frame.channel()),
            call_id: part(Part::CallId),
            name: part(Part::Name),
            intent: part(Part::Intent),
            content_type: part(Part::ContentType),
            constrain: part(Part::Constrain),
            attributes: pairs.collect(),
            body: String::new(),
            terminator: frame.terminator(),
        }
    }

    /// Returns whether the frame is the beginning of an answer that was interrupted.
    pub fn is_interrupted(&self) -> bool {
        let mut attributes = self.attributes.iter();
        attributes.any(|(key, value)| key == STATUS && value.as_deref() == Some(INTERRUPTED))
    }

    /// A frame without attributes that ends in `<|end|>`.
    pub fn new(role: FrameRole, body: impl Into<String>) -> Self {
        Self {
            role,
            to: None,
            channel: None,
            call_id: None,
            name: None,
            intent: None,
            content_type: None,
            constrain: None,
            attributes: Vec::new(),
            body: body.into(),
            terminator: Terminator::End,
        }
    }

    /// A system frame.
    pub fn system(body: impl Into<String>) -> Self {
        Self::new(FrameRole::System, body)
    }

    /// A developer frame.
    pub fn developer(body: impl Into<String>) -> Self {
        Self::new(FrameRole::Developer, body)
    }

    /// A user frame.
    pub fn user(body: impl Into<String>) -> Self {
        Self::new(FrameRole::User, body)
    }

    /// Private reasoning of the assistant.
    pub fn analysis(body: impl Into<String>) -> Self {
        Self::new(FrameRole::Assistant, body).with_channel(Channel::Analysis)
    }

    /// Words of the assistant for the user, before it calls tools.
    pub fn preamble(body: impl Into<String>) -> Self {
        Self::new(FrameRole::Assistant, body)
            .with_channel(Channel::Commentary)
            .with_intent("preamble")
    }

    /// The assistant's answer, as in a history. The last one of a turn ends in
    /// `<|return|>`: [`Self::with_terminator`].
    pub fn answer(body: impl Into<String>) -> Self {
        Self::new(FrameRole::Assistant, body).with_channel(Channel::Final)
    }

    /// A call of the tool `to` (such as `functions.search`) with JSON arguments.
    pub fn call(
        to: impl Into<String>,
        call_id: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            to: Some(to.into()),
            call_id: Some(call_id.into()),
            constrain: Some("json".to_owned()),
            terminator: Terminator::Call,
            ..Self::new(FrameRole::Assistant, arguments).with_channel(Channel::Commentary)
        }
    }

    /// The reply of the tool `name` to the call `call_id`.
    pub fn reply(
        name: impl Into<String>,
        call_id: impl Into<String>,
        body: impl Into<String>,
    ) -> Self {
        Self {
            name: Some(name.into()),
            call_id: Some(call_id.into()),
            to: Some("assistant".to_owned()),
            ..Self::new(FrameRole::Tool, body).with_channel(Channel::Commentary)
        }
    }

    /// Sets the channel.
    #[must_use]
    pub const fn with_channel(mut self, channel: Channel) -> Self {
        self.channel = Some(channel);
        self
    }

    /// Sets the recipient.
    #[must_use]
    pub fn with_to(mut self, to: impl Into<String>) -> Self {
        self.to = Some(to.into());
        self
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn with_call_id(mut self, call_id: impl Into<String>) -> Self {
        self.call_id = Some(call_id.into());
        self
    }

    /// Sets the name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the intent.
    #[must_use]
    pub fn with_intent(mut self, intent: impl Into<String>) -> Self {
        self.intent = Some(intent.into());
        self
    }

    /// Sets the content type.
    #[must_use]
    pub fn with_content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Sets the required type of the body.
    #[must_use]
    pub fn with_constrain(mut self, constrain: impl Into<String>) -> Self {
        self.constrain = Some(constrain.into());
        self
    }

    /// Sets the terminator.
    #[must_use]
    pub const fn with_terminator(mut self, terminator: Terminator) -> Self {
        self.terminator = terminator;
        self
    }

    /// The effective channel: `final` if none is named (OpenChatML 2.2 §5 rule 2).
    pub const fn effective_channel(&self) -> Channel {
        match self.channel {
            Some(channel) => channel,
            None => Channel::Final,
        }
    }

    /// Returns whether this is an assistant's call of a tool that is to be run.
    pub const fn is_call(&self) -> bool {
        matches!(self.role, FrameRole::Assistant)
            && self.to.is_some()
            && matches!(self.terminator, Terminator::Call)
    }

    /// Returns the visibility of the frame to a person.
    ///
    /// The rule is that of a read frame.
    pub fn visibility(&self) -> Visibility {
        let intent = self.intent.as_deref();
        let to = self.to.as_deref();
        visibility(
            self.role,
            self.effective_channel(),
            intent.map(|word| Intent::parse(word.as_bytes())),
            to.map_or(Recipient::Nobody, |to| Recipient::of(to.as_bytes())),
        )
    }
}

/// A conversation that owns its text: what every dialect is read into and written from.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Transcript {
    /// The values of the document header, where there is one.
    pub header: Option<HeaderBuf>,
    /// The frames in order, stray text included.
    pub frames: Vec<FrameBuf>,
    /// The tools that a row declares beside its messages, each as in Chat Completions.
    ///
    /// Dialects declare tools in messages; conversions move them.
    pub tools: Vec<Value>,
}

impl Transcript {
    /// A transcript without a header.
    pub const fn new(frames: Vec<FrameBuf>) -> Self {
        Self {
            header: None,
            frames,
            tools: Vec::new(),
        }
    }

    /// Sets the declared tools.
    #[must_use]
    pub fn with_tools(mut self, tools: Vec<Value>) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the header.
    #[must_use]
    pub fn with_header(mut self, header: HeaderBuf) -> Self {
        self.header = Some(header);
        self
    }
}
