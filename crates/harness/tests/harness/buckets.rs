//! Buckets of errors and what users are reported.

use logue_harness::{Classifier, DefaultClassifier, ErrorBucket};

#[test]
fn the_contract_names_a_bucket_for_these() {
    let terminating = [
        "session_load_failed",
        "session_save_failed",
        "session_state_migration_chain_ambiguous",
        "session_state_migration_missing",
        "session_state_migration_failed",
        "suspension_persistence_failed",
        "harness_session_id_unresolved",
        "state_validation_error",
    ];
    let transient = [
        "provider_unavailable",
        "provider_rate_limit",
        "provider_model_not_loaded",
        "harness_signal_subscription_failed",
        "session_write_conflict",
        "provider_timeout",
        "provider_rate_limited",
        "session_busy",
        "store_unavailable",
        "turn_interrupted",
    ];
    let correctable = [
        "chat_message_shape_invalid",
        "provider_invalid_request",
        "provider_invalid_response",
        "provider_authentication",
        "suspension_resume_payload_invalid",
        "provider_invalid_model",
        "provider_unsupported_content_block",
        "structured_output_invalid",
        "suspension_record_invalid",
        "session_awaiting_signal",
        "turn_cancelled",
    ];
    let table = [
        (
            ErrorBucket::SessionTerminating,
            "session_terminating",
            &terminating[..],
        ),
        (
            ErrorBucket::RetryableTransient,
            "retryable_transient",
            &transient[..],
        ),
        (
            ErrorBucket::UserCorrectable,
            "user_correctable",
            &correctable[..],
        ),
    ];
    for (bucket, name, categories) in table {
        assert_eq!(bucket.to_string(), name);
        for category in categories {
            assert_eq!(DefaultClassifier.classify(category), bucket, "{category}");
        }
    }
}

#[test]
fn an_unknown_category_is_permanent() {
    for category in ["node_exception", "a category of tomorrow", ""] {
        let bucket = DefaultClassifier.classify(category);
        assert_eq!(bucket, ErrorBucket::UserCorrectable, "{category}");
    }
}

#[test]
fn a_function_is_a_classifier() {
    let everything_ends = |_: &str| ErrorBucket::SessionTerminating;
    let classifier: &dyn Classifier = &everything_ends;
    assert_eq!(
        classifier.classify("provider_timeout"),
        ErrorBucket::SessionTerminating
    );
}

#[test]
fn only_what_the_user_can_correct_repeats_the_diagnostic() {
    let cases = [
        (
            ErrorBucket::SessionTerminating,
            "This conversation can't continue. Please start a new one.",
        ),
        (
            ErrorBucket::RetryableTransient,
            "I had trouble responding. Try again in a moment.",
        ),
        (
            ErrorBucket::UserCorrectable,
            "That request couldn't be processed: the image is too large. \
             Please adjust your message and try again.",
        ),
    ];
    for (bucket, reply) in cases {
        assert_eq!(bucket.default_reply("the image is too large"), reply);
    }
}
