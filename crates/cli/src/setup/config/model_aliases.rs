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
            if let Some(names) = self.circle(name) {
                return fail(format!("aliases name each other: {}", names.join(" -> ")));
            }
        }
        Ok(())
    }

    /// Returns the aliases from one back to itself, if they name each other.
    fn circle(&self, first: &str) -> Option<Vec<String>> {
        let mut names = vec![first.to_owned()];
        let mut name = self.next(first)?;
        while !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
            name = self.next(name)?;
        }
        names.push(name.to_owned());
        // The circle of other aliases is theirs.
        (name == first).then_some(names)
    }

    /// Returns the alias that the model of an alias names.
    fn next(&self, alias: &str) -> Option<&str> {
        let model = self.0.get(alias)?.get_ref().as_str();
        if let Some((name, _)) = self.0.get_key_value(model) {
            return Some(name);
        }
        let (prefix, _) = model.split_once(':')?;
        let (name, full) = self.0.get_key_value(prefix)?;
        full.get_ref().ends_with(':').then_some(name)
    }

    /// Returns the aliases with their models.
    pub(crate) fn to_map(&self) -> BTreeMap<String, String> {
        let pairs = self.0.iter();
        pairs
            .map(|(alias, model)| (alias.clone(), model.get_ref().clone()))
            .collect()
    }
}
