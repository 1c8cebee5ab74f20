//! The way of calls to their tools: side by side, bounded, alone where the order counts, with
//! deadlines, and cancelled from outside.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logue_message::{ToolCall, ToolDefinition};
use logue_tools::{
    AccessScope, Batch, BoxFuture, Builtin, Roots, Router, RouterHandle, ShellOptions, ShellTool,
    Tool, ToolInvocation, ToolRequest, ToolResult, Toolbox,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

/// Long enough for every machine, and never waited for by a test that passes.
const HANG: Duration = Duration::from_secs(60);

type Work = dyn Fn(Value) -> BoxFuture<'static, ToolResult> + Send + Sync;

/// A tool that keeps the text of its arguments.
struct Verbatim(ToolDefinition, Arc<Mutex<String>>);

impl Tool for Verbatim {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let text = call.arguments.as_str();
        text.clone_into(&mut self.1.lock().unwrap());
        Box::pin(std::future::ready(ToolResult::success("")))
    }
}

/// A tool made of a closure that gets the arguments.
struct Fake {
    definition: ToolDefinition,
    exclusive: bool,
    work: Box<Work>,
}

impl Tool for Fake {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        (self.work)(serde_json::from_str(call.arguments.as_str()).unwrap_or_default())
    }
}

fn fake(
    name: &str,
    exclusive: bool,
    work: impl Fn(Value) -> BoxFuture<'static, ToolResult> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    with_schema(name, json!({"type": "object"}), exclusive, work)
}

fn with_schema(
    name: &str,
    schema: Value,
    exclusive: bool,
    work: impl Fn(Value) -> BoxFuture<'static, ToolResult> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(Fake {
        definition: ToolDefinition::new(name, name, schema),
        exclusive,
        work: Box::new(work),
    })
}

fn router(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Router {
    let mut toolbox = Toolbox::new();
    for tool in tools {
        toolbox.add(tool).unwrap();
    }
    Router::new(toolbox)
}

/// The outcomes of calls that are run as one answer, in the order in which they ended.
async fn ended(router: &Router, calls: &[ToolCall]) -> Vec<(usize, ToolResult)> {
    let mut batch = router.batch();
    for call in calls {
        batch.add(router.is_exclusive(call), router.call(call.into()));
    }
    let mut ended = Vec::new();
    while let Some(one) = batch.next().await {
        ended.push(one);
    }
    ended
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, work).await.unwrap()
}

#[tokio::test]
async fn two_calls_that_wait_for_one_another_both_end() {
    let barrier = Arc::new(Barrier::new(2));
    let meet = fake("meet", false, move |_| {
        let barrier = Arc::clone(&barrier);
        Box::pin(async move {
            barrier.wait().await;
            ToolResult::success("met")
        })
    });
    let router = router([meet]);
    let calls = [
        ToolCall::new("a", "meet", "{}"),
        ToolCall::new("b", "meet", "{}"),
    ];
    let ended = in_time(ended(&router, &calls)).await;
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|(_, outcome)| outcome.text == "met"));
}

#[tokio::test]
async fn so_many_run_at_once_and_no_more() {
    for (most, calls) in [(1, 5), (3, 20), (8, 5), (0, 2)] {
        let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let counted = Arc::clone(&counts);
        let work = fake("work", false, move |_| {
            let counts = Arc::clone(&counted);
            Box::pin(async move {
                let now = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
                counts.1.fetch_max(now, Ordering::SeqCst);
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                counts.0.fetch_sub(1, Ordering::SeqCst);
                ToolResult::success("")
            })
        });
        let router = router([work]).with_concurrency(most);
        let calls: Vec<ToolCall> = (0..calls)
            .map(|number| ToolCall::new(format!("c{number}"), "work", "{}"))
            .collect();
        assert_eq!(in_time(ended(&router, &calls)).await.len(), calls.len());
        let expected = most.clamp(1, calls.len());
        assert_eq!(counts.1.load(Ordering::SeqCst), expected, "{most}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is exclusive and however long calls take: an exclusive call overlaps with none, and
    /// calls begin in their order.
    #[test]
    fn an_exclusive_call_is_alone(
        plan in proptest::collection::vec((any::<bool>(), 0_usize..6), 1..24),
        most in 1_usize..6,
    ) {
        let log = Mutex::new(Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut batch = Batch::new(most);
            for (number, (exclusive, turns)) in plan.iter().enumerate() {
                let log = &log;
                batch.add(*exclusive, Box::pin(async move {
                    log.lock().unwrap().push((number, true));
                    for _ in 0..*turns {
                        tokio::task::yield_now().await;
                    }
                    log.lock().unwrap().push((number, false));
                    ToolResult::success("")
                }));
            }
            while batch.next().await.is_some() {}
        });
        let log = log.into_inner().unwrap();
        let began = log.iter().filter(|(_, began)| *began).map(|(number, _)| *number);
        prop_assert!(began.eq(0..plan.len()));
        let mut running: Vec<usize> = Vec::new();
        for (number, began) in log {
            if began {
                running.push(number);
                let alone = running.iter().all(|number| !plan[*number].0);
                prop_assert!(alone || running.len() == 1, "{:?}", running);
                prop_assert!(running.len() <= most);
            } else {
                running.retain(|other| *other != number);
            }
        }
    }
}

#[tokio::test]
async fn what_one_answer_appends_stands_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Arc::new(Roots::new([folder.path().to_owned()]).unwrap());
    let scope = AccessScope::new(roots);
    let router = router([
        Builtin::AppendToFile.tool(&scope),
        Builtin::ReadFile.tool(&scope),
    ]);
    let mut calls = Vec::new();
    for number in 0..20 {
        let arguments = json!({"path": "log.txt", "content": format!("{number}\n")});
        calls.push(ToolCall::new(
            format!("a{number}"),
            "append_to_file",
            arguments.to_string(),
        ));
        let arguments = json!({"file": "log.txt"}).to_string();
        calls.push(ToolCall::new(format!("r{number}"), "read_file", arguments));
    }
    let mut ended = in_time(ended(&router, &calls)).await;
    ended.sort_by_key(|(index, _)| *index);
    let lines: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let expected = lines.join("\n") + "\n";
    let written = fs::read_to_string(folder.path().join("log.txt")).unwrap();
    assert_eq!(written, expected);
    // What is read behind the n-th append has n lines.
    for (index, outcome) in ended.iter().filter(|(index, _)| index % 2 == 1) {
        let last = format!("{}", index / 2);
        assert!(outcome.ok && outcome.text.contains(&last), "{outcome:?}");
        assert!(!outcome.text.contains(&format!("\n{}\n", index / 2 + 1)));
    }
}

#[tokio::test]
async fn a_deadline_is_the_routers_unless_the_tool_declares_it() {
    let echo = |schema: Value| {
        with_schema("echo", schema, false, |arguments| {
            Box::pin(async move { ToolResult::success(arguments.to_string()) })
        })
    };
    let plain = json!({"type": "object", "properties": {"x": {}}});
    let own = json!({"type": "object", "properties": {"x": {}, "deadline_ms": {}}});
    let refused = |found: &str| {
        format!(
            "E-CALL-SCHEMA: deadline_ms: expected a whole number of milliseconds above 0, found {found}"
        )
    };
    let table = [
        (&plain, r#"{"x": 1}"#, r#"{"x":1}"#.to_owned()),
        (
            &plain,
            r#"{"x": 1, "deadline_ms": 60000}"#,
            r#"{"x":1}"#.to_owned(),
        ),
        (
            &plain,
            r#"{"deadline_ms": 18446744073709551615}"#,
            "{}".to_owned(),
        ),
        (&plain, r#"{"deadline_ms": 0}"#, refused("0")),
        (&plain, r#"{"deadline_ms": -5}"#, refused("-5")),
        (&plain, r#"{"deadline_ms": 1.5}"#, refused("1.5")),
        (&plain, r#"{"deadline_ms": "soon"}"#, refused("\"soon\"")),
        (
            &plain,
            r#"{"x": {"deadline_ms": 0}}"#,
            r#"{"x":{"deadline_ms":0}}"#.to_owned(),
        ),
        (
            &own,
            r#"{"deadline_ms": "soon"}"#,
            r#"{"deadline_ms":"soon"}"#.to_owned(),
        ),
    ];
    for (schema, arguments, expected) in table {
        let router = router([echo(schema.clone())]);
        let call = ToolCall::new("c", "echo", arguments);
        let outcome = in_time(router.call(ToolRequest::from(&call))).await;
        assert_eq!(outcome.text, expected, "{arguments}");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_the_tool() {
    let ran = Arc::new(AtomicUsize::new(0));
    let tool = |schema: Value| {
        let ran = Arc::clone(&ran);
        with_schema("t", schema, false, move |_| {
            ran.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(ToolResult::success("ran")))
        })
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
        "required": ["city"],
        "additionalProperties": false,
    });
    let table = [
        (r#"{"city": "Rome", "days": [1, 2]}"#, None),
        (r#"{"city": "Rome", "deadline_ms": 60000}"#, None),
        (
            r#"{"city": 5}"#,
            Some(r#"- /city: the value is not of type "string""#),
        ),
        (
            r#"{"city": "Rome", "days": [1, 0]}"#,
            Some("- /days/1: the value is less than"),
        ),
        (r"{}", Some(r#"- "city" is a required property"#)),
        ("", Some(r#"- "city" is a required property"#)),
        (r#"{"city": "Rome", "when": 1}"#, Some("'when'")),
        (r#"{"city": "Ro"#, Some("not valid JSON")),
        (r#"["Rome"]"#, Some("not a JSON object but an array")),
    ];
    let router = router([tool(schema)]);
    for (arguments, fault) in table {
        let call = ToolCall::new("c", "t", arguments);
        let outcome = in_time(router.call(ToolRequest::from(&call))).await;
        let times = ran.swap(0, Ordering::SeqCst);
        match fault {
            None => assert_eq!((outcome.text.as_str(), times), ("ran", 1), "{arguments}"),
            Some(fault) => {
                assert_eq!(
                    (outcome.code, times),
                    (Some("E-CALL-SCHEMA"), 0),
                    "{arguments}"
                );
                assert!(
                    outcome.text.contains(fault),
                    "{arguments}: {}",
                    outcome.text
                );
            }
        }
    }
    assert_eq!(router.take_schema_warnings(), []);
}

#[tokio::test]
async fn a_schema_that_is_of_no_use_is_noted_once_and_stops_nothing() {
    let done = |_| -> BoxFuture<'static, ToolResult> {
        Box::pin(std::future::ready(ToolResult::success("ran")))
    };
    let hostile = [
        json!({"type": 5}),
        json!({"$ref": "https://example.org/schema.json"}),
        json!({"$ref": "#"}),
        json!("object"),
        json!({"type": "object", "properties": {"x": {"enum": vec!["long"; 60_000]}}}),
    ];
    for schema in hostile {
        let router = router([with_schema("t", schema.clone(), false, done)]);
        for _ in 0..2 {
            let call = ToolCall::new("c", "t", r#"{"x": 1}"#);
            assert_eq!(
                in_time(router.call(ToolRequest::from(&call))).await.text,
                "ran"
            );
        }
        let notes = router.take_schema_warnings();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert_eq!(notes[0].tool, "t");
        assert_eq!(router.take_schema_warnings(), []);
    }
}

#[tokio::test]
async fn a_tool_gets_what_is_beside_the_deadline_verbatim() {
    let heard = Arc::new(Mutex::new(String::new()));
    let definition = ToolDefinition::new("v", "v", json!({"type": "object"}));
    let router = router([Arc::new(Verbatim(definition, Arc::clone(&heard))) as Arc<dyn Tool>]);
    let call = ToolCall::new(
        "c",
        "v",
        r#"{"id": 123456789012345678901234567890, "deadline_ms": 9000, "e": 1e0, "s": "\u0041"}"#,
    );
    in_time(router.call(ToolRequest::from(&call))).await;
    let expected = r#"{"e":1e0,"id":123456789012345678901234567890,"s":"\u0041"}"#;
    assert_eq!(*heard.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_with_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    let shell = |timeout: Duration| {
        let options = ShellOptions::default()
            .with_timeout(timeout)
            .with_environment(vec![("PATH".into(), "/usr/bin:/bin".into())]);
        let roots = Roots::new([folder.path().to_owned()]).unwrap();
        let tool = ShellTool::new("wait", "sleep", None, &roots, options);
        Arc::new(tool.unwrap()) as Arc<dyn Tool>
    };
    // The deadline of the call is shorter, and then the tool's own limit is.
    let table = [
        (
            Duration::from_secs(50),
            50,
            "longer than its deadline_ms, 50",
        ),
        (Duration::from_millis(50), 50_000, "killed after 0.05 s"),
    ];
    for (timeout, deadline, expected) in table {
        let router = router([shell(timeout)]);
        let arguments = json!({"arguments": ["300"], "deadline_ms": deadline}).to_string();
        let call = ToolCall::new("c", "wait", arguments);
        let outcome = in_time(router.call(ToolRequest::from(&call))).await;
        assert_eq!((outcome.ok, outcome.code), (false, Some("E-TOOL-TIMEOUT")));
        assert!(outcome.text.contains(expected), "{}", outcome.text);
    }
    in_time(nothing_runs_in(folder.path())).await;
}

/// Waits until no process has the folder for its current one.
async fn nothing_runs_in(folder: &std::path::Path) {
    let folder = folder.canonicalize().unwrap();
    loop {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let here = processes
            .filter_map(|process| fs::read_link(process.path().join("cwd")).ok())
            .filter(|current| *current == folder);
        if here.count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A router whose tool says when it runs, and then waits for ever.
fn endless() -> (Router, RouterHandle, Arc<Notify>) {
    let started = Arc::new(Notify::new());
    let tell = Arc::clone(&started);
    let wait = fake("wait", false, move |_| {
        tell.notify_one();
        Box::pin(std::future::pending())
    });
    let router = router([wait]).with_concurrency(1);
    let handle = router.handle();
    (router, handle, started)
}

#[tokio::test]
async fn calls_are_cancelled_while_they_run_and_while_they_wait() {
    let (router, handle, started) = endless();
    let calls = [
        ToolCall::new("a", "wait", "{}"),
        ToolCall::new("b", "wait", "{}"),
    ];
    assert!(!handle.cancel("a", "too early"));
    let cancelling = async {
        started.notified().await;
        assert_eq!(handle.calls(), ["a", "b"]);
        assert!(handle.cancel("b", "not needed"));
        assert!(handle.cancel("a", "it takes too long"));
        assert!(!handle.cancel("a", "once more"));
        assert!(!handle.cancel("c", "nobody"));
    };
    let (ended, ()) = in_time(async { tokio::join!(ended(&router, &calls), cancelling) }).await;
    let texts: Vec<_> = ended
        .iter()
        .map(|(at, one)| (*at, one.text.as_str()))
        .collect();
    assert_eq!(
        texts,
        [
            (
                0,
                "E-TOOL-CANCELLED: the call was cancelled while it ran (it takes too long); what it \
                 had done by then is not undone"
            ),
            (
                1,
                "E-TOOL-CANCELLED: the call was cancelled before it began (not needed); it was not run"
            ),
        ]
    );
    assert!(
        ended
            .iter()
            .all(|(_, one)| one.code == Some("E-TOOL-CANCELLED") && !one.ok)
    );
    assert!(handle.calls().is_empty());
}

#[tokio::test]
async fn a_call_of_another_conversation_goes_on() {
    let (router, handle, _) = endless();
    let call = ToolCall::new("call_0", "wait", "{}");
    let within = |conversation| ToolRequest::from(&call).with_conversation(Some(conversation));
    let (mut one, mut other) = (router.call(within("one")), router.call(within("other")));
    assert!(handle.cancel_in("one", "call_0", "stop"));
    assert!(!handle.cancel_in("one", "call_0", "stop"));
    let cancelled = in_time(&mut one).await;
    assert_eq!(cancelled.code, Some("E-TOOL-CANCELLED"));
    tokio::select! {
        biased;
        outcome = &mut other => panic!("{outcome:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(handle.cancel_all("the end"), 1);
    assert_eq!(in_time(other).await.code, Some("E-TOOL-CANCELLED"));
}

#[tokio::test]
async fn a_batch_that_is_dropped_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        ShellOptions::default().with_environment(vec![("PATH".into(), "/usr/bin:/bin".into())]);
    let place = folder.path().canonicalize().unwrap();
    let roots = Roots::new([place.clone()]).unwrap();
    let tool = ShellTool::new("wait", "sh", None, &roots, options).unwrap();
    let router = router([Arc::new(tool) as Arc<dyn Tool>]);
    let script = "sleep 300 & touch began-$0; wait";
    let calls: Vec<ToolCall> = (0..6)
        .map(|number| {
            let arguments = json!({"arguments": ["-c", script, number.to_string()]});
            ToolCall::new(format!("c{number}"), "wait", arguments.to_string())
        })
        .collect();
    let began = async {
        while (0..6).any(|number| !place.join(format!("began-{number}")).exists()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(async {
        tokio::select! {
            ended = ended(&router, &calls) => panic!("{ended:?}"),
            () = began => {}
        }
    })
    .await;
    assert!(router.handle().calls().is_empty());
    in_time(nothing_runs_in(&place)).await;
}
