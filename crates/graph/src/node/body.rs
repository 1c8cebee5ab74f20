//! The implementation of a node: code, or one or several graphs.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::build::compile_error::CompileError;
use crate::error::NodeError;
use crate::graph::Inner;
use crate::node::context::{Node, NodeContext};
use crate::pause::paused_run::Siblings;
use crate::pause::resume_point::NestedResume;
use crate::run::step::Step;
use crate::state::schema::StateSchema;
use crate::state::update::Update;

/// The implementation of a node.
pub(crate) trait NodeBody<E>: Send + Sync {
    /// Runs one attempt, from its start or from a position inside it.
    fn run<'a>(
        &'a self,
        step: &'a Step<'a, E>,
        ctx: NodeContext<E>,
        resume: Option<NestedResume>,
    ) -> BoxFuture<'a, Result<Update, NodeError>>;

    /// Checks the fields that the node refers to.
    fn resolve(&mut self, _node: &str, _parent: &StateSchema) -> Result<(), CompileError> {
        Ok(())
    }

    /// The graph of the next frame of a paused run.
    fn graph_inside(&self, _siblings: Option<&Siblings>) -> Option<&Inner<E>> {
        None
    }
}

/// A node that is code.
pub(crate) struct Code<E>(pub(crate) Arc<dyn Node<E>>);

impl<E: 'static> NodeBody<E> for Code<E> {
    fn run<'a>(
        &'a self,
        _: &'a Step<'a, E>,
        ctx: NodeContext<E>,
        _: Option<NestedResume>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        self.0.run(ctx)
    }
}
