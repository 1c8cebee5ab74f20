//! Comparison of expected and actual outcomes and messages of a turn.

use logue_harness::chat::ChatTurnOutcome;
use logue_message::ChatMessage;
use serde_json::{Value, json};

use crate::checks::{Checks, matches};
use crate::vocabulary::{ChatTurnExpected, ReplyExpected};

pub(crate) fn check_outcome(
    expected: &ChatTurnExpected,
    outcome: &ChatTurnOutcome,
    checks: &mut Checks,
) {
    let found = outcome.as_str();
    let why = match outcome {
        ChatTurnOutcome::Errored(turn) => {
            format!(" ({}: {})", turn.error_category, turn.diagnostic)
        }
        _ => String::new(),
    };
    if let Some(wanted) = &expected.outcome {
        checks.holds(
            wanted == found,
            format!("the outcome is {found}{why}, not {wanted}"),
        );
    }
    let (mut replies, mut pending, mut descriptor, mut errored) = (None, None, None, None);
    match outcome {
        ChatTurnOutcome::Completed(turn) => replies = Some(&turn.replies),
        ChatTurnOutcome::Suspended(turn) => {
            pending = Some(&turn.pending_messages);
            descriptor = Some(&turn.signal_descriptor);
        }
        ChatTurnOutcome::Errored(turn) => errored = Some(turn),
    }
    if let Some(wanted) = &expected.replies {
        messages("replies", wanted, replies, checks);
    }
    if let Some(wanted) = &expected.pending_messages {
        messages("pending_messages", wanted, pending, checks);
    }
    if let Some(wanted) = &expected.signal_descriptor {
        checks.descriptor(wanted, descriptor);
    }
    if let Some(bucket) = &expected.error_bucket {
        let found = errored.map(|turn| turn.error_bucket.as_str());
        checks.equal("the bucket", &Some(bucket.as_str()), &found);
    }
    if let Some(category) = &expected.error_category {
        let found = errored.map(|turn| turn.error_category.as_str());
        checks.equal("the error", &Some(category.as_str()), &found);
    }
    if let Some(turn) = errored {
        checks.equal(
            "the role of the reply",
            &"system",
            &turn.reply.role.as_str(),
        );
    }
    if let Some(wanted) = &expected.reply {
        reply(wanted, errored.map(|turn| &turn.reply), checks);
    }
}

fn messages(what: &str, expected: &[Value], found: Option<&Vec<ChatMessage>>, checks: &mut Checks) {
    let Some(found) = found else {
        return checks.holds(false, format!("there are no {what}"));
    };
    checks.equal(
        &format!("the number of {what}"),
        &expected.len(),
        &found.len(),
    );
    for (number, (wanted, found)) in expected.iter().zip(found).enumerate() {
        message(
            &format!("{what} {}", number + 1),
            wanted,
            &found.to_json(),
            checks,
        );
    }
}

/// Compares what is listed of a message.
pub(crate) fn message(what: &str, expected: &Value, found: &Value, checks: &mut Checks) {
    let Some(expected) = expected.as_object() else {
        return checks.fail(format!("{what} is expected to be no message"));
    };
    for (key, value) in expected {
        checks.same(&format!("{what}.{key}"), value, found.get(key));
    }
}

pub(crate) fn covers(expected: &Value, found: &Value) -> bool {
    expected.as_object().is_some_and(|expected| {
        expected
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|found| matches(value, found)))
    })
}

fn reply(expected: &ReplyExpected, found: Option<&ChatMessage>, checks: &mut Checks) {
    let Some(found) = found else {
        return checks.holds(false, "there is no reply");
    };
    let text = found.text();
    if let Some(role) = &expected.role {
        checks.equal(
            "the role of the reply",
            &role.as_str(),
            &found.role.as_str(),
        );
    }
    if let Some(content) = &expected.content {
        checks.same("the reply", content, Some(&json!(text)));
    }
    for part in expected.content_includes.iter().flatten() {
        checks.holds(
            text.contains(part),
            format!("the reply {text:?} lacks {part:?}"),
        );
    }
    if let Some(template) = &expected.content_matches_template {
        let fits = text.to_lowercase().contains(&template.to_lowercase());
        checks.holds(fits, format!("the reply {text:?} is not like {template:?}"));
    }
}
