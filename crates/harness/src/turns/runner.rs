//! The port that runs the graph for the harness.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::sessions::{SessionOutcome, Sessions};
use logue_graph::{BoxFuture, Invocation, RunPorts};

/// Runs turns of a graph whose nodes emit events of the type `E`.
///
/// [`Sessions`] implements it; a wrapper may add to it.
pub trait TurnRunner<E = ()>: Send + Sync {
    /// Runs a turn from its beginning, under the session of the invocation, if any.
    fn invoke(&self, invocation: Invocation<E>) -> BoxFuture<'_, SessionOutcome>;

    /// Continues a suspended turn in the session that it had.
    fn resume<'a>(
        &'a self,
        invocation_id: &'a str,
        payload: Map<String, Value>,
        ports: RunPorts<E>,
    ) -> BoxFuture<'a, SessionOutcome>;
}

impl<E: Send + 'static> TurnRunner<E> for Sessions<E> {
    fn invoke(&self, invocation: Invocation<E>) -> BoxFuture<'_, SessionOutcome> {
        Box::pin(Self::invoke(self, invocation))
    }

    fn resume<'a>(
        &'a self,
        invocation_id: &'a str,
        payload: Map<String, Value>,
        ports: RunPorts<E>,
    ) -> BoxFuture<'a, SessionOutcome> {
        Box::pin(async move { Self::resume(self, invocation_id, &payload, ports).await })
    }
}

impl<E, R: TurnRunner<E> + ?Sized> TurnRunner<E> for Arc<R> {
    fn invoke(&self, invocation: Invocation<E>) -> BoxFuture<'_, SessionOutcome> {
        (**self).invoke(invocation)
    }

    fn resume<'a>(
        &'a self,
        invocation_id: &'a str,
        payload: Map<String, Value>,
        ports: RunPorts<E>,
    ) -> BoxFuture<'a, SessionOutcome> {
        (**self).resume(invocation_id, payload, ports)
    }
}
