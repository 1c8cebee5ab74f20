//! The laws for all ordered pairs of dialects and JSON forms.

use conversion_laws::{Passage, conversation, corpus, to_json, violation};
use openchatml::convert::{self, ConvertOptions, PlacedTools};
use openchatml::project::{self, JsonFormat};
use openchatml::{Dialect, FrameBuf, Loss, LossKind, Transcript};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Dialect(Dialect),
    Json(JsonFormat),
}

fn forms() -> Vec<Form> {
    let dialects = Dialect::ALL.into_iter().map(Form::Dialect);
    dialects
        .chain(JsonFormat::ALL.into_iter().map(Form::Json))
        .collect()
}

/// Writes a transcript in a form and reads it; `None` if the form refuses it.
fn through(transcript: &Transcript, form: Form, options: &ConvertOptions) -> Option<Passage> {
    Some(match form {
        Form::Dialect(dialect) => {
            let written = convert::write(transcript, dialect, options).ok()?;
            let read = convert::read(written.text.as_bytes(), Some(dialect), options);
            Passage {
                transcript: read.transcript,
                written: written.losses,
                read: read.losses,
            }
        }
        Form::Json(format) => {
            let written = project::write(transcript, format, options).ok()?;
            let read = project::read(written.text.as_bytes(), format, options);
            assert!(
                !read.has_errors(),
                "{format}: {:?}\n{}",
                read.diagnostics,
                written.text
            );
            Passage {
                transcript: read.transcript,
                written: written.losses,
                read: read.losses,
            }
        }
    })
}

fn obeyed(before: &Transcript, passage: &Passage, names: (Form, Form), step: &str) {
    if let Some(law) = violation(before, passage) {
        panic!(
            "{names:?} {step}: {law}\nlosses of writing: {:#?}\nlosses of reading: {:#?}\nbefore: {}\nafter: {}",
            passage.written,
            passage.read,
            to_json(before),
            to_json(&passage.transcript),
        );
    }
}

/// Checks every pair whose first form is `from`.
fn check(transcript: &Transcript, from: Form, options: &ConvertOptions) {
    let Some(normal) = through(transcript, from, options) else {
        return;
    };
    obeyed(transcript, &normal, (from, from), "into the first form");
    for to in forms().into_iter().filter(|to| *to != from) {
        let Some(there) = through(&normal.transcript, to, options) else {
            continue;
        };
        obeyed(&normal.transcript, &there, (from, to), "there");
        let Some(back) = through(&there.transcript, from, options) else {
            continue;
        };
        obeyed(&there.transcript, &back, (from, to), "back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(1_000, 100_000)))]
    #[test]
    fn there_and_back_differs_by_the_listed_losses_only(
        transcript in conversation(), thinking: bool, start in 0..11_usize,
    ) {
        let options = ConvertOptions::default().with_thinking(thinking);
        let forms = forms();
        // Four first forms, each with all the others, keep a run short.
        for from in forms.iter().cycle().skip(start).step_by(3).take(4) {
            check(&transcript, *from, &options);
        }
    }
}

/// Returns lists of declared tools, of which TypeScript or a function list cannot state some.
fn tools() -> impl Strategy<Value = Vec<Value>> {
    let schemas = [
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
        json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 2}}}),
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "<|end|>"]}}}),
    ];
    let names = ["f", "g.h", "of-tide", "two words"];
    let function = (
        proptest::sample::select(names.to_vec()),
        proptest::sample::select(schemas.to_vec()),
        any::<bool>(),
    );
    let function = function.prop_map(|(name, schema, is_strict)| {
        let mut function = json!({"name": name, "description": "D", "parameters": schema});
        if is_strict {
            function["strict"] = json!(true);
        }
        json!({"type": "function", "function": function})
    });
    let other = Just(json!({"type": "web_search", "name": "web"}));
    proptest::collection::vec(prop_oneof![5 => function, 1 => other], 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(300, 20_000)))]
    #[test]
    fn declared_tools_are_kept_or_listed(tools in tools(), instructions: bool) {
        let mut frames = vec![FrameBuf::user("Hi"), FrameBuf::answer("Hello")];
        if instructions {
            frames.insert(0, FrameBuf::developer("Be brief."));
            frames.insert(0, FrameBuf::system("You help."));
        }
        let mut before = Transcript::new(frames);
        before.tools = tools;
        let options = ConvertOptions::default();
        for form in forms() {
            let Some(passage) = through(&before, form, &options) else {
                continue;
            };
            let placed = PlacedTools::beside(&passage.transcript);
            let losses = passage.written.iter().chain(&passage.read);
            let is_listed = |loss: &Loss| {
                use LossKind::{AttributeDropped, DeclarationChanged, DeclarationDropped, SpellingChanged};
                [AttributeDropped, DeclarationChanged, DeclarationDropped, SpellingChanged]
                    .contains(&loss.kind)
            };
            let is_kept = placed.transcript().tools == before.tools;
            let is_listed = losses.filter(|loss| is_listed(loss)).count() > 0;
            prop_assert!(is_kept || is_listed, "{form:?}: {:?}", placed.transcript().tools);
        }
    }
}

#[test]
fn the_corpus_obeys_the_laws() {
    for transcript in corpus() {
        for thinking in [false, true] {
            let options = ConvertOptions::default().with_thinking(thinking);
            for from in forms() {
                check(&transcript, from, &options);
            }
        }
    }
}
