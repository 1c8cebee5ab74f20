//! What evaluation obtained: recorded beside the transcript or with the session, and used again.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

const PROMPT: &str = "<config model=\"m\" show_tool_call/>\n\
    <user>It says: <agent src=\"agent.md\" local>look</agent></user>\n";
/// With a tool, so that no cache keeps its answer.
const AGENT: &str = "<tool name=\"read_dir\"/>\n<system>You look.</system>\n";

/// Answers with the number of the request.
fn serve() -> ModelServer {
    let replies = (1..30).map(|number| Reply::Answer(Answer::text(format!("answer {number}"))));
    ModelServer::start(replies.collect(), Delivery::Whole).unwrap()
}

fn files() -> tempfile::TempDir {
    folder(&[("p.md", PROMPT), ("agent.md", AGENT)])
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
    ran
}

/// The first user message of each request, in order.
fn questions(server: &ModelServer) -> Vec<String> {
    let received = server.received();
    let question = |body: &Value| {
        let messages = body["messages"].as_array().unwrap().iter();
        let user = messages.into_iter().find(|one| one["role"] == "user");
        match &user.unwrap()["content"] {
            Value::String(text) => text.clone(),
            blocks => blocks[0]["text"].as_str().unwrap().to_owned(),
        }
    };
    received.iter().map(|one| question(&one.body)).collect()
}

const RECORD: &str = ".chatmd/p.md.evaluated.json";

#[test]
fn an_agent_is_asked_once_for_a_transcript() {
    let folder = files();
    let server = serve();
    ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(questions(&server), ["look", "It says: answer 1"]);
    let ran = ask(folder.path(), &server, &["run", "p.md", "And?"]);
    assert_eq!(ran.stderr, "");
    assert_eq!(
        questions(&server)[2..],
        ["It says: answer 1"],
        "the second run asked the model alone"
    );
    // So do runs that write nothing, and the preview.
    ask(
        folder.path(),
        &server,
        &["run", "--no-save", "p.md", "And?"],
    );
    let dry = ask(
        folder.path(),
        &server,
        &["run", "--dry-run", "p.md", "And?"],
    );
    assert!(dry.stdout.contains("It says: answer 1"), "{}", dry.stdout);
    assert_eq!(server.received().len(), 4);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let key = folder.path().join(".local/state/logue/evaluation.key");
        for file in [key, folder.path().join(RECORD)] {
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
    }
}

#[test]
fn a_changed_request_asks_again() {
    let folder = files();
    let server = serve();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let count = |arguments: &[&str]| {
        let before = server.received().len();
        ask(folder.path(), &server, arguments);
        server.received().len() - before
    };
    let run = ["run", "p.md", "More?"];
    assert_eq!(count(&run), 2);
    assert_eq!(count(&run), 1);
    write("agent.md", &AGENT.replace("You look.", "You look twice."));
    assert_eq!(count(&run), 2, "an edited prompt of the agent");
    assert_eq!(count(&run), 1);
    let text = fs::read_to_string(folder.path().join("p.md")).unwrap();
    write(
        "p.md",
        &text.replace("model=\"m\"", "model=\"m\" temperature=\"0.5\""),
    );
    assert_eq!(count(&run), 2, "an attribute that the agent inherits");
    let text = fs::read_to_string(folder.path().join("p.md")).unwrap();
    write("p.md", &text.replace("model=\"m\"", "model=\"n\""));
    assert_eq!(count(&run), 2, "a model that the agent inherits");
    assert_eq!(count(&["run", "-m", "k", "p.md", "More?"]), 2, "-m");
    let text = fs::read_to_string(folder.path().join("p.md")).unwrap();
    write("p.md", &text.replace(">look<", ">look there<"));
    assert_eq!(count(&["run", "-m", "k", "p.md", "More?"]), 2, "its input");
    assert_eq!(count(&["run", "-m", "k", "p.md", "More?"]), 1);
}

#[test]
fn fresh_asks_again_and_is_recorded() {
    let folder = files();
    let server = serve();
    ask(folder.path(), &server, &["run", "p.md"]);
    ask(folder.path(), &server, &["run", "--fresh", "p.md", "1"]);
    ask(folder.path(), &server, &["run", "p.md", "2"]);
    ask(folder.path(), &server, &["run", "--no-cache", "p.md", "3"]);
    assert_eq!(
        questions(&server),
        [
            "look",
            "It says: answer 1",
            "look",
            "It says: answer 3",
            "It says: answer 3",
            "look",
            "It says: answer 6"
        ]
    );
}

#[test]
fn fresh_does_not_use_the_caches_of_this_machine() {
    let plain = folder(&[("p.md", PROMPT), ("agent.md", "<system>You look.</system>")]);
    let server = serve();
    for flags in [
        &["--no-save"][..],
        &["--no-save"],
        &["--no-save", "--fresh"],
    ] {
        ask(
            plain.path(),
            &server,
            &[&["run"], flags, &["p.md"]].concat(),
        );
    }
    let asked = questions(&server);
    assert_eq!(
        asked.iter().filter(|one| *one == "look").count(),
        2,
        "{asked:?}"
    );
}

/// The record of another user is in the checkout, with the answer that they want.
#[test]
fn a_record_from_a_checkout_is_not_used() {
    let stranger = files();
    let server = serve();
    ask(stranger.path(), &server, &["run", "p.md"]);
    let own = folder(&[("p.md", PROMPT), ("agent.md", AGENT)]);
    let record = fs::read(stranger.path().join(RECORD)).unwrap();
    fs::create_dir(own.path().join(".chatmd")).unwrap();
    fs::write(own.path().join(RECORD), &record).unwrap();
    let view = ["view", "--show-hidden", "p.md"];
    let shown = ask(own.path(), &server, &view);
    assert!(
        shown
            .stdout
            .contains("evaluated · agent agent.md · used no"),
        "{}",
        shown.stdout
    );
    let ran = ask(own.path(), &server, &["run", "p.md"]);
    assert_eq!(questions(&server)[2..], ["look", "It says: answer 3"]);
    let note = "note: .chatmd/p.md.evaluated.json is not used: it was not written on this machine \
        by you, or was changed; agents are asked and pages are fetched again\n";
    assert_eq!(ran.stderr, note);
    // The own record is in its place, until its words are changed.
    let ran = ask(own.path(), &server, &["run", "p.md", "And?"]);
    assert_eq!((ran.stderr.as_str(), server.received().len()), ("", 5));
    let text = fs::read_to_string(own.path().join(RECORD)).unwrap();
    fs::write(
        own.path().join(RECORD),
        text.replace("answer 3", "answer 0"),
    )
    .unwrap();
    let ran = ask(own.path(), &server, &["run", "p.md", "And?"]);
    assert_eq!(questions(&server)[5..], ["look", "It says: answer 6"]);
    assert_eq!(ran.stderr, note);
}

#[test]
fn a_damaged_record_or_key_is_reported_and_replaced() {
    let folder = files();
    let server = serve();
    ask(folder.path(), &server, &["run", "p.md"]);
    let record = folder.path().join(RECORD);
    let sound = fs::read_to_string(&record).unwrap();
    let half = &sound[..sound.len() / 2];
    let later = sound.replace("\"version\": 1", "\"version\": 2");
    let other = sound.replace("\"agent\"", "\"wizard\"");
    for damaged in ["", "null", "[1]", "\0\u{ffff}", half, &later, &other] {
        fs::write(&record, damaged).unwrap();
        let before = server.received().len();
        let view = ask(folder.path(), &server, &["view", "--show-hidden", "p.md"]);
        assert!(view.stderr.contains("it is damaged: "), "{}", view.stderr);
        let ran = ask(folder.path(), &server, &["run", "p.md", "x"]);
        assert!(
            ran.stderr
                .starts_with("note: .chatmd/p.md.evaluated.json is not used: it is damaged: "),
            "{}",
            ran.stderr
        );
        assert_eq!(server.received().len() - before, 2);
        let ran = ask(folder.path(), &server, &["run", "p.md", "x"]);
        assert_eq!(
            (ran.stderr.as_str(), server.received().len() - before),
            ("", 3)
        );
    }
    let key = folder.path().join(".local/state/logue/evaluation.key");
    fs::write(&key, "short").unwrap();
    let ran = ask(folder.path(), &server, &["run", "p.md", "x"]);
    assert!(
        ran.stderr.contains("the key is too short"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("the next run asks again"),
        "{}",
        ran.stderr
    );
    fs::remove_file(&key).unwrap();
    let ran = ask(folder.path(), &server, &["run", "p.md", "x"]);
    assert!(
        ran.stderr.contains("not written on this machine by you"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        ask(folder.path(), &server, &["run", "p.md", "x"]).stderr,
        ""
    );
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_record_is_not_followed() {
    let folder = files();
    let server = serve();
    ask(folder.path(), &server, &["run", "p.md"]);
    let record = folder.path().join(RECORD);
    fs::rename(&record, folder.path().join("elsewhere.json")).unwrap();
    std::os::unix::fs::symlink("../elsewhere.json", &record).unwrap();
    let before = fs::read(folder.path().join("elsewhere.json")).unwrap();
    let ran = ask(folder.path(), &server, &["run", "p.md", "x"]);
    assert!(ran.stderr.contains("is not used"), "{}", ran.stderr);
    assert_eq!(server.received().len(), 4);
    assert_eq!(
        fs::read(folder.path().join("elsewhere.json")).unwrap(),
        before
    );
    assert!(fs::symlink_metadata(&record).unwrap().is_file());
}

#[test]
fn equal_agents_keep_their_own_answers_and_nested_ones_too() {
    let prompt = "<config model=\"m\"/>\n<user><agent src=\"a.md\" local>x</agent>, \
        <agent src=\"a.md\" local>x</agent>, <agent src=\"b.md\" local>x</agent></user>\n";
    let folder = folder(&[
        ("p.md", prompt),
        ("a.md", "<tool name=\"read_dir\"/>"),
        (
            "b.md",
            "<tool name=\"read_dir\"/><user><agent src=\"a.md\" local>x</agent></user>",
        ),
    ]);
    let server = serve();
    ask(folder.path(), &server, &["run", "p.md"]);
    let first = server.received();
    assert_eq!(first.len(), 5, "three times a, once b, and the prompt");
    ask(folder.path(), &server, &["run", "p.md", "And?"]);
    let second = server.received();
    assert_eq!(second.len(), 6);
    let content = |at: usize| second[at].body["messages"][0]["content"].clone();
    assert_eq!(content(5), content(4));
    let answers: Vec<String> = content(4)
        .as_str()
        .unwrap()
        .split(", ")
        .map(str::to_owned)
        .collect();
    assert_ne!(answers[0], answers[1]);
}

#[test]
fn a_page_and_a_rewritten_prompt_are_recorded() {
    let page = Reply::Body("text/plain", b"snow".to_vec());
    let pages = ModelServer::start(
        vec![page, Reply::Body("text/plain", b"rain".to_vec())],
        Delivery::Whole,
    )
    .unwrap();
    let host = pages.base_url();
    let address = host
        .trim_start_matches("http://")
        .trim_end_matches("/v1")
        .to_owned();
    let prompt = format!(
        "<!-- META_REFINE -->\n<config model=\"m\"/>\n<user>See <doc src=\"http://{address}/a.txt\"/></user>\n"
    );
    let refined = |word: &str| {
        Reply::Answer(Answer::text(
            prompt
                .replace("See", word)
                .replace("<!-- META_REFINE -->\n", ""),
        ))
    };
    let replies = vec![
        refined("Look at"),
        Reply::Answer(Answer::text("done")),
        Reply::Answer(Answer::text("more")),
        refined("Regard"),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("p.md", &prompt)]);
    let run = |arguments: &[&str]| {
        // Without the cache of rewritten prompts.
        drop(fs::remove_dir_all(folder.path().join(".cache")));
        ask(folder.path(), &server, &[&["run"], arguments].concat())
    };
    run(&["--allow-host", &address, "p.md"]);
    assert_eq!(questions(&server)[1], "Look at snow");
    run(&["p.md", "And?"]);
    assert_eq!(questions(&server)[2], "Look at snow");
    assert_eq!((server.received().len(), pages.received().len()), (3, 1));
    run(&["--allow-host", &address, "--fresh", "p.md", "And?"]);
    assert_eq!(questions(&server)[4], "Regard rain");
    let ran = ask(
        folder.path(),
        &server,
        &["view", "--show-hidden", "--json", "p.md"],
    );
    let shown: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let evaluated: Vec<_> = shown
        .iter()
        .filter(|one| one["role"] == "evaluated")
        .collect();
    assert_eq!(evaluated.len(), 2);
    assert_eq!(
        (&evaluated[0]["content"], &evaluated[0]["used"]),
        (&"rain".into(), &"yes".into())
    );
    assert_eq!(evaluated[1]["prompt"], "p.md");
    let plain = ask(folder.path(), &server, &["view", "p.md"]);
    assert!(!plain.stdout.contains("evaluated"), "{}", plain.stdout);
}

#[test]
fn a_secret_is_not_recorded() {
    let folder = files();
    fs::write(
        folder.path().join("logue.toml"),
        "[redact]\npatterns = [\"answer 1\"]\n",
    )
    .unwrap();
    let server = serve();
    ask(folder.path(), &server, &["run", "p.md"]);
    assert!(!folder.path().join(RECORD).exists());
    ask(folder.path(), &server, &["run", "p.md", "And?"]);
    assert_eq!(questions(&server)[2..], ["look", "It says: answer 3"]);
}

#[test]
fn an_agent_without_a_place_in_the_prompt_leaves_the_record() {
    let folder = files();
    let server = serve();
    ask(folder.path(), &server, &["run", "p.md"]);
    fs::write(
        folder.path().join("p.md"),
        "<config model=\"m\"/><user>x</user>",
    )
    .unwrap();
    ask(folder.path(), &server, &["run", "p.md"]);
    assert!(!folder.path().join(RECORD).exists());
}

#[test]
fn an_agent_is_asked_once_for_a_session() {
    let folder = files();
    let prompt = PROMPT
        .replace("<user>", "<system>")
        .replace("</user>", "</system>");
    fs::write(folder.path().join("p.md"), prompt).unwrap();
    let server = serve();
    let send = |arguments: &[&str]| {
        ask(
            folder.path(),
            &server,
            &[&["send", "s"], arguments].concat(),
        )
    };
    let count = || server.received().len();
    send(&["--agent", "p.md", "1"]);
    assert_eq!(count(), 2);
    send(&["2"]);
    assert_eq!(count(), 3, "only the model was asked");
    let system = |at: usize| server.received()[at].body["messages"][0]["content"].clone();
    assert_eq!(system(2), "It says: answer 1");
    send(&["--fresh", "3"]);
    assert_eq!((count(), system(4)), (5, "It says: answer 4".into()));
    let ran = send(&["4"]);
    assert_eq!((count(), system(5)), (6, "It says: answer 4".into()));
    assert_eq!(ran.stderr, "");
    // Another session asks for itself; on another machine the record is not used.
    ask(
        folder.path(),
        &server,
        &["send", "t", "--agent", "p.md", "1"],
    );
    assert_eq!(count(), 8);
    fs::remove_file(folder.path().join(".local/state/logue/evaluation.key")).unwrap();
    let ran = send(&["5"]);
    assert!(
        ran.stderr.contains("the record of the session is not used"),
        "{}",
        ran.stderr
    );
    assert_eq!(count(), 10);
    let verify = ask(folder.path(), &server, &["sessions", "verify"]);
    assert_eq!(verify.status, 0, "{}", verify.stdout);
    let list = ask(folder.path(), &server, &["sessions", "list", "--json"]);
    assert!(!list.stdout.contains("evaluated"), "{}", list.stdout);
}

#[test]
fn an_approved_turn_goes_on_from_the_recorded_answers() {
    let folder = files();
    let prompt = PROMPT.replace(
        "<user>",
        "<tool name=\"write_note\" command=\"touch\" description=\"x\"/>\n<user>",
    );
    fs::write(folder.path().join("p.md"), prompt).unwrap();
    let call = Answer::default().with_call("c1", "write_note", "{\"arguments\":[\"note\"]}");
    let replies = [Answer::text("seen"), call, Answer::text("done")].map(Reply::Answer);
    let server = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let command = |arguments: &[&str]| -> Ran {
        let mut command = logue(folder.path());
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .args(arguments);
        command.output().unwrap().into()
    };
    let ran = command(&["run", "--permission", "write_note=ask", "p.md"]);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let list = command(&["sessions", "list", "--json"]);
    let waiting: Value = serde_json::from_str(list.stdout.lines().next().unwrap()).unwrap();
    let id = waiting["suspended"][0].as_str().unwrap().to_owned();
    let ran = command(&["signal", &id, "--approve"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        questions(&server),
        ["look", "It says: seen", "It says: seen"]
    );
}
