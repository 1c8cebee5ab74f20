//! Files of agents: those that lack are reported before the first request, and nesting has one limit.

use testkit::Answer;

use crate::program::{folder, logue, run};
use crate::transcript::{say, serve, text};

const CONFIG: &str = "<config model=\"m\"/>\n";
const HELPER: &str = "<tool name=\"helper\" agent=\"helper.md\" local/>\n";

/// Agents that lack a file: the prompt of the agent, and the missing file.
fn lacking() -> [(Option<&'static str>, &'static str); 5] {
    [
        (None, "helper.md"),
        (
            Some("<tool name=\"inner\" agent=\"inner.md\" local/>\n"),
            "inner.md",
        ),
        (
            Some("<system><agent src=\"inner.md\" local>go</agent></system>\n"),
            "inner.md",
        ),
        (
            Some("<system><doc src=\"notes.txt\" local/></system>\n"),
            "notes.txt",
        ),
        (
            Some("<system><img src=\"a.png\" local/></system>\n"),
            "a.png",
        ),
    ]
}

#[test]
fn a_file_that_an_agent_lacks_is_reported_before_the_first_request() {
    for (helper, missing) in lacking() {
        let prompt = format!("{CONFIG}{HELPER}");
        let mut files = vec![("p.md", prompt.as_str())];
        files.extend(helper.map(|helper| ("helper.md", helper)));
        let folder = folder(&files);
        let server = serve(vec![Answer::text("Done.")]);
        for command in [
            &["run", "--trust", "p.md", "go"][..],
            &["send", "--trust", "--agent", "p.md", "s", "go"],
        ] {
            let ran = say(folder.path(), &server, command);
            assert_eq!(ran.status, 3, "{missing} {command:?}: {}", ran.stderr);
            assert!(
                ran.stderr.contains("error[E-MD-AGENT-FAILED]"),
                "{}",
                ran.stderr
            );
            let named = format!("{missing}: not found");
            assert!(ran.stderr.contains(&named), "{}", ran.stderr);
            assert!(ran.stderr.contains("p.md:2:1"), "{}", ran.stderr);
        }
        assert_eq!(server.received().len(), 0, "{missing}");
        assert_eq!(text(folder.path(), "p.md"), prompt);
        let checked = run(folder.path(), ["check", "p.md"]);
        assert_eq!(checked.status, 8, "{missing}: {}", checked.stderr);
        assert!(
            checked.stderr.contains("error[missing-file]"),
            "{}",
            checked.stderr
        );
        assert!(checked.stderr.contains(missing), "{}", checked.stderr);
    }
}

#[test]
fn a_file_that_a_tool_may_create_is_missed_only_at_the_call() {
    for (helper, missing) in lacking() {
        let Some(helper) = helper else { continue };
        for writer in [
            "<tool name=\"write_file\"/>\n",
            "<tool name=\"make\" command=\"make\"/>\n",
        ] {
            let prompt = format!("{CONFIG}{HELPER}{writer}");
            let folder = folder(&[("p.md", &prompt), ("helper.md", helper)]);
            let server = serve(vec![
                Answer::text("").with_call("c1", "helper", r#"{"input":"go"}"#),
                Answer::text("Done."),
            ]);
            let ran = say(folder.path(), &server, &["run", "--trust", "p.md", "go"]);
            assert_eq!(ran.status, 0, "{missing} {writer}: {}", ran.stderr);
            if !helper.contains("<tool") {
                let requests = server.received();
                let sent = requests.last().unwrap().body["messages"].to_string();
                assert!(sent.contains("E-MD-AGENT-FAILED"), "{missing}: {sent}");
            }
        }
    }
    // A tool that changes no file of the prompt creates none.
    for reader in ["<tool name=\"read_file\"/>\n", "<tool name=\"python\"/>\n"] {
        let prompt = format!("{CONFIG}{HELPER}{reader}");
        let helper = "<system><doc src=\"notes.txt\" local/></system>\n";
        let folder = folder(&[("p.md", &prompt), ("helper.md", helper)]);
        let server = serve(vec![Answer::text("Done.")]);
        let ran = say(folder.path(), &server, &["run", "--trust", "p.md", "go"]);
        assert_eq!(ran.status, 3, "{reader}: {}", ran.stderr);
    }
}

/// A chain of agents, each of which calls the next one by `element`.
fn chain(length: usize, element: impl Fn(usize) -> String) -> tempfile::TempDir {
    let prompt = format!("{CONFIG}{}", element(1));
    let mut files = vec![("p.md".to_owned(), prompt)];
    for number in 1..=length {
        let next = if number == length {
            String::new()
        } else {
            element(number + 1)
        };
        files.push((
            format!("a{number}.md"),
            format!("{CONFIG}<system>Help.</system>\n{next}"),
        ));
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    folder(&files)
}

#[test]
fn check_and_run_have_one_limit_of_nested_agents() {
    let asks =
        |number: usize| format!("<user><agent src=\"a{number}.md\" local>go</agent></user>\n");
    let offers = |number: usize| format!("<tool name=\"next\" agent=\"a{number}.md\" local/>\n");
    let words = |depth: usize| {
        format!("agents call agents more than {depth} deep, the limit `max_agent_depth`")
    };
    let within = chain(4, asks);
    assert_eq!(run(within.path(), ["check", "p.md"]).status, 0);
    let server = serve((0..5).map(|_| Answer::text("ok")).collect());
    assert_eq!(say(within.path(), &server, &["run", "p.md"]).status, 0);

    let beyond = chain(5, asks);
    let checked = run(beyond.path(), ["check", "p.md"]);
    assert_eq!(checked.status, 8, "{}", checked.stderr);
    assert!(checked.stderr.contains(&words(4)), "{}", checked.stderr);
    assert!(checked.stderr.contains("a4.md:3:7"), "{}", checked.stderr);
    let ran = say(beyond.path(), &serve(Vec::new()), &["run", "p.md"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains(&words(4)), "{}", ran.stderr);

    // The model may never call the tool.
    let offered = chain(5, offers);
    let checked = run(offered.path(), ["check", "p.md"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    assert!(
        checked.stderr.contains("warning[E-MD-AGENT-FAILED]"),
        "{}",
        checked.stderr
    );

    // The user's own limit is that of both.
    let mut command = logue(beyond.path());
    std::fs::create_dir_all(beyond.path().join("config/logue")).unwrap();
    std::fs::write(
        beyond.path().join("config/logue/config.toml"),
        "[run]\nmax_agent_depth = 5\n",
    )
    .unwrap();
    command.env("XDG_CONFIG_HOME", beyond.path().join("config"));
    let checked = command.args(["check", "p.md"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    std::fs::write(
        within.path().join("logue.toml"),
        "[run]\nmax_agent_depth = 2\n",
    )
    .unwrap();
    let checked = run(within.path(), ["check", "p.md"]);
    assert_eq!(checked.status, 8);
    assert!(checked.stderr.contains(&words(2)), "{}", checked.stderr);
}
