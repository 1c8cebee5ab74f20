//! The known invariants. Each has a check, or words of its case that cover it.

use serde_json::json;

use super::Rule;
use super::found::{
    categories_that_are_not, every_event_has_a_session, first_suspended,
    inner_states_have_only_their_fields, last_category, last_ran_no_node, no_body_ran,
    no_completed_node_again, no_node_ran, nothing_completed_behind_the_suspension,
    one_load_and_one_save, second_sees_first, session_of_all_events, store_not_asked,
    suspending_node_not_again, unsupported,
};

pub(super) const RULES: &[(&str, Rule)] = &[
    // sessions
    (
        "second_invoke_loads_first_invoke_state",
        Rule::Check(second_sees_first),
    ),
    (
        "saved_record_overwrites_prior",
        Rule::Covered(
            &["saved_session_assertions"],
            "saved_session_assertions of the second run compare the whole record",
        ),
    ),
    (
        "scratch_field_never_persisted",
        Rule::Covered(
            &["excludes_fields", "state"],
            "excludes_fields and the exact saved state",
        ),
    ),
    (
        "projected_field_persists_across_invokes",
        Rule::Check(second_sees_first),
    ),
    (
        "mid_invoke_save_survives_subsequent_crash",
        Rule::Covered(
            &["store_after"],
            "store_after reads the store behind the failed run",
        ),
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
            &[],
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
        Rule::Covered(
            &["signal_payload", "final_state"],
            "the exact final state of the resumed run",
        ),
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
        Rule::Covered(
            &["resume_invocation", "final_state"],
            "the exact final state holds the update of the node behind the subgraph",
        ),
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
        Rule::Covered(&["fan_out_index"], "metadata_includes names the index"),
    ),
    (
        "collect_mode_parallel_branches_suspend_rejected_at_runtime",
        Rule::Check(unsupported),
    ),
    (
        "paused_record_persists_via_checkpointer_backend",
        Rule::Covered(
            &["paused_invocation_record_exists"],
            "checkpointer_assertions read the backend",
        ),
    ),
    (
        "record_type_distinguishes_suspended_from_checkpointed",
        Rule::Covered(
            &["record_type"],
            "record_type is compared, and the backend keeps no other records",
        ),
    ),
    (
        "middleware_suspend_raises_unsupported_context",
        Rule::Check(unsupported),
    ),
    (
        "wrapped_node_does_not_execute_after_middleware_suspend_attempt",
        Rule::Check(no_body_ran),
    ),
    (
        "invocation_span_carries_outcome_suspended",
        Rule::Covered(
            &["otel_spans", "openarmature.outcome"],
            "the spans are compared",
        ),
    ),
    (
        "node_span_carries_suspension_attributes",
        Rule::Covered(
            &["otel_spans", "openarmature.suspension.signal_id"],
            "the spans are compared",
        ),
    ),
    (
        "otel_status_code_is_OK_per_4_2_mapping",
        Rule::Covered(&["otel_spans", "OK"], "the spans are compared"),
    ),
    // harness
    (
        "harness_classified_as_new_session_path",
        Rule::Covered(&["dispatch_path"], "dispatch_path"),
    ),
    (
        "harness_auto_generated_session_id",
        Rule::Covered(
            &["session_id_auto_generated"],
            "session_id_auto_generated compares the call with the payload",
        ),
    ),
    (
        "engine_received_session_id",
        Rule::Check(every_event_has_a_session),
    ),
    (
        "completed_outcome_surfaced_as_completion_response_shape",
        Rule::Covered(&["outbound_shape"], "outbound_shape"),
    ),
    (
        "outbound_shape_distinct_from_error_or_suspended",
        Rule::Covered(
            &["outbound_shape"],
            "outbound_shape, which is one name of three",
        ),
    ),
    (
        "suspended_outcome_registered_subscription",
        Rule::Covered(&["transmissions"], "checked for every suspended turn"),
    ),
    (
        "suspended_outcome_distinct_outbound_shape",
        Rule::Covered(
            &["outbound_shape"],
            "outbound_shape, which is one name of three",
        ),
    ),
    (
        "harness_did_not_block_on_suspended_turn",
        Rule::Covered(
            &["harness_did_not_block"],
            "harness_did_not_block finds the record waiting when the answer is there",
        ),
    ),
    (
        "suspend_registered_subscription",
        Rule::Covered(&["transmissions"], "checked for every suspended turn"),
    ),
    (
        "signal_arrival_correlated_to_paused_invocation",
        Rule::Covered(&["resolved_to_invocation_id"], "resolved_to_invocation_id"),
    ),
    (
        "resume_invocation_completed_the_graph",
        Rule::Covered(
            &["invoke_outcome", "final_state"],
            "invoke_outcome and the exact final state",
        ),
    ),
    (
        "end_to_end_signal_roundtrip_succeeded",
        Rule::Covered(
            &["resolved_to_invocation_id", "invoke_outcome"],
            "all expectations of both transmissions",
        ),
    ),
    (
        "session_load_failed_classified_as_terminating",
        Rule::Covered(
            &["error_category", "error_bucket"],
            "error_category and error_bucket",
        ),
    ),
    (
        "harness_did_not_auto_retry",
        Rule::Covered(&["transmissions"], "checked for every transmission"),
    ),
    (
        "outbound_marked_intervention_required",
        Rule::Covered(&["outbound_payload_includes"], "outbound_payload_includes"),
    ),
    (
        "provider_unavailable_classified_as_retryable_transient",
        Rule::Covered(
            &["error_category", "error_bucket"],
            "error_category and error_bucket",
        ),
    ),
    (
        "outbound_marked_retry_safe",
        Rule::Covered(&["outbound_payload_includes"], "outbound_payload_includes"),
    ),
    (
        "provider_invalid_request_classified_as_user_correctable",
        Rule::Covered(
            &["error_category", "error_bucket"],
            "error_category and error_bucket",
        ),
    ),
    (
        "outbound_includes_diagnostic_message",
        Rule::Covered(&["outbound_payload_includes"], "outbound_payload_includes"),
    ),
    (
        "outbound_marks_user_action_required",
        Rule::Covered(&["outbound_payload_includes"], "outbound_payload_includes"),
    ),
    (
        "stateless_harness_classified_via_path_3_0",
        Rule::Covered(&["dispatch_path"], "dispatch_path"),
    ),
    (
        "stateless_harness_did_not_resolve_session_id",
        Rule::Covered(
            &["transmissions"],
            "checked for every transmission of a stateless harness",
        ),
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
        Rule::Covered(&["chat_turns"], "the type of send"),
    ),
    (
        "replies_contain_only_new_messages_appended_during_turn",
        Rule::Covered(&["replies"], "the exact number of replies"),
    ),
    (
        "replies_list_preserves_graph_execution_order",
        Rule::Covered(&["replies"], "replies are compared one by one"),
    ),
    (
        "tool_calls_lives_on_assistant_message_not_in_content_blocks",
        Rule::Covered(
            &["replies", "tool_calls"],
            "replies compare tool_calls of the message",
        ),
    ),
    (
        "tool_role_message_has_tool_call_id_and_string_content",
        Rule::Covered(
            &["replies", "tool_call_id"],
            "replies compare tool_call_id and content",
        ),
    ),
    (
        "multimodal_content_blocks_preserved_in_history",
        Rule::Covered(
            &["messages_history_contains"],
            "messages_history_contains compares the blocks as stored",
        ),
    ),
    (
        "content_block_types_match_llm_provider_3_1_set",
        Rule::Covered(
            &["chat_turns"],
            "the message is validated before it is accepted",
        ),
    ),
    (
        "listener_fires_exactly_once_per_resumed_turn",
        Rule::Covered(
            &["expected_listener_callback"],
            "listeners are counted behind each signal",
        ),
    ),
    (
        "listener_callback_carries_post_resume_chat_turn_outcome",
        Rule::Covered(
            &["expected_listener_callback"],
            "expected_listener_callback",
        ),
    ),
    (
        "next_send_call_does_not_consume_the_post_resume_reply",
        Rule::Covered(
            &["expected_listener_callback"],
            "a listener was told the reply, and outcomes are told per entry",
        ),
    ),
    (
        "error_bucket_routes_to_harness_section_7_1",
        Rule::Covered(&["error_bucket"], "error_bucket"),
    ),
    (
        "error_bucket_routes_to_harness_section_7_2",
        Rule::Covered(&["error_bucket"], "error_bucket"),
    ),
    (
        "error_bucket_routes_to_harness_section_7_3",
        Rule::Covered(&["error_bucket"], "error_bucket"),
    ),
    (
        "reply_role_is_system",
        Rule::Covered(&["error_bucket"], "checked for every failed turn"),
    ),
    (
        "reply_content_includes_upstream_diagnostic",
        Rule::Covered(&["content_includes"], "content_includes"),
    ),
    (
        "chat_harness_does_not_invoke_graph_when_session_load_fails",
        Rule::Check(no_body_ran),
    ),
    (
        "message_validation_runs_at_send_api_boundary_before_session_load",
        Rule::Covered(
            &["chat_message_shape_invalid"],
            "graph_body_not_invoked and the untouched store are checked for every refused message",
        ),
    ),
    (
        "chat_message_shape_invalid_routes_to_user_correctable",
        Rule::Covered(
            &["error_category", "error_bucket"],
            "error_category and error_bucket",
        ),
    ),
    (
        "graph_body_not_invoked_when_message_validation_fails",
        Rule::Check(no_body_ran),
    ),
];
