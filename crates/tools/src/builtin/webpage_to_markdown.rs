//! `webpage_to_markdown`: fetches a page as Markdown.

use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::arguments::ArgumentReader;
use crate::{
    BoxFuture, FetchCategory, FetchError, FetchKey, FetchPolicy, Fetched, Fetcher, Tool,
    ToolInvocation, ToolResult,
};

/// Maximum size of a result in bytes.
const MAX_RESULT_BYTES: usize = 380_928;

/// Fetches a page from an allowed host and converts it to Markdown.
#[derive(Clone, Debug)]
pub struct WebpageToMarkdown {
    definition: ToolDefinition,
    network: Option<Arc<Fetcher>>,
}

impl WebpageToMarkdown {
    /// Creates a tool for the hosts that `network` allows; without it, for none.
    pub fn new(network: Option<Arc<Fetcher>>) -> Self {
        let description = "Fetches a web page and gives it as Markdown; other text is given as it is. Only \
             hosts that the user allowed are asked.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "Address of the page, with http or https"},
            },
            "required": ["url"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("webpage_to_markdown", description, parameters),
            network,
        }
    }

    async fn page(&self, arguments: &Arguments) -> Result<String, String> {
        let given = ArgumentReader::read(arguments, &["url"])?;
        let url = given.text(&["url"])?;
        let page = get(self.network.as_deref(), url, None).await?;
        if !page.is_html() && !page.is_text() {
            let kind = page.media_type.as_deref().unwrap_or("an unknown type");
            return Err(format!("{}: is not text, but {kind}", page.url));
        }
        let read = move || {
            let text = page.text();
            if !page.is_html() {
                let end = text.floor_char_boundary(MAX_RESULT_BYTES);
                return (text[..end].to_owned(), end < text.len());
            }
            let options = logue_html::HtmlOptions::new()
                .with_output_bytes(MAX_RESULT_BYTES)
                .with_base(&page.url);
            let markdown = logue_html::to_markdown(&text, &options);
            (markdown.text, markdown.cut)
        };
        let (mut text, cut) = tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| format!("{url}: the page could not be read: {error}"))?;
        if text.trim().is_empty() {
            text = format!("{url}: the page holds no text");
        }
        if cut {
            text.push_str(&format!("\n[cut after {MAX_RESULT_BYTES} bytes]"));
        }
        Ok(text)
    }
}

impl Tool for WebpageToMarkdown {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match self.page(call.arguments).await {
                Ok(text) => ToolResult::success(text),
                Err(reason) => ToolResult::failure(reason),
            }
        })
    }
}

/// Fetches a URL; the error is a message for the model.
pub(super) async fn get(
    network: Option<&Fetcher>,
    url: &str,
    key: Option<&FetchKey>,
) -> Result<Fetched, String> {
    let fetched = match network {
        Some(network) => network.get_with(url, key).await,
        // A fetcher without hosts names the host in its error.
        None => match Fetcher::new(FetchPolicy::default()) {
            Ok(nobody) => nobody.get(url).await,
            Err(error) => Err(error),
        },
    };
    fetched.map_err(|error| describe(&error))
}

/// Formats a fetch error with its remedy, which the model can pass to the user.
fn describe(error: &FetchError) -> String {
    let code = match error.category {
        FetchCategory::Denied | FetchCategory::Private => "E-NETWORK-DENIED: ",
        _ => "",
    };
    let help = error.help.iter().map(|help| format!("; {help}"));
    format!("{code}{}{}", error.message, help.collect::<String>())
}
