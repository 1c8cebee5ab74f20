//! Cases that send transmissions to the abstract harness.

use std::sync::{Arc, Mutex};

use logue_graph::{Invocation, RunPorts, SignalDescriptor, Update};
use logue_harness::BoxFuture;
use logue_harness::sessions::{SessionError, SessionOutcome};
use logue_harness::turns::{
    DispatchIntent, HarnessMode, MemoryCoordinator, RegistrationError, SignalArrival,
    SignalCoordinator, Transmission as Sent, TurnBody, TurnHarness, TurnResponse, TurnRunner,
};
use serde_json::{Map, Value, json};

use crate::checks::{Checks, EarlierRuns};
use crate::runs::{NoRun, World, still_waits};
use crate::seen::{is_uuid, lock};
use crate::vocabulary::{
    Case, HarnessDef, InvokeArgs, ReadError, Transmission, TransmissionExpected, UNKNOWN,
};

/// A call that the harness made.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Invoke {
        session_id: Option<String>,
    },
    Resume {
        invocation_id: String,
        payload: Map<String, Value>,
    },
}

/// Notes what the harness asks of whatever runs the graph.
struct SpyRunner {
    runner: Arc<dyn TurnRunner>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl TurnRunner for SpyRunner {
    fn invoke(&self, invocation: Invocation) -> BoxFuture<'_, SessionOutcome> {
        lock(&self.calls).push(Call::Invoke {
            session_id: invocation.session_id().map(str::to_owned),
        });
        self.runner.invoke(invocation)
    }

    fn resume<'a>(
        &'a self,
        invocation_id: &'a str,
        payload: Map<String, Value>,
        ports: RunPorts,
    ) -> BoxFuture<'a, SessionOutcome> {
        lock(&self.calls).push(Call::Resume {
            invocation_id: invocation_id.to_owned(),
            payload: payload.clone(),
        });
        self.runner.resume(invocation_id, payload, ports)
    }
}

/// Notes what the harness asks of the coordinator, and refuses if the case says so.
#[derive(Default)]
struct SpyCoordinator {
    kept: MemoryCoordinator,
    refuses: Option<String>,
    registered: Mutex<Vec<(SignalDescriptor, String)>>,
    resolved: Mutex<Vec<Vec<String>>>,
}

impl SignalCoordinator for SpyCoordinator {
    fn register<'a>(
        &'a self,
        descriptor: &'a SignalDescriptor,
        invocation_id: &'a str,
    ) -> BoxFuture<'a, Result<(), RegistrationError>> {
        if let Some(message) = &self.refuses {
            let message = message.clone();
            return Box::pin(async move { Err(RegistrationError { message }) });
        }
        lock(&self.registered).push((descriptor.clone(), invocation_id.to_owned()));
        self.kept.register(descriptor, invocation_id)
    }

    fn resolve<'a>(&'a self, signal_id: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let found = self.kept.resolve(signal_id).await;
            lock(&self.resolved).push(found.clone());
            found
        })
    }

    fn forget<'a>(&'a self, signal_id: &'a str, invocation_id: &'a str) -> BoxFuture<'a, ()> {
        self.kept.forget(signal_id, invocation_id)
    }
}

/// One transmission and what was seen of it.
struct Handled {
    response: TurnResponse,
    calls: Vec<Call>,
    registered: Vec<(SignalDescriptor, String)>,
    resolved: Vec<Vec<String>>,
    loads: usize,
    saves: u64,
}

/// Sends the transmissions of a case and says which responses came.
pub(crate) async fn run_case(
    case: &Case,
    def: &HarnessDef,
    transmissions: &[Transmission],
    world: &World,
    checks: &mut Checks,
) {
    world.seed(case).await;
    let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
    let coordinator = Arc::new(SpyCoordinator {
        refuses: def.refusal(),
        ..SpyCoordinator::default()
    });
    let harness = || harness(case, def, world, &calls, &coordinator);
    let mut turns = match harness() {
        Ok(turns) => turns,
        Err(error) => return checks.fail(error.to_string()),
    };
    let mut suspended = EarlierRuns::default();
    for (number, transmission) in transmissions.iter().enumerate() {
        checks.at(match &transmission.name {
            Some(name) => name.clone(),
            None => format!("transmission {}", number + 1),
        });
        if transmission.fresh_process {
            match harness() {
                Ok(fresh) => turns = fresh,
                Err(error) => checks.fail(error.to_string()),
            }
        }
        let sent = match sent(case, transmission, &suspended) {
            Ok(sent) => sent,
            Err(error) => {
                checks.fail(error.to_string());
                continue;
            }
        };
        let before = world.store.asked();
        let (calls_before, registered_before, resolved_before) = (
            lock(&calls).len(),
            lock(&coordinator.registered).len(),
            lock(&coordinator.resolved).len(),
        );
        let response = turns.handle(sent).await;
        let asked = world.store.asked();
        let handled = Handled {
            calls: lock(&calls).iter().skip(calls_before).cloned().collect(),
            registered: lock(&coordinator.registered)
                .iter()
                .skip(registered_before)
                .cloned()
                .collect(),
            resolved: lock(&coordinator.resolved)
                .iter()
                .skip(resolved_before)
                .cloned()
                .collect(),
            loads: asked.loads - before.loads,
            saves: asked.saves - before.saves,
            response,
        };
        if let Some((id, outcome)) = ended(&handled.response.body) {
            suspended.note(transmission.name.as_deref(), id, outcome);
        }
        if let Some(expected) = &transmission.expected {
            check(
                case,
                world,
                transmission,
                expected,
                &handled,
                &suspended,
                checks,
            )
            .await;
        }
        always(def, &handled, checks);
    }
    checks.at("");
}

fn harness(
    case: &Case,
    def: &HarnessDef,
    world: &World,
    calls: &Arc<Mutex<Vec<Call>>>,
    coordinator: &Arc<SpyCoordinator>,
) -> Result<TurnHarness, ReadError> {
    let mode = match def.mode.as_str() {
        "sessioned" => HarnessMode::Sessioned,
        "stateless" => HarnessMode::Stateless,
        other => return Err(unknown(format!("there is no mode `{other}`"))),
    };
    let sessions = world.sessions(case).map_err(|no_run| match no_run {
        NoRun::Words(error) => error,
        NoRun::Refused(refusal) => unknown(format!("{}: {}", refusal.category, refusal.words)),
    })?;
    let runner = SpyRunner {
        runner: Arc::new(sessions),
        calls: Arc::clone(calls),
    };
    let harness = TurnHarness::new(mode, runner, Arc::clone(&world.ids));
    Ok(harness.with_coordinator(Arc::clone(coordinator)))
}

/// The transmission as a transport would have read it.
fn sent(
    case: &Case,
    transmission: &Transmission,
    suspended: &EarlierRuns,
) -> Result<Sent, ReadError> {
    let intent = match transmission.dispatch_intent.as_deref() {
        None => None,
        Some("new_session") => Some(DispatchIntent::NewSession),
        Some("existing_session") => Some(DispatchIntent::ExistingSession),
        Some("signal_resume") => Some(DispatchIntent::SignalResume),
        Some(other) => return Err(unknown(format!("there is no intent `{other}`"))),
    };
    let text = |key: &str| {
        let value = transmission.payload.get(key).and_then(Value::as_str);
        let meant = value.map(|words| suspended.meant(words));
        meant.transpose().map_err(unknown)
    };
    let fields = case.state.fields.0.iter().filter_map(|(name, _)| {
        let value = transmission.payload.get(name)?;
        Some((name.clone(), value.clone()))
    });
    let signal = transmission
        .signal_payload
        .as_ref()
        .map(|payload| -> Result<SignalArrival, ReadError> {
            Ok(SignalArrival {
                invocation_id: text("invocation_id")?,
                signal_id: text("signal_id")?,
                payload: payload.clone(),
            })
        })
        .transpose()?;
    Ok(Sent {
        session_id: text("session_id")?,
        intent,
        fields: Update::from(fields.collect::<Map<String, Value>>()),
        signal,
    })
}

/// Returns the run that a turn ended, and how.
fn ended(body: &TurnBody) -> Option<(&str, &'static str)> {
    match body {
        TurnBody::Completed(turn) => Some((&turn.invocation_id, "completed")),
        TurnBody::Suspended(waits) => Some((&waits.suspended.invocation_id, "suspended")),
        TurnBody::Errored(error) => {
            let failed = error.failed.as_ref()?;
            Some((failed.invocation_id.as_deref()?, "errored"))
        }
        _ => None,
    }
}

async fn check(
    case: &Case,
    world: &World,
    transmission: &Transmission,
    expected: &TransmissionExpected,
    handled: &Handled,
    suspended: &EarlierRuns,
    checks: &mut Checks,
) {
    let response = &handled.response;
    if let Some(path) = &expected.dispatch_path {
        let found = json!(
            response
                .path
                .map(logue_harness::turns::DispatchPath::as_str)
        );
        checks.same("the path", path, Some(&found));
    }
    let outcome = match response.body {
        TurnBody::Completed(_) => "completed",
        TurnBody::Suspended(_) => "suspended",
        _ => "errored",
    };
    let why = match &response.body {
        TurnBody::Errored(error) => format!(" ({}: {})", error.category, error.diagnostic),
        _ => String::new(),
    };
    let wanted = match &expected.invoke_outcome {
        Some(wanted) => wanted.as_str(),
        None if expected.error_category.is_some() => "errored",
        None => outcome,
    };
    checks.holds(
        wanted == outcome,
        format!("the outcome is {outcome}{why}, not {wanted}"),
    );
    if let Some(args) = &expected.invoke_args {
        invoke_args(transmission, args, handled, suspended, checks);
    }
    if let Some(invoked) = expected.invoked {
        checks.equal(
            "that the graph was asked to run",
            &invoked,
            &!handled.calls.is_empty(),
        );
    }
    if let Some(state) = &expected.final_state {
        let found = match &response.body {
            TurnBody::Completed(completed) => Some(Value::Object(completed.state.to_json())),
            _ => None,
        };
        checks.same(
            "the final state",
            &Value::Object(state.clone()),
            found.as_ref(),
        );
    }
    let error = match &response.body {
        TurnBody::Errored(error) => Some(error),
        _ => None,
    };
    if let Some(category) = &expected.error_category {
        let found = error.map(|error| error.category.as_str());
        checks.equal("the error", &Some(category.as_str()), &found);
    }
    if let Some(bucket) = &expected.error_bucket {
        let found = error.map(|error| error.bucket.as_str());
        checks.equal("the bucket", &Some(bucket.as_str()), &found);
    }
    if let Some(shape) = &expected.outbound_shape {
        checks.equal("the shape", &shape.as_str(), &response.shape());
    }
    if let Some(payload) = &expected.outbound_payload_includes {
        checks.includes("what is sent", payload, &response.payload());
    }
    signals(case, world, expected, handled, suspended, checks).await;
    if let Some(retried) = expected.harness_auto_retried {
        checks.equal(
            "that it was tried again",
            &retried,
            &(handled.calls.len() > 1),
        );
    }
    if let Some(loads) = expected.session_store_load_calls {
        checks.equal("the number of loads", &loads, &handled.loads);
    }
    if let Some(saves) = expected.session_store_save_calls {
        checks.equal("the number of saves", &(saves as u64), &handled.saves);
    }
}

async fn signals(
    case: &Case,
    world: &World,
    expected: &TransmissionExpected,
    handled: &Handled,
    suspended: &EarlierRuns,
    checks: &mut Checks,
) {
    let waits = match &handled.response.body {
        TurnBody::Suspended(waits) => Some(waits),
        _ => None,
    };
    if let Some(descriptor) = &expected.descriptor {
        checks.descriptor(descriptor, waits.map(|waits| &waits.descriptor));
    }
    let id = waits.map(|waits| waits.suspended.invocation_id.as_str());
    let registered = handled
        .registered
        .iter()
        .any(|(_, run)| Some(run.as_str()) == id);
    for said in [
        expected.signal_subscription_registered,
        expected.harness_signal_subscription_registered,
    ]
    .into_iter()
    .flatten()
    {
        checks.equal("that the run is registered", &said, &registered);
    }
    if let Some(read) = expected.descriptor_read_from_outcome {
        // What the coordinator was given is what the node had said.
        let found = handled.registered.iter().any(|(descriptor, _)| {
            said_by_a_node(case, descriptor)
                && waits.is_some_and(|waits| waits.descriptor == *descriptor)
        });
        checks.equal("that the descriptor was read", &read, &found);
    }
    if let Some(not_blocked) = expected.harness_did_not_block {
        let found = still_waits(world, id.unwrap_or_default()).await;
        checks.equal(
            "that the answer came while the run waits",
            &not_blocked,
            &found,
        );
    }
    let resumed = handled.calls.iter().find_map(|call| match call {
        Call::Resume { invocation_id, .. } => Some(invocation_id.as_str()),
        Call::Invoke { .. } => None,
    });
    if let Some(resolved) = expected.signal_correlation_resolved {
        let by_coordinator = handled.resolved.iter().all(|found| found.len() == 1);
        let found = resumed.is_some() && by_coordinator;
        checks.equal("that the signal found its run", &resolved, &found);
    }
    if let Some(wanted) = &expected.resolved_to_invocation_id {
        match suspended.meant(wanted) {
            Ok(wanted) => {
                checks.equal("the run of the signal", &Some(wanted.as_str()), &resumed);
            }
            Err(error) => checks.fail(error),
        }
    }
}

fn said_by_a_node(case: &Case, descriptor: &SignalDescriptor) -> bool {
    let nodes = case.nodes.0.iter().flat_map(|(_, node)| &node.directives);
    nodes.into_iter().any(|directive| match directive {
        crate::vocabulary::Directive::Suspend(suspend) => {
            crate::script::descriptor(suspend) == *descriptor
        }
        _ => false,
    })
}

fn invoke_args(
    transmission: &Transmission,
    expected: &InvokeArgs,
    handled: &Handled,
    suspended: &EarlierRuns,
    checks: &mut Checks,
) {
    let Some(call) = handled.calls.first() else {
        return checks.holds(false, "the graph was not asked to run");
    };
    let (session, resumed, payload) = match call {
        Call::Invoke { session_id } => (session_id.as_deref(), None, None),
        Call::Resume {
            invocation_id,
            payload,
        } => (None, Some(invocation_id.as_str()), Some(payload)),
    };
    let supplied = transmission
        .payload
        .get("session_id")
        .and_then(Value::as_str);
    if let Some(present) = expected.session_id_present {
        checks.equal("that a session was passed", &present, &session.is_some());
    }
    if let Some(absent) = expected.session_id_absent_verified {
        checks.equal("that no session was passed", &absent, &session.is_none());
    }
    if let Some(minted) = expected.session_id_auto_generated {
        let found = supplied.is_none() && session.is_some_and(is_uuid);
        checks.equal("that the session's id is new", &minted, &found);
    }
    if let Some(caller) = expected.session_id_caller_supplied {
        let found = session.is_some() && session == supplied;
        checks.equal("that the session's id is the caller's", &caller, &found);
    }
    if let Some(wanted) = &expected.session_id {
        checks.equal("the session", &Some(wanted.as_str()), &session);
    }
    if let Some(wanted) = &expected.resume_invocation {
        match suspended.meant(wanted) {
            Ok(wanted) => checks.equal("the run that goes on", &Some(wanted.as_str()), &resumed),
            Err(error) => checks.fail(error),
        }
    }
    if let Some(wanted) = &expected.signal_payload {
        let found = payload.map(|payload| Value::Object(payload.clone()));
        checks.same(
            "the payload",
            &Value::Object(wanted.clone()),
            found.as_ref(),
        );
    }
}

/// Checks the invariants of every transmission.
fn always(def: &HarnessDef, handled: &Handled, checks: &mut Checks) {
    checks.holds(
        handled.calls.len() <= 1,
        "the graph was asked to run more than once",
    );
    if def.mode == "stateless" {
        let sessions = handled
            .calls
            .iter()
            .any(|call| matches!(call, Call::Invoke { session_id } if session_id.is_some()));
        checks.holds(!sessions, "a stateless harness has passed a session");
    }
    let suspended = matches!(handled.response.body, TurnBody::Suspended(_));
    checks.holds(
        suspended != handled.registered.is_empty(),
        "a run is registered if and only if its turn is told as suspended",
    );
    if let TurnBody::Errored(error) = &handled.response.body {
        let failed = error.failed.as_ref().map(|failed| &failed.error);
        let found = failed.map(SessionError::category);
        checks.holds(
            found.is_none_or(|found| found == error.category),
            "the category that is told is not the one of the error",
        );
    }
}

fn unknown(message: String) -> ReadError {
    ReadError {
        category: UNKNOWN,
        message,
    }
}
