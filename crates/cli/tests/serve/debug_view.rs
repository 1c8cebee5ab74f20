//! Hidden messages are read with `--debug-view` and the scope `debug`, and in one answer only.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue, run};

const MARKS: [&str; 3] = ["HIDDEN-THOUGHT", "HIDDEN-SYSTEM", "HIDDEN-DEVELOPER"];

/// Returns a folder with a session `s1` of hidden messages, and the model that answers it.
pub(crate) fn hidden_session() -> (tempfile::TempDir, ModelServer) {
    let answer = || Reply::Answer(Answer::text("an answer").with_reasoning("HIDDEN-THOUGHT"));
    let model = ModelServer::start(vec![answer(), answer()], Delivery::Whole).unwrap();
    let messages = json!({"messages": [
        {"role": "system", "content": "HIDDEN-SYSTEM rules"},
        {"role": "developer", "content": "HIDDEN-DEVELOPER rules"},
        {"role": "user", "content": "imported"},
        {"role": "assistant", "content": [{"type": "thinking", "text": "HIDDEN-THOUGHT"},
            {"type": "text", "text": "seen"}]}]});
    let folder = folder(&[
        ("agent.md", "<config model=\"m\"/>\n"),
        ("old.json", &messages.to_string()),
    ]);
    let import = ["sessions", "import", "old.json", "s1", "--agent"];
    let import = import.iter().chain(&["agent.md", "--store", "sqlite:s.db"]);
    let imported = run(folder.path(), import);
    assert_eq!(imported.status, 0, "{}", imported.stderr);
    (folder, model)
}

pub(crate) fn serve(folder: &Path, model: &ModelServer, flags: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments: Vec<&str> = ["agent.md"].iter().chain(flags).copied().collect();
    Served::start_with(command, &arguments)
}

fn token(folder: &Path, name: &str, scopes: &str) -> String {
    let ran = run(
        folder,
        ["serve", "token", "create", name, "--scope", scopes],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran.stdout.trim().to_owned()
}

fn read(served: &Served, path: &str, token: &str) -> Answered {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let headers = if token.is_empty() { &[] } else { &headers[..] };
    served.request("GET", path, headers, "")
}

/// Reads the debug view in both forms.
fn debug(served: &Served, token: &str) -> [Answered; 2] {
    ["view=debug", "form=nodes&view=debug"]
        .map(|query| read(served, &format!("/v1/sessions/s1/messages?{query}"), token))
}

fn check_refused(answers: &[Answered], code: &str) {
    for answered in answers {
        assert_eq!(answered.status, 403, "{answered:?}");
        assert_eq!(answered.json()["code"], code);
        assert!(!answered.text.contains("HIDDEN"), "{answered:?}");
    }
}

fn check_allowed(answers: &[Answered]) {
    for answered in answers {
        assert_eq!(answered.status, 200, "{answered:?}");
        for mark in MARKS {
            assert!(answered.text.contains(mark), "{mark}: {answered:?}");
        }
    }
}

/// Fails if another answer than the debug view contains something hidden.
fn check_others(served: &Served, token: &str) {
    for path in [
        "/v1/sessions/s1",
        "/v1/sessions?titles=true",
        "/v1/sessions?search=HIDDEN",
        "/v1/sessions/s1/messages",
        "/v1/sessions/s1/messages?view=visible",
        "/v1/sessions/s1/messages?form=nodes",
        "/v1/sessions/s1/export",
        "/v1/sessions/s1/export?form=chatmd",
        "/v1/sessions/s1/export?form=openchatml",
    ] {
        let answered = read(served, path, token);
        assert_eq!(answered.status, 200, "{path}");
        assert!(!answered.text.contains("HIDDEN"), "{path}: {answered:?}");
    }
}

#[test]
fn hidden_messages_require_the_flag_and_the_scope() {
    let (folder, model) = hidden_session();
    let folder = folder.path();
    let may = |served: &Served, token: &str| -> Value {
        read(served, "/v1/me", token).json()["debug_view"].clone()
    };
    // Without tokens, on this machine, the flag alone decides.
    let served = serve(folder, &model, &[]);
    check_refused(&debug(&served, ""), "debug_view_disabled");
    assert_eq!(may(&served, ""), false);
    served.kill();
    let served = serve(folder, &model, &["--debug-view"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    assert!(!sent.text.contains("HIDDEN"), "{sent:?}");
    check_allowed(&debug(&served, ""));
    assert_eq!(may(&served, ""), true);
    check_others(&served, "");
    let shown = served.get("/v1/sessions/s1").json();
    let last = shown["events_after"].as_str().unwrap();
    let first = format!("0-{}", last.split_once('-').unwrap().1);
    let mut stream = served.events("GET", "/v1/sessions/s1/events", Some(&first), "");
    let events = stream.until("turn.completed");
    assert!(!format!("{events:?}").contains("HIDDEN"), "{events:?}");

    // With tokens, the scope is required as well.
    let reader = token(folder, "reader", "read,send");
    let debugger = token(folder, "debugger", "read,debug");
    let only = token(folder, "only", "debug");
    served.kill();
    let served = serve(folder, &model, &["--debug-view"]);
    assert_eq!(debug(&served, "")[0].status, 401);
    check_refused(&debug(&served, &reader), "scope_missing");
    check_refused(&debug(&served, &only), "scope_missing");
    assert_eq!(may(&served, &reader), false);
    check_allowed(&debug(&served, &debugger));
    assert_eq!(may(&served, &debugger), true);
    check_others(&served, &debugger);
    served.kill();
    let served = serve(folder, &model, &[]);
    check_refused(&debug(&served, &debugger), "debug_view_disabled");
    assert_eq!(may(&served, &debugger), false);
}
