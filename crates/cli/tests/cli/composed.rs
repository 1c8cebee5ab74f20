//! Prompts made of other files: imports, agents, and prompts that a model rewrites first.

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, logue, run};

#[test]
fn a_prompt_of_several_files_is_one_prompt() {
    let folder = folder(&[
        (
            "prompt.md",
            "<import src=\"shared/setup.md\"/>\n<system><import src=\"shared/rules.md\"/></system>\n\
             <user>Say: <agent src=\"agents/one.chatmd\" local>1</agent> \
             <agent src=\"agents/two.chatmd\" local>2</agent></user>\n",
        ),
        ("shared/setup.md", "<config model=\"echo:\"/>\n"),
        ("shared/rules.md", "Be brief.\n"),
        ("agents/one.chatmd", "<config model=\"echo:\"/>"),
        (
            "agents/two.chatmd",
            "<config model=\"echo:\"/>\n<import src=\"setup.md\"/>",
        ),
        ("agents/setup.md", "<system>own folder</system>"),
    ]);
    let ran = run(folder.path(), ["run", "--no-save", "prompt.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "Say: 1 2\n", "")
    );
}

#[test]
fn a_comment_without_end_in_an_imported_text_is_a_warning_at_its_place() {
    let folder = folder(&[
        (
            "prompt.md",
            "<system><import src=\"rules.md\"/></system>\n<user>hello</user>\n",
        ),
        (
            "rules.md",
            "Be <!-- really --> brief.\nRAW|<!--|RAW\nAnd <!-- kind\n",
        ),
    ]);
    let place = "rules.md:3:5";
    let fault = "warning[E-MD-UNTERMINATED-COMMENT]: the comment has no end";
    let checked = run(folder.path(), ["check", "prompt.md"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    assert!(checked.stderr.contains(fault), "{}", checked.stderr);
    assert!(checked.stderr.contains(place), "{}", checked.stderr);
    assert!(
        checked.stderr.ends_with("1 warning\n"),
        "{}",
        checked.stderr
    );
    let reply = Reply::Answer(Answer::text("ok"));
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", server.base_url()).args([
        "run",
        "--no-save",
        "-m",
        "m",
        "prompt.md",
    ]);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains(fault), "{}", ran.stderr);
    let sent = server.received()[0].body["messages"][0]["content"].clone();
    assert_eq!(sent, "Be  brief.\n<!--\nAnd <!-- kind\n");
}

#[test]
fn an_error_in_an_imported_file_is_shown_there() {
    let folder = folder(&[
        (
            "prompt.md",
            "<user>hello</user>\n<import src=\"sub/tools.md\"/>\n",
        ),
        (
            "sub/tools.md",
            "<tool name=\"read_file\"/>\n<tool name=\"flly\"/>\n",
        ),
    ]);
    let ran = run(
        folder.path(),
        ["run", "--no-save", "-m", "echo:", "prompt.md"],
    );
    assert_eq!(ran.status, 3);
    let shown = "unknown built-in tool \"flly\"\n --> sub/tools.md:2:1\n";
    assert!(ran.stderr.contains(shown), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("imported at prompt.md:2:1"),
        "{}",
        ran.stderr
    );
}

#[test]
fn agents_are_asked_again_only_where_they_must() {
    let replies = ["one", "two", "three"].map(|text| Reply::Answer(Answer::text(text)));
    let server = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let folder = folder(&[
        (
            "prompt.md",
            "<config model=\"echo:\"/><user><agent src=\"a.chatmd\" local>x</agent></user>",
        ),
        ("a.chatmd", "<config model=\"m\"/>"),
    ]);
    let ask = |arguments: &[&str]| {
        let command = logue(folder.path())
            .args(["run", "--no-save"])
            .args(arguments)
            .arg("prompt.md")
            .env("OPENAI_BASE_URL", server.base_url())
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .output();
        Ran::from(command.unwrap()).stdout
    };
    assert_eq!(ask(&[]), "one\n");
    assert_eq!(ask(&[]), "one\n");
    assert_eq!(ask(&["--no-cache"]), "two\n");
    std::fs::write(folder.path().join("a.chatmd"), "<config model=\"n\"/>").unwrap();
    assert_eq!(ask(&[]), "three\n");
    assert_eq!(server.received().len(), 3);
}

const REFINED: &str = "<!-- META_REFINE -->\n<config model=\"m\"/>\n<user>do it</user>\n";

#[test]
fn a_prompt_that_asks_for_it_is_rewritten_shown_and_kept_as_it_is() {
    let replies = [
        "```xml\n<config model=\"m\"/>\n<user>Do it well.</user>\n```",
        "done",
        "more",
    ];
    let replies = replies.map(|text| Reply::Answer(Answer::text(text)));
    let server = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", REFINED)]);
    let ask = |arguments: &[&str]| {
        let command = logue(folder.path())
            .args(["run", "prompt.md"])
            .args(arguments)
            .env("OPENAI_BASE_URL", server.base_url())
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .output();
        Ran::from(command.unwrap())
    };
    let ran = ask(&[]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("prompt.md stays unchanged"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("<user>Do it well.</user>"),
        "{}",
        ran.stderr
    );
    // The file holds the author's words, and the conversation goes on from the better ones without
    // asking for them again.
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert_eq!(
        text,
        format!("{REFINED}<assistant>\nRAW|done|RAW</assistant>\n")
    );
    assert_eq!(ask(&["go on"]).stdout, "more\n");
    let received = server.received();
    assert_eq!(received.len(), 3);
    let messages = &received[2].body["messages"];
    assert_eq!(messages[0]["content"], "Do it well.");
    assert_eq!(messages[1]["content"], "done");
    assert_eq!(messages[2]["content"], "go on");
}

#[test]
fn a_rewritten_prompt_cannot_take_permissions() {
    let answer = "<config model=\"m\"/><tool name=\"sh\" command=\"sh\"/><user>do it</user>";
    let replies = vec![Reply::Answer(Answer::text(answer))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let plain = REFINED.replace("<!-- META_REFINE -->\n", "");
    let folder = folder(&[("prompt.md", &plain)]);
    let before = contents(folder.path());
    let command = logue(folder.path())
        .args(["run", "prompt.md"])
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OCHAT_META_REFINE", "on")
        .output();
    let ran = Ran::from(command.unwrap());
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.starts_with("error[refine_rejected]: the rewritten prompt is not used: it changes the tool declarations"),
        "{}",
        ran.stderr
    );
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn check_reads_what_is_imported_and_names_the_file_of_each_finding() {
    let folder = folder(&[
        (
            "p/prompt.md",
            "<user>hello</user>\n<import src=\"sub/tools.md\"/>\n<import src=\"gone.md\"/>\n",
        ),
        ("p/sub/tools.md", "<tool name=\"read_file\"/>\n<user>open"),
    ]);
    let ran = run(folder.path(), ["check", "--json", "p/prompt.md"]);
    assert_eq!(ran.status, 8);
    let found: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown: Vec<_> = found
        .iter()
        .map(|one| {
            (
                one["file"].as_str().unwrap(),
                one["code"].as_str().unwrap(),
                one["start"]["line"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("p/prompt.md", "missing-file", 3),
            ("sub/tools.md", "E-MD-UNCLOSED-TAG", 2),
        ]
    );
    assert_eq!(found[1]["help"][0], "imported at p/prompt.md:2:1");
    // Without the files, only the text itself is looked at.
    let ran = run(folder.path(), ["check", "--no-file-checks", "p/prompt.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}
