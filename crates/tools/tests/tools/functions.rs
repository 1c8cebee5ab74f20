//! Tools made from async functions: schema, results, previews, deadlines, panics.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use logue_message::ToolCall;
use logue_tools::{Builtin, BuiltinPower, FnTool, Json, Roots, Router, Tool, ToolResult, Toolbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct DeployArgs {
    /// Name of the service.
    service: String,
    /// Number of copies.
    copies: Option<u8>,
    #[serde(default)]
    region: Region,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Region {
    #[default]
    East,
    West,
}

fn deploy() -> FnTool {
    FnTool::new(
        "deploy",
        "Deploys a service.",
        |args: DeployArgs| async move {
            let region = match args.region {
                Region::East => "east",
                Region::West => "west",
            };
            let copies = args.copies.unwrap_or(1);
            format!("{} x{copies} in {region}", args.service)
        },
    )
}

fn router(tool: FnTool) -> Router {
    let mut toolbox = Toolbox::new();
    toolbox.add(Arc::new(tool)).unwrap();
    Router::new(toolbox)
}

async fn call(tool: FnTool, arguments: Value) -> ToolResult {
    let name = tool.definition().name.clone();
    let call = ToolCall::new("c1", name, arguments.to_string());
    router(tool).call((&call).into()).await
}

#[test]
fn the_schema_comes_from_the_argument_type() {
    let tool = deploy();
    let schema = &tool.definition().parameters;
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["service"]));
    assert_eq!(
        schema["properties"]["service"],
        json!({"type": "string", "description": "Name of the service."})
    );
    // Types are written in place: several model servers resolve no references.
    assert_eq!(
        schema["properties"]["region"]["enum"],
        json!(["east", "west"])
    );
    assert_eq!(schema.get("$schema"), None);
    assert_eq!(schema.get("$defs"), None);
    assert_eq!(schema.get("title"), None);
}

#[tokio::test]
async fn arguments_are_typed_and_checked_before_the_function_runs() {
    let result = call(deploy(), json!({"service": "web", "region": "west"})).await;
    assert_eq!(result, ToolResult::success("web x1 in west"));
    for wrong in [
        json!({}),
        json!({"service": 1}),
        json!({"service": "web", "copies": 256}),
        json!({"service": "web", "region": "north"}),
    ] {
        let result = call(deploy(), wrong).await;
        assert_eq!(result.code, Some("E-CALL-SCHEMA"), "{}", result.text);
        assert!(result.text.contains("was not run"), "{}", result.text);
    }
}

#[tokio::test]
async fn a_function_without_parameters_accepts_an_empty_object_and_no_text() {
    let ping = || FnTool::new("ping", "Answers.", |(): ()| async { "pong" });
    assert_eq!(
        ping().definition().parameters,
        json!({"type": "object", "properties": {}})
    );
    assert_eq!(call(ping(), json!({})).await, ToolResult::success("pong"));
    let bare = ToolCall::new("c1", "ping", "");
    let result = router(ping()).call((&bare).into()).await;
    assert_eq!(result, ToolResult::success("pong"));
}

#[tokio::test]
async fn a_type_may_refuse_what_its_schema_accepts() {
    struct Even(u64);
    impl<'de> Deserialize<'de> for Even {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let object = std::collections::BTreeMap::<String, u64>::deserialize(deserializer)?;
            let number = object.get("number").copied().unwrap_or_default();
            if number % 2 == 0 {
                Ok(Self(number))
            } else {
                Err(serde::de::Error::custom("the number is odd"))
            }
        }
    }
    let half = || {
        let schema = json!({"type": "object", "properties": {"number": {"type": "integer"}}});
        FnTool::from_schema("half", "Halves.", schema, |even: Even| async move {
            (even.0 / 2).to_string()
        })
    };
    assert_eq!(call(half(), json!({"number": 8})).await.text, "4");
    let result = call(half(), json!({"number": 7})).await;
    assert_eq!(result.code, Some("E-CALL-SCHEMA"));
    assert!(
        result.text.ends_with("the number is odd"),
        "{}",
        result.text
    );
}

#[derive(Debug)]
struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It begins like the code of a result and is none.
        f.write_str("E-CALL-SCHEMA: the disk is full")
    }
}

#[tokio::test]
async fn results_are_text_json_and_displayed_errors() {
    #[derive(Serialize)]
    struct Status {
        up: bool,
    }
    let json = FnTool::new("a", "", |(): ()| async { Json(Status { up: true }) });
    assert_eq!(call(json, json!({})).await.text, r#"{"up":true}"#);
    let nested = FnTool::new("a", "", |(): ()| async { Ok::<_, Full>(Json([1, 2])) });
    assert_eq!(call(nested, json!({})).await.text, "[1,2]");
    let value = FnTool::new("a", "", |(): ()| async { json!(null) });
    assert_eq!(call(value, json!({})).await.text, "null");
    let none = FnTool::new("a", "", |(): ()| async {});
    assert_eq!(call(none, json!({})).await.text, "done");
    let failed = FnTool::new("a", "", |(): ()| async { Err::<String, _>(Full) });
    let failed = call(failed, json!({})).await;
    assert!(!failed.ok);
    assert_eq!(failed.text, "E-CALL-SCHEMA: the disk is full");
    assert_eq!(failed.code, None, "the text of a function is no code");
    let coded = FnTool::new("a", "", |(): ()| async {
        ToolResult::error("E-DISK", Full)
    });
    assert_eq!(call(coded, json!({})).await.code, Some("E-DISK"));
}

#[tokio::test]
async fn a_long_result_is_cut_and_says_so() {
    let long = FnTool::new("a", "", |(): ()| async { "word ".repeat(20) }).with_output_limit(12);
    let text = call(long, json!({})).await.text;
    let expected = "word word \n[output cut at 10 bytes; 90 more bytes were dropped]";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_panic_is_a_failed_result() {
    let broken = FnTool::new("a", "", |(): ()| async {
        let empty: Vec<u8> = Vec::new();
        empty.first().unwrap().to_string()
    });
    let result = call(broken, json!({})).await;
    assert!(!result.ok);
    assert_eq!(
        result.text,
        "`a` panicked; the effects of the call are unknown"
    );
}

#[tokio::test]
async fn the_deadline_of_a_call_drops_the_future() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let endless = FnTool::new("a", "", move |(): ()| {
        let guard = Dropped(Arc::clone(&flag));
        async move {
            let _guard = guard;
            pending::<String>().await
        }
    });
    let result = call(endless, json!({"deadline_ms": 50})).await;
    assert_eq!(result.code, Some("E-TOOL-TIMEOUT"));
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_preview_shows_the_typed_arguments_and_hides_no_character() {
    let tool = deploy().with_preview(|args: DeployArgs| format!("deploy\n{}", args.service));
    let arguments = json!({"service": "web\u{1b}[2J"}).to_string();
    let call = ToolCall::new("c1", "deploy", arguments);
    let preview = router(tool).preview(&call).await.unwrap();
    assert_eq!(preview.text, "deploy\nweb\\u{1b}[2J");
    assert_eq!(preview.fingerprint, None);
    assert_eq!(router(deploy()).preview(&call).await, None);
}

#[test]
fn only_a_read_only_tool_runs_beside_others() {
    assert!(deploy().is_exclusive());
    assert!(!deploy().is_read_only());
    let reading = deploy().read_only();
    assert!(reading.is_read_only() && !reading.is_exclusive());
}

#[test]
fn built_in_tools_are_read_only_as_far_as_their_power_says() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Arc::new(Roots::new([folder.path().to_owned()]).unwrap());
    let scope = logue_tools::AccessScope::new(roots);
    for builtin in Builtin::ALL.iter().copied() {
        let tool = builtin.tool(&scope);
        let reads = builtin.power() == BuiltinPower::Reads;
        assert_eq!(tool.is_read_only(), reads, "{builtin:?}");
        let writes = builtin.power() == BuiltinPower::Writes;
        assert_eq!(tool.is_exclusive(), writes, "{builtin:?}");
        for name in builtin.names() {
            assert_eq!(Builtin::declared(name), Some(builtin));
        }
    }
}
