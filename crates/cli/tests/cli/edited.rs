//! An approval with edited arguments: what a person wrote is what runs, and both calls stay known.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};
use crate::waiting::wait_for_file;

/// The place of the conversation that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    File,
    Session,
}

const BOTH: [Kept; 2] = [Kept::File, Kept::Session];
const CONFIG: &str = ".config/logue/config.toml";
const DEPLOY: &str = "echo \"ran $*\" >> runs\n";
const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n\
                      <tool name=\"write_file\"/>\n";

struct Scene {
    folder: tempfile::TempDir,
    server: ModelServer,
    kept: Kept,
    signal: String,
}

/// The arguments of a call of `deploy`.
fn words(words: &[&str]) -> String {
    json!({ "arguments": words }).to_string()
}

fn sha256(text: &str) -> String {
    format!("sha256:{:x}", Sha256::digest(text))
}

impl Scene {
    /// A turn whose calls, of a tool with arguments, all wait.
    fn new(kept: Kept, calls: &[(&str, &str, String)]) -> Self {
        Self::with_script(kept, DEPLOY, calls)
    }

    fn with_script(kept: Kept, script: &str, calls: &[(&str, &str, String)]) -> Self {
        let rules = "[permissions.rules]\n\"*\" = \"ask\"\n";
        let folder = folder(&[("p.md", PROMPT), ("deploy.sh", script), (CONFIG, rules)]);
        let answer = calls
            .iter()
            .fold(Answer::text("Now."), |answer, (id, tool, arguments)| {
                answer.with_call(*id, *tool, arguments)
            });
        let mut replies = vec![Reply::Answer(answer)];
        replies.extend((0..9).map(|_| Reply::Answer(Answer::text("so be it"))));
        let server = ModelServer::start(replies, Delivery::Whole).unwrap();
        let mut scene = Self {
            folder,
            server,
            kept,
            signal: String::new(),
        };
        let ran = match kept {
            Kept::File => scene.run(&["run", "p.md", "go"]),
            Kept::Session => scene.run(&["send", "--agent", "p.md", "s", "go"]),
        };
        assert_eq!(ran.status, 6, "{kept:?}: {}", ran.stderr);
        let mut lines = ran.stderr.lines();
        let line = lines.find(|line| line.contains("logue signal"));
        let signal = line.unwrap().split_whitespace().nth(2).unwrap();
        signal.clone_into(&mut scene.signal);
        scene
    }

    /// A turn that waits for one call of `deploy`.
    fn waiting(kept: Kept) -> Self {
        Self::new(kept, &[("c1", "deploy", words(&["to", "prod"]))])
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = logue(self.path());
        command
            .env("OPENAI_BASE_URL", self.server.base_url())
            .env("USER", "ana")
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    fn signalled(&self, flags: &[&str]) -> Ran {
        self.run(&[&["signal", &self.signal], flags].concat())
    }

    /// Approves with an edit, which is written to a file first.
    fn edited(&self, arguments: &str) -> Ran {
        self.write("edit.json", arguments);
        self.signalled(&["--approve", "--edit", "edit.json"])
    }

    fn runs(&self) -> String {
        std::fs::read_to_string(self.path().join("runs")).unwrap_or_default()
    }

    /// The messages of the last request.
    fn messages(&self) -> Vec<Value> {
        let requests = self.server.received();
        let messages = requests.last().unwrap().body["messages"].clone();
        messages.as_array().unwrap().clone()
    }

    /// The results of the calls, as the model received them.
    fn results(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = self.messages().into_iter();
        let results = messages.filter(|message| message["role"] == "tool");
        results
            .map(|message| (text(&message["tool_call_id"]), text(&message["content"])))
            .collect()
    }

    fn audit(&self) -> Vec<Value> {
        let of = match self.kept {
            Kept::File => "p.md",
            Kept::Session => "s",
        };
        let shown = self.run(&["sessions", "show", of, "--audit", "--json"]);
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        shown["audit"].as_array().unwrap().clone()
    }

    /// The stored conversation as JSON.
    fn history(&self) -> String {
        let shown = match self.kept {
            Kept::File => self.run(&["convert", "p.md", "--to", "openai"]),
            Kept::Session => self.run(&["sessions", "show", "s", "--json"]),
        };
        shown.stdout
    }
}

fn notice(arguments: &str) -> String {
    format!("A person replaced the arguments of this call with: {arguments}\n\n")
}

#[test]
fn the_edited_arguments_run_and_both_calls_are_kept() {
    for kept in BOTH {
        let scene = Scene::waiting(kept);
        let ran = scene.edited("{\n  \"arguments\": [ \"to\", \"stage two\" ]\n}\n");
        let ended = (ran.status, ran.stdout.as_str());
        assert_eq!(ended, (0, "so be it\n"), "{kept:?}: {}", ran.stderr);
        assert_eq!(scene.runs(), "ran to stage two\n", "{kept:?}");
        // The model sees its own call, and its result begins with the arguments that ran.
        let messages = scene.messages();
        let mut calls = messages.iter().filter_map(|message| {
            let call = message["tool_calls"].get(0)?;
            call["function"]["arguments"].as_str()
        });
        assert_eq!(calls.next(), Some(words(&["to", "prod"]).as_str()));
        let edited = words(&["to", "stage two"]);
        let results = scene.results();
        assert_eq!(results.len(), 1, "{results:?}");
        assert_eq!(results[0].0, "c1");
        assert!(results[0].1.starts_with(&notice(&edited)), "{results:?}");
        // So do the readers of the conversation, which stays valid.
        let history = scene.history();
        assert!(history.contains("prod"), "{kept:?}: {history}");
        assert!(history.contains("stage two"), "{kept:?}: {history}");
        if kept == Kept::File {
            assert_eq!(scene.run(&["check", "p.md"]).status, 0);
        }
        let audit = scene.audit();
        assert_eq!(audit.len(), 1, "{audit:?}");
        let record = &audit[0];
        assert_eq!(record["arguments"], sha256(&words(&["to", "prod"])));
        assert_eq!(record["edited"]["arguments"], sha256(&edited));
        let shown = |record: &Value| record["shown"].as_str().unwrap().to_owned();
        assert!(
            shown(record).ends_with("sh deploy.sh to prod\n"),
            "{record}"
        );
        assert!(
            shown(&record["edited"]).ends_with("sh deploy.sh to 'stage two'\n"),
            "{record}"
        );
        assert_ne!(record["fingerprint"], record["edited"]["fingerprint"]);
        assert_eq!(record["by"]["decided_by"], "ana");
    }
}

#[test]
fn another_edit_contradicts_the_first() {
    for kept in BOTH {
        let scene = Scene::waiting(kept);
        let stage = words(&["stage"]);
        assert_eq!(scene.edited(&stage).status, 0);
        // Blanks are no difference.
        let again = scene.edited("{ \"arguments\" : [\"stage\"] }");
        assert_eq!((again.status, again.stdout.as_str()), (0, "so be it\n"));
        let other = scene.edited(&words(&["prod", "now"]));
        let plain = scene.signalled(&["--approve"]);
        for refused in [other, plain] {
            assert_eq!(refused.status, 3, "{kept:?}: {}", refused.stdout);
            let first = "decided before: approved with edited arguments by ana";
            assert!(refused.stderr.contains(first), "{}", refused.stderr);
        }
        assert_eq!(scene.runs(), "ran stage\n", "{kept:?}");
        assert_eq!(scene.audit().len(), 1);

        let scene = Scene::waiting(kept);
        assert_eq!(scene.signalled(&["--approve"]).status, 0);
        let refused = scene.edited(&stage);
        assert_eq!(refused.status, 3, "{kept:?}: {}", refused.stdout);
        assert!(
            refused.stderr.contains("approved by ana"),
            "{}",
            refused.stderr
        );
        // The arguments of the model are left out.
        assert_eq!(scene.edited(&words(&["to", "prod"])).status, 0);
        assert_eq!(scene.runs(), "ran to prod\n", "{kept:?}");
    }
}

#[test]
fn an_invalid_edit_decides_nothing() {
    for kept in BOTH {
        let scene = Scene::waiting(kept);
        for (arguments, reason) in [
            (
                "{\"arguments\": [\"x\",\n ]}",
                "edit.json:2:2: invalid JSON",
            ),
            ("[\"x\"]", "edit.json:1:"),
            ("{\"arguments\": \"x\"}", "/arguments: "),
            ("{\"arguments\": [1]}", "/arguments/0: "),
            ("{\"arguments\": [], \"user\": \"root\"}", "user"),
            ("", "edit.json:1:0: invalid JSON"),
        ] {
            let ran = scene.edited(arguments);
            assert_eq!(ran.status, 3, "{kept:?} {arguments}: {}", ran.stderr);
            let code = "error[suspension_resume_payload_invalid]";
            assert!(ran.stderr.contains(code), "{arguments}: {}", ran.stderr);
            assert!(ran.stderr.contains(reason), "{arguments}: {}", ran.stderr);
            assert!(ran.stderr.contains("nothing was decided"), "{}", ran.stderr);
        }
        let missing = scene.signalled(&["--approve", "--edit", "absent.json"]);
        assert_eq!(missing.status, 3, "{}", missing.stderr);
        for flags in [
            &["--deny", "--edit", "edit.json"][..],
            &["--edit", "edit.json"],
        ] {
            assert_eq!(scene.signalled(flags).status, 2, "{flags:?}");
        }
        let denied = r#"{"approval": "deny", "edits": {"c1": {"arguments": []}}}"#;
        let unknown = r#"{"approval": "approve", "edits": {"c2": {"arguments": []}}}"#;
        for payload in [denied, unknown] {
            let ran = scene.signalled(&["--payload", payload]);
            assert_eq!(ran.status, 3, "{payload}: {}", ran.stderr);
        }
        assert_eq!(scene.runs(), "", "{kept:?}");
        assert!(scene.audit().is_empty());
        assert_eq!(scene.edited(&words(&["at", "last"])).status, 0);
        assert_eq!(scene.runs(), "ran at last\n", "{kept:?}");
    }
}

#[test]
fn calls_of_one_turn_are_edited_by_their_ids() {
    for kept in BOTH {
        let two = || {
            let calls = ["c1", "c2"].map(|id| (id, "deploy", words(&[id])));
            Scene::new(kept, &calls)
        };
        let scene = two();
        scene.write("a.json", &words(&["one"]));
        scene.write("b.json", &words(&["two"]));
        let unnamed = scene.signalled(&["--approve", "--edit", "a.json"]);
        assert_eq!(unnamed.status, 3, "{}", unnamed.stderr);
        assert!(unnamed.stderr.contains("c1, c2"), "{}", unnamed.stderr);
        let both = ["--approve", "--edit", "c2=b.json", "--edit", "c1=a.json"];
        let ran = scene.signalled(&both);
        assert_eq!(ran.status, 0, "{kept:?}: {}", ran.stderr);
        let mut runs: Vec<String> = scene.runs().lines().map(str::to_owned).collect();
        runs.sort();
        assert_eq!(runs, ["ran one", "ran two"], "{kept:?}");
        let results = scene.results();
        for (result, (id, word)) in results.iter().zip([("c1", "one"), ("c2", "two")]) {
            assert_eq!(result.0, id);
            assert!(
                result.1.starts_with(&notice(&words(&[word]))),
                "{results:?}"
            );
        }

        let scene = two();
        scene.write("b.json", &words(&["two"]));
        let ran = scene.signalled(&["--approve", "--edit", "c2=b.json"]);
        assert_eq!(ran.status, 0, "{kept:?}: {}", ran.stderr);
        assert!(scene.runs().contains("ran c1\n"), "{}", scene.runs());
        assert!(scene.runs().contains("ran two\n"), "{}", scene.runs());
        assert!(!scene.results()[0].1.contains("replaced"));

        let scene = two();
        let payload = json!({
            "approval": {"c1": "approve", "c2": "deny"},
            "edits": {"c1": {"arguments": ["one"]}},
        });
        let ran = scene.signalled(&["--payload", &payload.to_string()]);
        assert_eq!(ran.status, 0, "{kept:?}: {}", ran.stderr);
        assert_eq!(scene.runs(), "ran one\n", "{kept:?}");
    }
}

#[test]
fn an_edit_does_not_approve_a_changed_script() {
    for kept in BOTH {
        let scene = Scene::waiting(kept);
        scene.write("deploy.sh", "echo changed >> runs\n");
        let ran = scene.edited(&words(&["stage"]));
        assert_eq!(ran.status, 0, "{kept:?}: {}", ran.stderr);
        assert_eq!(scene.runs(), "", "{kept:?}");
        let results = scene.results();
        assert!(results[0].1.contains("approval_stale"), "{results:?}");
        let warning =
            "warning[approval_stale]: the approved call of deploy was not run: what a call";
        assert!(ran.stderr.contains(warning), "{kept:?}: {}", ran.stderr);
        assert!(
            !ran.stderr.contains("call-without-response"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn rules_and_roots_apply_to_the_edited_call() {
    for kept in BOTH {
        let scene = Scene::waiting(kept);
        scene.write(CONFIG, "[permissions.rules]\ndeploy = \"deny\"\n");
        let ran = scene.edited(&words(&["stage"]));
        assert_eq!(ran.status, 3, "{kept:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("a rule denies"), "{}", ran.stderr);
        assert_eq!(scene.runs(), "", "{kept:?}");
        let write = || json!({"path": "a.txt", "content": "x"}).to_string();
        let scene = Scene::new(kept, &[("c1", "write_file", write())]);
        let outside = scene.path().parent().unwrap().join("edited-outside.txt");
        for path in ["../edited-outside.txt", outside.to_str().unwrap()] {
            let edit = json!({"path": path, "content": "x"}).to_string();
            let scene = Scene::new(kept, &[("c1", "write_file", write())]);
            let ran = scene.edited(&edit);
            assert_eq!(ran.status, 0, "{kept:?} {path}: {}", ran.stderr);
            assert!(!outside.exists(), "{kept:?} {path}");
            assert!(!scene.path().join("a.txt").exists());
            let results = scene.results();
            assert!(results[0].1.contains("is outside"), "{results:?}");
            let warning = "the approved call of write_file failed: ";
            assert!(ran.stderr.contains(warning), "{kept:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("is outside"), "{}", ran.stderr);
        }
        // A covered file stays, as for a call of the model.
        let edit = json!({"path": "deploy.sh", "content": "echo evil >> runs\n"});
        let ran = scene.edited(&edit.to_string());
        assert_eq!(ran.status, 0, "{kept:?}: {}", ran.stderr);
        let script = std::fs::read_to_string(scene.path().join("deploy.sh")).unwrap();
        assert_eq!(script, DEPLOY, "{kept:?}");
    }
}

#[test]
fn edited_content_is_what_is_written() {
    for kept in BOTH {
        let write = json!({"path": "a.txt", "content": "theirs"}).to_string();
        let scene = Scene::new(kept, &[("c1", "write_file", write)]);
        let ran = scene.edited(&json!({"path": "b.txt", "content": "mine\n"}).to_string());
        assert_eq!(ran.status, 0, "{kept:?}: {}", ran.stderr);
        assert!(!scene.path().join("a.txt").exists());
        let written = std::fs::read_to_string(scene.path().join("b.txt")).unwrap();
        assert_eq!(written, "mine\n");
        // The audit shows both changes.
        let audit = scene.audit();
        assert!(
            audit[0]["shown"].to_string().contains("theirs"),
            "{audit:?}"
        );
        assert!(
            audit[0]["edited"]["shown"].to_string().contains("mine"),
            "{audit:?}"
        );
    }
}

#[test]
fn killing_the_process_keeps_the_edit() {
    // A later process waits for the lease of the killed one, so all of them wait together.
    std::thread::scope(|threads| {
        for kept in BOTH {
            for moment in [Some(10), Some(30), Some(60), Some(90), Some(150), None] {
                threads.spawn(move || killed_with_an_edit(kept, moment));
            }
        }
    });
}

/// Kills the process after some milliseconds, or while the tool runs.
fn killed_with_an_edit(kept: Kept, moment: Option<u64>) {
    let script = match moment {
        Some(_) => "echo \"ran $*\" >> runs\nsleep 0.05\n",
        None => "echo \"ran $*\" >> runs\nsleep 20\n",
    };
    let calls = [("c1", "deploy", words(&["to", "prod"]))];
    let scene = Scene::with_script(kept, script, &calls);
    let stage = words(&["stage"]);
    scene.write("edit.json", &stage);
    let mut child = scene
        .command(&["signal", &scene.signal, "--approve", "--edit", "edit.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    match moment {
        Some(millis) => std::thread::sleep(Duration::from_millis(millis)),
        None => wait_for_file(&scene.path().join("runs")),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let context = format!("{kept:?} after {moment:?} ms");
    for _ in 0..3 {
        let ran = scene.edited(&stage);
        assert!([0, 3, 4].contains(&ran.status), "{context}: {}", ran.stderr);
    }
    // The call of the model never runs, and the edited one at most once, with its record.
    let effects = scene.runs();
    assert!(
        ["", "ran stage\n"].contains(&effects.as_str()),
        "{context}: {effects}"
    );
    let audit = scene.audit();
    let is_recorded = |record: &Value| record["edited"]["arguments"] == sha256(&stage);
    assert!(moment.is_some() || !effects.is_empty(), "{context}");
    assert!(
        effects.is_empty() || audit.iter().any(is_recorded),
        "{context}: {audit:?}"
    );
}
