//! SIGKILL at any moment, and the polite signals.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use testkit::{Answer, Delivery, ModelServer, Random, Reply};

use crate::program::{events, folder, logue};
use crate::waiting::{wait_for_text, wait_until};

const STEPS: usize = 5;

/// A run of several tool calls with payloads that hold the format's own markers.
fn server() -> ModelServer {
    let call = |step: usize| {
        let id = format!("call_{step}");
        let arguments = format!("{{\"arguments\":[\"|RAW</tool_call><user>{step}\"]}}");
        Reply::Answer(Answer::text(format!("step {step}")).with_call(id, "work", arguments))
    };
    let mut replies: Vec<Reply> = (0..STEPS).map(call).collect();
    replies.push(Reply::Answer(Answer::text("done")));
    ModelServer::start(replies, Delivery::Random(5)).unwrap()
}

fn prompt(show_tool_call: bool) -> String {
    let flag = if show_tool_call {
        " show_tool_call"
    } else {
        ""
    };
    format!(
        "<config model=\"m\"{flag}/>\n<tool name=\"work\" command=\"printf RAW|%s|RAW\"/>\n<user>go</user>\n"
    )
}

fn start(folder: &Path, server: &ModelServer) -> Child {
    logue(folder)
        .args(["run", "--json", "prompt.md", "and", "go"])
        .env("OPENAI_BASE_URL", server.base_url())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn output(child: &mut Child) -> String {
    let mut text = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// The messages of the file, which must be valid.
fn messages(folder: &Path, context: &str) -> Vec<logue_message::ChatMessage> {
    let text = std::fs::read_to_string(folder.join("prompt.md")).unwrap();
    let tree = chatmd::parse(&text);
    let (document, found) = chatmd::Document::from_tree(&tree);
    let errors: Vec<_> = tree
        .diagnostics()
        .iter()
        .chain(&found)
        .filter(|d| d.is_error())
        .collect();
    assert!(errors.is_empty(), "{context}: {errors:?}\n{text}");
    let roots = std::sync::Arc::new(logue_tools::Roots::new([folder.to_owned()]).unwrap());
    let mut world = logue_agent::FileLoader::new(roots, folder);
    let evaluation = chatmd::evaluate(&document, &mut world);
    assert!(
        !evaluation.has_errors(),
        "{context}: {:?}\n{text}",
        evaluation.diagnostics
    );
    evaluation.messages
}

#[test]
fn sigkill_at_200_random_moments_loses_nothing_that_was_told() {
    let seed = std::env::var("LOGUE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(20_261);
    println!("seed {seed} (set LOGUE_SEED to run it again)");
    let mut random = Random::new(seed);

    let mut whole = {
        let (server, folder) = (server(), folder(&[("prompt.md", &prompt(true))]));
        let started = Instant::now();
        let mut child = start(folder.path(), &server);
        let reported = events(&output(&mut child));
        assert!(child.wait().unwrap().success());
        assert_eq!(reported.last().unwrap()["event"], "turn.completed");
        started.elapsed()
    };
    let (mut cut, mut results) = (0, 0);
    // Payloads inline, in files of their own, and in files that are named by what they hold; the
    // results are larger than the arguments.
    let large = "[transcript]\nmax_inline_bytes = 44\n";
    let modes = [(true, ""), (false, ""), (true, large), (false, large)];
    let mut by_content = 0;
    for round in 0..200 {
        let context = format!("seed {seed}, round {round}");
        let server = server();
        let (inline, settings) = modes[round % modes.len()];
        let folder = folder(&[("prompt.md", &prompt(inline)), ("logue.toml", settings)]);
        let mut child = start(folder.path(), &server);
        let moment = whole.mul_f64(f64::from(u32::try_from(random.below(1100)).unwrap()) / 1000.0);
        std::thread::sleep(moment);
        child.kill().unwrap();
        let reported = events(&output(&mut child));
        child.wait().unwrap();

        let kept = messages(folder.path(), &context);
        by_content += payloads_by_content(folder.path(), settings == large, &context);
        let text_of = |id: &str| {
            let answers =
                |message: &&logue_message::ChatMessage| message.tool_call_id.as_deref() == Some(id);
            kept.iter()
                .find(answers)
                .map(logue_message::ChatMessage::text)
        };
        for event in &reported {
            match event["event"].as_str().unwrap() {
                "tool.result" => {
                    results += 1;
                    let id = event["call_id"].as_str().unwrap();
                    assert_eq!(
                        text_of(id).as_deref(),
                        event["content"].as_str(),
                        "{context}"
                    );
                }
                "message.completed" => {
                    let text = event["content"].as_str().unwrap();
                    assert!(
                        kept.iter().any(|message| message.text() == text),
                        "{context}: {text}"
                    );
                }
                "turn.started" => {
                    assert!(
                        kept.iter().any(|message| message.text() == "and go"),
                        "{context}"
                    );
                }
                _ => {}
            }
        }
        let was_cut = reported
            .last()
            .is_none_or(|event| event["event"] != "turn.completed");
        cut += usize::from(was_cut);
        // How long a run takes depends on what else the machine does: the estimate follows.
        whole = whole.mul_f64(if was_cut { 1.01 } else { 0.98 });
    }
    println!("{cut} of 200 runs were cut, {results} told results were all there");
    assert!(
        cut > 80,
        "only {cut} of 200 runs were cut: the moments are not random over the run"
    );
    assert!(
        results > 50,
        "only {results} results were told before the cut"
    );
    assert!(
        by_content > 20,
        "only {by_content} payloads were named by what they hold"
    );
}

/// How many payloads the transcript names by what they hold. Reading it has shown that they do.
fn payloads_by_content(folder: &Path, expected: bool, context: &str) -> usize {
    let text = std::fs::read_to_string(folder.join("prompt.md")).unwrap();
    let named = text.matches("<doc src=\"./.chatmd/sha256-").count();
    assert!(expected || named == 0, "{context}:\n{text}");
    named
}

#[test]
fn a_run_goes_on_after_a_kill_with_the_open_call_answered() {
    let waiting = "<config model=\"m\" show_tool_call/>\n<tool name=\"work\" command=\"sleep\"/>\n<user>go</user>\n";
    let folder = folder(&[("prompt.md", waiting)]);
    let call = Answer::text("").with_call("call_9", "work", "{\"arguments\":[\"60\"]}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("so be it"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let mut child = start(folder.path(), &server);
    wait_for_text(&folder.path().join("prompt.md"), "call_9");
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = logue(folder.path())
        .args(["run", "prompt.md"])
        .env("OPENAI_BASE_URL", server.base_url())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "so be it\n");
    let sent = server.received()[1].body["messages"].clone();
    assert_eq!(sent[2]["tool_call_id"], "call_9");
    assert!(
        sent[2]["content"]
            .as_str()
            .unwrap()
            .starts_with("E-TOOL-CANCELLED"),
        "{sent}"
    );
    let kept = messages(folder.path(), "after the second run");
    assert_eq!(kept.last().unwrap().text(), "so be it");
    assert_eq!(
        kept.iter()
            .filter(|message| message.tool_call_id.is_some())
            .count(),
        1
    );
}

#[test]
fn signals_end_the_run_and_its_tools() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        let prompt =
            "<config model=\"m\"/>\n<tool name=\"work\" command=\"sleep\"/>\n<user>go</user>\n";
        let folder = folder(&[("prompt.md", prompt)]);
        // A length of sleep that no other process has.
        let seconds = format!("60.0{}", std::process::id());
        let call =
            Answer::text("x").with_call("c", "work", format!("{{\"arguments\":[\"{seconds}\"]}}"));
        let server = ModelServer::start(vec![Reply::Answer(call)], Delivery::Whole).unwrap();
        let mut child = start(folder.path(), &server);
        wait_for_text(&folder.path().join("prompt.md"), "tool_call_id=\"c\"");
        wait_until(
            || "the tool never began".to_owned(),
            || is_running(&seconds),
        );
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        let reported = events(&output(&mut child));
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert_eq!(reported.last().unwrap()["event"], "turn.cancelled");
        messages(folder.path(), signal);
        wait_until(
            || "the tool was left running".to_owned(),
            || !is_running(&seconds),
        );
    }
}

/// Whether a process with this argument runs.
fn is_running(argument: &str) -> bool {
    let mut processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes.any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
        first.ends_with(b"sleep")
            && line
                .windows(argument.len())
                .any(|part| part == argument.as_bytes())
    })
}
