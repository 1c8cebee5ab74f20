//! The spans of a turn: what they are named, what they say, which is in which; and that nothing of
//! what is said, asked of a tool, given by it or reported of a failure is in any of them.
#![expect(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logue_agent::{Assistant, Permission, PermissionRule, Permissions, TurnEvent, chat};
use logue_graph::CountingIds;
use logue_harness::chat::{ChatHarness, ChatTurnOutcome, OnCrash, SignalTarget};
use logue_harness::store::MemoryStore;
use logue_harness::{Clock, Timestamp};
use logue_message::{ChatMessage, Content, ToolCall, ToolDefinition};
use logue_model::{
    BoxFuture, Category, EventHandler, FinishReason, ModelEvent, ModelRequest, ModelResponse,
    Provider, ProviderError, Usage,
};
use logue_tools::{Tool, ToolInvocation, ToolResult, Toolbox};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Stands in everything that is content.
const MARKER: &str = "XYZZY-PRIVATE";

/// Keeps every span with its fields and the span that it was in, and the text of every event.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    spans: Vec<Span>,
    entered: Vec<u64>,
    events: Vec<HashMap<&'static str, String>>,
}

#[derive(Clone, Default)]
struct Span {
    name: &'static str,
    parent: Option<u64>,
    fields: Fields,
}

#[derive(Clone, Default)]
struct Fields(HashMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("logue")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut seen = self.0.lock().unwrap();
        let mut span = Span {
            name: attributes.metadata().name(),
            parent: seen.entered.last().copied(),
            ..Span::default()
        };
        attributes.record(&mut span.fields);
        seen.spans.push(span);
        Id::from_u64(seen.spans.len() as u64)
    }

    fn record(&self, id: &Id, record: &Record<'_>) {
        let at = usize::try_from(id.into_u64()).unwrap() - 1;
        record.record(&mut self.0.lock().unwrap().spans[at].fields);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().events.push(fields.0);
    }

    fn enter(&self, id: &Id) {
        self.0.lock().unwrap().entered.push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        let left = self.0.lock().unwrap().entered.pop();
        assert_eq!(left, Some(id.into_u64()), "spans are left as entered");
    }
}

/// What a subscriber saw of one turn.
struct Taken {
    /// The path of names of each span, and its fields.
    spans: Vec<(String, HashMap<&'static str, String>)>,
}

impl Taken {
    fn paths(&self) -> Vec<&str> {
        self.spans.iter().map(|(path, _)| path.as_str()).collect()
    }

    /// The field of the only span whose path ends so.
    fn field(&self, path: &str, name: &str) -> Option<&str> {
        let mut found = self.spans.iter().filter(|(of, _)| of.ends_with(path));
        let span = found.next().unwrap();
        assert!(found.next().is_none(), "{path} is there twice");
        span.1.get(name).map(String::as_str)
    }
}

impl Recorder {
    fn taken(&self) -> Taken {
        let mut seen = self.0.lock().unwrap();
        assert!(seen.entered.is_empty());
        let spans = std::mem::take(&mut seen.spans);
        for fields in spans
            .iter()
            .map(|span| &span.fields.0)
            .chain(seen.events.iter())
        {
            let leaks = fields.values().any(|value| value.contains(MARKER));
            assert!(!leaks, "{fields:?}");
        }
        let path = |span: &Span| {
            let mut names = Vec::new();
            let mut at = Some(span);
            while let Some(span) = at {
                let named = span.fields.0.get("otel.name");
                names.push(named.map_or(span.name, String::as_str));
                let parent = span.parent.and_then(|id| usize::try_from(id).ok());
                at = parent.map(|id| &spans[id - 1]);
            }
            names.reverse();
            names.join(" > ")
        };
        let spans = spans.iter().map(|span| (path(span), span.fields.0.clone()));
        Taken {
            spans: spans.collect(),
        }
    }
}

/// A model that plays its answers one after the other.
struct Script(Mutex<VecDeque<Result<ModelResponse, ProviderError>>>);

impl Provider for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn complete<'a>(
        &'a self,
        _: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(async move {
            events(ModelEvent::Reasoning(format!("thinks of {MARKER}")));
            events(ModelEvent::Text(format!("says {MARKER}")));
            tokio::task::yield_now().await;
            self.0.lock().unwrap().pop_front().unwrap()
        })
    }
}

fn says(text: &str) -> ModelResponse {
    let message = ChatMessage::assistant(format!("{text} {MARKER}"));
    ModelResponse::new(message, FinishReason::Stop).with_usage(Some(Usage::new(12, 3)))
}

fn calls(calls: &[(&str, &str)]) -> ModelResponse {
    let arguments = format!("{{\"input\":\"{MARKER}\"}}");
    let calls = calls
        .iter()
        .map(|(id, name)| ToolCall::new(*id, *name, arguments.as_str()));
    let message = ChatMessage::assistant(Content::Absent).with_tool_calls(calls.collect());
    ModelResponse::new(message, FinishReason::ToolCalls)
}

/// A tool that ends as it is told to.
struct Probe(ToolDefinition, ToolResult);

impl Probe {
    fn shared(name: &str, outcome: ToolResult) -> Arc<dyn Tool> {
        let description = format!("told only to the model: {MARKER}");
        let parameters = json!({"type": "object", "properties": {"input": {"type": "string"}}});
        Arc::new(Self(
            ToolDefinition::new(name, description, parameters),
            outcome,
        ))
    }
}

impl Tool for Probe {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call<'a>(&'a self, _: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.1.clone()
        })
    }
}

struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

fn harness(
    answers: impl IntoIterator<Item = Result<ModelResponse, ProviderError>>,
) -> ChatHarness<TurnEvent> {
    let mut toolbox = Toolbox::new();
    for (name, outcome) in [
        ("works", ToolResult::success(MARKER)),
        ("fails", ToolResult::failure(format!("{MARKER}: it broke"))),
        (
            "refuses",
            ToolResult::failure(format!("E-CALL-SCHEMA: {MARKER}")),
        ),
        ("asked", ToolResult::success(MARKER)),
    ] {
        toolbox.add(Probe::shared(name, outcome)).unwrap();
    }
    let script = Script(Mutex::new(answers.into_iter().collect()));
    let mut assistant = Assistant::new(Arc::new(script), "m-1");
    assistant.settings.max_tokens = Some(100);
    assistant.toolbox = toolbox;
    let rule = PermissionRule::new("asked", Permission::Ask);
    assistant.permissions = Permissions::new().with(rule);
    assistant.prefix = vec![ChatMessage::system(format!("The prompt is {MARKER}."))];
    assistant.max_requests = 5;
    let store = Arc::new(MemoryStore::new());
    chat(
        assistant,
        store,
        Arc::new(StillClock),
        Arc::new(CountingIds::new()),
        OnCrash::default(),
    )
    .unwrap()
}

fn run<T>(recorder: &Recorder, run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    tracing::subscriber::with_default(recorder.clone(), || runtime.block_on(run))
}

fn hello() -> ChatMessage {
    ChatMessage::user(format!("Hello, {MARKER}"))
}

const RUN: &str = "openarmature.turn > openarmature.invocation";

#[test]
fn requests_and_calls_are_in_the_nodes_of_their_turn() {
    let recorder = Recorder::default();
    let chat = harness(
        [
            calls(&[("c1", "works"), ("c2", "fails"), ("c3", "refuses")]),
            says("done"),
        ]
        .map(Ok),
    );
    let outcome = run(&recorder, chat.send("s1", hello()));
    let ChatTurnOutcome::Completed(turn) = outcome else {
        panic!("{outcome:?}");
    };
    let taken = recorder.taken();
    assert_eq!(
        taken.paths(),
        [
            "openarmature.turn".to_owned(),
            RUN.to_owned(),
            format!("{RUN} > model"),
            format!("{RUN} > model > chat m-1"),
            format!("{RUN} > gate"),
            format!("{RUN} > tools"),
            format!("{RUN} > tools > execute_tool works"),
            format!("{RUN} > tools > execute_tool fails"),
            format!("{RUN} > tools > execute_tool refuses"),
            format!("{RUN} > model"),
            format!("{RUN} > model > chat m-1"),
        ]
    );
    let of_turn = &taken.spans[0].1;
    assert_eq!(of_turn["openarmature.session_id"], "s1");
    assert_eq!(of_turn["openarmature.invocation_id"], turn.invocation_id);
    assert_eq!(of_turn["openarmature.outcome"], "completed");
    assert_eq!(of_turn["otel.status_code"], "OK");
    assert!(!of_turn.contains_key("error.type"));

    let (first, last) = (&taken.spans[3].1, &taken.spans[10].1);
    for request in [first, last] {
        for (name, value) in [
            ("otel.kind", "client"),
            ("otel.status_code", "OK"),
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "script"),
            ("gen_ai.request.model", "m-1"),
            ("gen_ai.request.max_tokens", "100"),
            ("gen_ai.conversation.id", "s1"),
        ] {
            assert_eq!(request.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!request.contains_key("gen_ai.request.temperature"));
        assert!(!request.contains_key("error.type"));
    }
    assert_eq!(first["gen_ai.response.finish_reasons"], "tool_calls");
    assert!(!first.contains_key("gen_ai.usage.input_tokens"));
    assert_eq!(last["gen_ai.response.finish_reasons"], "stop");
    assert_eq!(last["gen_ai.usage.input_tokens"], "12");
    assert_eq!(last["gen_ai.usage.output_tokens"], "3");

    for (tool, id, error, status) in [
        ("works", "c1", None, "OK"),
        ("fails", "c2", Some("tool_error"), "ERROR"),
        ("refuses", "c3", Some("E-CALL-SCHEMA"), "ERROR"),
    ] {
        let path = format!("execute_tool {tool}");
        let field = |name: &str| taken.field(&path, name);
        assert_eq!(field("gen_ai.operation.name"), Some("execute_tool"));
        assert_eq!(field("gen_ai.tool.name"), Some(tool));
        assert_eq!(field("gen_ai.tool.call.id"), Some(id));
        assert_eq!(field("gen_ai.tool.type"), Some("function"));
        assert_eq!(field("gen_ai.conversation.id"), Some("s1"));
        assert_eq!(field("error.type"), error, "{tool}");
        assert_eq!(field("otel.status_code"), Some(status), "{tool}");
    }
}

#[test]
fn a_turn_that_waits_is_no_error_and_says_what_it_goes_on_from() {
    let recorder = Recorder::default();
    let chat = harness([calls(&[("c1", "asked")]), says("done")].map(Ok));
    let outcome = run(&recorder, chat.send("s1", hello()));
    let ChatTurnOutcome::Suspended(waiting) = outcome else {
        panic!("{outcome:?}");
    };
    let signal = waiting.signal_descriptor.signal_id.as_str();
    let taken = recorder.taken();
    assert_eq!(
        taken.paths(),
        [
            "openarmature.turn".to_owned(),
            RUN.to_owned(),
            format!("{RUN} > model"),
            format!("{RUN} > model > chat m-1"),
            format!("{RUN} > gate"),
            format!("{RUN} > approval"),
        ]
    );
    let before = &taken.spans[0].1;
    assert_eq!(before["openarmature.outcome"], "suspended");
    assert_eq!(before["openarmature.suspension.signal_id"], signal);
    assert_eq!(before["otel.status_code"], "OK");

    let approved = json!({"approval": "approve", "note": MARKER});
    let approved = approved.as_object().unwrap().clone();
    let resumed = chat.signal(SignalTarget::Signal(signal), approved);
    let outcome = run(&recorder, resumed).unwrap();
    assert_eq!(outcome.as_str(), "completed");
    let taken = recorder.taken();
    assert_eq!(taken.paths()[0], "openarmature.turn");
    let after = &taken.spans[0].1;
    assert_eq!(after["openarmature.session_id"], "s1");
    assert_eq!(after["openarmature.invocation_id"], waiting.invocation_id);
    assert_eq!(after["openarmature.outcome"], "completed");
    assert_eq!(after["openarmature.suspension.signal_id"], signal);
    assert_eq!(
        after["openarmature.suspension.metadata_keys"],
        "calls,reason"
    );
    let path = format!("{RUN} > tools > execute_tool asked");
    assert_eq!(taken.field(&path, "gen_ai.tool.call.id"), Some("c1"));
}

#[test]
fn a_call_that_a_person_denied_was_not_made() {
    let recorder = Recorder::default();
    let chat = harness([calls(&[("c1", "asked")]), says("done")].map(Ok));
    let outcome = run(&recorder, chat.send("s1", hello()));
    let ChatTurnOutcome::Suspended(waiting) = outcome else {
        panic!("{outcome:?}");
    };
    let signal = waiting.signal_descriptor.signal_id.as_str();
    let denied = json!({"approval": "deny"}).as_object().unwrap().clone();
    let resumed = chat.signal(SignalTarget::Signal(signal), denied);
    assert_eq!(run(&recorder, resumed).unwrap().as_str(), "completed");
    let taken = recorder.taken();
    assert!(taken.paths().iter().any(|path| path.ends_with(" > tools")));
    assert!(
        !taken
            .paths()
            .iter()
            .any(|path| path.contains("execute_tool"))
    );
}

#[test]
fn a_failure_is_told_by_its_category_alone() {
    let recorder = Recorder::default();
    let failure = ProviderError::new(Category::RateLimit, format!("no quota for {MARKER}"));
    let chat = harness([Err(failure)]);
    let outcome = run(&recorder, chat.send("s1", hello()));
    assert_eq!(outcome.as_str(), "errored");
    let taken = recorder.taken();
    for span in ["openarmature.turn", "chat m-1"] {
        assert_eq!(
            taken.field(span, "error.type"),
            Some("provider_rate_limit"),
            "{span}"
        );
        assert_eq!(taken.field(span, "otel.status_code"), Some("ERROR"));
    }
    let turn = &taken.spans[0].1;
    assert_eq!(turn["openarmature.outcome"], "errored");
    assert_eq!(turn["openarmature.error.category"], "provider_rate_limit");
}
