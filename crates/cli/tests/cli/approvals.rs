//! However a decision is made, lost, doubled or late: what it is about happens once or not at all.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};
use crate::waiting::{wait_for_file, wait_until};

/// Where the conversation is that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    File,
    Session,
}

const BOTH: [Kept; 2] = [Kept::File, Kept::Session];

struct Scene {
    folder: tempfile::TempDir,
    server: ModelServer,
    kept: Kept,
    signal: String,
}

impl Scene {
    /// A turn that waits for a decision about one call, whose effect is a line in a file.
    fn new(kept: Kept, script: &str, further: &[&str]) -> Self {
        let prompt = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";
        let folder = folder(&[("p.md", prompt), ("deploy.sh", script)]);
        let call = Answer::text("Now.").with_call("c1", "deploy", "{\"arguments\":[]}");
        let mut replies = vec![Reply::Answer(call)];
        replies.extend((0..9).map(|_| Reply::Answer(Answer::text("so be it"))));
        let server = ModelServer::start(replies, Delivery::Whole).unwrap();
        let mut scene = Self {
            folder,
            server,
            kept,
            signal: String::new(),
        };
        let ran = match kept {
            Kept::File => scene.run(
                &[
                    &["run", "--permission", "deploy=ask", "p.md", "go"],
                    further,
                ]
                .concat(),
            ),
            Kept::Session => {
                let send = [
                    "send",
                    "--agent",
                    "p.md",
                    "--permission",
                    "deploy=ask",
                    "s",
                    "go",
                ];
                scene.run(&[&send, further].concat())
            }
        };
        assert_eq!(ran.status, 6, "{kept:?}: {}", ran.stderr);
        let line = ran
            .stderr
            .lines()
            .find(|line| line.contains("logue signal"));
        let signal = line.unwrap().split_whitespace().nth(2).unwrap();
        signal.clone_into(&mut scene.signal);
        scene
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = logue(self.folder.path());
        command
            .env("OPENAI_BASE_URL", self.server.base_url())
            .env("USER", "ana")
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    fn signalled(&self, how: &str) -> Ran {
        self.run(&["signal", &self.signal, how])
    }

    /// Waits until the time for the decision is over.
    fn wait_for_deadline(&self) {
        let session = match self.kept {
            Kept::File => {
                let file = self.folder.path().join("p.md").canonicalize().unwrap();
                format!("file:{}", file.display())
            }
            Kept::Session => "s".to_owned(),
        };
        let shown = self.run(&["sessions", "show", &session, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        let waiting = &shown["suspended"][0];
        let since = waiting["since"].as_u64().unwrap();
        let seconds = waiting["metadata"]["timeout_seconds"].as_u64().unwrap();
        let deadline = UNIX_EPOCH + Duration::from_millis(since) + Duration::from_secs(seconds);
        wait_until(
            || format!("the deadline of {waiting} is far away"),
            || SystemTime::now() >= deadline,
        );
    }

    fn effects(&self) -> usize {
        let runs = std::fs::read_to_string(self.folder.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    }

    /// What the model was told of the call.
    fn tool_result(&self) -> String {
        let requests = self.server.received();
        let messages = requests.last().unwrap().body["messages"].clone();
        let messages = messages.as_array().unwrap();
        let result = messages.iter().rfind(|message| message["role"] == "tool");
        result.unwrap()["content"].as_str().unwrap().to_owned()
    }

    /// The decisions that were recorded about the call.
    fn recorded(&self) -> Vec<(String, String)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let records = self.audit().into_iter();
        records
            .map(|record| (text(&record["decision"]), text(&record["by"]["kind"])))
            .collect()
    }

    /// The audit of the conversation.
    fn audit(&self) -> Vec<serde_json::Value> {
        let of = match self.kept {
            Kept::File => "p.md",
            Kept::Session => "s",
        };
        let shown = self.run(&["sessions", "show", of, "--audit", "--json"]);
        assert_eq!(shown.status, 0, "{}", shown.stderr);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        shown["audit"].as_array().unwrap().clone()
    }
}

const ONCE: &str = "echo ran >> runs\n";

fn record(decision: &str, by: &str) -> (String, String) {
    (decision.to_owned(), by.to_owned())
}

#[test]
fn an_approval_is_one_effect_and_every_repetition_none() {
    for kept in BOTH {
        let scene = Scene::new(kept, ONCE, &[]);
        for (how, ended) in [
            ("--approve", (0, "so be it\n")),
            ("--approve", (0, "so be it\n")),
            ("--deny", (3, "")),
            ("--approve", (0, "so be it\n")),
        ] {
            let ran = scene.signalled(how);
            assert_eq!((ran.status, ran.stdout.as_str()), ended, "{kept:?} {how}");
            assert_eq!(scene.effects(), 1, "{kept:?}");
        }
        assert_eq!(scene.recorded(), [record("allow", "signal")], "{kept:?}");
    }
}

#[test]
fn a_denial_is_no_effect_and_cannot_be_turned_round() {
    for kept in BOTH {
        let scene = Scene::new(kept, ONCE, &[]);
        let denied = scene.run(&["signal", &scene.signal, "--deny", "--reason", "no"]);
        assert_eq!((denied.status, denied.stdout.as_str()), (0, "so be it\n"));
        let approved = scene.signalled("--approve");
        assert_eq!((approved.status, approved.stdout.as_str()), (3, ""));
        let signal = &scene.signal;
        let first = format!("`{signal}` was decided before: denied by ana");
        assert!(approved.stderr.contains(&first), "{}", approved.stderr);
        assert!(
            approved.stderr.contains("decided at "),
            "{}",
            approved.stderr
        );
        assert!(approved.stderr.contains(" GMT"), "{}", approved.stderr);
        // The same decision gets the first outcome, whatever its reason.
        let again = scene.signalled("--deny");
        assert_eq!((again.status, again.stdout.as_str()), (0, "so be it\n"));
        let one_by_one = r#"{"approval": {"c1": "deny"}}"#;
        let again = scene.run(&["signal", signal, "--payload", one_by_one]);
        assert_eq!((again.status, again.stdout.as_str()), (0, "so be it\n"));
        assert_eq!(scene.effects(), 0, "{kept:?}");
        assert!(
            scene.tool_result().contains("denied"),
            "{}",
            scene.tool_result()
        );
        assert_eq!(scene.recorded(), [record("deny", "signal")], "{kept:?}");
        assert_eq!(scene.audit()[0]["by"]["decided_by"], "ana", "{kept:?}");
    }
}

#[test]
fn an_approval_that_comes_too_late_is_a_denial() {
    for kept in BOTH {
        let scene = Scene::new(kept, ONCE, &["--approval-timeout", "2"]);
        let early = scene.signalled("--expire");
        assert_eq!(early.status, 3, "{}", early.stderr);
        assert!(early.stderr.contains("error[approval_not_expired]"));
        scene.wait_for_deadline();
        let late = scene.signalled("--approve");
        assert_eq!(
            (late.status, late.stdout.as_str()),
            (0, "so be it\n"),
            "{kept:?}"
        );
        assert!(
            late.stderr.contains("[approval_expired]"),
            "{}",
            late.stderr
        );
        let again = scene.signalled("--approve");
        assert_eq!(again.status, 3, "{}", again.stderr);
        assert!(
            again.stderr.contains("no decision was made within 2 s"),
            "{}",
            again.stderr
        );
        assert_eq!(scene.signalled("--deny").status, 0);
        assert_eq!(scene.effects(), 0, "{kept:?}");
        assert!(
            scene.tool_result().contains("within 2 s"),
            "{}",
            scene.tool_result()
        );
        assert_eq!(scene.recorded(), [record("deny", "expired")], "{kept:?}");
    }
}

#[test]
fn what_nobody_decided_in_time_is_over_with_the_next_message() {
    let scene = Scene::new(Kept::Session, ONCE, &["--approval-timeout", "1"]);
    scene.wait_for_deadline();
    let next = scene.run(&["send", "s", "and now?"]);
    assert_eq!((next.status, next.stdout.as_str()), (0, "so be it\n"));
    assert!(next.stderr.contains(&scene.signal), "{}", next.stderr);
    let late = scene.signalled("--approve");
    assert_eq!(late.status, 3, "{}", late.stderr);
    assert_eq!(scene.effects(), 0);
    assert_eq!(scene.recorded(), [record("deny", "expired")]);

    let scene = Scene::new(Kept::Session, ONCE, &["--approval-timeout", "1"]);
    scene.wait_for_deadline();
    let ended = scene.signalled("--expire");
    assert_eq!((ended.status, scene.effects()), (0, 0), "{}", ended.stderr);
    let without = Scene::new(Kept::Session, ONCE, &[]);
    assert_eq!(without.signalled("--expire").status, 3);
}

#[test]
fn approvals_at_the_same_time_are_one_effect() {
    for kept in BOTH {
        let scene = Scene::new(kept, "echo ran >> runs\nsleep 0.2\n", &[]);
        let start = |how: &str| {
            scene
                .command(&["signal", &scene.signal, how])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let running: Vec<_> = (0..4).map(|_| start("--approve")).collect();
        for child in running {
            let ran: Ran = child.wait_with_output().unwrap().into();
            // One that finds the file held may be told to come again.
            assert!([0, 7].contains(&ran.status), "{kept:?}: {}", ran.stderr);
        }
        assert_eq!(
            scene.signalled("--approve").stdout,
            "so be it\n",
            "{kept:?}"
        );
        assert_eq!(scene.effects(), 1, "{kept:?}");
        assert_eq!(scene.recorded(), [record("allow", "signal")], "{kept:?}");
    }
}

#[test]
fn an_approval_and_a_denial_at_the_same_time_are_one_decision() {
    for kept in BOTH {
        let scene = Scene::new(kept, ONCE, &[]);
        let running: Vec<_> = ["--approve", "--deny"]
            .into_iter()
            .map(|how| {
                scene
                    .command(&["signal", &scene.signal, how])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for mut child in running {
            child.wait().unwrap();
        }
        scene.signalled("--deny");
        let recorded = scene.recorded();
        assert_eq!(recorded.len(), 1, "{kept:?}: {recorded:?}");
        let allowed = usize::from(recorded[0].0 == "allow");
        assert_eq!(scene.effects(), allowed, "{kept:?}");
    }
}

#[test]
fn killing_the_process_that_goes_on_gives_no_second_effect() {
    // Before the signal is taken, while it is, while the turn goes on; at last while the tool runs.
    let moments = [
        Some(0),
        Some(8),
        Some(16),
        Some(25),
        Some(40),
        Some(90),
        None,
    ];
    // Whoever comes next waits until the lease of the dead process is over, so all of them wait together.
    std::thread::scope(|threads| {
        for kept in BOTH {
            for moment in moments {
                threads.spawn(move || killed_and_decided_again(kept, moment));
            }
        }
    });
}

fn killed_and_decided_again(kept: Kept, moment: Option<u64>) {
    let script = if moment.is_some() {
        "echo ran >> runs\nsleep 0.05\n"
    } else {
        "echo ran >> runs\nsleep 20\n"
    };
    let scene = Scene::new(kept, script, &[]);
    let mut child = scene
        .command(&["signal", &scene.signal, "--approve"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    match moment {
        Some(millis) => std::thread::sleep(Duration::from_millis(millis)),
        None => wait_for_file(&scene.folder.path().join("runs")),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_settled(&scene, &format!("{kept:?} after {moment:?}"));
    if moment.is_none() {
        assert_eq!(scene.effects(), 1, "{kept:?}");
    }
}

/// Decides again as often as one may, and looks that nothing happens twice and no effect is without
/// its record.
fn assert_settled(scene: &Scene, context: &str) {
    for _ in 0..3 {
        let ran = scene.signalled("--approve");
        assert!([0, 3, 4].contains(&ran.status), "{context}: {}", ran.stderr);
    }
    assert!(scene.effects() <= 1, "{context}: {}", scene.effects());
    let allowed = scene
        .recorded()
        .iter()
        .filter(|record| record.0 == "allow")
        .count();
    assert!(
        scene.effects() <= allowed,
        "{context}: an effect without a record"
    );
}

#[test]
fn what_waits_says_what_it_would_do() {
    for kept in BOTH {
        let scene = Scene::new(kept, ONCE, &[]);
        let session = match kept {
            Kept::Session => "s".to_owned(),
            Kept::File => {
                let path = scene.folder.path().canonicalize().unwrap().join("p.md");
                format!("file:{}", path.display())
            }
        };
        let shown = scene.run(&["sessions", "show", &session, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        let call = &shown["suspended"][0]["metadata"]["calls"][0];
        let preview = call["preview"].as_str().unwrap();
        assert!(
            preview.starts_with("Runs in /") && preview.ends_with(":\nsh deploy.sh\n"),
            "{preview}"
        );
        assert_eq!(call["why"]["rule"], "deploy=ask");
        let for_people = scene.run(&["sessions", "show", &session]);
        assert!(
            for_people.stdout.contains("sh deploy.sh"),
            "{}",
            for_people.stdout
        );
    }
    let runs = |folder: &Path| folder.join("runs").exists();
    let scene = Scene::new(Kept::File, ONCE, &[]);
    assert!(!runs(scene.folder.path()));
}

#[test]
fn a_decision_is_listed_only_while_it_can_be_made() {
    for kept in BOTH {
        let scene = Scene::new(kept, ONCE, &[]);
        let list = || scene.run(&["sessions", "list"]).stdout;
        let waits = format!("waits for {}", scene.signal);
        assert!(list().contains(&waits), "{kept:?}: {}", list());
        if kept == Kept::Session {
            continue;
        }
        let continued = scene.run(&["run", "--permission", "deploy=deny", "p.md", "and now?"]);
        assert_eq!(continued.status, 0, "{}", continued.stderr);
        let listed = list();
        assert!(!listed.contains(&waits), "{listed}");
        let reason = format!(
            "{} no longer applies: the conversation continued without it",
            scene.signal
        );
        assert!(listed.contains(&reason), "{listed}");
        let json = scene.run(&["sessions", "list", "--json"]).stdout;
        assert!(!json.contains(&scene.signal), "{json}");
        let refused = scene.run(&["signal", &scene.signal, "--approve"]);
        assert_eq!(refused.status, 3, "{}", refused.stderr);
    }
}
