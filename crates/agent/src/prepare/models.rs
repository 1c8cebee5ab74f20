//! The port that finds models.

use std::sync::Arc;

use logue_model::Provider;
use logue_tools::Roots;

use crate::prepare::host_error::HostError;

/// A model with its provider.
#[derive(Clone)]
#[non_exhaustive]
pub struct Model {
    /// The provider that answers requests.
    pub provider: Arc<dyn Provider>,
    /// Distinguishes cached responses of different servers and models.
    pub identity: String,
    /// The model's name at the provider.
    pub name: String,
}

impl Model {
    /// A model called `name` at its provider.
    pub fn new(
        provider: Arc<dyn Provider>,
        name: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            provider,
            identity: identity.into(),
            name: name.into(),
        }
    }
}

/// Finds the models that prompts name.
///
/// A prompt may name a recording (`replay:FILE`) below its `roots` only.
pub trait Models: Send + Sync {
    /// Returns the model of an agent that names `named`, or the default model.
    ///
    /// # Errors
    /// Returns an error if there is no such model or it cannot be set up.
    fn find(&self, named: Option<&str>, roots: &Roots) -> Result<Model, HostError>;

    /// Returns the model of the prompt that the user runs.
    ///
    /// A flag may take precedence over `named`.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    fn find_main(&self, named: Option<&str>, roots: &Roots) -> Result<Model, HostError> {
        self.find(named, roots)
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("identity", &self.identity)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
