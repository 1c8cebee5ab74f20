//! The operations of sessions and signals.

use serde_json::{Value, json};

use super::operation::Operation;
use crate::chat::access::TokenScope;

const SESSIONS: &str = "Sessions";
const SIGNALS: &str = "Signals";

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = sessions();
    operations.extend(turns());
    operations.extend(signals());
    operations
}

fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(SESSIONS, "get", path, id, summary).scope(TokenScope::Read)
}

fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(SESSIONS, "post", path, id, summary).scope(TokenScope::Send)
}

fn followed_sessions() -> Operation {
    get(
            "/v1/events",
            "followSeveralEvents",
            "Streams the events of several sessions",
        )
        .query(
            "session",
            &json!({"type": "array", "minItems": 1, "maxItems": 64, "items": {"type": "string"}}),
            "A session with the id of its last received event, as `ID:EVENT`; `ID:` begins with the next event.",
        )
        .answer_in(
            200,
            "Events without end, each with its `session`, `id` and `event`.",
            "text/event-stream",
            &json!({"type": "string"}),
        )
}

fn removed_session() -> Operation {
    Operation::new(
        SESSIONS,
        "delete",
        "/v1/sessions/{session}",
        "removeSession",
        "Removes a session",
    )
    .scope(TokenScope::Send)
    .answer_in(204, "The session is removed.", "", &Value::Null)
    .of_session()
    .problem(404, "session_not_found")
    .problem(409, "session_busy")
}

fn sessions() -> Vec<Operation> {
    let limit = json!({"type": "integer", "minimum": 0});
    vec![
        get(
            "/v1/sessions",
            "listSessions",
            "Lists the sessions, the latest first",
        )
        .query(
            "agent",
            &json!({"type": "string"}),
            "Lists sessions of this agent only.",
        )
        .query(
            "limit",
            &limit,
            "The number of sessions; 100 by default, at most 1000.",
        )
        .query(
            "search",
            &json!({"type": "string"}),
            "Lists sessions with a visible message that contains all these words.",
        )
        .query(
            "titles",
            &json!({"type": "boolean"}),
            "Whether each session has a title: the first line of its first message.",
        )
        .answer(200, "The sessions.", &schema("Sessions")),
        get(
            "/v1/sessions/{session}",
            "showSession",
            "Returns the state of a session",
        )
        .answer(200, "The session.", &schema("SessionState"))
        .problem(404, "session_not_found"),
        removed_session(),
        get(
            "/v1/sessions/{session}/messages",
            "listMessages",
            "Returns a page of a history",
        )
        .query(
            "before",
            &limit,
            "The position after the last message of the page.",
        )
        .query(
            "limit",
            &limit,
            "The number of messages; 100 by default, at most 1000.",
        )
        .query(
            "form",
            &json!({"enum": ["json", "nodes"]}),
            "`nodes` adds the position of each message and the nodes of its Markdown.",
        )
        .query(
            "view",
            &json!({"enum": ["visible", "debug"]}),
            "`debug` contains hidden messages; requires the scope `debug` and a server that allows it.",
        )
        .answer(200, "The messages of the page.", &schema("Messages"))
        .problem(403, "debug_view_disabled")
        .problem(404, "session_not_found"),
        get(
            "/v1/sessions/{session}/events",
            "followEvents",
            "Streams the events of a session",
        )
        .query(
            "after",
            &json!({"type": "string"}),
            "The id of the last received event.",
        )
        .header(
            "Last-Event-ID",
            &json!({"type": "string"}),
            "The id of the last received event; takes precedence over `after`.",
        )
        .answer_in(
            200,
            "Events without end, each an `Event` in JSON.",
            "text/event-stream",
            &json!({"type": "string"}),
        )
        .problem(404, "session_not_found"),
        followed_sessions(),
    ]
}

/// Adds the answers of an operation that waits for a turn, or streams it.
fn turn_answers(operation: Operation) -> Operation {
    operation
        .turn()
        .answer(
            200,
            "The turn has ended, or its events follow.",
            &schema("TurnCompleted"),
        )
        .answer_in(200, "", "text/event-stream", &json!({"type": "string"}))
        .answer(
            202,
            "The turn waits for a decision.",
            &schema("TurnSuspended"),
        )
}

fn turns() -> Vec<Operation> {
    let key = json!({"type": "string", "minLength": 1, "maxLength": 255,
        "pattern": "^[!-~]+$"});
    vec![
        turn_answers(post(
            "/v1/sessions/{session}/send",
            "send",
            "Sends a message",
        ))
        .header(
            "Idempotency-Key",
            &key,
            "A message with a known key is not sent again.",
        )
        .body(&schema("SendRequest"), true)
        .problem(400, "chat_message_shape_invalid")
        .problem(404, "session_not_found")
        .problem(404, "agent_not_found")
        .problem(409, "agent_differs"),
        post(
            "/v1/sessions/{session}/cancel",
            "cancel",
            "Cancels the running turn",
        )
        .body(&schema("CancelRequest"), false)
        .answer(
            200,
            "The request is recorded.",
            &json!({"type": "object",
                "required": ["cancelling"], "properties": {"cancelling": {"type": "boolean"}}}),
        )
        .of_session()
        .problem(404, "session_not_found"),
        turn_answers(post(
            "/v1/sessions/{session}/retry",
            "retry",
            "Repeats the last turn, if it failed",
        ))
        .problem(404, "session_not_found")
        .problem(409, "nothing_to_retry"),
        post("/v1/sessions/{session}/fork", "fork", "Copies a session")
            .body(&schema("ForkRequest"), false)
            .answer(201, "The copy.", &schema("Branch"))
            .of_session()
            .problem(503, "server_draining")
            .problem(404, "session_not_found")
            .problem(409, "session_exists")
            .problem(409, "session_busy")
            .problem(422, "step_invalid"),
        turn_answers(post(
            "/v1/sessions/{session}/rerun",
            "rerun",
            "Copies a session and asks the model again at a step",
        ))
        .body(&schema("RerunRequest"), true)
        .answer(
            201,
            "The copy, in which no turn is left to run.",
            &schema("Branch"),
        )
        .problem(404, "session_not_found")
        .problem(409, "session_exists")
        .problem(422, "step_invalid"),
    ]
}

fn signals() -> Vec<Operation> {
    let waiting = schema("WaitingTurn");
    vec![
        Operation::new(
            SIGNALS,
            "get",
            "/v1/signals",
            "listSignals",
            "Lists the turns that wait for a decision",
        )
        .scope(TokenScope::Read)
        .answer(
            200,
            "The turns.",
            &json!({"type": "object", "required": ["signals"],
                "properties": {"signals": {"type": "array", "items": waiting}}}),
        ),
        Operation::new(
            SIGNALS,
            "get",
            "/v1/signals/{signal}",
            "showSignal",
            "Returns a turn that waits for a decision",
        )
        .scope(TokenScope::Read)
        .answer(200, "The turn.", &waiting)
        .of_session()
        .problem(404, "signal_not_found"),
        turn_answers(
            Operation::new(
                SIGNALS,
                "post",
                "/v1/signals/{signal}",
                "decide",
                "Decides about the calls of a turn",
            )
            .scope(TokenScope::Approve),
        )
        .body(&schema("Decision"), true)
        .problem(404, "signal_not_found")
        .problem(404, "harness_signal_correlation_failed")
        .problem(409, "signal_contradicts_earlier")
        .problem(409, "harness_path_classification_ambiguous")
        .problem(422, "suspension_resume_payload_invalid"),
    ]
}
