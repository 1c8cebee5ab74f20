//! A model server that fails: each way has its category, its exit status, a remedy, and leaves the
//! file as it was.

use testkit::{Delivery, ModelServer, Reply};

use crate::program::{contents, folder, logue, run};

const PROMPT: &str = "<config model=\"m\"/>\n<user>hello</user>\n";

#[test]
fn each_failure_has_its_category_and_exit_status_and_harms_nothing() {
    let status = |status: u16, body: &str| Reply::Status(status, Vec::new(), body.to_owned());
    let chunk = b"data: {\"choices\":[{\"delta\":{\"content\":\"part\"}}]}\n\n".to_vec();
    let retry = vec![("Retry-After".to_owned(), "30".to_owned())];
    let cases = [
        (
            status(401, "{\"error\":{\"message\":\"bad key\"}}"),
            "provider_authentication",
            3,
            "OPENAI_API_KEY",
        ),
        (
            Reply::Status(429, retry, String::new()),
            "provider_rate_limit",
            4,
            "30 s",
        ),
        (
            status(500, "oops"),
            "provider_unavailable",
            4,
            "run the same command again",
        ),
        (
            status(200, "<html>a page</html>"),
            "provider_invalid_response",
            3,
            "base URL",
        ),
        (
            Reply::Endless(Vec::new(), chunk.clone()),
            "provider_invalid_response",
            3,
            "max_tokens",
        ),
        (
            Reply::Endless(Vec::new(), b": wait\n\n".to_vec()),
            "provider_invalid_response",
            3,
            "response_bytes",
        ),
        (
            Reply::Cut([chunk.clone(), chunk[..20].to_vec()].concat()),
            "provider_unavailable",
            4,
            "the received part is kept as an interrupted answer",
        ),
        (
            Reply::Silent,
            "provider_unavailable",
            4,
            "first_byte_timeout_seconds",
        ),
    ];
    for (reply, category, exit, remedy) in cases {
        let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let settings = format!(
            "[model]\nretries = 0\nbase_url = \"{}\"\nconnect_timeout_seconds = 1\nfirst_byte_timeout_seconds = 2\n\
             idle_timeout_seconds = 2\nmax_response_bytes = 1000000\n",
            server.base_url()
        );
        let folder = folder(&[("prompt.md", PROMPT), ("logue.toml", &settings)]);
        let before = contents(folder.path());
        let ran = run(folder.path(), ["run", "prompt.md"]);
        assert_eq!(ran.status, exit, "{category}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(&format!("error[{category}]")),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(remedy), "{}", ran.stderr);
        // Only received text is added.
        let mut after = contents(folder.path());
        for (_, content) in &mut after {
            let text = String::from_utf8(content.clone()).unwrap();
            if let Some((start, _)) = text.split_once("<assistant status=\"interrupted\">") {
                start.as_bytes().clone_into(content);
            }
        }
        let names = |files: &[(String, Vec<u8>)]| -> Vec<(String, String)> {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            files
                .iter()
                .map(|(name, bytes)| (name.clone(), text(bytes)))
                .collect()
        };
        assert_eq!(names(&after), names(&before), "{category}");
    }
}

#[test]
fn a_received_part_is_reported_as_kept_only_if_there_is_one() {
    let piece = testkit::text_delta("begun");
    for (bytes, arguments, is_kept) in [
        (piece.clone(), &["run", "prompt.md"][..], true),
        (piece[..20].to_vec(), &["run", "prompt.md"], false),
        (piece.clone(), &["run", "--no-save", "prompt.md"], false),
        (piece, &["ask", "-m", "m", "hello"], true),
    ] {
        let server = ModelServer::start(vec![Reply::Cut(bytes)], Delivery::Whole).unwrap();
        let folder = folder(&[("prompt.md", PROMPT)]);
        let ran = logue(folder.path())
            .args(arguments)
            .args(["--retries", "0"])
            .env("OPENAI_BASE_URL", server.base_url())
            .output();
        let ran = crate::program::Ran::from(ran.unwrap());
        assert_eq!(ran.status, 4, "{}", ran.stderr);
        let part = "the received part is kept as an interrupted answer";
        assert_eq!(
            ran.stderr.contains(part),
            is_kept,
            "{arguments:?}: {}",
            ran.stderr
        );
        assert!(
            !ran.stderr.contains("the calls of this turn"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_message_survives_the_failure_and_is_sent_by_the_next_run() {
    let replies = vec![
        Reply::Status(500, Vec::new(), String::new()),
        Reply::Answer(testkit::Answer::text("hi there")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", "<config model=\"m\"/>\n<system>x</system>\n")]);
    let url = server.base_url();
    let run = |arguments: &[&str]| {
        crate::program::Ran::from(
            logue(folder.path())
                .args(arguments)
                .env("OPENAI_BASE_URL", &url)
                .output()
                .unwrap(),
        )
    };
    let failed = run(&["run", "--retries=0", "prompt.md", "are", "you", "there?"]);
    assert_eq!(failed.status, 4);
    assert!(
        failed.stderr.contains("prompt.md contains your message"),
        "{}",
        failed.stderr
    );
    let answered = run(&["run", "prompt.md"]);
    assert_eq!(
        (answered.status, answered.stdout.as_str()),
        (0, "hi there\n"),
        "{}",
        answered.stderr
    );
    let sent = &server.received()[1].body["messages"];
    assert_eq!(sent[1]["content"], "are you there?");
    assert_eq!(sent.as_array().unwrap().len(), 2);
}

#[test]
fn an_empty_answer_is_an_error_of_the_provider_everywhere() {
    let inline = "<config model=\"m\"/>\n<user><agent src=\"prompt.md\" local>hi</agent></user>\n";
    let folder = folder(&[("prompt.md", PROMPT), ("outer.md", inline)]);
    for arguments in [
        &["run", "prompt.md"][..],
        &["run", "--no-save", "prompt.md"],
        &["run", "outer.md"],
        &["send", "--agent", "prompt.md", "s", "hello"],
    ] {
        let empty = Reply::Answer(testkit::Answer::text(""));
        let server = ModelServer::start(vec![empty], Delivery::Whole).unwrap();
        let ran = logue(folder.path())
            .args(arguments)
            .env("OPENAI_BASE_URL", server.base_url())
            .output();
        let ran = crate::program::Ran::from(ran.unwrap());
        assert_eq!(ran.status, 3, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("provider_invalid_response")
                && ran.stderr.contains("the response is empty"),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_failure_of_an_agent_in_a_document_has_the_status_of_its_cause() {
    let outer = "<config model=\"m\"/>\n<user><agent src=\"inner.md\" local>hi</agent></user>\n";
    let nested = "<config model=\"m\"/>\n<user><agent src=\"outer.md\" local>hi</agent></user>\n";
    let inner = "<config model=\"m\"/>\n";
    let folder = folder(&[
        ("outer.md", outer),
        ("nested.md", nested),
        ("inner.md", inner),
    ]);
    for (status, category, exit) in [
        (500, "provider_unavailable", 4),
        (401, "provider_authentication", 3),
    ] {
        for file in ["outer.md", "nested.md"] {
            let reply = Reply::Status(status, Vec::new(), "no".to_owned());
            let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
            let ran = logue(folder.path())
                .args(["run", "--retries=0", file])
                .env("OPENAI_BASE_URL", server.base_url())
                .output();
            let ran = crate::program::Ran::from(ran.unwrap());
            assert_eq!(ran.status, exit, "{file}: {}", ran.stderr);
            assert!(
                ran.stderr.contains("E-MD-AGENT-FAILED") && ran.stderr.contains(category),
                "{file}: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn a_failed_turn_of_a_session_states_that_its_calls_are_kept() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n";
    let call = || {
        let call = testkit::Answer::text("");
        Reply::Answer(call.with_call("c1", "read_file", "{\"file\":\"p.md\"}"))
    };
    let failing = || Reply::Status(500, Vec::new(), String::new());
    for (replies, more, ran_tools) in [
        (vec![call(), failing()], &[][..], true),
        (vec![call()], &["--max-requests", "1"], true),
        (vec![failing()], &[], false),
    ] {
        let folder = folder(&[("p.md", prompt)]);
        let server = ModelServer::start(replies, Delivery::Whole).unwrap();
        let ran = logue(folder.path())
            .args(["send", "--retries=0", "--agent", "p.md", "s", "go"])
            .args(more)
            .env("OPENAI_BASE_URL", server.base_url())
            .output();
        let ran = crate::program::Ran::from(ran.unwrap());
        assert!(matches!(ran.status, 3 | 4), "{}", ran.stderr);
        let states = ran
            .stderr
            .contains("the calls of this turn and their results are kept");
        assert_eq!(states, ran_tools, "{}", ran.stderr);
    }
}
