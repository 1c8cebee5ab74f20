//! One operation of the document.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::chat::access::TokenScope;

/// A request that the server answers, with all its answers.
pub(crate) struct Operation {
    /// The name of the method in lower case.
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    id: &'static str,
    summary: &'static str,
    tag: &'static str,
    scope: Option<TokenScope>,
    is_authenticated: bool,
    parameters: Vec<Value>,
    body: Option<Value>,
    /// The answers by status; each may have several content types.
    answers: BTreeMap<u16, Value>,
    /// The codes of problems by status.
    problems: BTreeMap<u16, Vec<&'static str>>,
    /// Whether a failed turn answers with the code of its failure.
    has_turn: bool,
    /// The form of errors.
    error: ErrorForm,
}

/// The form in which an operation reports problems.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// A problem document (RFC 9457).
    Problem,
    /// An error of the OpenAI API; requests that are refused early get a problem document.
    OpenAi,
}

/// The problems of every request, before it reaches its operation.
const EVERY: [(u16, &str); 7] = [
    (400, "request_invalid"),
    (403, "host_refused"),
    (403, "origin_refused"),
    (408, "request_timeout"),
    (413, "body_too_large"),
    (500, "internal"),
    (503, "server_ends"),
];

impl Operation {
    pub(crate) fn new(
        tag: &'static str,
        method: &'static str,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Self {
        let mut new = Self {
            method,
            path,
            id,
            summary,
            tag,
            scope: None,
            is_authenticated: false,
            parameters: Vec::new(),
            body: None,
            answers: BTreeMap::new(),
            problems: BTreeMap::new(),
            has_turn: false,
            error: ErrorForm::Problem,
        };
        for (status, code) in EVERY {
            new = new.problem(status, code);
        }
        if method != "get" {
            new = new.problem(415, "content_type_unsupported");
        }
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')) {
            let name = name.trim_end_matches('}');
            new.parameters
                .push(json!({"name": name, "in": "path", "required": true,
                "schema": {"type": "string", "minLength": 1}}));
        }
        new
    }

    /// Requires a token with a scope.
    pub(crate) fn scope(mut self, scope: TokenScope) -> Self {
        self.scope = Some(scope);
        self.authenticated().problem(403, "scope_missing")
    }

    /// Requires a token with any scope.
    pub(crate) fn authenticated(mut self) -> Self {
        self.is_authenticated = true;
        self.problem(401, "unauthorized")
            .problem(429, "rate_limited")
            .problem(503, "store_unavailable")
            .problem(500, "store_corrupt")
    }

    pub(crate) fn query(mut self, name: &str, schema: &Value, about: &str) -> Self {
        self.parameters
            .push(json!({"name": name, "in": "query", "required": false,
            "description": about, "schema": schema}));
        self
    }

    pub(crate) fn header(mut self, name: &str, schema: &Value, about: &str) -> Self {
        self.parameters
            .push(json!({"name": name, "in": "header", "required": false,
            "description": about, "schema": schema}));
        self
    }

    pub(crate) fn body(mut self, schema: &Value, is_required: bool) -> Self {
        self.body = Some(json!({"required": is_required,
            "content": {"application/json": {"schema": schema}}}));
        self
    }

    pub(crate) fn errors(mut self, form: ErrorForm) -> Self {
        self.error = form;
        self
    }

    /// Adds an answer in JSON.
    pub(crate) fn answer(self, status: u16, about: &str, schema: &Value) -> Self {
        self.answer_in(status, about, "application/json", schema)
    }

    /// Adds an answer; one with several content types is added repeatedly.
    pub(crate) fn answer_in(
        mut self,
        status: u16,
        about: &str,
        kind: &str,
        schema: &Value,
    ) -> Self {
        let answer = self
            .answers
            .entry(status)
            .or_insert_with(|| json!({"description": about}));
        if kind == "text/event-stream" {
            // Validators see each event as an object of their own.
            answer["content"][kind] = json!({ "schema": {} });
        } else if !kind.is_empty() {
            answer["content"][kind] = json!({ "schema": schema });
        }
        self
    }

    /// Adds a header of an answer.
    pub(crate) fn answer_header(mut self, status: u16, name: &str, about: &str) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["headers"][name] = json!({"description": about, "schema": {"type": "string"}});
        }
        self
    }

    /// Adds a problem.
    pub(crate) fn problem(mut self, status: u16, code: &'static str) -> Self {
        let codes = self.problems.entry(status).or_default();
        if !codes.contains(&code) {
            codes.push(code);
        }
        self
    }

    /// Adds the problems of an operation on a session that another store may continue.
    pub(crate) fn of_session(self) -> Self {
        self.problem(409, "session_moved")
            .problem(409, "session_arriving")
    }

    /// Adds the problems of an operation that waits for a turn.
    pub(crate) fn turn(mut self) -> Self {
        self.has_turn = true;
        self.of_session()
            .problem(429, "turns_limited")
            .problem(409, "session_busy")
            .problem(503, "server_draining")
            .problem(409, "session_awaiting_signal")
            .problem(409, "idempotency_key_reused")
            .problem(409, "turn_cancelled")
            .problem(409, "session_write_conflict")
            .problem(410, "session_load_failed")
            .problem(422, "provider_invalid_request")
            .problem(503, "provider_unavailable")
    }

    /// Returns the `OpenAPI` object.
    pub(crate) fn to_json(&self, shared: &mut SharedAnswers) -> Value {
        let mut json = json!({"operationId": self.id, "summary": self.summary,
            "tags": [self.tag]});
        let description = match self.scope {
            Some(scope) => format!("Requires the scope `{scope}`."),
            None if self.is_authenticated => "Requires a token.".to_owned(),
            None => "Requires no token.".to_owned(),
        };
        json["description"] = json!(description);
        if self.is_authenticated {
            // Without any token, clients on the server's machine are served.
            json["security"] = json!([{"token": []}, {}]);
        }
        if !self.parameters.is_empty() {
            json["parameters"] = json!(self.parameters);
        }
        if let Some(body) = &self.body {
            json["requestBody"] = body.clone();
        }
        let responses = &mut json["responses"];
        for (status, answer) in &self.answers {
            responses[status.to_string()] = answer.clone();
        }
        for (status, codes) in &self.problems {
            responses[status.to_string()] = shared.add(*status, self.problem_json(*status, codes));
        }
        json
    }

    fn problem_json(&self, status: u16, codes: &[&str]) -> Value {
        // A failed turn has the code of its failure, which a model server may determine.
        let is_open = self.has_turn && matches!(status, 409 | 410 | 422 | 500 | 503);
        let code = if is_open {
            json!({"type": "string", "examples": codes})
        } else {
            json!({"type": "string", "enum": codes})
        };
        let problem = json!({"allOf": [{"$ref": "#/components/schemas/Problem"},
            {"properties": {"code": code, "status": {"const": status}}}]});
        let about = format!("Codes: `{}`.", codes.join("`, `"));
        let mut answer = json!({"description": about,
            "content": {"application/problem+json": {"schema": problem}}});
        if self.error == ErrorForm::OpenAi {
            let error = json!({"$ref": "#/components/schemas/OpenAiError"});
            answer["content"]["application/json"] = json!({ "schema": error });
        }
        if matches!(status, 429 | 503) {
            answer["headers"]["Retry-After"] = json!({
                "description": "Seconds after which the same request may succeed.",
                "schema": {"type": "integer", "minimum": 0}});
        }
        answer
    }
}

/// The answers that several operations have.
#[derive(Default)]
pub(crate) struct SharedAnswers(Vec<(String, Value)>);

impl SharedAnswers {
    /// Adds an answer and returns the reference to it.
    fn add(&mut self, status: u16, answer: Value) -> Value {
        let known = self.0.iter().find(|(_, known)| *known == answer);
        let known = known.map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| {
            let prefix = format!("Problem{status}");
            let own = self.0.iter().filter(|(name, _)| name.starts_with(&prefix));
            let name = match own.count() {
                0 => prefix,
                count => format!("{prefix}-{}", count + 1),
            };
            self.0.push((name.clone(), answer));
            name
        });
        json!({"$ref": format!("#/components/responses/{name}")})
    }

    /// Returns the answers by name.
    pub(crate) fn into_components(self) -> Value {
        Value::Object(self.0.into_iter().collect())
    }
}
