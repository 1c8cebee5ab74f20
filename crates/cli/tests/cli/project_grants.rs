//! A project's `logue.toml` grants nothing until the user trusts its content.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, strict};

const PROMPT: &str = "<config model=\"m\"/>\n<user>hello</user>\n";
const DEPLOY: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";

/// A project in the folder `work` of a user who trusts nothing.
struct Project(TempDir);

impl Project {
    fn new(settings: &str, files: &[(&str, &str)]) -> Self {
        let project = Self(folder(&[("work/.git/HEAD", "")]));
        project.write("logue.toml", settings);
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    fn work(&self) -> std::path::PathBuf {
        self.0.path().join("work").canonicalize().unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn ran(&self, arguments: &[&str]) -> Ran {
        self.with(arguments, &[])
    }

    fn with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = strict(self.0.path());
        command.current_dir(self.work()).args(arguments);
        command.envs(variables.iter().copied());
        command.output().unwrap().into()
    }

    fn trust(&self) -> Ran {
        let ran = self.ran(&["trust", "add", "."]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran
    }

    /// Removes the paths of this test from a report.
    fn shown(&self, text: &str) -> String {
        text.replace(&self.work().display().to_string(), "WORK")
    }
}

fn server(replies: Vec<Answer>) -> ModelServer {
    let replies = replies.into_iter().map(Reply::Answer).collect();
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

/// A model that calls the tool `deploy` once in each turn.
fn deploying() -> ModelServer {
    let call = Answer::text("").with_call("c1", "deploy", "{\"arguments\":[]}");
    server(vec![call, Answer::text("done")])
}

/// Checks that a file was refused with the command that trusts it.
fn refused(ran: &Ran) {
    assert_eq!(ran.status, 3, "{}{}", ran.stdout, ran.stderr);
    let code = "error[E-CONFIG-NOT-TRUSTED]";
    assert!(ran.stderr.starts_with(code), "{}", ran.stderr);
    assert!(ran.stderr.contains("logue trust add /"), "{}", ran.stderr);
}

fn is_done(ran: &Ran) {
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn an_address_receives_nothing_until_the_file_is_trusted() {
    let server = server(vec![Answer::text("hi")]);
    let settings = format!("[model]\nbase_url = \"{}\"\n", server.base_url());
    let project = Project::new(&settings, &[("p.md", PROMPT)]);
    let run = || project.ran(&["run", "--no-save", "p.md"]);
    let ran = run();
    refused(&ran);
    let shown = project
        .shown(&ran.stderr)
        .replace(&server.base_url(), "http://HOST/v1");
    assert!(shown.contains("--> WORK/logue.toml:2:12"), "{shown}");
    assert!(
        shown.contains("sends every conversation to the server http://HOST/v1"),
        "{shown}"
    );
    assert!(shown.contains("^^^^"), "{shown}");
    assert!(server.received().is_empty());
    project.trust();
    is_done(&run());
    assert_eq!(server.received().len(), 1);
    // Another content is not trusted, though it grants the same.
    project.write("logue.toml", &format!("{settings}# more\n"));
    refused(&run());
    assert_eq!(server.received().len(), 1);
    project.write("logue.toml", &settings);
    is_done(&run());
    assert_eq!(project.ran(&["trust", "remove", "."]).status, 0);
    refused(&run());
    is_done(&project.ran(&["run", "--trust", "--no-save", "p.md"]));
    is_done(&project.with(&["run", "--no-save", "p.md"], &[("LOGUE_TRUST", "all")]));
    assert_eq!(server.received().len(), 4);
}

#[test]
fn the_content_is_not_trusted_in_another_folder() {
    let server = server(vec![Answer::text("hi")]);
    let settings = format!("[model]\nbase_url = \"{}\"\n", server.base_url());
    let project = Project::new(&settings, &[("p.md", PROMPT)]);
    project.trust();
    let other = project.0.path().join("other");
    fs::create_dir(&other).unwrap();
    for name in ["logue.toml", "p.md"] {
        fs::copy(project.work().join(name), other.join(name)).unwrap();
    }
    let mut command = strict(project.0.path());
    command
        .current_dir(&other)
        .args(["run", "--no-save", "p.md"]);
    refused(&command.output().unwrap().into());
    assert!(server.received().is_empty());
}

#[test]
fn roots_open_no_file_until_the_file_is_trusted() {
    let server = server(vec![Answer::text("ok")]);
    let prompt = "<config model=\"m\"/>\n<user><doc src=\"../secret/s.txt\" local/></user>\n";
    let project = Project::new("[tools]\nroots = [\"../secret\"]\n", &[("p.md", prompt)]);
    let secret = project.0.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("s.txt"), "MY-SECRET").unwrap();
    let url = server.base_url();
    let run = || project.ran(&["run", "--no-save", "--base-url", &url, "p.md"]);
    refused(&run());
    let sent = || {
        let received = server.received();
        received
            .iter()
            .any(|one| one.body.to_string().contains("MY-SECRET"))
    };
    assert!(!sent());
    // A command that ignores the key does not open the root either.
    project.write(
        "tool.md",
        "<tool name=\"a\" agent=\"../secret/a.md\" local/>\n",
    );
    fs::write(secret.join("a.md"), "<tool name=\"x\" command=\"sh x\"/>\n").unwrap();
    let added = project.ran(&["trust", "add", "tool.md"]);
    assert!(
        added.stdout.contains("nothing to trust"),
        "{}",
        added.stdout
    );
    let added = project.trust();
    let real = secret.canonicalize().unwrap().display().to_string();
    assert!(
        added.stdout.contains(&format!("opens {real} to")),
        "{}",
        added.stdout
    );
    is_done(&run());
    assert!(sent());
}

#[test]
fn a_root_that_becomes_another_folder_ends_trust() {
    let server = server(vec![Answer::text("ok")]);
    let prompt = "<config model=\"m\"/>\n<user><doc src=\"docs/s.txt\" local/></user>\n";
    let project = Project::new("[tools]\nroots = [\"docs\"]\n", &[("p.md", prompt)]);
    let outside = project.0.path().join("outside");
    for (name, text) in [("docs", "SHARED"), ("keys", "MY-SECRET")] {
        fs::create_dir_all(outside.join(name)).unwrap();
        fs::write(outside.join(name).join("s.txt"), text).unwrap();
    }
    let link = project.work().join("docs");
    symlink("../outside/docs", &link).unwrap();
    project.trust();
    let url = server.base_url();
    let run = || project.ran(&["run", "--no-save", "--base-url", &url, "p.md"]);
    is_done(&run());
    assert!(server.received()[0].body.to_string().contains("SHARED"));
    fs::remove_file(&link).unwrap();
    symlink("../outside/keys", &link).unwrap();
    refused(&run());
    assert_eq!(server.received().len(), 1);
}

#[test]
fn a_root_is_not_written_by_commands_until_the_file_is_trusted() {
    let server = deploying();
    let project = Project::new(
        "[tools]\nroots = [\"../other\"]\n",
        &[
            ("p.md", DEPLOY),
            ("deploy.sh", "echo written > ../other/file\n"),
        ],
    );
    let other = project.0.path().join("other");
    fs::create_dir(&other).unwrap();
    let url = server.base_url();
    let arguments = [
        "run",
        "--permission",
        "deploy=allow",
        "--base-url",
        &url,
        "p.md",
        "go",
    ];
    refused(&project.ran(&arguments));
    assert!(!other.join("file").exists());
    assert!(server.received().is_empty());
    project.trust();
    is_done(&project.ran(&arguments));
    assert!(other.join("file").exists());
}

#[test]
fn variables_reach_no_program_until_the_file_is_trusted() {
    let server = deploying();
    let project = Project::new(
        "[tools]\nenvironment = [\"OPENAI_API_KEY\"]\n",
        &[
            ("p.md", DEPLOY),
            ("deploy.sh", "env > seen\n"),
            ("server.sh", "env > seen\n"),
        ],
    );
    let url = server.base_url();
    let run = [
        "run",
        "--permission",
        "deploy=allow",
        "--base-url",
        &url,
        "p.md",
        "go",
    ];
    // The listing starts a server, without the keys that it ignores.
    let list = ["mcp", "list", "stdio:sh server.sh"];
    let seen = |arguments: &[&str]| {
        drop(fs::remove_file(project.work().join("seen")));
        let ran = project.with(arguments, &[("OPENAI_API_KEY", "sk-very-secret")]);
        let seen = fs::read_to_string(project.work().join("seen")).unwrap_or_default();
        (ran, seen.contains("sk-very-secret"), seen.contains("PATH="))
    };
    let (ran, is_sent, is_started) = seen(&run);
    refused(&ran);
    assert!(!is_sent && !is_started);
    let (ran, is_sent, is_started) = seen(&list);
    let warning = "warning[E-CONFIG-NOT-TRUSTED]: `tools.environment`";
    assert!(ran.stderr.starts_with(warning), "{}", ran.stderr);
    assert!(!is_sent && is_started, "{}", ran.stderr);
    project.trust();
    let (ran, is_sent, _) = seen(&list);
    assert!(
        is_sent && !ran.stderr.contains("NOT-TRUSTED"),
        "{}",
        ran.stderr
    );
    let (ran, is_sent, _) = seen(&run);
    is_done(&ran);
    assert!(is_sent);
}

#[test]
fn a_store_of_a_checkout_is_not_used_until_the_file_is_trusted() {
    let server = deploying();
    let url = server.base_url();
    let project = Project::new("", &[("p.md", DEPLOY), ("deploy.sh", "echo ran >> runs\n")]);
    // The author of the checkout has a session that allows every tool.
    let made = [
        "send",
        "--store",
        "sqlite:s.db",
        "--permission",
        "*=allow",
        "--agent",
        "p.md",
    ];
    let made = [&made[..], &["-m", "echo:", "s", "hi"]].concat();
    is_done(&project.ran(&made));
    project.write("logue.toml", "[store]\nurl = \"sqlite:s.db\"\n");
    let rows = || {
        let mut command = logue(project.0.path());
        command.current_dir(project.work());
        let shown = ["sessions", "show", "--json", "--store", "sqlite:s.db", "s"];
        let ran: Ran = command.args(shown).output().unwrap().into();
        is_done(&ran);
        ran.stdout
    };
    let before = rows();
    let send = ["send", "-m", "openai:m", "--base-url", &url, "s", "go"];
    refused(&project.ran(&send));
    for inspects in [&["sessions", "list"][..], &["sessions", "show", "s"]] {
        refused(&project.ran(inspects));
    }
    let runs = project.work().join("runs");
    assert!(!runs.exists() && server.received().is_empty());
    assert_eq!(rows(), before);
    project.trust();
    is_done(&project.ran(&send));
    assert!(runs.exists());
    assert_ne!(rows(), before);
}

#[test]
fn a_checkout_lets_no_session_expire_until_the_file_is_trusted() {
    let project = Project::new("[store]\nttl = \"1s\"\n", &[("p.md", PROMPT)]);
    let send = ["send", "-m", "echo:", "--agent", "p.md", "s", "hi"];
    refused(&project.ran(&send));
    project.trust();
    is_done(&project.ran(&send));
    let shown = project.ran(&["sessions", "show", "--json", "s"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["labels"]["ttl_seconds"], 1, "{shown}");
}

#[test]
fn keys_that_grant_nothing_need_no_trust() {
    let server = server(vec![Answer::text("hi")]);
    let settings = "[model]\nretries = 0\nstream = true\n\
                    [tools]\nroots = [\"docs\"]\nsandbox = \"auto\"\nnetwork = false\ntimeout_seconds = 9\n\
                    max_memory_mib = 512\n[run]\nmax_requests = 50\nmax_total_tokens = 100000\n\
                    [redact]\npatterns = [\"sk-[a-z]{20}\"]\n\
                    [permissions.rules]\n\"*\" = \"ask\"\nread_file = \"allow\"\n";
    let project = Project::new(settings, &[("p.md", PROMPT), ("docs/a", "a")]);
    let url = server.base_url();
    is_done(&project.ran(&["run", "--no-save", "--base-url", &url, "p.md"]));
    assert_eq!(server.received().len(), 1);
    let added = project.trust();
    assert!(added.stdout.contains("grants nothing"), "{}", added.stdout);
    assert_eq!(project.ran(&["trust", "list"]).stdout, "");
}

#[test]
fn limits_are_only_lowered() {
    let requests = |project: &str, own: &str| {
        let call = |id: &str| Answer::text("").with_call(id, "read_file", "{\"file\":\"p.md\"}");
        let server = server(vec![call("a"), call("b"), call("c"), Answer::text("done")]);
        let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>go</user>\n";
        let project = Project::new(project, &[("p.md", prompt)]);
        let home = project.0.path().join(".config/logue");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("config.toml"), own).unwrap();
        let url = server.base_url();
        let ran = project.ran(&["run", "--no-save", "--base-url", &url, "p.md"]);
        (ran, server.received().len())
    };
    let (ran, sent) = requests("[run]\nmax_requests = 50\n", "");
    is_done(&ran);
    assert_eq!(sent, 4);
    let (_, sent) = requests("[run]\nmax_requests = 2\n", "");
    assert_eq!(sent, 2);
    let (_, sent) = requests("[run]\nmax_requests = 40\n", "[run]\nmax_requests = 3\n");
    assert_eq!(sent, 3);
    let (ran, sent) = requests("[mcp]\nmax_output_bytes = 100001\n", "");
    refused(&ran);
    assert_eq!(sent, 0);
}

#[test]
fn every_granting_key_is_refused_where_it_is_written() {
    for (settings, place, effect) in [
        (
            "[model]\nname = \"replay:x\"\n",
            "2:8",
            "answers from the recording x",
        ),
        (
            "[model]\napi_key_env = \"LOGUE_X\"\n",
            "2:15",
            "the variable LOGUE_X",
        ),
        (
            "[model.anthropic]\nbase_url = \"http://x\"\n",
            "2:12",
            "the server http://x",
        ),
        (
            "model = { base_url = \"http://x\" }\n",
            "1:22",
            "the server http://x",
        ),
        (
            "model.base_url = \"http://x\"\n",
            "1:18",
            "the server http://x",
        ),
        ("[tools]\nroots = [\"a\", \"..\"]\n", "2:15", "for writing"),
        (
            "[tools]\nreadable = [\"a\"]\n",
            "2:13",
            "the commands of every prompt read a",
        ),
        (
            "[tools.settings.t]\nwritable = [\"a\"]\n",
            "2:13",
            "the tool `t` read and write a",
        ),
        (
            "[tools]\nmax_memory_mib = 9000\n",
            "2:18",
            "from 4096 to 9000",
        ),
        (
            "[network]\nallowed_hosts = [\"x.org\"]\n",
            "2:18",
            "opens the host x.org",
        ),
        (
            "[browser]\nsearch = \"https://x.org/?q={query}\"\n",
            "2:10",
            "sends searches to",
        ),
        (
            "[store]\nurl = \"sqlite:x.db\"\n",
            "2:7",
            "keeps sessions in sqlite:x.db",
        ),
        (
            "[store]\nttl = \"1s\"\n",
            "2:7",
            "lets `logue sessions prune` remove sessions that `logue send` uses, 1s after",
        ),
        (
            "[mcp.servers.\"https://x/\".headers]\nA = \"b\"\n",
            "2:5",
            "the header `A: b`",
        ),
        (
            "[mcp.servers.x]\nbearer_env = \"LOGUE_T\"\n",
            "2:14",
            "LOGUE_T to the MCP server x",
        ),
        (
            "[prices.m]\ninput_per_mtok = 0\noutput_per_mtok = 0\n",
            "2:18",
            "a price of the model m",
        ),
    ] {
        let project = Project::new(settings, &[("p.md", PROMPT), ("a/b", "")]);
        let ran = project.ran(&["run", "--no-save", "-m", "echo:", "p.md"]);
        refused(&ran);
        assert!(
            ran.stderr.contains(&format!("logue.toml:{place}\n")),
            "{settings}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains(effect), "{settings}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
        project.trust();
        is_done(&project.ran(&["run", "--no-save", "-m", "echo:", "p.md"]));
    }
}

#[test]
fn trust_lists_grants_and_what_changed() {
    let before = "[model]\nbase_url = \"http://one/v1\"\n[tools]\nenvironment = [\"A\", \"B\"]\n";
    let project = Project::new(before, &[]);
    let added = project.ran(&["trust", "add", "logue.toml"]);
    assert_snapshot!(project.shown(&added.stdout), @r"
    WORK is trusted. Its logue.toml grants:
      - model.base_url: sends every conversation to the server http://one/v1
      - tools.environment: gives the variable A to commands and to MCP servers
      - tools.environment: gives the variable B to commands and to MCP servers
    ");
    let after = "[model]\nbase_url = \"http://two/v1\"\n[tools]\nenvironment = [\"A\", \"B\"]\n";
    project.write("logue.toml", after);
    let ran = project.ran(&["run", "--no-save", "-m", "echo:", "x.md"]);
    assert!(
        ran.stderr.contains("has changed since you trusted it"),
        "{}",
        ran.stderr
    );
    let json = project.ran(&["trust", "list", "--json"]);
    let listed: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(listed["folder"], project.work().display().to_string());
    assert_eq!(listed["grants"].as_array().unwrap().len(), 3);
    let why = project.ran(&["trust", "explain", "."]);
    assert_snapshot!(project.shown(&why.stdout), @r"
    WORK: not trusted: its logue.toml, or a directory that it names, has changed since you trusted it
      - model.base_url: sends every conversation to the server http://two/v1
      - tools.environment: gives the variable A to commands and to MCP servers
      - tools.environment: gives the variable B to commands and to MCP servers
    Changed since it was trusted (- before, + now):
      - model.base_url: sends every conversation to the server http://one/v1
      + model.base_url: sends every conversation to the server http://two/v1
      ~ file changed: logue.toml
    Run `logue trust add WORK` to trust it as it is now.
    ");
    let added = project.trust();
    assert_snapshot!(project.shown(&added.stdout), @r"
    WORK is trusted. Its logue.toml grants:
      - model.base_url: sends every conversation to the server http://two/v1
      - tools.environment: gives the variable A to commands and to MCP servers
      - tools.environment: gives the variable B to commands and to MCP servers
    Changed since it was trusted (- before, + now):
      - model.base_url: sends every conversation to the server http://one/v1
      + model.base_url: sends every conversation to the server http://two/v1
      ~ file changed: logue.toml
    ");
    project.write("logue.toml", before);
    let json = project.ran(&["trust", "add", "--json", "."]);
    let added: Value = serde_json::from_str(&json.stdout).unwrap();
    let line = |server: &str| {
        format!("model.base_url: sends every conversation to the server http://{server}/v1")
    };
    let changes = json!([
        {"change": "removed", "declares": line("two")},
        {"change": "added", "declares": line("one")},
        {"change": "file_changed", "path": "logue.toml"},
    ]);
    assert_eq!(added["changes"], changes);
    let content = added["content"].as_str().unwrap();
    let removed = project.ran(&["trust", "remove", content]);
    is_done(&removed);
    assert_eq!(project.ran(&["trust", "remove", "."]).status, 3);
    assert_eq!(project.ran(&["trust", "add", "/"]).status, 3);
}

#[test]
fn the_trust_of_a_folder_is_explained() {
    let settings = "[tools]\nenvironment = [\"A\"]\n";
    let project = Project::new(settings, &[]);
    let explained = |variables: &[(&str, &str)]| {
        let ran = project.with(&["trust", "explain", "--json", "."], variables);
        is_done(&ran);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let reason = |why: &Value| (why["trusted"].clone(), why["reason"].clone());
    let is = |trusted: bool, code: &str| (json!(trusted), json!(code));
    let why = explained(&[]);
    assert_eq!(reason(&why), is(false, "unknown"), "{why}");
    assert_eq!(why["grants"].as_array().unwrap().len(), 1);
    assert_eq!(why["folder"], project.work().display().to_string());
    assert_eq!(
        reason(&explained(&[("LOGUE_TRUST", "all")])),
        is(true, "everything")
    );
    // Explaining trusts nothing.
    assert_eq!(project.ran(&["trust", "list"]).stdout, "");
    project.trust();
    let why = explained(&[]);
    assert_eq!(reason(&why), is(true, "added"), "{why}");
    assert_eq!(why["changes"], json!([]));
    project.write("logue.toml", &format!("{settings} "));
    let why = explained(&[]);
    assert_eq!(reason(&why), is(false, "changed"), "{why}");
    assert_eq!(
        why["changes"],
        json!([{"change": "file_changed", "path": "logue.toml"}])
    );
    project.write("logue.toml", "[tools]\nnetwork = false\n");
    let why = explained(&[]);
    assert_eq!(reason(&why), is(true, "grants_nothing"), "{why}");
    project.write("logue.toml", "[tools]\nnetwork = 3\n");
    let ran = project.ran(&["trust", "explain", "."]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    fs::remove_file(project.work().join("logue.toml")).unwrap();
    let ran = project.ran(&["trust", "explain", "."]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let text = "there is nothing here that needs trust, as it has no logue.toml";
    assert!(ran.stdout.contains(text), "{}", ran.stdout);
}

#[test]
fn commands_that_inspect_are_not_blocked() {
    let settings = "[model]\nbase_url = \"http://127.0.0.1:1/v1\"\n[run]\nmax_requests = 9\n";
    let project = Project::new(settings, &[("p.md", PROMPT)]);
    for arguments in [
        &["check", "p.md"][..],
        &["fmt", "p.md"],
        &["view", "p.md"],
        &["convert", "p.md", "--to", "chatmd"],
        &["scan", "p.md"],
        &["tokens", "count", "p.md"],
        &["trust", "list"],
        &["trust", "add", "p.md"],
    ] {
        let ran = project.ran(arguments);
        assert!(
            !ran.stderr.contains("NOT-TRUSTED"),
            "{arguments:?}: {}",
            ran.stderr
        );
        assert!(matches!(ran.status, 0 | 8), "{arguments:?}: {}", ran.stderr);
    }
    let doctor = || {
        let ran = project.ran(&["doctor", "--offline", "--json"]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap().clone();
        let of = |code: &Value| code == "E-CONFIG-NOT-TRUSTED";
        let is_found = checks
            .iter()
            .any(|check| of(&check["code"]) && check["standing"] == "bad");
        (is_found, ran.stdout)
    };
    let (is_found, stdout) = doctor();
    // The server that a run without the key would use is the default one.
    assert!(is_found && stdout.contains("api.openai.com"), "{stdout}");
    project.trust();
    let (is_found, stdout) = doctor();
    assert!(!is_found && !stdout.contains("api.openai.com"), "{stdout}");
}

#[test]
fn hidden_characters_of_a_file_are_shown() {
    let settings = "[mcp.servers.\"x\\u001b[2K\\u202e\".headers]\n\"a\\u200b\" = \"b\\u001b\"\n";
    let project = Project::new(settings, &[("p.md", PROMPT)]);
    let ran = project.ran(&["run", "--no-save", "-m", "echo:", "p.md"]);
    refused(&ran);
    let added = project.trust();
    let listed = project.ran(&["trust", "list"]);
    for text in [ran.stderr, added.stdout, listed.stdout] {
        let drives = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{200b}".contains(c);
        assert!(!text.contains(drives), "{text:?}");
    }
}

#[test]
fn a_damaged_list_stops_only_files_that_grant() {
    let project = Project::new("[run]\nmax_requests = 9\n", &[("p.md", PROMPT)]);
    let data = project.0.path().join(".data/logue");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("trust.json"), "{").unwrap();
    let run = || project.ran(&["run", "--no-save", "-m", "echo:", "p.md"]);
    is_done(&run());
    project.write("logue.toml", "[store]\nurl = \"sqlite:x.db\"\n");
    let ran = run();
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.contains("error[trust_unavailable]"),
        "{}",
        ran.stderr
    );
    assert!(!Path::new(&project.work().join("x.db")).exists());
}
