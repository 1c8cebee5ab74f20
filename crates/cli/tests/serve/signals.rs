//! Decisions over HTTP: what they show, and what runs after them.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::Served;
use crate::program::{folder, logue, run};

const AGENT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n\
    <tool name=\"write_file\"/>\n";
const DEPLOY: &str = "echo \"ran $*\"\n";

struct Scene {
    folder: TempDir,
    model: ModelServer,
}

impl Scene {
    fn new(tool: &str, arguments: &Value) -> Self {
        let call = Answer::text("Now.").with_call("c1", tool, arguments.to_string());
        let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("so be it"))];
        let model = ModelServer::start(replies, Delivery::Whole).unwrap();
        let folder = folder(&[
            ("agent.md", AGENT),
            ("deploy.sh", DEPLOY),
            ("a.txt", "one\ntwo\n"),
        ]);
        Self { folder, model }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn serve(&self, arguments: &[&str]) -> Served {
        let mut command = logue(self.path());
        command.env("OPENAI_BASE_URL", self.model.base_url());
        let rules = ["agent.md", "--permission", "*=ask"];
        let arguments: Vec<&str> = rules.iter().chain(arguments).copied().collect();
        Served::start_with(command, &arguments)
    }

    /// Decides in a terminal; returns the status and standard error.
    fn signal(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = logue(self.path());
        command.env("OPENAI_BASE_URL", self.model.base_url());
        command
            .args(["signal", "--store", "sqlite:s.db"])
            .args(arguments);
        let ran = command.output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        (ran.status.code().unwrap(), said)
    }

    fn audit(&self) -> Value {
        let shown = [
            "sessions",
            "show",
            "s1",
            "--audit",
            "--json",
            "--store",
            "sqlite:s.db",
        ];
        let ran = run(self.path(), shown);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
        shown["audit"].clone()
    }
}

/// Sends a message whose turn waits, and returns the path of its signal.
fn wait(served: &Served) -> String {
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 202, "{sent:?}");
    let sent = sent.json();
    format!(
        "/v1/signals/{}",
        sent["signal"]["signal_id"].as_str().unwrap()
    )
}

fn words(words: &[&str]) -> Value {
    json!({ "arguments": words })
}

#[test]
fn a_signal_shows_what_will_run_in_full() {
    let scene = Scene::new("deploy", &words(&["to", "prod"]));
    let served = scene.serve(&["--approval-timeout", "3600"]);
    let signal = served.get(&wait(&served)).json();
    let call = &signal["calls"][0];
    assert_eq!(call["arguments"], words(&["to", "prod"]));
    assert_eq!(
        call["parameters"]["properties"]["arguments"]["type"],
        "array"
    );
    let preview = call["preview"].as_str().unwrap();
    assert!(preview.contains("sh deploy.sh to prod"), "{preview}");
    assert!(call["fingerprint"].is_string(), "{signal}");
    let since = signal["since"].as_u64().unwrap();
    assert_eq!(signal["expires_at"], since + 3_600_000);

    let change = json!({"path": "a.txt", "content": "one\n2\n"});
    let scene = Scene::new("write_file", &change);
    let served = scene.serve(&[]);
    let signal = served.get(&wait(&served)).json();
    let preview = signal["calls"][0]["preview"].as_str().unwrap();
    assert!(preview.contains("\n-two\n+2\n"), "{preview}");
    assert_eq!(signal["expires_at"], Value::Null);
}

#[test]
fn an_edit_runs_and_both_versions_are_audited() {
    let scene = Scene::new("deploy", &words(&["to", "prod"]));
    let served = scene.serve(&[]);
    let path = wait(&served);
    let edited = |arguments: &Value| json!({"approval": "approve", "edits": {"c1": arguments}});
    let unfit = served.post(&path, &edited(&json!({"arguments": 7})));
    assert_eq!(unfit.status, 422, "{unfit:?}");
    let done = served.post(&path, &edited(&words(&["to", "test"])));
    assert_eq!(done.status, 200, "{done:?}");
    let result = done.json()["replies"][0]["content"].clone();
    let result = result.as_str().unwrap();
    assert!(
        result.contains("A person replaced the arguments"),
        "{result}"
    );
    assert!(result.contains("ran to test"), "{result}");
    let asked = scene.model.received()[1].body.to_string();
    assert!(asked.contains("prod"), "{asked}");
    let audit = scene.audit().to_string();
    assert!(audit.contains("deploy.sh to prod"), "{audit}");
    assert!(audit.contains("deploy.sh to test"), "{audit}");
    // Other arguments are another decision.
    let again = served.post(&path, &edited(&words(&["to", "test"])));
    assert_eq!(again.status, 200, "{again:?}");
    let other = served.post(&path, &edited(&words(&["to", "live"])));
    assert_eq!(other.status, 409, "{other:?}");
    assert!(
        other.text.contains("approved with edited arguments"),
        "{other:?}"
    );
}

#[test]
fn a_program_that_changed_does_not_run() {
    let scene = Scene::new("deploy", &words(&[]));
    let served = scene.serve(&[]);
    let path = wait(&served);
    std::fs::write(scene.path().join("deploy.sh"), "echo other").unwrap();
    let done = served.post(&path, &json!({"approval": "approve"}));
    let result = done.json()["replies"][0]["content"].clone();
    let result = result.as_str().unwrap();
    assert!(result.contains("approval_stale"), "{result}");
    assert!(!result.contains("other"), "{result}");
}

#[test]
fn a_wait_expires_as_a_denial() {
    let scene = Scene::new("deploy", &words(&[]));
    let served = scene.serve(&["--approval-timeout", "1"]);
    let path = wait(&served);
    // The server ends the wait itself.
    let mut events = served.events("GET", "/v1/sessions/s1/events", Some("1-1"), "");
    events.until("turn.completed");
    let late = served.post(&path, &json!({"approval": "approve"}));
    assert_eq!(late.status, 409, "{late:?}");
    assert!(
        late.text.contains("no decision was made within 1 s"),
        "{late:?}"
    );
    assert!(
        scene.model.received()[1]
            .body
            .to_string()
            .contains("No decision")
    );
}

#[test]
fn a_decision_counts_once_after_a_kill_and_in_a_terminal() {
    let scene = Scene::new("deploy", &words(&["now"]));
    let served = scene.serve(&[]);
    let path = wait(&served);
    let signal = path.rsplit('/').next().unwrap().to_owned();
    served.kill();
    let served = scene.serve(&[]);
    assert_eq!(served.get(&path).json()["status"], "waiting");
    let (status, said) = scene.signal(&[&signal, "--deny"]);
    assert_eq!(status, 0, "{said}");
    let equal = served.post(&path, &json!({"approval": "deny"}));
    assert_eq!(equal.status, 200, "{equal:?}");
    assert_eq!(equal.json()["replies"][1]["content"], "so be it");
    let other = served.post(&path, &json!({"approval": "approve"}));
    assert_eq!(other.status, 409, "{other:?}");
    assert_eq!(other.json()["code"], "signal_contradicts_earlier");
    assert!(other.text.contains("denied by"), "{other:?}");
    assert_eq!(scene.model.received().len(), 2);
}

#[test]
fn the_audit_names_the_token_of_a_decision() {
    let scene = Scene::new("deploy", &words(&["to", "prod"]));
    let served = scene.serve(&[]);
    let path = wait(&served);
    let created = [
        "serve",
        "token",
        "create",
        "ops-phone",
        "--scope",
        "approve",
    ];
    let secret = run(scene.path(), created).stdout;
    let bearer = format!("Bearer {}", secret.trim());
    let body = json!({"approval": "deny", "decided_by": "Ann"}).to_string();
    crate::waiting::wait_until(
        || "the token is not noticed".to_owned(),
        || served.get("/v1/signals").status == 401,
    );
    let headers = [("authorization", bearer.as_str())];
    let decided = served.request("POST", &path, &headers, &body);
    assert_eq!(decided.status, 200, "{decided:?}");
    let audit = scene.audit().to_string();
    assert!(audit.contains("Ann (token ops-phone)"), "{audit}");
}
