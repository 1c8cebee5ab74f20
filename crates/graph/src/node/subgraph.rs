//! A graph that runs as a node, and the mapping between the two states.

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

/// The inputs and outputs of a subgraph.
///
/// Without inputs the subgraph starts from its own defaults. Without outputs every field that both
/// schemas declare is an output under its name. An output is an update of the outer graph and goes
/// through its reducers; so a list that is both input and output is appended to itself if the field
/// appends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    inputs: Vec<(String, String)>,
    outputs: Option<Vec<(String, String)>>,
}

impl Mapping {
    /// Creates a mapping without inputs, whose outputs match by name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input: the subgraph's field `sub` starts with the value of `parent`.
    #[must_use]
    pub fn with_input(mut self, sub: impl Into<String>, parent: impl Into<String>) -> Self {
        self.inputs.push((sub.into(), parent.into()));
        self
    }

    /// Adds an output: the final value of `sub` updates the field `parent`.
    ///
    /// The first call turns off outputs that match by name.
    #[must_use]
    pub fn with_output(mut self, parent: impl Into<String>, sub: impl Into<String>) -> Self {
        let outputs = self.outputs.get_or_insert_default();
        outputs.push((parent.into(), sub.into()));
        self
    }

    /// Removes all outputs.
    #[must_use]
    pub fn without_outputs(mut self) -> Self {
        self.outputs = Some(Vec::new());
        self
    }

    /// Checks that both sides have the fields, and lists outputs that match by name.
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

    /// Returns the initial state of a subgraph.
    ///
    /// Costs the number of fields, not their contents.
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

    /// Returns the update of the outer graph at the end of a subgraph.
    pub(crate) fn leave(&self, sub: &State) -> Update {
        self.outputs
            .as_ref()
            .map_or_else(Update::new, |outputs| carried(outputs, sub))
    }
}

/// Returns the values of some fields under other names.
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

/// A graph that runs as a node.
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
