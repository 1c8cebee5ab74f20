//! The calls of agents: kept beside the transcript and shown by `view --show-hidden`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, logue};

const AGENT: &str = "<tool name=\"read_file\"/>\n<system>You look.</system>\n";
const LOG: &str = ".chatmd/p.md.agents.jsonl";

fn read_call(id: &str) -> Answer {
    Answer::text("I look.").with_call(id, "read_file", "{\"file\":\"secret.txt\"}")
}

fn serve(answers: Vec<Answer>) -> ModelServer {
    let replies = answers.into_iter().map(Reply::Answer);
    ModelServer::start(replies.collect(), Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", server.base_url());
    command.args(arguments).output().unwrap().into()
}

fn files(prompt: &str) -> tempfile::TempDir {
    folder(&[
        ("p.md", prompt),
        ("agent.md", AGENT),
        ("secret.txt", "the key is sk-123456"),
    ])
}

fn shown(ran: &Ran) -> Vec<Value> {
    let lines = ran.stdout.lines();
    let all = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|one| one["agent"].is_string() && one["role"] != "evaluated")
        .collect()
}

#[test]
fn calls_of_agents_are_kept_and_shown() {
    let folder = files(
        "<config model=\"m\"/>\n<tool name=\"helper\" agent=\"agent.md\" local/>\n\
         <user>First <agent src=\"agent.md\" local>look</agent></user>\n",
    );
    let helper = Answer::default().with_call("h1", "helper", "{\"input\":\"again\"}");
    let server = serve(vec![
        read_call("c1"),
        Answer::text("seen"),
        helper,
        read_call("c2"),
        Answer::text("seen again"),
        Answer::text("done"),
    ]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    let transcript = fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert!(!transcript.contains("c1") && !transcript.contains("c2"));
    let view = ["view", "--show-hidden", "--json", "p.md"];
    let kept = shown(&ask(folder.path(), &server, &view));
    let of = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let lines: Vec<_> = kept
        .iter()
        .map(|one| {
            [
                of(one, "role"),
                of(one, "called_by"),
                of(one, "to"),
                of(one, "call_id"),
            ]
            .join(" ")
        })
        .collect();
    assert_eq!(
        lines,
        [
            "assistant   ",
            "assistant  read_file c1",
            "tool   c1",
            "assistant   ",
            "assistant h1  ",
            "assistant h1 read_file c2",
            "tool h1  c2",
            "assistant h1  "
        ]
    );
    assert!(
        of(&kept[2], "content").contains("the key is"),
        "{}",
        kept[2]
    );
    let text = ask(folder.path(), &server, &["view", "--show-hidden", "p.md"]).stdout;
    assert!(text.contains("assistant · commentary · agent agent.md · called_by h1 · to read_file · call_id c2 · hidden from users"), "{text}");
    let plain = ask(folder.path(), &server, &["view", "p.md"]).stdout;
    assert!(!plain.contains("called_by"), "{plain}");
    // The messages of agents are no part of the next request.
    ask(folder.path(), &server, &["run", "p.md", "And?"]);
    let body = server.received().last().unwrap().body.to_string();
    assert!(
        !body.contains("the key is") && body.contains("seen again"),
        "{body}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(folder.path().join(LOG))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // A damaged line is reported, and the others are shown.
    let log = fs::read_to_string(folder.path().join(LOG)).unwrap();
    fs::write(
        folder.path().join(LOG),
        ["{\"agent\":1}\n\0\n", &log].concat(),
    )
    .unwrap();
    let ran = ask(folder.path(), &server, &view);
    assert_eq!(ran.stderr, "note: 2 messages of agents cannot be read\n");
    assert_eq!(shown(&ran).len(), kept.len());
}

#[test]
fn a_refused_turn_and_one_without_a_file_keep_nothing() {
    let folder = files(
        "<config model=\"m\"/>\n<user><agent src=\"agent.md\" local>look</agent>\
         <agent src=\"gone.md\" local>look</agent></user>\n",
    );
    let server = serve(vec![read_call("c1"), Answer::text("seen")]);
    let before = contents(folder.path());
    assert_eq!(ask(folder.path(), &server, &["run", "p.md"]).status, 3);
    assert_eq!(contents(folder.path()), before);
    let prompt = "<config model=\"m\"/>\n<user><agent src=\"agent.md\" local>look</agent></user>\n";
    fs::write(folder.path().join("p.md"), prompt).unwrap();
    let before = contents(folder.path());
    assert_eq!(
        ask(folder.path(), &server, &["run", "--no-save", "p.md"]).status,
        0
    );
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn secrets_of_agents_are_not_kept() {
    let folder =
        files("<config model=\"m\"/>\n<user><agent src=\"agent.md\" local>look</agent></user>\n");
    fs::write(
        folder.path().join("logue.toml"),
        "[redact]\npatterns = [\"sk-[0-9]+\"]\n",
    )
    .unwrap();
    let server = serve(vec![
        read_call("c1"),
        Answer::text("seen"),
        Answer::text("done"),
    ]);
    assert_eq!(ask(folder.path(), &server, &["run", "p.md"]).status, 0);
    let log = fs::read_to_string(folder.path().join(LOG)).unwrap();
    assert!(
        log.contains("the key is [redacted:pattern-1]") && !log.contains("sk-1"),
        "{log}"
    );
}

/// Approves a call of an agent after `prepare` changed the folder.
fn approved(prepare: impl FnOnce(&Path)) -> (tempfile::TempDir, Ran) {
    let folder = files(
        "<config model=\"m\"/>\n<tool name=\"helper\" agent=\"agent.md\" local/>\n<user>go</user>\n",
    );
    let helper = Answer::default().with_call("h1", "helper", "{\"input\":\"again\"}");
    let server = serve(vec![
        helper,
        read_call("c2"),
        Answer::text("seen"),
        Answer::text("done"),
    ]);
    let ran = ask(
        folder.path(),
        &server,
        &["run", "--permission", "helper=ask", "p.md"],
    );
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    assert!(!folder.path().join(LOG).exists());
    let list = ask(folder.path(), &server, &["sessions", "list", "--json"]);
    let waiting: Value = serde_json::from_str(list.stdout.lines().next().unwrap()).unwrap();
    let id = waiting["suspended"][0].as_str().unwrap().to_owned();
    prepare(folder.path());
    let ran = ask(folder.path(), &server, &["signal", &id, "--approve"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    (folder, ran)
}

#[test]
fn calls_after_an_approval_are_kept_too() {
    let (folder, ran) = approved(|_| {});
    let log = fs::read_to_string(folder.path().join(LOG)).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(!ran.stderr.contains("are not kept"), "{}", ran.stderr);
}

#[test]
fn a_line_that_was_cut_damages_no_other() {
    let (folder, _) = approved(|folder| {
        fs::create_dir_all(folder.join(".chatmd")).unwrap();
        fs::write(folder.join(LOG), "{\"agent\":\"a").unwrap();
    });
    let log = fs::read_to_string(folder.path().join(LOG)).unwrap();
    let lines = log.lines().map(serde_json::from_str::<Value>);
    assert_eq!(lines.flatten().count(), 3, "{log}");
}

#[test]
fn a_decision_reports_calls_that_are_not_kept() {
    let (_folder, ran) = approved(|folder| fs::create_dir_all(folder.join(LOG)).unwrap());
    assert!(
        ran.stderr.contains("calls of agents are not kept"),
        "{}",
        ran.stderr
    );
}
