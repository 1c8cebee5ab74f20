//! Turns of an OpenChatML transcript that do not end with an answer: a function that nothing here can
//! run, a person who is asked, a kill.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Random, Reply};

use crate::program::{contents, events, folder, logue, run};
use crate::transcript::{HEADER, WEATHER, assert_checks, say, serve, text};

const CALL: &str = "<|start|>assistant to=functions.weather call_id=c1<|channel|>commentary\
    <|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>\n";

fn weather() -> Answer {
    Answer::text("").with_call("c1", "weather", r#"{"city":"Oslo"}"#)
}

#[test]
fn a_declared_function_is_offered_and_its_call_is_the_callers_to_run() {
    let begun = format!("{HEADER}{WEATHER}");
    let folder = folder(&[("talk.ocml", &begun)]);
    let server = serve(vec![weather(), Answer::text("14 degrees.")]);
    let ran = say(
        folder.path(),
        &server,
        &["run", "talk.ocml", "How is Oslo?"],
    );
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[tool_result_required]"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("`weather` (c1)"), "{}", ran.stderr);
    let user = "<|start|>user<|message|>How is Oslo?<|end|>\n";
    let waits = format!("{begun}{user}{CALL}");
    assert_eq!(text(folder.path(), "talk.ocml"), waits);
    assert_checks(folder.path(), "talk.ocml");
    let sent = server.received()[0].body.clone();
    let names: Vec<&str> = sent["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["read_file", "weather"]);
    let declaration = json!({"name": "weather", "description": "Gets the weather.", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}});
    assert_eq!(sent["tools"][1]["function"], declaration);

    // Without the reply there is nothing to ask the model.
    let before = contents(folder.path());
    let ran = say(folder.path(), &server, &["run", "talk.ocml"]);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("call_id=c1"), "{}", ran.stderr);
    assert_eq!(contents(folder.path()), before);

    let reply = "<|start|>tool name=functions.weather call_id=c1 to=assistant<|channel|>commentary\
        <|message|>{\"ok\":true,\"content\":14}<|end|>\n";
    std::fs::write(folder.path().join("talk.ocml"), format!("{waits}{reply}")).unwrap();
    let ran = say(folder.path(), &server, &["run", "talk.ocml"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "14 degrees.\n"),
        "{}",
        ran.stderr
    );
    let answer = "<|start|>assistant<|channel|>final<|message|>14 degrees.<|return|>\n";
    assert_eq!(
        text(folder.path(), "talk.ocml"),
        format!("{waits}{reply}{answer}")
    );
}

#[test]
fn whoever_speaks_instead_of_replying_cancels_the_call() {
    let begun = format!("{HEADER}{WEATHER}<|start|>user<|message|>Oslo?<|end|>\n{CALL}");
    let folder = folder(&[("talk.ocml", &begun)]);
    let server = serve(vec![Answer::text("As you like.")]);
    let ran = say(folder.path(), &server, &["run", "talk.ocml", "Never mind."]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let written = text(folder.path(), "talk.ocml");
    let added = written.strip_prefix(&begun).unwrap();
    let reply = added.lines().next().unwrap();
    assert!(reply.starts_with("<|start|>tool name=functions.weather call_id=c1 to=assistant"));
    assert!(reply.contains(r#""code":"E-TOOL-CANCELLED""#), "{reply}");
    assert_checks(folder.path(), "talk.ocml");
}

#[test]
fn a_person_is_asked_and_the_turn_goes_on_in_the_file() {
    let begun = format!("{HEADER}<|start|>user<|message|>Read it.<|end|>\n");
    let server = serve(vec![
        Answer::text("").with_call("c1", "read_file", r#"{"file":"n.txt"}"#),
        Answer::text("Done."),
    ]);
    let folder = folder(&[("talk.ocml", &begun), ("n.txt", "seven\n")]);
    let arguments = ["run", "--permission", "read_file=ask", "talk.ocml"];
    let ran = say(folder.path(), &server, &arguments);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let call = "<|start|>assistant to=functions.read_file call_id=c1<|channel|>commentary\
        <|constrain|>json<|message|>{\"file\":\"n.txt\"}<|call|>\n";
    assert_eq!(text(folder.path(), "talk.ocml"), format!("{begun}{call}"));
    let command = ran
        .stderr
        .lines()
        .find(|line| line.contains("logue signal"))
        .unwrap();
    let signal = command.split_whitespace().nth(2).unwrap();
    let ran = say(folder.path(), &server, &["signal", signal, "--approve"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Done.\n"),
        "{}",
        ran.stderr
    );
    let written = text(folder.path(), "talk.ocml");
    let added = written.strip_prefix(&format!("{begun}{call}")).unwrap();
    let lines: Vec<&str> = added.lines().collect();
    assert_eq!(lines.len(), 2, "{added}");
    assert!(lines[0].contains(r#"seven\n""#), "{added}");
    assert!(
        lines[1].ends_with("final<|message|>Done.<|return|>"),
        "{added}"
    );
    assert_checks(folder.path(), "talk.ocml");
}

#[test]
fn sigkill_at_any_moment_leaves_a_transcript_that_holds_what_was_told() {
    const STEPS: usize = 4;
    let begun = format!("{HEADER}<|start|>user<|message|>go<|end|>\n");
    let replies = || -> Vec<Reply> {
        let call = |step: usize| {
            let arguments = r#"{"file":"n.txt"}"#;
            let answer = Answer::text(format!("step {step} <|end|>"));
            Reply::Answer(answer.with_call(format!("c{step}"), "read_file", arguments))
        };
        let done = std::iter::once(Reply::Answer(Answer::text("done")));
        (0..STEPS).map(call).chain(done).collect()
    };
    let prepare = || folder(&[("talk.ocml", begun.as_str()), ("n.txt", "<|call|>\n")]);
    let start = |folder: &Path, server: &ModelServer| {
        let mut command = logue(folder);
        command.args(["run", "--json", "talk.ocml"]);
        command.env("OPENAI_BASE_URL", server.base_url());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut whole = {
        let server = ModelServer::start(replies(), Delivery::Whole).unwrap();
        let (folder, started) = (prepare(), Instant::now());
        let output = start(folder.path(), &server).wait_with_output().unwrap();
        assert!(output.status.success());
        started.elapsed()
    };
    let mut random = Random::new(77);
    let (mut cut, mut reported) = (0, 0);
    for round in 0..40_u32 {
        let server = ModelServer::start(replies(), Delivery::Whole).unwrap();
        let folder = prepare();
        let mut child = start(folder.path(), &server);
        std::thread::sleep(
            whole.mul_f64(f64::from(u16::try_from(random.below(1100)).unwrap()) / 1000.0),
        );
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let written = text(folder.path(), "talk.ocml");
        let document = openchatml::parse(written.as_bytes());
        assert!(!document.has_errors(), "round {round}: {written}");
        assert!(written.starts_with(&begun), "round {round}: {written}");
        let (kept, _) = openchatml::messages_from_frames(&document.to_owned_frames());
        let events = events(&String::from_utf8_lossy(&output.stdout));
        for event in &events {
            if event["event"] == "tool.result" {
                reported += 1;
                let id = event["call_id"].as_str();
                let is_kept =
                    |message: &&logue_message::ChatMessage| message.tool_call_id.as_deref() == id;
                let text = kept
                    .iter()
                    .find(is_kept)
                    .map(logue_message::ChatMessage::text);
                assert_eq!(text.as_deref(), event["content"].as_str(), "round {round}");
            }
        }
        let was_cut = events
            .last()
            .is_none_or(|event| event["event"] != "turn.completed");
        cut += usize::from(was_cut);
        // How long a run takes depends on what else the machine does: the estimate follows.
        whole = whole.mul_f64(if was_cut { 1.03 } else { 0.96 });
        assert_checks(folder.path(), "talk.ocml");
    }
    println!("{cut} of 40 runs were cut, {reported} results were told");
    assert!(
        cut > 5 && reported > 10,
        "{cut} runs were cut, {reported} results were told"
    );
}

#[test]
fn a_new_transcript_in_a_missing_directory_is_refused_with_the_remedy() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n<user>hi</user>\n")]);
    let ran = run(folder.path(), ["run", "-o", "nodir/x.md", "p.md"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains(
            "error[E-SOURCE-READ]: nodir/x.md cannot be created: the directory nodir does not exist"
        ) && ran.stderr.contains("create the directory"),
        "{}",
        ran.stderr
    );
    assert_eq!(contents(folder.path()).len(), 1);
}
