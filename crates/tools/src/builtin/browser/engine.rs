//! The configured search engine and its responses.

use serde_json::Value;

use super::page::{Page, one_line};
use crate::{FetchKey, Fetched};

/// Maximum length of the snippet of a result in bytes.
const SNIPPET: usize = 600;

/// A search engine queried through a URL.
///
/// ```
/// use logue_tools::{ResultFields, SearchEngine};
///
/// let engine = SearchEngine::new("https://search.example/api?q={query}&n={count}")?
///     .with_results("web.results", ResultFields::default());
/// assert!(SearchEngine::new("https://search.example/").is_err());
/// # drop(engine);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchEngine {
    address: String,
    pub(super) key: Option<FetchKey>,
    results: Option<String>,
    fields: ResultFields,
}

/// The members of a result, as names with dots for nested members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultFields {
    /// The member with the title.
    pub title: String,
    /// The member with the URL.
    pub url: String,
    /// The member with the snippet.
    pub snippet: String,
}

impl Default for ResultFields {
    fn default() -> Self {
        Self {
            title: "title".to_owned(),
            url: "url".to_owned(),
            snippet: "description".to_owned(),
        }
    }
}

impl ResultFields {
    /// Sets the member with the title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the member with the URL.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Sets the member with the snippet.
    #[must_use]
    pub fn with_snippet(mut self, snippet: impl Into<String>) -> Self {
        self.snippet = snippet.into();
        self
    }
}

impl SearchEngine {
    /// Creates an engine for a URL with `{query}` and optionally `{count}`.
    ///
    /// If the engine responds with an HTML page, the page is the result.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid.
    pub fn new(address: impl Into<String>) -> Result<Self, String> {
        let address = address.into();
        if !address.starts_with("https://") && !address.starts_with("http://") {
            return Err("an address with http:// or https:// is expected".to_owned());
        }
        if !address.contains("{query}") {
            return Err("`{query}` is missing, which stands for what is searched".to_owned());
        }
        Ok(Self {
            address,
            key: None,
            results: None,
            fields: ResultFields::default(),
        })
    }

    /// Sets the dotted path of the result list in a JSON response.
    ///
    /// An empty path means that the response is the list.
    #[must_use]
    pub fn with_results(mut self, place: impl Into<String>, fields: ResultFields) -> Self {
        self.results = Some(place.into());
        self.fields = fields;
        self
    }

    /// Sets the API key.
    #[must_use]
    pub fn with_key(mut self, key: FetchKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Returns the URL of a query.
    pub(super) fn url(&self, query: &str, count: usize) -> String {
        let mut encoded = String::new();
        for byte in query.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                encoded.push_str(&format!("%{byte:02X}"));
            }
        }
        // The query could contain `{count}`; the encoded query cannot.
        let address = self.address.replace("{count}", &count.to_string());
        address.replace("{query}", &encoded)
    }

    /// Converts the response to a page with a link per result.
    pub(super) fn page(&self, answer: &Fetched, query: &str, most: usize) -> Result<Page, String> {
        if answer.is_html() {
            return Page::read(answer, false);
        }
        let wrong = |why: &str| {
            format!("the search engine's answer is not as [browser] in logue.toml says: {why}")
        };
        let place = self.results.as_deref();
        let place = place.ok_or_else(|| wrong("it is not a page, and `results` is not set"))?;
        let json: Value = serde_json::from_slice(&answer.bytes)
            .map_err(|error| wrong(&format!("it is not JSON ({error})")))?;
        let list = member(&json, place).and_then(Value::as_array);
        let list = list.ok_or_else(|| wrong(&format!("it has no list `{place}`")))?;
        let mut lines = Vec::new();
        let mut links = Vec::new();
        for result in list {
            let text = |name: &str| member(result, name).and_then(Value::as_str).map(plain);
            let url = member(result, &self.fields.url).and_then(Value::as_str);
            let is_address = |url: &&str| url.starts_with("http://") || url.starts_with("https://");
            let Some(url) = url.filter(is_address) else {
                continue;
            };
            let url: String = url.split_whitespace().collect();
            let title = text(&self.fields.title).filter(|title| !title.is_empty());
            let title = title.unwrap_or_else(|| one_line(&url));
            lines.push(format!("【{}†{title}】", links.len()));
            lines.extend(text(&self.fields.snippet).filter(|snippet| !snippet.is_empty()));
            lines.push(String::new());
            links.push(url);
            if links.len() == most {
                break;
            }
        }
        if links.is_empty() {
            lines.push("There are no results.".to_owned());
        }
        let title = format!("Results for {query}");
        Ok(Page::made(answer, &title, &lines, links))
    }
}

/// Returns a nested member, or the value itself for an empty path.
fn member<'v>(value: &'v Value, place: &str) -> Option<&'v Value> {
    let names = place.split('.').filter(|name| !name.is_empty());
    names
        .into_iter()
        .try_fold(value, |value, name| value.get(name))
}

/// Returns the text of a result without markup, on one line.
fn plain(text: &str) -> String {
    let options = logue_html::HtmlOptions::new().with_output_bytes(SNIPPET);
    one_line(&logue_html::to_text(text, &options).text)
}
