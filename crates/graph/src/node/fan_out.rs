//! A node that runs one graph for each item of a list.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::build::compile_error::{CompileError, MappingSide};
use crate::error::NodeError;
use crate::graph::{CompiledGraph, Inner};
use futures_util::future::BoxFuture;

use crate::node::body::NodeBody;
use crate::node::context::NodeContext;
use crate::node::parallel::{ErrorPolicy, ParallelParts, Pending, Progress, run_parts};
use crate::node::subgraph::{carried, declared};
use crate::pause::paused_run::Siblings;
use crate::pause::resume_point::NestedResume;
use crate::pause::suspension::SuspendRequest;
use crate::run::info::GraphPath;
use crate::run::step::Step;
use crate::state::list::List;
use crate::state::schema::StateSchema;
use crate::state::snapshot::{State, StateError};
use crate::state::update::Update;
use crate::state::value::FieldValue;

/// A node that runs a graph for each item of a list.
///
/// It collects the results in the order of the items.
///
/// ```
/// use logue_graph::{CompiledGraph, FanOut};
///
/// # fn described(per_page: CompiledGraph) -> FanOut {
/// FanOut::new(per_page, "pages", "page")
///     .collect("summaries", "summary")
///     .concurrency(8)
/// # }
/// ```
pub struct FanOut<E = ()> {
    graph: CompiledGraph<E>,
    items_field: String,
    item_field: String,
    inputs: Vec<(String, String)>,
    /// The field of the outer graph, and of the instance; if none, its whole state.
    outputs: Vec<(String, Option<String>)>,
    policy: ErrorPolicy,
    errors_field: Option<String>,
    at_once: usize,
}

impl<E: 'static> FanOut<E> {
    /// Creates a node that runs `graph` for each item of a list.
    ///
    /// The list is the field `items_field` of the outer graph; each instance receives its item in
    /// the field `item_field`.
    pub fn new(
        graph: CompiledGraph<E>,
        items_field: impl Into<String>,
        item_field: impl Into<String>,
    ) -> Self {
        Self {
            graph,
            items_field: items_field.into(),
            item_field: item_field.into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            policy: ErrorPolicy::default(),
            errors_field: None,
            at_once: usize::MAX,
        }
    }

    /// Collects the final values of `collect_field` into the list `target_field`.
    ///
    /// Several fields may be collected, each into a target of its own: the last field named for a
    /// target counts.
    #[must_use]
    pub fn collect(
        self,
        target_field: impl Into<String>,
        collect_field: impl Into<String>,
    ) -> Self {
        self.output(target_field.into(), Some(collect_field.into()))
    }

    /// Collects the final states of the instances, as objects, into `target_field`.
    #[must_use]
    pub fn collect_states(self, target_field: impl Into<String>) -> Self {
        self.output(target_field.into(), None)
    }

    /// Sets the field `sub` of each instance to the value of `parent`.
    #[must_use]
    pub fn with_input(mut self, sub: impl Into<String>, parent: impl Into<String>) -> Self {
        self.inputs.push((sub.into(), parent.into()));
        self
    }

    /// Sets the policy for failed instances.
    #[must_use]
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the field that receives the list of failures.
    ///
    /// Applies under [`ErrorPolicy::Collect`]. Each failure has `fan_out_index`, `category` and
    /// `message`.
    #[must_use]
    pub fn errors_to(mut self, field: impl Into<String>) -> Self {
        self.errors_field = Some(field.into());
        self
    }

    /// Sets the maximum number of instances that run at once, at least one.
    ///
    /// The default is all of them.
    #[must_use]
    pub fn concurrency(mut self, at_once: usize) -> Self {
        self.at_once = at_once;
        self
    }

    fn output(mut self, target: String, collected: Option<String>) -> Self {
        self.outputs.retain(|(other, _)| *other != target);
        self.outputs.push((target, collected));
        self
    }

    fn check(&self, node: &str, parent: &StateSchema) -> Result<(), CompileError> {
        let sub = self.graph.schema();
        declared(node, parent, &self.items_field, MappingSide::Graph)?;
        declared(node, sub, &self.item_field, MappingSide::Subgraph)?;
        for (sub_field, parent_field) in &self.inputs {
            declared(node, sub, sub_field, MappingSide::Subgraph)?;
            declared(node, parent, parent_field, MappingSide::Graph)?;
        }
        for (target, collected) in &self.outputs {
            declared(node, parent, target, MappingSide::Graph)?;
            if let Some(collected) = collected {
                declared(node, sub, collected, MappingSide::Subgraph)?;
            }
        }
        if let Some(field) = &self.errors_field {
            declared(node, parent, field, MappingSide::Graph)?;
        }
        Ok(())
    }

    async fn run_parts<'a>(
        &'a self,
        step: &'a Step<'a, E>,
        ctx: NodeContext<E>,
        inside: Option<NestedResume>,
    ) -> Result<Update, NodeError> {
        let progress = match inside {
            Some(NestedResume {
                resume_point,
                siblings:
                    Some(Siblings::FanOut {
                        index,
                        done,
                        pending,
                    }),
            }) => Progress {
                done: done.into_iter().collect(),
                pending: pending
                    .into_iter()
                    .map(|(index, item)| (index, Some(item)))
                    .collect(),
                paused: Some((index, resume_point)),
                ..Progress::default()
            },
            _ => self.all(&ctx.state)?,
        };
        let progress = run_parts(self, step, &ctx, progress).await?;
        Ok(self.gather(progress))
    }

    /// Creates an instance for each item.
    fn all(&self, parent: &State) -> Result<Progress, NodeError> {
        let items = parent.get(&self.items_field).and_then(FieldValue::to_list);
        let items = items.ok_or_else(|| {
            let field = &self.items_field;
            NodeError::new(format!("the field `{field}` is not a list of items"))
                .with_category("state_validation_error")
        })?;
        let items = items.shared().enumerate();
        Ok(Progress {
            pending: items.map(|(index, item)| (index, Some(item))).collect(),
            ..Progress::default()
        })
    }

    fn gather(&self, progress: Progress) -> Update {
        let mut lists: Vec<List> = self.outputs.iter().map(|_| List::new()).collect();
        for given in progress.done.into_values() {
            for ((target, _), list) in self.outputs.iter().zip(&mut lists) {
                let value = given.get(target).cloned();
                let value: Arc<Value> = value.map_or_else(Arc::default, FieldValue::into_json);
                list.push(value);
            }
        }
        let mut update = Update::new();
        for ((target, _), list) in self.outputs.iter().zip(lists) {
            update.push(target, list.into());
        }
        if let Some(field) = &self.errors_field {
            let failed = progress.failed.into_iter();
            let errors = failed.map(|(index, part)| part.to_json("fan_out_index", &index.into()));
            update.push(field, errors.collect::<List>().into());
        }
        update
    }
}

impl<E: 'static> ParallelParts<E> for FanOut<E> {
    fn policy(&self) -> ErrorPolicy {
        self.policy
    }

    fn at_once(&self) -> usize {
        self.at_once
    }

    fn graph(&self, _: usize) -> Option<&Inner<E>> {
        Some(&self.graph.inner)
    }

    fn begin(&self, (_, item): &Pending, parent: &State) -> Result<State, StateError> {
        let mut fields = carried(&self.inputs, parent);
        let item = item.as_ref().map_or(Value::Null.into(), |item| {
            FieldValue::from_shared(Arc::clone(item))
        });
        fields.set(&self.item_field, item);
        self.graph.inner.layout.state(fields)
    }

    fn give(&self, _: usize, state: &State) -> Update {
        let mut given = Update::new();
        for (target, collected) in &self.outputs {
            let value = match collected {
                Some(field) => state.get(field).cloned(),
                None => Some(Value::Object(state.to_json()).into()),
            };
            given.set(target, value.unwrap_or_else(|| Value::Null.into()));
        }
        given
    }

    fn label(&self, part: usize, within: &mut GraphPath) {
        within.fan_out_index = Some(part);
    }

    fn annotate(&self, part: usize, request: &mut SuspendRequest) {
        request.annotate_index(part);
    }

    fn siblings(
        &self,
        part: usize,
        done: BTreeMap<usize, Update>,
        pending: Vec<Pending>,
    ) -> Siblings {
        let pending = pending.into_iter();
        Siblings::FanOut {
            index: part,
            done: done.into_iter().collect(),
            pending: pending
                .filter_map(|(index, item)| Some((index, item?)))
                .collect(),
        }
    }
}

impl<E: 'static> NodeBody<E> for FanOut<E> {
    fn run<'a>(
        &'a self,
        step: &'a Step<'a, E>,
        ctx: NodeContext<E>,
        resume: Option<NestedResume>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(self.run_parts(step, ctx, resume))
    }

    fn resolve(&mut self, node: &str, parent: &StateSchema) -> Result<(), CompileError> {
        self.check(node, parent)
    }

    fn graph_inside(&self, siblings: Option<&Siblings>) -> Option<&Inner<E>> {
        matches!(siblings, Some(Siblings::FanOut { .. })).then(|| &*self.graph.inner)
    }
}

impl<E> Clone for FanOut<E> {
    fn clone(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            items_field: self.items_field.clone(),
            item_field: self.item_field.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            policy: self.policy,
            errors_field: self.errors_field.clone(),
            at_once: self.at_once,
        }
    }
}

impl<E> fmt::Debug for FanOut<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut")
            .field("graph", &self.graph)
            .field("items_field", &self.items_field)
            .field("item_field", &self.item_field)
            .finish_non_exhaustive()
    }
}
