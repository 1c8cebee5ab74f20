//! Images in results of tools: what each provider receives, in the turn and in the next run.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::mcp::{GIF, PNG};
use testkit::{Answer, Completion, Delivery, ModelServer, Reply, Wire};

use crate::mcp::{command, readable_peer};
use crate::program::{Ran, folder, logue, run};
use crate::providers::{anthropic, responses};

const TEXT: &str =
    "before\n[image 1: image/png, 70 bytes]\nbetween\n[image 2: image/gif, 42 bytes]";

/// A prompt with a server whose results have images.
fn prompt() -> String {
    let server = command("images");
    format!("<tool mcp_server=\"{server}\" include=\"echo\"/>\n<user>Go.</user>\n")
}

/// Runs the prompt and the program again; returns the bodies of the requests.
fn twice(here: &Path, model: &str, replies: Vec<Reply>, flags: &[&str]) -> (Vec<Value>, [Ran; 2]) {
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let settings = format!("[model]\nbase_url = \"{}\"\n", server.base_url());
    readable_peer(here, &settings);
    let run = |arguments: &[&str]| {
        let mut command = logue(here);
        command
            .args(["run", "-m", model, "p.md"])
            .args(arguments)
            .args(flags)
            .env("ANTHROPIC_BASE_URL", server.base_url());
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran
    };
    let ran = [run(&[]), run(&["more"])];
    let bodies = server.received().into_iter().map(|request| request.body);
    (bodies.collect(), ran)
}

fn stored(here: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(here.join(".chatmd"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Checks that the transcript names the images outside its text, and that the files hold them.
fn check_transcript(here: &Path, payload: &str) {
    let images = [("png", PNG), ("gif", GIF)].map(|(ending, data)| {
        let bytes = STANDARD.decode(data).unwrap();
        let found = stored(here).into_iter().find(|(_, held)| *held == bytes);
        let (name, _) = found.unwrap();
        assert!(
            name.starts_with("sha256-") && name.ends_with(ending),
            "{name}"
        );
        format!("<img src=\"./.chatmd/{name}\" local/>\n")
    });
    // Equal images are one file.
    let is_image = |(name, _): &(String, Vec<u8>)| name.starts_with("sha256-");
    assert_eq!(stored(here).iter().filter(|file| is_image(file)).count(), 2);
    let transcript = std::fs::read_to_string(here.join("p.md")).unwrap();
    let expected = format!("{payload}\n{}</tool_response>\n", images.concat());
    assert!(transcript.contains(&expected), "{transcript}");
    assert!(!transcript.contains(PNG), "{transcript}");
}

fn data(kind: &str, base64: &str) -> String {
    format!("data:image/{kind};base64,{base64}")
}

#[test]
fn chat_completions_receive_them_in_a_user_message_after_the_results() {
    let inline = format!("<config show_tool_call/>\n{}", prompt());
    let folder = folder(&[("p.md", &inline)]);
    let calls = Answer::text("")
        .with_call("c1", "echo", "{}")
        .with_call("c2", "echo", "{}");
    let replies = vec![
        Reply::Answer(calls),
        Reply::Answer(Answer::text("done")),
        Reply::Answer(Answer::text("again")),
    ];
    let (bodies, _) = twice(folder.path(), "m", replies, &[]);
    let messages = bodies[1]["messages"].as_array().unwrap();
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = |url: String| json!({"type": "image_url", "image_url": {"url": url}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": TEXT});
    let mut parts = Vec::new();
    for id in ["c1", "c2"] {
        parts.extend([
            text(&format!(
                "The 2 images in the result of the call `{id}` (`echo`):"
            )),
            image(data("png", PNG)),
            image(data("gif", GIF)),
        ]);
    }
    assert_eq!(
        messages[2..],
        [
            result("c1"),
            result("c2"),
            json!({"role": "user", "content": parts})
        ]
    );
    let next = bodies[2]["messages"].as_array().unwrap();
    assert_eq!(next[..messages.len()], messages[..]);
    assert_eq!(next.len(), messages.len() + 2);
    check_transcript(folder.path(), &format!("RAW|{TEXT}|RAW"));
}

#[test]
fn responses_receive_them_in_the_output_of_the_call() {
    let folder = folder(&[("p.md", &prompt())]);
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "echo",
        "arguments": "{}"});
    let answer = |text: &str| {
        responses(&[json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text}]})])
    };
    let replies = vec![responses(&[call]), answer("done"), answer("again")];
    let (bodies, _) = twice(folder.path(), "responses:m", replies, &[]);
    let items = bodies[1]["input"].as_array().unwrap();
    let image = |url: String| json!({"type": "input_image", "image_url": url, "detail": "auto"});
    let output = json!([{"type": "input_text", "text": TEXT},
        image(data("png", PNG)), image(data("gif", GIF))]);
    assert_eq!(
        *items.last().unwrap(),
        json!({"type": "function_call_output", "call_id": "c1", "output": output})
    );
    let next = bodies[2]["input"].as_array().unwrap();
    assert_eq!(next[..items.len()], items[..]);
    let payload = "<doc src=\"./.chatmd/1.tool-call-result.c1.json\" local/>";
    check_transcript(folder.path(), payload);
}

#[test]
fn anthropic_receives_them_in_the_tool_result() {
    let folder = folder(&[("p.md", &prompt())]);
    let call = json!({"type": "tool_use", "id": "c1", "name": "echo", "input": {}});
    let answer = |text: &str| anthropic(&[json!({"type": "text", "text": text})], "end_turn");
    let replies = vec![
        anthropic(&[call], "tool_use"),
        answer("done"),
        answer("again"),
    ];
    let (bodies, _) = twice(folder.path(), "anthropic:m", replies, &[]);
    let messages = bodies[1]["messages"].as_array().unwrap();
    let image = |kind: &str, data: &str| {
        let source = json!({"type": "base64", "media_type": kind, "data": data});
        json!({"type": "image", "source": source})
    };
    let content = json!([{"type": "text", "text": TEXT},
        image("image/png", PNG), image("image/gif", GIF)]);
    assert_eq!(
        messages.last().unwrap()["content"],
        json!([{"type": "tool_result", "tool_use_id": "c1", "content": content}])
    );
    let next = bodies[2]["messages"].as_array().unwrap();
    assert_eq!(next[..messages.len()], messages[..]);
    let payload = "<doc src=\"./.chatmd/1.tool-call-result.c1.json\" local/>";
    check_transcript(folder.path(), payload);
}

#[test]
fn a_model_without_images_receives_a_note_and_the_loss_is_reported() {
    let folder = folder(&[("p.md", &prompt())]);
    let completion = |text: &str| {
        Reply::Completion(Completion::new(
            Wire::VllmText,
            vec![(Vec::new(), text.to_owned())],
        ))
    };
    let call = "<|channel|>commentary to=functions.echo <|constrain|>json<|message|>{}<|call|>";
    let answer = "<|channel|>final<|message|>done";
    let replies = vec![completion(call), completion(answer), completion(answer)];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let url = server.base_url();
    readable_peer(folder.path(), "");
    for flags in [&["p.md"][..], &["p.md", "more"]] {
        let mut command = logue(folder.path());
        command.args(["run", "-m", "harmony:m", "--base-url", &url]);
        let ran = Ran::from(command.args(flags).output().unwrap());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let warning = "warning: 2 images of tool results are not sent: the model takes no images\n";
        assert_eq!(ran.stderr.matches(warning).count(), 1, "{}", ran.stderr);
    }
    // The prompt of the next run begins with the one of the turn.
    let prompts: Vec<Vec<u64>> = server
        .received()
        .into_iter()
        .map(|request| serde_json::from_value(request.body["prompt"].clone()).unwrap())
        .collect();
    let shown: Vec<u32> = prompts[1]
        .iter()
        .map(|id| u32::try_from(*id).unwrap())
        .collect();
    let text = logue_o200k::decode_lossy(&shown);
    let note = format!("{TEXT}\n[2 images not shown: this model takes no images]");
    assert!(text.contains(&note), "{text}");
    assert!(!text.contains("iVBORw0"), "{text}");
    let common = prompts[1].len() - 2;
    assert_eq!(prompts[2][..common], prompts[1][..common]);
    // A model that takes images receives them from the same file.
    let next =
        ModelServer::start(vec![Reply::Answer(Answer::text("ok"))], Delivery::Whole).unwrap();
    let mut command = logue(folder.path());
    command.args([
        "run",
        "-m",
        "m",
        "--base-url",
        &next.base_url(),
        "p.md",
        "look",
    ]);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(next.received()[0].body.to_string().contains(PNG));
}

#[test]
fn conversions_keep_images_of_results_or_list_them() {
    let image = |url: String| json!({"type": "image_url", "image_url": {"url": url}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str| {
        json!({"id": id, "type": "function",
        "function": {"name": "echo", "arguments": "{}"}})
    };
    let result =
        |id: &str, parts: &[Value]| json!({"role": "tool", "content": parts, "tool_call_id": id});
    let png = image(data("png", PNG));
    let conversation = json!([
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": null, "tool_calls": [call("c1"), call("c2")]},
        result("c1", &[text("One."), png.clone(), image(data("gif", GIF))]),
        result("c2", std::slice::from_ref(&png)),
        {"role": "assistant", "content": "done"},
    ]);
    let folder = folder(&[("a.json", &conversation.to_string())]);
    let here = folder.path();
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(here.join(name)).unwrap()).unwrap()
    };
    let convert = |from: &str, form: &str, to: &str| {
        let ran = run(here, ["convert", from, "--to", form, "-o", to]);
        assert!(ran.status == 0 || ran.status == 8, "{}", ran.stderr);
        ran
    };
    for (form, file) in [
        ("ocml2.2", "b.ocml"),
        ("json", "b.json"),
        ("anthropic", "b.anthropic.json"),
        ("responses", "b.responses.json"),
        ("chatmd", "b.chatmd"),
    ] {
        let ran = convert("a.json", form, file);
        assert!(
            ran.status == 0 && !ran.stderr.contains("content:"),
            "{form}: {}",
            ran.stderr
        );
        let checked = run(here, ["check", file]);
        assert!(
            !checked.stdout.contains("answered twice"),
            "{form}: {}",
            checked.stdout
        );
        let back = convert(file, "openai", "back.json");
        assert_eq!(back.status, 0, "{form}: {}", back.stderr);
        assert_eq!(read("back.json"), conversation, "{form}");
    }
    for form in ["ocml2.0", "harmony", "sharegpt", "json2.0"] {
        let ran = convert("a.json", form, "c.out");
        let lost = ran.stderr.matches("an image dropped").count();
        assert_eq!((ran.status, lost), (8, 3), "{form}: {}", ran.stderr);
    }
}

#[test]
fn a_conversion_reads_the_images_beside_a_transcript() {
    let call = "<user>Go.</user>\n<tool_call tool_call_id=\"c1\" function_name=\"echo\">RAW|{}|RAW\
                </tool_call>\n<tool_response tool_call_id=\"c1\">\nRAW|One.|RAW\n\
                <img src=\"./.chatmd/a.png\" local/>\n</tool_response>\n";
    let folder = folder(&[("p.md", call), (".chatmd/a.png", "")]);
    let here = folder.path();
    std::fs::write(here.join(".chatmd/a.png"), STANDARD.decode(PNG).unwrap()).unwrap();
    let ran = run(here, ["convert", "p.md", "--to", "ocml2.2", "-o", "p.ocml"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let frames = std::fs::read_to_string(here.join("p.ocml")).unwrap();
    let expected = format!(
        "<|start|>tool name=functions.echo call_id=c1 to=assistant<|channel|>commentary<|message|>One.<|end|>\n\
         <|start|>tool name=functions.echo call_id=c1 to=assistant content_type=image_url continues=message\
         <|channel|>commentary<|message|>{}<|end|>",
        data("png", PNG)
    );
    assert!(frames.contains(&expected), "{frames}");
    std::fs::remove_file(here.join(".chatmd/a.png")).unwrap();
    let ran = run(here, ["convert", "p.md", "--to", "ocml2.2", "-o", "q.ocml"]);
    assert_eq!(ran.status, 8);
    assert!(
        ran.stderr.contains("an image is not fetched"),
        "{}",
        ran.stderr
    );
}

/// A folder with an image, files that are not images, and an image outside.
fn with_images(prompt: &str, name: &str) -> tempfile::TempDir {
    let folder = folder(&[(name, prompt), ("text.png", "hello"), ("sub/x", "")]);
    let outside = folder.path().with_extension("outside.png");
    let png = STANDARD.decode(PNG).unwrap();
    std::fs::write(&outside, &png).unwrap();
    std::os::unix::fs::symlink(&outside, folder.path().join("link.png")).unwrap();
    // The name does not decide the type.
    std::fs::write(folder.path().join("sub/chart.txt"), &png).unwrap();
    let mut large = png;
    large.resize(3_932_161, 0);
    std::fs::write(folder.path().join("large.png"), &large).unwrap();
    folder
}

const IMPORTED: &str = "[image 1: sub/chart.txt, image/png, 70 bytes]";

fn calls(paths: &[&str]) -> Reply {
    let mut answer = Answer::text("");
    for (at, path) in paths.iter().enumerate() {
        let arguments = json!({"path": path}).to_string();
        answer = answer.with_call(format!("c{at}"), "import_image", &arguments);
    }
    Reply::Answer(answer)
}

#[test]
fn import_image_shows_files_below_the_roots_and_nothing_else() {
    let prompt = "<tool name=\"import_image\"/>\n<user>Go.</user>\n";
    let folder = with_images(prompt, "p.md");
    let outside = folder.path().with_extension("outside.png");
    let outside = outside.to_str().unwrap();
    let paths = [
        "sub/chart.txt",
        "text.png",
        "large.png",
        "link.png",
        "sub/../../x.png",
        outside,
        "missing.png",
    ];
    let done = Reply::Answer(Answer::text("done"));
    let (bodies, _) = twice(folder.path(), "m", vec![calls(&paths), done], &[]);
    let messages = bodies[1]["messages"].as_array().unwrap();
    let results: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(results.len(), paths.len());
    assert_eq!(results[0], IMPORTED);
    assert!(
        results[1].contains("is not a PNG, JPEG, GIF or WebP image"),
        "{results:?}"
    );
    assert!(
        results[2].contains("has 3932161 bytes, more than the 3932160"),
        "{results:?}"
    );
    for refused in &results[3..6] {
        assert!(
            refused.contains("is outside the directories"),
            "{results:?}"
        );
    }
    let last = messages.last().unwrap();
    let images = last.to_string().matches("data:image/png;base64,").count();
    assert_eq!((last["role"].as_str(), images), (Some("user"), 1));
    assert!(last.to_string().contains(PNG));
    let next = bodies[2]["messages"].as_array().unwrap();
    assert_eq!(next[..messages.len()], messages[..]);
    let checked = run(folder.path(), ["check", "p.md"]);
    assert_eq!((checked.status, checked.stdout.as_str()), (0, ""));
}

#[test]
fn import_image_obeys_the_directories_that_a_prompt_names() {
    let prompt = "<tool name=\"read_file\"><read id=\"s\" path=\"sub\"/></tool>\n\
                  <tool name=\"import_image\"/>\n<user>Go.</user>\n";
    let folder = with_images(prompt, "p.md");
    std::fs::copy(
        folder.path().join("sub/chart.txt"),
        folder.path().join("top.png"),
    )
    .unwrap();
    let done = Reply::Answer(Answer::text("done"));
    let replies = vec![calls(&["sub/chart.txt", "top.png"]), done];
    let (bodies, _) = twice(folder.path(), "m", replies, &[]);
    let messages = bodies[1]["messages"].as_array().unwrap();
    assert!(
        messages[2]["content"]
            .as_str()
            .unwrap()
            .starts_with("[image 1: ")
    );
    let refused = messages[3]["content"].as_str().unwrap();
    assert!(refused.contains("is outside the directories"), "{refused}");
}

#[test]
fn import_image_fails_for_a_model_without_images() {
    let prompt = "<tool name=\"import_image\"/>\n<user>Go.</user>\n";
    let folder = with_images(prompt, "p.md");
    let completion = |text: &str| {
        let pieces = vec![(Vec::new(), text.to_owned())];
        Reply::Completion(Completion::new(Wire::VllmText, pieces))
    };
    let call = "<|channel|>commentary to=functions.import_image <|constrain|>json<|message|>\
                {\"path\":\"sub/chart.txt\"}<|call|>";
    let replies = vec![
        completion(call),
        completion("<|channel|>final<|message|>done"),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let mut command = logue(folder.path());
    command.args([
        "run",
        "-m",
        "harmony:m",
        "--base-url",
        &server.base_url(),
        "p.md",
    ]);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let received = server.received();
    let ids: Vec<u32> = serde_json::from_value(received[1].body["prompt"].clone()).unwrap();
    let text = logue_o200k::decode_lossy(&ids);
    assert!(
        text.contains("This model takes no images; change model."),
        "{text}"
    );
    let transcript = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert!(!transcript.contains("<img"), "{transcript}");
}

#[test]
fn a_transcript_of_frames_keeps_the_image() {
    let prompt = "version: 2.2\ngeneration_settings: {builtin_tools: [import_image]}\n\
                  <|start|>user<|message|>Go.<|end|>\n";
    let folder = with_images(prompt, "p.ocml");
    let done = Reply::Answer(Answer::text("done"));
    let replies = vec![calls(&["sub/chart.txt"]), done];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let url = server.base_url();
    for more in [&["p.ocml"][..], &["p.ocml", "more"]] {
        let words = ["run", "-m", "m", "--base-url", &url];
        let ran = run(folder.path(), words.iter().chain(more));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
    let bodies: Vec<Value> = server.received().into_iter().map(|it| it.body).collect();
    let messages = bodies[1]["messages"].as_array().unwrap();
    assert!(messages.last().unwrap().to_string().contains(PNG));
    let next = bodies[2]["messages"].as_array().unwrap();
    assert_eq!(next[..messages.len()], messages[..]);
    let transcript = std::fs::read_to_string(folder.path().join("p.ocml")).unwrap();
    let part = "call_id=c0 to=assistant content_type=image_url continues=message";
    assert_eq!(transcript.matches(part).count(), 1, "{transcript}");
    let checked = run(folder.path(), ["check", "p.ocml"]);
    assert_eq!((checked.status, checked.stdout.as_str()), (0, ""));
}

#[test]
fn a_session_keeps_the_image() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"import_image\"/>\n";
    let folder = with_images(prompt, "p.md");
    let done = Reply::Answer(Answer::text("done"));
    let replies = vec![calls(&["sub/chart.txt"]), done];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    for words in [
        &["send", "--agent", "p.md", "s", "Go."][..],
        &["send", "s", "more"],
    ] {
        let mut command = logue(folder.path());
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .args(words);
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "done\n"),
            "{}",
            ran.stderr
        );
    }
    let bodies: Vec<Value> = server.received().into_iter().map(|it| it.body).collect();
    let messages = bodies[1]["messages"].as_array().unwrap();
    assert!(messages.last().unwrap().to_string().contains(PNG));
    let next = bodies[2]["messages"].as_array().unwrap();
    assert_eq!(next[..messages.len()], messages[..]);

    // What is exported is read with its image.
    let exported = run(folder.path(), ["sessions", "export", "s"]);
    std::fs::write(folder.path().join("s.json"), exported.stdout).unwrap();
    for form in ["openai", "anthropic", "responses", "ocml2.2"] {
        let ran = run(folder.path(), ["convert", "s.json", "--to", form]);
        assert_eq!(ran.status, 0, "{form}: {}", ran.stderr);
        assert!(ran.stdout.contains(PNG), "{form}: {}", ran.stderr);
    }
}

#[test]
fn a_view_shows_images_in_a_short_form() {
    let url = data("png", PNG);
    let folder = folder(&[
        (
            "p.md",
            &format!("<user>RAW|Look: |RAW<img src=\"{url}\"/></user>\n"),
        ),
        (
            "p.ocml",
            &format!("<|start|>user content_type=image_url<|message|>{url}<|end|>\n"),
        ),
        (
            "t.md",
            "<user>Go.</user>\n<tool_call tool_call_id=\"c\" function_name=\"f\">RAW|{}|RAW\
             </tool_call>\n<tool_response tool_call_id=\"c\">\n  <doc src=\"./.chatmd/r.json\" \
             local/>\n<img src=\"./.chatmd/a.png\" local/>\n</tool_response>\n",
        ),
        (".chatmd/r.json", "{}"),
        (".chatmd/a.png", "12345"),
    ]);
    let view = |arguments: &[&str]| {
        let words = ["view"].iter().chain(arguments);
        let ran = run(folder.path(), words);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    };
    for file in ["p.md", "p.ocml"] {
        let short = view(&[file]);
        assert!(short.contains("[image/png, 70 bytes, sha256 "), "{short}");
        assert!(!short.contains("iVBORw0"), "{short}");
        for whole in [
            &[file, "--full"][..],
            &[file, "--json"],
            &[file, "--show-hidden"],
        ] {
            assert!(view(whole).contains(&url), "{whole:?}");
        }
    }
    let files = view(&["t.md", "--show-hidden"]);
    assert!(files.contains("→ ./.chatmd/a.png (5 B)"), "{files}");
}
