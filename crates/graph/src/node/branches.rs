//! A node that runs different graphs at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::build::compile_error::{CompileError, MappingSide};
use crate::error::NodeError;
use crate::graph::{CompiledGraph, Inner};
use futures_util::future::BoxFuture;

use crate::node::body::NodeBody;
use crate::node::context::NodeContext;
use crate::node::parallel::{ErrorPolicy, ParallelParts, Pending, Progress, run_parts};
use crate::node::subgraph::{Mapping, Subgraph, declared};
use crate::pause::paused_run::Siblings;
use crate::pause::resume_point::NestedResume;
use crate::pause::suspension::SuspendRequest;
use crate::run::info::GraphPath;
use crate::run::step::Step;
use crate::state::list::List;
use crate::state::schema::StateSchema;
use crate::state::snapshot::{State, StateError};
use crate::state::update::Update;

/// A node that runs several named graphs at once.
///
/// Their results are merged in the order in which the branches were added: where two of them update
/// a field, its reducer merges both.
pub struct ParallelBranches<E = ()> {
    branches: Vec<(Arc<str>, Subgraph<E>)>,
    policy: ErrorPolicy,
    errors_field: Option<String>,
}

impl<E> Default for ParallelBranches<E> {
    fn default() -> Self {
        Self {
            branches: Vec::new(),
            policy: ErrorPolicy::default(),
            errors_field: None,
        }
    }
}

impl<E: 'static> ParallelBranches<E> {
    /// Creates a node without branches.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a branch.
    #[must_use]
    pub fn branch(
        mut self,
        name: impl Into<String>,
        graph: CompiledGraph<E>,
        mapping: Mapping,
    ) -> Self {
        let name = name.into().into();
        self.branches.push((name, Subgraph { graph, mapping }));
        self
    }

    /// Sets the policy for failed branches.
    #[must_use]
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the field that receives the list of failures.
    ///
    /// Applies under [`ErrorPolicy::Collect`]. Each failure has `branch_name`, `category` and
    /// `message`.
    #[must_use]
    pub fn errors_to(mut self, field: impl Into<String>) -> Self {
        self.errors_field = Some(field.into());
        self
    }

    fn resolve_branches(&mut self, node: &str, parent: &StateSchema) -> Result<(), CompileError> {
        if let Some(field) = &self.errors_field {
            declared(node, parent, field, MappingSide::Graph)?;
        }
        for at in 0..self.branches.len() {
            let (before, rest) = self.branches.split_at_mut(at);
            let Some((name, branch)) = rest.first_mut() else {
                continue;
            };
            if before.iter().any(|(other, _)| other == name) {
                return Err(CompileError::DuplicateBranch {
                    node: node.to_owned(),
                    branch: name.as_ref().to_owned(),
                });
            }
            branch
                .mapping
                .resolve(node, parent, branch.graph.schema())?;
        }
        Ok(())
    }

    fn graph_of(&self, name: &str) -> Option<&CompiledGraph<E>> {
        let (_, branch) = self.branches.get(self.number(name)?)?;
        Some(&branch.graph)
    }

    async fn run_parts<'a>(
        &'a self,
        step: &'a Step<'a, E>,
        ctx: NodeContext<E>,
        inside: Option<NestedResume>,
    ) -> Result<Update, NodeError> {
        let mut progress = Progress::default();
        if let Some(NestedResume {
            resume_point,
            siblings: Some(Siblings::Branches { branch, done }),
        }) = inside
        {
            let done = done.into_iter();
            progress.done = done
                .filter_map(|(name, given)| Some((self.number(&name)?, given)))
                .collect();
            progress.paused = self.number(&branch).map(|part| (part, resume_point));
        }
        let paused = progress.paused.as_ref().map(|(part, _)| *part);
        progress.pending = (0..self.branches.len())
            .filter(|part| Some(*part) != paused && !progress.done.contains_key(part))
            .map(|part| (part, None))
            .collect();
        let progress = run_parts(self, step, &ctx, progress).await?;
        Ok(self.gather(progress))
    }

    fn gather(&self, progress: Progress) -> Update {
        let given = progress.done.into_values();
        let mut update = given.fold(Update::new(), Update::and_then);
        if let Some(field) = &self.errors_field {
            let failed = progress.failed.into_iter().filter_map(|(part, failed)| {
                let (name, _) = self.branches.get(part)?;
                Some(failed.to_json("branch_name", &name.as_ref().into()))
            });
            update.push(field, failed.collect::<List>().into());
        }
        update
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.branches.iter().position(|(other, _)| **other == *name)
    }
}

impl<E: 'static> ParallelParts<E> for ParallelBranches<E> {
    fn policy(&self) -> ErrorPolicy {
        self.policy
    }

    fn at_once(&self) -> usize {
        usize::MAX
    }

    fn graph(&self, part: usize) -> Option<&Inner<E>> {
        let (_, branch) = self.branches.get(part)?;
        Some(&branch.graph.inner)
    }

    fn begin(&self, (part, _): &Pending, parent: &State) -> Result<State, StateError> {
        match self.branches.get(*part) {
            Some((_, branch)) => branch.mapping.enter(&branch.graph, parent),
            None => Ok(parent.clone()),
        }
    }

    fn give(&self, part: usize, state: &State) -> Update {
        self.branches
            .get(part)
            .map_or_else(Update::new, |(_, branch)| branch.mapping.leave(state))
    }

    fn label(&self, part: usize, within: &mut GraphPath) {
        within.branch_name = self.branches.get(part).map(|(name, _)| Arc::clone(name));
    }

    fn annotate(&self, part: usize, request: &mut SuspendRequest) {
        if let Some((name, _)) = self.branches.get(part) {
            request.annotate_branch(name);
        }
    }

    fn siblings(&self, part: usize, done: BTreeMap<usize, Update>, _: Vec<Pending>) -> Siblings {
        let name = |part: usize| self.branches.get(part).map(|(name, _)| Arc::clone(name));
        let done = done.into_iter();
        Siblings::Branches {
            branch: name(part).unwrap_or_default(),
            done: done
                .filter_map(|(part, given)| Some((name(part)?, given)))
                .collect(),
        }
    }
}

impl<E: 'static> NodeBody<E> for ParallelBranches<E> {
    fn run<'a>(
        &'a self,
        step: &'a Step<'a, E>,
        ctx: NodeContext<E>,
        resume: Option<NestedResume>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(self.run_parts(step, ctx, resume))
    }

    fn resolve(&mut self, node: &str, parent: &StateSchema) -> Result<(), CompileError> {
        self.resolve_branches(node, parent)
    }

    fn graph_inside(&self, siblings: Option<&Siblings>) -> Option<&Inner<E>> {
        let Some(Siblings::Branches { branch, .. }) = siblings else {
            return None;
        };
        Some(&self.graph_of(branch)?.inner)
    }
}

impl<E> fmt::Debug for ParallelBranches<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.branches.iter().map(|(name, _)| name).collect();
        f.debug_struct("ParallelBranches")
            .field("branches", &names)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
