//! Middleware around the bodies of nodes: retries, limits, logs.

use std::sync::Arc;

use crate::error::NodeError;
use crate::node::context::NodeContext;
use crate::run::step::Step;
use crate::state::update::Update;
use futures_util::future::BoxFuture;

/// A wrapper around the body of a node.
///
/// It may run the body once, several times or not at all, and change its result. When the body
/// suspends, the future of the middleware is dropped where it awaits: code after that point never
/// runs, and an error handler never sees the suspension. A middleware itself cannot suspend: that
/// ends the run with `suspension_in_unsupported_context`.
///
/// ```
/// use logue_graph::{BoxFuture, Middleware, Next, NodeContext, NodeError, Update};
///
/// /// Tries a node three times.
/// struct Retry;
///
/// impl Middleware for Retry {
///     fn around<'a>(
///         &'a self,
///         _: NodeContext,
///         next: Next<'a>,
///     ) -> BoxFuture<'a, Result<Update, NodeError>> {
///         Box::pin(async move {
///             for _ in 0..2 {
///                 if let Ok(update) = next.run().await {
///                     return Ok(update);
///                 }
///             }
///             next.run().await
///         })
///     }
/// }
/// ```
pub trait Middleware<E = ()>: Send + Sync {
    /// Runs around the body of a node, once for each step.
    ///
    /// # Errors
    /// Returns the errors of the body that it does not handle, or its own; either fails the node.
    fn around<'a>(
        &'a self,
        ctx: NodeContext<E>,
        next: Next<'a, E>,
    ) -> BoxFuture<'a, Result<Update, NodeError>>;
}

impl<E, M: Middleware<E> + ?Sized> Middleware<E> for Arc<M> {
    fn around<'a>(
        &'a self,
        ctx: NodeContext<E>,
        next: Next<'a, E>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        (**self).around(ctx, next)
    }
}

/// The code that a middleware wraps: inner middleware, then the node body.
pub struct Next<'a, E = ()> {
    pub(crate) chain: &'a [Arc<dyn Middleware<E>>],
    pub(crate) step: &'a Step<'a, E>,
}

impl<'a, E: 'static> Next<'a, E> {
    /// Runs the wrapped code.
    ///
    /// Each call that reaches the body is an attempt of the node, with the next `attempt_index`.
    pub fn run(&self) -> BoxFuture<'a, Result<Update, NodeError>> {
        match self.chain.split_first() {
            Some((outer, inside)) => {
                let next = Next {
                    chain: inside,
                    step: self.step,
                };
                outer.around(self.step.context_of_middleware(), next)
            }
            None => self.step.run_body(),
        }
    }
}

impl<E> std::fmt::Debug for Next<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}
