//! Warnings about readable text that is probably a mistake.

use chatmd::check;
use logue_source::Severity;

/// Returns the code and the text of each finding, none of which is an error.
fn findings(text: &str) -> Vec<(&'static str, &str)> {
    check(text)
        .iter()
        .map(|finding| {
            assert!(!finding.help.is_empty(), "{finding:?}");
            assert_ne!(finding.severity, Severity::Error, "{finding:?}");
            let place = finding.primary.text(text).unwrap_or_default();
            (finding.code.as_str(), place)
        })
        .collect()
}

fn help(text: &str) -> Vec<String> {
    let found = check(text);
    assert_eq!(found.len(), 1, "{text}: {found:?}");
    found[0].help.clone()
}

#[test]
fn attributes_without_effect_are_named() {
    for (text, code, place) in [
        (
            "<config max_token=\"9\"/>",
            "unknown-attribute",
            "max_token",
        ),
        ("<user role=\"user\">x</user>", "unknown-attribute", "role"),
        (
            "<user><doc src=\"a\" lokal/></user>",
            "unknown-attribute",
            "lokal",
        ),
        (
            "<user><agent src=\"a\"><img src=\"i\" alt=\"b\"/></agent></user>",
            "unknown-attribute",
            "alt",
        ),
        (
            "<reasoning id=\"r\"><summary id=\"s\">x</summary></reasoning>",
            "unknown-attribute",
            "id",
        ),
        (
            "<config model=\"a\" model=\"b\"/>",
            "repeated-attribute",
            "b",
        ),
        (
            "<config show_tool_call=\"false\"/>",
            "flag-attribute-has-value",
            "false",
        ),
        (
            "<user><doc src=\"a\" local='no'/></user>",
            "flag-attribute-has-value",
            "no",
        ),
        (
            "<tool mcp_server=\"stdio:x\" strict=off />",
            "flag-attribute-has-value",
            "off",
        ),
        (
            "<assistant status=\"completed\">x</assistant>",
            "status-without-id",
            "status",
        ),
        (
            "<msg role=\"assistant\" status=\"completed\">x</msg>",
            "status-without-id",
            "status",
        ),
        ("<config model=\"\"/>", "empty-model", "model"),
        ("<config model/>", "empty-model", "model"),
        ("<config model=\" \"/>", "empty-model", "model"),
    ] {
        assert_eq!(findings(text), [(code, place)], "{text}");
    }
}

#[test]
fn attributes_with_an_effect_are_left_alone() {
    for text in [
        "<config model=\"a\" max_tokens=\"1\" temperature=\"0\" reasoning_effort=\"low\" id=\"c\" show_tool_call/>",
        "<config model=\"a\" model=\"a\"/>",
        "<user id=\"1\" name=\"n\">x <doc src=\"a\" local=\"true\" strip markdown/><img src=\"i\" local/></user>",
        "<assistant id=\"1\" status=\"completed\" phase=\"final_answer\" name=\"n\">x</assistant>",
        "<user status=\"completed\">x</user>",
        "<user><agent src=\"a\" local>b</agent><import src=\"c\" namespace=\"n\"/></user>",
        "<user ochat-history-id=\"3:run:7\" ochat-source-context=\"any\">x</user>",
        "<reasoning id=\"1\" status=\"completed\"><summary>x</summary></reasoning>",
        "<tool name=\"t\" command=\"c\" description=\"d\"/>",
        "<tool name=\"t\" agent=\"a\" local/>",
        "<tool mcp_server=\"m\" include=\"a\" includes=\"b\" strict client_id_env=\"I\" client_secret_env=\"S\"/>",
        // As text: nothing in it is an attribute of ours.
        "<user>RAW|<config max_token=\"1\"/>|RAW</user>",
        "<assistant><import src=\"a\" as=\"b\"/></assistant>",
    ] {
        assert_eq!(findings(text), [], "{text}");
    }
}

/// Omitted content is reported once.
#[test]
fn attributes_of_what_is_dropped_are_not_looked_at() {
    assert_eq!(
        findings("<user><config max_token=\"1\"/></user><doc sorce=\"a\"/>"),
        [
            ("content-dropped", "<config max_token=\"1\"/>"),
            ("content-dropped", "<doc sorce=\"a\"/>")
        ]
    );
}

#[test]
fn near_misses_are_recognised() {
    for (text, meant) in [
        ("<config max_token=\"1\"/>", Some("max_tokens")),
        ("<config maxTokens=\"1\"/>", Some("max_tokens")),
        ("<config show/>", Some("show_tool_call")),
        ("<config effort=\"low\"/>", None),
        ("<config temprature=\"1\"/>", Some("temperature")),
        ("<config Model=\"a\"/>", Some("model")),
        ("<user><doc src=\"a\" Local/></user>", Some("local")),
        ("<tool mcp_server=\"m\" inclued=\"a\"/>", Some("include")),
        ("<user title=\"x\">x</user>", None),
        ("<user x=\"x\">x</user>", None),
    ] {
        let help = help(text);
        match meant {
            Some(meant) => assert_eq!(help, [format!("did you mean `{meant}`?")], "{text}"),
            None => assert!(help[0].starts_with("remove it; "), "{text}: {help:?}"),
        }
    }
    let long = format!("<config {}=\"1\"/>", "max_tokens".repeat(10_000));
    assert!(help(&long)[0].starts_with("remove it; "));
}

#[test]
fn near_misses_of_required_attributes_are_named_beside_the_error() {
    let found = check(
        "<tool_call tool_callid=\"c\" function_name=\"f\">{}</tool_call>\
         <tool name=\"f\" command=\"f\"/>",
    );
    let told: Vec<_> = found
        .iter()
        .map(|finding| (finding.code.as_str(), finding.help[0].as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (
                "E-MD-MISSING-ATTRIBUTE",
                "write `<tool_call tool_call_id=\"…\" …>`"
            ),
            ("unknown-attribute", "did you mean `tool_call_id`?"),
        ]
    );
}

#[test]
fn unknown_built_ins_are_compared_with_the_known() {
    for (name, meant) in [
        ("readfile", Some("read_file")),
        ("read_directry", Some("read_directory")),
        ("aply_patch", Some("apply_patch")),
        ("web_search", None),
        ("bash", None),
    ] {
        let text = format!("<tool name=\"{name}\"/>");
        let found = check(&text);
        assert_eq!(found[0].code.as_str(), "E-MD-UNKNOWN-TOOL");
        let expected = found[0].expected.as_deref().unwrap_or_default();
        assert!(expected.contains("read_file"), "{expected}");
        let wanted = meant.map(|meant| format!("did you mean `{meant}`?"));
        let first = found[0].help.first().filter(|help| help.starts_with("did"));
        assert_eq!(first, wanted.as_ref(), "{name}");
    }
}

#[test]
fn only_the_first_config_counts() {
    let text = "<config model=\"a\"/><config model=\"b\"/><config model=\"c\"/>";
    assert_eq!(
        findings(text),
        [
            ("config-ignored", "<config model=\"b\"/>"),
            ("config-ignored", "<config model=\"c\"/>")
        ]
    );
    let first = check(text)[0].labels[0].span;
    assert_eq!(first.text(text), Some("<config model=\"a\"/>"));
}

/// A call with its response, without which there were another finding.
fn called(name: &str, id: &str) -> String {
    format!(
        "<tool_call tool_call_id=\"{id}\" function_name=\"{name}\">{{}}</tool_call>\
         <tool_response tool_call_id=\"{id}\">x</tool_response>"
    )
}

#[test]
fn calls_of_tools_that_nothing_declares_are_named_once() {
    let rg = "<tool name=\"rg\" command=\"rg\"/>";
    for (declared, name, reported) in [
        ("", "rg", true),
        (rg, "rg", false),
        (rg, "grep", true),
        // By the name that the model sees, and by the one that declares.
        ("<tool name=\"get_contents\"/>", "read_file", false),
        ("<tool name=\"get_contents\"/>", "get_contents", false),
        ("<tool name=\"a\" agent=\"a.md\"/>", "a", false),
        ("<tool mcp_server=\"m\" include=\"a, b\"/>", "b", false),
        ("<tool mcp_server=\"m\" include=\"a, b\"/>", "c", true),
        // Whatever a server or another file declares is not known here.
        ("<tool mcp_server=\"m\"/>", "c", false),
        ("<import src=\"tools.md\"/>", "c", false),
        ("<system><import src=\"tools.md\"/></system>", "c", false),
    ] {
        let text = format!("{declared}{}{}", called(name, "1"), called(name, "2"));
        let found = check(&text);
        let undeclared = found
            .iter()
            .filter(|finding| finding.code.as_str() == "undeclared-tool");
        assert_eq!(undeclared.count(), usize::from(reported), "{text}");
    }
    let find = "<tool name=\"find_text\" command=\"rg\"/>";
    let near = format!(
        "{find}{}{}",
        called("findtext", "1"),
        called("find_text", "2")
    );
    assert_eq!(help(&near), ["did you mean `find_text`?"]);
}

#[test]
fn tools_that_were_never_called_are_noted_in_conversations_only() {
    let tools = "<tool name=\"read_file\"/><tool name=\"rg\" command=\"rg\"/>\
                 <tool mcp_server=\"m\" include=\"a,b\"/>";
    let question = "<user>x</user>";
    let answer = "<assistant>y</assistant>";
    for (conversation, place, others) in [
        (question.to_owned(), None, 0),
        (
            [question, answer].concat(),
            Some("<tool name=\"read_file\"/>"),
            2,
        ),
        (
            [question, &called("read_file", "1"), answer].concat(),
            Some("<tool name=\"rg\" command=\"rg\"/>"),
            1,
        ),
        (
            [
                question,
                &called("read_file", "1"),
                &called("rg", "2"),
                &called("b", "3"),
            ]
            .concat(),
            None,
            0,
        ),
    ] {
        let text = format!("{tools}{conversation}");
        let found = check(&text);
        let Some(place) = place else {
            assert_eq!(found, [], "{text}");
            continue;
        };
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].code.as_str(), "unused-tool");
        assert_eq!(found[0].severity, Severity::Note);
        assert_eq!(found[0].primary.text(&text), Some(place));
        assert_eq!(found[0].labels.len(), others, "{text}");
    }
}

#[test]
fn tools_that_nobody_could_call_are_not_noted_as_unused() {
    let text = "<tool name=\"odoc_search\"/><tool mcp_server=\"m\"/><assistant>y</assistant>";
    assert_eq!(
        findings(text),
        [("tool-unsupported", "<tool name=\"odoc_search\"/>")]
    );
}

#[test]
fn hundreds_of_unused_tools_are_one_note() {
    let mut text = String::new();
    for number in 0..300 {
        text.push_str(&format!("<tool name=\"t{number}\" command=\"c\"/>\n"));
    }
    text.push_str("<assistant>y</assistant>");
    let found = check(&text);
    assert_eq!(found.len(), 1);
    assert!(found[0].labels.len() < 50);
    let help = found[0].help.join("\n");
    assert!(help.contains("279 more tools"), "{help}");
}

/// Spelling suggestions are computed for shown findings only.
///
/// Comparing every name with every other would take minutes here.
#[test]
fn thousands_of_unknown_names_are_compared_only_where_it_is_shown() {
    let mut text = String::new();
    for number in 0..5_000 {
        text.push_str(&format!(
            "<tool name=\"tool_number_{number}\" command=\"c\"/>"
        ));
    }
    for number in 0..5_000 {
        text.push_str(&called(&format!("toolnumbr_{number}"), &number.to_string()));
    }
    let found = check(&text);
    let undeclared = found
        .iter()
        .filter(|finding| finding.code.as_str() == "undeclared-tool");
    assert_eq!(undeclared.count(), 20);
}
