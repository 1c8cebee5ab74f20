//! The operations of the Responses API.

use serde_json::{Value, json};

use super::operation::{ErrorForm, Operation};
use crate::chat::access::TokenScope;

const TAG: &str = "OpenAI-compatible";

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = responses();
    operations.extend(conversations());
    operations
}

fn operation(
    (method, path): (&'static str, &'static str),
    id: &'static str,
    summary: &'static str,
) -> Operation {
    let scope = match method {
        "get" => TokenScope::Read,
        _ => TokenScope::Send,
    };
    Operation::new(TAG, method, path, id, summary)
        .scope(scope)
        .errors(ErrorForm::OpenAi)
}

/// Returns the schema of an object with these members.
fn object(members: &[&str]) -> Value {
    json!({"type": "object", "required": members})
}

fn responses() -> Vec<Operation> {
    let text = json!({"type": "string"});
    let response = object(&["id", "object", "status", "output"]);
    vec![
        operation(("post", "/v1/responses"), "createResponse", "Answers input")
            .turn()
            .header(
                "Idempotency-Key",
                &json!({"type": "string", "minLength": 1, "maxLength": 255}),
                "The same request under the same key gets the first response, or 410 after it was deleted.",
            )
            .body(
                &json!({"type": "object", "required": ["model", "input"]}),
                true,
            )
            .answer(200, "The response.", &response)
            .answer_in(200, "", "text/event-stream", &text)
            .problem(404, "agent_not_found")
            .problem(404, "response_not_found")
            .problem(404, "conversation_not_found")
            .problem(409, "conversation_locked")
            .problem(410, "response_deleted")
            .problem(422, "structured_output_invalid")
            .problem(409, "agent_differs"),
        operation(
            ("get", "/v1/responses/{response}"),
            "showResponse",
            "Returns a response, or its events",
        )
        .query(
            "stream",
            &json!({"type": "string"}),
            "`true` streams the events.",
        )
        .query(
            "starting_after",
            &json!({"type": "string"}),
            "The number of the last received event.",
        )
        .answer(200, "The response.", &response)
        .answer_in(200, "", "text/event-stream", &text)
        .problem(404, "response_not_found"),
        operation(
            ("delete", "/v1/responses/{response}"),
            "removeResponse",
            "Removes a response from the lists; its session remains",
        )
        .answer(200, "The removal.", &object(&["id", "deleted"]))
        .of_session()
        .problem(404, "response_not_found")
        .problem(409, "session_busy"),
        operation(
            ("post", "/v1/responses/{response}/cancel"),
            "cancelResponse",
            "Ends a response that runs or waits",
        )
        .answer(200, "The response.", &response)
        .of_session()
        .problem(404, "response_not_found"),
        operation(
            ("get", "/v1/responses/{response}/input_items"),
            "listInputItems",
            "Lists the input of a response",
        )
        .answer(200, "The items.", &object(&["object", "data"]))
        .problem(404, "response_not_found"),
    ]
}

fn conversations() -> Vec<Operation> {
    let conversation = object(&["id", "object"]);
    vec![
        operation(
            ("post", "/v1/conversations"),
            "createConversation",
            "Creates a conversation",
        )
        .body(&json!({"type": "object"}), false)
        .answer(200, "The conversation.", &conversation),
        operation(
            ("get", "/v1/conversations/{conversation}"),
            "showConversation",
            "Returns a conversation",
        )
        .answer(200, "The conversation.", &conversation)
        .problem(404, "conversation_not_found"),
        operation(
            ("delete", "/v1/conversations/{conversation}"),
            "removeConversation",
            "Removes a conversation",
        )
        .answer(200, "The removal.", &object(&["id", "deleted"]))
        .of_session()
        .problem(404, "conversation_not_found")
        .problem(409, "session_busy"),
        operation(
            ("get", "/v1/conversations/{conversation}/items"),
            "listConversationItems",
            "Lists the items of a conversation",
        )
        .answer(200, "The items.", &object(&["object", "data"]))
        .problem(404, "conversation_not_found"),
    ]
}
