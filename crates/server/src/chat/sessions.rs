//! Sessions: list, search, show and remove.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use logue_harness::store::{
    SessionFilter, SessionInfo, SessionLocation, Store, StoreError, SuspensionFilter,
    SuspensionStatus, current_history,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::{Caller, TokenScope};
use super::api::{Api, require};
use super::extract::{PathOf, QueryOf};
use super::page;
use super::problem::Problem;
use super::sse::EventId;
use super::visible::{DebugView, MessageView, visible_suspension};

/// The default number of sessions or messages of a page.
const PAGE: usize = 100;
/// The most of them.
const MAX_PAGE: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    /// Words that a message contains.
    #[serde(default)]
    search: Option<String>,
    /// Whether each session has a title.
    #[serde(default)]
    titles: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// The position after the page's last message; the history's end by default.
    #[serde(default)]
    before: Option<u64>,
    #[serde(default)]
    limit: Option<usize>,
    /// The form of the messages; JSON by default.
    #[serde(default)]
    form: MessagesForm,
    /// The part of the messages; the visible one by default.
    #[serde(default)]
    view: MessagesView,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MessagesForm {
    #[default]
    Json,
    /// With the position of each message, and the nodes of its Markdown.
    Nodes,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MessagesView {
    #[default]
    Visible,
    Debug,
}

/// `GET /v1/sessions`
pub(crate) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<Value>, Problem> {
    require(&caller, TokenScope::Read)?;
    let limit = query.limit.unwrap_or(PAGE).min(MAX_PAGE);
    let all = api.store().list(SessionFilter::default()).await?;
    let mut sessions = Vec::new();
    let mut search = query.search.as_deref().map(page::SessionSearch::new);
    let mut has_more = false;
    for info in &all {
        let agent = api.turns.host.agent_of(info);
        let Some(agent) = agent.filter(|agent| caller.may_use(agent)) else {
            continue;
        };
        if query.agent.as_ref().is_some_and(|named| *named != agent) {
            continue;
        }
        // A session whose first message the store refused is not one of a client.
        if info.seq == 0 && info.cursor == 0 && info.pending == 0 {
            continue;
        }
        let mut shown = summary(info, &agent, &caller);
        if let Some(search) = &mut search {
            let Some(excerpt) = search.excerpt(&**api.store(), info).await? else {
                continue;
            };
            shown["excerpt"] = json!(excerpt);
        }
        if sessions.len() == limit {
            has_more = true;
            break;
        }
        if query.titles {
            shown["title"] = json!(page::title(&**api.store(), info).await?);
        }
        sessions.push(shown);
    }
    let mut body = json!({ "sessions": sessions, "has_more": has_more });
    if let Some(search) = search {
        body["search_cut"] = json!(search.is_cut());
    }
    Ok(Json(body))
}

/// Returns an overview of a session.
///
/// The address of another store that continues it may name servers of the operator.
fn summary(info: &SessionInfo, agent: &str, caller: &Caller) -> Value {
    let mut summary = json!({"session": info.session, "agent": agent, "messages": info.seq,
        "pending": info.pending, "created_at": info.created_at.0,
        "updated_at": info.updated_at.0});
    let (location, name, address) = match &info.elsewhere {
        Some(SessionLocation::Moved { to }) => ("moved", "moved_to", to),
        Some(SessionLocation::Arriving { from }) => ("arriving", "arriving_from", from),
        _ => return summary,
    };
    summary["location"] = json!(location);
    // Without tokens, clients on the server's machine may do everything that it allows.
    if caller.token.is_none() || caller.has(TokenScope::Debug) {
        summary[name] = json!(address);
    }
    summary
}

/// `GET /v1/sessions/{session}`: the state of a session, and the events that follow it.
pub(crate) async fn show(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
) -> Result<Json<Value>, Problem> {
    require(&caller, TokenScope::Read)?;
    api.session(&caller, &session).await?;
    let turns = &api.turns;
    // The log repeats the store, so that it is read first: later events are received again.
    turns.log_outcomes(&session).await?;
    let log = turns.hub.log();
    let position = log.position(&session).await?;
    let open = log.first_after_entry(&session, position.settled).await?;
    let (info, agent) = api.session(&caller, &session).await?;
    let mut body = summary(&info, &agent, &caller);
    // A client that follows from here receives the turns that have not ended from their beginning.
    let seq = open.map_or(position.seq, |open| open - 1);
    body["events_after"] = json!(EventId::of(position).at(seq).to_string());
    let filter = SuspensionFilter {
        session: Some(session.clone()),
        status: Some(SuspensionStatus::Suspended),
        is_usable: true,
        ..SuspensionFilter::default()
    };
    let waiting = api.store().suspensions(filter).await?;
    let waiting = waiting.iter();
    body["signals"] = waiting.map(visible_suspension).collect();
    Ok(Json(body))
}

/// `GET /v1/sessions/{session}/messages`: a page of the history, the last one by default.
pub(crate) async fn messages(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
    QueryOf(query): QueryOf<PageQuery>,
) -> Result<Json<Value>, Problem> {
    require(&caller, TokenScope::Read)?;
    let (info, _) = api.session(&caller, &session).await?;
    let view = match query.view {
        MessagesView::Visible => MessageView::Visible,
        MessagesView::Debug => MessageView::Debug(DebugView::of(&caller, api.has_debug_view)?),
    };
    let limit = query.limit.unwrap_or(PAGE).min(MAX_PAGE);
    let to = query.before.unwrap_or(info.seq).min(info.seq);
    let (from, stored) = page_before(&**api.store(), &session, to, limit).await?;
    let messages = match query.form {
        MessagesForm::Json => view.json(&stored),
        MessagesForm::Nodes => {
            let mut shown = page::shown_messages(view, from, &stored);
            page::add_times(&api, &session, &mut shown).await?;
            shown
        }
    };
    Ok(Json(json!({"from": from, "to": to, "messages": messages})))
}

/// Returns the messages before a position, with the position of the first one.
///
/// A page whose positions are all those of replaced parts begins earlier: a client that reads pages
/// until one is empty would end there.
async fn page_before(
    store: &dyn Store,
    session: &str,
    to: u64,
    limit: usize,
) -> Result<(u64, Vec<Value>), StoreError> {
    let mut from = to;
    loop {
        from = from.saturating_sub(limit as u64);
        let count = usize::try_from(to - from).unwrap_or(MAX_PAGE);
        let stored = current_history(store, session, from, count).await?;
        if from == 0 || limit == 0 || stored.iter().any(|message| !message.is_null()) {
            return Ok((from, stored));
        }
    }
}

/// `DELETE /v1/sessions/{session}`
pub(crate) async fn remove(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
) -> Result<StatusCode, Problem> {
    require(&caller, TokenScope::Send)?;
    let (info, _) = api.session(&caller, &session).await?;
    if info.pending > 0 {
        let detail = format!("a turn of session `{session}` runs or waits to run");
        return Err(Problem::new(StatusCode::CONFLICT, "session_busy", detail)
            .with_help("cancel it, and wait for its outcome"));
    }
    api.remove_session(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}
