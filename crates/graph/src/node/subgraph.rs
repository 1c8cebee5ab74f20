//! A graph that stands in for a node, and what passes between its state and the one around it.

use std::sync::Arc;

use crate::build::compile_error::{CompileError, MappingSide};
use crate::error::NodeError;
use crate::graph::CompiledGraph;
use futures_util::future::BoxFuture;

use crate::graph::Inner;
use crate::node::body::NodeBody;
use crate::node::context::NodeContext;
use crate::node::nested::{NestedStart, run_inside};
use crate::pause::paused_run::Siblings;
use crate::pause::resume_point::NestedResume;
use crate::run::end::RunEnd;
use crate::run::step::Step;
use crate::state::schema::{Field, StateSchema};
use crate::state::snapshot::{State, StateError};
use crate::state::update::Update;

/// What passes into a subgraph and out of it.
///
/// Without inputs nothing passes in: the subgraph starts from its own defaults. Without outputs
/// every field that both schemas declare passes out under its name. What passes out is an update of
/// the graph around and goes through its reducers; so a list that passes in and out again is
/// appended to itself, if the field appends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    inputs: Vec<(String, String)>,
    outputs: Option<Vec<(String, String)>>,
}

impl Mapping {
    /// Nothing in, and out what has the same name on both sides.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input: the field `sub` of the subgraph starts with the value of `parent`.
    #[must_use]
    pub fn with_input(mut self, sub: impl Into<String>, parent: impl Into<String>) -> Self {
        self.inputs.push((sub.into(), parent.into()));
        self
    }

    /// Adds an output: the field `parent` is updated with the final value of `sub`. With the first
    /// one, nothing passes out by its name any more.
    #[must_use]
    pub fn with_output(mut self, parent: impl Into<String>, sub: impl Into<String>) -> Self {
        let outputs = self.outputs.get_or_insert_default();
        outputs.push((parent.into(), sub.into()));
        self
    }

    /// Lets nothing pass out.
    #[must_use]
    pub fn without_outputs(mut self) -> Self {
        self.outputs = Some(Vec::new());
        self
    }

    /// Checks that both sides have the fields, and writes out what name matching means.
    pub(crate) fn resolve(
        &mut self,
        node: &str,
        parent: &StateSchema,
        sub: &StateSchema,
    ) -> Result<(), CompileError> {
        for (sub_field, parent_field) in &self.inputs {
            declared(node, sub, sub_field, MappingSide::Subgraph)?;
            declared(node, parent, parent_field, MappingSide::Graph)?;
        }
        for (parent_field, sub_field) in self.outputs.iter().flatten() {
            declared(node, parent, parent_field, MappingSide::Graph)?;
            declared(node, sub, sub_field, MappingSide::Subgraph)?;
        }
        self.outputs.get_or_insert_with(|| {
            let names = parent.fields().iter().map(Field::name);
            let shared = names.filter(|name| sub.field(name).is_some());
            shared
                .map(|name| (name.to_owned(), name.to_owned()))
                .collect()
        });
        Ok(())
    }

    /// The state in which a subgraph begins. Costs the fields, not what they hold.
    pub(crate) fn enter<E>(
        &self,
        graph: &CompiledGraph<E>,
        parent: &State,
    ) -> Result<State, StateError> {
        graph.inner.layout.state(self.input(parent))
    }

    pub(crate) fn input(&self, parent: &State) -> Update {
        carried(&self.inputs, parent)
    }

    /// The update that a subgraph leaves for the graph around it.
    pub(crate) fn leave(&self, sub: &State) -> Update {
        self.outputs
            .as_ref()
            .map_or_else(Update::new, |outputs| carried(outputs, sub))
    }
}

/// The values of some fields under other names.
pub(crate) fn carried(pairs: &[(String, String)], from: &State) -> Update {
    let mut update = Update::new();
    for (to, field) in pairs {
        if let Some(value) = from.get(field) {
            update.set(to, value.clone());
        }
    }
    update
}

/// Checks that a schema has a field which a node refers to.
pub(crate) fn declared(
    node: &str,
    schema: &StateSchema,
    field: &str,
    side: MappingSide,
) -> Result<(), CompileError> {
    if schema.field(field).is_some() {
        return Ok(());
    }
    Err(CompileError::MappingReferencesUndeclaredField {
        node: node.to_owned(),
        field: field.to_owned(),
        side,
    })
}

/// A graph that stands in for a node.
pub(crate) struct Subgraph<E> {
    pub(crate) graph: CompiledGraph<E>,
    pub(crate) mapping: Mapping,
}

impl<E: 'static> Subgraph<E> {
    async fn run_parts<'a>(
        &'a self,
        step: &'a Step<'a, E>,
        ctx: NodeContext<E>,
        inside: Option<NestedResume>,
    ) -> Result<Update, NodeError> {
        let beginning = match inside {
            Some(inside) => NestedStart::ResumePoint(inside.resume_point),
            None => NestedStart::Entry(self.mapping.enter(&self.graph, &ctx.state)),
        };
        let within = ctx.place.within.inside(&ctx.place.node);
        let graph = Arc::as_ref(&self.graph.inner);
        match run_inside(graph, within, step, &ctx, beginning).await {
            RunEnd::Completed(state, _) => Ok(self.mapping.leave(&state)),
            RunEnd::Failed(failure) => Err(step.failed_inside(*failure).await),
            RunEnd::Suspended(_, request) => step.suspend_around(*request).await,
        }
    }
}

impl<E: 'static> NodeBody<E> for Subgraph<E> {
    fn run<'a>(
        &'a self,
        step: &'a Step<'a, E>,
        ctx: NodeContext<E>,
        resume: Option<NestedResume>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(self.run_parts(step, ctx, resume))
    }

    fn resolve(&mut self, node: &str, parent: &StateSchema) -> Result<(), CompileError> {
        self.mapping.resolve(node, parent, self.graph.schema())
    }

    fn graph_inside(&self, siblings: Option<&Siblings>) -> Option<&Inner<E>> {
        siblings.is_none().then(|| &*self.graph.inner)
    }
}
