//! A prompt from elsewhere grants itself nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, strict};
use crate::screen::Screen;

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n\
                      <tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";
const DEPLOY: &str = "echo ran >> runs\n";

fn prepared() -> tempfile::TempDir {
    folder(&[
        ("p.md", PROMPT),
        ("deploy.sh", DEPLOY),
        ("a.txt", "content of a\n"),
    ])
}

/// A model that calls `deploy` once.
fn server() -> ModelServer {
    let call = Answer::text("").with_call("c1", "deploy", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn run(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = strict(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

fn trust(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = strict(folder);
    command
        .arg("trust")
        .args(arguments)
        .output()
        .unwrap()
        .into()
}

fn effects(folder: &Path) -> usize {
    let runs = std::fs::read_to_string(folder.join("runs"));
    runs.unwrap_or_default().lines().count()
}

/// Runs the prompt, which calls `deploy`; whether it was run.
fn runs(folder: &Path) -> bool {
    let before = effects(folder);
    let ran = run(folder, &server(), &["run", "p.md", "go"]);
    let has_run = effects(folder) > before;
    assert_eq!(ran.status, if has_run { 0 } else { 6 }, "{}", ran.stderr);
    has_run
}

#[test]
fn an_unknown_prompt_reads_and_asks_for_the_rest() {
    let folder = prepared();
    let both = Answer::text("")
        .with_call("c1", "read_file", "{\"file\":\"a.txt\"}")
        .with_call("c2", "deploy", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(both), Reply::Answer(Answer::text("done"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let ran = run(folder.path(), &server, &["run", "p.md", "go"]);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("warning[prompt_not_trusted]"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("sh deploy.sh"), "{}", ran.stderr);
    let line = ran
        .stderr
        .lines()
        .find(|line| line.contains("logue signal"));
    let signal = line.unwrap().split_whitespace().nth(2).unwrap();
    let ran = run(folder.path(), &server, &["signal", signal, "--approve"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(effects(folder.path()), 1);
    let last = server.received().last().unwrap().body["messages"].to_string();
    assert!(last.contains("content of a"), "{last}");
}

#[test]
fn a_decision_reports_what_was_denied_and_warns_of_nothing() {
    for (flag, stderr, effect) in [
        ("--deny", "denied: the call of deploy was not run\n", 0),
        ("--approve", "", 1),
    ] {
        let (folder, server) = (prepared(), server());
        let ran = run(folder.path(), &server, &["run", "p.md", "go"]);
        assert_eq!(ran.status, 6, "{}", ran.stderr);
        // The name of the tool precedes the preview.
        assert!(
            ran.stderr.contains("\ndeploy:\n  │ Runs in "),
            "{}",
            ran.stderr
        );
        let line = ran
            .stderr
            .lines()
            .find(|line| line.contains("logue signal"));
        let signal = line.unwrap().split_whitespace().nth(2).unwrap();
        let ran = run(folder.path(), &server, &["signal", signal, flag]);
        assert_eq!(
            (ran.status, ran.stdout.as_str(), ran.stderr.as_str()),
            (0, "done\n", stderr)
        );
        assert_eq!(effects(folder.path()), effect);
    }
}

#[test]
fn a_decision_at_a_terminal_asks_about_no_trust() {
    for (flag, effect) in [("--deny", 0), ("--approve", 1)] {
        let (folder, server) = (prepared(), server());
        let ran = run(folder.path(), &server, &["run", "p.md", "go"]);
        let line = ran
            .stderr
            .lines()
            .find(|line| line.contains("logue signal"));
        let signal = line.unwrap().split_whitespace().nth(2).unwrap();
        let mut command = strict(folder.path());
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .args(["signal", signal, flag]);
        let (status, text) = Screen::start(&mut command).end();
        assert_eq!(status, 0, "{text}");
        assert!(!text.contains("rust"), "{text}");
        assert_eq!(
            text.contains("✗ deploy {\"arguments\":[]} · denied"),
            effect == 0,
            "{text}"
        );
        assert_eq!(effects(folder.path()), effect);
    }
}

#[test]
fn a_question_with_a_fork_warns_of_nothing() {
    let server = || {
        let replies = vec![Reply::Answer(Answer::text("hi"))];
        ModelServer::start(replies, Delivery::Whole).unwrap()
    };
    let arguments = ["ask", "-m", "m", "--tool", "fork", "hello"];
    let (folder, model) = (folder(&[]), server());
    let ran = run(folder.path(), &model, &arguments);
    assert_eq!(
        (ran.status, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "hi\n", "")
    );
    let model = server();
    let mut command = strict(folder.path());
    command
        .env("OPENAI_BASE_URL", model.base_url())
        .args(arguments);
    let (status, text) = Screen::start(&mut command).end();
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("hi\n"), "{text}");
}

#[test]
fn a_turn_that_has_nowhere_to_wait_is_refused_before_anything_happens() {
    let folder = prepared();
    let server = server();
    for arguments in [&["run", "--no-save", "p.md", "go"][..], &["run", "-", "go"]] {
        let mut command = strict(folder.path());
        let prompt = std::fs::File::open(folder.path().join("p.md")).unwrap();
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .stdin(Stdio::from(prompt))
            .args(arguments);
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("error[prompt_not_trusted]"),
            "{}",
            ran.stderr
        );
    }
    assert!(server.received().is_empty());
    assert_eq!(effects(folder.path()), 0);
}

#[test]
fn flags_the_environment_and_own_folders_grant() {
    let no_write = ["run", "--no-save", "p.md", "go"];
    let granted = |name: &str, more: &[&str], variable: Option<&str>, config: Option<&str>| {
        let folder = prepared();
        if let Some(config) = config {
            let place = folder.path().join(".config/logue");
            std::fs::create_dir_all(&place).unwrap();
            let own = folder.path().canonicalize().unwrap();
            let config = config.replace("HERE", &own.display().to_string());
            std::fs::write(place.join("config.toml"), config).unwrap();
        }
        let server = server();
        let mut command = strict(folder.path());
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .args([&no_write, more].concat());
        if let Some(value) = variable {
            command.env("LOGUE_TRUST", value);
        }
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(
            effects(folder.path()) == 1,
            ran.status == 0,
            "{name}: {}",
            ran.stderr
        );
        ran.status == 0
    };
    assert!(granted("flag", &["--trust"], None, None));
    assert!(granted("rule", &["--permission", "dep*=allow"], None, None));
    assert!(granted("environment", &[], Some("all"), None));
    assert!(!granted("another word", &[], Some("none"), None));
    assert!(granted(
        "folder",
        &[],
        None,
        Some("[trust]\ndirectories = [\"HERE\"]\n")
    ));
    assert!(granted(
        "home",
        &[],
        None,
        Some("[trust]\ndirectories = [\"~/\"]\n")
    ));
    assert!(!granted(
        "another folder",
        &[],
        None,
        Some("[trust]\ndirectories = [\"HERE/x\"]\n")
    ));
    assert!(granted(
        "own rule",
        &[],
        None,
        Some("[permissions.rules]\ndeploy = \"allow\"\n")
    ));
    assert!(!granted(
        "own prohibition",
        &["--trust"],
        None,
        Some("[permissions.rules]\n\"*\" = \"ask\"\n")
    ));
}

#[test]
fn a_project_can_only_make_things_stricter() {
    let with = |text: &str| {
        let folder = prepared();
        std::fs::write(folder.path().join("logue.toml"), text).unwrap();
        folder
    };
    let lax = with("[permissions.rules]\n\"*\" = \"allow\"\n");
    assert!(!runs(lax.path()), "a checkout trusts itself");
    assert_eq!(trust(lax.path(), &["add", "p.md"]).status, 0);
    assert!(runs(lax.path()));

    let strict = with("[permissions.rules]\ndeploy = \"deny\"\n\"dep*\" = \"allow\"\n");
    let server = server();
    let ran = run(strict.path(), &server, &["run", "--trust", "p.md", "go"]);
    assert_eq!(
        (ran.status, effects(strict.path())),
        (0, 0),
        "{}",
        ran.stderr
    );
    let messages = server.received().last().unwrap().body["messages"].to_string();
    assert!(messages.contains("tool_not_permitted"), "{messages}");

    for wrong in [
        "[trust]\ndirectories = [\"/\"]\n",
        "[permissions.rules]\ndeploy = \"maybe\"\n",
        "[permissions.rules]\ndeploy = 3\n",
        "[permissions]\napproval_timeout_seconds = 0\n",
    ] {
        let folder = with(wrong);
        let ran = run(folder.path(), &server, &["run", "p.md", "go"]);
        assert_eq!(ran.status, 3, "{wrong}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("E-CONFIG-INVALID"),
            "{wrong}: {}",
            ran.stderr
        );
    }
}

#[test]
fn what_is_trusted_is_what_is_declared() {
    let folder = prepared();
    let path = folder.path().join("p.md");
    let edit = |from: &str, to: &str| {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    assert!(!runs(folder.path()));
    let trusted = trust(folder.path(), &["add", "p.md"]);
    assert_eq!(trusted.status, 0, "{}", trusted.stderr);
    assert!(
        trusted.stdout.contains(" runs: sh deploy.sh …"),
        "{}",
        trusted.stdout
    );
    assert!(runs(folder.path()), "it was trusted");
    assert!(runs(folder.path()), "its conversation grew");
    edit(
        "<config model=\"m\"/>",
        "<config model=\"m\" temperature=\"0\"/>\n<tool name=\"read_dir\"/>",
    );
    assert!(runs(folder.path()), "what it declares grants nothing more");
    edit("sh deploy.sh", "sh  ./deploy.sh");
    assert!(!runs(folder.path()), "the command changed");
    edit("sh  ./deploy.sh", "sh deploy.sh");
    assert!(runs(folder.path()), "it is what it was");
    edit("<tool name=\"read_dir\"/>", "<tool name=\"apply_patch\"/>");
    assert!(!runs(folder.path()), "it declares more");
    assert_eq!(trust(folder.path(), &["add", "p.md"]).status, 0);
    assert!(runs(folder.path()));
    edit("<tool name=\"apply_patch\"/>", "");
    assert!(
        !runs(folder.path()),
        "what it was before is not trusted any more"
    );
}

#[test]
fn the_same_words_elsewhere_are_other_commands() {
    let folder = prepared();
    assert_eq!(trust(folder.path(), &["add", "p.md"]).status, 0);
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(folder.path().join("p.md"), other.join("p.md")).unwrap();
    std::fs::write(other.join("deploy.sh"), "echo evil >> ../evil\n").unwrap();
    let ran = run(folder.path(), &server(), &["run", "other/p.md", "go"]);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    assert!(!folder.path().join("evil").exists());
}

#[test]
fn imports_and_agents_are_part_of_what_is_trusted() {
    let prompt = "<config model=\"m\"/>\n<import src=\"tools.chatmd\"/>\n<user>\n\
                  <agent src=\"agents/a.md\" local>Do it.</agent>\n</user>\n";
    let agent = |command: &str| {
        format!("<config model=\"m\"/>\n<tool name=\"act\" command=\"{command}\"/>\n")
    };
    let folder = folder(&[
        ("p.md", prompt),
        (
            "tools.chatmd",
            "<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n",
        ),
        ("deploy.sh", DEPLOY),
        ("agents/a.md", &agent("sh act.sh")),
        ("agents/act.sh", "echo acted >> ../acts\n"),
    ]);
    let acts = || std::fs::read_to_string(folder.path().join("acts")).unwrap_or_default();
    let asked = || {
        let call = Answer::text("").with_call("c1", "act", "{\"arguments\":[]}");
        let replies = [Reply::Answer(call)].into_iter();
        let answers = (0..3).map(|_| Reply::Answer(Answer::text("said")));
        let server = ModelServer::start(replies.chain(answers).collect(), Delivery::Whole).unwrap();
        let ran = run(
            folder.path(),
            &server,
            &["run", "--no-cache", "-o", "t.md", "p.md", "go"],
        );
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let shown = ["sessions", "show", "t.md", "--audit", "--json"];
        let audit = run(folder.path(), &server, &shown).stdout;
        std::fs::remove_file(folder.path().join("t.md")).unwrap();
        let second = server.received()[1].body["messages"].to_string();
        (acts().lines().count(), second, audit)
    };
    let (count, result, audit) = asked();
    assert_eq!(count, 0, "an agent of an unknown prompt acts");
    assert!(
        result.contains("not trusted, and approval is unavailable while an agent runs"),
        "{result}"
    );
    let audit: serde_json::Value = serde_json::from_str(&audit).unwrap();
    let record = &audit["audit"][0];
    assert_eq!(record["by"]["kind"], "unattended", "{audit}");
    assert_eq!(record["by"]["why"]["kind"], "not_trusted", "{audit}");
    assert!(
        record["agent"].as_str().unwrap().ends_with("agents/a.md"),
        "{audit}"
    );
    let trusted = trust(folder.path(), &["add", "p.md"]);
    assert!(trusted.stdout.contains("sh act.sh") && trusted.stdout.contains("sh deploy.sh"));
    assert_eq!(asked().0, 1, "{}", trusted.stdout);
    std::fs::write(folder.path().join("agents/a.md"), agent("sh ./act.sh")).unwrap();
    assert_eq!(asked().0, 1, "the agent declares something else");
    std::fs::write(folder.path().join("agents/a.md"), agent("sh act.sh")).unwrap();
    assert_eq!(asked().0, 2);
    std::fs::write(
        folder.path().join("tools.chatmd"),
        "<tool name=\"deploy\" command=\"ls\"/>\n",
    )
    .unwrap();
    assert_eq!(asked().0, 2, "an import declares something else");
}

#[test]
fn sessions_ask_as_files_do() {
    let folder = prepared();
    let sent = run(
        folder.path(),
        &server(),
        &["send", "--agent", "p.md", "s", "go"],
    );
    assert_eq!(
        (sent.status, effects(folder.path())),
        (6, 0),
        "{}",
        sent.stderr
    );
    let trusted = run(
        folder.path(),
        &server(),
        &["send", "--trust", "--agent", "p.md", "t", "go"],
    );
    assert_eq!(
        (trusted.status, effects(folder.path())),
        (0, 1),
        "{}",
        trusted.stderr
    );
}

#[test]
fn trust_is_listed_taken_back_and_private() {
    let folder = prepared();
    std::fs::write(
        folder.path().join("harmless.md"),
        "<tool name=\"read_file\"/>\n",
    )
    .unwrap();
    let nothing = trust(folder.path(), &["add", "harmless.md"]);
    assert!(
        nothing.stdout.contains("nothing to trust"),
        "{}",
        nothing.stdout
    );
    assert_eq!(trust(folder.path(), &["list"]).stdout, "");
    assert_eq!(trust(folder.path(), &["add", "missing.md"]).status, 3);
    assert_eq!(trust(folder.path(), &["add"]).status, 2);

    assert_eq!(trust(folder.path(), &["add", "p.md"]).status, 0);
    let file = folder.path().join(".data/logue/trust.json");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    let listed = trust(folder.path(), &["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let grant = listed["grant"].as_str().unwrap();
    assert!(listed["path"].as_str().unwrap().ends_with("/p.md"));

    assert_eq!(trust(folder.path(), &["remove", "p.md"]).status, 0);
    assert!(!runs(folder.path()));
    assert_eq!(trust(folder.path(), &["remove", "p.md"]).status, 3);
    assert_eq!(trust(folder.path(), &["add", "p.md"]).status, 0);
    assert_eq!(trust(folder.path(), &["remove", grant]).status, 0);
    assert!(!runs(folder.path()));

    std::fs::write(&file, "{\"version\": 1, \"prompts\": [").unwrap();
    let damaged = run(folder.path(), &server(), &["run", "p.md", "go"]);
    assert_eq!(damaged.status, 3, "{}", damaged.stderr);
    assert!(
        damaged.stderr.contains("error[trust_unavailable]"),
        "{}",
        damaged.stderr
    );
    assert_eq!(trust(folder.path(), &["add", "p.md"]).status, 3);
    assert_eq!(effects(folder.path()), 0);
}

#[test]
fn processes_that_trust_at_the_same_time_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..12).map(|number| format!("p{number}.md")).collect();
    for name in &names {
        let text = format!("<tool name=\"x\" command=\"echo {name}\"/>\n");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let running: Vec<_> = names
        .iter()
        .map(|name| {
            strict(folder.path())
                .args(["trust", "add", name])
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    let listed = trust(folder.path(), &["list", "--json"]);
    assert_eq!(
        listed.stdout.lines().count(),
        names.len(),
        "{}",
        listed.stdout
    );
}

#[test]
fn what_is_not_a_prompt_is_said_to_be_none() {
    let folder = prepared();
    let ran = trust(folder.path(), &["add", "deploy.sh"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for part in ["it is not a prompt", "ChatMD file", "logue.toml"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    std::fs::write(folder.path().join("q.md"), "<user>q</user>\n").unwrap();
    let ran = trust(folder.path(), &["add", "q.md"]);
    assert!(ran.stdout.contains("it only reads"), "{}", ran.stdout);
}

#[test]
fn a_directory_without_settings_needs_no_trust() {
    let folder = prepared();
    let ran = trust(folder.path(), &["explain", "."]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let words = "there is nothing here that needs trust, as it has no logue.toml";
    assert!(ran.stdout.contains(words), "{}", ran.stdout);
    let ran = trust(folder.path(), &["explain", "--json", "."]);
    let line: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (line["reason"].as_str(), ran.status),
        (Some("grants_nothing"), 0)
    );
    assert_eq!(
        trust(folder.path(), &["explain", "gone/logue.toml"]).status,
        3
    );
}

#[test]
fn trusted_directories_are_listed() {
    let folder = prepared();
    let ran = trust(folder.path(), &["list"]);
    assert!(
        ran.stderr.contains("no prompt and no directory is trusted"),
        "{}",
        ran.stderr
    );
    let settings = folder.path().join(".config/logue");
    std::fs::create_dir_all(&settings).unwrap();
    let text = "[trust]\ndirectories = [\"~/prompts\"]\n";
    std::fs::write(settings.join("config.toml"), text).unwrap();
    let ran = trust(folder.path(), &["list"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert!(ran.stdout.contains("/prompts\n"), "{}", ran.stdout);
    let ran = trust(folder.path(), &["list", "--json"]);
    assert!(ran.stdout.contains("\"own_directory\""), "{}", ran.stdout);
}

#[test]
fn a_command_without_covered_files_is_named() {
    let text = "<config model=\"m\"/>\n<tool name=\"a\" command=\"sh -c 'echo b'\"/>\n\
                <tool name=\"c\" command=\"sh deploy.sh\"/>\n<tool name=\"d\" command=\"make\"/>\n";
    let folder = prepared();
    std::fs::write(folder.path().join("p.md"), text).unwrap();
    for verb in ["explain", "add", "explain"] {
        let ran = trust(folder.path(), &[verb, "p.md"]);
        let lines = ran.stdout.lines();
        let named: Vec<&str> = lines
            .filter_map(|line| {
                line.strip_prefix("No file of this command is covered, only its words: ")
            })
            .collect();
        assert_eq!(named, ["make", "sh -c 'echo b'"], "{}", ran.stdout);
    }
}
