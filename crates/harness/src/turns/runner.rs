//! The port that runs the graph for the harness.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::sessions::{SessionOutcome, Sessions};
use logue_graph::{BoxFuture, Invocation, RunPorts};

/// Runs turns. [`Sessions`] implements it; a wrapper may add to it.
pub trait TurnRunner: Send + Sync {
    /// Runs a turn from its beginning, under the session of the invocation, if any.
    fn invoke(&self, invocation: Invocation) -> BoxFuture<'_, SessionOutcome>;

    /// Goes on with a suspended turn. Its session is the one that it had.
    fn resume<'a>(
        &'a self,
        invocation_id: &'a str,
        payload: Map<String, Value>,
    ) -> BoxFuture<'a, SessionOutcome>;
}

impl TurnRunner for Sessions {
    fn invoke(&self, invocation: Invocation) -> BoxFuture<'_, SessionOutcome> {
        Box::pin(Self::invoke(self, invocation))
    }

    fn resume<'a>(
        &'a self,
        invocation_id: &'a str,
        payload: Map<String, Value>,
    ) -> BoxFuture<'a, SessionOutcome> {
        Box::pin(async move { Self::resume(self, invocation_id, &payload, RunPorts::new()).await })
    }
}

impl<R: TurnRunner + ?Sized> TurnRunner for Arc<R> {
    fn invoke(&self, invocation: Invocation) -> BoxFuture<'_, SessionOutcome> {
        (**self).invoke(invocation)
    }

    fn resume<'a>(
        &'a self,
        invocation_id: &'a str,
        payload: Map<String, Value>,
    ) -> BoxFuture<'a, SessionOutcome> {
        (**self).resume(invocation_id, payload)
    }
}
