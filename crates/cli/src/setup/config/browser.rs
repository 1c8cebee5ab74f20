//! `[browser]` of `logue.toml`: the search engine of `browser.search`.

use logue_source::Span;
use logue_tools::{FetchKey, ResultFields, SearchEngine};
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::origin::Origin;
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
    /// Returns the engine.
    ///
    /// Only a file of the user may name a key: the file of a project comes with a checkout, which is
    /// untrusted.
    ///
    /// # Errors
    /// Returns a message and its position for the first invalid setting.
    pub(crate) fn engine(&self, origin: Origin) -> Result<Option<SearchEngine>, (Span, String)> {
        let key = self.key(origin)?;
        let Some(search) = &self.search else {
            return Ok(None);
        };
        let mut engine = SearchEngine::new(search.get_ref().as_str())
            .map_err(|error| (Span::from(search.span()), format!("search: {error}")))?;
        if let Some(results) = &self.results {
            let base = ResultFields::default();
            let fields = ResultFields::default()
                .with_title(self.title.clone().unwrap_or(base.title))
                .with_url(self.url.clone().unwrap_or(base.url))
                .with_snippet(self.snippet.clone().unwrap_or(base.snippet));
            engine = engine.with_results(results.as_str(), fields);
        }
        Ok(Some(key.into_iter().fold(engine, SearchEngine::with_key)))
    }

    fn key(&self, origin: Origin) -> Result<Option<FetchKey>, (Span, String)> {
        let Some(named) = &self.key_env else {
            return Ok(None);
        };
        let failed = |message: &str| (Span::from(named.span()), message.to_owned());
        if origin == Origin::Project {
            return Err(failed(
                "only your own logue/config.toml may name the key of a search engine",
            ));
        }
        let Some(key) = variable(named.get_ref()) else {
            return Ok(None);
        };
        let header = self.key_header.as_deref().unwrap_or("Authorization");
        // Only a bearer token requires a scheme before the key.
        let value = if header.eq_ignore_ascii_case("authorization") {
            format!("Bearer {key}")
        } else {
            key
        };
        let key = FetchKey::new(header, &value);
        let key =
            key.ok_or_else(|| failed("the key or the name `key_header` is invalid in a header"))?;
        Ok(Some(key))
    }
}
