//! Random graphs inside graphs, some of whose nodes wait: whatever the nesting, each asks once, and
//! the run ends with what it would have given at once.

use logue_graph::{
    CompiledGraph, END, EdgeTarget, Field, FieldType, GraphBuilder, Mapping, ParallelBranches,
    SignalDescriptor, StateSchema,
};
use proptest::prelude::*;
use serde_json::json;

use crate::resume::{payload, travelled};
use crate::{compile, log, logs_text, nothing};

#[derive(Clone, Debug)]
enum Item {
    Log,
    /// Waits, and then runs again or not.
    Ask(bool),
    Sub(Vec<Item>),
    Branches(Vec<Vec<Item>>),
}

fn item() -> impl Strategy<Value = Item> {
    let leaf = prop_oneof![
        2 => Just(Item::Log),
        1 => any::<bool>().prop_map(Item::Ask),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let line = prop::collection::vec(inner, 1..4);
        prop_oneof![
            line.clone().prop_map(Item::Sub),
            prop::collection::vec(line, 0..4).prop_map(Item::Branches),
        ]
    })
}

/// A line of nodes. What they log, and how many ask, goes to the plan.
#[derive(Default)]
struct Plan {
    last: usize,
    logged: Vec<String>,
    asks: usize,
}

impl Plan {
    fn line(&mut self, items: &[Item]) -> CompiledGraph {
        let schema = StateSchema::new()
            .with(Field::appended("log", "string"))
            .with(Field::new("answered", FieldType::String));
        let mut builder = GraphBuilder::new(schema).entry("0");
        for (index, item) in items.iter().enumerate() {
            let name = index.to_string();
            builder = self.node(builder, &name, item);
            let next = if index + 1 == items.len() {
                END
            } else {
                EdgeTarget::node((index + 1).to_string())
            };
            builder = builder.add_edge(name, next);
        }
        compile(builder).unwrap()
    }

    fn node(&mut self, builder: GraphBuilder, name: &str, item: &Item) -> GraphBuilder {
        self.last += 1;
        let id = self.last.to_string();
        match item {
            Item::Log => {
                self.logged.push(id.clone());
                builder.add_node_fn(name, move |_| {
                    let update = logs_text(&id);
                    async move {
                        tokio::task::yield_now().await;
                        Ok(update)
                    }
                })
            }
            Item::Ask(rerun) => {
                self.asks += 1;
                let rerun = *rerun;
                if rerun {
                    self.logged.push(id.clone());
                }
                builder.add_node_fn(name, move |ctx| {
                    let id = id.clone();
                    async move {
                        if ctx.state().json("answered") == Some(&json!(id)) {
                            return Ok(logs_text(&id));
                        }
                        let descriptor = SignalDescriptor::new(id);
                        if rerun {
                            match ctx.suspend_and_rerun(descriptor).await {}
                        }
                        match ctx.suspend(descriptor).await {}
                    }
                })
            }
            Item::Sub(items) => {
                let mapping = Mapping::new().with_output("log", "log");
                builder.add_subgraph(name, self.line(items), mapping)
            }
            Item::Branches(lines) => {
                let lines = lines.iter().enumerate();
                let branches = lines.fold(ParallelBranches::new(), |branches, (index, items)| {
                    let mapping = Mapping::new().with_output("log", "log");
                    branches.branch(index.to_string(), self.line(items), mapping)
                });
                builder.add_branches(name, branches)
            }
        }
    }
}

proptest! {
    #[test]
    fn a_random_nesting_ends_with_everything(items in prop::collection::vec(item(), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut plan = Plan::default();
        let graph = plan.line(&items);
        let mut outcome = runtime.block_on(graph.invoke(nothing()));
        let mut asked = 0;
        while outcome.as_str() == "suspended" {
            asked += 1;
            prop_assert!(asked <= plan.asks, "each asks once");
            let waiting = outcome.suspended().unwrap();
            let signal = payload(json!({ "answered": waiting.descriptor.signal_id }));
            let paused = travelled(&waiting.paused);
            let anew = Plan::default().line(&items);
            outcome = runtime.block_on(anew.resume(paused, signal));
        }
        prop_assert_eq!(outcome.as_str(), "completed");
        prop_assert_eq!(asked, plan.asks);
        prop_assert_eq!(log(outcome.state()), plan.logged);
    }
}
