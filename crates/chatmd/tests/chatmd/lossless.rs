//! A tree prints its text unchanged, in linear time and at any depth.

use chatmd::{Document, MemoryWorld, TokenKind, check, check_tree, evaluate, parse};
use proptest::prelude::*;

/// Pieces that mean something to the language, and near misses.
const MARKERS: &[&str] = &[
    "<user>",
    "</user>",
    "</user >",
    "<assistant id=\"a\">",
    "</assistant>",
    "<doc src=\"x\" local/>",
    "<doc src='a>b'",
    "<doc src=\"",
    "<tool_call tool_call_id=\"c\" function_name=\"f\">",
    "</tool_call>",
    "<var name=\"v\"/>",
    "{{v}}",
    "{{w}}",
    "<agent>",
    "</agent>",
    "<user",
    "</user",
    "<b>",
    "<b",
    "</b>",
    "<",
    "<<",
    ">",
    "/>",
    "\"",
    "'",
    "\\",
    "=",
    "RAW|",
    "|RAW",
    "|",
    "RAW",
    "<!--",
    "-->",
    "&lt;",
    "&",
    " ",
    "\n",
    "\t",
    "\u{FEFF}",
    "é🦀",
    "\0",
    "text",
];

fn assert_lossless(text: &str) {
    let tree = parse(text);
    assert_eq!(tree.print(), text);
    let mut at = 0;
    for token in tree.tokens() {
        assert_eq!(token.span.start, at, "tokens leave a gap in {text:?}");
        assert!(!token.span.is_empty(), "an empty token in {text:?}");
        at = token.span.end;
    }
    assert_eq!(at, text.len());
    for diagnostic in tree.diagnostics() {
        let labels = diagnostic.labels.iter().map(|label| label.span);
        for span in labels.chain([diagnostic.primary]) {
            assert!(span.text(text).is_some(), "{diagnostic:?} in {text:?}");
        }
    }
}

/// Everything that can be asked of a text; none of it may panic.
fn exercise(text: &str) {
    let tree = parse(text);
    let outline = tree.outline();
    assert!(outline.is_empty() || outline.ends_with('\n'));
    for node in tree.elements() {
        assert!(node.source().starts_with('<'));
        assert!(node.opener().start == node.span().start);
    }
    let (document, diagnostics) = Document::from_tree(&tree);
    for diagnostic in &diagnostics {
        assert!(diagnostic.primary.text(text).is_some());
    }
    let findings = check(text);
    assert_eq!(findings, check_tree(&tree).1, "without texts in {text:?}");
    let evaluation = evaluate(&document, &mut MemoryWorld::new().with("x", "y"));
    if findings.iter().all(|finding| !finding.is_error()) && !evaluation.has_errors() {
        for message in &evaluation.messages {
            let shape = message.validate();
            let excused = message.tool_calls.len() > 1
                || message.tool_calls.iter().any(|call| call.id.is_empty());
            assert!(shape.is_ok() || excused, "{shape:?} of {message:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(512, 10_240)))]

    #[test]
    fn any_text_comes_back(text in any::<String>()) {
        assert_lossless(&text);
        exercise(&text);
    }

    #[test]
    fn any_row_of_markers_comes_back(
        pieces in prop::collection::vec(prop::sample::select(MARKERS), 0..40)
    ) {
        let text = pieces.concat();
        assert_lossless(&text);
        exercise(&text);
    }

    #[test]
    fn a_cut_anywhere_comes_back(cut in 0_usize..400) {
        let text = "<config model=\"m\"/><!-- c --><user>a <b>x</b> RAW|</user>|RAW |\n</user>\n\
            <tool_call tool_call_id='c' function_name=\"f\">\n RAW|{}|RAW</tool_call>\n\
            <tool_response tool_call_id=\"c\">\n  <doc src=\"a&gt;b\" local/>\n</tool_response>";
        let text = &text[..cut.min(text.len())];
        assert_lossless(text);
        exercise(text);
    }
}

#[test]
fn a_byte_order_mark_is_trivia() {
    let tree = parse("\u{FEFF}<user>x</user>");
    assert!(tree.diagnostics().is_empty());
    assert_eq!(tree.outline(), "user\n  \"x\"\n");
    assert_eq!(
        tree.tokens().next().map(|token| token.kind),
        Some(TokenKind::Trivia)
    );
}

/// Inputs on which a careless reader takes quadratic time, a megabyte of each.
#[test]
fn repetition_stays_linear() {
    const SIZE: usize = 1 << 20;
    for piece in [
        "<user>",
        "</user>",
        "<user></doc>",
        "<user",
        "<user ",
        "</user ",
        "<b",
        "<b ",
        "</b",
        "<",
        "< ",
        "<b</user",
        "<user a=\"",
        "<user a='>' ",
        "<user a=\">\" <user a='x>y",
        "<user a=\"b>\"c'd>'e=",
        "<user a=\"x\\\"",
        "\"",
        "'",
        "RAW|",
        "|RAW",
        "RAW",
        "|",
        "RAW||RAW ",
        " RAW|x|RAW<!-- -->",
        "| ",
        "<!--",
        "-->",
        "<!---->",
        "<!----> ",
        "&",
        "&lt;",
        "<agent>",
        "<doc src=\"x\">",
        "<user>x</assistant>",
        "<tool_call tool_call_id=\"c\" function_name=\"f\">{}</tool_call>",
    ] {
        let text = piece.repeat(SIZE / piece.len());
        exercise(&text);
        let inside = format!("<user>{text} \n</user    \n>");
        assert_lossless(&inside);
        let value = format!("<user a=\"{text}\">x</user>");
        assert_lossless(&value);
    }
}

/// Tags whose error is found at their end, and that contain further such tags.
#[test]
fn tags_that_end_badly_stay_linear() {
    const SIZE: usize = 1 << 20;
    for head in ["<user ", "<user a=\">\" ", "<user a=\">\" b='"] {
        for piece in [
            "a=\">\" ",
            "k=\"<user \" m=\">\" ",
            "k=\"<user x=' \" m=' n=\">\" o=\"' ",
            "k=\"<user x=' \" m=' n=\">\" o=' \" p=",
            "k=\"<user x=\\\" y='\" m='>' ",
            "k='<user \\' x=\">\" ' z=\"<doc b='>' \" ",
        ] {
            for tail in ["\"", "'", "\" <", ">", "\">", "a=\"", "a='"] {
                assert_lossless(&format!("{head}{}{tail}", piece.repeat(SIZE / piece.len())));
            }
        }
    }
}

#[test]
fn a_hundred_thousand_nested_elements_are_walked_without_recursion() {
    let depth = 100_000;
    let text = format!(
        "{}x{}",
        "<agent src=\"a\">".repeat(depth),
        "</agent>".repeat(depth)
    );
    let text = format!("<user>{text}</user>");
    let tree = parse(&text);
    assert!(tree.diagnostics().is_empty());
    assert_eq!(tree.outline().lines().count(), depth + 2);
    let (_, diagnostics) = Document::from_tree(&tree);
    assert!(
        diagnostics
            .iter()
            .any(|finding| finding.code.as_str() == "E-MD-UNSUPPORTED")
    );
}
