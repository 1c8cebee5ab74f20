//! Types of known generation settings.

use serde_json::Value;

/// Returns the expectation that the value of a setting does not meet.
///
/// Settings with other names accept every value, and so does every setting `null`.
pub(crate) fn expected(key: &str, value: &Value) -> Option<&'static str> {
    let is_text_list = |value: &Value| {
        let items = value.as_array();
        items.is_some_and(|items| items.iter().all(Value::is_string))
    };
    let is_choice = value.is_string() || value.is_object();
    let (is_right, expectation) = match key {
        "temperature" | "top_p" | "presence_penalty" | "frequency_penalty"
        | "repetition_penalty" | "min_p" => (value.is_number(), "a number"),
        "max_tokens" | "max_completion_tokens" | "max_output_tokens" | "top_k" | "n" => {
            (value.is_u64(), "a whole number")
        }
        "seed" => (value.is_i64() || value.is_u64(), "a whole number"),
        "stop" | "stop_sequences" => (
            value.is_string() || is_text_list(value),
            "a text or a list of texts",
        ),
        "reasoning_effort" => (value.is_string(), "a word such as `medium`"),
        "tool_choice" => (is_choice, "a word or an object"),
        "parallel_tool_calls" | "stream" => (value.is_boolean(), "`true` or `false`"),
        "response_format" | "response_schema" => (is_choice, "an object"),
        _ => return None,
    };
    (!is_right && !value.is_null()).then_some(expectation)
}
