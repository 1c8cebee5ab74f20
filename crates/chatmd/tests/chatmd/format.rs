//! Formatting changes layout only, and is idempotent.

use chatmd::{AgentElement, ContentItem, Document, Element, check, format, parse, write};
use logue_source::Span;
use proptest::prelude::*;

#[test]
fn layout_becomes_canonical() {
    let table = [
        // Between elements.
        ("", ""),
        ("  \n", "  \n"),
        ("<!-- only --> \n\n", "<!-- only --> \n\n"),
        ("\n\n<user>x</user>", "<user>x</user>\n"),
        ("<user>x</user>  \n \n\n", "<user>x</user>\n"),
        ("\u{FEFF}<user>x</user>\n", "<user>x</user>\n"),
        (
            "<tool name=\"read_file\"/><tool name=\"read_dir\"/>",
            "<tool name=\"read_file\"/>\n<tool name=\"read_dir\"/>\n",
        ),
        (
            "<config model=\"m\"/>\n  \n\n\n<tool name=\"read_file\"/>\n",
            "<config model=\"m\"/>\n\n<tool name=\"read_file\"/>\n",
        ),
        (
            "<config model=\"m\"/>\n<user>x</user><assistant>y</assistant>\n\n\n<user>z</user>\n",
            "<config model=\"m\"/>\n\n<user>x</user>\n<assistant>y</assistant>\n\n<user>z</user>\n",
        ),
        (
            "<tool name=\"read_file\"/>   <!-- why -->\n<!-- next -->\n\n\n<user>x</user><!-- end -->",
            "<tool name=\"read_file\"/> <!-- why -->\n<!-- next -->\n\n<user>x</user> <!-- end -->\n",
        ),
        ("RAW| |RAW<user>x</user>", "RAW| |RAW\n<user>x</user>\n"),
        // Tags.
        (
            "<user\n  id = 'a'\tstatus=b name=  \"c\"  local= >x</user  >",
            "<user\n  id=\"a\" status=\"b\" name=\"c\" local>x</user>\n",
        ),
        (
            "<tool name=\"read_file\"\n\n      command=\"x\n  y\"\n/>",
            "<tool name=\"read_file\"\n      command=\"x\n  y\"/>\n",
        ),
        ("<user id='\"'>x</user>", "<user id='\"'>x</user>\n"),
        ("<user id='\\''>x</user>", "<user id='\\''>x</user>\n"),
        (
            "<user id=a&amp;b>x</user>",
            "<user id=\"a&amp;amp;b\">x</user>\n",
        ),
        (
            "<user id='a>b' name='c'>x</user>",
            "<user id=\"a>b\" name=\"c\">x</user>\n",
        ),
        (
            "<user id='a' id='b'>x</user>",
            "<user id=\"a\" id=\"b\">x</user>\n",
        ),
        ("<user  , id='a'>x</user>", "<user  , id='a'>x</user>\n"),
        ("<user id='a' ;>x</user>", "<user id='a' ;>x</user>\n"),
        // Stubs.
        ("<config model=\"m\"></config>", "<config model=\"m\"/>\n"),
        (
            "<user><doc src='a'  local>\n </doc><img src=b /></user>",
            "<user><doc src=\"a\" local/><img src=\"b\"/></user>\n",
        ),
        (
            "<user><doc src='a'><!-- c --></doc></user>",
            "<user><doc src=\"a\"><!-- c --></doc></user>\n",
        ),
        (
            "<user></user>\n<assistant/>",
            "<user></user>\n<assistant/>\n",
        ),
        // What is text stays, though it looks like layout.
        (
            "<user>  a  <b  c = 'd' >  \n\n\n</user>",
            "<user>  a  <b  c = 'd' >  \n\n\n</user>\n",
        ),
        (
            "<assistant>see <import src='a' /> and <import  src='b'> </import ></assistant>",
            "<assistant>see <import src=\"a\"/> and <import  src='b'> </import ></assistant>\n",
        ),
        (
            "<user>RAW|  <user  id='a' >\n\n\n |RAW \n</user>",
            "<user>RAW|  <user  id='a' >\n\n\n |RAW \n</user>\n",
        ),
        // Trivia inside.
        (
            "<user> \t \n\n \n\n  RAW|x|RAW</user>",
            "<user>\n\n  RAW|x|RAW</user>\n",
        ),
        ("<user>   RAW|x|RAW</user>", "<user> RAW|x|RAW</user>\n"),
        ("<user>|   RAW|x|RAW</user>", "<user>| RAW|x|RAW</user>\n"),
        (
            "<user> \n<!--  c  -->  \nRAW|x|RAW\t\tRAW|y|RAW</user>",
            "<user>\n<!--  c  -->\nRAW|x|RAW RAW|y|RAW</user>\n",
        ),
        // Line ends.
        (
            "<config model='m'\r\n  id='i' />\r\n\r\n\r\n<user> \r\nRAW|x\r\n|RAW</user>",
            "<config model=\"m\"\r\n  id=\"i\"/>\r\n\r\n<user>\r\nRAW|x\r\n|RAW</user>\r\n",
        ),
        (
            "<user>a\r\nb\n</user>\r\n\r\n<user>c</user>\r\n",
            "<user>a\r\nb\n</user>\r\n\r\n<user>c</user>\r\n",
        ),
        // Lines of a message do not decide about those between elements.
        ("\r\n<user>a\nb</user>", "<user>a\nb</user>\r\n"),
        ("<user>a\r\nb</user>\n", "<user>a\r\nb</user>\n"),
        (
            "<user>RAW|a\nb|RAW\r\n</user>",
            "<user>RAW|a\nb|RAW\r\n</user>\r\n",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(format(text).as_deref(), Ok(expected), "of {text:?}");
        assert_keeps_meaning(text);
    }
}

#[test]
fn errors_come_back_instead() {
    for text in [
        "<user>x",
        "text",
        "<tool name=\"nobody_knows\"/>",
        "<reasoning id=\"r\"><summary>a <tool  name='x'/></summary></reasoning>",
    ] {
        let expected: Vec<_> = check(text)
            .into_iter()
            .filter(logue_source::Diagnostic::is_error)
            .collect();
        assert!(!expected.is_empty());
        assert_eq!(format(text), Err(expected));
    }
}

#[test]
fn what_the_writer_writes_is_formatted() {
    let mut text = write::config(&write::ConfigRecord::default().with_model("m"));
    text.push('\n');
    for element in [
        write::system("Be brief."),
        write::user("a\n\n  <b> |RAW "),
        write::reasoning("r", &["thinking"]),
        write::tool_call(
            &write::ToolCallRecord::new("c", "f", write::Payload::External("./.chatmd/0.json"))
                .with_custom(true),
        ),
        write::tool_response(
            &write::ToolResponseRecord::new("c", write::Payload::Inline("{}"))
                .with_id("i")
                .with_custom(true),
        ),
        write::assistant("Done.\n", Some("a")),
    ] {
        text = write::append(&text, &element);
    }
    assert_eq!(format(&text).as_deref(), Ok(text.as_str()));
}

/// A document without its places.
fn meaning(text: &str) -> Document {
    let (mut document, _) = Document::from_tree(&parse(text));
    for element in &mut document.elements {
        match element {
            Element::Config(config) => {
                config.span = Span::default();
                config.opener = Span::default();
            }
            Element::Tool(tool) => tool.span = Span::default(),
            Element::Message(message) => {
                message.span = Span::default();
                message.opener = Span::default();
                message.content.iter_mut().for_each(forget);
            }
            Element::ToolCall(call) => {
                call.span = Span::default();
                call.opener = Span::default();
                call.content.iter_mut().for_each(forget);
            }
            Element::ToolResponse(response) => {
                response.span = Span::default();
                response.opener = Span::default();
                response.content.iter_mut().for_each(forget);
            }
            Element::Reasoning(reasoning) => {
                reasoning.span = Span::default();
                for summary in &mut reasoning.summaries {
                    summary.span = Span::default();
                }
            }
            Element::Import(import) => import.span = Span::default(),
            other => panic!("an element that is not compared: {other:?}"),
        }
    }
    document
}

fn forget(item: &mut ContentItem) {
    match item {
        ContentItem::Text(text) => text.span = Span::default(),
        ContentItem::Doc(doc) => doc.span = Span::default(),
        ContentItem::Img(img) => img.span = Span::default(),
        ContentItem::Import(import) => import.span = Span::default(),
        ContentItem::Agent(AgentElement { span, content, .. }) => {
            *span = Span::default();
            content.iter_mut().for_each(forget);
        }
        other => panic!("an item that is not compared: {other:?}"),
    }
}

/// The comments of a text, in order.
fn comments(text: &str) -> Vec<String> {
    let tree = parse(text);
    let comments = tree
        .tokens()
        .filter(|token| token.kind == chatmd::TokenKind::Comment);
    comments
        .filter_map(|token| token.span.text(text).map(str::to_owned))
        .collect()
}

fn assert_keeps_meaning(text: &str) {
    let formatted = match format(text) {
        Ok(formatted) => formatted,
        Err(errors) => {
            assert!(check(text).iter().any(logue_source::Diagnostic::is_error));
            assert!(!errors.is_empty());
            return;
        }
    };
    assert_eq!(
        meaning(&formatted),
        meaning(text),
        "{text:?} became {formatted:?}"
    );
    assert_eq!(
        comments(&formatted),
        comments(text),
        "{text:?} became {formatted:?}"
    );
    let severities = |text: &str| -> Vec<_> {
        check(text)
            .into_iter()
            .map(|found| (found.code, found.severity))
            .collect()
    };
    assert_eq!(
        severities(&formatted),
        severities(text),
        "{text:?} became {formatted:?}"
    );
    assert_eq!(
        format(&formatted).as_deref(),
        Ok(formatted.as_str()),
        "{text:?} is not stable"
    );
}

/// Pieces of elements that are mostly sound, in all kinds of layout.
fn element() -> impl Strategy<Value = String> {
    let space = || prop::sample::select(vec!["", " ", "\n", "\r\n", "\t ", "\n\n\n", " \n  "]);
    let gap = || prop::sample::select(vec![" ", "\n", "  ", "\r\n\t", "\n\n  "]);
    let value = prop_oneof![
        Just(String::new()),
        Just("=a".to_owned()),
        Just("= 'b'".to_owned()),
        Just("=\"c > d\"".to_owned()),
        Just("='e\"f'".to_owned()),
        Just("='&quot;<'".to_owned()),
        Just("=x&lt;'y".to_owned()),
        Just("='\\''".to_owned()),
        Just("=\"\n\"".to_owned()),
    ];
    let name = prop::sample::select(vec![
        "id",
        "src",
        "local",
        "name",
        "tool_call_id",
        "function_name",
    ]);
    let attributes = prop::collection::vec((gap(), name, value), 0..4).prop_map(|parts| {
        parts
            .into_iter()
            .flat_map(|(gap, name, value)| [gap.to_owned(), name.to_owned(), value])
            .collect::<String>()
    });
    let tag = prop::sample::select(vec![
        "user",
        "assistant",
        "system",
        "msg role='user'",
        "tool_call",
        "tool_response",
        "config",
        "tool name=read_file",
        "import",
        "reasoning",
        "agent",
    ]);
    let inner = prop::collection::vec(
        prop::sample::select(vec![
            "text",
            " ",
            "\n",
            "  RAW|<b> |RAW",
            "RAW||RAW\n",
            "<doc src='a' />",
            "<doc src=b local> </doc >",
            "<img src=\"c\"></img>",
            "<import src='d'/>",
            "<import src='e'>\n</import>",
            "<!-- c -->",
            "<b x = 'y'>",
            "| ",
            "a < b",
            "<agent src='f' >g</agent>",
            "<summary>  RAW|h|RAW</summary>",
            "<tool  name='i' />",
            "RAW",
        ]),
        0..6,
    );
    (tag, attributes, gap(), inner, space(), any::<bool>()).prop_map(
        |(tag, attributes, gap, inner, space, empty)| {
            if empty {
                return format!("<{tag}{attributes}{gap}/>");
            }
            let name = tag.split(' ').next().unwrap_or(tag);
            format!("<{tag}{attributes}{gap}>{}</{name}{space}>", inner.concat())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 8_192)))]

    #[test]
    fn documents_keep_their_meaning(
        parts in prop::collection::vec(
            (prop_oneof![4 => element(), 1 => Just("<!-- note -->".to_owned())],
             prop::sample::select(vec!["", " ", "\n", "\r\n", "\n\n", "\n \n\n", "\t"])),
            0..6)
    ) {
        let text: String = parts.into_iter().map(|(element, gap)| element + gap).collect();
        assert_keeps_meaning(&text);
    }

    #[test]
    fn any_row_of_pieces_keeps_its_meaning(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "<user>", "</user>", "</user >", "<user id='a' >", "<doc src='x'  local/>", "<doc src='a>b'>",
                "</doc>", "<b>", "<b", "<", ">", "\"", "'", "RAW|", "|RAW", "|", "RAW", "<!--", "-->", " ", "\n",
                "\r\n", "\u{FEFF}", "é🦀", "text", "<tool name=\"read_file\" />", "<import src=a>", "</import>",
                "<assistant>", "</assistant>", "=", "/",
            ]),
            0..24)
    ) {
        let text = pieces.concat();
        assert_keeps_meaning(&text);
        assert_keeps_meaning(&format!("<user>{text}</user>"));
    }

    #[test]
    fn any_text_is_formatted_or_refused(text in any::<String>()) {
        assert_keeps_meaning(&text);
        assert_keeps_meaning(&format!("<user>{text}</user>"));
    }
}
