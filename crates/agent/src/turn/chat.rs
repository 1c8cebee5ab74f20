//! An assistant whose conversations are kept in a store.

use std::sync::Arc;

use logue_graph::IdSource;
use logue_harness::Clock;
use logue_harness::chat::{ChatHarness, OnCrash};
use logue_harness::store::SharedStore;

use crate::permission::approval::{check_approval, contradiction, expired};
use crate::permission::edit::checked_edits;
use crate::turn::assistant::Assistant;
use crate::turn::listener::TurnEvent;
use crate::turn::run::{TurnError, bucket, internal};

/// A chat with an assistant over a store. A signal for one of its turns says whether tools may run;
/// one that does not say it is refused before anything is consumed, and one that comes after the
/// deadline counts as a denial ([`Permissions::with_timeout`](crate::Permissions::with_timeout)).
///
/// A second, different decision is refused with the first one in the message.
///
/// Ids must differ in all processes that share the store. `on_crash` is the policy for turns whose
/// process died.
///
/// # Errors
/// None that a caller could cause.
pub fn chat(
    assistant: Assistant,
    store: SharedStore,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    on_crash: OnCrash,
) -> Result<ChatHarness<TurnEvent>, TurnError> {
    let router = assistant.routing.router(assistant.toolbox.clone());
    let permissions = assistant.permissions.clone();
    let checking = Arc::new((router, permissions));
    let graph = assistant.graph(Arc::clone(&ids));
    let graph = graph.map_err(|error| internal(error.to_string()))?;
    ChatHarness::builder(graph, store, clock, ids)
        .with_classifier(bucket)
        .with_payload_check(check_approval)
        .with_payload_preparation(move |descriptor, payload| {
            let checking = Arc::clone(&checking);
            Box::pin(async move {
                let (router, permissions) = &*checking;
                checked_edits(router, permissions, &descriptor, payload).await
            })
        })
        .with_expiry(expired)
        .with_on_crash(on_crash)
        .with_contradiction_check(contradiction)
        .build()
        .map_err(|error| internal(error.to_string()))
}
