//! A prompt that is played against its recording.

use testkit::{Answer, ModelServer};

use crate::program::{Ran, contents, folder, run};
use crate::transcript::serve;

const PROMPT: &str = "<config model=\"openai:m\"/>\n<tool name=\"note\" command=\"touch ran\"/>\n\
    <system>\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n</system>\n\
    <user>first</user>\n";

/// Records a turn with a call of a tool, then a second turn, and returns the folder.
fn recorded() -> (tempfile::TempDir, ModelServer) {
    let call = Answer::text("").with_call("c1", "note", "{\"arguments\":[\"x\"]}");
    let server = serve(vec![
        call,
        Answer::text("the first answer"),
        Answer::text("the second answer"),
    ]);
    let folder = folder(&[("p.md", PROMPT)]);
    let url = server.base_url();
    let turn = |recording: &str, message: &[&str]| {
        let mut arguments = vec!["run", "--base-url", &url, "--record", recording, "p.md"];
        arguments.extend(["--permission", "note=allow", "-m", "m"]);
        arguments.extend(message);
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    };
    turn("one.ocml", &[]);
    turn("two.ocml", &["second"]);
    (folder, server)
}

#[test]
fn a_recorded_prompt_is_played_without_tools_and_writes_nothing() {
    let (folder, server) = recorded();
    let sent = server.received().len();
    std::fs::remove_file(folder.path().join("ran")).unwrap();
    let before = contents(folder.path());
    let replay = |recording: &str| run(folder.path(), ["replay", recording, "p.md"]);
    let one = replay("one.ocml");
    assert_eq!(
        (one.status, &*one.stdout),
        (0, "the first answer\n"),
        "{}",
        one.stderr
    );
    assert!(
        one.stderr
            .contains("the request equals one.ocml (2 answers, 1 tool result)"),
        "{}",
        one.stderr
    );
    let two = replay("two.ocml");
    assert_eq!(
        (two.status, &*two.stdout),
        (0, "the second answer\n"),
        "{}",
        two.stderr
    );
    assert_eq!(
        contents(folder.path()),
        before,
        "nothing is written, and no tool ran"
    );
    assert_eq!(server.received().len(), sent, "nothing is sent");
}

#[test]
fn a_changed_prompt_is_shown_with_its_changed_lines() {
    let (folder, _server) = recorded();
    let file = folder.path().join("p.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replace("three", "drei").replace("\nnine", "\nneun");
    std::fs::write(&file, changed).unwrap();
    let ran: Ran = run(folder.path(), ["replay", "one.ocml", "p.md"]);
    assert_eq!((ran.status, &*ran.stdout), (8, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[replay_mismatch]"),
        "{}",
        ran.stderr
    );
    let lines = "same     | two\n  |   recorded | three\n  |   now      | drei\n  |   later lines differ too";
    assert!(ran.stderr.contains(lines), "{}", ran.stderr);
    assert!(!ran.stderr.contains("more lines"), "{}", ran.stderr);

    // An earlier answer that was changed in the file differs in the later request.
    std::fs::write(&file, text.replace("the first answer", "another")).unwrap();
    let ran = run(folder.path(), ["replay", "two.ocml", "p.md"]);
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    assert!(ran.stderr.contains("now      | another"), "{}", ran.stderr);
    let refused = run(folder.path(), ["replay", "-m", "x", "two.ocml", "p.md"]);
    assert_eq!(refused.status, 2);
}
