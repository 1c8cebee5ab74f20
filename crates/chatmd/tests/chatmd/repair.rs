//! Damaged transcripts become readable without a loss of content.

use chatmd::{ContentItem, Document, Element, RepairKind, check, parse, repair, write};
use proptest::prelude::*;

/// The repairs of a text, by name.
fn kinds(text: &str) -> Vec<&'static str> {
    let changes = repair(text).changes;
    changes.iter().map(|change| change.kind.as_str()).collect()
}

fn assert_repairs(text: &str, expected: &str, names: &[&str]) {
    let repaired = repair(text);
    assert_eq!(repaired.text, expected, "of {text:?}");
    assert_eq!(kinds(text), names, "of {text:?}");
    assert_eq!(repaired.remaining, [], "of {text:?}");
    let again = repair(&repaired.text);
    assert_eq!((again.text, again.changes), (repaired.text, Vec::new()));
}

const CALL: &str = "<tool_call tool_call_id=\"c\" function_name=\"f\">";
const ASKED: &str = "<user>x</user>\n<assistant>y</assistant>\n";

#[test]
fn stubs_get_their_slash() {
    let table = [
        (
            format!("{CALL}\n\t<doc src=\"./.chatmd/0.json\" local>\n</tool_call>\n<user>x</user>"),
            format!(
                "{CALL}\n\t<doc src=\"./.chatmd/0.json\" local/>\n</tool_call>\n<user>x</user>"
            ),
            vec!["stub"],
        ),
        (
            format!(
                "{CALL}<doc src=a></tool_call><tool_response tool_call_id='c'> <doc src='b' > </tool_response>"
            ),
            format!(
                "{CALL}<doc src=a/></tool_call><tool_response tool_call_id='c'> <doc src='b' /> </tool_response>"
            ),
            vec!["stub", "stub"],
        ),
        (
            "<config model=\"m\">\n<import src=\"i\">\n<user>x <img src=\"p\"> y</user>".to_owned(),
            "<config model=\"m\"/>\n<import src=\"i\"/>\n<user>x <img src=\"p\"/> y</user>"
                .to_owned(),
            vec!["stub", "stub", "stub"],
        ),
        (
            "<user><agent src=\"a\">see <doc src=\"b\"></agent></user>".to_owned(),
            "<user><agent src=\"a\">see <doc src=\"b\"/></agent></user>".to_owned(),
            vec!["stub"],
        ),
    ];
    for (text, expected, names) in table {
        assert_repairs(&text, &expected, &names);
    }
}

#[test]
fn summaries_that_quote_tags_become_blocks() {
    let record =
        |body: &str| format!("<reasoning id=\"r\">\n{body}</reasoning>\n\n<user>x</user>\n");
    let bad = [
        "use `<tool name=\"x\"/>` twice: <tool name=\"x\"/>",
        "a <config line, a \"<config \" and <doc src=\"",
        "the end is </reasoning> and </summary> in a sentence, <user> too",
        "a comment begins with <!-- and RAW| is never closed <tool/>",
        "it ends in |RAW, twice: |RAW <tool/>",
        "<reasoning><summary>one</summary></reasoning> in a sentence",
    ];
    for body in bad {
        for end in ["</summary>\n", "</summary>\n\n", "\t</summary >\n"] {
            let text = record(&format!("<summary>\n{body}\n{end}"));
            let block = write::raw(&format!(
                "\n{body}\n{}",
                if end.starts_with('\t') { "\t" } else { "" }
            ));
            let expected = record(&format!("<summary>{block}{}", end.trim_start()));
            assert_repairs(&text, &expected, &["summary"]);
            let two = record(&format!(
                "<summary>\n{body}\n{end}<summary>\nfine\n</summary>\n"
            ));
            let expected = record(&format!(
                "<summary>{block}{}<summary>\nfine\n</summary>\n",
                end.trim_start()
            ));
            assert_repairs(&two, &expected, &["summary"]);
        }
    }
    // In a text of one line, the first possible end tag is the end.
    assert_repairs(
        "<user>x</user><reasoning id=\"r\"><summary>a <tool/> b</summary><summary>c</summary></reasoning>",
        "<user>x</user><reasoning id=\"r\"><summary>RAW|a <tool/> b|RAW</summary><summary>c</summary></reasoning>",
        &["summary"],
    );
}

#[test]
fn mentions_in_messages_become_text() {
    let table = [
        (
            "<user>a <summary>b <tool name='x'/></summary> c</user>",
            "a <summary>b <tool name='x'/></summary> c",
        ),
        ("<user>use <tool/> now</user>", "use <tool/> now"),
        (
            "<user>the <tool> tag and the </tool> tag</user>",
            "the <tool> tag and the </tool> tag",
        ),
        ("<user>the </tool> tag</user>", "the </tool> tag"),
        (
            "<user>a <summary> that goes on</user>",
            "a <summary> that goes on",
        ),
        (
            "<user>the <doc> tag and <agent></user>",
            "the <doc> tag and <agent>",
        ),
        (
            "<assistant><b>\n\n<summary>x</summary>\n</assistant>",
            "<b>\n\n<summary>x</summary>\n",
        ),
        (
            "<user>|  <tool/> <tool/>\n<tool/> |</user>",
            "|  <tool/> <tool/>\n<tool/> |",
        ),
        ("<user>RAW|x|RAW <tool/> RAW|y|RAW</user>", "x <tool/>y"),
        (
            "<user><summary>a <!-- c -->RAW|<b>|RAW |RAW</summary></user>",
            "<summary>a <b> |RAW</summary>",
        ),
        (
            "<system>say <user>x</user> or <config model=\"m\"/></system>",
            "say <user>x</user> or <config model=\"m\"/>",
        ),
        (
            "<msg role=\"user\">a <tool name=\"b\"> c</msg>",
            "a <tool name=\"b\"> c",
        ),
    ];
    for (text, said) in table {
        let repaired = repair(text);
        assert_eq!(repaired.remaining, [], "of {text:?}");
        assert!(
            repaired
                .changes
                .iter()
                .all(|change| change.kind == RepairKind::Mention),
            "{text:?}: {:?}",
            repaired.changes
        );
        let tree = parse(&repaired.text);
        let (document, found) = Document::from_tree(&tree);
        assert_eq!(found, [], "of {text:?}: {}", repaired.text);
        let [Element::Message(message)] = &document.elements[..] else {
            panic!("one message: {}", repaired.text)
        };
        let [ContentItem::Text(text_item)] = &message.content[..] else {
            panic!("one text: {}", repaired.text)
        };
        assert_eq!(text_item.text, said, "of {text:?}");
        assert_eq!(comments(&repaired.text), comments(text));
    }
}

#[test]
fn indentation_is_undone_where_the_layout_proves_it() {
    assert_repairs(
        "<assistant id=\"a\">\n\tRAW|\n\t\tone\n\t\t\n\t\t\ttwo\n\t|RAW\n</assistant>\n",
        "<assistant id=\"a\">\nRAW|one\n\n\ttwo|RAW\n</assistant>\n",
        &["indentation"],
    );
    assert_repairs(
        &format!("{CALL}\n\tRAW|\n\t\t{{\"a\":1}}\n\t|RAW\n</tool_call>\n"),
        &format!("{CALL}\nRAW|{{\"a\":1}}|RAW\n</tool_call>\n"),
        &["indentation"],
    );
    for text in [
        "<assistant>\n\tRAW|\n\t\tone\n\ttwo\n\t|RAW\n</assistant>",
        "<assistant>\n\tRAW|\n\t\tone\n\n\t\ttwo\n\t|RAW\n</assistant>",
        "<assistant>\nRAW|\n\t\tone\n\t\ttwo\n|RAW\n</assistant>",
        "<assistant>\n\tRAW|\n\t\tone\n\t|RAW more\n</assistant>",
        "<assistant>\n\tRAW|\n\t\tone\n\t|RAW\n\tRAW|\n\t\ttwo\n\t|RAW\n</assistant>",
        "<user>\n\tRAW|\n\t\tone\n\t|RAW\n</user>",
    ] {
        assert_repairs(text, text, &[]);
    }
}

#[test]
fn the_last_element_is_closed_where_that_is_safe() {
    let table = [
        (
            "<assistant id=\"a\">one",
            "<assistant id=\"a\">one</assistant>\n",
        ),
        (
            "<assistant>\nRAW|one <b>\n",
            "<assistant>\nRAW|one <b>\n|RAW\n</assistant>\n",
        ),
        (
            "<tool_response tool_call_id=\"c\">RAW|x",
            "<tool_response tool_call_id=\"c\">RAW|x|RAW\n</tool_response>\n",
        ),
        (
            "<reasoning id=\"r\">\n<summary>\na",
            "<reasoning id=\"r\">\n<summary>\na</summary>\n</reasoning>\n",
        ),
        (
            "<reasoning id=\"r\">\n<summary>\na <tool/> \"<config",
            "<reasoning id=\"r\">\n<summary>RAW|\na <tool/> \"<config|RAW</summary>\n</reasoning>\n",
        ),
        (
            "<reasoning id=\"r\">\n",
            "<reasoning id=\"r\">\n</reasoning>\n",
        ),
    ];
    for (end, closed) in table {
        let call = format!("{CALL}{{}}</tool_call>\n");
        assert_repairs(
            &[&call, end].concat(),
            &[&call, closed].concat(),
            &["unclosed"],
        );
    }
    for end in [
        // Truncated arguments are not arguments.
        format!("{CALL}\nRAW|{{\"a\":"),
        CALL.to_owned(),
        // The block was left open long before the end.
        "<assistant>RAW|x\n</assistant>\n<user>y</user>\n".to_owned(),
        "<assistant>RAW|x</assistant>".to_owned(),
        "<assistant>x <!-- y".to_owned(),
        "<assistant id=\"".to_owned(),
        "<user>x\n<assistant>y</assistant>".to_owned(),
    ] {
        let text = [ASKED, &end].concat();
        let repaired = repair(&text);
        assert_eq!(
            (repaired.text.as_str(), repaired.changes.len()),
            (text.as_str(), 0)
        );
        assert!(!repaired.remaining.is_empty(), "{text:?}");
    }
}

#[test]
fn empty_messages_that_were_to_be_filled_in_are_removed() {
    let table = [
        ("<user>\n\n</user>", ""),
        (
            "\n<user>\n\n</user>\n<user>more</user>\n",
            "\n<user>more</user>\n",
        ),
        ("<user>\n</user>\n\n<user></user>", ""),
        ("<user></user> <!-- c -->", " <!-- c -->"),
    ];
    for (end, expected) in table {
        let (text, expected) = ([ASKED, end].concat(), [ASKED, expected].concat());
        let names = kinds(&text);
        assert!(
            !names.is_empty() && names.iter().all(|name| *name == "template"),
            "{text:?}"
        );
        assert_repairs(&text, &expected, &names);
    }
    // A prompt that waits for its first words, and messages that are there for a reason.
    for text in [
        "<system>x</system>\n<user>\n\n</user>",
        "<user></user>\n<assistant>x</assistant>",
        &[ASKED, "<user><!-- say more --></user>"].concat(),
        &[ASKED, "<user name=\"eve\"></user>"].concat(),
        &[ASKED, "<user></user><assistant>z</assistant>"].concat(),
    ] {
        assert_repairs(text, text, &[]);
    }
}

#[test]
fn places_are_those_of_the_text_that_was_given() {
    let text = format!(
        "<reasoning id=\"r\"><summary>a <tool/> é</summary></reasoning>\n{CALL}é<doc src='é'></tool_call>\n\
         <user>é <tool/></user>\n<assistant>\n\tRAW|\n\t\té\n\t|RAW\n</assistant>\n<tool name=\"é\"/>"
    );
    let repaired = repair(&text);
    let places: Vec<_> = repaired
        .changes
        .iter()
        .map(|change| (change.kind, change.span.text(&text).unwrap()))
        .collect();
    assert_eq!(
        places,
        [
            (RepairKind::Summary, "<summary>"),
            (RepairKind::Stub, "<doc src='é'>"),
            (RepairKind::Mention, "<tool/>"),
            (RepairKind::Indentation, "RAW|\n\t\té\n\t|RAW"),
        ]
    );
    assert_eq!(repaired.remaining.len(), 1, "{:?}", repaired.remaining);
    assert_eq!(
        repaired.remaining[0].primary.text(&text),
        Some("<tool name=\"é\"/>")
    );
}

#[test]
fn errors_name_the_repair_that_mends_them() {
    for text in [
        format!("{CALL}<doc src='a' local></tool_call>"),
        "<reasoning id=\"r\"><summary>a <tool/></summary></reasoning>".to_owned(),
        "<reasoning id=\"r\"><summary>a <doc src=\" </summary></reasoning>".to_owned(),
        "<config model=\"m\">".to_owned(),
        "<user>the </tool> tag</user>".to_owned(),
        "<assistant>x".to_owned(),
        "<assistant>RAW|x".to_owned(),
    ] {
        assert!(repair(&text).remaining.is_empty(), "{text:?}");
        let found = check(&text);
        let errors: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
        assert!(!errors.is_empty());
        for error in errors {
            assert!(
                error
                    .help
                    .iter()
                    .any(|help| help.contains("`logue fix FILE`")),
                "{text:?}: {error:?}"
            );
        }
    }
    for text in [
        "text",
        "<user>x</assistant>",
        "<user/><tool name=\"nobody\"/>",
    ] {
        let found = check(text);
        assert!(
            found
                .iter()
                .flat_map(|found| &found.help)
                .all(|help| !help.contains("logue fix"))
        );
    }
}

fn comments(text: &str) -> Vec<String> {
    let tree = parse(text);
    tree.tokens()
        .filter(|token| token.kind == chatmd::TokenKind::Comment)
        .filter_map(|token| token.span.text(text).map(str::to_owned))
        .collect()
}

/// Asserts that a repair keeps all bytes except white space and removed messages.
fn assert_keeps_everything(text: &str) {
    let repaired = repair(text);
    let mut given = text.to_owned();
    for change in repaired.changes.iter().rev() {
        if change.kind == RepairKind::Template {
            given.replace_range(change.span.range(), "");
        }
    }
    let mut kept = repaired.text.bytes();
    for byte in given.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        assert!(
            kept.any(|kept| kept == byte),
            "{text:?} became {:?} and lost {:?}",
            repaired.text,
            char::from(byte)
        );
    }
    let sound = check(text).iter().all(|found| !found.is_error());
    let still_sound = repaired.remaining.is_empty();
    assert!(!sound || still_sound, "{text:?} became {:?}", repaired.text);
    for change in &repaired.changes {
        assert!(change.span.text(text).is_some(), "{change:?} in {text:?}");
    }
    for error in &repaired.remaining {
        assert!(error.primary.text(text).is_some(), "{error:?} in {text:?}");
    }
    if repaired.changes.is_empty() {
        assert_eq!(repaired.text, text);
    }
}

/// Text that a model may have written, with anything quoted in it.
fn body() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "text",
        " ",
        "\n",
        "\n\n",
        "`<tool name=\"x\"/>`",
        "<config",
        "\"<config ",
        "<user>",
        "</user>",
        "<doc src='",
        "<!--",
        "-->",
        "RAW|",
        "|RAW",
        "|",
        "</tool>",
        "<summary>",
        "</summary> x",
        "<b>",
        "<",
        ">",
        "\"",
        "'",
        "é",
        "</reasoning> x",
        "\t\t",
        "&lt;",
    ]);
    prop::collection::vec(pieces, 0..12).prop_map(|pieces| format!("so {}.", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(512, 10_240)))]

    #[test]
    fn a_transcript_of_the_older_program_comes_back_whole(
        summaries in prop::collection::vec(body(), 0..4), answer in body(), result in body()
    ) {
        // Answers and results were in blocks, which cannot hold what ends one.
        let answer = answer.replace("RAW", "raw");
        let result = result.replace("RAW", "raw");
        let mut text = "<user>\nGo on.\n</user>\n\n<reasoning id=\"r\">\n".to_owned();
        for summary in &summaries {
            text.push_str(&format!("<summary>\n{summary}\n</summary>\n\n"));
        }
        text.push_str("</reasoning>\n\n");
        text.push_str(&format!("{CALL}\n\t<doc src=\"./.chatmd/0.json\" local>\n</tool_call>\n"));
        text.push_str(&format!("<tool_response tool_call_id=\"c\">\nRAW|\n{result}\n|RAW\n</tool_response>\n"));
        text.push_str(&format!(
            "<assistant id=\"a\">\n\tRAW|\n\t\t{}\n\t|RAW\n</assistant>\n",
            answer.replace('\n', "\n\t\t")
        ));
        text.push_str("\n<user>\n\n</user>");
        assert_keeps_everything(&text);

        let repaired = repair(&text);
        prop_assert_eq!(&repaired.remaining, &[], "{}", repaired.text);
        let tree = parse(&repaired.text);
        let (document, _) = Document::from_tree(&tree);
        let [Element::Message(_), Element::Reasoning(reasoning), Element::ToolCall(call), Element::ToolResponse(response),
            Element::Message(assistant)] = &document.elements[..] else {
            panic!("five elements: {}", repaired.text)
        };
        let said: Vec<&str> = reasoning.summaries.iter().map(|summary| summary.text.trim()).collect();
        let expected: Vec<&str> = summaries.iter().map(|summary| summary.trim()).collect();
        // Comments and blocks that a summary quotes completely are read as such where nothing else
        // shows that it is damaged.
        let quotes = summaries.iter().any(|summary| summary.contains("<!--") || summary.contains("RAW|"));
        prop_assert!(quotes || said == expected, "{said:?} instead of {expected:?}");
        prop_assert_eq!(said.len(), expected.len());
        prop_assert!(matches!(&call.content[..], [ContentItem::Text(_), ContentItem::Doc(doc), ContentItem::Text(_)] if doc.local));
        let payload = |content: &[ContentItem]| match content {
            [ContentItem::Text(text)] => text.payload.clone(),
            other => panic!("one text: {other:?}"),
        };
        prop_assert_eq!(payload(&response.content), Some(format!("\n{result}\n")));
        prop_assert_eq!(payload(&assistant.content), Some(answer));
        let again = repair(&repaired.text);
        prop_assert_eq!(again.changes, []);
    }

    #[test]
    fn messages_keep_what_they_say(text in body()) {
        assert_keeps_everything(&format!("<user>{text}</user>"));
        assert_keeps_everything(&format!("{ASKED}<assistant>{text}"));
    }

    #[test]
    fn any_row_of_pieces_keeps_everything(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "<user>", "</user>", "<user>\n\n</user>", "<assistant>", "</assistant>", "<reasoning id='r'>", "</reasoning>",
                "<summary>", "</summary>", "<summary>\n", "\n</summary>\n", "<tool/>", "<tool>", "</tool>", "<doc src='a' local>",
                "<doc src='a' local/>", "<doc>", "</doc>", "<agent src='a'>", "</agent>", "<tool_call tool_call_id='c' function_name='f'>",
                "</tool_call>", "\n\tRAW|\n\t\t", "\n\t|RAW\n", "RAW|", "|RAW", "<!--", "-->", "<b", "<", ">", "\"", "'", " ",
                "\n", "\t\t", "text", "|", "é",
            ]),
            0..24)
    ) {
        assert_keeps_everything(&pieces.concat());
    }

    #[test]
    fn any_text_keeps_everything(text in any::<String>()) {
        assert_keeps_everything(&text);
        assert_keeps_everything(&format!("<user>{text}</user>"));
    }

    #[test]
    fn what_the_writer_writes_is_not_touched(text in any::<String>(), summary in any::<String>()) {
        let written = [
            write::user(&format!("x{text}")),
            write::reasoning("r", &[summary]),
            write::assistant(&text, None),
        ].concat();
        let repaired = repair(&written);
        prop_assert_eq!(repaired.changes, []);
        prop_assert_eq!(repaired.text, written);
    }
}
