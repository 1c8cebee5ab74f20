//! The operations of the server itself.

use serde_json::json;

use super::operation::Operation;
use crate::chat::access::TokenScope;

const TAG: &str = "Server";

pub(super) fn operations() -> Vec<Operation> {
    let text = json!({"type": "string"});
    let get = |path, id, summary| Operation::new(TAG, "get", path, id, summary);
    vec![
        get("/healthz", "health", "Reports that the process answers").answer_in(
            200,
            "The process answers.",
            "text/plain",
            &text,
        ),
        get(
            "/readyz",
            "ready",
            "Reports whether the server takes requests",
        )
        .answer_in(
            200,
            "The store answers, and the server begins turns.",
            "text/plain",
            &text,
        )
        .problem(503, "store_unavailable")
        .problem(503, "server_draining")
        .problem(500, "store_corrupt"),
        get(
            "/metrics",
            "metrics",
            "Returns metrics in the text format of Prometheus",
        )
        .scope(TokenScope::Read)
        .answer_in(200, "The metrics.", "text/plain", &text),
        get("/openapi.json", "openapi", "Returns this document").answer(
            200,
            "The document.",
            &json!({"type": "object"}),
        ),
        get("/docs", "docs", "Returns a page of this document").answer_in(
            200,
            "The page.",
            "text/html",
            &text,
        ),
        get("/v1/agents", "listAgents", "Lists the agents")
            .scope(TokenScope::Read)
            .answer(
                200,
                "The agents.",
                &json!({"$ref": "#/components/schemas/Agents"}),
            ),
    ]
}
