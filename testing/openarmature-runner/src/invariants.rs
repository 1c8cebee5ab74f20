//! Named invariants of a case: each has a check or is covered by others.

use logue_graph::Phase;
use logue_harness::sessions::{SessionError, SessionOutcome};
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::runs::{Ran, World};
use crate::vocabulary::Case;

/// The treatment of an invariant.
enum Rule {
    /// This must be what the case says of it.
    Check(fn(&Seen<'_>) -> Value),
    /// The expectations of the case, or what the runner checks always, leave no room for the opposite.
    Covered(&'static str),
}

/// The input of a check.
struct Seen<'a> {
    case: &'a Case,
    world: &'a World,
    runs: &'a [Ran],
}

pub(crate) fn check(
    case: &Case,
    world: &World,
    runs: &[Ran],
    checks: &mut Checks,
    unreviewed: &mut Vec<String>,
) {
    let seen = Seen { case, world, runs };
    for (name, value) in &case.invariants {
        let Some((_, rule)) = RULES.iter().find(|(known, _)| known == name) else {
            unreviewed.push(name.clone());
            continue;
        };
        match rule {
            Rule::Check(found) => checks.same(name, value, Some(&found(&seen))),
            // One that is said not to hold would contradict what covers it.
            Rule::Covered(why) => {
                checks.holds(*value == json!(true), format!("{name} holds: {why}"));
            }
        }
    }
}

const RULES: &[(&str, Rule)] = &[
    // sessions
    (
        "second_invoke_loads_first_invoke_state",
        Rule::Check(second_sees_first),
    ),
    (
        "saved_record_overwrites_prior",
        Rule::Covered("saved_session_assertions of the second run compare the whole record"),
    ),
    (
        "scratch_field_never_persisted",
        Rule::Covered("excludes_fields and the exact saved state"),
    ),
    (
        "projected_field_persists_across_invokes",
        Rule::Check(second_sees_first),
    ),
    (
        "mid_invoke_save_survives_subsequent_crash",
        Rule::Covered("store_after reads the store behind the failed run"),
    ),
    (
        "single_migration_invocation",
        Rule::Check(|seen| {
            json!(
                seen.runs
                    .iter()
                    .map(|ran| ran.migrations.len())
                    .sum::<usize>()
                    == 1
            )
        }),
    ),
    (
        "migration_runs_before_projection_merge",
        Rule::Check(|seen| {
            let events = seen.world.seen.events();
            let first = events.first().map(|first| first.event.pre_state.to_json());
            let last = seen
                .runs
                .last()
                .and_then(|ran| ran.outcome.state())
                .map(logue_graph::State::to_json);
            json!(first.is_some() && first == last)
        }),
    ),
    ("no_invoke_attempted", Rule::Check(no_node_ran)),
    ("node_never_invoked", Rule::Check(no_node_ran)),
    ("error_category_not", Rule::Check(categories_that_are_not)),
    (
        "fan_out_instance_state_fields_match_subgraph_schema",
        Rule::Check(inner_states_have_only_their_fields),
    ),
    (
        "fan_out_instances_do_not_see_session_state_directly",
        Rule::Check(inner_states_have_only_their_fields),
    ),
    (
        "no_per_instance_session_load_or_save",
        Rule::Check(one_load_and_one_save),
    ),
    (
        "session_id_uniform_across_span_tree",
        Rule::Check(session_of_all_events),
    ),
    (
        "all_logs_carry_session_id",
        Rule::Check(session_of_all_events),
    ),
    (
        "node_event_does_not_carry_session_id_field",
        Rule::Covered(
            "the type of node events has no such field: observers are told of the run beside it",
        ),
    ),
    // suspension
    (
        "suspend_returns_suspended_outcome",
        Rule::Check(first_suspended),
    ),
    (
        "resume_merges_signal_payload",
        Rule::Covered("the exact final state of the resumed run"),
    ),
    (
        "resume_continues_after_suspending_node",
        Rule::Check(suspending_node_not_again),
    ),
    (
        "invalid_payload_blocks_resume",
        Rule::Check(last_ran_no_node),
    ),
    (
        "error_category_is_resume_payload_invalid",
        Rule::Check(|seen| json!(last_category(seen) == Some("suspension_resume_payload_invalid"))),
    ),
    (
        "subgraph_suspend_propagates_to_outer",
        Rule::Check(first_suspended),
    ),
    (
        "resume_re_enters_at_inner_post",
        Rule::Check(no_completed_node_again),
    ),
    (
        "after_subgraph_runs_post_resume",
        Rule::Covered("the exact final state holds the update of the node behind the subgraph"),
    ),
    (
        "single_instance_suspend_suspends_whole_fan_out",
        Rule::Check(first_suspended),
    ),
    (
        "siblings_cancelled_under_fail_fast",
        Rule::Check(nothing_completed_behind_the_suspension),
    ),
    (
        "descriptor_carries_fan_out_index",
        Rule::Covered("metadata_includes names the index"),
    ),
    (
        "collect_mode_parallel_branches_suspend_rejected_at_runtime",
        Rule::Check(unsupported),
    ),
    (
        "paused_record_persists_via_checkpointer_backend",
        Rule::Covered("checkpointer_assertions read the backend"),
    ),
    (
        "record_type_distinguishes_suspended_from_checkpointed",
        Rule::Covered("record_type is compared, and the backend keeps no other records"),
    ),
    (
        "middleware_suspend_raises_unsupported_context",
        Rule::Check(unsupported),
    ),
    (
        "wrapped_node_does_not_execute_after_middleware_suspend_attempt",
        Rule::Check(no_body_ran),
    ),
    // harness
    (
        "harness_classified_as_new_session_path",
        Rule::Covered("dispatch_path"),
    ),
    (
        "harness_auto_generated_session_id",
        Rule::Covered("session_id_auto_generated compares the call with the payload"),
    ),
    (
        "engine_received_session_id",
        Rule::Check(every_event_has_a_session),
    ),
    (
        "completed_outcome_surfaced_as_completion_response_shape",
        Rule::Covered("outbound_shape"),
    ),
    (
        "outbound_shape_distinct_from_error_or_suspended",
        Rule::Covered("outbound_shape, which is one name of three"),
    ),
    (
        "suspended_outcome_registered_subscription",
        Rule::Covered("checked for every suspended turn"),
    ),
    (
        "suspended_outcome_distinct_outbound_shape",
        Rule::Covered("outbound_shape, which is one name of three"),
    ),
    (
        "harness_did_not_block_on_suspended_turn",
        Rule::Covered("harness_did_not_block finds the record waiting when the answer is there"),
    ),
    (
        "suspend_registered_subscription",
        Rule::Covered("checked for every suspended turn"),
    ),
    (
        "signal_arrival_correlated_to_paused_invocation",
        Rule::Covered("resolved_to_invocation_id"),
    ),
    (
        "resume_invocation_completed_the_graph",
        Rule::Covered("invoke_outcome and the exact final state"),
    ),
    (
        "end_to_end_signal_roundtrip_succeeded",
        Rule::Covered("all expectations of both transmissions"),
    ),
    (
        "session_load_failed_classified_as_terminating",
        Rule::Covered("error_category and error_bucket"),
    ),
    (
        "harness_did_not_auto_retry",
        Rule::Covered("checked for every transmission"),
    ),
    (
        "outbound_marked_intervention_required",
        Rule::Covered("outbound_payload_includes"),
    ),
    (
        "provider_unavailable_classified_as_retryable_transient",
        Rule::Covered("error_category and error_bucket"),
    ),
    (
        "outbound_marked_retry_safe",
        Rule::Covered("outbound_payload_includes"),
    ),
    (
        "provider_invalid_request_classified_as_user_correctable",
        Rule::Covered("error_category and error_bucket"),
    ),
    (
        "outbound_includes_diagnostic_message",
        Rule::Covered("outbound_payload_includes"),
    ),
    (
        "outbound_marks_user_action_required",
        Rule::Covered("outbound_payload_includes"),
    ),
    (
        "stateless_harness_classified_via_path_3_0",
        Rule::Covered("dispatch_path"),
    ),
    (
        "stateless_harness_did_not_resolve_session_id",
        Rule::Covered("checked for every transmission of a stateless harness"),
    ),
    (
        "engine_did_not_invoke_session_store",
        Rule::Check(store_not_asked),
    ),
    (
        "session_store_completely_untouched",
        Rule::Check(store_not_asked),
    ),
    // chat
    (
        "send_returns_chat_turn_outcome",
        Rule::Covered("the type of send"),
    ),
    (
        "replies_contain_only_new_messages_appended_during_turn",
        Rule::Covered("the exact number of replies"),
    ),
    (
        "replies_list_preserves_graph_execution_order",
        Rule::Covered("replies are compared one by one"),
    ),
    (
        "tool_calls_lives_on_assistant_message_not_in_content_blocks",
        Rule::Covered("replies compare tool_calls of the message"),
    ),
    (
        "tool_role_message_has_tool_call_id_and_string_content",
        Rule::Covered("replies compare tool_call_id and content"),
    ),
    (
        "multimodal_content_blocks_preserved_in_history",
        Rule::Covered("messages_history_contains compares the blocks as stored"),
    ),
    (
        "content_block_types_match_llm_provider_3_1_set",
        Rule::Covered("the message is validated before it is accepted"),
    ),
    (
        "listener_fires_exactly_once_per_resumed_turn",
        Rule::Covered("listeners are counted behind each signal"),
    ),
    (
        "listener_callback_carries_post_resume_chat_turn_outcome",
        Rule::Covered("expected_listener_callback"),
    ),
    (
        "next_send_call_does_not_consume_the_post_resume_reply",
        Rule::Covered("a listener was told the reply, and outcomes are told per entry"),
    ),
    (
        "error_bucket_routes_to_harness_section_7_1",
        Rule::Covered("error_bucket"),
    ),
    (
        "error_bucket_routes_to_harness_section_7_2",
        Rule::Covered("error_bucket"),
    ),
    (
        "error_bucket_routes_to_harness_section_7_3",
        Rule::Covered("error_bucket"),
    ),
    (
        "reply_role_is_system",
        Rule::Covered("checked for every failed turn"),
    ),
    (
        "reply_content_includes_upstream_diagnostic",
        Rule::Covered("content_includes"),
    ),
    (
        "chat_harness_does_not_invoke_graph_when_session_load_fails",
        Rule::Check(no_body_ran),
    ),
    (
        "message_validation_runs_at_send_api_boundary_before_session_load",
        Rule::Covered(
            "graph_body_not_invoked and the untouched store are checked for every refused message",
        ),
    ),
    (
        "chat_message_shape_invalid_routes_to_user_correctable",
        Rule::Covered("error_category and error_bucket"),
    ),
    (
        "graph_body_not_invoked_when_message_validation_fails",
        Rule::Check(no_body_ran),
    ),
];

fn no_node_ran(seen: &Seen<'_>) -> Value {
    json!(seen.world.seen.event_count() == 0)
}

fn no_body_ran(seen: &Seen<'_>) -> Value {
    json!(seen.world.seen.bodies() == 0)
}

fn store_not_asked(seen: &Seen<'_>) -> Value {
    json!(seen.world.store.asked() == crate::stores::Asked::default())
}

fn one_load_and_one_save(seen: &Seen<'_>) -> Value {
    let asked = seen.world.store.asked();
    json!(asked.loads == 1 && asked.saves == 1)
}

/// The second run begins with what the first one ended with.
fn second_sees_first(seen: &Seen<'_>) -> Value {
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

fn last_category<'a>(seen: &Seen<'a>) -> Option<&'a str> {
    let error = seen.runs.last()?.outcome.error()?;
    Some(SessionError::category(error))
}

/// Those of the categories that the error does not have.
fn categories_that_are_not(seen: &Seen<'_>) -> Value {
    let named = seen.case.invariants.get("error_category_not");
    let named = named.and_then(Value::as_array).cloned().unwrap_or_default();
    let found = last_category(seen).unwrap_or_default();
    Value::Array(named.into_iter().filter(|name| *name != found).collect())
}

fn inner_states_have_only_their_fields(seen: &Seen<'_>) -> Value {
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
fn session_of_all_events(seen: &Seen<'_>) -> Value {
    let events = seen.world.seen.events();
    let first = events.first().and_then(|first| first.session_id.clone());
    let all = events.iter().all(|one| one.session_id == first);
    if all { json!(first) } else { Value::Null }
}

fn every_event_has_a_session(seen: &Seen<'_>) -> Value {
    let events = seen.world.seen.events();
    json!(!events.is_empty() && events.iter().all(|one| one.session_id.is_some()))
}

fn first_suspended(seen: &Seen<'_>) -> Value {
    let first = seen.runs.first();
    json!(first.is_some_and(|ran| matches!(ran.outcome, SessionOutcome::Suspended(_))))
}

fn last_ran_no_node(seen: &Seen<'_>) -> Value {
    let last = seen.runs.last();
    json!(last.is_some_and(|ran| seen.world.seen.events_from(ran.started_from).is_empty()))
}

fn unsupported(seen: &Seen<'_>) -> Value {
    json!(last_category(seen) == Some("suspension_in_unsupported_context"))
}

/// The way to each node that began in the run after the first suspension.
fn suspending_node_not_again(seen: &Seen<'_>) -> Value {
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
fn no_completed_node_again(seen: &Seen<'_>) -> Value {
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
fn nothing_completed_behind_the_suspension(seen: &Seen<'_>) -> Value {
    let events = seen.world.seen.events();
    let at = events
        .iter()
        .position(|one| matches!(one.event.phase, Phase::Suspended(_)));
    let behind = at.map(|at| events.iter().skip(at));
    json!(behind.is_some_and(|mut behind| {
        behind.all(|one| !matches!(one.event.phase, Phase::Completed(_)))
    }))
}
