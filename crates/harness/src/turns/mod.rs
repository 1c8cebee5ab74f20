//! From a transmission to a response: the harness without any particular transport.
//!
//! Something comes in, over whatever transport: a message, a request, a signal. A [`TurnHarness`]
//! decides by what the caller says, and by nothing else, which of four paths it takes, runs the graph
//! once for it and says how that ended, in one of three shapes that cannot be confused. It never asks
//! a store of sessions: that is the business of whatever runs the graph ([`TurnRunner`]).
//!
//! | Path | When | What runs |
//! |---|---|---|
//! | 3.0 | the harness is stateless | the graph, without a session |
//! | 3.1 | a new session is asked for | the graph, under the caller's id or a new one |
//! | 3.2 | an existing session is named | the graph, under that id |
//! | 3.3 | a signal arrives | the suspended run that it is for |

mod classify;
mod coordinator;
mod error;
mod respond;
mod runner;

use std::fmt;
use std::sync::Arc;

pub use classify::{DispatchIntent, DispatchPath, HarnessMode, SignalArrival, Transmission};
pub use coordinator::{MemoryCoordinator, RegistrationError, SignalCoordinator};
pub use error::DispatchError;
pub use respond::{ErrorResponse, SuspendedAcknowledgment, TurnBody, TurnResponse};
pub use runner::TurnRunner;

use crate::classification::{Classifier, DefaultClassifier};
use crate::sessions::{SessionError, SessionOutcome};
use logue_graph::{IdSource, Invocation, RunPorts};

use classify::{Classified, Named};

/// Takes transmissions and gives responses. Cloning is cheap.
///
/// `E` is the type of the events that the graph's nodes emit.
pub struct TurnHarness<E = ()> {
    mode: HarnessMode,
    runner: Arc<dyn TurnRunner<E>>,
    coordinator: Arc<dyn SignalCoordinator>,
    classifier: Arc<dyn Classifier>,
    ids: Arc<dyn IdSource>,
}

impl<E> Clone for TurnHarness<E> {
    fn clone(&self) -> Self {
        Self {
            mode: self.mode,
            runner: Arc::clone(&self.runner),
            coordinator: Arc::clone(&self.coordinator),
            classifier: Arc::clone(&self.classifier),
            ids: Arc::clone(&self.ids),
        }
    }
}

impl<E> TurnHarness<E> {
    /// A harness of one mode, for good. Ids are those of new sessions. Signals are matched in memory
    /// unless [`with_coordinator`](Self::with_coordinator) says otherwise.
    pub fn new(
        mode: HarnessMode,
        runner: impl TurnRunner<E> + 'static,
        ids: impl IdSource + 'static,
    ) -> Self {
        Self {
            mode,
            runner: Arc::new(runner),
            coordinator: Arc::new(MemoryCoordinator::new()),
            classifier: Arc::new(DefaultClassifier),
            ids: Arc::new(ids),
        }
    }

    /// Matches signals with the runs that wait for them elsewhere.
    #[must_use]
    pub fn with_coordinator(mut self, coordinator: impl SignalCoordinator + 'static) -> Self {
        self.coordinator = Arc::new(coordinator);
        self
    }

    /// Sorts errors by another rule.
    #[must_use]
    pub fn with_classifier(mut self, classifier: impl Classifier + 'static) -> Self {
        self.classifier = Arc::new(classifier);
        self
    }

    /// Handles one transmission: one turn of the graph, at most. Nothing is tried twice, and a turn
    /// that suspends is not waited for.
    pub async fn handle(&self, transmission: Transmission) -> TurnResponse {
        self.handle_with(transmission, RunPorts::new()).await
    }

    /// Handles one transmission like [`handle`](Self::handle), with ports for the run of the graph.
    ///
    /// A transport that streams receives the events of the run through them.
    pub async fn handle_with(
        &self,
        transmission: Transmission,
        ports: RunPorts<E>,
    ) -> TurnResponse {
        let classified = match self.mode.classify(&transmission) {
            Ok(classified) => classified,
            Err(error) => return self.refused(None, &error),
        };
        let path = classified.path();
        let outcome = match classified {
            Classified::Start { session, .. } => {
                let mut invocation = Invocation::new(transmission.fields).with_ports(ports);
                match session {
                    Named::None => {}
                    Named::ByCaller(id) => invocation = invocation.with_session_id(id),
                    Named::New => invocation = invocation.with_session_id(self.ids.new_id()),
                }
                self.runner.invoke(invocation).await
            }
            Classified::Signal { arrival } => {
                let invocation_id = match self.correlated(&arrival).await {
                    Ok(invocation_id) => invocation_id,
                    Err(error) => return self.refused(Some(path), &error),
                };
                let resumed = self.runner.resume(&invocation_id, arrival.payload, ports);
                let resumed = resumed.await;
                // A run that may still be resumed keeps its subscription.
                if !still_waits(&resumed)
                    && let Some(signal_id) = &arrival.signal_id
                {
                    self.coordinator.forget(signal_id, &invocation_id).await;
                }
                resumed
            }
        };
        self.respond(path, outcome).await
    }

    /// The run that a signal is for.
    async fn correlated(&self, arrival: &SignalArrival) -> Result<String, DispatchError> {
        if let Some(invocation_id) = &arrival.invocation_id {
            return Ok(invocation_id.clone());
        }
        let signal_id = arrival.signal_id.as_deref().unwrap_or_default();
        let mut found = self.coordinator.resolve(signal_id).await;
        match (found.pop(), found.len()) {
            (Some(invocation_id), 0) => Ok(invocation_id),
            (None, _) => Err(DispatchError::SignalCorrelationFailed {
                signal_id: signal_id.to_owned(),
            }),
            (Some(_), others) => Err(DispatchError::PathClassificationAmbiguous {
                reason: format!(
                    "{} runs wait for the signal `{signal_id}`",
                    others.saturating_add(1)
                ),
            }),
        }
    }

    async fn respond(&self, path: DispatchPath, outcome: SessionOutcome) -> TurnResponse {
        match outcome {
            SessionOutcome::Completed(completed) => TurnResponse::completed(path, completed),
            SessionOutcome::Errored(failed) => {
                let bucket = self.classifier.classify(failed.error.category());
                TurnResponse::errored(Some(path), ErrorResponse::failed(*failed, bucket))
            }
            SessionOutcome::Suspended(suspended) => {
                let registered = self
                    .coordinator
                    .register(&suspended.descriptor, &suspended.invocation_id)
                    .await;
                match registered {
                    Ok(()) => TurnResponse::suspended(path, *suspended),
                    Err(error) => {
                        let error = DispatchError::SignalSubscriptionFailed {
                            invocation_id: suspended.invocation_id.clone(),
                            reason: error.to_string(),
                        };
                        self.refused(Some(path), &error)
                    }
                }
            }
        }
    }

    fn refused(&self, path: Option<DispatchPath>, error: &DispatchError) -> TurnResponse {
        let bucket = self.classifier.classify(error.category());
        TurnResponse::errored(path, ErrorResponse::refused(error, bucket))
    }
}

/// Returns whether the run still waits for a signal after this one.
///
/// It does if this signal was refused before the run resumed.
fn still_waits(outcome: &SessionOutcome) -> bool {
    match outcome {
        SessionOutcome::Completed(_) | SessionOutcome::Suspended(_) => false,
        SessionOutcome::Errored(failed) => {
            failed.state.is_none() && !matches!(failed.error, SessionError::RecordInvalid { .. })
        }
    }
}

impl<E> fmt::Debug for TurnHarness<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnHarness")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
