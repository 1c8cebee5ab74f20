//! Any graph either fails to compile with an error that is true, or runs as a plain walk would.

use std::collections::HashSet;

use logue_graph::{CompileError, END, EdgeTarget, GraphBuilder, RunOutcome, State, Update};
use proptest::prelude::*;
use serde_json::json;

use crate::{compile, graph, log, logs, nothing};

/// The maximum number of steps of a run.
const LIMIT: usize = 40;

#[derive(Clone, Debug)]
struct Plan {
    /// Names of nodes, sometimes one of them twice.
    nodes: Vec<u8>,
    entry: Option<u8>,
    edges: Vec<(u8, PlannedEdge)>,
}

#[derive(Clone, Debug)]
enum PlannedEdge {
    Static(Option<u8>),
    /// The targets, and which one is chosen at each length of the log.
    Conditional(Vec<Option<u8>>, Vec<usize>),
}

impl PlannedEdge {
    fn targets(&self) -> &[Option<u8>] {
        match self {
            Self::Static(target) => std::slice::from_ref(target),
            Self::Conditional(targets, _) => targets,
        }
    }

    /// The target for each number of completed nodes; `None` is END.
    fn choose(&self, ran: usize) -> Option<u8> {
        match self {
            Self::Static(target) => *target,
            Self::Conditional(targets, choices) => {
                targets[choices[ran % choices.len()] % targets.len()]
            }
        }
    }
}

fn name(node: u8) -> String {
    format!("n{node}")
}

fn target(to: Option<u8>) -> EdgeTarget {
    to.map_or(END, |node| EdgeTarget::node(name(node)))
}

impl Plan {
    fn build(&self) -> GraphBuilder {
        let mut builder = graph().max_steps(LIMIT);
        for node in &self.nodes {
            builder = builder.add_node_fn(name(*node), logs);
        }
        if let Some(entry) = self.entry {
            builder = builder.entry(name(entry));
        }
        for (from, edge) in &self.edges {
            builder = match edge {
                PlannedEdge::Static(to) => builder.add_edge(name(*from), target(*to)),
                PlannedEdge::Conditional(targets, _) => {
                    let targets: Vec<_> = targets.iter().map(|to| target(*to)).collect();
                    let edge = edge.clone();
                    builder.add_conditional_edge(name(*from), targets, move |state: &State| {
                        target(edge.choose(log(state).len()))
                    })
                }
            };
        }
        builder
    }

    fn has(&self, node: u8) -> bool {
        self.nodes.contains(&node)
    }

    fn edges_from(&self, node: u8) -> impl Iterator<Item = &PlannedEdge> {
        self.edges
            .iter()
            .filter(move |(from, _)| *from == node)
            .map(|(_, edge)| edge)
    }

    fn reachable(&self) -> HashSet<u8> {
        let mut reached: HashSet<u8> = self.entry.into_iter().collect();
        loop {
            let before = reached.len();
            for (from, edge) in &self.edges {
                if reached.contains(from) {
                    reached.extend(edge.targets().iter().flatten());
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }

    /// Every mistake that the plan has, by name and node.
    fn mistakes(&self) -> HashSet<(&'static str, Option<String>)> {
        let mut mistakes = HashSet::new();
        if !self.entry.is_some_and(|entry| self.has(entry)) {
            mistakes.insert(("no_declared_entry", self.entry.map(name)));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if self.nodes[..index].contains(node) {
                mistakes.insert(("duplicate_node", Some(name(*node))));
            }
            if self.edges_from(*node).count() > 1 {
                mistakes.insert(("multiple_outgoing_edges", Some(name(*node))));
            }
            if self.edges_from(*node).all(|edge| edge.targets().is_empty())
                || self.edges_from(*node).any(|edge| edge.targets().is_empty())
            {
                mistakes.insert(("missing_outgoing_edge", Some(name(*node))));
            }
            if !self.reachable().contains(node) {
                mistakes.insert(("unreachable_node", Some(name(*node))));
            }
        }
        for (from, edge) in &self.edges {
            if !self.has(*from) || edge.targets().iter().flatten().any(|to| !self.has(*to)) {
                mistakes.insert(("dangling_edge", Some(name(*from))));
            }
        }
        mistakes
    }

    /// The nodes that a run visits, at most as many as the limit, and whether it reached END.
    fn walk(&self) -> (Vec<String>, bool) {
        let mut visited = Vec::new();
        let mut at = self.entry;
        while let Some(node) = at {
            if visited.len() == LIMIT {
                return (visited, false);
            }
            visited.push(name(node));
            at = self
                .edges_from(node)
                .next()
                .and_then(|edge| edge.choose(visited.len()));
        }
        (visited, true)
    }
}

fn reported(error: &CompileError) -> (&'static str, Option<String>) {
    let place = match error {
        CompileError::NoDeclaredEntry { entry } => entry.clone(),
        CompileError::UnreachableNode { node }
        | CompileError::MultipleOutgoingEdges { node }
        | CompileError::MissingOutgoingEdge { node }
        | CompileError::DuplicateNode { node } => Some(node.clone()),
        CompileError::DanglingEdge { from, .. } => Some(from.clone()),
        other => panic!("a plan cannot lead to {other:?}"),
    };
    (error.name(), place)
}

fn maybe_wrong() -> impl Strategy<Value = Plan> {
    let node = 0..5_u8;
    let to = prop::option::weighted(0.8, node.clone());
    let edge = prop_oneof![
        to.clone().prop_map(PlannedEdge::Static),
        (
            prop::collection::vec(to, 0..3),
            prop::collection::vec(0..4_usize, 1..4)
        )
            .prop_map(|(targets, choices)| PlannedEdge::Conditional(targets, choices)),
    ];
    let nodes = prop::collection::vec(node.clone(), 0..5);
    let edges = prop::collection::vec((node.clone(), edge), 0..6);
    (nodes, prop::option::weighted(0.9, node), edges).prop_map(|(nodes, entry, edges)| Plan {
        nodes,
        entry,
        edges,
    })
}

/// One edge for each node, and each node linked from the one before it.
fn sound() -> impl Strategy<Value = Plan> {
    (1..6_u8).prop_flat_map(|count| {
        let to = prop::option::weighted(0.8, 0..count);
        let edge = (
            prop::collection::vec(to, 0..3),
            prop::collection::vec(0..4_usize, 1..6),
        );
        prop::collection::vec(edge, usize::from(count)).prop_map(move |edges| {
            let edges = edges
                .into_iter()
                .zip(0..count)
                .map(|((mut targets, choices), from)| {
                    let next = (from + 1 < count).then_some(from + 1);
                    if targets.is_empty() {
                        return (from, PlannedEdge::Static(next));
                    }
                    targets.push(next);
                    (from, PlannedEdge::Conditional(targets, choices))
                });
            Plan {
                nodes: (0..count).collect(),
                entry: Some(0),
                edges: edges.collect(),
            }
        })
    })
}

fn check(plan: &Plan) -> Result<(), TestCaseError> {
    let mistakes = plan.mistakes();
    let compiled = match compile(plan.build()) {
        Ok(compiled) => compiled,
        Err(error) => {
            let reported = reported(&error);
            prop_assert!(
                mistakes.contains(&reported),
                "{reported:?} is not in {mistakes:?}"
            );
            return Ok(());
        }
    };
    prop_assert!(mistakes.is_empty(), "{mistakes:?} went unnoticed");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let outcome = runtime.block_on(compiled.invoke(nothing()));
    let (visited, ended) = plan.walk();
    prop_assert_eq!(log(outcome.state()), visited);
    match outcome {
        RunOutcome::Completed(_) => prop_assert!(ended),
        RunOutcome::Errored(errored) => {
            prop_assert!(!ended);
            prop_assert_eq!(errored.error.category(), "max_steps_exceeded");
        }
        RunOutcome::Suspended(_) => prop_assert!(false, "no node suspends"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_random_plan_is_refused_truly_or_runs(plan in maybe_wrong()) {
        check(&plan)?;
    }

    #[test]
    fn a_sound_plan_runs_as_planned(plan in sound()) {
        prop_assert_eq!(plan.mistakes(), HashSet::new());
        check(&plan)?;
    }
}

/// An update of nothing changes nothing, so a plan's walk depends on its log alone.
#[test]
fn an_empty_update_changes_nothing() {
    let graph = compile(graph().add_node_fn("a", logs).entry("a").add_edge("a", END)).unwrap();
    let mut state = graph
        .state(Update::new().with("log", json!(["x"])))
        .unwrap();
    let before = state.clone();
    state.apply(Update::new()).unwrap();
    assert_eq!(state, before);
}
