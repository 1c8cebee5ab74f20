//! OpenChatML 0.1 and plain `ChatML`: cases as documents, and what holds for every input.
//!
//! The cases are in `conformance/openchatml/legacy/`. The first code block under a heading is the
//! input without its last newline; `plain` behind its fence reads plain `ChatML`. The second has a
//! line for each message (`+` visible, `-` hidden, `cut` without its end) with its items indented
//! below it, `task` lines for what is no conversation, and one for each finding with the text that
//! it underlines.

use std::fmt::Write as _;

use logue_source::{Diagnostic, Source};
use openchatml::v0_1::{
    Event, Files, Fim, Function, Item, LegacyDocument, LegacyReadOptions, MessageHeader, Stream,
    Task, TextKind, Thought, WriteOptions, parse, to_transcript, write,
};
use openchatml::{
    Channel, Dialect, FrameBuf, FrameRole, LossKind, LossSeverity, Terminator, Transcript,
};
use proptest::prelude::*;

const SUITES: [&str; 2] = [
    include_str!("../../../../conformance/openchatml/legacy/sound.md"),
    include_str!("../../../../conformance/openchatml/legacy/malformed.md"),
];

struct Case {
    title: &'static str,
    options: LegacyReadOptions,
    input: &'static str,
    expected: &'static str,
}

fn cases() -> Vec<Case> {
    let suites = SUITES.into_iter();
    let cases = suites.flat_map(|suite| suite.split("\n## ").skip(1));
    let cases = cases.map(|case| {
        let (title, rest) = case.split_once('\n').unwrap();
        let mut blocks = rest.split("\n```");
        let mut block = || {
            blocks
                .nth(1)
                .map(|block| block.split_once('\n').unwrap_or((block, "")))
        };
        let (info, input) = block().unwrap_or_else(|| panic!("{title}: no input"));
        let (_, expected) = block().unwrap_or_else(|| panic!("{title}: nothing expected"));
        Case {
            title,
            options: if info == "text plain" {
                LegacyReadOptions::plain()
            } else {
                LegacyReadOptions::default()
            },
            input,
            expected,
        }
    });
    cases.collect()
}

#[test]
fn every_case_reads_as_expected() {
    let mut failed = String::new();
    let cases = cases();
    for case in &cases {
        let found = dump(&parse(case.input.as_bytes(), &case.options));
        if found.trim_end() != case.expected.trim_end() {
            let (title, expected) = (case.title, case.expected);
            writeln!(failed, "## {title}\nexpected:\n{expected}\nfound:\n{found}").unwrap();
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(cases.len() >= 60, "only {} cases were found", cases.len());
}

fn dump(document: &LegacyDocument<'_>) -> String {
    let mut out = String::new();
    for message in document.messages() {
        let shown = if message.head.is_visible() { '+' } else { '-' };
        let role = match message.head.role {
            _ if message.head.stray => "STRAY",
            role => role.as_str().unwrap_or("OTHER"),
        };
        write!(out, "{shown} {role}").unwrap();
        if let Some(name) = &message.head.name {
            write!(out, " name={name}").unwrap();
        }
        writeln!(out, " {}", if message.complete { "end" } else { "cut" }).unwrap();
        for item in &message.items {
            match *item {
                Item::Text(span) => writeln!(out, "  text {:?}", document.text(span)),
                Item::Thought(thought, span) => {
                    writeln!(out, "  {} {:?}", thought.as_str(), document.text(span))
                }
                Item::Flag(thought, _) => writeln!(out, "  flag {}", thought.as_str()),
                Item::Unfinished(function, span) => {
                    let text = document.text(span);
                    writeln!(out, "  cut {} {text:?}", word(function))
                }
                Item::Function(function, span) => {
                    writeln!(out, "  {} {:?}", word(function), document.text(span))
                }
            }
            .unwrap();
        }
    }
    match document.task() {
        None => {}
        Some(Task::Fim(gap)) => writeln!(out, "task {}", fim(&gap)).unwrap(),
        Some(Task::Files(files)) => {
            writeln!(out, "task files leading={}", files.leading).unwrap();
            for file in &files.files {
                writeln!(out, "  file {:?}", String::from_utf8_lossy(file)).unwrap();
            }
            for (index, gap) in files.gaps() {
                writeln!(out, "  in file {}: {}", index + 1, fim(&gap)).unwrap();
            }
        }
    }
    let source = Source::new("case", document.source());
    for finding in document.diagnostics() {
        assert!(
            finding.expected.is_some() && !finding.help.is_empty(),
            "{finding:?}"
        );
        let at = source.line_column(finding.primary.start);
        let text = String::from_utf8_lossy(finding.primary.bytes(document.source()));
        let (severity, code) = (finding.severity.as_str(), finding.code);
        writeln!(out, "{severity} {code} {}:{} {text:?}", at.line, at.column).unwrap();
    }
    out
}

fn word(function: Function) -> &'static str {
    match function {
        Function::List => "list",
        Function::Call => "call",
        Function::Output => "output",
    }
}

fn fim(gap: &Fim<'_>) -> String {
    let [prefix, middle, suffix] =
        [gap.prefix, gap.middle, gap.suffix].map(|part| String::from_utf8_lossy(part).into_owned());
    format!("fim prefix={prefix:?} middle={middle:?} suffix={suffix:?}")
}

/// What a reader told, deltas merged.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    messages: Vec<HeardMessage>,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, PartialEq)]
struct HeardMessage {
    head: MessageHeader,
    items: Vec<HeardItem>,
    complete: bool,
}

#[derive(Debug, PartialEq)]
enum HeardItem {
    Text(String),
    Thought(Thought, String),
    Flag(Thought),
    Function(Function, String),
    Unfinished(Function, String),
}

fn hear<'b>(pieces: impl IntoIterator<Item = &'b [u8]>, options: &LegacyReadOptions) -> Heard {
    let mut heard = Heard::default();
    // Whether more text belongs to the item at hand.
    let mut more = false;
    let mut sink = |event: Event<'_>| {
        let items = heard.messages.last_mut().map(|message| &mut message.items);
        let joins = std::mem::take(&mut more);
        match event {
            Event::Start(head) => heard.messages.push(HeardMessage {
                head: head.clone(),
                items: Vec::new(),
                complete: false,
            }),
            Event::Delta { kind, text } => {
                more = true;
                assert!(!text.is_empty());
                let items = items.unwrap();
                match (kind, items.last_mut()) {
                    (TextKind::Text, Some(HeardItem::Text(all))) if joins => all.push_str(text),
                    (TextKind::Thought(_), Some(HeardItem::Thought(_, all))) if joins => {
                        all.push_str(text);
                    }
                    (TextKind::Text, _) => items.push(HeardItem::Text(text.to_owned())),
                    (TextKind::Thought(_), _) => panic!("a thought that did not begin"),
                }
            }
            Event::ThoughtStart(thought) => {
                more = true;
                items
                    .unwrap()
                    .push(HeardItem::Thought(thought, String::new()));
            }
            Event::Flag(thought) => items.unwrap().push(HeardItem::Flag(thought)),
            Event::Function(function, json) => items
                .unwrap()
                .push(HeardItem::Function(function, json.to_owned())),
            Event::Unfinished(function, text) => items
                .unwrap()
                .push(HeardItem::Unfinished(function, text.to_owned())),
            Event::End(ended) => heard.messages.last_mut().unwrap().complete = ended.complete,
            Event::Diagnostic(found) => {
                more = joins;
                heard.diagnostics.push(found);
            }
            _ => {}
        }
    };
    let mut stream = Stream::new(options.clone());
    for piece in pieces {
        stream.push(piece, &mut sink);
    }
    stream.finish(&mut sink);
    heard
}

fn read(source: &[u8], options: &LegacyReadOptions) -> Heard {
    let document = parse(source, options);
    if document.task().is_some() && !options.plain {
        // A stream cannot know that no message follows.
        return hear([source], options);
    }
    let messages = document.messages().iter().map(|message| {
        let text = |span| document.text(span).into_owned();
        let items = message.items.iter().map(|item| match *item {
            Item::Text(span) => HeardItem::Text(text(span)),
            Item::Thought(thought, span) => HeardItem::Thought(thought, text(span)),
            Item::Flag(thought, _) => HeardItem::Flag(thought),
            Item::Function(function, span) => HeardItem::Function(function, text(span)),
            Item::Unfinished(function, span) => HeardItem::Unfinished(function, text(span)),
        });
        HeardMessage {
            head: message.head.clone(),
            items: items.collect(),
            complete: message.complete,
        }
    });
    Heard {
        messages: messages.collect(),
        diagnostics: document.diagnostics().to_vec(),
    }
}

fn assert_tiles(source: &[u8], options: &LegacyReadOptions) {
    let document = parse(source, options);
    let mut at = 0;
    for piece in document.pieces() {
        assert_eq!(piece.span().start, at);
        at = piece.span().end;
    }
    assert_eq!(at, source.len());
}

#[test]
fn every_split_of_every_case_is_the_whole() {
    for case in cases() {
        let source = case.input.as_bytes();
        let whole = read(source, &case.options);
        for at in 0..=source.len() {
            let (one, two) = source.split_at(at);
            assert_eq!(
                hear([one, two], &case.options),
                whole,
                "{} at {at}",
                case.title
            );
        }
        assert_eq!(
            hear(source.chunks(1), &case.options),
            whole,
            "{}",
            case.title
        );
        assert_tiles(source, &case.options);
    }
}

const TOKENS: [&str; 18] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|start_reflect|>",
    "<|start_introspect|>",
    "<|start_reason|>",
    "<|end_reflect|>",
    "<|end_introspect|>",
    "<|end_reason|>",
    "<|reflect|>",
    "<|introspect|>",
    "<|reason|>",
    "<|function_list|>",
    "<|function_call|>",
    "<|function_output|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|file_separator|>",
];

fn broken() -> impl Strategy<Value = Vec<u8>> {
    let words = vec![
        "user\n",
        "assistant\n",
        "system\n",
        "tool\n",
        "assistant name=a\n",
        "\n",
        "\n\n",
        " ",
        "[BOS]",
        "[EOS]",
        "<s>",
        "[BO",
        "text",
        "{\"name\":\"f\",\"arguments\":{}}",
        "{\"name\":\"f\",\"content\":[1]}",
        "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
        "{\"a\":",
        "{",
        "}",
        "\"",
        "\\",
        "<",
        "<|",
        "<|im_",
        "é",
    ];
    let piece = prop_oneof![
        5 => proptest::sample::select(TOKENS.to_vec()).prop_map(|token| token.as_bytes().to_vec()),
        3 => Just(b"<|im_start|>assistant\n".to_vec()),
        5 => proptest::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..3),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Text with and without tokens in it.
fn body() -> impl Strategy<Value = String> {
    let token = proptest::sample::select(TOKENS.to_vec());
    let piece = prop_oneof![
        1 => token.prop_map(str::to_owned),
        6 => "[a-zé<|>{}\"\\\\ \n]{0,6}",
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn any_frame() -> impl Strategy<Value = FrameBuf> {
    let json = prop_oneof![
        Just("{\"a\": \"<|im_end|>\"}".to_owned()),
        Just("{}".to_owned()),
        Just("\"quoted\"".to_owned()),
        Just("12".to_owned()),
        body()
    ];
    let name =
        prop_oneof![3 => "[a-z]{1,4}", 1 => "[a-z \n<|>]{0,4}", 1 => Just("<|im_end|>".to_owned())];
    let role = proptest::sample::select(vec![
        FrameRole::System,
        FrameRole::Developer,
        FrameRole::User,
        FrameRole::Assistant,
    ]);
    let channel = proptest::sample::select(vec![
        None,
        Some(Channel::Analysis),
        Some(Channel::Commentary),
        Some(Channel::Final),
        Some(Channel::Unknown),
    ]);
    prop_oneof![
        4 => (role, channel, body(), proptest::option::of(name.clone())).prop_map(|(role, channel, body, name)| {
            let mut frame = FrameBuf::new(role, body);
            frame.channel = channel;
            frame.name = name;
            frame
        }),
        1 => (name.clone(), json.clone()).prop_map(|(name, body)| FrameBuf::call(format!("functions.{name}"), "c", body)),
        1 => (name, json).prop_map(|(name, body)| FrameBuf::reply(format!("functions.{name}"), "c", body)),
    ]
}

/// A frame without what a loss names or an id that reading assigns.
fn bare(frame: &FrameBuf) -> (FrameRole, Option<String>, Channel, String, bool) {
    let name = frame.name.clone();
    (
        frame.role,
        name,
        frame.effective_channel(),
        frame.body.clone(),
        frame.is_call(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(500, 40_000)))]

    #[test]
    fn any_pieces_of_anything_are_the_whole(source in broken(), size in 1..9_usize, plain: bool) {
        let options = if plain { LegacyReadOptions::plain() } else { LegacyReadOptions::default() };
        prop_assert_eq!(hear(source.chunks(size), &options), read(&source, &options));
        assert_tiles(&source, &options);
    }

    /// Whatever stands in bodies and names: what is written and has no loss reads back as the same
    /// frames, and nothing else appears.
    #[test]
    fn nothing_can_be_forged(frames in proptest::collection::vec(any_frame(), 0..5), plain: bool) {
        let (reading, writing) = if plain {
            (LegacyReadOptions::plain(), WriteOptions::plain())
        } else {
            (LegacyReadOptions::default(), WriteOptions::default())
        };
        let transcript = Transcript::new(frames.clone());
        let Ok(written) = write(&transcript, &writing) else {
            return Ok(());
        };
        let document = parse(written.text.as_bytes(), &reading);
        prop_assert!(document.diagnostics().is_empty(), "{}", written.text);
        let (back, _) = to_transcript(&document);
        let lost = |index: usize, words: &[&str]| written.losses.iter().any(|loss| {
            let text = loss.to_string();
            text.starts_with(&format!("frame {}: ", index + 1)) && words.iter().any(|word| text.contains(word))
        });
        let changes = ["dropped: ", "reasoning", "commentary becomes", "becomes an answer", "the call is dropped", "spelled", "an empty answer", "become blocks", "channel dropped", "function of"];
        let kept = frames.iter().enumerate().filter(|(index, _)| !lost(*index, &["dropped: ", "reasoning dropped", "the call is dropped", "an empty answer"]));
        let kept: Vec<_> = kept.collect();
        if !kept.iter().any(|(index, _)| lost(*index, &["become blocks"])) {
            prop_assert_eq!(back.frames.len(), kept.len(), "{}", written.text);
            for ((index, frame), back) in kept.into_iter().zip(&back.frames) {
                // A tool's name may lose or gain its namespace.
                let unchanged = !lost(index, &changes) && (!plain || frame.role != FrameRole::Tool);
                if unchanged {
                    prop_assert_eq!(bare(frame), bare(back), "{}", written.text);
                }
                prop_assert!(back.role.authority() <= frame.role.authority());
                prop_assert!(!back.visibility().is_visible() || frame.visibility().is_visible());
            }
        }
        // What was read is written the same.
        let again = write(&back, &writing).unwrap();
        prop_assert_eq!(again.text, written.text);
    }
}

#[test]
fn a_transcript_of_a_whole_turn() {
    let text = "[BOS]<|im_start|>system\nBe kind.<|reflect|>\n<|im_end|>\n<|im_start|>user name=Ann\nTSLA?\n<|im_end|>\n<|im_start|>assistant\n<|start_reason|>Look it up.<|end_reason|>\n<|function_call|>\n{\"name\": \"stock\", \"arguments\": {\"symbol\":\"TSLA\"}}\n<|function_call|>\n{\"name\": \"news\", \"arguments\": {}}\n<|im_end|>\n<|im_start|>tool\n<|function_output|>\n{\"name\": \"stock\", \"content\": {\"price\": 2.50}}\n<|im_end|>\n<|im_start|>tool\n<|function_output|>\n{\"name\": \"news\", \"content\": \"none\"}\n<|im_end|>\n<|im_start|>assistant\n2.50.\n<|im_end|>[EOS]\n";
    let document = parse(text.as_bytes(), &LegacyReadOptions::default());
    let (transcript, losses) = to_transcript(&document);
    let no_channel = |role, body: &str| FrameBuf::new(role, body);
    assert_eq!(
        transcript.frames,
        [
            no_channel(FrameRole::System, "Be kind.<|reflect|>"),
            no_channel(FrameRole::User, "TSLA?").with_name("Ann"),
            FrameBuf::analysis("Look it up."),
            FrameBuf::call("functions.stock", "call_1", "{\"symbol\":\"TSLA\"}"),
            FrameBuf::call("functions.news", "call_2", "{}"),
            FrameBuf::reply("functions.stock", "call_1", "{\"price\": 2.50}"),
            FrameBuf::reply("functions.news", "call_2", "none"),
            no_channel(FrameRole::Assistant, "2.50."),
        ]
    );
    let assigned = losses
        .iter()
        .filter(|loss| loss.message.contains("was assigned"));
    assert_eq!(assigned.count(), 4);
    let written = write(&transcript, &WriteOptions::default()).unwrap();
    assert_eq!(written.text, text);
    let strict = WriteOptions::default().with_strict(LossSeverity::Identity);
    // Reading assigns the same ids again.
    let kinds = write(&transcript, &strict).unwrap().losses;
    let kinds: Vec<_> = kinds.iter().map(|loss| loss.kind).collect();
    assert_eq!(kinds, [LossKind::Implied; 4]);
}

#[test]
fn what_has_no_place_is_listed() {
    let table: [(FrameBuf, &str); 9] = [
        (
            FrameBuf::developer("x"),
            "dropped: no role of this version has a developer's rank",
        ),
        (FrameBuf::preamble("x"), "the preamble becomes an answer"),
        (
            FrameBuf::answer("x").with_terminator(Terminator::Return),
            "`<|return|>` dropped",
        ),
        (
            FrameBuf::analysis("<|start_reason|>x"),
            "the markers of reasoning become blocks of their own",
        ),
        (
            FrameBuf::analysis("<|start_reflect|>a<|start_reason|>b"),
            "the markers of reasoning become blocks of their own",
        ),
        (
            FrameBuf::call("functions.f", "c", "no json"),
            "the call is dropped: its arguments are not a JSON object",
        ),
        (
            FrameBuf::call("functions.f", "c", "{\"a\":\"<|im_end|>\"}"),
            "`<` before a bar is spelled `\\u003c`",
        ),
        (
            FrameBuf::user("x").with_channel(Channel::Analysis),
            "dropped: it is hidden, and this version would show it",
        ),
        (
            FrameBuf::user("x").with_content_type("text"),
            "content_type dropped",
        ),
    ];
    for (frame, loss) in table {
        let written = write(&Transcript::new(vec![frame]), &WriteOptions::default()).unwrap();
        let losses: Vec<_> = written
            .losses
            .iter()
            .map(|loss| loss.message.as_str())
            .collect();
        assert!(losses.contains(&loss), "{losses:?} has no {loss:?}");
    }
}

#[test]
fn what_spells_a_token_is_refused() {
    for token in TOKENS {
        for frame in [
            FrameBuf::user(token),
            FrameBuf::answer(token),
            FrameBuf::user("a").with_name(token),
        ] {
            assert!(write(&Transcript::new(vec![frame]), &WriteOptions::default()).is_err());
        }
    }
    let plain = write(
        &Transcript::new(vec![FrameBuf::user("<|reason|>")]),
        &WriteOptions::plain(),
    );
    assert!(plain.is_ok());
}

#[test]
fn tasks_are_written_as_they_were_read() {
    let files =
        b"\n<|file_separator|>one\n<|file_separator|><|fim_prefix|>a<|fim_middle|>b<|fim_suffix|>c";
    let read = Files::read(files).unwrap();
    assert_eq!(read.gaps().count(), 1);
    assert_eq!(read.write(), files.trim_ascii_start());
    let gap = Fim::read(b"<|fim_prefix|>a<|fim_middle|>b<|fim_suffix|>c").unwrap();
    assert_eq!(gap.filled(), b"abc");
    for bad in [
        "<|fim_prefix|>a<|fim_suffix|>c",
        "x<|fim_prefix|>a<|fim_middle|><|fim_suffix|>c",
        "<|fim_prefix|>a<|fim_middle|>b<|fim_suffix|>c<|fim_prefix|>",
    ] {
        assert_eq!(Fim::read(bad.as_bytes()), None);
    }
}

/// Texts without a conversation become what a user asks, in every dialect.
#[test]
fn tasks_are_conversations() {
    let options = openchatml::convert::ConvertOptions::default();
    for (text, expected) in [
        (
            "<|fim_prefix|>The capital is <|fim_middle|>Paris<|fim_suffix|>, a city.",
            "<|start|>user<|message|><|fim_prefix|>The capital is <|fim_middle|><|fim_suffix|>, a city.<|end|>\
             <|start|>assistant<|channel|>final<|message|>Paris<|end|>",
        ),
        (
            "<|fim_prefix|>a<|fim_middle|><|fim_suffix|>b",
            "<|start|>user<|message|><|fim_prefix|>a<|fim_middle|><|fim_suffix|>b<|end|>",
        ),
        (
            "a.py\n<|file_separator|>\nb.py",
            "<|start|>user<|message|>a.py\n<|file_separator|>\nb.py<|end|>",
        ),
    ] {
        let read = openchatml::convert::read(text.as_bytes(), Some(Dialect::V0_1), &options);
        let kinds: Vec<_> = read.losses.iter().map(|loss| loss.kind.as_str()).collect();
        assert_eq!(kinds, ["regrouped"], "{text}");
        let harmony = Dialect::Harmony;
        let written = openchatml::convert::write(&read.transcript, harmony, &options).unwrap();
        assert_eq!(written.text, expected);
    }
}
