//! `browser.search`, `browser.open`, `browser.find`: pages read line by line.
//!
//! Models of the gpt-oss family are trained on these tools. Each opened page has a number, its
//! cursor, and stays open for the run. Only allowed hosts are contacted. Pages are hostile; see
//! `page`.

mod engine;
mod page;
mod pages;

use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use serde_json::{Value, json};

pub use engine::{ResultFields, SearchEngine};
pub(crate) use pages::Pages;

use super::arguments::ArgumentReader;
use super::webpage_to_markdown::get;
use crate::{AccessScope, BoxFuture, Provenance, Tool, ToolInvocation, ToolResult};
use page::Page;

/// Default and maximum number of search results.
const RESULTS: usize = 10;
const MOST_RESULTS: usize = 20;

/// Queries the configured search engine.
#[derive(Clone, Debug)]
pub struct BrowserSearch {
    definition: ToolDefinition,
    scope: AccessScope,
}

/// Opens pages and scrolls in them.
#[derive(Clone, Debug)]
pub struct BrowserOpen {
    definition: ToolDefinition,
    scope: AccessScope,
}

/// Finds a text in an open page.
#[derive(Clone, Debug)]
pub struct BrowserFind {
    definition: ToolDefinition,
    scope: AccessScope,
}

impl BrowserSearch {
    /// Creates a tool with the search engine and the hosts of `scope`.
    pub fn new(scope: AccessScope) -> Self {
        let description = "Searches the web and opens the list of results as a page. A result is opened with \
             browser.open by the number of its link.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to search for"},
                "topn": {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS, "description": format!("Results to list; {RESULTS} if absent")},
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("browser.search", description, parameters),
            scope,
        }
    }

    async fn search(&self, arguments: &Arguments) -> Result<ToolResult, String> {
        let given = ArgumentReader::read(arguments, &["query", "topn", "source"])?;
        let query = given.text(&["query"])?;
        if query.trim().is_empty() || query.len() > 2_000 {
            return Err("E-CALL-SCHEMA: query: must have 1 to 2000 bytes".to_owned());
        }
        let most = given
            .number("topn")?
            .unwrap_or(RESULTS)
            .clamp(1, MOST_RESULTS);
        let Some(engine) = &self.scope.search else {
            return Err(
                "no search engine is configured, so nothing can be searched. The user can name one \
                 as `search` under [browser] in logue.toml; pages can be opened by their addresses"
                    .to_owned(),
            );
        };
        let network = self.scope.network.as_deref();
        let answer = get(network, &engine.url(query, most), engine.key.as_ref()).await?;
        let (engine, query) = (Arc::clone(engine), query.to_owned());
        let page = tokio::task::spawn_blocking(move || engine.page(&answer, &query, most));
        opened(&self.scope, page.await, None, None)
    }
}

impl BrowserOpen {
    /// Creates a tool that opens pages of the hosts of `scope`.
    pub fn new(scope: AccessScope) -> Self {
        let description = "Opens a page and shows its lines with their numbers, or other lines of a page that \
             is open. 【3†words】 in a line is link 3. With `id` a link of the page `cursor` is opened, \
             with `url` an address; without both the page `cursor` is shown from the line `loc` on. Only \
             hosts that the user allowed are asked.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "id": {"type": ["integer", "string"], "description": "Number of a link, or an address"},
                "url": {"type": "string", "description": "Address of a page, with http or https"},
                "cursor": {"type": "integer", "description": "Number of an open page; the one looked at last if absent"},
                "loc": {"type": "integer", "description": "First line to show; 0 if absent"},
                "num_lines": {"type": "integer", "description": "Lines to show; as many as fit if absent"},
                "view_source": {"type": "boolean", "description": "Whether to show an opened page as it was sent"},
            },
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("browser.open", description, parameters),
            scope,
        }
    }

    async fn open(&self, arguments: &Arguments) -> Result<ToolResult, String> {
        let known = [
            "id",
            "url",
            "cursor",
            "loc",
            "num_lines",
            "view_source",
            "source",
        ];
        let given = ArgumentReader::read(arguments, &known)?;
        let cursor = given.number("cursor")?;
        let from = given.number("loc")?;
        let count = given.number("num_lines")?;
        let as_source = given.flag("view_source")?;
        if count == Some(0) {
            return Err("E-CALL-SCHEMA: num_lines: must be at least 1".to_owned());
        }
        let Some(target) = target(&given)? else {
            let (cursor, page) = self.scope.pages.get(cursor)?;
            return shown(cursor, &page, from, count);
        };
        let url = match target {
            Target::Address(url) => url,
            Target::Link(id) => {
                let (cursor, page) = self.scope.pages.get(cursor)?;
                let link = page.links.get(id).cloned();
                link.ok_or_else(|| match page.links.len() {
                    0 => format!("page [{cursor}] has no links"),
                    count => format!(
                        "page [{cursor}] has no link {id}; its links are 0 to {}",
                        count - 1
                    ),
                })?
            }
        };
        let fetched = get(self.scope.network.as_deref(), &url, None).await?;
        let page = tokio::task::spawn_blocking(move || Page::read(&fetched, as_source));
        opened(&self.scope, page.await, from, count)
    }
}

impl BrowserFind {
    /// Creates a tool for the pages opened within `scope`.
    pub fn new(scope: AccessScope) -> Self {
        let description = "Finds a text in a page that is open, whatever its case and white space, and shows \
             the lines around each place.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The text to find"},
                "cursor": {"type": "integer", "description": "Number of an open page; the one looked at last if absent"},
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("browser.find", description, parameters),
            scope,
        }
    }

    fn find(&self, arguments: &Arguments) -> Result<ToolResult, String> {
        let given = ArgumentReader::read(arguments, &["pattern", "cursor"])?;
        let pattern = given.text(&["pattern"])?;
        let (cursor, page) = self.scope.pages.get(given.number("cursor")?)?;
        let text = page.find(cursor, pattern)?;
        Ok(ToolResult::success(text).with_provenance(provenance(&page)))
    }
}

/// The page that a call opens.
enum Target {
    Link(usize),
    Address(String),
}

/// Returns the page or link to open.
///
/// Models also write the number of a link as text, and -1 for an absent value.
fn target(given: &ArgumentReader) -> Result<Option<Target>, String> {
    if let Some(url) = given.optional_text("url")? {
        return Ok(Some(Target::Address(url.to_owned())));
    }
    match given.value("id") {
        Some(Value::String(id)) => match id.trim().parse::<i64>() {
            Ok(-1) => Ok(None),
            Ok(id) => match usize::try_from(id) {
                Ok(id) => Ok(Some(Target::Link(id))),
                Err(_) => Err("E-CALL-SCHEMA: id: must be a number from 0".to_owned()),
            },
            Err(_) if id.trim().is_empty() => Ok(None),
            Err(_) => Ok(Some(Target::Address(id.clone()))),
        },
        _ => Ok(given.number("id")?.map(Target::Link)),
    }
}

/// Stores a page and formats it.
fn opened(
    scope: &AccessScope,
    page: Result<Result<Page, String>, tokio::task::JoinError>,
    from: Option<usize>,
    count: Option<usize>,
) -> Result<ToolResult, String> {
    let page = page.map_err(|error| format!("the page could not be read: {error}"))??;
    let page = Arc::new(page);
    let cursor = scope.pages.add(Arc::clone(&page));
    shown(cursor, &page, from, count)
}

fn shown(
    cursor: usize,
    page: &Page,
    from: Option<usize>,
    count: Option<usize>,
) -> Result<ToolResult, String> {
    let text = page.view(cursor, from.unwrap_or(0), count)?;
    Ok(ToolResult::success(text).with_provenance(provenance(page)))
}

fn provenance(page: &Page) -> Provenance {
    Provenance::new(&page.url).with_checksum(format!("sha256:{}", page.checksum))
}

impl Tool for BrowserSearch {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let searched = self.search(call.arguments).await;
            searched.unwrap_or_else(ToolResult::failure)
        })
    }
}

impl Tool for BrowserOpen {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let opened = self.open(call.arguments).await;
            opened.unwrap_or_else(ToolResult::failure)
        })
    }
}

impl Tool for BrowserFind {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let found = self.find(call.arguments);
        Box::pin(std::future::ready(
            found.unwrap_or_else(ToolResult::failure),
        ))
    }
}
