//! ChatMD: whoever controls a payload, an id or a path controls nothing around it.

use chatmd::write::{self, Payload};
use chatmd::{ContentItem, Document, Element, Tag, parse};
use logue_message::CallKind;

use crate::input::Input;

/// An element of any values reads back as itself, alone between others and behind any sound text,
/// which it leaves as it was.
///
/// The first byte says which element, the second which values it has. Each value is a line; the
/// rest is the payload, or lines that are summaries.
pub fn chatmd_write(data: &[u8]) {
    let values = Values::of(data);
    let written = values.write();
    let around = write::append(&write::user("before"), &written);
    let text = write::append(&around, &write::system("behind"));
    let elements = read(&text);
    let [before, element, behind] = elements.as_slice() else {
        panic!("{} elements in {text:?}", elements.len());
    };
    assert_says(before, "before");
    values.assert_is(element);
    assert_says(behind, "behind");

    let sound = &*values.payload;
    let tree = parse(sound);
    if tree.has_errors() {
        return;
    }
    let was = Document::from_tree(&tree).0.elements;
    let is = read(&write::append(sound, &written));
    assert_eq!(is.get(..was.len()), Some(was.as_slice()), "{sound:?}");
    assert_eq!(is.len(), was.len() + 1, "{sound:?}");
    values.assert_is(&is[was.len()]);
}

fn read(text: &str) -> Vec<Element> {
    let tree = parse(text);
    assert!(!tree.has_errors(), "{text:?}: {:?}", tree.diagnostics());
    Document::from_tree(&tree).0.elements
}

fn assert_says(element: &Element, text: &str) {
    let Element::Message(message) = element else {
        panic!("{element:?}");
    };
    assert_inline(&message.content, text);
}

/// One text that is a payload.
fn assert_inline(content: &[ContentItem], payload: &str) {
    let [ContentItem::Text(text)] = content else {
        panic!("{content:?} for {payload:?}");
    };
    assert_eq!(text.text, payload);
    assert_eq!(text.payload.as_deref(), Some(payload));
}

/// What an element is written with.
struct Values {
    tag: Tag,
    id: Option<String>,
    call: String,
    name: String,
    custom: bool,
    external: Option<String>,
    temperature: f64,
    payload: String,
}

impl Values {
    fn of(data: &[u8]) -> Self {
        const TAGS: [Tag; 8] = [
            Tag::User,
            Tag::System,
            Tag::Developer,
            Tag::Assistant,
            Tag::Reasoning,
            Tag::ToolCall,
            Tag::ToolResponse,
            Tag::Config,
        ];
        let mut input = Input::new(data);
        let tag = TAGS[usize::from(input.byte()) % TAGS.len()];
        let which = input.byte();
        let mut line = |bit: u8| {
            let wanted = which & (1 << bit) != 0;
            wanted.then(|| String::from_utf8_lossy(input.line()).into_owned())
        };
        let (id, call, name) = (line(0), line(1), line(2));
        let (external, temperature) = (line(3), line(4));
        let temperature = temperature.unwrap_or_default();
        Self {
            tag,
            id,
            call: call.unwrap_or_default(),
            name: name.unwrap_or_default(),
            custom: which & (1 << 5) != 0,
            external,
            temperature: temperature.parse().map_or(f64::NAN, f64::abs),
            payload: String::from_utf8_lossy(input.rest()).into_owned(),
        }
    }

    fn payload(&self) -> Payload<'_> {
        match &self.external {
            Some(path) => Payload::External(path),
            None => Payload::Inline(&self.payload),
        }
    }

    fn summaries(&self) -> Vec<&str> {
        self.payload.split('\n').collect()
    }

    fn write(&self) -> String {
        let id = self.id.as_deref();
        match self.tag {
            Tag::User => write::user(&self.payload),
            Tag::System => write::system(&self.payload),
            Tag::Developer => write::developer(&self.payload),
            Tag::Assistant => write::assistant(&self.payload, id),
            Tag::Reasoning => write::reasoning(&self.call, &self.summaries()),
            Tag::ToolCall => write::tool_call(
                &write::ToolCallRecord::new(&self.call, &self.name, self.payload())
                    .with_id(id)
                    .with_custom(self.custom)
                    .with_signature(id),
            ),
            Tag::ToolResponse => write::tool_response(
                &write::ToolResponseRecord::new(&self.call, self.payload())
                    .with_id(id)
                    .with_custom(self.custom),
            ),
            _ => write::config(
                &write::ConfigRecord::default()
                    .with_model(self.name.as_str())
                    .with_max_tokens(self.max_tokens())
                    .with_temperature(self.temperature)
                    .with_reasoning_effort(id),
            ),
        }
    }

    fn assert_is(&self, element: &Element) {
        let kind = if self.custom {
            CallKind::Custom
        } else {
            CallKind::Function
        };
        match element {
            Element::Message(message) => {
                assert_eq!(message.tag, self.tag);
                let id = self.id.as_ref().filter(|_| self.tag == Tag::Assistant);
                assert_eq!(message.id.as_ref(), id);
                assert_inline(&message.content, &self.payload);
            }
            Element::Reasoning(reasoning) => {
                assert_eq!(self.tag, Tag::Reasoning);
                assert_eq!(reasoning.id.as_ref(), Some(&self.call));
                let summaries = reasoning.summaries.iter();
                let summaries: Vec<&str> = summaries.map(|one| one.text.as_str()).collect();
                assert_eq!(summaries, self.summaries());
            }
            Element::ToolCall(call) => {
                assert_eq!(self.tag, Tag::ToolCall);
                assert_eq!((&call.id, call.kind), (&self.id, kind));
                assert_eq!(call.tool_call_id, self.call);
                assert_eq!(call.function_name, self.name);
                self.assert_payload(&call.content);
            }
            Element::ToolResponse(response) => {
                assert_eq!(self.tag, Tag::ToolResponse);
                assert_eq!((&response.id, response.kind), (&self.id, kind));
                assert_eq!(response.tool_call_id.as_ref(), Some(&self.call));
                self.assert_payload(&response.content);
            }
            Element::Config(config) => {
                assert_eq!(self.tag, Tag::Config);
                assert_eq!(config.model.as_ref(), Some(&self.name));
                assert_eq!(config.max_tokens, Some(self.max_tokens()));
                let temperature = Some(self.temperature).filter(|value| value.is_finite());
                assert_eq!(config.temperature, temperature);
                assert_eq!(config.reasoning_effort, self.id);
            }
            other => panic!("{other:?}"),
        }
    }

    /// A limit of 0 is refused.
    fn max_tokens(&self) -> u64 {
        self.call.len() as u64 + 1
    }

    fn assert_payload(&self, content: &[ContentItem]) {
        let Some(path) = &self.external else {
            return assert_inline(content, &self.payload);
        };
        let [
            ContentItem::Text(before),
            ContentItem::Doc(doc),
            ContentItem::Text(behind),
        ] = content
        else {
            panic!("{content:?}");
        };
        assert!(before.text.trim().is_empty() && behind.text.trim().is_empty());
        assert_eq!((&doc.src, doc.local), (path, true));
        assert!(!doc.strip && !doc.markdown);
    }
}
