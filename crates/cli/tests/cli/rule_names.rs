//! A rule of the command line for a tool that the prompt does not have is an error.

use std::path::Path;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n\
                      <tool name=\"helper\" agent=\"helper.md\" local/>\n";
const HELPER: &str = "<config model=\"m\"/>\n<tool name=\"publish\" command=\"true\"/>\n";

fn prepared() -> tempfile::TempDir {
    folder(&[
        ("p.md", PROMPT),
        ("helper.md", HELPER),
        ("deploy.sh", "echo ran >> runs\n"),
        // A configuration file is shared by prompts with other tools.
        (
            ".config/logue/config.toml",
            "[permissions.rules]\nother = \"deny\"\n",
        ),
    ])
}

fn ask(folder: &Path, arguments: &[&str]) -> (Ran, usize) {
    let call = Answer::text("").with_call("c1", "deploy", "{\"arguments\":[]}");
    let replies = [call, Answer::text("done")].map(Reply::Answer);
    let server = ModelServer::start(replies.into(), Delivery::Whole).unwrap();
    let url = server.base_url();
    let mut command = logue(folder);
    command.args(arguments).args(["--base-url", &url]);
    let ran = command.output().unwrap().into();
    (ran, server.received().len())
}

#[test]
fn a_misspelled_rule_stops_the_run_before_a_request() {
    for start in [&["run"][..], &["send", "--agent", "p.md"]] {
        let folder = prepared();
        let rest = if start.len() == 1 {
            ["p.md", "go"]
        } else {
            ["s", "go"]
        };
        let with = |rule: &str| {
            let arguments = [start, &["--permission", rule], &rest].concat();
            ask(folder.path(), &arguments)
        };
        let (ran, sent) = with("deplyo=deny");
        assert_eq!((ran.status, sent), (2, 0), "{}", ran.stderr);
        assert!(ran.stderr.contains("the tool `deplyo`"), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("did you mean `deploy`?"),
            "{}",
            ran.stderr
        );
        let (ran, _) = with("unheard_of=deny");
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(!folder.path().join("runs").exists());
        // A rule that was refused is not remembered.
        let (ran, sent) = with("deploy=deny");
        assert_eq!((ran.status, sent), (0, 2), "{}", ran.stderr);
        assert!(!folder.path().join("runs").exists());
    }
}

#[test]
fn a_pattern_without_a_tool_is_named() {
    for (rule, is_unused) in [
        ("mcp.*=deny", true),
        ("deplyo*=deny", true),
        ("*=ask", false),
        ("dep*=deny", false),
        ("pub*=deny", false),
    ] {
        let folder = prepared();
        let (ran, _) = ask(folder.path(), &["run", "--permission", rule, "p.md", "go"]);
        let pattern = rule.split('=').next().unwrap();
        let note = format!("note: the rule for `{pattern}` has no effect");
        let count = ran.stderr.matches(&note).count();
        assert_eq!(count, usize::from(is_unused), "{rule}: {}", ran.stderr);
        assert_eq!(ran.stderr.contains("note: the rule"), is_unused);
    }
}

#[test]
fn patterns_and_tools_of_agents_are_accepted() {
    for rule in ["*=deny", "deplyo*=deny", "publish=deny", "helper=deny"] {
        let folder = prepared();
        let (ran, sent) = ask(folder.path(), &["run", "--permission", rule, "p.md", "go"]);
        assert_eq!((ran.status, sent), (0, 2), "{rule}: {}", ran.stderr);
    }
}
