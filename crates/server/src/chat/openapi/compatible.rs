//! The operations of other APIs that the server offers.

use serde_json::{Value, json};

use super::operation::{ErrorForm, Operation};
use crate::chat::access::TokenScope;

const TAG: &str = "OpenAI-compatible";

pub(super) fn operations() -> Vec<Operation> {
    let text = json!({"type": "string"});
    vec![
        Operation::new(
            TAG,
            "get",
            "/v1/models",
            "listModels",
            "Lists the agents as models",
        )
        .scope(TokenScope::Read)
        .errors(ErrorForm::OpenAi)
        .answer(
            200,
            "The models.",
            &json!({"type": "object",
                "required": ["object", "data"], "properties": {
                    "object": {"const": "list"},
                    "data": {"type": "array", "items": {"type": "object",
                        "required": ["id", "object"]}}}}),
        ),
        Operation::new(
            TAG,
            "get",
            "/v1/models/{model}",
            "showModel",
            "Shows an agent as a model",
        )
        .scope(TokenScope::Read)
        .errors(ErrorForm::OpenAi)
        .answer(
            200,
            "The model.",
            &json!({"type": "object", "required": ["id", "object"]}),
        )
        .problem(404, "agent_not_found"),
        Operation::new(
            TAG,
            "post",
            "/v1/chat/completions",
            "createChatCompletion",
            "Answers a conversation",
        )
        .scope(TokenScope::Send)
        .errors(ErrorForm::OpenAi)
        .turn()
        .header(
            "X-Logue-Session",
            &json!({"type": "string", "minLength": 1}),
            "The session that contains the conversation; without it the request is stateless, \
             or continues the session with its history.",
        )
        .header(
            "Idempotency-Key",
            &json!({"type": "string", "minLength": 1, "maxLength": 255}),
            "The same request under the same key gets the first answer; a stateless one for 10 \
             minutes after its end, from the same process.",
        )
        .body(
            &json!({"$ref": "#/components/schemas/ChatCompletionRequest"}),
            true,
        )
        .answer(
            200,
            "The answer, or its chunks.",
            &json!({"type": "object",
                "required": ["id", "object", "created", "model", "choices"]}),
        )
        .answer_in(200, "", "text/event-stream", &text)
        .answer_header(
            200,
            "X-Logue-Conversation",
            "`stateless`, `created`, `appended` or `forked`.",
        )
        .answer_header(
            200,
            "X-Logue-Session",
            "The session that contains the conversation.",
        )
        .answer_header(
            200,
            "X-Logue-Signal",
            "The signal for which the turn waits.",
        )
        .problem(404, "agent_not_found")
        .problem(404, "session_not_found")
        .problem(409, "agent_differs"),
        ag_ui(&text),
    ]
}

fn ag_ui(text: &Value) -> Operation {
    Operation::new(
        "AG-UI",
        "post",
        "/v1/ag-ui/{agent}",
        "runAgent",
        "Runs an agent; `resume` requires the scope `approve`, and no message `read`",
    )
    .scope(TokenScope::Send)
    .body(&json!({"$ref": "#/components/schemas/RunInput"}), true)
    .answer_in(200, "The events of the run.", "text/event-stream", text)
    .problem(404, "agent_not_found")
    .problem(404, "session_not_found")
    .problem(409, "agent_differs")
}
