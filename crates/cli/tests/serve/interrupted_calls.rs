//! Calls that ran when their server was killed, in the streams of other APIs.

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<tool name=\"work\" command=\"sh work.sh\"/>\n";
const CANCELLED: &str = "E-TOOL-CANCELLED";

struct Scene {
    folder: TempDir,
    model: ModelServer,
}

impl Scene {
    fn new() -> Self {
        let replies = vec![
            Reply::Answer(Answer::text("before").with_call("c1", "work", "{}")),
            Reply::Answer(Answer::text("the answer")),
        ];
        Self {
            folder: folder(&[("agent.md", AGENT), ("work.sh", "sleep 60\n")]),
            model: ModelServer::start(replies, Delivery::Whole).unwrap(),
        }
    }

    fn serve(&self) -> Served {
        let mut command = logue(self.folder.path());
        command.env("OPENAI_BASE_URL", self.model.base_url());
        Served::start_with(command, &["agent.md", "--permission", "work=allow"])
    }
}

fn events(answer: &Answered) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let data = answer.text.lines();
    let data = data.filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn position(events: &[Value], is_it: impl Fn(&Value) -> bool) -> usize {
    let found = events.iter().position(is_it);
    found.unwrap_or_else(|| panic!("{events:#?}"))
}

#[test]
fn a_response_ends_each_item_once_and_where_it_began() {
    let scene = Scene::new();
    let served = scene.serve();
    let body = json!({"model": "agent", "input": "go", "stream": true}).to_string();
    let headers = [("idempotency-key", "k")];
    let path = "/v1/responses";
    let mut stream = served.try_events("POST", path, &headers, &body).unwrap();
    stream.until("response.mcp_call.in_progress");
    served.kill();
    let served = scene.serve();
    let answer = served.request("POST", path, &headers, &body);
    let events = events(&answer);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed", "{last}");
    let items = |kind: &str| -> Vec<(u64, Value)> {
        let own = events.iter().filter(|event| event["type"] == kind);
        own.map(|event| {
            let index = event["output_index"].as_u64().unwrap();
            (index, event["item"]["id"].clone())
        })
        .collect()
    };
    let added = items("response.output_item.added");
    let numbers: Vec<u64> = added.iter().map(|(index, _)| *index).collect();
    assert_eq!(numbers, [0, 1, 2], "{events:#?}");
    assert_eq!(items("response.output_item.done"), added, "{events:#?}");
    let output = last["response"]["output"].as_array().unwrap();
    let ids: Vec<Value> = output.iter().map(|item| item["id"].clone()).collect();
    let sent: Vec<Value> = added.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, sent);
    let call = &output[1];
    assert_eq!(
        (&call["type"], &call["status"]),
        (&json!("mcp_call"), &json!("failed"))
    );
    assert!(call["error"].to_string().contains(CANCELLED), "{call}");
    let failed = position(&events, |event| event["type"] == "response.mcp_call.failed");
    assert_eq!(events[failed]["item_id"], call["id"]);
    assert_eq!(&events[failed + 1]["item"], call);
    assert_eq!(output[2]["content"][0]["text"], "the answer");
}

#[test]
fn a_run_has_the_result_before_the_answer_that_follows_it() {
    let scene = Scene::new();
    let served = scene.serve();
    let body = json!({"threadId": "t1", "runId": "r1", "tools": [], "context": [], "state": {},
        "forwardedProps": {}, "messages": [{"id": "u1", "role": "user", "content": "go"}]});
    let body = body.to_string();
    let path = "/v1/ag-ui/agent";
    let mut run = served.try_events("POST", path, &[], &body).unwrap();
    run.until("TOOL_CALL_END");
    let mut log = served.events("GET", "/v1/sessions/t1/events", Some("0-1"), "");
    log.until("tool.started");
    served.kill();
    let served = scene.serve();
    let events = events(&served.request("POST", path, &[], &body));
    let result = position(&events, |event| event["type"] == "TOOL_CALL_RESULT");
    let content = events[result]["content"].as_str().unwrap();
    assert!(content.starts_with(CANCELLED), "{content}");
    let answer = position(&events, |event| event["delta"] == "the answer");
    assert!(result < answer, "{events:#?}");
    let results = events
        .iter()
        .filter(|event| event["type"] == "TOOL_CALL_RESULT");
    assert_eq!(results.count(), 1, "{events:#?}");
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
}
