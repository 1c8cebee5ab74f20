//! Rows to rendered text with spans.

use super::clock::TemplateDate;
use super::engine::{self, MARKS, TemplateFailure};
use super::generation;
use super::marks::{Marks, Place, Stripped, ValueClass, ValueSort};
use super::node::Node;
use super::python_json::float;
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
        let whole = Span::new(0, row.len());
        self.rendered(row).map_err(|failure| failure.refusal(whole))
    }

    fn rendered(&self, row: &[u8]) -> Result<Rendered, Failure> {
        let input = Input::read(row)?;
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
        self.check_dropped(&marks, &stripped)?;
        Self::check_encoded_twice(&text, &stripped)?;
        let mut all = Vec::new();
        for region in self.regions(&input, &stripped, &sorts)? {
            spans(&text, &region, &self.stops, &mut all);
        }
        Ok(Rendered::of_template(text, all))
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

    /// Refuses a row whose answer, call or part of reasoning is left out.
    fn check_dropped(&self, marks: &Marks, stripped: &Stripped) -> Result<(), Failure> {
        if self.options.allow_dropped {
            return Ok(());
        }
        let rendered: BTreeSet<usize> = stripped
            .values
            .iter()
            .map(|place| place.value.index)
            .collect();
        for value in &marks.values {
            let what = match value.class {
                ValueClass::Call => "a call",
                ValueClass::Answer => "text",
                // All reasoning of a message may be left out, but not a part of it.
                ValueClass::Reasoning
                    if value.sort == ValueSort::Content
                        && marks.values.iter().any(|other| {
                            other.message == value.message
                                && other.sort == value.sort
                                && other.class == value.class
                                && rendered.contains(&other.index)
                        }) =>
                {
                    "a part of the reasoning"
                }
                ValueClass::Reasoning | ValueClass::Context => continue,
            };
            if !rendered.contains(&value.index) {
                return Err(Failure::Dropped(what, value.message));
            }
        }
        Ok(())
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

/// The conversation of a row.
struct Input {
    messages: Vec<Node>,
    tools: Option<Node>,
    documents: Option<Node>,
    variables: Vec<(String, Node)>,
}

impl Input {
    fn read(row: &[u8]) -> Result<Self, Failure> {
        let row = std::str::from_utf8(row).map_err(|error| Failure::Syntax(error.to_string()))?;
        let row = Node::parse(row).map_err(Failure::Syntax)?;
        let Some(Node::List(messages)) = row.get("messages") else {
            return Err(Failure::Shape("the row has no list `messages`"));
        };
        if messages
            .iter()
            .any(|message| !matches!(message, Node::Map(_)))
        {
            return Err(Failure::Shape("a message is not an object"));
        }
        let tools = match row.get("tools") {
            // A column of mixed types is stored as text.
            Some(Node::Text(text)) if !text.trim().is_empty() => {
                Some(Node::parse(text).map_err(|_| Failure::Shape("`tools` is not JSON"))?)
            }
            Some(Node::List(tools)) => Some(Node::List(tools.clone())),
            _ => None,
        };
        let variables = match row.get("chat_template_kwargs") {
            Some(Node::Map(variables)) => variables.clone(),
            _ => Vec::new(),
        };
        Ok(Self {
            messages: messages.iter().map(normal).collect(),
            tools,
            documents: row
                .get("documents")
                .filter(|value| **value != Node::Null)
                .cloned(),
            variables,
        })
    }

    /// Refuses numbers that the engine printed otherwise than Python.
    fn check_numbers(&self, text: &str) -> Result<(), Failure> {
        let mut found = None;
        let nodes = self.messages.iter().chain(&self.tools);
        for node in nodes.chain(self.variables.iter().map(|variable| &variable.1)) {
            node.each_float(&mut |number| {
                let printed = Value::from(number).to_string();
                if printed != float(number) && text.contains(&printed) {
                    found = Some(float(number));
                }
            });
        }
        found.map_or(Ok(()), |number| {
            let reason = "is joined to text by the chat template, which is not supported";
            Err(Failure::Template(format!("the number {number} {reason}")))
        })
    }

    fn assistants(&self) -> Vec<usize> {
        let messages = self.messages.iter().enumerate();
        let found = messages.filter(|(_, message)| {
            message.get("role").and_then(Node::as_text) == Some("assistant")
        });
        found.map(|(index, _)| index).collect()
    }

    fn has(&self, names: &[&str]) -> bool {
        let is_set = |node: &Node| !matches!(node, Node::Null) && *node != Node::List(Vec::new());
        self.assistants().into_iter().any(|index| {
            let message = self.messages.get(index);
            let mut values = names
                .iter()
                .filter_map(|name| message.and_then(|message| message.get(name)));
            values.any(is_set)
        })
    }

    fn has_content(&self) -> bool {
        self.has(&["content"])
    }

    fn has_calls(&self) -> bool {
        self.has(&["tool_calls"])
    }

    fn has_reasoning(&self) -> bool {
        self.has(&["reasoning_content"])
    }
}

/// Returns a message as `transformers` passes it: without null, with both names of reasoning.
fn normal(message: &Node) -> Node {
    let Node::Map(members) = message else {
        return message.clone();
    };
    let members = members.iter().filter(|member| member.1 != Node::Null);
    let members: Vec<(String, Node)> = members.cloned().collect();
    let mut message = Node::Map(members);
    let reasoning = ["reasoning_content", "thinking", "reasoning"]
        .iter()
        .find_map(|name| message.get(name))
        .cloned();
    if let Some(reasoning) = reasoning {
        if message.get("thinking").is_none()
            && let Node::Map(members) = &mut message
        {
            members.insert(0, ("thinking".to_owned(), reasoning.clone()));
        }
        message.set("reasoning_content", reasoning);
    }
    message
}

/// The reason why a row has no rendering.
#[derive(Debug)]
enum Failure {
    Syntax(String),
    Shape(&'static str),
    Template(String),
    NoDate,
    NoMarks,
    Changed,
    Region(NoRegion),
    Dropped(&'static str, usize),
    EncodedTwice(usize),
    DoubleBegin(String),
}

impl Failure {
    fn template(error: &minijinja::Error) -> Self {
        match engine::reported(error) {
            Some(TemplateFailure::NoDate) => Self::NoDate,
            Some(TemplateFailure::Raised(message)) => Self::Template(format!(
                "the chat template refuses the conversation: {message}"
            )),
            Some(failure @ TemplateFailure::DateFormat(_)) => Self::Template(failure.to_string()),
            None => Self::Template(format!("the chat template fails: {error}")),
        }
    }

    fn refusal(self, place: Span) -> Refusal {
        use DiagnosticCode as Code;
        let unknown = "the spans of the assistant are unknown";
        let (code, message, help) = match self {
            Self::Syntax(error) => (Code::JsonSyntax, error, "correct or remove the row"),
            Self::Shape(message) => (
                Code::JsonShape,
                message.to_owned(),
                "convert the data set to messages with `logue data convert`",
            ),
            Self::Template(message) => (
                Code::DataTemplate,
                message,
                "change the row, or use the template of another model",
            ),
            Self::NoDate => (
                Code::DataTemplateDate,
                "the chat template prints the day, which is not given".to_owned(),
                "give the day with `--date`",
            ),
            Self::NoMarks => (
                Code::DataTemplateSpans,
                format!("{unknown}: the row has characters of both planes for private use"),
                "remove these characters, or the row",
            ),
            Self::Changed => (
                Code::DataTemplateSpans,
                format!("{unknown}: the template tests or changes the text of messages"),
                "add `{% generation %}` to the template",
            ),
            Self::Region(NoRegion::Stop) => (
                Code::DataStopUntrained,
                "no stop token follows an answer in the output of the template".to_owned(),
                "name the stop token with `--stop-token`",
            ),
            Self::Region(reason) => {
                let reason = match reason {
                    NoRegion::Header => "an answer does not follow the prompt for answers",
                    _ => "values are not in the order of their messages",
                };
                (
                    Code::DataTemplateSpans,
                    format!("{unknown}: {reason}"),
                    "add `{% generation %}` to the template",
                )
            }
            Self::Dropped(what, message) => (
                Code::DataTemplateDropped,
                format!("the chat template leaves out {what} of message {message}"),
                "use a template that renders it",
            ),
            Self::EncodedTwice(message) => (
                Code::DataTemplate,
                format!("the chat template encodes the arguments of message {message} twice"),
                "write arguments as objects with `logue data convert`",
            ),
            Self::DoubleBegin(token) => (
                Code::DataBeginTwice,
                format!("the text begins with `{token}` twice"),
                "remove the token from the first message",
            ),
        };
        Refusal::new(code, message, place).with_help(help)
    }
}
