//! An assistant whose conversations are kept in a store.

use std::sync::Arc;

use logue_graph::IdSource;
use logue_harness::Clock;
use logue_harness::chat::{ChatHarness, OnCrash};
use logue_harness::store::SharedStore;

use crate::permission::approval::{check_approval, contradiction, expired};
use crate::permission::edit::checked_edits;
use crate::permission::redacted_call::{redacted_decision, redacted_request};
use crate::turn::assistant::Assistant;
use crate::turn::listener::TurnEvent;
use crate::turn::progress::TURN;
use crate::turn::run::{TurnError, bucket, internal};

/// A chat with an assistant over a store. A signal for one of its turns says whether tools may run;
/// one that does not say it is refused before anything is consumed, and one that comes after the
/// deadline counts as a denial ([`Permissions::with_timeout`](crate::Permissions::with_timeout)).
///
/// A second, different decision is refused with the first one in the message.
///
/// With [`Assistant::redaction`], the store, the model and listeners get redacted text; only tools get
/// the original. A call that was stored with a placeholder does not run: a signal with complete
/// arguments runs it.
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
    let redaction = assistant.redaction.clone();
    let stop = assistant.stop.clone();
    let graph = assistant.graph(Arc::clone(&ids));
    let graph = graph.map_err(|error| internal(error.to_string()))?;
    let mut chat = ChatHarness::builder(graph, store, clock, ids);
    if let Some(redact) = redaction.clone() {
        let of_payloads = Arc::clone(&redact);
        chat = chat
            .with_redaction(redact)
            .with_payload_redaction(move |payload| redacted_decision(&*of_payloads, payload));
    }
    chat.with_classifier(bucket)
        .with_reported_fields([TURN])
        .with_flush(move || {
            let stop = stop.clone();
            Box::pin(async move { stop.flush().await })
        })
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
        .with_contradiction_check(move |waiting, earlier, later| match &redaction {
            // The earlier decision is as it was stored.
            Some(redact) => contradiction(waiting, earlier, &redacted_request(&**redact, later)),
            None => contradiction(waiting, earlier, later),
        })
        .build()
        .map_err(|error| internal(error.to_string()))
}
