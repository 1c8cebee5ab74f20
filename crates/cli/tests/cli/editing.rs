//! Editing a call at a terminal, before it is approved.

use std::path::Path;
use std::process::Command;

use testkit::ModelServer;

use crate::program::folder;
use crate::screen::{
    Screen, asked, call, last_tool_result, prepared, records, runs, server, text_reply,
};

/// An editor that replaces one word, and fails where the word is not in the file.
const EDITOR: &str = "#!/bin/sh\nstat -c '%a' \"$1\" \"${1%/*}\" > seen\ncat \"$1\" >> seen\n\
                      grep -q prod \"$1\" && sed -i \"s/prod/$WORD/\" \"$1\"\n";

/// The program with an editor that writes `word` in place of `prod`.
fn with_editor(folder: &Path, server: &ModelServer, word: &str) -> Command {
    let mut command = asked(folder, server);
    std::fs::write(folder.join("edit.sh"), EDITOR).unwrap();
    command
        .env_remove("VISUAL")
        .env("EDITOR", "sh ./edit.sh")
        .env("TMPDIR", folder)
        .env("WORD", word);
    command
}

#[test]
fn a_call_is_edited_in_the_editor_shown_again_and_run() {
    let server = server(vec![call("c1", "prod"), text_reply("fine")]);
    let folder = prepared();
    let mut screen = Screen::start(&mut with_editor(folder.path(), &server, "stage two"));
    screen.expect("Run deploy? ");
    screen.press("e\n");
    screen.expect("Run deploy as edited? ");
    let text = screen.text();
    assert!(text.contains("The edited call of deploy:\n"), "{text}");
    assert!(text.contains("│ sh deploy.sh 'stage two'\n"), "{text}");
    assert_eq!(runs(folder.path()), "");
    screen.press("y\n");
    let (status, text) = screen.end();
    assert_eq!(status, 0, "{text}");
    assert_eq!(runs(folder.path()), "ran stage two\n");
    let arguments = r#"{"arguments":["stage two"]}"#;
    let result = last_tool_result(&server);
    let notice = format!("A person replaced the arguments of this call with: {arguments}\n\n");
    assert!(result.starts_with(&notice), "{result}");
    let records = records(folder.path());
    assert_eq!(records[0]["by"]["kind"], "terminal");
    let shown = records[0]["edited"]["shown"].as_str().unwrap();
    assert!(shown.ends_with("sh deploy.sh 'stage two'\n"), "{shown}");
    // Only the user can read the file, and nothing of it is left.
    let seen = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    assert!(seen.starts_with("600\n700\n{\n"), "{seen}");
    let names = std::fs::read_dir(folder.path()).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.starts_with("logue-")));
}

#[test]
fn an_edit_that_is_invalid_or_fails_changes_nothing() {
    for (word, reason) in [
        ("a\\\"", "not edited: the arguments are not a JSON object"),
        (
            "x\\\"], \\\"user\\\": [\\\"root",
            "not edited: the arguments are not what `deploy` takes",
        ),
    ] {
        let server = server(vec![call("c1", "prod"), text_reply("fine")]);
        let folder = prepared();
        let mut screen = Screen::start(&mut with_editor(folder.path(), &server, word));
        screen.expect("Run deploy? ");
        screen.press("e\n");
        screen.expect(reason);
        screen.expect_times("Run deploy? ", 2);
        // The next attempt begins with the invalid text, in which the editor finds nothing.
        screen.press("e\n");
        screen.expect("nothing was edited: the editor ended with exit status: 1");
        screen.expect_times("Run deploy? ", 3);
        screen.press("y\n");
        let (status, text) = screen.end();
        assert_eq!(status, 0, "{text}");
        assert_eq!(runs(folder.path()), "ran prod\n");
        assert!(!last_tool_result(&server).contains("replaced"));
        assert!(records(folder.path())[0]["edited"].is_null());
    }
}

#[test]
fn without_an_editor_one_line_is_the_edit() {
    let server = server(vec![
        call("c1", "prod"),
        call("c2", "prod"),
        text_reply("fine"),
    ]);
    let folder = prepared();
    let mut command = asked(folder.path(), &server);
    command.env_remove("VISUAL").env_remove("EDITOR");
    let mut screen = Screen::start(&mut command);
    screen.expect("Run deploy? ");
    screen.press("e\n");
    screen.expect("New arguments as one line of JSON");
    screen.press("{\"arguments\": [\"stage\"]}\n");
    screen.expect("Run deploy as edited? ");
    // The decision is about every call, and the edit about one.
    screen.press("a\n");
    let (status, text) = screen.end();
    assert_eq!(status, 0, "{text}");
    assert_eq!(runs(folder.path()), "ran stage\nran prod\n");
}

#[test]
fn a_denied_edit_runs_nothing_and_an_open_one_is_left_to_a_signal() {
    for (keys, status, denied) in [("n\n", 0, true), ("\u{4}", 6, false)] {
        let server = server(vec![call("c1", "prod"), text_reply("fine")]);
        let folder = prepared();
        let mut screen = Screen::start(&mut with_editor(folder.path(), &server, "stage"));
        screen.expect("Run deploy? ");
        screen.press("e\n");
        screen.expect("Run deploy as edited? ");
        screen.press(keys);
        let (ended, text) = screen.end();
        assert_eq!(ended, status, "{text}");
        assert_eq!(runs(folder.path()), "");
        if denied {
            assert!(last_tool_result(&server).contains("denied"));
            assert!(records(folder.path())[0]["edited"].is_null());
        }
    }
}

#[test]
fn a_script_that_only_the_edit_names_is_bound_too() {
    for changed in [true, false] {
        let server = server(vec![call("c1", "prod.sh"), text_reply("fine")]);
        let prompt = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh\"/>\n";
        let script = |name: &str| format!("echo {name} >> runs\n");
        let folder = folder(&[
            ("p.md", prompt),
            ("prod.sh", &script("prod")),
            ("stage.sh", &script("stage")),
        ]);
        let mut screen = Screen::start(&mut with_editor(folder.path(), &server, "stage"));
        screen.expect("Run deploy? ");
        screen.press("e\n");
        screen.expect("Run deploy as edited? ");
        if changed {
            std::fs::write(folder.path().join("stage.sh"), script("changed")).unwrap();
        }
        screen.press("y\n");
        let (status, text) = screen.end();
        assert_eq!(status, 0, "{text}");
        let ran = if changed { "" } else { "stage\n" };
        assert_eq!(runs(folder.path()), ran, "{text}");
        let is_stale = last_tool_result(&server).contains("approval_stale");
        assert_eq!(is_stale, changed, "{}", last_tool_result(&server));
    }
}

#[test]
fn a_recording_has_the_edit_and_plays_it() {
    let server = server(vec![call("c1", "prod"), text_reply("fine")]);
    let folder = prepared();
    std::fs::copy(folder.path().join("p.md"), folder.path().join("q.md")).unwrap();
    let mut command = with_editor(folder.path(), &server, "stage");
    command.args(["--record", "r.ocml"]);
    let mut screen = Screen::start(&mut command);
    screen.expect("Run deploy? ");
    screen.press("e\n");
    screen.expect("Run deploy as edited? ");
    screen.press("y\n");
    assert_eq!(screen.end().0, 0);
    let recording = std::fs::read_to_string(folder.path().join("r.ocml")).unwrap();
    assert!(recording.contains("[\"stage\"]"), "{recording}");
    assert!(recording.contains("[\"prod\"]"), "{recording}");
    for (word, status) in [("stage", 0), ("other", 3)] {
        let mut command = with_editor(folder.path(), &server, word);
        let name = format!("{word}.md");
        // The transcript begins with the prompt.
        for target in ["p.md", name.as_str()] {
            std::fs::copy(folder.path().join("q.md"), folder.path().join(target)).unwrap();
        }
        command.args(["-m", "replay:r.ocml", "-o", &name]);
        let mut screen = Screen::start(&mut command);
        screen.expect("Run deploy? ");
        screen.press("e\n");
        screen.expect("Run deploy as edited? ");
        screen.press("y\n");
        let (ended, text) = screen.end();
        assert_eq!(ended, status, "{text}");
        assert_eq!(text.contains("replay_mismatch"), status == 3, "{text}");
    }
    assert_eq!(server.received().len(), 2);
}
