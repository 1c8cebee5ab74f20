//! The checks of invariants: what is found in the runs of a case.

use logue_graph::Phase;
use logue_harness::sessions::{SessionError, SessionOutcome};
use serde_json::{Value, json};

use super::Seen;

pub(super) fn no_node_ran(seen: &Seen<'_>) -> Value {
    json!(seen.world.seen.event_count() == 0)
}

pub(super) fn no_body_ran(seen: &Seen<'_>) -> Value {
    json!(seen.world.seen.bodies() == 0)
}

pub(super) fn store_not_asked(seen: &Seen<'_>) -> Value {
    json!(seen.world.store.asked() == crate::stores::Asked::default())
}

pub(super) fn one_load_and_one_save(seen: &Seen<'_>) -> Value {
    let asked = seen.world.store.asked();
    json!(asked.loads == 1 && asked.saves == 1)
}

/// The second run begins with what the first one ended with.
pub(super) fn second_sees_first(seen: &Seen<'_>) -> Value {
    let (Some(first), Some(second)) = (seen.runs.first(), seen.runs.get(1)) else {
        return json!(false);
    };
    let begun = seen.world.seen.events_from(second.started_from);
    let begun = begun.first().map(|event| event.event.pre_state.to_json());
    let ended = first.outcome.state().map(logue_graph::State::to_json);
    let shape = seen.case.session_state.as_ref();
    let kept = |name: &String| shape.is_none_or(|shape| shape.fields.contains(name));
    let (Some(begun), Some(ended)) = (begun, ended) else {
        return json!(false);
    };
    json!(
        ended
            .iter()
            .filter(|(name, _)| kept(name))
            .all(|(name, value)| begun.get(name) == Some(value))
    )
}

pub(super) fn last_category<'a>(seen: &Seen<'a>) -> Option<&'a str> {
    let error = seen.runs.last()?.outcome.error()?;
    Some(SessionError::category(error))
}

/// Those of the categories that the error does not have.
pub(super) fn categories_that_are_not(seen: &Seen<'_>) -> Value {
    let named = seen.case.invariants.get("error_category_not");
    let named = named.and_then(Value::as_array).cloned().unwrap_or_default();
    let found = last_category(seen).unwrap_or_default();
    Value::Array(named.into_iter().filter(|name| *name != found).collect())
}

pub(super) fn inner_states_have_only_their_fields(seen: &Seen<'_>) -> Value {
    let named = seen.case.subgraphs.0.iter().map(|(_, sub)| &sub.state);
    let known: Vec<Vec<&String>> = named
        .chain(seen.case.subgraph.iter().map(|sub| &sub.state))
        .map(|state| state.fields.0.iter().map(|(name, _)| name).collect())
        .collect();
    let events = seen.world.seen.events();
    let mut inner = events
        .iter()
        .filter(|one| one.event.place.namespace().len() > 1)
        .peekable();
    let some = inner.peek().is_some();
    json!(
        some && inner.all(|one| {
            let fields = one.event.pre_state.to_json();
            known.iter().any(|known| {
                known.len() == fields.len() && known.iter().all(|name| fields.contains_key(*name))
            })
        })
    )
}

/// The session that every event belongs to, if it is one.
pub(super) fn session_of_all_events(seen: &Seen<'_>) -> Value {
    let events = seen.world.seen.events();
    let first = events.first().and_then(|first| first.session_id.clone());
    let all = events.iter().all(|one| one.session_id == first);
    if all { json!(first) } else { Value::Null }
}

pub(super) fn every_event_has_a_session(seen: &Seen<'_>) -> Value {
    let events = seen.world.seen.events();
    json!(!events.is_empty() && events.iter().all(|one| one.session_id.is_some()))
}

pub(super) fn first_suspended(seen: &Seen<'_>) -> Value {
    let first = seen.runs.first();
    json!(first.is_some_and(|ran| matches!(ran.outcome, SessionOutcome::Suspended(_))))
}

pub(super) fn last_ran_no_node(seen: &Seen<'_>) -> Value {
    let last = seen.runs.last();
    json!(last.is_some_and(|ran| seen.world.seen.events_from(ran.started_from).is_empty()))
}

pub(super) fn unsupported(seen: &Seen<'_>) -> Value {
    json!(last_category(seen) == Some("suspension_in_unsupported_context"))
}

/// The way to each node that began in the run after the first suspension.
pub(super) fn suspending_node_not_again(seen: &Seen<'_>) -> Value {
    let Some((SessionOutcome::Suspended(suspended), resumed)) = seen
        .runs
        .first()
        .map(|ran| &ran.outcome)
        .zip(seen.runs.get(1))
    else {
        return json!(false);
    };
    let again = seen.world.seen.events_from(resumed.started_from);
    let again = again.iter().any(|one| {
        matches!(one.event.phase, Phase::Started)
            && one.event.place.namespace() == suspended.namespace
    });
    json!(!again)
}

/// No node that had completed before the suspension begins again.
pub(super) fn no_completed_node_again(seen: &Seen<'_>) -> Value {
    let Some((SessionOutcome::Suspended(suspended), resumed)) = seen
        .runs
        .first()
        .map(|ran| &ran.outcome)
        .zip(seen.runs.get(1))
    else {
        return json!(false);
    };
    let before = suspended.paused.completed_positions();
    let events = seen.world.seen.events_from(resumed.started_from);
    let mut began = events
        .iter()
        .filter(|one| matches!(one.event.phase, Phase::Started));
    json!(began.all(|one| {
        let namespace = one.event.place.namespace();
        before
            .iter()
            .all(|position| position.namespace != namespace)
    }))
}

/// Checks that no part of the suspended node completes after the suspension event.
pub(super) fn nothing_completed_behind_the_suspension(seen: &Seen<'_>) -> Value {
    let events = seen.world.seen.events();
    let at = events
        .iter()
        .position(|one| matches!(one.event.phase, Phase::Suspended(_)));
    let behind = at.map(|at| events.iter().skip(at));
    json!(behind.is_some_and(|mut behind| {
        behind.all(|one| !matches!(one.event.phase, Phase::Completed(_)))
    }))
}
