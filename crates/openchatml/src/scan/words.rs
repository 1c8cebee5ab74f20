//! The control tokens that a model may take for markup.

/// The tokens of OpenChatML and Harmony, of its 1.x line, and of other models' templates.
const TOKENS: [&str; 55] = [
    // OpenChatML 2.x, Harmony.
    "start",
    "channel",
    "message",
    "call",
    "constrain",
    "return",
    "end",
    "literal",
    "endliteral",
    // The 1.x line.
    "im_start",
    "im_end",
    "im_sep",
    "fim_prefix",
    "fim_middle",
    "fim_suffix",
    "fim_pad",
    "file_separator",
    "file_sep",
    "repo_name",
    "reflect",
    "introspect",
    "reason",
    "start_reflect",
    "end_reflect",
    "start_introspect",
    "end_introspect",
    "start_reason",
    "end_reason",
    "function_list",
    "function_call",
    "function_output",
    // Others.
    "begin_of_text",
    "end_of_text",
    "endoftext",
    "startoftext",
    "endofprompt",
    "refusal",
    "start_header_id",
    "end_header_id",
    "eot_id",
    "eom_id",
    "python_tag",
    "eot",
    "eom",
    "header_start",
    "header_end",
    "system",
    "user",
    "assistant",
    "tool",
    "tool_call",
    "tool_response",
    "tool_calls",
    "think",
    "context",
];

/// Returns whether `text` is a control token of a dialect or of other templates.
pub fn is_control_token(text: &str) -> bool {
    let word = text
        .strip_prefix("<|")
        .and_then(|rest| rest.strip_suffix("|>"));
    word.is_some_and(|word| TOKENS.contains(&word) || word.starts_with("reserved_"))
}
