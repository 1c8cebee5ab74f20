//! The graph of a turn: begun or resumed, with its journal, its events and its watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use tracing::Span;

use super::trace;
use crate::resumption::{ResumedFields, migrate};
use crate::sessions::Projection;
use crate::store::{CancelMode, ClaimedEntry, EntryPayload, Lease, SharedStore, Suspension};
use logue_graph::{
    BoxFuture, EngineError, Invocation, Journal, NodeError, NodeLocation, PausedRun, RunEvent,
    RunOutcome, RunPorts, SignalDescriptor, State, Suspended, Update,
};

use super::basis::TurnBasis;
use super::cancel::{First, Stop, race};
use super::continuation::Continuation;
use super::failure::Failure;
use super::open::Opened;
use super::recovery::is_message;
use super::signal::SignalError;
use super::state_cache::StateCache;
use super::stream::{ChatEvent, Sink};
use super::turn::RunResult;
use super::{Inner, MESSAGES};

/// The time in which a cancelled run notes what it has emitted.
const FLUSH: Duration = Duration::from_secs(2);

impl<E: Send + 'static> Inner<E> {
    /// Runs an entry's graph, unless it has to end before.
    pub(super) async fn drive(
        &self,
        lease: &Lease,
        begun: &ClaimedEntry,
        opened: &Opened,
        basis: &TurnBasis,
        sink: &Sink<E>,
        span: &Span,
    ) -> RunResult {
        let invocation_id = begun.entry.invocation_id.clone().unwrap_or_default();
        let ports = self.ports(lease, &invocation_id, basis.noted, sink);
        let run = match &begun.entry.work {
            Some(EntryPayload::Message { .. } | EntryPayload::Continue { .. }) => {
                let has_earlier = begun.recovered || basis.continued || !basis.guarded.is_empty();
                let continuation = if has_earlier {
                    basis.continuation(begun.recovered, Vec::new())
                } else {
                    Map::new()
                };
                self.entered(opened.state.clone(), basis, continuation)
                    .map(|start| start.with_session_id(&lease.session))
                    .map(|start| start.with_invocation_id(invocation_id).with_ports(ports))
                    .map(|start| -> BoxFuture<'_, _> { Box::pin(self.graph.invoke(start)) })
                    .map(|run| (run, ResumedFields::default()))
            }
            Some(EntryPayload::Resume { payload, .. }) => {
                let original = self.take_payload(&lease.session, begun.entry.entry);
                let payload = original.unwrap_or_else(|| payload.clone());
                self.resumed(opened, begun, basis, payload, ports, span)
                    .await
            }
            _ => Err(Failure::new(
                "session_load_failed",
                "the entry holds nothing to do",
            )),
        };
        let (run, mut fields) = match run {
            Ok(run) => run,
            Err(failure) => return RunResult::Refused(failure),
        };
        fields.mark_written(basis.journalled.fields.keys());
        let mut run = run;
        let (mut outcome, is_cancelled) = match race(run.as_mut(), self.watch(lease)).await {
            First::One(outcome) => (outcome, false),
            First::Other(Stop::Fenced) => return RunResult::Fenced,
            First::Other(Stop::Cancelled(CancelMode::Interrupt)) => {
                // What listeners have received becomes history.
                match race(self.flushed(), run).await {
                    First::One(()) => return RunResult::Cancelled(CancelMode::Interrupt),
                    First::Other(outcome) => (outcome, true),
                }
            }
            First::Other(Stop::Cancelled(mode)) => return RunResult::Cancelled(mode),
        };
        // The journal could not be written, for example.
        if is_cancelled && matches!(outcome, RunOutcome::Errored(_)) {
            return RunResult::Cancelled(CancelMode::Interrupt);
        }
        fields.finish(&mut outcome);
        RunResult::Ended(outcome)
    }

    /// Waits until the graph has noted what it has emitted, for a limited time.
    async fn flushed(&self) {
        if let Some(flush) = &self.settings.flush {
            race(flush(), self.clock.sleep(FLUSH)).await;
        }
    }

    /// A run from the entry of the graph: a message is answered, or a turn continues.
    fn entered(
        &self,
        mut state: State,
        basis: &TurnBasis,
        continuation: Map<String, Value>,
    ) -> Result<Invocation<E>, Failure> {
        let mut messages: Vec<_> = basis.first_message()?.into_iter().collect();
        messages.extend(basis.journalled.kept_messages());
        let mut fields = basis.journalled.fields.clone();
        fields.retain(|name, _| name != MESSAGES && self.graph.schema().field(name).is_some());
        let update = Update::new().with(MESSAGES, messages);
        let applied = state.apply(update);
        let applied = applied.and_then(|()| state.replace(Update::from(fields)));
        applied.map_err(|error| Failure::new("state_validation_error", error.to_string()))?;
        Ok(Invocation::from_state(state).with_metadata(continuation))
    }

    /// Continues a suspended turn: its state as suspended, merged with that of its session.
    async fn resumed<'a>(
        &'a self,
        opened: &Opened,
        begun: &ClaimedEntry,
        basis: &TurnBasis,
        payload: Map<String, Value>,
        ports: RunPorts<E>,
        span: &Span,
    ) -> Result<(BoxFuture<'a, logue_graph::RunOutcome>, ResumedFields), Failure> {
        let invocation_id = begun.entry.invocation_id.as_deref().unwrap_or_default();
        let suspension = self.store.suspension(invocation_id).await;
        let suspension = suspension.map_err(|error| Failure::load(&error))?;
        let suspension = suspension.ok_or_else(|| {
            Failure::new(
                "suspension_record_invalid",
                "the suspended turn is not stored",
            )
        })?;
        let values = self.graph.has_signal_metadata_in_spans();
        trace::record_resume(span, &descriptor_of(&suspension), values);
        let refused = |error: SignalError| Failure::new(error.category(), error.to_string());
        let mut paused = self.paused_of(&suspension, &payload).map_err(refused)?;
        let schema = self.graph.schema();
        let fields = ResumedFields::merge(&mut paused, opened.state.iter(), &payload, schema);
        let merged = paused
            .merge(&self.graph, &payload)
            .map_err(|error| Failure::engine(&error))?;
        let state = merged.state().filter(|_| basis.journalled.has_begun());
        let Some(state) = state else {
            return Ok((Box::pin(merged.with_ports(ports).run()), fields));
        };
        // Its calls had begun, so it continues after them.
        let earlier = Continuation::from_metadata(paused.metadata());
        let earlier = earlier.map(|earlier| earlier.guarded).unwrap_or_default();
        let continuation = basis.continuation(true, earlier);
        let start = self.entered(state.clone(), basis, continuation)?;
        let start = match paused.session_id() {
            Some(session) => start.with_session_id(session),
            None => start,
        };
        let start = start.with_invocation_id(invocation_id).with_ports(ports);
        Ok((Box::pin(self.graph.invoke(start)), fields))
    }

    /// Checks that a suspended turn can continue; returns the payload to store.
    ///
    /// Nothing is consumed.
    pub(super) async fn prepared_payload(
        &self,
        suspension: &Suspension,
        mut payload: Map<String, Value>,
    ) -> Result<Map<String, Value>, SignalError> {
        if payload.contains_key(MESSAGES) {
            return Err(SignalError::PayloadInvalid {
                message: "a signal may not replace the conversation (`messages`)".to_owned(),
            });
        }
        if let Some(check) = &self.settings.payload_check {
            check(&descriptor_of(suspension), &payload)
                .map_err(|message| SignalError::PayloadInvalid { message })?;
        }
        if let Some(prepare) = &self.settings.payload_preparation {
            let prepared = prepare(descriptor_of(suspension), payload).await;
            payload = prepared.map_err(|message| SignalError::PayloadInvalid { message })?;
        }
        let paused = self.paused_of(suspension, &payload)?;
        match paused.merge(&self.graph, &payload) {
            Ok(_) => Ok(payload),
            Err(error @ EngineError::SuspensionResumePayloadInvalid { .. }) => {
                Err(SignalError::PayloadInvalid {
                    message: error.diagnostic(),
                })
            }
            Err(error) => Err(SignalError::RecordInvalid {
                invocation_id: suspension.invocation_id.clone(),
                reason: error.diagnostic(),
            }),
        }
    }

    /// Reads the record of a suspended turn, in the version of the graph's schema.
    fn paused_of(
        &self,
        suspension: &Suspension,
        payload: &Map<String, Value>,
    ) -> Result<PausedRun, SignalError> {
        let invalid = |error: EngineError| SignalError::RecordInvalid {
            invocation_id: suspension.invocation_id.clone(),
            reason: error.to_string(),
        };
        let mut paused = PausedRun::from_json(&suspension.record).map_err(invalid)?;
        let (schema, all) = (self.graph.schema(), Projection::all());
        migrate(
            &mut paused,
            payload,
            &self.settings.migrations,
            &all,
            schema,
        )?;
        Ok(paused)
    }

    fn ports(
        &self,
        lease: &Lease,
        invocation_id: &str,
        noted: usize,
        sink: &Sink<E>,
    ) -> RunPorts<E> {
        let ports = RunPorts::new().with_journal(TurnJournal {
            store: Arc::clone(&self.store),
            cache: Arc::clone(&self.state_cache),
            noted: AtomicUsize::new(noted),
            lease: lease.clone(),
            invocation_id: invocation_id.to_owned(),
        });
        let clock = Arc::clone(&self.clock);
        let ports = ports.with_clock(move || clock.now().0);
        if sink.is_none() {
            return ports;
        }
        let sink = sink.clone();
        ports.with_events(move |from: &NodeLocation, event: RunEvent<E>| {
            sink.emit(ChatEvent::Run {
                node: from.node_name().to_owned(),
                event,
            });
        })
    }
}

/// The stored record of a suspended run. The conversation is in the history.
pub(super) fn record_of(suspended: &Suspended) -> Value {
    let mut paused = suspended.paused.clone();
    drop(paused.take_field(MESSAGES));
    paused.to_json()
}

pub(super) fn descriptor_of(suspension: &Suspension) -> SignalDescriptor {
    SignalDescriptor {
        signal_id: suspension.signal_id.clone(),
        metadata: suspension.metadata.clone(),
    }
}

/// The journal of a turn: notes under the lease, so that a stopped owner can make none.
struct TurnJournal {
    store: SharedStore,
    /// The place of the messages that the store refuses.
    cache: Arc<StateCache>,
    /// The number of messages that the journal contains.
    noted: AtomicUsize,
    lease: Lease,
    invocation_id: String,
}

impl Journal for TurnJournal {
    fn note(&self, _: &NodeLocation, entry: Value) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(async move {
            let message = is_message(&entry).then(|| entry.clone());
            let noted = self
                .store
                .journal(&self.lease, &self.invocation_id, vec![entry]);
            let noted = noted.await;
            match (&noted, message) {
                (Ok(()), Some(_)) => {
                    self.noted.fetch_add(1, Ordering::Relaxed);
                }
                (Err(error), Some(message)) if error.is_transient() => {
                    let before = self.noted.load(Ordering::Relaxed);
                    self.cache
                        .refused
                        .keep(&self.invocation_id, before, &message);
                }
                _ => {}
            }
            noted.map_err(|error| {
                let failure = Failure::save(&error, "session_save_failed");
                NodeError::from_error(error).with_category(failure.category)
            })
        })
    }
}
