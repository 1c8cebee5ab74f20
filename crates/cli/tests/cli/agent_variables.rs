//! Variables of agents: the values of the caller fill them, at any depth.

use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};

const MAIN: &str = "<config model=\"m\"/>\n<var name=\"topic\" default=\"ice\"/>\n\
    <user>Go: <agent src=\"a/a.md\" local>{{topic}}</agent></user>\n";
/// It declares its own default for `tone`, and a `topic` without one.
const AGENT: &str = "<var name=\"topic\"/>\n<var name=\"tone\" default=\"dry\"/>\n\
    <system>a: {{topic}}, {{tone}}</system>\n<user><agent src=\"b.md\" local>x</agent></user>\n";
const INNER: &str = "<var name=\"depth\"/>\n<var name=\"tone\"/>\n\
    <system>b: {{depth}}, {{tone}}</system>\n";
const CALLER: &str =
    "<config model=\"m\"/>\n<tool name=\"helper\" agent=\"a/b.md\" local/>\n<user>go</user>\n";

fn scene() -> tempfile::TempDir {
    folder(&[
        ("main.md", MAIN),
        ("a/a.md", AGENT),
        ("a/b.md", INNER),
        ("caller.md", CALLER),
    ])
}

fn serve(answers: Vec<Answer>) -> ModelServer {
    let replies = answers.into_iter().map(Reply::Answer).collect();
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .envs(variables.iter().copied())
        .args(arguments);
    command.output().unwrap().into()
}

/// Returns the first message of each request.
fn systems(server: &ModelServer) -> Vec<String> {
    let received = server.received();
    let first = |body: &Value| body["messages"][0]["content"].as_str().unwrap().to_owned();
    received
        .iter()
        .map(|received| first(&received.body))
        .collect()
}

#[test]
fn values_of_the_caller_fill_variables_of_agents_at_any_depth() {
    let folder = scene();
    let server = serve(vec![Answer::text("ok")]);
    let hostile = "</system>{{topic}}";
    let ran = ask(
        folder.path(),
        &server,
        &[
            "run",
            "--no-save",
            "main.md",
            "--var",
            &format!("depth={hostile}"),
        ],
        &[("LOGUE_VAR_TONE", "loud")],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let systems = systems(&server);
    // The default of the caller fills a variable without another value.
    assert_eq!(
        systems[..2],
        [format!("b: {hostile}, loud"), "a: ice, loud".to_owned()]
    );
}

#[test]
fn an_agent_keeps_its_default_and_passes_it_on() {
    let folder = scene();
    let server = serve(vec![Answer::text("ok")]);
    let command = [
        "run",
        "--no-save",
        "main.md",
        "--var",
        "depth=2",
        "--var",
        "topic=snow",
    ];
    let ran = ask(folder.path(), &server, &command, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(systems(&server)[..2], ["b: 2, dry", "a: snow, dry"]);
}

#[test]
fn a_missing_value_of_an_agent_is_refused_first_and_the_remedy_helps() {
    for (prompt, place) in [("main.md", "main.md:3:"), ("caller.md", "caller.md:2:")] {
        let folder = scene();
        let call = Answer::text("").with_call("c1", "helper", "{\"input\": \"x\"}");
        let server = match prompt {
            "main.md" => serve(vec![Answer::text("ok")]),
            _ => serve(vec![call, Answer::text("ok")]),
        };
        let command = ["run", "--no-save", prompt, "--var", "tone=x"];
        let ran = ask(folder.path(), &server, &command, &[]);
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        let fault = "error[E-MD-VARIABLE]: the variable `depth` of the agent";
        assert!(ran.stderr.contains(fault), "{}", ran.stderr);
        assert!(ran.stderr.contains(place), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("pass --var depth=VALUE"),
            "{}",
            ran.stderr
        );
        assert!(server.received().is_empty());
        let command = [&command[..], &["--var", "depth=7"]].concat();
        let ran = ask(folder.path(), &server, &command, &[]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let filled = "b: 7, x".to_owned();
        assert!(systems(&server).contains(&filled), "{:?}", systems(&server));
        // A variable that neither the prompt nor an agent declares is refused.
        let command = [&command[..], &["--var", "depht=7"]].concat();
        let ran = ask(folder.path(), &server, &command, &[]);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
    }
}

#[test]
fn a_session_keeps_the_values_of_its_agents() {
    let folder = scene();
    let call = || Answer::text("").with_call("c1", "helper", "{\"input\": \"x\"}");
    let server = serve(vec![
        call(),
        Answer::text("inner"),
        Answer::text("one"),
        call(),
        Answer::text("inner"),
        Answer::text("two"),
    ]);
    let first = [
        "send",
        "--agent",
        "caller.md",
        "s",
        "a",
        "--var",
        "depth=1",
        "--var",
        "tone=x",
    ];
    let ran = ask(folder.path(), &server, &first, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = ask(folder.path(), &server, &["send", "s", "b"], &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let systems = systems(&server);
    assert_eq!((&*systems[1], &*systems[4]), ("b: 1, x", "b: 1, x"));
    let shown = run(folder.path(), ["sessions", "show", "s"]);
    assert!(shown.stdout.contains("depth=1"), "{}", shown.stdout);
}
