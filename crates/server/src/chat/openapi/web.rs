//! The operations of the web page.

use serde_json::{Value, json};

use super::operation::Operation;
use crate::chat::access::TokenScope;

const TAG: &str = "Web page";

pub(super) fn operations() -> Vec<Operation> {
    let text = json!({"type": "string"});
    let get = |path, id, summary| Operation::new(TAG, "get", path, id, summary);
    let post = |path, id, summary| Operation::new(TAG, "post", path, id, summary);
    let token = json!({"type": "object", "required": ["token"],
        "properties": {"token": {"type": ["string", "null"]}}});
    vec![
        get("/", "page", "Returns the web page")
            .answer_in(200, "The page.", "text/html", &text)
            .answer_in(304, "The client has the page.", "", &Value::Null),
        get("/page/{file}", "pageFile", "Returns a file of the web page")
            .answer_in(200, "The file.", "text/javascript", &text)
            .answer_in(200, "The file.", "text/css", &text)
            .answer_in(200, "The file.", "image/svg+xml", &text)
            .answer_in(304, "The client has the file.", "", &Value::Null)
            .problem(404, "path_not_found"),
        get(
            "/v1/me",
            "showCaller",
            "Returns the permissions of the caller",
        )
        .authenticated()
        .answer(
            200,
            "The name of the token, and its scopes.",
            &json!({"type": "object", "required": ["token", "scopes", "debug_view"], "properties": {
                    "token": {"type": ["string", "null"]},
                    "debug_view": {"type": "boolean"},
                    "scopes": {"type": "array", "items": {"type": "string"}}}}),
        ),
        get(
            "/v1/sessions/{session}/export",
            "exportSession",
            "Returns the visible messages of a session as a file",
        )
        .scope(TokenScope::Read)
        .query(
            "form",
            &json!({"enum": ["json", "chatmd", "openchatml"]}),
            "The form of the file; JSON by default.",
        )
        .answer(
            200,
            "The messages.",
            &json!({"type": "object", "required": ["messages"],
                    "properties": {"messages": {"type": "array"}}}),
        )
        .answer_in(200, "The messages.", "text/markdown", &text)
        .answer_in(200, "The messages.", "text/plain", &text)
        .problem(404, "session_not_found")
        .problem(422, "outside-capabilities"),
        post(
            "/v1/login",
            "login",
            "Gives a browser the cookie of a token",
        )
        .authenticated()
        .answer(200, "The name of the token.", &token)
        .answer_header(200, "Set-Cookie", "The cookie, which ends with the token."),
        post("/v1/logout", "logout", "Removes the cookie of a browser")
            .authenticated()
            .answer_in(204, "The cookie is removed.", "", &Value::Null),
        post(
            "/v1/markdown",
            "renderMarkdown",
            "Returns the nodes of a text",
        )
        .scope(TokenScope::Read)
        .body(
            &json!({"type": "object", "required": ["text"], "additionalProperties": false,
                    "properties": {"text": {"type": "string"}}}),
            true,
        )
        .answer(
            200,
            "Texts, and elements with a tag, attributes and children.",
            &json!({"type": "object", "required": ["nodes"],
                    "properties": {"nodes": {"type": "array"}}}),
        ),
    ]
}
