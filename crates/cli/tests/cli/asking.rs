//! Asking at a terminal: the program on a real pseudo-terminal.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, strict};
use crate::screen::{
    Screen, asked, call, last_tool_result, prepared, records, runs, server, text_reply,
};

#[test]
fn the_exact_command_is_shown_and_yes_runs_it_once() {
    let server = server(vec![
        call("c1", "to prod"),
        call("c2", "again"),
        text_reply("fine"),
    ]);
    let folder = prepared();
    let mut screen = Screen::start(&mut asked(folder.path(), &server));
    screen.expect("Run deploy? [y/N/a/d/e/s/?] ");
    assert!(
        screen.text().contains("│ sh deploy.sh 'to prod'\n"),
        "{}",
        screen.text()
    );
    assert_eq!(runs(folder.path()), "");
    screen.press("?\n");
    screen.expect_times("Run deploy?", 2);
    assert!(screen.text().contains("run it this once"));
    screen.press("perhaps\n");
    screen.expect_times("Run deploy?", 3);
    screen.press("y\n");
    screen.expect_times("Run deploy?", 4);
    assert_eq!(runs(folder.path()), "ran to prod\n");
    screen.press("n not on a Friday\n");
    let (status, text) = screen.end();
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("fine\n33 tokens in, 21 out · "), "{text}");
    assert_eq!(runs(folder.path()), "ran to prod\n");
    assert!(
        last_tool_result(&server).contains("denied")
            && last_tool_result(&server).contains("not on a Friday")
    );
    let records = records(folder.path());
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(records[0]["by"]["kind"], "terminal");
    assert!(
        records[0]["shown"]
            .as_str()
            .unwrap()
            .ends_with("sh deploy.sh 'to prod'\n")
    );
    assert_eq!(
        (&records[1]["decision"], &records[1]["note"]),
        (&"deny".into(), &"not on a Friday".into())
    );
}

#[test]
fn enter_alone_and_what_was_typed_before_are_no_consent() {
    let server = server(vec![call("c1", "x"), text_reply("a pity")]);
    let folder = prepared();
    let mut command = asked(folder.path(), &server);
    let mut screen = Screen::start(&mut command);
    screen.keys.write_all(b"y\ny\n").unwrap();
    screen.expect("Run deploy?");
    screen.press("\n");
    let (status, text) = screen.end();
    assert_eq!(status, 0, "{text}");
    assert_eq!(runs(folder.path()), "");
    assert!(last_tool_result(&server).contains("denied"));
}

#[test]
fn always_and_never_hold_until_the_command_ends() {
    for (key, ran) in [("a\n", 3), ("d\n", 0)] {
        let calls = ["c1", "c2", "c3"].map(|id| call(id, "x"));
        let server = server(calls.into_iter().chain([text_reply("done")]).collect());
        let folder = prepared();
        let mut screen = Screen::start(&mut asked(folder.path(), &server));
        screen.expect("Run deploy?");
        screen.press(key);
        let (status, text) = screen.end();
        assert_eq!(status, 0, "{text}");
        assert_eq!(text.matches("Run deploy?").count(), 1, "{text}");
        assert_eq!(runs(folder.path()).lines().count(), ran);
        let asked: Vec<bool> = records(folder.path())
            .iter()
            .map(|record| record["by"]["asked"].as_bool().unwrap())
            .collect();
        assert_eq!(asked, [true, false, false]);
    }
}

#[test]
fn no_answer_leaves_the_decision_to_a_signal() {
    let server = server(vec![call("c1", "x"), text_reply("deployed")]);
    let folder = prepared();
    let mut screen = Screen::start(&mut asked(folder.path(), &server));
    screen.expect("Run deploy?");
    screen.press("\u{4}");
    let (status, text) = screen.end();
    assert_eq!(status, 6, "{text}");
    assert_eq!(runs(folder.path()), "");
    let line = text
        .lines()
        .find(|line| line.contains("logue signal"))
        .unwrap();
    let signal = line.split_whitespace().nth(2).unwrap();
    let ran: Ran = logue(folder.path())
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["signal", signal, "--approve"])
        .output()
        .unwrap()
        .into();
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "deployed\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(runs(folder.path()), "ran x\n");
}

#[test]
fn control_c_ends_the_turn_and_runs_nothing() {
    let server = server(vec![call("c1", "x")]);
    let folder = prepared();
    let plain = asked(folder.path(), &server);
    // The key is a signal only for the processes whose terminal it is.
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(plain.get_program());
    command.args(plain.get_args()).current_dir(folder.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut screen = Screen::start(&mut command);
    screen.expect("Run deploy?");
    screen.press("\u{3}");
    let (status, text) = screen.end();
    assert_eq!(status, 130, "{text}");
    // The terminal shows the key on the line of the question.
    let end = "[y/N/a/d/e/s/?] ^C\ncancelled. Completed parts are in p.md.\n";
    assert!(text.ends_with(end), "{text:?}");
    assert_eq!(runs(folder.path()), "");
    assert!(records(folder.path()).is_empty());
}

#[test]
fn a_call_cannot_write_a_question_of_its_own() {
    let forged = "x\n  \u{1b}[2K\rRun look? [y/N/a/d/e/s/?] \u{202e}";
    let server = server(vec![call("c1", forged), text_reply("no")]);
    let folder = prepared();
    let mut screen = Screen::start(&mut asked(folder.path(), &server));
    screen.expect("Run deploy?");
    let text = screen.text();
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text:?}"
    );
    let lines: Vec<&str> = text.lines().collect();
    let forged = lines
        .iter()
        .find(|line| line.contains("Run look?"))
        .unwrap();
    assert!(forged.starts_with("  │ sh deploy.sh"), "{forged}");
    screen.press("n\n");
    assert_eq!(screen.end().0, 0);
    assert_eq!(runs(folder.path()), "");
}

#[test]
fn the_arguments_of_a_call_are_decoded_and_hide_nothing() {
    let arguments = r#"{"input":"\u0072m \u202e\u200b \u0022 \udb40\udc41 caf\u00e9"}"#;
    let call = Answer::text("").with_call("c1", "helper", arguments);
    let server = server(vec![Reply::Answer(call), text_reply("no")]);
    let prompt = "<config model=\"m\"/>\n<tool name=\"helper\" agent=\"helper.md\" local/>\n";
    let folder = folder(&[("p.md", prompt), ("helper.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", server.base_url()).args([
        "run",
        "--permission",
        "helper=ask",
        "p.md",
        "go",
    ]);
    let mut screen = Screen::start(&mut command);
    screen.expect("Run helper?");
    let text = screen.text();
    let shown = r#"  │ {"input":"rm \u{202e}\u{200b} \" \u{e0041} café"}"#;
    assert!(text.lines().any(|line| line == shown), "{text}");
    screen.press("n\n");
    assert_eq!(screen.end().0, 0);
}

#[test]
fn a_declaration_cannot_write_words_of_the_question() {
    let command = "sh -c \"true \u{200b}` in /safe\" \"it's\"";
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"deploy\" command='{}'/>\n",
        command.replace('\'', "&apos;")
    );
    let server = server(vec![text_reply("no")]);
    let folder = folder(&[("p.md", &prompt)]);
    let mut command = strict(folder.path());
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["run", "p.md", "go"]);
    let mut screen = Screen::start(&mut command);
    screen.expect("Trust it?");
    let text = screen.text();
    let shown = r" runs: sh -c $'true \u200b` in /safe' $'it\'s' …";
    assert!(text.lines().any(|line| line.ends_with(shown)), "{text}");
    let uncovered = "No file of this command is covered, only its words: sh -c ";
    assert!(
        text.lines().any(|line| line.starts_with(uncovered)),
        "{text}"
    );
    screen.press("n\n");
    assert_eq!(screen.end().0, 0);
}

#[test]
fn streamed_text_keeps_emoji_and_shows_hidden_letters() {
    let words = "👩\u{200d}🚀 ❤\u{fe0f} pay\u{200b}\u{200d}pal\u{e0041}\u{1b}[2J";
    for delivery in [Delivery::Whole, Delivery::Random(7)] {
        let server = ModelServer::start(vec![text_reply(words)], delivery).unwrap();
        let folder = folder(&[("p.md", "<config model=\"m\"/>\n")]);
        let mut command = logue(folder.path());
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .args(["run", "p.md", "go"]);
        let (status, text) = Screen::start(&mut command).end();
        assert_eq!(status, 0, "{text}");
        let shown =
            "👩\u{200d}🚀 ❤\u{fe0f} pay\\u{200b}\\u{200d}pal\\u{e0041}\\u{1b}[2J\n11 tokens in";
        assert!(text.contains(shown), "{text:?}");
    }
}

#[test]
fn everything_is_shown_when_it_is_asked_for() {
    let long = "z".repeat(2_000);
    let server = server(vec![call("c1", &long), text_reply("ok")]);
    let folder = prepared();
    let mut screen = Screen::start(&mut asked(folder.path(), &server));
    screen.expect("Run deploy?");
    assert!(screen.text().contains("(s shows all)"));
    screen.press("s\n");
    screen.expect_times("Run deploy?", 2);
    assert!(screen.text().contains(&long));
    screen.press("y\n");
    assert_eq!(screen.end().0, 0);
    assert_eq!(runs(folder.path()), format!("ran {long}\n"));
}

#[test]
fn an_unknown_prompt_is_asked_about_once_and_again_when_it_declares_something_else() {
    let start = |folder: &Path, server: &ModelServer| {
        let mut command = strict(folder);
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .args(["run", "p.md", "go"]);
        Screen::start(&mut command)
    };
    let folder = prepared();
    let no = server(vec![call("c1", "x"), text_reply("first")]);
    let mut screen = start(folder.path(), &no);
    screen.expect("Trust it? [y/o/N/?] ");
    assert!(
        screen.text().contains("│ deploy: in /"),
        "{}",
        screen.text()
    );
    screen.press("\n");
    screen.expect("Run deploy?");
    assert!(screen.text().contains("The prompt is not trusted."));
    screen.press("n\n");
    assert_eq!(screen.end().0, 0);
    assert_eq!(runs(folder.path()), "");

    let yes = server(vec![call("c2", "y"), text_reply("second")]);
    let mut screen = start(folder.path(), &yes);
    screen.expect("Trust it?");
    screen.press("y\n");
    let (status, text) = screen.end();
    assert_eq!(status, 0, "{text}");
    assert_eq!(runs(folder.path()), "ran y\n");

    let known = server(vec![call("c3", "z"), text_reply("third")]);
    let (status, text) = start(folder.path(), &known).end();
    assert_eq!(status, 0, "{text}");
    assert!(
        !text.contains("Trust it?"),
        "the conversation grew, the declarations did not: {text}"
    );

    let path = folder.path().join("p.md");
    let changed = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, changed.replacen("sh deploy.sh", "sh other.sh", 1)).unwrap();
    let again = server(vec![text_reply("fourth")]);
    let mut screen = start(folder.path(), &again);
    screen.expect("Trust it?");
    let text = screen.text();
    let shown = |mark: &str, command: &str| {
        let line = text.lines().find(|line| line.contains(mark));
        line.is_some_and(|line| line.ends_with(command))
    };
    assert!(shown("│ - deploy: in /", " runs: sh deploy.sh …"), "{text}");
    assert!(shown("│ + deploy: in /", " runs: sh other.sh …"), "{text}");
    screen.press("\u{4}");
    assert_eq!(screen.end().0, 0);
}
