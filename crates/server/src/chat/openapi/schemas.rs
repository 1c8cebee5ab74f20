//! The schemas of the document.

use serde_json::{Value, json};

/// Returns the named schemas.
pub(super) fn components() -> Value {
    let mut all = requests();
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), answers()) {
        all.extend(more);
    }
    all
}

fn requests() -> Value {
    let position = json!({"type": "integer", "minimum": 0});
    let name = json!({"type": ["string", "null"]});
    json!({
        "SendRequest": {
            "type": "object",
            "required": ["message"],
            "additionalProperties": false,
            "properties": {
                "message": {"description": "A text, or a message of the role `user`.", "oneOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "object", "required": ["role", "content"],
                        "additionalProperties": false, "properties": {
                        "role": {"const": "user"},
                        "name": name,
                        "content": {"oneOf": [{"type": "string", "minLength": 1},
                            {"type": "array", "minItems": 1, "items": {"type": "object"}}]}}},
                ]},
                "agent": {"type": ["string", "null"],
                    "description": "The agent of a new session; optional if there is only one."},
                "busy": {"enum": ["enqueue", "reject", "interrupt", "rollback"],
                    "default": "enqueue"},
                "while_paused": {"enum": ["proceed", "reject"], "default": "proceed"},
            },
        },
        "CancelRequest": {
            "type": "object",
            "additionalProperties": false,
            "properties": {"rollback": {"type": "boolean", "default": false,
                "description": "Whether the message of the turn is removed, too."}},
        },
        "ForkRequest": {
            "type": "object",
            "additionalProperties": false,
            "description": "`messages` and `step` exclude each other.",
            "properties": {
                "messages": {"type": ["integer", "null"], "minimum": 0},
                "step": {"type": ["integer", "null"], "minimum": 0},
                "into": name,
            },
        },
        "RerunRequest": {
            "type": "object",
            "required": ["step"],
            "additionalProperties": false,
            "properties": {
                "step": position,
                "edit": {"type": ["string", "null"], "description":
                    "The text that replaces that of the step, or the arguments of its call."},
                "into": name,
            },
        },
        "Decision": {
            "type": "object",
            "required": ["approval"],
            "additionalProperties": false,
            "properties": {
                "approval": {"description":
                    "`approve`, `deny`, or an object with one of them for each call.",
                    "oneOf": [{"enum": ["approve", "deny"]}, {"type": "object",
                        "additionalProperties": {"enum": ["approve", "deny"]}}]},
                "note": {"type": ["string", "null"], "description": "Text for the model."},
                "edits": {"type": "object", "description": "Arguments by the id of the call."},
                "decided_by": {"type": ["string", "null"]},
            },
        },
        "RunInput": {
            "type": "object",
            "description": "The input of AG-UI 1.0. Fields that are not listed have no effect.",
            "required": ["threadId", "runId", "messages"],
            "properties": {
                "threadId": {"type": "string", "minLength": 1},
                "runId": {"type": "string", "minLength": 1, "maxLength": 255},
                "messages": {"type": "array", "items": {"type": "object"}},
                "resume": {"type": ["array", "null"], "items": {
                    "type": "object",
                    "required": ["interruptId", "status"],
                    "properties": {
                        "interruptId": {"type": "string"},
                        "status": {"enum": ["resolved", "cancelled"]},
                        "payload": {},
                    }}},
            },
        },
        "ChatCompletionRequest": {
            "type": "object",
            "required": ["model", "messages"],
            "properties": {
                "model": {"type": "string"},
                "messages": {"type": "array", "minItems": 1, "items": {"type": "object",
                    "required": ["role", "content"]}},
                "stream": {"type": ["boolean", "null"]},
                "stream_options": {"type": ["object", "null"], "properties": {
                    "include_usage": {"type": "boolean"}}},
                "n": {"type": ["integer", "null"], "const": 1},
                "tools": {"type": ["array", "null"], "maxItems": 0},
            },
        },
    })
}

fn answers() -> Value {
    let text = json!({"type": "string"});
    let position = json!({"type": "integer", "minimum": 0});
    let messages = json!({"type": "array", "items": {"$ref": "#/components/schemas/Message"}});
    let summary = json!({
        "session": text, "agent": text, "messages": position, "pending": position,
        "created_at": position, "updated_at": position,
        "location": {"enum": ["moved", "arriving"],
            "description": "Present if another store continues the session, or still has it."},
        "moved_to": {"type": "string",
            "description": "The address of that store; requires the scope `debug`."},
        "arriving_from": {"type": "string",
            "description": "The address of that store; requires the scope `debug`."},
    });
    let summary_fields = [
        "session",
        "agent",
        "messages",
        "pending",
        "created_at",
        "updated_at",
    ];
    let mut state = summary.clone();
    state["events_after"] = json!({"type": "string",
        "description": "The event id from which a client follows the session."});
    state["signals"] = json!({"type": "array", "items": {"$ref": "#/components/schemas/Signal"}});
    let mut waiting = json!({"session": text, "invocation_id": text, "since": position,
        "status": {"enum": ["waiting", "decided", "ended"]}});
    waiting["signal_id"] = text.clone();
    json!({
        "Problem": {
            "type": "object",
            "description": "An error (RFC 9457).",
            "required": ["type", "title", "status", "code", "detail"],
            "properties": {
                "type": {"type": "string", "description": "`urn:logue:error:` with the code."},
                "title": text, "detail": text,
                "status": {"type": "integer"},
                "code": {"type": "string", "description": "The stable code."},
                "help": {"type": "array", "items": text},
                "retry_after_seconds": position,
            },
        },
        "OpenAiError": {
            "type": "object",
            "required": ["error"],
            "properties": {"error": {"type": "object", "required": ["message", "type", "code"],
                "properties": {"message": text, "type": text, "code": text}}},
        },
        "Agents": {"type": "object", "required": ["agents"], "properties": {
            "agents": {"type": "array", "items": {"type": "object",
                "required": ["name", "title", "state"], "properties": {"name": text, "title": text,
                "state": {"enum": ["ready", "outdated", "broken"]},
                "error": {"type": "object", "required": ["code", "message"],
                    "description": "The error of the current prompt; `report` needs the scope `debug`.",
                    "properties": {"code": text, "message": text, "report": text}}}}}}},
        "Message": {"type": "object", "properties": {
            "role": {"enum": ["user", "assistant", "tool"]}}},
        "Sessions": {"type": "object", "required": ["sessions", "has_more"], "properties": {
            "sessions": {"type": "array", "items": {"type": "object",
                "required": summary_fields, "properties": summary}},
            "has_more": {"type": "boolean"},
            "search_cut": {"type": "boolean",
                "description": "Whether the search left messages out; only with `search`."}}},
        "SessionState": {"type": "object", "required": ["session", "agent", "messages", "pending",
            "created_at", "updated_at", "events_after", "signals"], "properties": state},
        "Messages": {"type": "object", "required": ["from", "to", "messages"],
            "properties": {"from": position, "to": position, "messages": messages}},
        "Branch": {"type": "object", "required": ["session", "messages"],
            "properties": {"session": text, "messages": position}},
        "Signal": {"type": "object", "required": ["signal_id"],
            "properties": {"signal_id": text}},
        "WaitingTurn": {"type": "object",
            "required": ["signal_id", "session", "invocation_id", "since", "status"],
            "properties": waiting},
        "TurnCompleted": {"type": "object", "required": ["outcome", "session", "replies"],
            "properties": {"outcome": {"const": "completed"}, "session": text,
                "invocation_id": text, "turn": {"type": ["integer", "null"]},
                "replies": messages}},
        "TurnSuspended": {"type": "object", "required": ["outcome", "session", "signal"],
            "properties": {"outcome": {"const": "suspended"}, "session": text,
                "invocation_id": text, "turn": {"type": ["integer", "null"]},
                "signal": {"$ref": "#/components/schemas/Signal"},
                "pending_messages": messages}},
        "Event": {"type": "object", "required": ["type"], "properties": {
            "type": {"type": "string"}, "turn": position}},
    })
}
