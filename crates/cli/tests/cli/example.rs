//! The example of the README: the main job, by recording and by socket.

use openchatml::{FrameRole, messages_from_frames};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, example, example_copy, run, strict};

/// The recorded answers as a server streams them.
fn recorded_answers() -> Vec<Reply> {
    let text = std::fs::read(example().join("session.ocml")).unwrap();
    let frames = openchatml::parse(&text).to_owned_frames();
    let answers = frames.split(|frame| frame.role != FrameRole::Assistant);
    let answers = answers.filter(|frames| !frames.is_empty()).map(|frames| {
        let (messages, _) = messages_from_frames(frames);
        let message = messages.into_iter().next().unwrap();
        let mut answer = Answer::text(message.text());
        if let logue_message::Content::Blocks(blocks) = &message.content {
            for block in blocks {
                if let logue_message::ContentBlock::Thinking { text, .. } = block {
                    answer = answer.with_reasoning(text);
                }
            }
        }
        for call in message.tool_calls {
            answer = answer.with_call(call.id, call.name, call.arguments.as_str());
        }
        Reply::Answer(answer)
    });
    answers.collect()
}

#[test]
fn the_example_runs_and_leaves_its_folder_as_it_was() {
    let before = contents(&example());
    // As the README has it: nothing is trusted, and nobody can be asked.
    let mut command = strict(&example());
    let ran: Ran = command
        .args(["run", "--no-save", "prompt.md"])
        .output()
        .unwrap()
        .into();
    assert!(!example().join(".data").exists());
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert!(
        ran.stdout
            .contains("**Money is a float** (`sample/ledger.py:10`"),
        "{}",
        ran.stdout
    );
    assert_eq!(contents(&example()), before);
}

#[test]
fn a_live_server_gives_the_same_transcript_however_it_streams() {
    let recorded = example_copy();
    let ran = run(recorded.path(), ["run", "prompt.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let answer = ran.stdout;
    let transcript = contents(recorded.path());
    assert!(
        transcript
            .iter()
            .any(|(name, _)| name.starts_with(".chatmd/"))
    );

    let mut deliveries = vec![Delivery::Whole, Delivery::ByteByByte];
    deliveries.extend((1..=6).map(Delivery::Random));
    for delivery in deliveries {
        let server = ModelServer::start(recorded_answers(), delivery).unwrap();
        let live = example_copy();
        let url = server.base_url();
        let ran = run(
            live.path(),
            ["run", "-m", "any-model", "--base-url", &url, "prompt.md"],
        );
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{delivery:?}");
        assert_eq!(ran.stdout, answer, "{delivery:?}");
        assert_eq!(contents(live.path()), transcript, "{delivery:?}");
        assert_eq!(server.received().len(), 4);
    }
}

#[test]
fn a_recorded_live_run_plays_again() {
    let server = ModelServer::start(recorded_answers(), Delivery::Random(3)).unwrap();
    let live = example_copy();
    let url = server.base_url();
    let ran = run(
        live.path(),
        [
            "run",
            "-m",
            "openai:m",
            "--base-url",
            &url,
            "--no-save",
            "--record",
            "new.ocml",
            "prompt.md",
        ],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    drop(server);
    let checked = run(live.path(), ["check", "new.ocml"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    let played = run(
        live.path(),
        ["run", "-m", "replay:new.ocml", "--no-save", "prompt.md"],
    );
    assert_eq!(
        (played.status, played.stdout),
        (0, ran.stdout),
        "{}",
        played.stderr
    );
}

#[test]
fn a_changed_file_is_a_readable_difference() {
    let folder = example_copy();
    let file = folder.path().join("sample/report.py");
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("return totals", "return dict(totals)");
    std::fs::write(&file, text).unwrap();
    let ran = run(folder.path(), ["run", "prompt.md"]);
    assert_eq!(ran.status, 3);
    for part in [
        "error[replay_mismatch]",
        "session.ocml:",
        "return totals",
        "return dict(totals)",
    ] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}

#[test]
fn payloads_stand_inline_where_the_prompt_asks_for_it() {
    let folder = example_copy();
    let path = folder.path().join("prompt.md");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text.replace("temperature=\"0\"/>", "temperature=\"0\" show_tool_call/>"),
    )
    .unwrap();
    let ran = run(folder.path(), ["run", "prompt.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("RAW|{\"path\":\"sample\"}|RAW</tool_call>"),
        "{text}"
    );
    assert!(!folder.path().join(".chatmd").exists());
}
