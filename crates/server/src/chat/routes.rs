//! The routes of the server. Each has an operation in `openapi`.

use axum::Router;
use axum::http::StatusCode;

use super::api::Api;
use super::problem::Problem;
use super::route_table::RouteTable;
use super::{
    ag_ui, agents, branches, completions, events, merged, openapi, page, responses, send, sessions,
    signals,
};

/// Returns the routes of the server.
pub(crate) fn routes(api: Api) -> Router {
    table()
        .into_router()
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
}

fn table() -> RouteTable {
    let table = RouteTable::default()
        .get("/", page::index)
        .get("/page/{file}", page::file)
        .get("/v1/me", page::me)
        .post("/v1/login", page::login)
        .post("/v1/logout", page::logout)
        .post("/v1/markdown", page::markdown)
        .get("/healthz", agents::health)
        .get("/readyz", agents::ready)
        .get("/metrics", agents::metrics)
        .get("/openapi.json", openapi::json)
        .get("/docs", openapi::docs)
        .get("/v1/agents", agents::list)
        .get("/v1/models", completions::models)
        .get("/v1/models/{model}", completions::model)
        .post("/v1/ag-ui/{agent}", ag_ui::run)
        .post("/v1/chat/completions", completions::create)
        .get("/v1/events", merged::follow_several)
        .get("/v1/sessions", sessions::list)
        .get("/v1/sessions/{session}", sessions::show)
        .delete("/v1/sessions/{session}", sessions::remove)
        .get("/v1/sessions/{session}/messages", sessions::messages)
        .get("/v1/sessions/{session}/export", page::export)
        .get("/v1/sessions/{session}/events", events::follow)
        .post("/v1/sessions/{session}/send", send::send)
        .post("/v1/sessions/{session}/cancel", send::cancel)
        .post("/v1/sessions/{session}/retry", send::retry)
        .post("/v1/sessions/{session}/fork", branches::fork)
        .post("/v1/sessions/{session}/rerun", branches::rerun)
        .get("/v1/signals", signals::list)
        .get("/v1/signals/{signal}", signals::show)
        .post("/v1/signals/{signal}", signals::decide);
    responses::add_routes(table)
}

async fn unknown_path() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "path_not_found", "path not found")
        .with_help("GET /openapi.json describes all paths")
}

async fn wrong_method() -> Problem {
    let detail = "the path has no such method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_describes_the_registered_routes() {
        let registered: BTreeSet<_> = table().listed().iter().copied().collect();
        let operations = openapi::operations();
        let described: BTreeSet<_> = operations
            .iter()
            .map(|operation| (operation.method, operation.path))
            .collect();
        assert_eq!(registered, described);
        assert_eq!(described.len(), operations.len(), "each is described once");
    }
}
