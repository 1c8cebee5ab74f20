//! Notes of people who approve calls: the model receives them with the results.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<tool name=\"work\" command=\"printf done\"/>\n";
const NOTE: &str = "only this \"one\"";
const SAID: &str = "A person approved this call and said: \"only this \\\"one\\\"\"";

/// Serves an agent whose first answer calls the tool.
fn serve() -> (tempfile::TempDir, ModelServer, Served) {
    let replies = vec![
        Reply::Answer(Answer::text("").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md", "--permission", "work=ask"]);
    (folder, model, served)
}

/// The results of calls that the model received with a request.
fn results(model: &ModelServer, request: usize) -> Vec<String> {
    let received = model.received();
    let messages = received[request].body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let text = |message: &Value| message["content"].as_str().unwrap().to_owned();
    results.map(text).collect()
}

/// The longest part of a note that the model receives, in bytes.
const LIMIT: usize = 4_096;

/// Returns a note that is longer than the limit, which is in a letter of two bytes, and its kept part.
fn long_note() -> (String, String) {
    let note = format!("x{}", "é".repeat(LIMIT));
    let kept = format!("x{}…", "é".repeat(LIMIT / 2 - 1));
    (note, kept)
}

/// Returns the beginning of the result of a call whose approval has a note.
fn opening(note: &str) -> String {
    format!("A person approved this call and said: \"{note}\"\n\ndone\n")
}

/// Begins a turn and returns the answer of a client that decides by a signal.
fn decide(served: &Served, session: &str, note: &str) -> Answered {
    let path = format!("/v1/sessions/{session}/send");
    let sent = served.post(&path, &json!({"message": "go"}));
    assert_eq!(sent.status, 202, "{sent:?}");
    let id = sent.json()["signal"]["signal_id"].clone();
    let path = format!("/v1/signals/{}", id.as_str().unwrap());
    served.post(&path, &json!({"approval": "approve", "note": note}))
}

/// Begins a run and returns the answer of an AG-UI client that decides.
fn resume(served: &Served, payload: &Value) -> Answered {
    let input = |run: &str, messages: Value| {
        json!({"threadId": "t1", "runId": run, "messages": messages, "tools": [],
            "context": [], "state": {}, "forwardedProps": {}})
    };
    let user = json!([{"id": "u1", "role": "user", "content": "go"}]);
    let sent = served.post("/v1/ag-ui/agent", &input("r1", user)).text;
    let mut data = sent.lines().filter_map(|line| line.strip_prefix("data: "));
    let last: Value = serde_json::from_str(data.next_back().unwrap()).unwrap();
    let id = &last["outcome"]["interrupts"][0]["id"];
    let mut answer = input("r2", json!([]));
    answer["resume"] = json!([{"interruptId": id, "status": "resolved", "payload": payload}]);
    served.post("/v1/ag-ui/agent", &answer)
}

/// Begins a response and returns the one that continues it by an approval.
fn respond(served: &Served, reason: &str) -> Answered {
    let first = served.post("/v1/responses", &json!({"model": "agent", "input": "go"}));
    assert_eq!(first.status, 200, "{first:?}");
    let first = first.json();
    let request = &first["output"].as_array().unwrap().last().unwrap()["id"];
    let approval = json!({"type": "mcp_approval_response", "approve": true, "reason": reason,
        "approval_request_id": request});
    let decided = json!({"model": "agent", "previous_response_id": first["id"],
        "input": [approval]});
    served.post("/v1/responses", &decided)
}

#[test]
fn the_beginning_of_a_long_note_reaches_the_model_from_every_outlet() {
    let (note, kept) = long_note();
    let exact = "y".repeat(LIMIT);
    for (note, kept) in [(&note, &kept), (&exact, &exact)] {
        let outlets: [fn(&Served, &str) -> Answered; 3] = [
            |served, note| decide(served, "s1", note),
            |served, note| resume(served, &json!({"approved": true, "note": note})),
            respond,
        ];
        for (number, outlet) in outlets.into_iter().enumerate() {
            let (_folder, model, served) = serve();
            let decided = outlet(&served, note);
            assert_eq!(decided.status, 200, "{decided:?}");
            assert!(decided.text.contains("finished"), "{decided:?}");
            let results = results(&model, 1);
            assert!(
                results[0].starts_with(&opening(kept)),
                "outlet {number}: {results:?}"
            );
        }
    }
}

#[test]
fn the_note_of_a_signal_is_a_part_of_the_stored_result() {
    let (_folder, model, served) = serve();
    let done = decide(&served, "s1", NOTE);
    assert_eq!(done.status, 200, "{done:?}");
    let expected = [format!("{SAID}\n\ndone\n[exit status 0]")];
    assert_eq!(results(&model, 1), expected);
    // The next turn sends the history as it is stored.
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "more"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    assert_eq!(results(&model, 2), expected);
}

#[test]
fn the_note_of_an_ag_ui_client_follows_the_edited_arguments() {
    for edited in [None, Some(json!({"arguments": ["x"]}))] {
        let (_folder, model, served) = serve();
        let mut payload = json!({"approved": true, "note": NOTE});
        if let Some(edited) = &edited {
            payload["editedArgs"] = edited.clone();
        }
        let resumed = resume(&served, &payload);
        assert!(resumed.text.contains("finished"), "{resumed:?}");
        let replaced = edited
            .map(|edited| format!("A person replaced the arguments of this call with: {edited}\n"));
        let results = results(&model, 1);
        let opening = format!("{}{SAID}\n\n", replaced.unwrap_or_default());
        assert!(results[0].starts_with(&opening), "{results:?}");
    }
}

#[test]
fn the_reason_of_an_approval_response_reaches_the_model() {
    let (_folder, model, served) = serve();
    let decided = respond(&served, NOTE);
    assert_eq!(decided.status, 200, "{decided:?}");
    assert_eq!(
        results(&model, 1),
        [format!("{SAID}\n\ndone\n[exit status 0]")]
    );
}
