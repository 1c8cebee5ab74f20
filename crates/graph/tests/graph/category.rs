//! Category and diagnostic of errors that the engine wraps.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use logue_graph::{EngineError, NodeError};

use crate::{nothing, only};

/// An error of some library, which has no category.
#[derive(Debug)]
struct Foreign(Option<NodeError>);

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("foreign")
    }
}

impl Error for Foreign {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_ref().map(|source| source as _)
    }
}

async fn raised(error: NodeError) -> EngineError {
    let graph = only(move |_| {
        let error = error.clone();
        async { Err(error) }
    });
    graph.invoke(nothing()).await.errored().unwrap().error
}

fn limit_reached() -> EngineError {
    EngineError::MaxSteps {
        limit: 0,
        next: "n".to_owned(),
    }
}

fn rate_limit() -> NodeError {
    NodeError::new("slow down").with_category("provider_rate_limit")
}

#[tokio::test]
async fn the_outermost_error_with_something_to_say_is_seen() {
    let cases = [
        (rate_limit(), "provider_rate_limit", "slow down"),
        (
            NodeError::new("outer")
                .with_category("provider_unavailable")
                .with_source(rate_limit()),
            "provider_unavailable",
            "outer",
        ),
        (
            NodeError::new("outer").with_source(rate_limit()),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::new("outer")
                .with_category("")
                .with_source(rate_limit()),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(Foreign(Some(rate_limit()))),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(Arc::new(rate_limit())),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(Box::new(rate_limit())),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(io::Error::other(rate_limit())),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(Arc::new(io::Error::other(Arc::new(rate_limit())))),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(io::Error::other(Foreign(Some(rate_limit())))),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(Arc::new(Foreign(Some(rate_limit())))),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(Arc::new(limit_reached())),
            "max_steps_exceeded",
            "the run took 0 steps without reaching END; the next would have been the node `n`",
        ),
        (
            NodeError::from_error(Arc::new(EngineError::EdgeException {
                node: "n".to_owned(),
                source: rate_limit(),
            })),
            "provider_rate_limit",
            "slow down",
        ),
        (
            NodeError::from_error(io::Error::other("only words")),
            "node_exception",
            "only words",
        ),
        (
            NodeError::from_error(io::Error::from(io::ErrorKind::NotFound)),
            "node_exception",
            "entity not found",
        ),
        (
            NodeError::from_error(Foreign(None)),
            "node_exception",
            "foreign",
        ),
        (NodeError::new("only words"), "node_exception", "only words"),
    ];
    for (error, category, diagnostic) in cases {
        let shown = format!("{error:?}");
        let error = raised(error).await;
        assert_eq!(error.category(), "node_exception");
        assert_eq!(error.derived_category(), category, "{shown}");
        assert_eq!(error.diagnostic(), diagnostic, "{shown}");
    }
}

#[tokio::test]
async fn a_graph_inside_a_node_is_seen_through_too() {
    let inner = raised(rate_limit()).await;
    let outer = raised(NodeError::from_error(inner)).await;
    assert_eq!(outer.derived_category(), "provider_rate_limit");
    assert_eq!(outer.diagnostic(), "slow down");

    let inner = only(|_| async { Ok(logue_graph::Update::new()) });
    let inner = inner
        .invoke(nothing().with_max_steps(0))
        .await
        .errored()
        .unwrap()
        .error;
    let outer = raised(NodeError::from_error(inner)).await;
    assert_eq!(outer.derived_category(), "max_steps_exceeded");
    assert_eq!(
        outer.diagnostic(),
        "the run took 0 steps without reaching END; the next would have been the node `only`"
    );
}
