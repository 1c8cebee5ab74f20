//! Evaluation: the messages that are sent to a model.

use chatmd::{
    AgentRequest, Document, DocumentRequest, DocumentText, Evaluation, EvaluationRequest,
    EvaluationResponse, Evaluator, ImageData, ImageRequest, MemoryWorld, RequestKind, World,
    WorldError, WorldErrorKind, evaluate, parse,
};
use logue_message::{CallKind, ChatMessage, Content, ContentBlock, ImageSource, ToolCall};
use logue_source::DiagnosticCode;

fn evaluation(text: &str) -> Evaluation {
    let tree = parse(text);
    assert!(tree.diagnostics().is_empty(), "{:?}", tree.diagnostics());
    let (document, _) = Document::from_tree(&tree);
    let mut world = MemoryWorld::new()
        .with("a.md", " A\n")
        .with("sub/b.json", "{\"b\": 1}")
        .with("tags.md", "<user>|RAW</user>");
    evaluate(&document, &mut world)
}

fn messages(text: &str) -> Vec<ChatMessage> {
    let evaluation = evaluation(text);
    assert!(
        evaluation.diagnostics.is_empty(),
        "{:?}",
        evaluation.diagnostics
    );
    evaluation.messages
}

fn codes(text: &str) -> Vec<(DiagnosticCode, &str)> {
    evaluation(text)
        .diagnostics
        .iter()
        .map(|finding| (finding.code, finding.primary.text(text).unwrap_or_default()))
        .collect()
}

fn thinking(id: &str, text: &str) -> ContentBlock {
    ContentBlock::Thinking {
        text: text.to_owned(),
        signature: None,
        id: Some(id.to_owned()),
    }
}

#[test]
fn each_speaker_has_a_message() {
    assert_eq!(
        messages(
            "<system>s</system><developer>d</developer><user name=\"n\">u</user>\
             <assistant>a</assistant><msg role=\"user\">m</msg>"
        ),
        [
            ChatMessage::system("s"),
            ChatMessage::developer("d"),
            ChatMessage::user("u").with_name("n"),
            ChatMessage::assistant("a"),
            ChatMessage::user("m"),
        ]
    );
}

#[test]
fn text_is_verbatim_but_around_a_raw_block() {
    for (content, text) in [
        ("\nHello\n", "\nHello\n"),
        ("\nRAW|\n<b>\n|RAW\n", "\n<b>\n"),
        ("RAW|x|RAW", "x"),
        ("\n RAW|x|RAW RAW|y|RAW \n", "xy"),
        ("<!-- c -->\nRAW|x|RAW<!-- c -->\n", "x"),
        ("Hi RAW|x|RAW\n", "Hi x\n"),
        ("RAW|x|RAW there", "x there"),
        ("\n<doc src=\"a.md\" local/>\n", "\n A\n\n"),
        ("\nRAW|x|RAW\n<doc src=\"./a.md\" local/>\n", "x\n A\n\n"),
        ("<doc src=\"tags.md\" local/>", "<user>|RAW</user>"),
        ("<b>x</b> &lt;", "<b>x</b> &lt;"),
    ] {
        let source = format!("<user>{content}</user>");
        assert_eq!(messages(&source), [ChatMessage::user(text)], "{source}");
    }
}

#[test]
fn payloads_are_exact() {
    for (content, payload) in [
        ("{}", "{}"),
        (" {} ", " {} "),
        ("\n", "\n"),
        ("\nRAW|\n {} \n|RAW\n", "\n {} \n"),
        ("RAW||RAW", ""),
        ("\n  <doc src=\"sub/b.json\" local/>\n", "{\"b\": 1}"),
        ("\n<!-- c -->\n<doc src=\"a.md\" local/>\n", " A\n"),
        ("\nRAW|x|RAW\n<doc src=\"a.md\" local/>\n", "x A\n"),
        ("x <doc src=\"a.md\" local/>", "x  A\n"),
        ("x RAW|y|RAW\n", "x y\n"),
    ] {
        let source = format!(
            "<tool_call tool_call_id=\"c\" function_name=\"f\">{content}</tool_call>\
             <tool_response tool_call_id=\"c\">{content}</tool_response>"
        );
        assert_eq!(
            messages(&source),
            [
                ChatMessage::assistant(Content::Absent)
                    .with_tool_calls(vec![ToolCall::new("c", "f", payload)]),
                ChatMessage::tool("c", payload).with_name("f"),
            ],
            "{source}"
        );
    }
}

#[test]
fn a_response_of_the_model_is_one_message() {
    let call =
        |id: &str| format!("<tool_call tool_call_id=\"{id}\" function_name=\"f\">{{}}</tool_call>");
    let source = format!(
        "<user>go</user>\
         <reasoning id=\"r1\"><summary>a</summary><summary>b</summary></reasoning>\
         <reasoning id=\"r2\"><summary>c</summary></reasoning>\
         <assistant>text</assistant>\n{}\n{}\
         <tool_response tool_call_id=\"1\">x</tool_response>\
         <tool_response tool_call_id=\"2\">y</tool_response>\
         <reasoning id=\"r3\"><summary>d</summary></reasoning>{}\
         <tool_response tool_call_id=\"3\"/>\
         <assistant>done</assistant>",
        call("1"),
        call("2"),
        call("3")
    );
    let made = |id: &str| ToolCall::new(id, "f", "{}");
    assert_eq!(
        messages(&source),
        [
            ChatMessage::user("go"),
            ChatMessage::assistant(vec![
                thinking("r1", "a\n\nb"),
                thinking("r2", "c"),
                ContentBlock::text("text"),
            ])
            .with_tool_calls(vec![made("1"), made("2")]),
            ChatMessage::tool("1", "x").with_name("f"),
            ChatMessage::tool("2", "y").with_name("f"),
            ChatMessage::assistant(vec![thinking("r3", "d")]).with_tool_calls(vec![made("3")]),
            ChatMessage::tool("3", "").with_name("f"),
            ChatMessage::assistant("done"),
        ]
    );
}

#[test]
fn what_breaks_the_order_of_a_response_begins_the_next() {
    const R: &str = "<reasoning id=\"r\"><summary>r</summary></reasoning>";
    const A: &str = "<assistant>a</assistant>";
    const C: &str = "<tool_call tool_call_id=\"c\" function_name=\"f\">{}</tool_call>";
    const U: &str = "<user>u</user>";
    for (elements, count) in [
        (vec![R, A, C], 1),
        (vec![R, R, C, C], 1),
        (vec![A, A], 2),
        (vec![C, A], 2),
        (vec![C, R], 2),
        (vec![A, R], 2),
        (vec![R, U, A], 3),
        (vec![A, "<config/>", C], 1),
    ] {
        let found = evaluation(&elements.concat()).messages;
        assert_eq!(found.len(), count, "{elements:?}: {found:?}");
    }
}

#[test]
fn a_custom_call_keeps_its_kind() {
    let found = messages(
        "<tool_call type=\"custom_tool_call\" tool_call_id=\"c\" function_name=\"f\">x</tool_call>",
    );
    assert_eq!(found[0].tool_calls[0].kind, CallKind::Custom);
}

#[test]
fn empty_messages_are_left_out_with_a_warning() {
    for (source, opener) in [
        ("<user>\n\n</user>", "<user>"),
        ("<user/>", "<user/>"),
        ("<system>RAW| |RAW</system>", "<system>"),
        ("<assistant> </assistant>", "<assistant>"),
    ] {
        assert_eq!(
            codes(source),
            [(DiagnosticCode::ContentDropped, opener)],
            "{source}"
        );
        assert!(evaluation(source).messages.is_empty());
    }
}

#[test]
fn settings_and_tools_come_along() {
    let evaluation = evaluation(
        "<config model=\"m\"/><config model=\"n\"/><tool name=\"read_file\"/>\
         <tool name=\"get_contents\"/><tool name=\"nope\"/><tool name=\"apply_patch\"/>\
         <tool name=\"rg\" command=\"rg\"/>",
    );
    assert_eq!(evaluation.config.model.as_deref(), Some("m"));
    let names: Vec<_> = evaluation
        .tools
        .iter()
        .filter_map(|tool| tool.exposed_name())
        .collect();
    assert_eq!(names, ["read_file", "apply_patch", "rg"]);
    assert!(!evaluation.has_errors());
}

#[test]
fn what_is_not_evaluated_is_an_error_at_its_place() {
    for (source, place) in [
        ("<import src=\"a.md\"/>", "<import src=\"a.md\"/>"),
        (
            "<user><import src=\"a.md\"/></user>",
            "<import src=\"a.md\"/>",
        ),
        (
            "<user><img src=\"i\" local/></user>",
            "<img src=\"i\" local/>",
        ),
        (
            "<user><agent src=\"g\">x</agent></user>",
            "<agent src=\"g\">x</agent>",
        ),
        (
            "<user><doc src=\"http://x\"/></user>",
            "<doc src=\"http://x\"/>",
        ),
    ] {
        assert_eq!(
            codes(source),
            [(DiagnosticCode::MdUnsupported, place)],
            "{source}"
        );
        assert!(evaluation(source).has_errors());
    }
}

/// A world that refuses everything for one reason.
struct Refusing(WorldErrorKind);

impl World for Refusing {
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        Err(WorldError::new(self.0, format!("no {}", request.src)))
    }
}

#[test]
fn a_document_that_cannot_be_had_is_an_error_where_it_is_named() {
    let text = "<tool_call tool_call_id=\"c\" function_name=\"f\">\n  <doc src=\"x\" local/>\n</tool_call>";
    let (document, _) = Document::from_tree(&parse(text));
    for (kind, code) in [
        (
            WorldErrorKind::NotFound,
            DiagnosticCode::MdDocumentUnreadable,
        ),
        (WorldErrorKind::OutsideRoots, DiagnosticCode::OutsideRoots),
        (WorldErrorKind::NotUtf8, DiagnosticCode::SourceNotUtf8),
        (WorldErrorKind::TooLarge, DiagnosticCode::SourceTooLarge),
        (WorldErrorKind::Unsupported, DiagnosticCode::MdUnsupported),
        (WorldErrorKind::Other, DiagnosticCode::MdDocumentUnreadable),
        (
            WorldErrorKind::PayloadMissing,
            DiagnosticCode::MdPayloadMissing,
        ),
        (
            WorldErrorKind::PayloadChanged,
            DiagnosticCode::MdPayloadChanged,
        ),
    ] {
        let evaluation = evaluate(&document, &mut Refusing(kind));
        let [finding] = evaluation.diagnostics.as_slice() else {
            panic!("{:?}", evaluation.diagnostics);
        };
        assert_eq!(finding.code, code);
        assert!(finding.is_error() && finding.message.ends_with("no x"));
        assert_eq!(finding.primary.text(text), Some("<doc src=\"x\" local/>"));
    }
}

/// A world that answers everything with what it was asked.
struct Echoing;

impl World for Echoing {
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        Ok(DocumentText::from(format!("[{}]", request.src)))
    }

    fn image(&mut self, request: &ImageRequest<'_>) -> Result<ImageData, WorldError> {
        Ok(ImageData::new("image/png", request.src))
    }

    fn agent(&mut self, request: &AgentRequest<'_>) -> Result<String, WorldError> {
        Ok(format!(
            "{}{:?}",
            request.src,
            ChatMessage::user(request.input.clone()).text()
        ))
    }
}

#[test]
fn an_agent_is_told_what_stands_in_it_and_its_answer_takes_its_place() {
    let tree = parse(
        "<user>A: <agent src=\"a\" local>read <doc src=\"d\" local/></agent>. \
         B: <agent src=\"b\"><agent src=\"c\"/></agent></user>",
    );
    let (document, _) = Document::from_tree(&tree);
    let evaluation = evaluate(&document, &mut Echoing);
    assert_eq!(evaluation.diagnostics, []);
    assert_eq!(
        evaluation.messages[0].text(),
        "A: a\"read [d]\". B: b\"c\\\"\\\"\""
    );
}

#[test]
fn what_does_not_depend_on_one_another_is_asked_for_at_once() {
    let tree = parse(
        "<user><doc src=\"1\"/><agent src=\"2\"><doc src=\"3\"/></agent><agent src=\"4\"/></user>\
         <tool_response tool_call_id=\"c\"><doc src=\"5\" local/></tool_response>",
    );
    let (document, _) = Document::from_tree(&tree);
    let mut evaluator = Evaluator::new(&document);
    let names = |requests: &[EvaluationRequest<'_>]| -> Vec<String> {
        let name = |request: &EvaluationRequest<'_>| match &request.kind {
            RequestKind::Document(asked) => asked.src.to_owned(),
            RequestKind::Agent(asked) => asked.src.to_owned(),
            other => format!("{other:?}"),
        };
        requests.iter().map(name).collect()
    };
    let first = evaluator.requests();
    assert_eq!(names(&first), ["1", "3", "4", "5"]);
    assert_eq!(evaluator.requests(), []);
    for request in first {
        let answer = match request.kind {
            RequestKind::Agent(_) => EvaluationResponse::Agent("said".to_owned()),
            _ => EvaluationResponse::Document(DocumentText::from("text".to_owned())),
        };
        evaluator.resolve(request.id, Ok(answer));
    }
    let second = evaluator.requests();
    assert_eq!(names(&second), ["2"]);
    // A request without a response is an error at its element.
    let evaluation = evaluator.finish();
    assert_eq!(evaluation.diagnostics.len(), 1);
    assert_eq!(
        evaluation.diagnostics[0].code,
        DiagnosticCode::MdUnsupported
    );
    assert_eq!(evaluation.messages[0].text(), "textsaid");
}

#[test]
fn pictures_are_blocks_of_a_user_and_are_left_out_elsewhere() {
    let source = "<user>See <img src=\"a.png\" local/> and <img src=\"https://x/y.jpg\"/></user>\
                  <system>s<img src=\"https://x/z.jpg\"/></system>";
    let tree = parse(source);
    let (document, _) = Document::from_tree(&tree);
    let evaluation = evaluate(&document, &mut Echoing);
    let Content::Blocks(blocks) = &evaluation.messages[0].content else {
        panic!("{:?}", evaluation.messages[0]);
    };
    assert_eq!(
        blocks.as_slice(),
        [
            ContentBlock::text("See "),
            ContentBlock::Image {
                source: ImageSource::Inline("a.png".to_owned()),
                media_type: Some("image/png".to_owned()),
                detail: None,
            },
            ContentBlock::text(" and "),
            ContentBlock::Image {
                source: ImageSource::Url("https://x/y.jpg".to_owned()),
                media_type: None,
                detail: None,
            },
        ]
    );
    assert_eq!(evaluation.messages[1].content, Content::from("s"));
    let [finding] = evaluation.diagnostics.as_slice() else {
        panic!("{:?}", evaluation.diagnostics);
    };
    assert_eq!(finding.code, DiagnosticCode::ContentDropped);
    assert_eq!(finding.primary.text(source), Some("<system>"));
}

#[test]
fn html_becomes_text_or_markdown_where_that_is_asked_for() {
    let page = "<!doctype html><title>T</title><h1>One</h1><p>two <a href=\"/x\">three</a><script>no</script>";
    let plain = "a <b>bold</b> word";
    for (element, said) in [
        ("<doc src=\"p.html\" local/>", page),
        ("<doc src=\"p.html\" local strip/>", "One\n\ntwo three"),
        (
            "<doc src=\"p.html\" local markdown/>",
            "# One\n\ntwo [three](/x)",
        ),
        (
            "<doc src=\"p.html\" local strip markdown/>",
            "One\n\ntwo three",
        ),
        // Text other than HTML stays unchanged.
        ("<doc src=\"a.txt\" local strip/>", plain),
        ("<doc src=\"a.txt\" local markdown/>", plain),
    ] {
        let source = format!("<user>{element}</user>");
        let tree = parse(&source);
        let (document, _) = Document::from_tree(&tree);
        let mut world = MemoryWorld::new().with("p.html", page).with("a.txt", plain);
        let evaluation = evaluate(&document, &mut world);
        assert_eq!(evaluation.diagnostics, []);
        assert_eq!(evaluation.messages[0].text(), said, "{element}");
    }
}
