//! Comparison of the expectations of a case with one run.

use logue_graph::{EngineError, NodeEvent, Phase};
use logue_harness::sessions::{PausedStore, SessionError, SessionOutcome, SessionStore};
use serde_json::{Map, Value, json};

use crate::checks::Checks;
use crate::runs::{Ran, World, carried, still_waits};
use crate::seen::SeenEvent;
use crate::vocabulary::{
    Case, ErrorExpected, EventExpected, RunExpected, SavedExpected, StoreAfter,
};

/// How the run was to end: as said, in the expected error, or else at END.
pub(crate) fn check_ending(
    world: &World,
    wanted: Option<&str>,
    error: Option<&ErrorExpected>,
    ran: &Ran,
    checks: &mut Checks,
) {
    let wanted = match (wanted, error) {
        (Some(wanted), _) => wanted,
        (None, Some(_)) => "errored",
        (None, None) => "completed",
    };
    let found = ran.outcome.as_str();
    let why = ran
        .outcome
        .error()
        .map(|error| format!(" ({}: {})", error.category(), error.diagnostic()));
    checks.holds(
        wanted == found,
        format!(
            "the outcome is {found}{}, not {wanted}",
            why.unwrap_or_default()
        ),
    );
    if let Some(error) = error {
        check_error(world, error, ran, checks);
    }
}

fn check_error(world: &World, expected: &ErrorExpected, ran: &Ran, checks: &mut Checks) {
    let SessionOutcome::Errored(failed) = &ran.outcome else {
        return checks.holds(false, format!("it did not fail with {}", expected.category));
    };
    let error = &failed.error;
    checks.equal(
        "error.category",
        &expected.category.as_str(),
        &error.category(),
    );
    if let Some(node) = &expected.raised_from {
        checks.equal(
            "the failed node",
            &Some(node.as_str()),
            &failed.node.as_deref(),
        );
    }
    if let Some(at) = &expected.raised_at {
        let found = match error {
            SessionError::LoadFailed { .. } | SessionError::Migration(_) => "load",
            SessionError::RecordInvalid { .. } | SessionError::PayloadInvalid { .. } => "resume",
            SessionError::PersistenceFailed { .. } => "suspend",
            _ if failed.completed.is_some() => "exit",
            _ => "run",
        };
        checks.equal("where it is raised", &at.as_str(), &found);
        if matches!(found, "load" | "resume") {
            let began = world.seen.events_from(ran.started_from).len();
            checks.equal("the number of events before the error", &0, &began);
        }
    }
    if let Some(wanted) = &expected.carries {
        checks.carried(wanted, &carried(error));
    }
    if let Some(cause) = &expected.cause {
        let words = error.to_string();
        if let Some(kind) = &cause.exception_type {
            let named = format!("{kind}:");
            checks.holds(
                words.contains(&named),
                format!("the cause of {words:?} is no {kind}"),
            );
        }
        if let Some(category) = &cause.category {
            let found = match error {
                SessionError::Engine(error) => error.derived_category(),
                other => other.category(),
            };
            checks.equal("error.cause.category", &category.as_str(), &found);
        }
    }
    let words = error.diagnostic();
    for part in expected.message_includes.iter().flatten() {
        checks.holds(
            words.contains(part),
            format!("{words:?} does not say {part:?}"),
        );
    }
}

pub(crate) async fn check(
    world: &World,
    case: &Case,
    expected: &RunExpected,
    ran: &Ran,
    checks: &mut Checks,
) {
    if let Some(error) = &expected.error {
        check_error(world, error, ran, checks);
    }
    states(expected, ran, checks);
    suspension(world, expected, ran, checks).await;
    nodes(world, case, expected, ran, checks);
    calls(expected, ran, checks);
    if let Some(steps) = &expected.migrations_run {
        checks.equal("the migrations that ran", steps, &ran.migrations);
    }
    if let Some(log) = &expected.middleware_log_captured {
        checks.equal("the log of the middleware", log, &ran.log);
    }
    if let Some(after) = &expected.store_after {
        store_after(world, after, ran, checks).await;
    }
    if let Some(saved) = &expected.saved_session_assertions {
        saved_record(world, saved, ran, checks).await;
    }
    crate::traced::check(world, case, expected, checks);
}

fn object(fields: &Map<String, Value>) -> Value {
    Value::Object(fields.clone())
}

fn states(expected: &RunExpected, ran: &Ran, checks: &mut Checks) {
    let found = ran
        .outcome
        .state()
        .map(|state| Value::Object(state.to_json()));
    let completed = matches!(ran.outcome, SessionOutcome::Completed(_))
        || matches!(&ran.outcome, SessionOutcome::Errored(failed) if failed.completed.is_some());
    if let Some(wanted) = &expected.final_state {
        checks.holds(completed, "there is no final state");
        checks.same("the final state", &object(wanted), found.as_ref());
    }
    if let Some(wanted) = &expected.suspended_state {
        let suspended = matches!(ran.outcome, SessionOutcome::Suspended(_));
        checks.holds(suspended, "there is no suspended state");
        checks.same("the suspended state", &object(wanted), found.as_ref());
    }
    if let Some(wanted) = &expected.final_state_at_error {
        let errored = matches!(ran.outcome, SessionOutcome::Errored(_));
        checks.holds(errored, "there is no error");
        checks.same("the state at the error", &object(wanted), found.as_ref());
    }
}

async fn suspension(world: &World, expected: &RunExpected, ran: &Ran, checks: &mut Checks) {
    let suspended = match &ran.outcome {
        SessionOutcome::Suspended(suspended) => Some(suspended),
        _ => None,
    };
    if let Some(descriptor) = &expected.descriptor {
        checks.descriptor(descriptor, suspended.map(|one| &one.descriptor));
    }
    if let Some(node) = &expected.suspending_node {
        let found = suspended.and_then(|one| one.namespace.first());
        checks.equal("the suspending node", &Some(node), &found);
    }
    if let Some(node) = &expected.node_name {
        let found = suspended.map(|one| one.node_name.as_str());
        checks.equal(
            "the innermost suspending node",
            &Some(node.as_str()),
            &found,
        );
    }
    if let Some(namespace) = &expected.namespace {
        let found = suspended.map(|one| &one.namespace);
        checks.equal("the way to the suspending node", &Some(namespace), &found);
    }
    if let Some(positions) = &expected.completed_positions {
        let found = suspended.map(|one| one.paused.completed_positions());
        let found = found.map(|found| {
            let names = found
                .into_iter()
                .map(|position| position.namespace.join("/"));
            names.collect::<Vec<_>>()
        });
        checks.equal("the completed positions", &Some(positions), &found.as_ref());
    }
    if let Some(same) = expected.same_invocation_id {
        let found = ran.resumed.as_deref() == ran.outcome.invocation_id();
        checks.equal("that the run keeps its id", &same, &found);
    }
    if let Some(id) = &expected.correlation_id {
        let found = match &ran.outcome {
            SessionOutcome::Completed(completed) => Some(completed.correlation_id.as_str()),
            SessionOutcome::Suspended(suspended) => Some(suspended.correlation_id.as_str()),
            SessionOutcome::Errored(_) => None,
        };
        checks.equal("the correlation id", &Some(id.as_str()), &found);
    }
    let id = ran.outcome.invocation_id().unwrap_or_default();
    if let Some(waits) = expected.still_suspended {
        checks.equal("that it still waits", &waits, &still_waits(world, id).await);
    }
    if let Some(asserted) = &expected.checkpointer_assertions {
        let record = world.store.kept().paused(id).await;
        let record = record.ok().flatten();
        if let Some(exists) = asserted.paused_invocation_record_exists {
            checks.equal("that there is a paused record", &exists, &record.is_some());
        }
        if let Some(kind) = &asserted.record_type {
            let found = record.map(|record| record.status.as_str());
            checks.equal("the type of the record", &Some(kind.as_str()), &found);
        }
    }
}

fn nodes(world: &World, case: &Case, expected: &RunExpected, ran: &Ran, checks: &mut Checks) {
    let events = world.seen.events_from(ran.started_from);
    if let Some(order) = &expected.execution_order {
        let outer: Vec<_> = case.nodes.0.iter().map(|(name, _)| name).collect();
        let only_outer = order.iter().all(|name| outer.contains(&name));
        let began = events.iter().map(|seen| &seen.event).filter(|event| {
            matches!(event.phase, Phase::Started)
                && (!only_outer || event.place.namespace().len() == 1)
        });
        let began: Vec<_> = began
            .map(|event| event.place.node_name().to_owned())
            .collect();
        checks.equal("the order of nodes", order, &began);
    }
    let inside = |event: &NodeEvent| {
        matches!(event.phase, Phase::Started) && event.place.namespace().len() > 1
    };
    let mut inner = events
        .iter()
        .map(|seen| &seen.event)
        .filter(|event| inside(event));
    if let Some(state) = &expected.inner_pre_state {
        let found = inner
            .next()
            .map(|event| Value::Object(event.pre_state.to_json()));
        checks.same("the state inside", &object(state), found.as_ref());
    }
    if let Some(states) = &expected.instance_pre_states {
        let mut found: Vec<Option<Value>> = vec![None; states.len()];
        for seen in &events {
            let Some(index) = seen
                .event
                .place
                .fan_out_index()
                .filter(|_| inside(&seen.event))
            else {
                continue;
            };
            if index >= found.len() {
                found.resize(index + 1, None);
            }
            if let Some(place) = found.get_mut(index) {
                place.get_or_insert_with(|| Value::Object(seen.event.pre_state.to_json()));
            }
        }
        let found: Vec<_> = found.into_iter().map(Option::unwrap_or_default).collect();
        checks.same(
            "the states of the instances",
            &json!(states),
            Some(&json!(found)),
        );
    }
    for (observer, wanted) in expected.observer_events.iter().flat_map(|all| &all.0) {
        let attached = case.observers.iter().any(|known| {
            known.name == *observer && known.attach.as_deref().unwrap_or("graph") == "graph"
        });
        checks.holds(attached, format!("no observer `{observer}` is attached"));
        checks.equal("the number of events", &wanted.len(), &events.len());
        for (number, (wanted, found)) in wanted.iter().zip(&events).enumerate() {
            event(
                &format!("event {}", number + 1),
                wanted,
                &found.event,
                checks,
            );
        }
    }
    for (name, value) in &expected.observer_event_invariants {
        event_invariant(name, value, &events, checks);
    }
}

fn event(what: &str, expected: &EventExpected, found: &NodeEvent, checks: &mut Checks) {
    let EventExpected {
        phase,
        node_name,
        namespace,
        step,
        attempt_index,
        pre_state,
        post_state,
        error,
        descriptor,
        parent_states,
        fan_out_index,
        branch_name,
    } = expected;
    let said = |name: &str| format!("{what}.{name}");
    if let Some(phase) = phase {
        checks.equal(&said("phase"), &phase.as_str(), &found.phase.as_str());
    }
    if let Some(name) = node_name {
        checks.equal(&said("node_name"), &name.as_str(), &found.place.node_name());
    }
    if let Some(namespace) = namespace {
        checks.equal(&said("namespace"), namespace, &found.place.namespace());
    }
    if let Some(step) = step {
        checks.equal(&said("step"), step, &found.place.step());
    }
    if let Some(index) = attempt_index {
        checks.equal(&said("attempt_index"), index, &found.place.attempt_index());
    }
    if let Some(index) = fan_out_index {
        checks.equal(
            &said("fan_out_index"),
            &Some(*index),
            &found.place.fan_out_index(),
        );
    }
    if let Some(name) = branch_name {
        checks.equal(
            &said("branch_name"),
            &Some(name.as_str()),
            &found.place.branch_name(),
        );
    }
    if let Some(state) = pre_state {
        let found = Value::Object(found.pre_state.to_json());
        checks.same(&said("pre_state"), &object(state), Some(&found));
    }
    if let Some(state) = post_state {
        let found = found
            .post_state()
            .map(|state| Value::Object(state.to_json()));
        checks.same(&said("post_state"), &object(state), found.as_ref());
    }
    if let Some(error) = error {
        let found = found.error().map(EngineError::derived_category);
        checks.equal(&said("error"), &Some(error.category.as_str()), &found);
    }
    if let Some(descriptor) = descriptor {
        checks.descriptor(descriptor, found.descriptor());
    }
    if let Some(states) = parent_states {
        let found: Vec<_> = found
            .parent_states
            .iter()
            .map(logue_graph::State::to_json)
            .collect();
        checks.same(&said("parent_states"), &json!(states), Some(&json!(found)));
    }
}

fn event_invariant(name: &str, value: &Value, events: &[SeenEvent], checks: &mut Checks) {
    let suspended: Vec<_> = events
        .iter()
        .filter(|seen| matches!(seen.event.phase, Phase::Suspended(_)))
        .collect();
    let of = |seen: &SeenEvent| seen.event.place.namespace();
    let found = match name {
        "no_completed_event_for_suspending_node" => !events.iter().any(|seen| {
            matches!(seen.event.phase, Phase::Completed(_))
                && suspended.iter().any(|other| of(other) == of(seen))
        }),
        "suspended_event_carries_descriptor" => {
            let carried = suspended
                .iter()
                .all(|seen| seen.event.descriptor().is_some());
            carried && !suspended.is_empty()
        }
        "started_followed_by_suspended_in_order" => suspended.iter().all(|other| {
            let at = events.iter().position(|seen| {
                matches!(seen.event.phase, Phase::Suspended(_)) && of(seen) == of(other)
            });
            let began = events.iter().position(|seen| {
                matches!(seen.event.phase, Phase::Started) && of(seen) == of(other)
            });
            began.zip(at).is_some_and(|(began, at)| began < at)
        }),
        _ => {
            return checks.fail(format!(
                "{}: observer_event_invariants.{name}",
                crate::vocabulary::UNKNOWN
            ));
        }
    };
    checks.same(name, value, Some(&json!(found)));
}

fn calls(expected: &RunExpected, ran: &Ran, checks: &mut Checks) {
    let loads = ran.asked.loads - ran.asked_before.loads;
    let saves = ran.asked.saves - ran.asked_before.saves;
    let mut never = |said: Option<bool>, what: &str, none: bool| {
        if let Some(said) = said {
            checks.equal(what, &said, &none);
        }
    };
    never(
        expected.no_session_load,
        "that no session was loaded",
        loads == 0,
    );
    never(
        expected.no_session_save,
        "that no session was saved",
        saves == 0,
    );
    never(
        expected.store_untouched,
        "that the store was not asked",
        loads == 0 && saves == 0,
    );
    if let Some(said) = expected.no_auto_save_on_end {
        // A save at the end comes after one that a node asked for.
        let at_end = matches!(ran.outcome, SessionOutcome::Completed(_)) && saves > 0;
        checks.equal("that nothing was saved at the end", &said, &!at_end);
    }
    if let Some(wanted) = expected.session_store_load_calls {
        checks.equal("the number of loads", &wanted, &loads);
    }
    if let Some(wanted) = expected.session_store_save_calls {
        checks.equal("the number of saves", &(wanted as u64), &saves);
    }
}

async fn store_after(world: &World, expected: &StoreAfter, ran: &Ran, checks: &mut Checks) {
    if let Some(id) = &expected.load_returns_none_for_session_id {
        let found = world.store.kept().load(id).await.ok().flatten();
        checks.holds(found.is_none(), format!("there is a session `{id}`"));
        // That there is no session of a name that nobody used would say nothing.
        checks.equal(
            "the session of the run",
            &Some(id),
            &ran.session_id.as_ref(),
        );
    }
    let Some(id) = &expected.load_returns_for_session_id else {
        return;
    };
    let Some(found) = world.store.kept().load(id).await.ok().flatten() else {
        return checks.holds(false, format!("there is no session `{id}`"));
    };
    checks.made += 1;
    if let Some(state) = &expected.loaded_state {
        let found = Value::Object(found.record.state);
        checks.same("the stored state", &object(state), Some(&found));
    }
    if let Some(version) = &expected.loaded_schema_version {
        let found = json!(found.record.schema_version);
        checks.same("the stored version", version, Some(&found));
    }
}

async fn saved_record(world: &World, expected: &SavedExpected, ran: &Ran, checks: &mut Checks) {
    let id = ran.session_id.clone().unwrap_or_default();
    let Some(found) = world.store.kept().load(&id).await.ok().flatten() else {
        return checks.holds(false, format!("the session `{id}` was not saved"));
    };
    for field in &expected.excludes_fields {
        let there = found.record.state.contains_key(field);
        checks.holds(!there, format!("the saved state has the field {field}"));
    }
    if let Some(state) = &expected.state {
        let found = Value::Object(found.record.state);
        checks.same("the saved state", &object(state), Some(&found));
    }
    if let Some(version) = &expected.schema_version {
        let found = json!(found.record.schema_version);
        checks.same("the saved version", version, Some(&found));
    }
}
