//! Rows to rendered text with spans.

use super::clock::TemplateDate;
use super::engine::{self, MARKS};
use super::failure::Failure;
use super::generation;
use super::input::Input;
use super::marks::{Marks, Place, Stripped, ValueClass, ValueSort};
use super::node::Node;
use super::regions::{self, NoRegion, Region};
use super::spans::spans;
use crate::Refusal;
use crate::mask::Rendered;
use logue_source::{DiagnosticCode, Span};
use minijinja::{Environment, Value};
use std::collections::BTreeSet;

/// Stop tokens of the model families whose templates spell them.
const KNOWN_STOPS: [&str; 14] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|return|>",
    "<|call|>",
    "<|end|>",
    "<|eot|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_turn>",
    "<turn|>",
    "<end_of_utterance>",
    "<|endoftext|>",
    "</s>",
];

/// Tokens with which a template may begin reasoning for the model.
const OPENERS: [&str; 4] = ["<think>", "[THINK]", "<|channel>", "<|START_THINKING|>"];

/// Options of a [`ChatTemplate`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TemplateOptions {
    /// The day that the template prints. The day of the run is never used.
    pub date: Option<TemplateDate>,
    /// The names of stop tokens. None: those of known models that the template contains, and
    /// the variable `eos_token`.
    pub stops: Vec<String>,
    /// Whether rows pass of which the template drops an answer or a call.
    pub allow_dropped: bool,
    variables: Vec<(String, Node)>,
}

impl TemplateOptions {
    /// Sets a variable of the template, such as `bos_token` or `enable_thinking`, from JSON.
    ///
    /// # Errors
    /// Returns `E-DATA-TEMPLATE` if the value is not JSON.
    pub fn set(&mut self, name: &str, json: &str) -> Result<(), Refusal> {
        let value = Node::parse(json).map_err(|error| {
            let message = format!("the value of the variable `{name}` is invalid: {error}");
            Refusal::new(DiagnosticCode::DataTemplate, message, Span::new(0, 0))
        })?;
        self.put(name, value);
        Ok(())
    }

    /// Sets the special tokens of a file `tokenizer_config.json`, as `transformers` passes them.
    ///
    /// # Errors
    /// Returns `E-DATA-TEMPLATE` if the file is not JSON.
    pub fn set_special_tokens(&mut self, config: &str) -> Result<(), Refusal> {
        const NAMES: [&str; 7] = [
            "bos_token",
            "eos_token",
            "unk_token",
            "sep_token",
            "pad_token",
            "cls_token",
            "mask_token",
        ];
        let config = Node::parse(config).map_err(|error| {
            let message = format!("the configuration of the tokenizer is invalid: {error}");
            Refusal::new(DiagnosticCode::DataTemplate, message, Span::new(0, 0))
        })?;
        for name in NAMES {
            let token = config.get(name);
            let token = token.and_then(|token| token.get("content").or(Some(token)));
            if let Some(token @ Node::Text(_)) = token {
                self.put(name, token.clone());
            }
        }
        Ok(())
    }

    fn put(&mut self, name: &str, value: Node) {
        self.variables.retain(|variable| variable.0 != name);
        self.variables.push((name.to_owned(), value));
    }

    fn text(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|variable| variable.0 == name);
        found.and_then(|variable| variable.1.as_text())
    }
}

/// A chat template of Jinja, rendered as the package `transformers` does.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    options: TemplateOptions,
    stops: Vec<String>,
    has_generation: bool,
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// Returns `E-DATA-TEMPLATE` if the template is invalid.
    pub fn new(source: &str, options: TemplateOptions) -> Result<Self, Refusal> {
        // Jinja reads every line end as a line feed.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let (rewritten, has_generation) = generation::rewritten(&source);
        let environment = engine::environment(rewritten, options.date).map_err(|error| {
            let message = format!("the chat template is invalid: {error}");
            Refusal::new(DiagnosticCode::DataTemplate, message, Span::new(0, 0))
        })?;
        let mut stops = options.stops.clone();
        if stops.is_empty() {
            let known = KNOWN_STOPS.iter().filter(|name| source.contains(**name));
            stops.extend(known.map(|name| (*name).to_owned()));
            let end = options.text("eos_token").filter(|name| !name.is_empty());
            if let Some(end) = end.filter(|end| stops.iter().all(|stop| stop != end)) {
                stops.push(end.to_owned());
            }
        }
        Ok(Self {
            environment,
            options,
            stops,
            has_generation,
        })
    }

    /// Renders the conversation of a row.
    ///
    /// The row has `messages`, and may have `tools` and `chat_template_kwargs`. Spans are not
    /// marked as trained.
    ///
    /// # Errors
    /// Returns
    /// - `E-JSON-SYNTAX` or `E-JSON-SHAPE` if the row is not such an object,
    /// - `E-DATA-TEMPLATE` if the template refuses the conversation,
    /// - `E-DATA-TEMPLATE-DATE` if it prints the day and the options have none,
    /// - `E-DATA-TEMPLATE-SPANS` if the spans of the assistant cannot be known,
    /// - `E-DATA-STOP-UNTRAINED` if no stop token follows an answer,
    /// - `E-DATA-TEMPLATE-DROPPED` if an answer or a call is not in the rendered text,
    /// - `E-DATA-BEGIN-TWICE` if the text begins with its first token twice.
    pub fn render(&self, row: &[u8]) -> Result<Rendered, Refusal> {
        let with_reasoning = self.render_first(row, usize::MAX, false)?;
        Ok(with_reasoning.rendered)
    }

    /// Renders the first `count` messages of a row.
    ///
    /// With `has_objects`, arguments that are the text of an object are passed as the object.
    pub(crate) fn render_first(
        &self,
        row: &[u8],
        count: usize,
        has_objects: bool,
    ) -> Result<TemplateRendering, Refusal> {
        let whole = Span::new(0, row.len());
        self.rendered(row, count, has_objects)
            .map_err(|failure| failure.refusal(whole))
    }

    /// Returns whether rows pass of which the template leaves out a part.
    pub(crate) const fn allows_dropped(&self) -> bool {
        self.options.allow_dropped
    }

    fn rendered(
        &self,
        row: &[u8],
        count: usize,
        has_objects: bool,
    ) -> Result<TemplateRendering, Failure> {
        let mut input = Input::read(row)?;
        input.messages.truncate(count);
        if has_objects {
            input.parse_arguments();
        }
        let text = self.plain(&input, &input.messages, false)?;
        input.check_numbers(&text)?;
        if let Some(begin) = self
            .options
            .text("bos_token")
            .filter(|text| !text.is_empty())
            && let Some(rest) = text.strip_prefix(begin)
            && rest.starts_with(begin)
        {
            return Err(Failure::DoubleBegin(begin.to_owned()));
        }
        let (marks, stripped, sorts) = self.marked(&input, &text)?;
        let rendered = stripped.values.iter();
        let rendered = rendered.map(|place| place.value.original).collect();
        if !self.options.allow_dropped {
            check_dropped(&marks, &rendered)?;
        }
        Self::check_encoded_twice(&text, &stripped)?;
        let mut all = Vec::new();
        for region in self.regions(&input, &stripped, &sorts)? {
            spans(&text, &region, &self.stops, &mut all);
        }
        let without_reasoning = input.assistants().into_iter().filter(|message| {
            let values = marks
                .values
                .iter()
                .filter(|value| value.message == *message && value.class == ValueClass::Reasoning);
            let mut are_rendered = values.map(|value| rendered.contains(&value.original));
            let is_lost = are_rendered
                .next()
                .is_some_and(|first| !first && !are_rendered.any(|is_rendered| is_rendered));
            is_lost || input.has_unmarked_reasoning(*message, &sorts)
        });
        let without_reasoning = without_reasoning.collect();
        Ok(TemplateRendering {
            rendered: Rendered::of_template(text, all),
            without_reasoning,
        })
    }

    /// Renders messages without marks.
    fn plain(&self, input: &Input, messages: &[Node], prompt: bool) -> Result<String, Failure> {
        self.run(input, messages, prompt, None)
            .map_err(|error| Failure::template(&error))
    }

    fn run(
        &self,
        input: &Input,
        messages: &[Node],
        prompt: bool,
        marks: Option<&Marks>,
    ) -> Result<String, minijinja::Error> {
        let mut variables: Vec<(&str, Value)> = Vec::new();
        let named = self.options.variables.iter().chain(&input.variables);
        variables.extend(named.map(|(name, value)| (name.as_str(), value.to_value())));
        variables.push(("messages", messages.iter().map(Node::to_value).collect()));
        let tools = input.tools.as_ref().map(Node::to_value);
        variables.push(("tools", tools.unwrap_or_else(|| Value::from(()))));
        let documents = input.documents.as_ref().map(Node::to_value);
        variables.push(("documents", documents.unwrap_or_else(|| Value::from(()))));
        variables.push(("add_generation_prompt", Value::from(prompt)));
        if let Some(marks) = marks {
            variables.push((MARKS, Value::from(marks.generation())));
        }
        self.environment
            .get_template(engine::NAME)?
            .render(Value::from_pairs(variables))
    }

    /// Renders with marks, of as many sorts of values as leave the text unchanged.
    fn marked(
        &self,
        input: &Input,
        text: &str,
    ) -> Result<(Marks, Stripped, Vec<ValueSort>), Failure> {
        let attempt = |sorts: &[ValueSort]| -> Result<_, Failure> {
            let nodes = input.messages.iter().chain(&input.tools);
            let nodes = nodes.chain(input.variables.iter().map(|variable| &variable.1));
            let mut marks = Marks::absent_from(nodes).ok_or(Failure::NoMarks)?;
            let messages = marks.mark(&input.messages, sorts);
            // An error here is that of a template that reads its values.
            let marked = self.run(input, &messages, false, Some(&marks)).ok();
            let is_printed = |text: &String| {
                marks
                    .witness()
                    .is_some_and(|witness| text.contains(witness))
            };
            if marked.as_ref().is_some_and(is_printed) {
                return Err(Failure::PrintedParts);
            }
            let stripped = marked.and_then(|marked| marks.strip(&marked));
            let stripped = stripped.filter(|stripped| stripped.text == text);
            Ok(stripped.map(|stripped| (marks, stripped)))
        };
        if let Some((marks, stripped)) = attempt(&ValueSort::ALL)? {
            return Ok((marks, stripped, ValueSort::ALL.to_vec()));
        }
        let mut usable = Vec::new();
        for sort in ValueSort::ALL {
            if attempt(&[sort])?.is_some() {
                usable.push(sort);
            }
        }
        let (marks, stripped) = attempt(&usable)?.ok_or(Failure::Changed)?;
        Ok((marks, stripped, usable))
    }

    /// Refuses a row whose arguments are text that the template encodes once more.
    fn check_encoded_twice(text: &str, stripped: &Stripped) -> Result<(), Failure> {
        let places = stripped.values.iter();
        let mut places = places.filter(|place| place.value.sort == ValueSort::Arguments);
        let is_twice = |place: &Place| {
            let piece = text.get(place.from..place.to).unwrap_or_default();
            place.value.is_object && !piece.starts_with("{\"") && piece.starts_with("{\\\"")
        };
        places
            .find(|place| is_twice(place))
            .map_or(Ok(()), |place| {
                Err(Failure::EncodedTwice(place.value.message))
            })
    }

    fn regions(
        &self,
        input: &Input,
        stripped: &Stripped,
        sorts: &[ValueSort],
    ) -> Result<Vec<Region>, Failure> {
        if self.has_generation {
            let assistants = input.assistants();
            return regions::tagged(stripped, &assistants).map_err(Failure::Region);
        }
        // Without the marks of these values, text of the row could be taken for that of the
        // template.
        let needed = [
            (ValueSort::Content, input.has_content()),
            (ValueSort::Context, true),
            (ValueSort::CallName, input.has_calls()),
            (ValueSort::Reasoning, input.has_reasoning()),
        ];
        if needed
            .iter()
            .any(|(sort, is_needed)| *is_needed && !sorts.contains(sort))
        {
            return Err(Failure::Changed);
        }
        let prompt = self.prompt(input)?;
        let opener = OPENERS.iter().filter_map(|token| prompt.find(token)).min();
        let header = opener.and_then(|at| prompt.get(..at));
        let headers: Vec<&str> = [Some(prompt.as_str()), header]
            .into_iter()
            .flatten()
            .filter(|header| !header.trim().is_empty())
            .collect();
        regions::marked(stripped, &headers, &self.stops).map_err(Failure::Region)
    }

    /// Returns the text with which the template asks for an answer.
    fn prompt(&self, input: &Input) -> Result<String, Failure> {
        let question = Node::Map(vec![
            ("role".to_owned(), Node::Text("user".to_owned())),
            ("content".to_owned(), Node::Text("x".to_owned())),
        ]);
        let messages = [question];
        let without = self.plain(input, &messages, false)?;
        let with = self.plain(input, &messages, true)?;
        let prompt = with.strip_prefix(without.as_str());
        let end = self.options.text("eos_token");
        // Some templates end every other text in that token.
        let before_end = end.and_then(|end| without.strip_suffix(end));
        let prompt = prompt.or_else(|| with.strip_prefix(before_end?));
        prompt
            .map(str::to_owned)
            .ok_or(Failure::Region(NoRegion::Header))
    }
}

/// Refuses a row without some of its text, calls or reasoning.
///
/// `rendered` has the values in the text.
fn check_dropped(marks: &Marks, rendered: &BTreeSet<usize>) -> Result<(), Failure> {
    for value in &marks.values {
        if rendered.contains(&value.original) {
            continue;
        }
        let what = match value.class {
            ValueClass::Call => "a call",
            ValueClass::Answer | ValueClass::Context => "text",
            ValueClass::Reasoning => {
                // All reasoning of a message may be left out, but not a part of it.
                let mut others = marks
                    .values
                    .iter()
                    .filter(|other| other.message == value.message && other.class == value.class);
                if !others.any(|other| rendered.contains(&other.original)) {
                    continue;
                }
                "a part of the reasoning"
            }
        };
        return Err(Failure::Dropped(what, value.message));
    }
    Ok(())
}

/// The rendering of a row.
#[derive(Debug)]
pub(crate) struct TemplateRendering {
    pub(crate) rendered: Rendered,
    /// The messages whose reasoning is not in the text, or is changed in it.
    pub(crate) without_reasoning: Vec<usize>,
}
