//! Written elements read back byte by byte, and their content stays content.

use chatmd::{Document, Element, MemoryWorld, check, evaluate, parse, write};
use logue_message::{CallKind, ChatMessage, Content, ContentBlock};
use proptest::prelude::*;

/// Valid documents that an element may be appended to.
const PREFIXES: &[&str] = &[
    "",
    "\u{FEFF}",
    "<config model=\"m\"/>",
    "<user>\nRAW|x|RAW\n\n</user>",
    "<!-- RAW| -->\n",
    "<user>a <b and RAW|x|RAW</user>\n\n",
];

fn messages(text: &str) -> Vec<ChatMessage> {
    let tree = parse(text);
    assert!(
        tree.diagnostics().is_empty(),
        "{text:?}: {:?}",
        tree.diagnostics()
    );
    let (document, diagnostics) = Document::from_tree(&tree);
    assert!(
        diagnostics.iter().all(|finding| !finding.is_error()),
        "{text:?}: {diagnostics:?}"
    );
    let evaluation = evaluate(&document, &mut MemoryWorld::new());
    assert!(!evaluation.has_errors(), "{:?}", evaluation.diagnostics);
    evaluation.messages
}

fn response(id: &str, payload: &str) -> String {
    write::tool_response(
        &write::ToolResponseRecord::new(id, write::Payload::Inline(payload)).with_id(id),
    )
}

fn call(id: &str, payload: &str) -> String {
    write::tool_call(
        &write::ToolCallRecord::new(id, id, write::Payload::Inline(payload))
            .with_id(id)
            .with_custom(true),
    )
}

fn assert_round_trip(payload: &str) {
    let written = response("c", payload);
    let found = messages(&written);
    assert_eq!(found.len(), 1, "{written:?}");
    assert_eq!(found[0].content, Content::Text(payload.to_owned()));
    assert_eq!(found[0].tool_call_id.as_deref(), Some("c"));

    let found = messages(&call("c", payload));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].tool_calls[0].arguments.as_str(), payload);

    if !payload.trim().is_empty() {
        let found = messages(&write::user(payload));
        assert_eq!(found, [ChatMessage::user(payload)]);
        let found = messages(&write::assistant(payload, None));
        assert_eq!(found, [ChatMessage::assistant(payload)]);
    }
}

/// Calls `check` with each row of `alphabet` of the given length, in turn.
fn each_row(alphabet: &[&str], length: usize, check: &mut impl FnMut(&str)) {
    let mut indices = vec![0_usize; length];
    loop {
        let row: String = indices.iter().map(|index| alphabet[*index]).collect();
        check(&row);
        let Some(place) = indices.iter().rposition(|index| index + 1 < alphabet.len()) else {
            return;
        };
        indices[place] += 1;
        indices[place + 1..].fill(0);
    }
}

#[test]
fn every_short_payload_comes_back() {
    let alphabet = ["|", "R", "A", "W", "<", ">", "\n", " ", "x"];
    for length in 0..=5 {
        each_row(&alphabet, length, &mut assert_round_trip);
    }
    // Longer rows through the blocks alone, which is where they could go wrong.
    let mut checked = 0;
    for length in 5..=8 {
        each_row(&["|", "R", "A", "W"], length, &mut |payload| {
            let text = format!("<user>{}</user>", write::raw(payload));
            let tree = parse(&text);
            let run = tree
                .elements()
                .next()
                .and_then(|node| node.children().next());
            assert!(
                matches!(run, Some(chatmd::Child::Text(run)) if run.content() == payload),
                "{text:?}"
            );
            checked += 1;
        });
    }
    assert_eq!(
        checked,
        4_usize.pow(5) + 4_usize.pow(6) + 4_usize.pow(7) + 4_usize.pow(8)
    );
}

#[test]
fn every_short_row_of_markers_comes_back() {
    let markers = [
        "RAW|",
        "|RAW",
        "</user>",
        "<!--",
        "-->",
        "<system>",
        "&lt;",
        "</tool_response>",
        "\n",
        "\"",
    ];
    for length in 0..=3 {
        each_row(&markers, length, &mut assert_round_trip);
    }
}

#[test]
fn raw_blocks_are_split_as_ruled() {
    for (payload, written) in [
        ("", "RAW||RAW"),
        ("|", "RAW|||RAW"),
        ("|RAW", "RAW|||RAWRAW|RAW|RAW"),
        ("RAW|", "RAW|RAW||RAW"),
        ("a|RAW|RAWb", "RAW|a||RAWRAW|RAW||RAWRAW|RAWb|RAW"),
    ] {
        assert_eq!(write::raw(payload), written);
    }
}

#[test]
fn the_layout_of_elements() {
    assert_eq!(
        response("x", "payload"),
        "<tool_response tool_call_id=\"x\" id=\"x\">\nRAW|payload|RAW</tool_response>\n"
    );
    assert_eq!(
        call("x", "a"),
        "<tool_call type=\"custom_tool_call\" tool_call_id=\"x\" function_name=\"x\" id=\"x\">\n\
         RAW|a|RAW</tool_call>\n"
    );
    assert_eq!(
        write::tool_call(&write::ToolCallRecord::new(
            "c",
            "f",
            write::Payload::External("./.chatmd/0.tool-call.c.json")
        )),
        "<tool_call tool_call_id=\"c\" function_name=\"f\">\n  \
         <doc src=\"./.chatmd/0.tool-call.c.json\" local/>\n</tool_call>\n"
    );
    assert_eq!(
        write::reasoning("r", &["a", "b"]),
        "<reasoning id=\"r\">\n<summary>\nRAW|a|RAW</summary>\n<summary>\nRAW|b|RAW</summary>\n\
         </reasoning>\n"
    );
    assert_eq!(
        write::assistant("hi", Some("m")),
        "<assistant id=\"m\">\nRAW|hi|RAW</assistant>\n"
    );
}

#[test]
fn a_newline_separates_an_appended_element_only_where_one_is_needed() {
    for (existing, joined) in [
        ("", "<user>\nRAW|x|RAW</user>\n"),
        ("<user/>", "<user/>\n<user>\nRAW|x|RAW</user>\n"),
        ("<user/>\n", "<user/>\n<user>\nRAW|x|RAW</user>\n"),
    ] {
        assert_eq!(write::append(existing, &write::user("x")), joined);
    }
}

#[test]
fn external_payloads_are_read_from_the_world() {
    let path = "./.chatmd/0 \"quoted\" & <odd>\\";
    let text = write::tool_response(&write::ToolResponseRecord::new(
        "c",
        write::Payload::External(path),
    ));
    let tree = parse(&text);
    let (document, _) = Document::from_tree(&tree);
    let mut world = MemoryWorld::new().with(path, " \n{}|RAW ");
    let evaluation = evaluate(&document, &mut world);
    assert!(evaluation.diagnostics.is_empty());
    assert_eq!(evaluation.messages[0].text(), " \n{}|RAW ");
}

/// Strings that are full of what the language reads.
fn hostile() -> impl Strategy<Value = String> {
    let marker = prop::sample::select(vec![
        "RAW|",
        "|RAW",
        "|",
        "RAW",
        "<user>",
        "</user>",
        "</tool_response>",
        "<!--",
        "-->",
        "<",
        ">",
        "/>",
        "\"",
        "'",
        "\\",
        "&",
        "&lt;",
        "&#92;",
        ";",
        "=",
        "\n",
        "\r\n",
        "\t",
        " ",
        "\0",
        "é",
        "🦀",
        "\u{FEFF}",
        "\u{7f}",
    ])
    .prop_map(str::to_owned);
    prop_oneof![
        any::<String>(),
        prop::collection::vec(prop_oneof![marker, any::<String>()], 0..12)
            .prop_map(|pieces| pieces.concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(512, 10_240)))]

    #[test]
    fn any_payload_comes_back(payload in hostile()) {
        assert_round_trip(&payload);
    }

    #[test]
    fn any_id_and_name_come_back(id in hostile(), item in hostile(), name in hostile()) {
        let call = write::ToolCallRecord::new(&id, &name, write::Payload::Inline("{}"));
        let text = write::tool_call(&call.with_id(item.as_str()));
        let tree = parse(&text);
        prop_assert!(tree.diagnostics().is_empty());
        for attribute in tree.elements().flat_map(|node| node.attributes()) {
            let written = attribute.value_span().and_then(|span| span.text(&text)).unwrap_or_default();
            prop_assert!(!written.contains(['<', '>', '"']), "{:?}", written);
        }
        let (document, _) = Document::from_tree(&tree);
        prop_assert_eq!(document.elements.len(), 1);
        let Element::ToolCall(call) = &document.elements[0] else {
            return Err(TestCaseError::fail("not a call"));
        };
        prop_assert_eq!(&call.tool_call_id, &id);
        prop_assert_eq!(&call.function_name, &name);
        prop_assert_eq!(call.id.as_deref(), Some(item.as_str()));
        prop_assert_eq!(call.kind, CallKind::Function);
    }

    #[test]
    fn reasoning_comes_back(id in hostile(), summary in hostile()) {
        prop_assume!(!summary.is_empty());
        let found = messages(&write::reasoning(&id, &[&summary]));
        let block = ContentBlock::Thinking { text: summary, signature: None, id: Some(id) };
        prop_assert_eq!(found, [ChatMessage::assistant(vec![block])]);
    }

    #[test]
    fn an_appended_element_is_exactly_one_more(
        prefix in prop::sample::select(PREFIXES),
        payloads in prop::collection::vec((hostile(), hostile()), 1..4),
    ) {
        let mut text = prefix.to_owned();
        let before = parse(&text).elements().count();
        for (index, (id, payload)) in payloads.iter().enumerate() {
            let element = match index % 4 {
                0 => call(id, payload),
                1 => response(id, payload),
                2 => write::user(payload),
                _ => write::reasoning(id, &[payload]),
            };
            text = write::append(&text, &element);
            let errors: Vec<_> = check(&text).into_iter().filter(logue_source::Diagnostic::is_error).collect();
            prop_assert!(errors.is_empty(), "{:?}: {:?}", text, errors);
            prop_assert_eq!(parse(&text).children().count(), before + index + 1);
        }
    }
}
