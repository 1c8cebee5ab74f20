//! Edited approvals through the library: a signal, and an approver.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logue_agent::{
    Agent, AgentBuilder, ApprovalRequest, ApprovalResponse, Approver, NoListener, NoTranscript,
    Permission, TurnEnd, edited_approval_payload,
};
use logue_harness::chat::{ChatTurnOutcome, Redact, SignalTarget};
use logue_harness::store::{
    Commit, Lease, LeaseResult, MemoryStore, Store, StoreLayer, StoreResult,
};
use logue_harness::{BoxFuture, Clock as _, SystemClock};
use logue_message::{ChatMessage, ToolDefinition};
use logue_model::{EndpointOptions, HttpProvider, WireFormat};
use logue_tools::{FnTool, Tool, ToolInvocation, ToolResult};
use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Reply};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Deploy {
    service: String,
}

type Deployed = Arc<Mutex<Vec<String>>>;

fn server() -> ModelServer {
    let call = Answer::text("").with_call("c1", "deploy", r#"{"service":"db"}"#);
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn agent(server: &ModelServer) -> (AgentBuilder, Deployed) {
    let deployed = Deployed::default();
    let log = Arc::clone(&deployed);
    let deploy = move |arguments: Deploy| {
        let log = Arc::clone(&log);
        async move {
            log.lock().unwrap().push(arguments.service);
            Ok::<_, io::Error>("deployed")
        }
    };
    let options = EndpointOptions::new(server.base_url());
    let model = HttpProvider::new(WireFormat::Chat, options).unwrap();
    let agent = Agent::builder(Arc::new(model), "m")
        .tool(FnTool::new("deploy", "Deploys a service.", deploy))
        .permission("deploy", Permission::Ask);
    (agent, deployed)
}

#[tokio::test]
async fn a_signal_replaces_the_arguments_of_a_call() {
    let server = server();
    let (agent, deployed) = agent(&server);
    let agent = agent.build().unwrap();
    let chat = agent.sessions(Arc::new(MemoryStore::new())).unwrap();
    let outcome = chat.send("s", ChatMessage::user("go")).await;
    let ChatTurnOutcome::Suspended(turn) = outcome else {
        panic!("{outcome:?}");
    };
    let target = SignalTarget::Signal(&turn.signal_descriptor.signal_id);
    let edit = |value| edited_approval_payload([("c1".to_owned(), value)]);
    for invalid in [
        json!({"service": 1}),
        json!({}),
        json!("{\"service\":"),
        json!(1),
    ] {
        let refused = chat.signal(target, edit(invalid)).await.unwrap_err();
        assert_eq!(refused.category(), "suspension_resume_payload_invalid");
    }
    assert!(deployed.lock().unwrap().is_empty());
    let outcome = chat.signal(target, edit(json!({"service": "web"}))).await;
    let ChatTurnOutcome::Completed(turn) = outcome.unwrap() else {
        panic!("the turn is not complete");
    };
    assert_eq!(*deployed.lock().unwrap(), ["web"]);
    let result = &turn.replies[turn.replies.len() - 2];
    let text =
        "A person replaced the arguments of this call with: {\"service\":\"web\"}\n\ndeployed";
    assert_eq!(result.text(), text);
    let other = chat.signal(target, edit(json!({"service": "mail"}))).await;
    let category = other.unwrap_err().category();
    assert_eq!(category, "signal_contradicts_earlier");
    assert_eq!(*deployed.lock().unwrap(), ["web"]);
}

/// A store that does not answer once its turns end.
#[derive(Default)]
struct Stuck {
    inner: MemoryStore,
    is_stuck: AtomicBool,
}

impl StoreLayer for Stuck {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        operation(&self.inner)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        if self.is_stuck.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        Store::commit(&self.inner, lease, commit)
    }
}

/// The answer of a turn may be in its journal when its process dies.
#[tokio::test]
async fn no_decision_stays_in_a_session_whose_process_died_after_the_answer() {
    let server = server();
    let (agent, deployed) = agent(&server);
    let agent = agent.build().unwrap();
    let store = Arc::new(Stuck::default());
    let chat = agent.sessions(Arc::<Stuck>::clone(&store)).unwrap();
    let outcome = chat.send("s", ChatMessage::user("go")).await;
    let ChatTurnOutcome::Suspended(turn) = outcome else {
        panic!("{outcome:?}");
    };
    let target = SignalTarget::Signal(&turn.signal_descriptor.signal_id);
    let edit = edited_approval_payload([("c1".to_owned(), json!({"service": "web"}))]);
    store.is_stuck.store(true, Ordering::SeqCst);
    let signalled = tokio::time::timeout(Duration::from_secs(2), chat.signal(target, edit));
    assert!(signalled.await.is_err(), "the turn ended");
    assert_eq!(server.received().len(), 2);
    store.is_stuck.store(false, Ordering::SeqCst);
    assert_eq!(chat.recover("s").await.unwrap(), Some(1));
    assert_eq!(server.received().len(), 2, "the model was asked again");
    assert_eq!(*deployed.lock().unwrap(), ["web"]);
    let info = Store::session(&*store, "s").await.unwrap().unwrap();
    for field in ["approval", "edits"] {
        let value = info.fields.get(field).unwrap_or(&serde_json::Value::Null);
        assert!(value.is_null(), "{field}: {value}");
    }
}

/// A turn that is given up after its answer says its message again; its calls ask again.
#[tokio::test]
async fn a_signal_is_given_again_to_a_turn_that_was_given_up_after_its_answer() {
    let call = Answer::text("").with_call("c1", "deploy", r#"{"service":"db"}"#);
    let answers = vec![call.clone(), Answer::text("done"), call];
    let replies = answers.into_iter().map(Reply::Answer).collect();
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let (agent, deployed) = agent(&server);
    let agent = agent.build().unwrap();
    let store = Arc::new(Stuck::default());
    let chat = agent.sessions(Arc::<Stuck>::clone(&store)).unwrap();
    let outcome = chat.send("s", ChatMessage::user("go")).await;
    let ChatTurnOutcome::Suspended(turn) = outcome else {
        panic!("{outcome:?}");
    };
    let first = turn.signal_descriptor.signal_id;
    let edit = || edited_approval_payload([("c1".to_owned(), json!({"service": "web"}))]);
    let seconds = Duration::from_secs(1);
    store.is_stuck.store(true, Ordering::SeqCst);
    let signalled =
        tokio::time::timeout(seconds, chat.signal(SignalTarget::Signal(&first), edit()));
    assert!(signalled.await.is_err(), "the turn ended");
    for _ in 0..3 {
        let recovered = tokio::time::timeout(seconds, chat.recover("s"));
        assert!(recovered.await.is_err(), "the turn ended");
    }
    store.is_stuck.store(false, Ordering::SeqCst);
    assert_eq!(chat.recover("s").await.unwrap(), Some(1));
    let unfinished = chat.unfinished("s").await.unwrap().unwrap();
    assert_eq!(unfinished.error_category, "turn_interrupted");
    let again = chat.signal(SignalTarget::Signal(&first), edit()).await;
    let ChatTurnOutcome::Suspended(turn) = again.unwrap() else {
        panic!("the repeated call ran");
    };
    assert_ne!(turn.signal_descriptor.signal_id, first);
    assert_eq!(*deployed.lock().unwrap(), ["web"]);
    let request = server.received().pop().unwrap().body.to_string();
    assert!(request.contains("go"), "{request}");
}

/// Edits every call, after an edit that is not accepted.
struct Editor;

impl Approver for Editor {
    fn ask<'a>(&'a self, question: ApprovalRequest<'a>) -> BoxFuture<'a, Option<ApprovalResponse>> {
        Box::pin(async move {
            let invalid = question.edited("{\"service\": []}").await.unwrap_err();
            assert!(invalid.to_string().contains("/service"), "{invalid}");
            let edited = question.edited("{ \"service\": \"web\" }").await.unwrap();
            assert_eq!(edited.arguments.as_str(), "{\"service\":\"web\"}");
            Some(ApprovalResponse::new(true).with_edit(edited))
        })
    }
}

#[tokio::test]
async fn an_approver_replaces_the_arguments_of_a_call() {
    for envelope in [false, true] {
        let server = server();
        let (agent, deployed) = agent(&server);
        let agent = agent.approver(Arc::new(Editor)).build().unwrap();
        let mut turn = agent.turn(vec![ChatMessage::user("go")], Box::new(NoTranscript));
        turn.assistant.routing.envelope = envelope;
        let ended = turn.run(Arc::new(NoListener), None).await.unwrap();
        let TurnEnd::Completed(report) = ended else {
            panic!("the turn waits");
        };
        assert_eq!(*deployed.lock().unwrap(), ["web"]);
        assert_eq!(
            report.replies[0].tool_calls[0].arguments.as_str(),
            "{\"service\":\"db\"}"
        );
        let result = report.replies[1].text();
        let notice = "A person replaced the arguments of this call with: ";
        if envelope {
            let result: serde_json::Value = serde_json::from_str(&result).unwrap();
            assert_eq!(result["content"], "deployed");
            assert_eq!(result["notice"], format!("{notice}{{\"service\":\"web\"}}"));
        } else {
            assert!(result.starts_with(notice), "{result}");
        }
    }
}

/// A tool whose calls for `web` depend on content outside the arguments.
struct Bound {
    definition: ToolDefinition,
    content: Arc<Mutex<String>>,
    deployed: Deployed,
}

impl Tool for Bound {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let arguments = call.arguments.as_str().to_owned();
        self.deployed.lock().unwrap().push(arguments);
        Box::pin(std::future::ready(ToolResult::success("deployed")))
    }

    fn fingerprint<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, Option<String>> {
        let depends = call.arguments.as_str().contains("web");
        let content = depends.then(|| self.content.lock().unwrap().clone());
        Box::pin(std::future::ready(content))
    }
}

#[tokio::test]
async fn an_edit_is_bound_when_its_signal_is_accepted() {
    for changed in [false, true] {
        let server = server();
        let (content, deployed) = (Arc::new(Mutex::new("v1".to_owned())), Deployed::default());
        let tool = Bound {
            definition: ToolDefinition::new("deploy", "Deploys.", json!({"type": "object"})),
            content: Arc::clone(&content),
            deployed: Arc::clone(&deployed),
        };
        let options = EndpointOptions::new(server.base_url());
        let model = HttpProvider::new(WireFormat::Chat, options).unwrap();
        let agent = Agent::builder(Arc::new(model), "m")
            .tool(tool)
            .permission("deploy", Permission::Ask)
            .build()
            .unwrap();
        let store = Arc::new(MemoryStore::new());
        let chat = agent.sessions(store.clone()).unwrap();
        let outcome = chat.send("s", ChatMessage::user("go")).await;
        let ChatTurnOutcome::Suspended(turn) = outcome else {
            panic!("{outcome:?}");
        };
        // Another owner of the session delays the turn after the signal is accepted.
        let now = SystemClock.now();
        let lease = store
            .acquire("s", "other", now, Duration::from_secs(60))
            .await;
        let LeaseResult::Lease(lease) = lease.unwrap() else {
            panic!("the session is busy");
        };
        let signalled = tokio::spawn(async move {
            let target = SignalTarget::Signal(&turn.signal_descriptor.signal_id);
            let edit = [("c1".to_owned(), json!({"service": "web"}))];
            chat.signal(target, edited_approval_payload(edit)).await
        });
        while store.inbox("s").await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        if changed {
            "v2".clone_into(&mut content.lock().unwrap());
        }
        store.release(&lease).await.unwrap();
        let outcome = signalled.await.unwrap().unwrap();
        let ChatTurnOutcome::Completed(turn) = outcome else {
            panic!("{outcome:?}");
        };
        let result = turn.replies[turn.replies.len() - 2].text();
        assert_eq!(result.contains("approval_stale"), changed, "{result}");
        assert_eq!(deployed.lock().unwrap().is_empty(), changed);
    }
}

/// Replaces a service of the tests.
struct Service;

impl Redact for Service {
    fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.contains("db") {
            Cow::Owned(text.replace("db", "[redacted:service]"))
        } else {
            Cow::Borrowed(text)
        }
    }
}

#[tokio::test]
async fn only_the_tool_receives_what_a_redaction_replaces() {
    let server = server();
    let (agent, deployed) = agent(&server);
    let agent = agent.permission("deploy", Permission::Allow);
    let agent = agent.redaction(Arc::new(Service)).build().unwrap();
    let store = Arc::new(MemoryStore::new());
    let chat = agent.sessions(store.clone()).unwrap();
    let outcome = chat.send("s", ChatMessage::user("deploy db")).await;
    assert!(
        matches!(outcome, ChatTurnOutcome::Completed(_)),
        "{outcome:?}"
    );
    assert_eq!(*deployed.lock().unwrap(), ["db"]);
    let history = store.history("s", 0, 9).await.unwrap();
    let stored = serde_json::Value::from(history).to_string();
    assert!(!stored.contains("db"), "{stored}");
    for request in server.received() {
        let sent = request.body["messages"].to_string();
        assert!(!sent.contains("db"), "{sent}");
    }
}
