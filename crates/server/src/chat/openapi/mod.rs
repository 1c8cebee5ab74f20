//! The `OpenAPI` document of the server, and its rendered page.
//!
//! The document is written by hand beside the routes: answers are projections of stored messages, so
//! that no Rust type has their schema. A test compares its paths with the registered routes.

mod chats;
mod compatible;
mod operation;
mod page;
mod responses;
mod schemas;
mod service;
mod web;

use std::sync::OnceLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};

use self::operation::{Operation, SharedAnswers};

/// Returns all operations in the order of the document.
pub(crate) fn operations() -> Vec<Operation> {
    let mut operations = service::operations();
    operations.extend(chats::operations());
    operations.extend(compatible::operations());
    operations.extend(responses::operations());
    operations.extend(web::operations());
    operations
}

/// The document and the page of it.
struct Documents {
    json: String,
    html: String,
    policy: String,
}

fn documents() -> &'static Documents {
    static DOCUMENTS: OnceLock<Documents> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let document = document();
        Documents {
            json: format!("{document}\n"),
            html: page::render(&document),
            policy: page::policy(),
        }
    })
}

/// Returns the document.
fn document() -> Value {
    let mut paths = Map::new();
    let mut shared = SharedAnswers::default();
    for operation in operations() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.to_json(&mut shared);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Logue",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Agents, their sessions and the decisions that they wait for.",
        },
        // Relative: a proxy may serve the paths below a prefix.
        "servers": [{"url": "."}],
        "paths": paths,
        "components": {
            "schemas": schemas::components(),
            "responses": shared.into_components(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer",
                "description": "A token of `logue serve token create`."}},
        },
    })
}

/// `GET /openapi.json`
pub(crate) async fn json() -> Response {
    let kind = HeaderValue::from_static("application/json");
    let headers = [(header::CONTENT_TYPE, kind)];
    (headers, documents().json.as_str()).into_response()
}

/// `GET /docs`
pub(crate) async fn docs() -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let documents = documents();
    let mut response = documents.html.as_str().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    if let Ok(policy) = HeaderValue::from_str(&documents.policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
