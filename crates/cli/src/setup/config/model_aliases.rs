//! `[models]` of the user's configuration: names for models.

use std::collections::BTreeMap;

use logue_model::ProviderKind;
use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::origin::Origin;

/// `[models]`: full model names by alias.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct ModelAliases(BTreeMap<String, Spanned<String>>);

impl ModelAliases {
    /// Checks the aliases of a file.
    ///
    /// Only a file of the user may define aliases: an alias decides which server receives a
    /// conversation.
    ///
    /// # Errors
    /// Returns a message and its position for the first alias that is not allowed.
    pub(crate) fn check(&self, origin: Origin) -> Result<(), (Span, String)> {
        for (name, model) in &self.0 {
            let fail = |message: String| Err((Span::from(model.span()), message));
            if origin == Origin::Project {
                return fail("only your own logue/config.toml may define model aliases".to_owned());
            }
            if name.is_empty() || name.contains(':') {
                return fail(format!(
                    "invalid alias `{name}`: expected a name without `:`"
                ));
            }
            if ProviderKind::from_prefix(name).is_some() {
                return fail(format!(
                    "invalid alias `{name}`: it is the name of a provider"
                ));
            }
            if model.get_ref().trim().is_empty() {
                return fail(format!(
                    "alias `{name}`: expected a model such as openai:gpt-4o-mini"
                ));
            }
        }
        Ok(())
    }

    /// Returns the aliases with their models.
    pub(crate) fn to_map(&self) -> BTreeMap<String, String> {
        let pairs = self.0.iter();
        pairs
            .map(|(alias, model)| (alias.clone(), model.get_ref().clone()))
            .collect()
    }
}
