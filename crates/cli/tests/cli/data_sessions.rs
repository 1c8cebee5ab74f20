//! `logue data from-sessions`: decisions of people as labels, redaction, and pairs of preference.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";
const DEPLOY: &str = "echo \"ran $*\" >> runs\necho \"deployed $1\"\n";
const RULES: &str = "[permissions.rules]\n\"*\" = \"ask\"\n";

struct Scene {
    folder: tempfile::TempDir,
    server: ModelServer,
}

impl Scene {
    fn new(replies: Vec<Reply>) -> Self {
        let files = [
            ("p.md", PROMPT),
            ("deploy.sh", DEPLOY),
            (".config/logue/config.toml", RULES),
        ];
        Self {
            folder: folder(&files),
            server: ModelServer::start(replies, Delivery::Whole).unwrap(),
        }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = logue(self.path());
        command
            .env("OPENAI_BASE_URL", self.server.base_url())
            .env("USER", "ana")
            .args(arguments);
        command.output().unwrap().into()
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a message whose turn waits, and decides with these flags.
    fn decided(&self, session: &str, message: &str, flags: &[&str]) {
        let ran = self.run(&["send", "--agent", "p.md", session, message]);
        assert_eq!(ran.status, 6, "{}", ran.stderr);
        let mut lines = ran.stderr.lines();
        let line = lines.find(|line| line.contains("logue signal")).unwrap();
        let signal = line.split_whitespace().nth(2).unwrap();
        let ran = self.run(&[&["signal", signal], flags].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }

    fn rows(&self, flags: &[&str]) -> Vec<Value> {
        let ran = self.run(&[&["data", "from-sessions"], flags].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let lines = ran.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn call(id: &str, word: &str) -> Reply {
    let arguments = json!({ "arguments": [word] }).to_string();
    Reply::Answer(Answer::text("I try.").with_call(id, "deploy", arguments))
}

fn text(text: &str) -> Reply {
    Reply::Answer(Answer::text(text))
}

/// A session with an approved, an edited and a denied call.
fn three_decisions() -> Scene {
    let scene = Scene::new(vec![
        call("c1", "one"),
        text("First."),
        call("c2", "two"),
        text("Second."),
        call("c3", "three"),
        text("Third."),
    ]);
    std::fs::write(
        scene.path().join("edit.json"),
        "{\"arguments\": [\"safer\"]}",
    )
    .unwrap();
    scene.decided("s", "ship one", &["--approve"]);
    scene.decided("s", "ship two", &["--approve", "--edit", "edit.json"]);
    scene.decided(
        "s",
        "ship three",
        &["--deny", "--reason", "not on a Friday"],
    );
    let runs = std::fs::read_to_string(scene.path().join("runs")).unwrap();
    assert_eq!(runs, "ran one\nran safer\n");
    scene
}

#[test]
fn decisions_of_people_are_labels_of_the_row() {
    let scene = three_decisions();
    let rows = scene.rows(&[]);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row["session"], "s");
    let decisions: Vec<_> = row["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["call_id"].as_str().unwrap(),
                one["decision"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        decisions,
        [("c1", "approve"), ("c2", "edit"), ("c3", "deny")]
    );
    assert_eq!(row["decisions"][2]["note"], "not on a Friday");
    let messages = row["messages"].as_array().unwrap();
    let of = |id: &str| {
        let has = |message: &&Value| message["tool_calls"][0]["id"] == id;
        messages.iter().find(has).unwrap()
    };
    let arguments = |id: &str| of(id)["tool_calls"][0]["function"]["arguments"].clone();
    assert_eq!(arguments("c1"), "{\"arguments\":[\"one\"]}");
    // The row has what ran.
    assert_eq!(arguments("c2"), "{\"arguments\":[\"safer\"]}");
    assert_eq!(of("c3")["weight"], 0);
    assert_eq!(of("c1").get("weight"), None);
}

#[test]
fn an_edit_is_a_pair_of_preference() {
    let scene = three_decisions();
    let rows = scene.rows(&["--rows", "preference"]);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row["reason"], "edit");
    let arguments = |side: &str| row[side][0]["tool_calls"][0]["function"]["arguments"].clone();
    assert_eq!(arguments("chosen"), "{\"arguments\":[\"safer\"]}");
    assert_eq!(arguments("rejected"), "{\"arguments\":[\"two\"]}");
    let prompt = row["prompt"].as_array().unwrap();
    assert_eq!(prompt.last().unwrap()["content"], "ship two");
}

#[test]
fn a_rerun_and_its_original_are_a_pair_with_their_common_prompt() {
    let scene = Scene::new(vec![
        text("Bad answer."),
        text("More."),
        text("Better answer."),
    ]);
    for message in ["question", "and more"] {
        let ran = scene.run(&["send", "--agent", "p.md", "first", message]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
    let ran = scene.run(&["sessions", "fork", "first", "second", "--messages", "1"]);
    assert!(ran.status == 0 || ran.status == 2, "{}", ran.stderr);
    let ran = scene.run(&[
        "sessions", "rerun", "first", "--step", "1", "--into", "again",
    ]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let rows = scene.rows(&["--rows", "preference", "first", "again"]);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row["reason"], "branch");
    assert_eq!(row["chosen"][0]["content"], "Better answer.");
    assert_eq!(row["rejected"][0]["content"], "Bad answer.");
    assert_eq!(row["rejected"].as_array().unwrap().len(), 1, "{row}");
    assert_eq!(
        (&row["session"], &row["rejected_session"]),
        (&json!("again"), &json!("first"))
    );
}

#[test]
fn redaction_applies_before_anything_is_written() {
    let scene = Scene::new(vec![call("c1", "secret-77"), text("Deployed secret-88.")]);
    scene.decided("s", "use secret-99", &["--approve"]);
    let rows = scene.rows(&["--redact", "secret-[0-9]+"]);
    let written = json!(rows).to_string();
    assert!(!written.contains("secret-"), "{written}");
    assert!(written.contains("deploy"), "{written}");
    // The arguments stay JSON.
    let messages = rows[0]["messages"].as_array().unwrap();
    let call = messages
        .iter()
        .find(|message| message.get("tool_calls").is_some())
        .unwrap();
    let arguments = call["tool_calls"][0]["function"]["arguments"]
        .as_str()
        .unwrap();
    serde_json::from_str::<Value>(arguments).unwrap();
    let ran = scene.run(&["data", "from-sessions", "--redact", "("]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}
