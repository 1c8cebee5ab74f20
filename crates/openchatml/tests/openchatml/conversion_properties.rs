//! What holds for every conversion: nothing is forged, raised, shown or lost in silence.

use std::collections::BTreeSet;

use logue_source::Diagnostic;
use openchatml::convert::{self, ConvertOptions, assign_ids};
use openchatml::project::{self, JsonFormat};
use openchatml::{
    Channel, Dialect, FrameBuf, FrameRole, HeaderBuf, Loss, LossSeverity, Terminator, Transcript,
    detect,
};
use proptest::prelude::*;

use crate::strategies::{broken_transcript, frame, marked_text};

/// Every form that a transcript can be written in.
#[derive(Clone, Copy, Debug)]
enum Form {
    Dialect(Dialect),
    Projection(JsonFormat),
}

fn forms() -> Vec<Form> {
    let dialects = Dialect::ALL.into_iter().map(Form::Dialect);
    let projections = JsonFormat::ALL.into_iter().map(Form::Projection);
    dialects.chain(projections).collect()
}

struct Back {
    frames: Vec<FrameBuf>,
    /// The losses of both ways.
    losses: Vec<Loss>,
    errors: bool,
}

/// Writes and reads back; `None` where writing is refused.
fn there_and_back(transcript: &Transcript, form: Form, options: &ConvertOptions) -> Option<Back> {
    match form {
        Form::Dialect(dialect) => {
            let written = convert::write(transcript, dialect, options).ok()?;
            let read = convert::read(written.text.as_bytes(), Some(dialect), options);
            assert_eq!(read.dialect, dialect);
            Some(Back {
                frames: read.transcript.frames,
                losses: [written.losses, read.losses].concat(),
                errors: read.diagnostics.iter().any(Diagnostic::is_error),
            })
        }
        Form::Projection(projection) => {
            let written = project::write(transcript, projection, options).unwrap();
            let read = project::read(written.text.as_bytes(), projection, options);
            Some(Back {
                errors: read.has_errors(),
                frames: read.transcript.frames,
                losses: [written.losses, read.losses].concat(),
            })
        }
    }
}

/// A frame without the spelling of the channel that is in force anyway.
fn effective(frame: &FrameBuf) -> FrameBuf {
    let mut frame = frame.clone();
    frame.channel = Some(frame.effective_channel());
    frame
}

fn hostile() -> impl Strategy<Value = String> {
    let words = vec![
        "<|start|>",
        "<|end|>",
        "<|message|>",
        "<|channel|>",
        "<|call|>",
        "<|return|>",
        "<|constrain|>",
        "<|literal|>",
        "<|endliteral|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|start_reason|>",
        "<|end_reason|>",
        "<|function_call|>",
        "<|fim_prefix|>",
        "[EOS]",
        "[BOS]",
        "system",
        "assistant",
        "\n",
        " ",
        "<",
        "\"",
        "\\",
        "{}",
        "x",
    ];
    proptest::collection::vec(proptest::sample::select(words), 1..8)
        .prop_map(|words| words.concat())
}

/// Words of each kind of speaker, each with a body of its own.
fn conversation() -> impl Strategy<Value = Vec<FrameBuf>> {
    let one = (0..9_u8, "[a-z ]{0,6}").prop_map(|(kind, text)| match kind {
        0 => vec![FrameBuf::system(text)],
        1 => vec![FrameBuf::developer(text)],
        2 | 3 => vec![FrameBuf::user(text)],
        4 => vec![FrameBuf::analysis(text), FrameBuf::answer("after thought")],
        5 => vec![FrameBuf::preamble(text)],
        6 => vec![
            FrameBuf::call("functions.f", "", "{}"),
            FrameBuf::reply("functions.f", "", text),
        ],
        7 => vec![FrameBuf::new(FrameRole::Assistant, text).with_channel(Channel::Commentary)],
        _ => vec![FrameBuf::answer(text)],
    });
    proptest::collection::vec(one, 1..8).prop_map(|parts| {
        let mut frames = parts.concat();
        for (index, frame) in frames.iter_mut().enumerate() {
            frame.call_id = None;
            if !frame.is_call() {
                frame.body = format!("[{index}]{}", frame.body);
            }
        }
        assign_ids(&mut frames);
        frames
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]
    #[test]
    fn json_keeps_every_frame(frames in proptest::collection::vec(frame(), 0..5), thinking: bool, line: bool) {
        let transcript = Transcript::new(frames)
            .with_header(HeaderBuf::new("2.2").with_model("m").with_setting("temperature", 0.5).with_extra("a", "b"));
        let options = ConvertOptions::default().with_strict(LossSeverity::Identity).with_thinking(thinking).with_line(line);
        let written = project::write(&transcript, JsonFormat::Json, &options).unwrap();
        let read = project::read(written.text.as_bytes(), JsonFormat::Json, &options);
        prop_assert!(read.diagnostics.is_empty() && read.losses.is_empty(), "{:?}", read.diagnostics);
        prop_assert_eq!(&read.transcript, &transcript);
        prop_assert_eq!(written.text.matches('\n').count() == 1, line || transcript.frames.is_empty());
        // And on to text.
        let text = convert::write(&read.transcript, Dialect::V2_2, &options).unwrap().text;
        prop_assert_eq!(convert::read(text.as_bytes(), None, &options).transcript, transcript);
    }

    /// A frame alone comes back as it was, or there is a loss, or it is refused.
    #[test]
    fn a_field_is_kept_or_listed(frame in frame(), thinking: bool) {
        let options = ConvertOptions::default().with_thinking(thinking);
        let transcript = Transcript::new(vec![frame.clone()]);
        for form in forms() {
            let Some(back) = there_and_back(&transcript, form, &options) else { continue };
            // A frame to a tool without an id is written and then found wrong; Harmony writes a tool
            // of any name as a role, of which its reader knows only some.
            let known = matches!(form, Form::Dialect(Dialect::Harmony)) && !back.losses.is_empty();
            let unnamed = frame.to.is_some() && frame.call_id.is_none();
            prop_assert!(!back.errors || known || unnamed, "{form:?}");
            let same = back.frames.len() == 1 && effective(&back.frames[0]) == effective(&frame);
            prop_assert!(same || !back.losses.is_empty(), "{:?}: {:?}", form, back.frames);
        }
    }

    /// Whatever stands in a body or a value, it stays one frame, or is refused.
    #[test]
    fn nothing_is_forged(body in hostile(), value in hostile(), role in 0..5_u8, place in 0..5_u8) {
        let mut frame = match role {
            0 => FrameBuf::user(body.as_str()),
            1 => FrameBuf::system(body.as_str()),
            2 => FrameBuf::answer(body.as_str()).with_terminator(Terminator::Return),
            3 => FrameBuf::call("functions.f", "call_1", body.as_str()),
            _ => FrameBuf::reply("functions.f", "call_1", body.as_str()),
        };
        match place {
            0 => frame.name = Some(value),
            1 => frame.to = Some(value),
            2 => frame.call_id = Some(value),
            3 => frame.constrain = Some(value),
            _ => {}
        }
        let rank = frame.role.authority();
        let transcript = Transcript::new(vec![frame.clone()]);
        for form in forms() {
            let Some(back) = there_and_back(&transcript, form, &ConvertOptions::default()) else { continue };
            // 0.1 has the markers of reasoning as tokens, and no tokens in the strings of JSON.
            let respelled = back.losses.iter().any(|loss| {
                ["markers of reasoning", "spelled", "white space"]
                    .iter()
                    .any(|word| loss.message.contains(word))
            });
            prop_assert!(respelled || back.frames.len() <= 1, "{form:?}: {:?}", back.frames);
            for read in &back.frames {
                prop_assert!(respelled || read.body == body, "{form:?}: {read:?}");
                prop_assert!(read.role.authority() <= rank, "{form:?}: {read:?}");
                prop_assert!(!read.visibility().is_visible() || frame.visibility().is_visible(), "{form:?}");
            }
        }
    }

    #[test]
    fn nothing_is_raised_or_shown(frames in conversation(), thinking: bool) {
        let transcript = Transcript::new(frames);
        let options = ConvertOptions::default().with_thinking(thinking);
        for form in forms() {
            let Some(back) = there_and_back(&transcript, form, &options) else { continue };
            prop_assert!(!back.errors, "{form:?}");
            let hidden: BTreeSet<&str> = transcript.frames.iter()
                .filter(|frame| !frame.visibility().is_visible())
                .map(|frame| frame.body.as_str()).collect();
            for read in &back.frames {
                let said = transcript.frames.iter().filter(|frame| frame.body == read.body);
                let rank = said.map(|frame| frame.role.authority()).max();
                if let Some(rank) = rank {
                    prop_assert!(read.role.authority() <= rank, "{form:?}: {read:?}");
                }
                if read.visibility().is_visible() {
                    for body in &hidden {
                        prop_assert!(body.len() < 3 || !read.body.contains(body), "{form:?}: {read:?}");
                    }
                }
            }
        }
    }

    /// Messages in their normal form come back letter by letter.
    #[test]
    fn chat_completions_come_back(texts in proptest::collection::vec(("[a-z<|>\\\\\"\n]{1,9}", 0..5_u8), 0..8), line: bool) {
        let mut messages = Vec::new();
        for (number, (text, kind)) in texts.iter().enumerate() {
            let text = serde_json::to_string(text).unwrap();
            match kind {
                0 => messages.push(format!(r#"{{"role":"system","content":{text}}}"#)),
                1 => messages.push(format!(r#"{{"role":"developer","content":{text}}}"#)),
                2 => messages.push(format!(r#"{{"role":"user","content":{text}}}"#)),
                3 => messages.push(format!(r#"{{"role":"assistant","reasoning_content":{text},"content":{text}}}"#)),
                _ => {
                    messages.push(format!(
                        r#"{{"role":"assistant","content":{text},"tool_calls":[{{"id":"c{number}","type":"function","function":{{"name":"f","arguments":{text}}}}}]}}"#
                    ));
                    messages.push(format!(r#"{{"role":"tool","content":{text},"tool_call_id":"c{number}"}}"#));
                }
            }
        }
        let text = if line {
            format!("{{\"messages\":[{}]}}\n", messages.join(","))
        } else if messages.is_empty() {
            "[]\n".to_owned()
        } else {
            format!("[\n  {}\n]\n", messages.join(",\n  "))
        };
        let options = ConvertOptions::default().with_strict(LossSeverity::Identity).with_thinking(true).with_line(line);
        let read = project::read(text.as_bytes(), JsonFormat::OpenAi, &options);
        prop_assert!(read.diagnostics.is_empty() && read.losses.is_empty());
        // Through the text, too.
        let middle = convert::write(&read.transcript, Dialect::V2_2, &options).unwrap().text;
        let middle = convert::read(middle.as_bytes(), None, &options).transcript;
        let written = project::write(&middle, JsonFormat::OpenAi, &options).unwrap();
        prop_assert_eq!(written.text, text);
    }

    #[test]
    fn any_text_is_read_in_every_form(bytes in broken_transcript()) {
        let options = ConvertOptions::default();
        let found = detect(&bytes);
        let read = convert::read(&bytes, None, &options);
        prop_assert_eq!(found.is_some_and(|found| found.certain), read.certain);
        for form in forms() {
            match form {
                Form::Dialect(dialect) => drop(convert::read(&bytes, Some(dialect), &options)),
                Form::Projection(projection) => drop(project::read(&bytes, projection, &options)),
            }
        }
        // What was read can be written as JSON, and comes back.
        let written = project::write(&read.transcript, JsonFormat::Json, &options).unwrap();
        let back = project::read(written.text.as_bytes(), JsonFormat::Json, &options);
        prop_assert!(!back.has_errors(), "{:?}", back.diagnostics);
        prop_assert_eq!(back.transcript.frames, read.transcript.frames);
    }

    #[test]
    fn broken_json_has_a_place(text in r#"[\[\]{}",:a-z0-9<|>\\ \n]{0,40}"#, tokens in marked_text()) {
        for text in [text.clone(), format!("[{{\"role\":\"user\",\"content\":{text}{tokens}}}]")] {
            for projection in JsonFormat::ALL {
                let read = project::read(text.as_bytes(), projection, &ConvertOptions::default());
                for found in &read.diagnostics {
                    prop_assert!(found.primary.start <= found.primary.end && found.primary.end <= text.len());
                    prop_assert!(found.expected.is_some() && !found.help.is_empty());
                }
                let json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
                prop_assert!(json || read.has_errors());
            }
            let found = project::detect(text.as_bytes());
            prop_assert!(found.is_none() || serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}

#[test]
fn deep_json_costs_no_stack() {
    for deep in ["[".repeat(200_000), "{\"a\":".repeat(200_000)] {
        for projection in JsonFormat::ALL {
            assert!(
                project::read(deep.as_bytes(), projection, &ConvertOptions::default()).has_errors()
            );
        }
    }
    let depth = 100_000;
    let closed = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let message = format!("[{{\"role\":\"user\",\"content\":{closed}}}]");
    for projection in JsonFormat::ALL {
        assert!(
            project::read(message.as_bytes(), projection, &ConvertOptions::default()).has_errors()
        );
    }
    let beside = format!("{{\"messages\":[],\"tools\":{closed}}}");
    let read = project::read(
        beside.as_bytes(),
        JsonFormat::OpenAi,
        &ConvertOptions::default(),
    );
    assert!(read.has_errors());
}

#[test]
fn what_is_detected() {
    let cases: &[(&str, Option<(&str, bool)>)] = &[
        ("", None),
        ("hello", None),
        ("version: 2.2\n", Some(("ocml2.2", true))),
        (
            "version: 2.0\n<|start|>user<|message|>a<|end|>",
            Some(("ocml2.0", true)),
        ),
        (
            "version: 2.7\n<|start|>user<|message|>a<|end|>",
            Some(("ocml2.2", true)),
        ),
        (
            "model: m\n<|start|>user<|message|>a<|end|>",
            Some(("ocml2.2", false)),
        ),
        (
            "---\nversion: 2.0\n---\n<|start|>user<|message|>a<|end|>",
            Some(("ocml2.0", true)),
        ),
        ("<|start|>user<|message|>a<|end|>", Some(("harmony", false))),
        (
            "<|start|>tool name=f call_id=1<|message|>a<|end|>",
            Some(("ocml2.2", true)),
        ),
        (
            "<|start|>assistant intent=preamble<|channel|>commentary<|message|>a<|end|>",
            Some(("ocml2.2", true)),
        ),
        (
            "<|start|>user<|message|>a<|literal|><|end|><|endliteral|><|end|>",
            Some(("ocml2.2", true)),
        ),
        (
            "<|start|>user<|message|>a <<|end|> b<|end|>",
            Some(("ocml2.2", true)),
        ),
        (
            "<|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|><|end|>",
            Some(("ocml2.0", true)),
        ),
        (
            "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
            Some(("harmony", true)),
        ),
        (
            "<|start|>assistant<|channel|>commentary <|constrain|>json<|message|>{}<|end|>",
            Some(("harmony", true)),
        ),
        (
            "<|channel|>final<|message|>4<|return|>",
            Some(("harmony", true)),
        ),
        ("<|im_start|>user\na<|im_end|>\n", Some(("chatml", true))),
        (
            "[BOS]<|im_start|>user\na<|im_end|>\n[EOS]",
            Some(("ocml0.1", true)),
        ),
        (
            "<|im_start|>assistant\n<|start_reason|>b<|end_reason|>a<|im_end|>\n",
            Some(("ocml0.1", true)),
        ),
        (
            "prose <|im_start|>user\na<|im_end|>\n",
            Some(("chatml", false)),
        ),
    ];
    for (text, expected) in cases {
        let found = detect(text.as_bytes()).map(|found| (found.dialect.as_str(), found.certain));
        assert_eq!(found, *expected, "{text}");
    }
}
