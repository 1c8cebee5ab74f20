//! Requests for refinement, and forbidden changes of a rewritten prompt.

use chatmd::{parse, refine};

#[test]
fn only_a_comment_asks() {
    for (text, asks) in [
        ("<!-- META_REFINE --><user>x</user>", true),
        ("<user>x <!--META_REFINE--> y</user>", true),
        ("<user>x</user>\n<!--\n  META_REFINE\n-->", true),
        ("<!-- do not META_REFINE --><user>x</user>", false),
        ("<!-- meta_refine --><user>x</user>", false),
        ("<user>RAW|<!-- META_REFINE -->|RAW</user>", false),
        ("<user name=\"<!-- META_REFINE -->\">x</user>", false),
        (
            "<tool_response tool_call_id=\"c\">RAW|<!-- META_REFINE -->|RAW</tool_response>",
            false,
        ),
        ("<user>META_REFINE</user>", false),
    ] {
        assert_eq!(refine::is_requested(&parse(text)), asks, "{text}");
    }
}

#[test]
fn a_variable_says_yes_in_four_words() {
    for yes in ["1", "true", "TRUE", "yes", "On", " on\n"] {
        assert!(refine::is_truthy(yes), "{yes}");
    }
    for no in ["", "0", "false", "no", "off", "2", "truee"] {
        assert!(!refine::is_truthy(no), "{no}");
    }
}

#[test]
fn the_prompt_ends_where_the_record_begins() {
    for (text, prompt) in [
        ("<user>a</user>", "<user>a</user>"),
        ("<user>a</user><reasoning id=\"r\"/>", "<user>a</user>"),
        (
            "<system>s</system><msg role=\"tool\" tool_call_id=\"c\">x</msg>",
            "<system>s</system>",
        ),
        (
            "<msg role=\"user\">a</msg><assistant>b</assistant>",
            "<msg role=\"user\">a</msg>",
        ),
        ("<assistant>b</assistant>", ""),
    ] {
        assert_eq!(&text[..refine::prompt_length(&parse(text))], prompt);
    }
}

#[test]
fn only_words_may_change() {
    let original = "<config model=\"m\"/><tool name=\"read_file\"/>\
                    <system>s <import src=\"i.md\"/></system><user>u <doc src=\"d\" local/></user>";
    for (from, to, reason) in [
        ("s ", "better words ", None),
        (" <doc src=\"d\" local/>", "", None),
        (
            "model=\"m\"",
            "model=\"n\"",
            Some("it changes the settings"),
        ),
        ("<config model=\"m\"/>", "", Some("it changes the settings")),
        (
            "<tool name=\"read_file\"/>",
            "<tool name=\"read_file\"/><tool name=\"sh\" command=\"sh\"/>",
            Some("it changes the tool declarations"),
        ),
        (
            "<tool name=\"read_file\"/>",
            "",
            Some("it changes the tool declarations"),
        ),
        (
            "</user>",
            "</user><assistant>yes</assistant>",
            Some("it changes the roles of the messages"),
        ),
        (
            "src=\"d\" local",
            "src=\"/etc/passwd\" local",
            Some("it adds a reference to the document \"/etc/passwd\""),
        ),
        (
            "src=\"d\" local",
            "src=\"d\"",
            Some("it adds a reference to the document \"d\""),
        ),
        (
            "u ",
            "<agent src=\"a\">x</agent>",
            Some("it adds a reference to the agent \"a\""),
        ),
        (
            "</system>",
            "",
            Some("it is not a valid prompt: `<system>` is never closed"),
        ),
    ] {
        let rewritten = original.replacen(from, to, 1);
        let found = refine::forbidden_change(original, &rewritten);
        match reason {
            None => assert_eq!(found, None),
            Some(reason) => {
                let found = found.unwrap_or_default();
                assert!(
                    found.starts_with(reason)
                        || reason.starts_with("it is not a valid")
                            && found.starts_with("it is not a valid prompt"),
                    "{found}"
                );
            }
        }
    }
}
