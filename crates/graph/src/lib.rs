//! A graph of async nodes over typed state: the engine that runs a turn.
//!
//! A **state** has named fields; each field declares its type, its default and its reducer. A
//! **node** is an async step: it reads a snapshot of the state and returns the changes. An **edge**
//! determines the next node: a fixed one, or one that a function of the state chooses. A run
//! follows the edges from the entry until it reaches [`END`], fails, or a node suspends it to wait
//! for a signal; each of the three is a [`RunOutcome`].
//!
//! The loop of every agent, a model that may call tools, is two nodes and one choice:
//!
//! ```
//! use logue_graph::{
//!     CountingIds, END, EdgeTarget, Field, FieldType, GraphBuilder, Invocation, List, Reducer, State,
//!     StateSchema, Update,
//! };
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//!
//! #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! #[serde(tag = "role", rename_all = "lowercase")]
//! enum Message {
//!     User { content: String },
//!     Assistant { content: String, calls: Vec<String> },
//!     Tool { call: String, result: String },
//! }
//!
//! fn messages(state: &State) -> Option<&List<Message>> {
//!     state.list_of("messages")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = StateSchema::new()
//!     .with(Field::typed::<Message>("messages", "Message").with_reducer(Reducer::Append))
//!     .with(Field::new("asked", FieldType::Int));
//!
//! let graph = GraphBuilder::new(schema)
//!     .add_node_fn("model", |ctx| async move {
//!         let asked = ctx.state().json("asked").and_then(|n| n.as_i64()).unwrap_or(0);
//!         // A real node sends the messages to a model here.
//!         let reply = match messages(ctx.state()).map_or(0, List::len) {
//!             1 => Message::Assistant { content: String::new(), calls: vec!["c1".into()] },
//!             _ => Message::Assistant { content: "It is noon.".into(), calls: Vec::new() },
//!         };
//!         Ok(Update::new().with("messages", vec![reply]).with("asked", json!(asked + 1)))
//!     })
//!     .add_node_fn("tools", |_| async {
//!         let result = Message::Tool { call: "c1".into(), result: "12:00".into() };
//!         Ok(Update::new().with("messages", vec![result]))
//!     })
//!     .entry("model")
//!     .add_conditional_edge("model", [EdgeTarget::node("tools"), END], |state| {
//!         match messages(state).and_then(List::last) {
//!             Some(Message::Assistant { calls, .. }) if !calls.is_empty() => EdgeTarget::node("tools"),
//!             _ => END,
//!         }
//!     })
//!     .add_edge("tools", "model")
//!     .compile(CountingIds::new())?;
//!
//! let ask = |content: &str| Update::new().with("messages", vec![Message::User { content: content.into() }]);
//! let start = Invocation::new(ask("What time is it?"));
//! let done = graph.invoke(start).await.completed().ok_or("the run did not end")?;
//!
//! let all = messages(&done.state).ok_or("no messages")?;
//! assert_eq!(all.len(), 4); // the question, the call, its result, the answer
//! assert_eq!(done.state.json("asked"), Some(&json!(2)));
//!
//! // The new state is where the next turn starts. Its old messages are neither copied nor checked.
//! let mut state = done.state;
//! state.apply(ask("Sure?"))?;
//! let next = graph.invoke(Invocation::from_state(state).with_session_id("s1")).await;
//! assert_eq!(next.as_str(), "completed");
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **A graph that compiles is sound.** Every edge leads to a node or to [`END`], and every node
//!   has one edge and is reachable; otherwise [`CompileError`] names the mistake. A conditional
//!   edge declares its targets, and choosing another is a `routing_error`.
//! - **A state is always valid.** Values are checked when they enter it, so that no later check
//!   visits existing values again.
//! - **The cost of a step is the size of its update.** Lists are persistent ([`List`]): passing ten
//!   thousand messages to a node copies none, and neither does appending one while the old list is
//!   still in use.
//! - **A step succeeds as a whole or changes nothing.** When a node, a reducer, a check or an edge
//!   fails, the outcome carries the state from before that step.
//! - **A run ends.** At most [`DEFAULT_MAX_STEPS`] nodes run, or as many as the graph or the
//!   invocation allows; then the outcome is the error `max_steps_exceeded`.
//! - **Dropping the future of a run cancels it** at the point where its node waits. The engine
//!   spawns no tasks, so no work continues afterwards.
//! - **A suspension cannot be caught.** [`NodeContext::suspend`] never returns, and the engine
//!   drops the node with everything that wraps it, so code that catches every error does not see
//!   it.
//! - **A suspended run is data.** A [`PausedRun`] can be stored as JSON and read in another
//!   process, where [`CompiledGraph::resume`] continues it, at any depth of nested graphs.
//! - **A suspension is not lost.** One that is awaited after its node has ended fails the run with
//!   `suspension_in_unsupported_context`, because no caller could send its signal.
//!
//! # Boundaries
//!
//! The engine contains no models, tools, databases, file formats, clocks or randomness. Ids come from
//! an [`IdSource`]; errors carry their categories as text.
//!
//! # Further reading
//!
//! The [`guide`] shows each part in use: typed states, reducers, graphs inside nodes, suspension
//! and resumption, middleware, observers and ports.
//!
//! The crate implements the engine that the harness-chat contract of `OpenArmature` builds on.
//!
//! # Features
//!
//! The crate has no features.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod build;
mod error;
mod graph;
mod node;
mod pause;
mod ports;
mod run;
mod state;

/// A guide to the parts of the engine, with tested examples.
pub mod guide {
    #![doc = include_str!("../docs/guide.md")]
}

pub use build::builder::{DEFAULT_MAX_STEPS, GraphBuilder};
pub use build::compile_error::{CompileError, MappingSide};
pub use build::edge::{END, EdgeTarget, IntoRoute};
pub use error::{EngineError, NodeError, SuspensionErrorKind};
pub use futures_util::future::BoxFuture;
pub use graph::CompiledGraph;
pub use node::branches::ParallelBranches;
pub use node::context::{Node, NodeContext};
pub use node::fan_out::FanOut;
pub use node::middleware::{Middleware, Next};
pub use node::parallel::ErrorPolicy;
pub use node::retry::{RetryPolicy, wake_at};
pub use node::subgraph::Mapping;
pub use pause::paused_run::{CompletedPosition, PAUSED_RUN_VERSION, PausedRun};
pub use pause::resume::MergedResume;
pub use pause::suspension::{SignalDescriptor, Suspend};
pub use ports::ids::{CountingIds, IdSource};
pub use ports::observer::{NodeEvent, Observer, Phase};
pub use ports::run_ports::{EventSink, Journal, NodeEnd, RunEvent, RunPorts, SessionSaver};
pub use run::info::{NodeLocation, RunInfo};
pub use run::invocation::Invocation;
pub use run::outcome::{Completed, Errored, RunOutcome, Suspended};
pub use run::trace::span_attributes;
pub use state::element::{Element, TypedElement};
pub use state::list::{Iter, List};
pub use state::reducer::Reducer;
pub use state::schema::{ElementType, Field, FieldType, StateSchema};
pub use state::snapshot::{State, StateError};
pub use state::update::Update;
pub use state::value::FieldValue;
