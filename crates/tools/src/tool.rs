//! The seam between a turn and what it can do.

use std::future::Future;
use std::pin::Pin;

use logue_message::{Arguments, ToolDefinition};

/// A boxed future, as the seams that are used as trait objects return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something a model can call.
///
/// Dropping the future cancels the call; whatever it started ends with it.
pub trait Tool: Send + Sync {
    /// What the model is told of the tool.
    fn definition(&self) -> &ToolDefinition;

    /// Runs one call. It never fails: what goes wrong is an [`Outcome`] that says so.
    fn call<'a>(&'a self, arguments: &'a Arguments) -> BoxFuture<'a, Outcome>;
}

/// The result of a call, as the model is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The text that the model gets.
    pub text: String,
    /// Whether the call did what it was asked to.
    pub ok: bool,
}

impl Outcome {
    /// The result of a call that worked.
    pub fn done(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ok: true,
        }
    }

    /// The result of a call that did not work: the text says why.
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ok: false,
        }
    }
}
