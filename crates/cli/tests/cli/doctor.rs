//! What of a machine a run would stumble over.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, logue, run};

/// The checks of a run with `--json` by the name of each, the last of a name counting.
fn checks(ran: &Ran) -> serde_json::Map<String, Value> {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap().iter();
    checks
        .map(|check| (check["check"].as_str().unwrap().to_owned(), check.clone()))
        .collect()
}

fn serving(replies: &[(u16, &str)]) -> ModelServer {
    let reply = |(status, body): &(u16, &str)| Reply::Status(*status, Vec::new(), body.to_string());
    ModelServer::start(replies.iter().map(reply).collect(), Delivery::Whole).unwrap()
}

fn ask(server: &ModelServer, model: &str) -> Ran {
    let folder = folder(&[]);
    let url = server.base_url();
    run(
        folder.path(),
        ["doctor", "--json", "-m", model, "--base-url", &url],
    )
}

#[test]
fn a_machine_without_anything_is_told_what_it_lacks() {
    let folder = folder(&[]);
    let ran = run(folder.path(), ["doctor"]);
    assert_eq!(ran.status, 8, "{}", ran.stdout);
    for words in [
        "note model     no default model",
        "FAIL key       no key for https://api.openai.com/v1",
        "help: set OPENAI_API_KEY",
        "the first session creates it",
        "problems to fix: 1",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    assert!(contents(folder.path()).is_empty(), "it makes nothing");
}

#[test]
fn a_server_says_what_it_is_and_has() {
    let list = r#"{"object":"list","data":[{"id":"gpt-oss-20b","owned_by":"vllm"}]}"#;
    let server = serving(&[(200, list), (200, r#"{"version":"0.9.1"}"#)]);
    let ran = ask(&server, "gpt-oss-20b");
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let checks = checks(&ran);
    assert_eq!(checks["server"]["software"], "vLLM 0.9.1");
    assert_eq!(checks["server"]["models"], json!(["gpt-oss-20b"]));
    assert_eq!(checks["model"]["standing"], "ok");
    let lines: Vec<String> = server.received().into_iter().map(|got| got.line).collect();
    assert_eq!(
        lines,
        ["GET /v1/models HTTP/1.1", "GET /version HTTP/1.1"],
        "nothing is asked of a model"
    );
}

#[test]
fn a_model_that_the_server_does_not_list_is_told() {
    let list = r#"{"data":[{"id":"llama3:latest","owned_by":"library"}]}"#;
    let version = r#"{"version":"0.5.7"}"#;
    let server = serving(&[(200, list), (200, version)]);
    let ran = ask(&server, "gpt-4o");
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    let found = checks(&ran);
    assert_eq!(found["server"]["software"], "Ollama 0.5.7");
    assert_eq!(found["model"]["standing"], "note");
    assert_eq!(found["model"]["help"], json!(["it lists llama3:latest"]));
    let server = serving(&[(200, list), (200, version)]);
    let found = checks(&ask(&server, "llama3"));
    assert_eq!(found["model"]["standing"], "ok");
}

#[test]
fn a_refused_key_and_a_dead_server_are_to_be_fixed() {
    let refusing = serving(&[(401, r#"{"error":{"message":"no such key"}}"#)]);
    let ran = ask(&refusing, "m");
    assert_eq!(ran.status, 8);
    let found = checks(&ran);
    assert_eq!(found["server"]["category"], "provider_authentication");
    assert!(
        found["server"]["message"]
            .as_str()
            .unwrap()
            .contains("no such key")
    );
    let url = refusing.base_url();
    drop(refusing);
    let folder = folder(&[]);
    let ran = run(folder.path(), ["doctor", "--json", "--base-url", &url]);
    assert_eq!(ran.status, 8);
    assert_eq!(checks(&ran)["server"]["category"], "provider_unavailable");
    let offline = run(
        folder.path(),
        ["doctor", "--json", "--offline", "--base-url", &url],
    );
    assert_eq!(offline.status, 0, "{}", offline.stdout);
}

/// A machine, the arguments that name a model on it, and the verdict of the doctor.
struct Machine {
    replies: Vec<Reply>,
    settings: &'static str,
    model: &'static [&'static str],
    key: Option<&'static str>,
    is_well: bool,
}

#[test]
fn what_the_doctor_calls_well_runs() {
    let list = r#"{"data":[{"id":"m","owned_by":"vllm"}]}"#;
    let reply = |status, body: &str| Reply::Status(status, Vec::new(), body.to_owned());
    // A list and a version for the doctor, then the answer of the run.
    let fine = || {
        vec![
            reply(200, list),
            reply(200, r#"{"version":"0.9.1"}"#),
            Reply::Answer(Answer::text("fine")),
        ]
    };
    let refused = || {
        vec![
            reply(401, r#"{"error":{"message":"wrong key"}}"#),
            reply(401, r#"{"error":{"message":"wrong key"}}"#),
        ]
    };
    let alias = "[models]\nfast = \"quick\"\nquick = \"responses:m\"\nplain = \"openai:m\"\n";
    let machine = |replies, settings, model, key, is_well| Machine {
        replies,
        settings,
        model,
        key,
        is_well,
    };
    let machines = [
        (
            "a listed model",
            machine(fine(), "", &["-m", "m"], Some("sk-0123456789"), true),
        ),
        (
            "a local server without a key",
            machine(fine(), "", &["-m", "m"], None, true),
        ),
        (
            "a model that is not listed",
            machine(fine(), "", &["-m", "other"], None, true),
        ),
        (
            "an alias",
            machine(fine(), alias, &["-m", "plain"], None, true),
        ),
        (
            "a configured model",
            machine(fine(), "[model]\nname = \"m\"\n", &[], None, true),
        ),
        (
            "echo",
            machine(Vec::new(), "", &["-m", "echo:"], None, true),
        ),
        (
            "a wrong key",
            machine(refused(), "", &["-m", "m"], Some("sk-0123456789"), false),
        ),
        (
            "an invalid key",
            machine(refused(), "", &["-m", "m"], Some("sk-0123\n456789"), false),
        ),
        (
            "a circle of aliases",
            machine(
                Vec::new(),
                "[models]\na = \"a\"\n",
                &["-m", "a"],
                None,
                false,
            ),
        ),
        (
            "a missing recording",
            machine(Vec::new(), "", &["-m", "replay:gone"], None, false),
        ),
    ];
    for (name, machine) in machines {
        let folder = folder(&[
            (".config/logue/config.toml", machine.settings),
            ("p.md", "<user>x</user>\n"),
        ]);
        let server = ModelServer::start(machine.replies, Delivery::Whole).unwrap();
        let with = |arguments: &[&str]| -> Ran {
            let mut command = logue(folder.path());
            command.env("OPENAI_BASE_URL", server.base_url());
            command.envs(machine.key.map(|key| ("OPENAI_API_KEY", key)));
            command
                .args(arguments)
                .args(machine.model)
                .output()
                .unwrap()
                .into()
        };
        let doctor = with(&["doctor", "--json"]);
        let expected = if machine.is_well { 0 } else { 8 };
        assert_eq!(doctor.status, expected, "{name}: {}", doctor.stdout);
        let ran = with(&["run", "--no-save", "p.md"]);
        assert_eq!(ran.status == 0, machine.is_well, "{name}: {}", ran.stderr);
    }
}

#[test]
fn a_dead_server_and_a_missing_key_fail_in_doctor_and_run() {
    let server = serving(&[]);
    let url = server.base_url();
    drop(server);
    let folder = folder(&[("p.md", "<user>x</user>\n")]);
    for (arguments, status) in [
        (&["-m", "m", "--base-url", &url][..], 4),
        (&["-m", "gpt-4o"], 3),
        (&["-m", "anthropic:c"], 3),
    ] {
        let doctor = run(folder.path(), ["doctor"].iter().chain(arguments));
        assert_eq!(doctor.status, 8, "{arguments:?}: {}", doctor.stdout);
        let command = ["run", "--no-save", "--retries", "0", "p.md"];
        let ran = run(folder.path(), command.iter().chain(arguments));
        assert_eq!(ran.status, status, "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn the_settings_that_fix_writes_answer_a_question() {
    let list = r#"{"data":[{"id":"embed-x"},{"id":"m","owned_by":"vllm"}]}"#;
    let version = r#"{"version":"0.9.1"}"#;
    let reply = |body: &str| Reply::Status(200, Vec::new(), body.to_owned());
    let replies = vec![
        reply(list),
        reply(version),
        reply(list),
        reply(version),
        Reply::Answer(Answer::text("fine")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let url = server.base_url();
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    let with = |arguments: &[&str]| -> Ran {
        let mut command = logue(folder.path());
        command.env("OLLAMA_HOST", host).args(arguments);
        command.output().unwrap().into()
    };
    let fixed = with(&["doctor", "--fix"]);
    assert_eq!(fixed.status, 0, "{}", fixed.stdout);
    let ran = with(&["ask", "x"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}{}",
        fixed.stdout,
        ran.stderr
    );
    let sent = server.received();
    assert_eq!(sent.last().unwrap().body["model"], "m");
}

#[test]
fn a_key_is_sent_and_never_shown() {
    let echoed = r#"{"error":{"message":"the key sk-very-secret is not known"}}"#;
    let server = serving(&[(401, echoed)]);
    let folder = folder(&[]);
    let ran: Ran = logue(folder.path())
        .args(["doctor", "--base-url", &server.base_url()])
        .env("OPENAI_API_KEY", "sk-very-secret")
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.status, 8, "{}", ran.stdout);
    let sent = server.received();
    let bearer = (
        "authorization".to_owned(),
        "Bearer sk-very-secret".to_owned(),
    );
    assert!(sent[0].headers.contains(&bearer));
    assert!(ran.stdout.contains("the key [secret] is"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("very-secret"), "{}", ran.stdout);
}

#[test]
fn broken_settings_and_a_damaged_store_are_found() {
    let folder = folder(&[
        ("logue.toml", "[model]\nnmae = \"x\"\n"),
        ("damaged.db", "this is no database, however long it may be"),
    ]);
    let ran = run(
        folder.path(),
        [
            "doctor",
            "--json",
            "-m",
            "echo:",
            "--store",
            "sqlite:damaged.db",
        ],
    );
    assert_eq!(ran.status, 8);
    let found = checks(&ran);
    assert_eq!(found["settings"]["standing"], "bad");
    assert!(
        found["settings"]["message"]
            .as_str()
            .unwrap()
            .contains("logue.toml:2:1")
    );
    assert_eq!(found["store"]["standing"], "bad");
}

#[test]
fn a_recording_is_looked_into() {
    let folder = folder(&[("bad.ocml", "nothing of the kind")]);
    let ran = run(folder.path(), ["doctor", "-m", "replay:bad.ocml"]);
    assert_eq!(ran.status, 8, "{}", ran.stdout);
    assert!(
        ran.stdout.contains("FAIL server    the recording bad.ocml"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_password_of_a_store_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let store = "postgres://ana:secret@db.test/logue";
    for format in [&[][..], &["--json"]] {
        let arguments = ["doctor", "--offline", "--store", store];
        let ran = run(folder.path(), arguments.iter().chain(format));
        let shown = format!("{}{}", ran.stdout, ran.stderr);
        assert!(shown.contains("db.test/logue"), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}

#[test]
fn a_base_url_that_no_run_accepts_is_found() {
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n<user>hi</user>\n")]);
    for url in ["foo", "ftp://host/v1", "http://", "//host/v1"] {
        for more in [&["--offline"][..], &[]] {
            let words = ["doctor", "--json", "--base-url", url];
            let ran = run(folder.path(), words.iter().chain(more));
            assert_eq!(ran.status, 8, "{url}: {}", ran.stdout);
            let found = checks(&ran);
            assert_eq!(found["server"]["standing"], "bad", "{url}");
            let message = found["server"]["message"].as_str().unwrap();
            assert!(message.contains("invalid base URL"), "{message}");
        }
        let ran = run(folder.path(), ["run", "--base-url", url, "p.md"]);
        assert_eq!(ran.status, 3, "{url}: {}", ran.stderr);
    }
}

#[test]
fn the_password_of_an_address_is_not_printed() {
    let list = r#"{"data":[{"id":"m","owned_by":"library"}]}"#;
    let server = serving(&[(200, list), (404, ""), (200, list), (404, "")]);
    let url = server.base_url();
    let address = url.replace("http://", "http://ana:hunter2-of-ana@");
    let folder = folder(&[]);
    for arguments in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["doctor", "--offline"],
    ] {
        let mut command = logue(folder.path());
        command
            .env("OPENAI_BASE_URL", &address)
            .env("OPENAI_API_KEY", "sk-0123456789");
        let ran: Ran = command.args(arguments).output().unwrap().into();
        let both = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!both.contains("hunter2"), "{arguments:?}: {both}");
        assert!(both.contains("[redacted]@"), "{arguments:?}: {both}");
    }
}

#[test]
fn the_password_of_an_invalid_address_is_not_printed() {
    let prompt = "<config model=\"m\"/>\n<user>hi</user>\n";
    for address in [
        "htp://ana:hunter2-of-ana@host/v1",
        "http://ana:hunter2-of-ana@ho st/v1",
        "ana:hunter2-of-ana@host/v1",
        "htp://host/v1?key=hunter2-of-ana",
    ] {
        let settings = format!("[model]\nbase_url = \"{address}\"\n");
        let flags = ["--base-url", address];
        for (settings, flags) in [("", &flags[..]), (&settings, &[])] {
            let folder = folder(&[("p.md", prompt), ("logue.toml", settings)]);
            for arguments in [&["run", "p.md"][..], &["doctor"], &["doctor", "--json"]] {
                let ran = run(folder.path(), [arguments, flags].concat());
                let both = format!("{}{}", ran.stdout, ran.stderr);
                assert_ne!(ran.status, 0, "{both}");
                assert!(both.contains("invalid base URL"), "{address}: {both}");
                assert!(!both.contains("hunter2"), "{address} {arguments:?}: {both}");
            }
        }
    }
}

#[test]
fn a_key_that_is_a_common_word_is_not_replaced_in_messages() {
    let body = r#"{"error":{"message":"start ollama first, Bearer ollama"}}"#;
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n<user>hi</user>\n")]);
    let with_key = |server: &ModelServer, key: &str, arguments: &[&str]| -> Ran {
        let mut command = logue(folder.path());
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", key);
        command.args(arguments).output().unwrap().into()
    };
    let server = serving(&[(400, body)]);
    let ran = with_key(&server, "ollama", &["run", "p.md"]);
    assert!(
        ran.stderr.contains("start ollama first, Bearer [secret]"),
        "{}",
        ran.stderr
    );
    let body = r#"{"error":{"message":"no key sk-0123456789"}}"#;
    let server = serving(&[(400, body)]);
    let ran = with_key(&server, "sk-0123456789", &["run", "p.md"]);
    assert!(ran.stderr.contains("no key [secret]"), "{}", ran.stderr);

    for (key, is_noted) in [
        ("ollama", true),
        ("k-12345", true),
        ("sk-0123456789", false),
    ] {
        let server = serving(&[]);
        let ran = with_key(&server, key, &["doctor", "--offline"]);
        let note = "note key";
        assert_eq!(ran.stdout.contains(note), is_noted, "{key}: {}", ran.stdout);
        assert!(!ran.stdout.contains(key), "{}", ran.stdout);
    }
}
