//! `[browser]` of `logue.toml`: which engine `browser.search` asks.

use logue_source::Span;
use logue_tools::{FetchKey, ResultFields, SearchEngine};
use serde::Deserialize;
use toml::Spanned;

use crate::setup::environment::variable;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Browser {
    search: Option<Spanned<String>>,
    results: Option<String>,
    title: Option<String>,
    url: Option<String>,
    snippet: Option<String>,
    key_header: Option<String>,
    key_env: Option<Spanned<String>>,
}

impl Browser {
    /// The engine. Only a file of the user's own may name a key: a project's comes with a checkout,
    /// and a checkout may come from anybody.
    ///
    /// # Errors
    /// The first text that is no such setting, with its place in the file.
    pub(crate) fn engine(&self, own: bool) -> Result<Option<SearchEngine>, (Span, String)> {
        let key = self.key(own)?;
        let Some(search) = &self.search else {
            return Ok(None);
        };
        let mut engine = SearchEngine::new(search.get_ref().as_str())
            .map_err(|error| (Span::from(search.span()), format!("search: {error}")))?;
        if let Some(results) = &self.results {
            let base = ResultFields::default();
            let fields = ResultFields {
                title: self.title.clone().unwrap_or(base.title),
                url: self.url.clone().unwrap_or(base.url),
                snippet: self.snippet.clone().unwrap_or(base.snippet),
            };
            engine = engine.with_results(results.as_str(), fields);
        }
        Ok(Some(key.into_iter().fold(engine, SearchEngine::with_key)))
    }

    fn key(&self, own: bool) -> Result<Option<FetchKey>, (Span, String)> {
        let Some(named) = &self.key_env else {
            return Ok(None);
        };
        let failed = |message: &str| (Span::from(named.span()), message.to_owned());
        if !own {
            return Err(failed(
                "only your own logue/config.toml may name the key of a search engine",
            ));
        }
        let Some(key) = variable(named.get_ref()) else {
            return Ok(None);
        };
        let header = self.key_header.as_deref().unwrap_or("Authorization");
        // A bearer token is the one form that needs a word in front.
        let value = if header.eq_ignore_ascii_case("authorization") {
            format!("Bearer {key}")
        } else {
            key
        };
        let key = FetchKey::new(header, &value);
        let key =
            key.ok_or_else(|| failed("no header can hold that, or have the name `key_header`"))?;
        Ok(Some(key))
    }
}
