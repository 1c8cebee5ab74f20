//! Names for a model that its server does not have.

use std::sync::Arc;
use std::time::Duration;

use logue_model::{
    BoxFuture, Category, EventHandler, ModelRequest, ModelResponse, Provider, ProviderError,
    ServerProbe,
};

/// The time in which the server returns its list.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The number of models that an error lists.
const LISTED: usize = 5;

/// A provider whose error about an unknown model names the models that were meant.
///
/// The list is requested once, after the error.
pub(crate) struct ModelSuggestions {
    provider: Arc<dyn Provider>,
    probe: ServerProbe,
    /// The part of the name before the model, such as `anthropic:`.
    prefix: String,
    model: String,
    aliases: Vec<String>,
}

impl ModelSuggestions {
    /// Wraps the provider of a model; `name` is the model with its provider.
    pub(crate) fn new(
        provider: Arc<dyn Provider>,
        probe: ServerProbe,
        name: &str,
        model: &str,
        aliases: Vec<String>,
    ) -> Self {
        Self {
            provider,
            probe: probe.with_timeout(TIMEOUT),
            prefix: name.strip_suffix(model).unwrap_or_default().to_owned(),
            model: model.to_owned(),
            aliases,
        }
    }

    async fn explained(&self, error: ProviderError) -> ProviderError {
        let listed = self.probe.models().await.unwrap_or_default();
        let listed: Vec<&str> = listed.iter().map(|model| &*model.name).collect();
        let near = chatmd::suggest(&self.model, listed.iter().copied());
        let near = near.map(|near| format!("{}{near}", self.prefix));
        let near = near.or_else(|| {
            let aliases = self.aliases.iter().map(String::as_str);
            chatmd::suggest(&self.model, aliases).map(str::to_owned)
        });
        if let Some(near) = near {
            return error.with_help(format!(
                "did you mean `{near}`? `logue models` lists the models of the server"
            ));
        }
        if listed.is_empty() {
            return error;
        }
        let some = listed.iter().take(LISTED);
        let some: Vec<String> = some.map(|name| format!("{}{name}", self.prefix)).collect();
        error.with_help(format!(
            "the server lists {}; `logue models` prints all",
            some.join(", ")
        ))
    }
}

impl Provider for ModelSuggestions {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn takes_images(&self) -> bool {
        self.provider.takes_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(async move {
            match self.provider.complete(request, events).await {
                Err(error) if error.category == Category::InvalidModel => {
                    Err(self.explained(error).await)
                }
                ended => ended,
            }
        })
    }
}
