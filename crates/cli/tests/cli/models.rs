//! The list of models, aliases, and the first settings.

use std::io::Write as _;

use serde_json::{Value, json};
use testkit::{Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, logue, run};

const LIST: &str = r#"{"data":[{"id":"gpt-oss-20b","owned_by":"vllm","max_model_len":131072},{"id":"replay:odd"}]}"#;
const VERSION: &str = r#"{"version":"0.9.1"}"#;

/// A server that answers each list with its version.
fn listing(times: usize) -> ModelServer {
    let reply = |body: &str| Reply::Status(200, Vec::new(), body.to_owned());
    let replies = (0..times).flat_map(|_| [reply(LIST), reply(VERSION)]);
    ModelServer::start(replies.collect(), Delivery::Whole).unwrap()
}

/// The host and port of a server.
fn host(server: &ModelServer) -> String {
    let url = server.base_url();
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    host.to_owned()
}

#[test]
fn models_are_listed_with_their_context_and_the_name_that_runs() {
    let server = listing(2);
    let folder = folder(&[(
        ".config/logue/config.toml",
        "[models]\nfast = \"openai:gpt-4o-mini\"\n",
    )]);
    let url = server.base_url();
    let ran = run(folder.path(), ["models", "--base-url", &url, "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let listed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(listed["aliases"], json!({"fast": "openai:gpt-4o-mini"}));
    assert_eq!(listed["servers"][0]["software"], "vLLM 0.9.1");
    assert_eq!(
        listed["servers"][0]["models"],
        json!([
            {"model": "gpt-oss-20b", "context_tokens": 131_072},
            {"model": "openai:replay:odd", "context_tokens": null},
        ])
    );
    let ran = run(folder.path(), ["models", "--base-url", &url, "OSS", "20b"]);
    assert!(
        ran.stdout.contains("gpt-oss-20b   131072  http"),
        "{}",
        ran.stdout
    );
    assert!(
        !ran.stdout.contains("odd") && !ran.stdout.contains("fast"),
        "{}",
        ran.stdout
    );
}

#[test]
fn an_alias_is_the_model_and_the_server_that_it_names() {
    let server = ModelServer::start(
        vec![
            Reply::Status(400, Vec::new(), r#"{"error":{"message":"one"}}"#.to_owned()),
            Reply::Status(400, Vec::new(), r#"{"error":{"message":"two"}}"#.to_owned()),
        ],
        Delivery::Whole,
    )
    .unwrap();
    let settings = format!(
        "[model]\nbase_url = \"{}\"\n[models]\nfast = \"responses:mini\"\nwork = \"openai:\"\n",
        server.base_url()
    );
    let folder = folder(&[
        (".config/logue/config.toml", &settings),
        ("p.md", "<config model=\"fast\"/>\n<user>x</user>\n"),
    ]);
    run(folder.path(), ["run", "p.md", "--no-save"]);
    run(folder.path(), ["ask", "-m", "work:big", "x"]);
    let sent = server.received();
    assert!(
        sent[0].line.starts_with("POST /v1/responses "),
        "{}",
        sent[0].line
    );
    assert_eq!(sent[0].body["model"], "mini");
    assert!(sent[1].line.starts_with("POST /v1/chat/completions "));
    assert_eq!(sent[1].body["model"], "big");
}

#[test]
fn a_checkout_cannot_define_aliases() {
    let folder = folder(&[("logue.toml", "[models]\ngpt-4o = \"anthropic:x\"\n")]);
    let ran = run(folder.path(), ["ask", "-m", "gpt-4o", "x"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("logue.toml:2:10"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("only your own logue/config.toml"),
        "{}",
        ran.stderr
    );
    for (text, words) in [
        ("replay = \"openai:x\"", "it is the name of a provider"),
        ("\"a:b\" = \"openai:x\"", "expected a name without `:`"),
        ("a = \"\"", "expected a model such as"),
    ] {
        let own = folder_with_settings(&format!("[models]\n{text}\n"));
        let ran = run(own.path(), ["ask", "-m", "echo:", "x"]);
        assert_eq!(ran.status, 3, "{text}");
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn an_alias_of_an_alias_is_its_model_and_a_circle_is_refused() {
    let server = ModelServer::start(
        vec![Reply::Status(400, Vec::new(), "{}".to_owned())],
        Delivery::Whole,
    )
    .unwrap();
    let chain = "[models]\ndaily = \"fast\"\nfast = \"work:mini\"\nwork = \"responses:\"\n";
    let own = folder_with_settings(chain);
    logue(own.path())
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["ask", "-m", "daily", "x"])
        .output()
        .unwrap();
    let sent = server.received();
    assert!(
        sent[0].line.starts_with("POST /v1/responses "),
        "{}",
        sent[0].line
    );
    assert_eq!(sent[0].body["model"], "mini");
    for (text, names) in [
        ("a = \"a\"", "a -> a"),
        ("a = \"b\"\nb = \"a\"", "a -> b -> a"),
        ("a = \"b:x\"\nb = \"c:\"\nc = \"b:\"", "b -> c -> b"),
    ] {
        let own = folder_with_settings(&format!("[models]\n{text}\n"));
        let ran = run(own.path(), ["ask", "-m", "a", "x"]);
        assert_eq!(ran.status, 3, "{text}: {}", ran.stderr);
        let message = format!("aliases name each other: {names}");
        assert!(ran.stderr.contains(&message), "{text}: {}", ran.stderr);
    }
}

#[test]
fn without_a_key_no_server_is_contacted() {
    let proxy = ModelServer::start(Vec::new(), Delivery::Whole).unwrap();
    let folder = folder(&[("p.md", "<user>x</user>\n")]);
    for (model, variable) in [
        (
            "gpt-4o",
            "set OPENAI_API_KEY, or `api_key_env` under [model]",
        ),
        (
            "anthropic:claude-x",
            "set ANTHROPIC_API_KEY, or `api_key_env` under [model.anthropic]",
        ),
    ] {
        for command in [&["ask", "x"][..], &["run", "--no-save", "p.md"]] {
            let (first, rest) = command.split_first().unwrap();
            let ran: Ran = logue(folder.path())
                .env("HTTPS_PROXY", host_url(&proxy))
                .args([first, "-m", model])
                .args(rest)
                .output()
                .unwrap()
                .into();
            assert_eq!(ran.status, 3, "{}", ran.stderr);
            for words in [
                "error[provider_authentication]: no key for https://api.",
                variable,
                "a local server: logue",
                "-m echo: ",
            ] {
                assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
            }
        }
    }
    assert!(proxy.received().is_empty());
    let listed = run(folder.path(), ["sessions", "list", "--json"]);
    assert_eq!(listed.stdout, "");
}

fn host_url(server: &ModelServer) -> String {
    format!("http://{}", host(server))
}

fn folder_with_settings(text: &str) -> tempfile::TempDir {
    folder(&[(".config/logue/config.toml", text)])
}

#[test]
fn a_local_server_is_found_and_becomes_the_first_setting() {
    let server = listing(10);
    let folder = folder(&[]);
    let with_server = |arguments: &[&str]| -> Ran {
        logue(folder.path())
            .args(arguments)
            .env("OLLAMA_HOST", host(&server))
            .output()
            .unwrap()
            .into()
    };
    let url = format!(
        "http://localhost:{}/v1",
        host(&server).rsplit_once(':').unwrap().1
    );
    let asked = with_server(&["ask", "x"]);
    assert_eq!(asked.status, 3);
    let command = format!("logue ask -m gpt-oss-20b --base-url {url}");
    assert!(asked.stderr.contains(&command), "{}", asked.stderr);
    std::fs::write(folder.path().join("my p.md"), "<user>x</user>\n").unwrap();
    let ran = with_server(&["run", "my p.md"]);
    assert_eq!(ran.status, 3);
    for words in [
        format!("vLLM 0.9.1 runs here: logue run -m gpt-oss-20b --base-url {url} 'my p.md'"),
        "OPENAI_API_KEY=… logue run -m gpt-4o-mini 'my p.md'".to_owned(),
        "logue run -m echo: 'my p.md'".to_owned(),
        "`logue doctor --fix` writes that server into your settings".to_owned(),
    ] {
        assert!(ran.stderr.contains(&words), "{words}: {}", ran.stderr);
    }
    std::fs::remove_file(folder.path().join("my p.md")).unwrap();
    let doctor = with_server(&["doctor"]);
    assert!(
        doctor
            .stdout
            .contains(&format!("vLLM 0.9.1 at {url}, 2 models")),
        "{}",
        doctor.stdout
    );
    assert!(
        contents(folder.path()).is_empty(),
        "nothing is written without --fix"
    );

    let fixed = with_server(&["doctor", "--fix"]);
    assert_eq!(fixed.status, 0, "{}", fixed.stdout);
    let file = folder.path().join(".config/logue/config.toml");
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        written,
        format!("[model]\nname = \"gpt-oss-20b\"\nbase_url = \"{url}\"\n")
    );
    let again = with_server(&["doctor", "--fix"]);
    assert!(
        again.stdout.contains("is configured; nothing to write"),
        "{}",
        again.stdout
    );

    // A file without a model is shown what to add, and stays as it was.
    std::fs::File::create(&file)
        .unwrap()
        .write_all(b"[run]\nmax_requests = 3\n")
        .unwrap();
    let kept = with_server(&["doctor", "--fix"]);
    assert!(
        kept.stdout.contains("exists and is not changed"),
        "{}",
        kept.stdout
    );
    assert!(
        kept.stdout.contains("name = \"gpt-oss-20b\""),
        "{}",
        kept.stdout
    );
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "[run]\nmax_requests = 3\n"
    );
}
