//! The typed view, and the findings about its elements.

use chatmd::{BUILTINS, ContentItem, Document, Element, MessageRole, Tag, ToolKind, check, parse};
use logue_message::CallKind;
use logue_source::{DiagnosticCode, Severity};

fn document(text: &str) -> Document {
    let tree = parse(text);
    assert!(tree.diagnostics().is_empty(), "{:?}", tree.diagnostics());
    let (document, diagnostics) = Document::from_tree(&tree);
    assert!(diagnostics.is_empty(), "{text:?}: {diagnostics:?}");
    document
}

/// The code of each finding and the text that it points at.
fn findings(text: &str) -> Vec<(&'static str, &str)> {
    check(text)
        .iter()
        .map(|finding| {
            assert!(!finding.help.is_empty(), "{finding:?}");
            let fails = finding.severity == Severity::Error;
            assert_eq!(fails, finding.code.as_str().starts_with("E-"));
            let place = finding.primary.text(text).unwrap_or_default();
            (finding.code.as_str(), place)
        })
        .collect()
}

#[test]
fn config_is_typed() {
    let document = document(
        "<config model=\"gpt-4o\" max_tokens=\"0x10\" temperature=\"0.5\" \
         reasoning_effort=\"low\" id=\"main\" show_tool_call/>",
    );
    let config = document.config().unwrap();
    assert_eq!(config.model.as_deref(), Some("gpt-4o"));
    assert_eq!(config.max_tokens, Some(16));
    assert_eq!(config.temperature, Some(0.5));
    assert_eq!(config.reasoning_effort.as_deref(), Some("low"));
    assert_eq!(config.id.as_deref(), Some("main"));
    assert!(config.show_tool_call);
}

#[test]
fn a_flag_is_on_whatever_its_value() {
    let text = "<config show_tool_call=\"false\"/><user><doc src=\"a\" local=\"false\"/></user>";
    assert_eq!(
        findings(text),
        [
            ("flag-attribute-has-value", "false"),
            ("flag-attribute-has-value", "false")
        ]
    );
    let (document, _) = Document::from_tree(&parse(text));
    assert!(document.config().unwrap().show_tool_call);
    let [_, Element::Message(message)] = document.elements.as_slice() else {
        panic!("{document:?}");
    };
    assert!(matches!(&message.content[0], ContentItem::Doc(doc) if doc.local));
}

#[test]
fn the_first_config_wins() {
    let text = "<config model=\"a\"/><config model=\"b\"/>";
    assert_eq!(
        findings(text),
        [("config-ignored", "<config model=\"b\"/>")]
    );
    let (document, _) = Document::from_tree(&parse(text));
    assert_eq!(document.config().unwrap().model.as_deref(), Some("a"));
}

#[test]
fn messages_of_all_forms_have_a_speaker() {
    for (name, speaker) in [
        ("user", MessageRole::User),
        ("assistant", MessageRole::Assistant),
        ("system", MessageRole::System),
        ("developer", MessageRole::Developer),
    ] {
        for (text, tag) in [
            (
                format!("<{name} id=\"i\" name=\"n\">x</{name}>"),
                Tag::parse(name),
            ),
            (
                format!("<msg role=\"{name}\" id=\"i\" name=\"n\">x</msg>"),
                Some(Tag::Msg),
            ),
        ] {
            let document = document(&text);
            let [Element::Message(message)] = document.elements.as_slice() else {
                panic!("{document:?}");
            };
            assert_eq!(message.role, speaker);
            assert_eq!(Some(message.tag), tag);
            assert_eq!(message.id.as_deref(), Some("i"));
            assert_eq!(message.name.as_deref(), Some("n"));
            assert_eq!(message.content.len(), 1);
        }
    }
}

#[test]
fn tool_records_are_typed_in_both_forms() {
    for (call, response) in [
        ("tool_call", "tool_response"),
        ("msg role=\"tool\" tool_call", "msg role=\"tool\""),
    ] {
        let closer = |opener: &str| opener.split(' ').next().unwrap_or_default().to_owned();
        let text = format!(
            "<tool name=\"f\" command=\"f\"/>\
             <{call} type=\"custom_tool_call\" tool_call_id=\"c\" function_name=\"f\" id=\"i\">x</{}>\
             <{response} tool_call_id=\"c\" id=\"j\"/>",
            closer(call)
        );
        let document = document(&text);
        let [
            Element::Tool(_),
            Element::ToolCall(call),
            Element::ToolResponse(response),
        ] = document.elements.as_slice()
        else {
            panic!("{document:?}");
        };
        assert_eq!(call.tool_call_id, "c");
        assert_eq!(call.function_name, "f");
        assert_eq!(call.kind, CallKind::Custom);
        assert_eq!(call.id.as_deref(), Some("i"));
        assert_eq!(response.tool_call_id.as_deref(), Some("c"));
        assert_eq!(response.kind, CallKind::Function);
        assert_eq!(response.id.as_deref(), Some("j"));
        assert!(response.content.is_empty());
    }
}

#[test]
fn tools_have_four_shapes() {
    let document = document(
        "<tool name=\"read_dir\"/>\
         <tool name=\"rg\" command=\"rg -n\" description=\" find \"/>\
         <tool name=\"t\" agent=\"a.md\" local/>\
         <tool mcp_server=\"stdio:x\" include=\"a, b\" includes=\"c\" strict/>\
         <tool mcp_server=\"stdio:x\" name=\"one\" include=\"a\"/>\
         <tool mcp_server=\"stdio:x\"/>",
    );
    let kinds: Vec<ToolKind> = document.tools().map(|tool| tool.kind.clone()).collect();
    let server = |names: Option<&[&str]>, strict| ToolKind::McpServer {
        server: "stdio:x".to_owned(),
        names: names.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        strict,
    };
    assert_eq!(
        kinds,
        [
            ToolKind::Builtin {
                name: "read_dir".to_owned()
            },
            ToolKind::Command {
                name: "rg".to_owned(),
                command: "rg -n".to_owned(),
                description: Some("find".to_owned())
            },
            ToolKind::Agent {
                name: "t".to_owned(),
                agent: "a.md".to_owned(),
                local: true,
                description: None
            },
            server(Some(&["a", "b"]), true),
            server(Some(&["one"]), false),
            server(None, false),
        ]
    );
    let names: Vec<_> = document.tools().map(|tool| tool.exposed_name()).collect();
    assert_eq!(
        names,
        [
            Some("read_directory"),
            Some("rg"),
            Some("t"),
            None,
            None,
            None
        ]
    );
}

#[test]
fn content_is_typed_and_carries_its_places() {
    let text = "<user>a <doc src=\"d\" local strip markdown/>\
                <img src=\"i\"/><agent src=\"g\" local>go<doc src=\"e\"/></agent>\
                <import src=\"m\"/> z</user>";
    let document = document(text);
    let [Element::Message(message)] = document.elements.as_slice() else {
        panic!("{document:?}");
    };
    let places: Vec<_> = message
        .content
        .iter()
        .map(|item| item.span().text(text).unwrap())
        .collect();
    assert_eq!(
        places,
        [
            "a ",
            "<doc src=\"d\" local strip markdown/>",
            "<img src=\"i\"/>",
            "<agent src=\"g\" local>go<doc src=\"e\"/></agent>",
            "<import src=\"m\"/>",
            " z",
        ]
    );
    let [
        _,
        ContentItem::Doc(doc),
        ContentItem::Img(img),
        ContentItem::Agent(agent),
        ContentItem::Import(import),
        _,
    ] = message.content.as_slice()
    else {
        panic!("{:?}", message.content);
    };
    assert!(doc.local && doc.strip && doc.markdown && doc.src == "d");
    assert!(!img.local && img.src == "i");
    assert!(agent.local && agent.src == "g" && agent.content.len() == 2);
    assert_eq!(import.src, "m");
}

#[test]
fn an_import_is_text_where_it_does_not_expand() {
    let text = "<assistant>x <import src=\"p.md\" local/> y</assistant>";
    let document = document(text);
    let [Element::Message(message)] = document.elements.as_slice() else {
        panic!("{document:?}");
    };
    let texts: Vec<_> = message
        .content
        .iter()
        .map(|item| match item {
            ContentItem::Text(text) => text.text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["x ", "<import src=\"p.md\" local=\"\"/>", " y"]);
}

#[test]
fn each_error_has_its_code_and_place() {
    for (text, code, place) in [
        ("<msg>x</msg>", "E-MD-MISSING-ATTRIBUTE", "<msg>"),
        ("<msg role=\"bot\">x</msg>", "E-MD-UNKNOWN-ROLE", "bot"),
        (
            "<tool_response>x</tool_response>",
            "E-MD-MISSING-ATTRIBUTE",
            "<tool_response>",
        ),
        ("<reasoning/>", "E-MD-MISSING-ATTRIBUTE", "<reasoning/>"),
        ("<import/>", "E-MD-MISSING-ATTRIBUTE", "<import/>"),
        ("<import src=\"\"/>", "E-MD-MISSING-ATTRIBUTE", "src"),
        (
            "<user><doc local/></user>",
            "E-MD-MISSING-ATTRIBUTE",
            "<doc local/>",
        ),
        (
            "<user><agent>x</agent></user>",
            "E-MD-MISSING-ATTRIBUTE",
            "<agent>",
        ),
        (
            "<config max_tokens=\"many\"/>",
            "E-MD-INVALID-ATTRIBUTE",
            "many",
        ),
        (
            "<config max_tokens=\"-1\"/>",
            "E-MD-INVALID-ATTRIBUTE",
            "-1",
        ),
        (
            "<config max_tokens/>",
            "E-MD-INVALID-ATTRIBUTE",
            "max_tokens",
        ),
        (
            "<config temperature=\"hot\"/>",
            "E-MD-INVALID-ATTRIBUTE",
            "hot",
        ),
        (
            "<config temperature=\"nan\"/>",
            "E-MD-INVALID-ATTRIBUTE",
            "nan",
        ),
        ("<tool/>", "E-MD-TOOL-DECLARATION", "<tool/>"),
        (
            "<tool command=\"ls\"/>",
            "E-MD-TOOL-DECLARATION",
            "<tool command=\"ls\"/>",
        ),
        ("<tool name=\" \"/>", "E-MD-TOOL-DECLARATION", " "),
        (
            "<tool name=\"x\" command/>",
            "E-MD-TOOL-DECLARATION",
            "command",
        ),
        (
            "<tool name=\"x\" agent=\"a\" mcp_server=\"m\"/>",
            "E-MD-TOOL-DECLARATION",
            "mcp_server",
        ),
        (
            "<tool name=\"nope\"/>",
            "E-MD-UNKNOWN-TOOL",
            "<tool name=\"nope\"/>",
        ),
        (
            "<tool name=\"read_file\"/><tool name=\"get_contents\"/>",
            "E-MD-DUPLICATE-TOOL",
            "<tool name=\"get_contents\"/>",
        ),
        (
            "<tool_call tool_call_id=\"c\" function_name=\"f\"/>",
            "E-MD-MISSING-CONTENT",
            "<tool_call tool_call_id=\"c\" function_name=\"f\"/>",
        ),
    ] {
        assert_eq!(findings(text), [(code, place)], "{text}");
    }
}

#[test]
fn a_call_names_each_attribute_that_it_lacks() {
    let text = "<tool_call>{}</tool_call>";
    assert_eq!(
        findings(text),
        [
            ("E-MD-MISSING-ATTRIBUTE", "<tool_call>"),
            ("E-MD-MISSING-ATTRIBUTE", "<tool_call>")
        ]
    );
}

#[test]
fn what_the_model_does_not_see_is_named() {
    for (text, place) in [
        ("<doc src=\"a\"/>", "<doc src=\"a\"/>"),
        ("<img src=\"a\"/>", "<img src=\"a\"/>"),
        ("<agent src=\"a\">x</agent>", "<agent src=\"a\">"),
        ("<summary>x</summary>", "<summary>"),
        ("<user>a <summary>T</summary></user>", "<summary>"),
        ("<user>a <reasoning>T</reasoning></user>", "<reasoning>"),
        ("<system>a <user>T</user></system>", "<user>"),
        (
            "<assistant>a <tool_call>T</tool_call></assistant>",
            "<tool_call>",
        ),
        (
            "<msg role=\"user\">a <developer>T</developer></msg>",
            "<developer>",
        ),
        (
            "<user><agent src=\"a\">b <config/></agent></user>",
            "<config/>",
        ),
        ("<user>use <tool/> now</user>", "<tool/>"),
        (
            "<user>a <config model=\"x\"/></user>",
            "<config model=\"x\"/>",
        ),
        ("<user>a <msg>x <user>y</user></msg></user>", "<msg>"),
        ("<user>a <doc src=\"x\">b</doc></user>", "<doc src=\"x\">"),
        ("<tool name=\"read_file\">x</tool>", "x"),
        ("<config><doc src=\"x\"/></config>", "<doc src=\"x\"/>"),
        ("<reasoning id=\"r\">x</reasoning>", "x"),
    ] {
        assert_eq!(findings(text), [("content-dropped", place)], "{text}");
    }
}

#[test]
fn an_element_in_a_summary_is_an_error_that_names_the_repair() {
    let text = "<reasoning id=\"r\"><summary>I use <tool name=\"x\"/> and <import src=\"i\"/> \
                now</summary></reasoning>";
    assert_eq!(
        findings(text),
        [("E-MD-SUMMARY-ELEMENT", "<tool name=\"x\"/>")],
        "an import is text there"
    );
    let raw = "put the summary's text into a RAW block: `<summary>RAW|…|RAW</summary>`";
    assert_eq!(
        check(text)[0].help,
        [raw, "run `logue fix FILE` to repair it"]
    );
    let repaired = "<reasoning id=\"r\"><summary>RAW|I use <tool name=\"x\"/> now|RAW</summary>\
                    </reasoning>";
    let document = document(repaired);
    let [Element::Reasoning(reasoning)] = document.elements.as_slice() else {
        panic!("{document:?}");
    };
    assert_eq!(reasoning.summaries[0].text, "I use <tool name=\"x\"/> now");
}

#[test]
fn calls_and_responses_pair_up() {
    const C: &str = "<tool_call tool_call_id=\"c\" function_name=\"f\">";
    const R: &str = "<tool_response tool_call_id=\"c\">";
    let call = format!("{C}{{}}</tool_call>");
    let response = format!("{R}</tool_response>");
    for (text, expected) in [
        (format!("{call}{response}"), vec![]),
        (call.clone(), vec![("call-without-response", C)]),
        (response.clone(), vec![("response-without-call", R)]),
        (
            format!("{response}{call}"),
            vec![("response-without-call", R), ("call-without-response", C)],
        ),
        (
            format!("{call}{response}{response}"),
            vec![("duplicate-id", R)],
        ),
        (
            format!("{call}{response}{call}{response}"),
            vec![("E-CALL-SCHEMA", C)],
        ),
    ] {
        let text = format!("<tool name=\"f\" command=\"f\"/>{text}");
        assert_eq!(findings(&text), expected, "{text}");
    }
}

#[test]
fn built_ins_are_one_table() {
    for builtin in BUILTINS {
        let text = format!("<tool name=\"{}\"/>", builtin.declared);
        let expected: &[DiagnosticCode] = if builtin.supported {
            &[]
        } else {
            &[DiagnosticCode::ToolUnsupported]
        };
        let codes: Vec<DiagnosticCode> = check(&text).iter().map(|finding| finding.code).collect();
        assert_eq!(codes, expected, "{text}");
    }
    let unknown = check("<tool name=\"nope\"/>");
    let expected = unknown[0].expected.as_deref().unwrap();
    assert!(expected.contains("read_file") && expected.contains("read_dir"));
}

#[test]
fn findings_come_in_the_order_of_the_text() {
    let text = "<tool name=\"nope\"/>\nstray\n<config max_tokens=\"x\"/>\n</user>";
    let codes: Vec<_> = findings(text)
        .into_iter()
        .map(|finding| finding.0)
        .collect();
    assert_eq!(
        codes,
        [
            "E-MD-UNKNOWN-TOOL",
            "E-MD-TOP-LEVEL-TEXT",
            "E-MD-INVALID-ATTRIBUTE",
            "E-MD-UNEXPECTED-CLOSING-TAG"
        ]
    );
}
