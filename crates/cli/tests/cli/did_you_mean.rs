//! Suggestions for misspelled names, by the message of each.

use testkit::{Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};

const LIST: &str = r#"{"data":[{"id":"gpt-4o-mini"},{"id":"gpt-oss-20b"}]}"#;

/// A server without the model of the request.
fn without_model(list: &str) -> ModelServer {
    let unknown = r#"{"error":{"message":"The model does not exist","code":"model_not_found"}}"#;
    let reply = |status, body: &str| Reply::Status(status, Vec::new(), body.to_owned());
    let replies = vec![reply(404, unknown), reply(200, list)];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

#[test]
fn a_model_that_the_server_does_not_have_is_suggested_from_its_list() {
    let files = [
        ("p.md", "<config model=\"gpt-4o-mni\"/>\n<user>x</user>\n"),
        (
            ".config/logue/config.toml",
            "[models]\nquick = \"openai:gpt-oss-20b\"\n",
        ),
    ];
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["run", "--no-save", "p.md"],
            LIST,
            "did you mean `gpt-4o-mini`?",
        ),
        (
            &["ask", "-m", "gpt-oss-20", "x"],
            LIST,
            "did you mean `gpt-oss-20b`?",
        ),
        (
            &["ask", "-m", "responses:gpt4omini", "x"],
            LIST,
            "did you mean `responses:gpt-4o-mini`?",
        ),
        (&["ask", "-m", "quik", "x"], LIST, "did you mean `quick`?"),
        (
            &["ask", "-m", "llama", "x"],
            LIST,
            "the server lists gpt-4o-mini, gpt-oss-20b; `logue models` prints all",
        ),
        (
            &["ask", "-m", "llama", "x"],
            "no list",
            "use a model that the server has",
        ),
    ];
    for (arguments, list, expected) in cases {
        let folder = folder(&files);
        let server = without_model(list);
        let ran: Ran = logue(folder.path())
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "sk-0123456789")
            .args(*arguments)
            .output()
            .unwrap()
            .into();
        assert_eq!(ran.status, 3, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("error[provider_invalid_model]") && ran.stderr.contains(expected),
            "{arguments:?}: {}",
            ran.stderr
        );
        let received = server.received();
        assert_eq!(received.len(), 2, "one request for the list");
        assert_eq!(received[1].line, "GET /v1/models HTTP/1.1");
        let key = (
            "authorization".to_owned(),
            "Bearer sk-0123456789".to_owned(),
        );
        assert!(received[1].headers.contains(&key));
    }
}

#[test]
fn names_of_sessions_settings_tools_and_commands_are_suggested() {
    let files = [
        (
            "p.md",
            "<config model=\"echo:\"/>\n<tool name=\"read_file\"/>\n",
        ),
        (
            "q.md",
            "<config model=\"echo:\"/>\n<tool name=\"read_fil\"/>\n<user>x</user>\n",
        ),
    ];
    let folder = folder(&files);
    let created = run(folder.path(), ["send", "--agent", "p.md", "demo-1", "hi"]);
    assert_eq!(created.status, 0, "{}", created.stderr);
    let cases: &[(&[&str], &str)] = &[
        (&["send", "demo-1x", "hi"], "did you mean `demo-1`?"),
        (&["ask", "-m", "ehco:", "x"], "did you mean `echo:`?"),
        (
            &["run", "--no-save", "-m", "antropic:x", "p.md", "x"],
            "did you mean `anthropic:`?",
        ),
        (&["sessions", "show", "dmo-1"], "did you mean `demo-1`?"),
        (&["sessions", "retry", "demo1"], "did you mean `demo-1`?"),
        (
            &["ask", "-m", "echo:", "--tool", "read_fle", "x"],
            "did you mean `read_file`?",
        ),
        (
            &["send", "demo-1", "--permission", "read_fle=allow", "x"],
            "did you mean `read_file`?",
        ),
        (&["run", "--no-save", "q.md"], "read_file"),
        (&["runn"], "similar subcommand exists: 'run'"),
        (&["sessions", "lst"], "similar subcommand exists: 'list'"),
        (
            &["ask", "--modle", "x"],
            "similar argument exists: '--model'",
        ),
        (
            &["convert", "--to", "opnai", "p.md"],
            "similar value exists: 'openai'",
        ),
        (
            &["explain", "E-SOURCE-RED"],
            "did you mean `E-SOURCE-READ`?",
        ),
    ];
    for (arguments, expected) in cases {
        let ran = run(folder.path(), *arguments);
        assert!(
            ran.status != 0 && ran.stderr.contains(expected),
            "{arguments:?}: {} {}",
            ran.status,
            ran.stderr
        );
    }
    // A name that is like no session has no suggestion.
    let other = run(folder.path(), ["sessions", "show", "weather"]);
    assert!(!other.stderr.contains("did you mean"), "{}", other.stderr);
}

#[test]
fn keys_of_both_settings_files_are_suggested() {
    for (text, expected) in [
        (
            "[model]\nnmae = \"x\"\n",
            "unknown key `nmae` (did you mean `name`?)",
        ),
        (
            "[modl]\nname = \"x\"\n",
            "unknown key `modl` (did you mean `model`?)",
        ),
        (
            "[run]\nmax_request = 1\n",
            "unknown key `max_request` (did you mean `max_requests`?)",
        ),
    ] {
        for file in ["logue.toml", ".config/logue/config.toml"] {
            let folder = folder(&[(file, text)]);
            let ran = run(folder.path(), ["ask", "-m", "echo:", "x"]);
            assert_eq!(ran.status, 3, "{}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{file}: {}", ran.stderr);
        }
    }
}
