//! The wire shapes under `tests/wire`, as servers send them: each is read to the same answer however
//! its bytes are cut. `testing/provider-types` holds the shapes against the providers' own packages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use logue_model::{ModelEvent, ModelResponse, ProviderError, ResponseReader, WireFormat};
use proptest::prelude::*;

/// A captured answer.
struct Shape {
    name: String,
    wire: WireFormat,
    bytes: Vec<u8>,
}

type Heard = (Result<ModelResponse, ProviderError>, Vec<ModelEvent>);

fn shapes() -> Vec<Shape> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    let wires = [
        ("chat", WireFormat::Chat),
        ("responses", WireFormat::Responses),
        ("anthropic", WireFormat::Anthropic),
    ];
    let mut shapes = Vec::new();
    for (folder, wire) in wires {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(root.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        for path in paths {
            let file = path.file_name().unwrap().to_str().unwrap();
            shapes.push(Shape {
                name: format!("{folder}/{file}"),
                wire,
                bytes: std::fs::read(&path).unwrap(),
            });
        }
    }
    assert_eq!(shapes.len(), 33, "a shape is missing, or not expected here");
    shapes
}

fn read<'b>(wire: WireFormat, pieces: impl IntoIterator<Item = &'b [u8]>) -> Heard {
    let mut events: Vec<ModelEvent> = Vec::new();
    let mut reader = ResponseReader::new(wire, 1 << 20);
    let mut sink = |event| merge(&mut events, event);
    for piece in pieces {
        if let Err(error) = reader.push(piece, &mut sink) {
            return (Err(error), events);
        }
    }
    let result = reader.finish(&mut sink);
    (result, events)
}

/// Adds an event, joined with the one before it where both are pieces of one text.
fn merge(events: &mut Vec<ModelEvent>, event: ModelEvent) {
    match (events.last_mut(), event) {
        (Some(ModelEvent::Text(text)), ModelEvent::Text(more))
        | (Some(ModelEvent::Reasoning(text)), ModelEvent::Reasoning(more)) => {
            text.push_str(&more);
        }
        (
            Some(ModelEvent::ReasoningSummary { part, text }),
            ModelEvent::ReasoningSummary {
                part: at,
                text: more,
            },
        ) if *part == at => {
            text.push_str(&more);
        }
        (
            Some(ModelEvent::Arguments { index, text }),
            ModelEvent::Arguments {
                index: at,
                text: more,
            },
        ) if *index == at => {
            text.push_str(&more);
        }
        (_, event) => events.push(event),
    }
}

fn shown((result, events): &Heard) -> String {
    let mut text = String::new();
    for event in events {
        writeln!(text, "  {event:?}").unwrap();
    }
    match result {
        Ok(response) => {
            writeln!(text, "  = {}", response.message.to_json()).unwrap();
            let usage = response.usage.map(|usage| {
                [
                    usage.input_tokens,
                    usage.output_tokens,
                    usage.cached_tokens,
                    usage.reasoning_tokens,
                ]
            });
            let reason = response.finish_reason.as_str();
            writeln!(text, "  {reason} {usage:?}").unwrap();
        }
        Err(error) => {
            writeln!(text, "  ! {}: {error}", error.category).unwrap();
            if let Some(answer) = &error.answer {
                writeln!(text, "  = {}", answer.to_json()).unwrap();
            }
        }
    }
    text
}

#[test]
fn each_shape_is_read() {
    let mut all = String::new();
    for shape in shapes() {
        let heard = read(shape.wire, [shape.bytes.as_slice()]);
        write!(all, "{}\n{}", shape.name, shown(&heard)).unwrap();
    }
    insta::assert_snapshot!(all, @r##"
    chat/deepseek-reasoning.sse
      Reasoning("Two and two.")
      Text("4")
      = {"role":"assistant","content":[{"type":"thinking","text":"Two and two."},{"type":"text","text":"4"}]}
      stop Some([8, 6, 5, 4])
    chat/deepseek-whole.json
      Reasoning("Two and two.")
      Text("4")
      = {"role":"assistant","content":[{"type":"thinking","text":"Two and two."},{"type":"text","text":"4"}]}
      stop Some([8, 6, 0, 0])
    chat/llama-cpp-tools.sse
      Reasoning("I look it up.")
      ToolCall { index: 0, name: "read" }
      Arguments { index: 0, text: "{\"file\":\"a\"}" }
      = {"role":"assistant","content":[{"type":"thinking","text":"I look it up."}],"tool_calls":[{"id":"nZx3","name":"read","arguments":{"file":"a"}}]}
      tool_calls Some([12, 20, 0, 0])
    chat/ollama-tools.sse
      Reasoning("Both.")
      ToolCall { index: 0, name: "read" }
      Arguments { index: 0, text: "{\"file\":\"a\"}" }
      ToolCall { index: 1, name: "read" }
      Arguments { index: 1, text: "{\"file\":\"b\"}" }
      = {"role":"assistant","content":[{"type":"thinking","text":"Both."}],"tool_calls":[{"id":"call_x","name":"read","arguments":{"file":"a"}},{"id":"call_y","name":"read","arguments":{"file":"b"}}]}
      tool_calls Some([50, 12, 0, 0])
    chat/openai-error.sse
      Text("par")
      ! provider_unavailable: The server had an error while processing your request.
    chat/openai-filter.sse
      Text("Well,")
      = {"role":"assistant","content":"Well,"}
      content_filter None
    chat/openai-refusal.sse
      Text("I cannot help with that.")
      = {"role":"assistant","content":"I cannot help with that."}
      content_filter Some([9, 6, 0, 0])
    chat/openai-text.sse
      Text("Grüße, 世界 🦀\n")
      = {"role":"assistant","content":"Grüße, 世界 🦀\n"}
      stop Some([19, 10, 4, 3])
    chat/openai-tools.sse
      ToolCall { index: 0, name: "read" }
      Arguments { index: 0, text: "{\"file\":\"größe.txt\"}" }
      ToolCall { index: 1, name: "grep" }
      Arguments { index: 1, text: "{\"n\":2}" }
      = {"role":"assistant","content":"","tool_calls":[{"id":"call_a","name":"read","arguments":{"file":"größe.txt"}},{"id":"call_b","name":"grep","arguments":{"n":2}}]}
      tool_calls Some([40, 30, 0, 0])
    chat/openai-whole.json
      ToolCall { index: 0, name: "read" }
      Arguments { index: 0, text: "{\"file\":\"a\"}" }
      ToolCall { index: 1, name: "read" }
      Arguments { index: 1, text: "{\"file\":\"b\"}" }
      = {"role":"assistant","content":"","tool_calls":[{"id":"call_a","name":"read","arguments":{"file":"a"}},{"id":"call_b","name":"read","arguments":{"file":"b"}}]}
      tool_calls Some([40, 30, 8, 10])
    chat/openrouter-text.sse
      Reasoning("Hm.")
      Text("Yes.")
      = {"role":"assistant","content":[{"type":"thinking","text":"Hm."},{"type":"text","text":"Yes."}]}
      stop Some([5, 3, 0, 1])
    chat/vllm-reasoning.sse
      Reasoning("The user greets.")
      Text("Hello.")
      = {"role":"assistant","content":[{"type":"thinking","text":"The user greets."},{"type":"text","text":"Hello."}]}
      stop Some([11, 9, 0, 0])
    responses/custom-tool.sse
      ToolCall { index: 0, name: "patch" }
      Arguments { index: 0, text: "*** Begin\n+é" }
      = {"role":"assistant","content":"","tool_calls":[{"id":"call_p","name":"patch","arguments":null,"arguments_text":"*** Begin\n+é","kind":"custom"}]}
      tool_calls Some([9, 12, 0, 0])
    responses/error.sse
      ! provider_unavailable: The server had an error.
    responses/failed.sse
      Text("par")
      ! provider_rate_limit: Rate limit reached for gpt-5.
    responses/filter.sse
      Text("It is")
      = {"role":"assistant","content":"It is"}
      content_filter Some([7, 2, 0, 0])
    responses/hidden-reasoning.sse
      Text("4")
      = {"role":"assistant","content":[{"type":"thinking","text":"","signature":"gAAAAAB-hidden=","id":"rs_1"},{"type":"text","text":"4"}]}
      stop Some([9, 40, 0, 36])
    responses/incomplete.sse
      Text("It is a long")
      = {"role":"assistant","content":"It is a long"}
      length Some([7, 16, 0, 0])
    responses/open-reasoning.sse
      Reasoning("Two and two.")
      Text("4")
      = {"role":"assistant","content":[{"type":"thinking","text":"Two and two.","id":"rs_9"},{"type":"text","text":"4"}]}
      stop Some([9, 12, 0, 0])
    responses/refusal.sse
      Text("I cannot help.")
      = {"role":"assistant","content":"I cannot help."}
      content_filter Some([7, 5, 0, 0])
    responses/text.sse
      Text("Grüße, 世界 🦀")
      = {"role":"assistant","content":"Grüße, 世界 🦀"}
      stop Some([12, 8, 4, 0])
    responses/tools.sse
      ReasoningSummary { part: 0, text: "**Looking**\n\nTwo files." }
      ReasoningSummary { part: 1, text: "**Reading** both." }
      Text("I read both.")
      ToolCall { index: 0, name: "read" }
      Arguments { index: 0, text: "{\"file\":\"größe\"}" }
      ToolCall { index: 1, name: "read" }
      Arguments { index: 1, text: "{\"file\":\"b\"}" }
      = {"role":"assistant","content":[{"type":"thinking","text":"**Looking**\n\nTwo files.","id":"rs_1"},{"type":"thinking","text":"**Reading** both.","signature":"gAAAAABo+RpX/9wYz==","id":"rs_1"},{"type":"text","text":"I read both.","preamble":true}],"tool_calls":[{"id":"call_a","name":"read","arguments":{"file":"größe"}},{"id":"call_b","name":"read","arguments":{"file":"b"}}]}
      tool_calls Some([90, 60, 64, 32])
    responses/whole-failed.json
      ! provider_unavailable: The model crashed.
    responses/whole.json
      ReasoningSummary { part: 0, text: "**Looking**\n\nTwo files." }
      ReasoningSummary { part: 1, text: "**Reading** both." }
      Text("I read both.")
      ToolCall { index: 0, name: "read" }
      Arguments { index: 0, text: "{\"file\":\"größe\"}" }
      ToolCall { index: 1, name: "read" }
      Arguments { index: 1, text: "{\"file\":\"b\"}" }
      = {"role":"assistant","content":[{"type":"thinking","text":"**Looking**\n\nTwo files.","id":"rs_1"},{"type":"thinking","text":"**Reading** both.","signature":"gAAAAABo+RpX/9wYz==","id":"rs_1"},{"type":"text","text":"I read both.","preamble":true}],"tool_calls":[{"id":"call_a","name":"read","arguments":{"file":"größe"}},{"id":"call_b","name":"read","arguments":{"file":"b"}}]}
      tool_calls Some([90, 60, 64, 32])
    anthropic/cut-call.sse
      Text("I write.")
      ToolCall { index: 0, name: "write" }
      Arguments { index: 0, text: "{\"file\":\"a\",\"text\":\"lon" }
      ! provider_invalid_response: the response reached its length limit within its tool calls
      = {"role":"assistant","content":"I write."}
    anthropic/hidden-thinking.sse
      Text("4")
      = {"role":"assistant","content":[{"type":"thinking","text":"","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk+/w=="},{"type":"text","text":"4"}]}
      stop Some([25, 30, 0, 0])
    anthropic/max-tokens.sse
      Text("It is a long")
      = {"role":"assistant","content":"It is a long"}
      length Some([25, 16, 0, 0])
    anthropic/overloaded.sse
      Text("par")
      ! provider_unavailable: Overloaded
    anthropic/refusal-empty.sse
      ! provider_invalid_response: the server withheld the response: its filter or the model refused
      = {"role":"assistant","content":""}
    anthropic/refusal.sse
      Text("I cannot")
      = {"role":"assistant","content":"I cannot"}
      content_filter Some([25, 4, 0, 0])
    anthropic/text.sse
      Text("Grüße, 世界 🦀")
      = {"role":"assistant","content":"Grüße, 世界 🦀"}
      stop Some([145, 12, 100, 0])
    anthropic/tools.sse
      Reasoning("Two files.")
      Text("I read both.")
      ToolCall { index: 0, name: "read" }
      Arguments { index: 0, text: "{\"file\": \"größe\"}" }
      ToolCall { index: 1, name: "list" }
      = {"role":"assistant","content":[{"type":"thinking","text":"Two files.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk+/w=="},{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4="},{"type":"text","text":"I read both."}],"tool_calls":[{"id":"toolu_01","name":"read","arguments":{"file":"größe"},"arguments_text":"{\"file\": \"größe\"}"},{"id":"toolu_02","name":"list","arguments":{}}]}
      tool_calls Some([25, 89, 0, 7])
    anthropic/whole.json
      Reasoning("Two files.")
      Text("I read both.")
      ToolCall { index: 0, name: "read" }
      Arguments { index: 0, text: "{\"file\":\"größe\"}" }
      = {"role":"assistant","content":[{"type":"thinking","text":"Two files.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk+/w=="},{"type":"text","text":"I read both."}],"tool_calls":[{"id":"toolu_01","name":"read","arguments":{"file":"größe"}}]}
      tool_calls Some([35, 40, 10, 0])
    "##);
}

#[test]
fn every_cut_in_two_gives_the_same() {
    for shape in shapes() {
        let whole = read(shape.wire, [shape.bytes.as_slice()]);
        for at in 0..=shape.bytes.len() {
            let (before, after) = shape.bytes.split_at(at);
            let cut = read(shape.wire, [before, after]);
            assert_eq!(cut, whole, "{} cut at {at}", shape.name);
        }
        let each = read(shape.wire, shape.bytes.chunks(1));
        assert_eq!(each, whole, "{} byte by byte", shape.name);
    }
}

#[test]
fn other_line_ends_comments_and_marks_change_nothing() {
    for shape in shapes() {
        if Path::new(&shape.name).extension() != Some("sse".as_ref()) {
            continue;
        }
        let whole = read(shape.wire, [shape.bytes.as_slice()]);
        let text = String::from_utf8(shape.bytes).unwrap();
        let variants = [
            text.replace('\n', "\r\n"),
            text.replace('\n', "\r"),
            format!("\u{feff}{text}"),
            format!("\n\n{text}"),
            text.replace("\n\n", "\n\n: ping\n\n"),
            text.replace("\ndata: ", "\nid: 7\nretry: 10\ndata:"),
        ];
        for variant in variants {
            for size in [1, 2, 3, 7, variant.len()] {
                let heard = read(shape.wire, variant.as_bytes().chunks(size));
                assert_eq!(heard, whole, "{}\n{variant}", shape.name);
            }
        }
    }
}

#[test]
fn an_answer_that_breaks_off_is_never_taken_for_a_whole_one() {
    for shape in shapes() {
        let (whole, _) = read(shape.wire, [shape.bytes.as_slice()]);
        let Ok(whole) = whole else { continue };
        for at in 0..shape.bytes.len() {
            let (result, _) = read(shape.wire, [&shape.bytes[..at]]);
            // Usage data follows the stop reason.
            if let Ok(response) = result {
                assert_eq!(
                    response.message, whole.message,
                    "{} ends at {at}",
                    shape.name
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_cut_in_many_gives_the_same(pick in any::<prop::sample::Index>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let shapes = shapes();
        let shape = &shapes[pick.index(shapes.len())];
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(shape.bytes.len())).collect();
        places.extend([0, shape.bytes.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &shape.bytes[pair[0]..pair[1]]);
        let whole = read(shape.wire, [shape.bytes.as_slice()]);
        prop_assert_eq!(read(shape.wire, pieces), whole);
    }

    #[test]
    fn nothing_makes_a_reader_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        wire in prop::sample::select(vec![WireFormat::Chat, WireFormat::Responses, WireFormat::Anthropic]),
    ) {
        let shapes = shapes();
        let shape = &shapes[pick.index(shapes.len())];
        let at = at.index(shape.bytes.len());
        // Bytes in the middle of a shape, and a shape in the form of another wire.
        let mut spoilt = shape.bytes.clone();
        spoilt.splice(at..at, bytes);
        drop(read(shape.wire, [spoilt.as_slice()]));
        drop(read(wire, [shape.bytes.as_slice()]));
    }
}
