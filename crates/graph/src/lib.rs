//! A graph of async nodes over typed state: the engine that a turn runs on.
//!
//! A **state** has named fields; each says what it may hold, what it starts with and how it takes
//! an update. A **node** is an async step: it reads a snapshot of the state and returns what is to
//! change. An **edge** says what follows a node: always the same, or what a function of the state
//! chooses. A run goes from the entry along the edges until it reaches [`END`], fails, or a node
//! stops it to wait for a signal; each of the three is an [`RunOutcome`].
//!
//! The loop of every agent, a model that may call tools, is two nodes and one choice:
//!
//! ```
//! use logue_graph::{
//!     CountingIds, END, Field, FieldType, GraphBuilder, Invocation, List, StateSchema, EdgeTarget, Update,
//! };
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = StateSchema::new()
//!     .with(Field::appended("messages", "ChatMessage"))
//!     .with(Field::new("asked", FieldType::Int));
//!
//! let graph = GraphBuilder::new(schema)
//!     .add_node_fn("model", |ctx| async move {
//!         let messages = ctx.state().list("messages").map_or(0, List::len);
//!         let asked = ctx.state().json("asked").and_then(|n| n.as_i64()).unwrap_or(0);
//!         // A real node sends the messages to a model here.
//!         let reply = match messages {
//!             1 => json!({ "role": "assistant", "content": "", "tool_calls": [{ "id": "c1" }] }),
//!             _ => json!({ "role": "assistant", "content": "It is noon." }),
//!         };
//!         Ok(Update::new().with("messages", vec![reply]).with("asked", json!(asked + 1)))
//!     })
//!     .add_node_fn("tools", |_| async {
//!         let result = json!({ "role": "tool", "tool_call_id": "c1", "content": "12:00" });
//!         Ok(Update::new().with("messages", vec![result]))
//!     })
//!     .entry("model")
//!     .add_conditional_edge("model", [EdgeTarget::node("tools"), END], |state| {
//!         let last = state.list("messages").and_then(List::last);
//!         match last.and_then(|message| message.get("tool_calls")) {
//!             Some(_) => EdgeTarget::node("tools"),
//!             None => END,
//!         }
//!     })
//!     .add_edge("tools", "model")
//!     .compile(CountingIds::new())?;
//!
//! let question = json!({ "role": "user", "content": "What time is it?" });
//! let start = Invocation::new(Update::new().with("messages", vec![question]));
//! let done = graph.invoke(start).await.completed().ok_or("the run did not end")?;
//!
//! let messages = done.state.list("messages").ok_or("no messages")?;
//! assert_eq!(messages.len(), 4); // the question, the call, its result, the answer
//! assert_eq!(done.state.json("asked"), Some(&json!(2)));
//!
//! // The new state is where the next turn starts. Its old messages are neither copied nor checked.
//! let mut state = done.state;
//! state.apply(Update::new().with("messages", vec![json!({ "role": "user", "content": "Sure?" })]))?;
//! let next = graph.invoke(Invocation::from_state(state).with_session_id("s1")).await;
//! assert_eq!(next.as_str(), "completed");
//! # Ok(())
//! # }
//! ```
//!
//! # What can be relied on
//!
//! - **A graph that compiles is sound.** Every edge leads to a node or to [`END`], every node has
//!   one edge and can be reached; [`CompileError`] names what is wrong otherwise. A conditional edge
//!   declares its targets, and choosing another is a `routing_error`.
//! - **A state is always valid.** Values are checked when they enter it, so that no later check
//!   walks over what is already there.
//! - **The cost of a step is the size of its update.** Lists are persistent ([`List`]): handing ten
//!   thousand messages to a node copies none, and neither does appending one while somebody still
//!   looks at the old list.
//! - **A step succeeds as a whole or leaves nothing.** When a node, a reducer, a check or an edge
//!   fails, the outcome carries the state from before that step.
//! - **A run ends.** No more than [`DEFAULT_MAX_STEPS`] nodes run, or as many as the graph or the
//!   invocation allows; then the outcome is the error `max_steps_exceeded`.
//! - **Dropping the future of a run cancels it** at the point where its node waits. Nothing is
//!   spawned, so nothing goes on behind it.
//! - **A suspension cannot be caught.** [`NodeContext::suspend`] never returns, and the engine drops
//!   the node with everything that wraps it, so code that catches every error does not see it.
//! - **A suspended run is data.** A [`PausedRun`] goes into JSON and comes back in another process,
//!   which goes on with [`CompiledGraph::resume`], wherever in nested graphs the run stood.
//! - **A suspension is not lost.** One that is awaited when its node has ended fails the run with
//!   `suspension_in_unsupported_context`, instead of waiting for a signal that nobody knows of.
//!
//! # Boundaries
//!
//! The engine contains no models, tools, databases, file formats, clocks or randomness. Ids come from
//! an [`IdSource`]; errors carry their categories as text.
//!
//! # Further
//!
//! The [`guide`] shows each part at work: typed states, reducers, graphs inside nodes, suspension
//! and resumption, middleware, observers and ports.
//!
//! It implements the engine that the harness-chat contract of `OpenArmature` builds on.
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

/// A walk through the parts of the engine, with examples that are tested.
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
pub use state::element::{Element, TypedElement};
pub use state::list::{Iter, List};
pub use state::reducer::Reducer;
pub use state::schema::{ElementType, Field, FieldType, StateSchema};
pub use state::snapshot::{State, StateError};
pub use state::update::Update;
pub use state::value::FieldValue;
