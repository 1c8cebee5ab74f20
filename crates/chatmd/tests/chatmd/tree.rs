//! Markup, text, and the errors of markup that does not nest.

use chatmd::{Child, Tag, Tree, parse};
use logue_source::{ColorMode, DiagnosticCode, Source};

fn outline(text: &str) -> String {
    let tree = parse(text);
    assert!(
        tree.diagnostics().is_empty(),
        "{text:?}: {:?}",
        tree.diagnostics()
    );
    tree.outline()
}

/// The code of each finding and the text that it points at.
fn findings<'t>(tree: &Tree<'t>) -> Vec<(DiagnosticCode, &'t str)> {
    tree.diagnostics()
        .iter()
        .map(|finding| {
            let text = finding.primary.text(tree.source());
            (finding.code, text.unwrap_or_default())
        })
        .collect()
}

/// The text of `<user>` with nothing but text in it.
fn text_of(user: &str) -> String {
    let text = format!("<user>{user}</user>");
    let tree = parse(&text);
    assert!(tree.diagnostics().is_empty(), "{:?}", tree.diagnostics());
    let children: Vec<_> = tree.elements().flat_map(|node| node.children()).collect();
    match children.as_slice() {
        [Child::Text(run)] => run.content().into_owned(),
        other => panic!("{user:?} gives {other:?}"),
    }
}

#[test]
fn every_tag_is_recognised() {
    for tag in Tag::ALL {
        assert_eq!(Tag::parse(tag.as_str()), Some(tag));
        let text = format!("<{tag}><{tag}/></{tag} \n>");
        // Inside an element, `<var>` is markup of others, such as HTML.
        let is_top_level = tag == Tag::Var || tag.is_ochat_declaration();
        if tag.is_tool_part() {
            assert_eq!(parse(&text).elements().count(), 0);
            continue;
        }
        let expected = if is_top_level {
            format!("{tag}\n  \"<{tag}/>\"\n")
        } else {
            format!("{tag}\n  {tag}\n")
        };
        assert_eq!(outline(&text), expected);
    }
    assert_eq!(
        outline("<tool type='shell'><command program='a'><arg value='b'/></command></tool>"),
        "tool type=\"shell\"\n  command program=\"a\"\n    arg value=\"b\"\n"
    );
    assert_eq!(
        outline("<script id='a'>a <!-- RAW| <user></script>"),
        "script id=\"a\"\n  \"a <!-- RAW| <user>\"\n"
    );
    assert_eq!(
        outline("<user><var>x</var></user>"),
        "user\n  \"<var>x</var>\"\n"
    );
    assert_eq!(
        outline("<user>x</user><var name=a/>"),
        "user\n  \"x\"\nvar name=\"a\"\n"
    );
    assert_eq!(Tag::parse("User"), None);
}

#[test]
fn unknown_markup_is_text() {
    for same in [
        "<b>x</b>",
        "<User>x</User>",
        "<user/ >",
        "<user:x>",
        "<tool-x>y</tool-x>",
        "<userx>",
        "<us",
        "a < b << c > d",
        "<<user>",
        "<1a>",
        "<?xml version=\"1.0\"?>",
        "<![CDATA[ x ]]>",
        "</b>",
        "</ user>",
        "</user x>",
        "<b title=\"a>b\">",
        "<b title=\"RAW|x|RAW\">",
        "<b <doc src=\"x\"/>",
        "<b <!-- kept -->",
        "&lt;b&gt; &amp;",
        "a |RAW b",
        "| RAW | t |",
        "raw|x|raw",
    ] {
        assert_eq!(text_of(same), same);
    }
}

#[test]
fn unknown_markup_leaves_a_recognised_closer_alone() {
    for (text, content) in [
        ("<user>a <b</user>", "a <b"),
        ("<user>a <b c=\"d</user >", "a <b c=\"d"),
        ("<user>a <b RAW|<c|RAW</user>", "a <b <c"),
        ("<user><</user>", "<"),
        ("<user><<<</user>", "<<<"),
        ("<user></b</user>", "</b"),
        ("<user>'<doc'</user>", "'<doc'"),
    ] {
        assert_eq!(outline(text), format!("user\n  {content:?}\n"));
    }
}

#[test]
fn raw_blocks_are_literal() {
    for (user, content) in [
        ("RAW|</user><!-- x -->|RAW", "</user><!-- x -->"),
        ("RAW||RAW", ""),
        ("DRAW|x|RAW", "Dx"),
        ("RAW|a|RAWX", "aX"),
        ("RAW|a RAW|b|RAW c|RAW d", "a RAW|b c|RAW d"),
        ("|RAW|x|RAW|", "|x|"),
        ("RAW|a|RAW|RAW", "a|RAW"),
        ("RAW|||RAWRAW|RAW|RAW", "|RAW"),
    ] {
        assert_eq!(text_of(user), content, "{user:?}");
    }
}

#[test]
fn white_space_alone_before_a_raw_block_is_trivia() {
    for (user, content) in [
        ("\n\tRAW|x|RAW\n", "x\n"),
        ("a  RAW|x|RAW", "a  x"),
        ("a|  RAW|x|RAW", "a|x"),
        ("a<b>  RAW|x|RAW", "a<b>x"),
        ("RAW|x|RAW  RAW|y|RAW  z", "xy  z"),
        (" <!-- c --> RAW|x|RAW", "x"),
        ("a <!-- c --> RAW|x|RAW", "a  x"),
        ("<!-- c -->\nRAW|x|RAW", "x"),
    ] {
        assert_eq!(text_of(user), content, "{user:?}");
    }
    assert_eq!(
        outline("<user><doc src=\"a\"/> RAW|x|RAW</user>"),
        "user\n  doc src=\"a\"\n  \"x\"\n"
    );
}

#[test]
fn comments_split_nothing() {
    assert_eq!(
        outline("<!-- <user> --><user>a<!-- b -->c</user><!-->x-->"),
        "user\n  \"ac\"\n"
    );
    assert_eq!(outline("<user><!-- only --></user>"), "user\n");
}

#[test]
fn attributes_are_read_as_written() {
    for (tag, attributes) in [
        ("<doc src=\"a\"b=\"c\"/>", "src=\"a\" b=\"c\""),
        ("<doc src = 'a' local/>", "src=\"a\" local"),
        ("<doc\n\tsrc=\"a\"\n/>", "src=\"a\""),
        ("<doc src=a.txt local/>", "src=\"a.txt\" local"),
        ("<doc src=http://x/y/>", "src=\"http://x/y\""),
        ("<doc src= local/>", "src=\"local\""),
        ("<doc src= />", "src"),
        ("<doc src=\"\"/>", "src=\"\""),
        ("<doc a=\"1\" a=\"2\"/>", "a=\"1\" a=\"2\""),
        ("<doc data-x:y=\"1\" é=\"2\"/>", "data-x:y=\"1\" 2"),
        ("<doc a=\"x > y\"/>", "a=\"x > y\""),
        ("<doc a='x>y'b=\"/>\"/>", "a=\"x>y\" b=\"/>\""),
        ("<doc a=\"x>y\"local/>", "a=\"x>y\" local"),
        ("<doc a=\"x > y\"local b='c'/>", "a=\"x > y\" local b=\"c\""),
        ("<doc a=\"x>y\"/b/>", "a=\"x>y\" b"),
        (
            "<doc a=\"<b>x</b> <user-id> </u> <userx> 1 <2\"/>",
            "a=\"<b>x</b> <user-id> </u> <userx> 1 <2\"",
        ),
        ("<doc a=\"it's > x\" b='\"'/>", "a=\"it's > x\" b=\"\\\"\""),
        ("<doc a=\"see <user name\" b/>", "a=\"see <user name\" b"),
        ("<doc a=\"x\ny\"/>", "a=\"x\\ny\""),
        (
            "<doc a=\"RAW|x|RAW <!-- -->\"/>",
            "a=\"RAW|x|RAW <!-- -->\"",
        ),
        ("<doc a=&lt;/>", "a=\"&lt;\""),
    ] {
        assert_eq!(outline(tag), format!("doc {attributes}\n"), "{tag}");
    }
}

#[test]
fn quoted_values_are_decoded() {
    for (written, value) in [
        ("&amp;&lt;&gt;&quot;&apos;&#92;", "&<>\"'\\"),
        ("&amp;lt;", "&lt;"),
        ("&x &lt; y", "&x &lt; y"),
        ("&x; &lt; y", "&x; < y"),
        ("&#65; &", "&#65; &"),
        ("a \\\" b \\' c \\n", "a \" b \\' c \\n"),
        ("\\\\\"", "\\\""),
        ("C:\\dir&#92;", "C:\\dir\\"),
        ("&a\\\"b;&lt;", "&a\"b;<"),
    ] {
        let text = format!("<doc a=\"{written}\"/>");
        let tree = parse(&text);
        assert!(tree.diagnostics().is_empty(), "{text}");
        let values: Vec<_> = tree.elements().map(|node| node.value("a")).collect();
        assert_eq!(values, [Some(value.into())], "{text}");
    }
}

#[test]
fn nodes_know_their_places() {
    let text = "<user id=\"1\" id='2' local>a <doc src=\"x\"/></user >\n";
    let tree = parse(text);
    let user = tree.elements().next().unwrap();
    assert_eq!(user.source(), text.trim_end());
    assert_eq!(
        user.opener().text(text),
        Some("<user id=\"1\" id='2' local>")
    );
    assert_eq!(
        user.closer().and_then(|span| span.text(text)),
        Some("</user >")
    );
    let id = user.attribute("id").unwrap();
    assert_eq!(id.value(), "2");
    assert_eq!(id.value_span().and_then(|span| span.text(text)), Some("2"));
    assert_eq!(id.name_span().text(text), Some("id"));
    assert!(user.has("local") && user.attribute("local").unwrap().is_flag());
    let Some(Child::Node(doc)) = user.children().nth(1) else {
        panic!("no doc");
    };
    assert!(doc.is_self_closing() && doc.closer().is_none());
    assert_eq!(doc.source(), "<doc src=\"x\"/>");
}

#[test]
fn each_error_has_its_code_and_place() {
    for (text, code, place) in [
        (
            "plain text\nmore",
            DiagnosticCode::MdTopLevelText,
            "plain text",
        ),
        ("\n  <yo/> x", DiagnosticCode::MdTopLevelText, "<yo/> x"),
        ("RAW| x |RAW", DiagnosticCode::MdTopLevelText, "x"),
        ("<user>x", DiagnosticCode::MdUnclosedTag, "<user>"),
        (
            "<user/></user>",
            DiagnosticCode::MdUnexpectedClosingTag,
            "</user>",
        ),
        (
            "<user>x</assistant>",
            DiagnosticCode::MdMismatchedTag,
            "</assistant>",
        ),
        (
            "<user></doc></user>",
            DiagnosticCode::MdMismatchedTag,
            "</doc>",
        ),
        (
            "<doc src=\"x />",
            DiagnosticCode::MdUnterminatedQuote,
            "\"x />",
        ),
        (
            "<doc src='x\n/>\n<user/>",
            DiagnosticCode::MdUnterminatedQuote,
            "'x",
        ),
        (
            "<user>RAW|x</user>",
            DiagnosticCode::MdUnterminatedRaw,
            "RAW|",
        ),
        (
            "<user><!-- x</user>",
            DiagnosticCode::MdUnterminatedComment,
            "<!--",
        ),
        ("<user a='>' ", DiagnosticCode::MdUnclosedTag, "<user"),
    ] {
        let tree = parse(text);
        assert_eq!(findings(&tree), [(code, place)], "{text:?}");
        assert_eq!(tree.print(), text);
        for finding in tree.diagnostics() {
            assert!(finding.is_error());
            assert!(finding.expected.is_some() || !finding.help.is_empty());
            assert!(!finding.help.is_empty(), "{finding:?}");
        }
    }
}

#[test]
fn an_unclosed_message_ends_before_the_next_one() {
    let tree = parse("<user>Hello\n<assistant>Hi</assistant>\n<user>Bye</user>\n");
    assert_eq!(findings(&tree), [(DiagnosticCode::MdUnclosedTag, "<user>")]);
    assert_eq!(
        tree.outline(),
        "user\n  \"Hello\\n\"\nassistant\n  \"Hi\"\nuser\n  \"Bye\"\n"
    );
}

#[test]
fn a_closer_of_another_message_ends_the_message() {
    let tree = parse("<user>a</assistant><user>b</user>");
    assert_eq!(
        findings(&tree),
        [(DiagnosticCode::MdMismatchedTag, "</assistant>")]
    );
    assert_eq!(tree.outline(), "user\n  \"a\"\nuser\n  \"b\"\n");
}

#[test]
fn an_unclosed_stub_is_read_as_if_it_closed_itself() {
    let text = "<tool_call function_name=\"f\" tool_call_id=\"c\">\n\t<doc src=\"a.json\" local>\n</tool_call>";
    let tree = parse(text);
    assert_eq!(
        findings(&tree),
        [(DiagnosticCode::MdMismatchedTag, "</tool_call>")]
    );
    assert_eq!(
        tree.outline(),
        "tool_call function_name=\"f\" tool_call_id=\"c\"\n  \"\\n\\t\"\n  doc src=\"a.json\" local\n  \"\\n\"\n"
    );
    let [finding] = tree.diagnostics() else {
        panic!("{:?}", tree.diagnostics());
    };
    assert!(finding.help.iter().any(|help| help.contains("<doc …/>")));
    assert!(
        finding
            .labels
            .iter()
            .any(|label| label.span.text(text) == Some("<doc src=\"a.json\" local>"))
    );
}

#[test]
fn errors_inside_a_summary_name_the_repair() {
    let raw = "put the summary's text into a RAW block: `<summary>RAW|…|RAW</summary>`";
    for (quoted, code) in [
        ("the <user> tag", DiagnosticCode::MdMismatchedTag),
        ("the </user> tag", DiagnosticCode::MdMismatchedTag),
        ("the <doc src=\"x\"> stub", DiagnosticCode::MdMismatchedTag),
        ("\"<config that", DiagnosticCode::MdMismatchedTag),
        ("the <user a=\"x> tag", DiagnosticCode::MdUnterminatedQuote),
        ("the <!-- opener", DiagnosticCode::MdUnterminatedComment),
    ] {
        let text = format!("<reasoning id=\"r\">\n<summary>{quoted}</summary>\n</reasoning>");
        let tree = parse(&text);
        let finding = &tree.diagnostics()[0];
        assert_eq!(finding.code, code, "{text}");
        assert!(finding.help.iter().any(|help| help == raw), "{finding:?}");
    }
    let elsewhere = parse("<reasoning id=\"r\"><summary>x</summary></user></reasoning>");
    assert!(
        elsewhere.diagnostics()[0]
            .help
            .iter()
            .all(|help| help != raw)
    );
}

#[test]
fn an_open_quote_does_not_swallow_the_elements_behind_it() {
    let text = "<user name=\"x>Hello</user>\n<user name=\"y\">Bye</user>\n<doc src=\"a\"/>";
    let tree = parse(text);
    assert_eq!(
        findings(&tree),
        [(DiagnosticCode::MdUnterminatedQuote, "\"x>")]
    );
    assert_eq!(
        tree.outline(),
        "user name=\"x\"\n  \"Hello\"\nuser name=\"y\"\n  \"Bye\"\ndoc src=\"a\"\n"
    );
}

#[test]
fn an_open_quote_that_a_later_tag_closes_is_reported() {
    let cases = [
        (
            "<user name=\"Eve>hi</user>\n<user name=\" Bob\">yo</user>",
            "\"Eve>",
            "user name=\"Eve\"\n  \"hi\"\nuser name=\" Bob\"\n  \"yo\"\n",
        ),
        (
            "<doc a=\"x > y\" b=\"z/>\n<doc c=\" d\" e=\"f\"/>",
            "\"z/>",
            "doc a=\"x > y\" b=\"z\"\ndoc c=\" d\" e=\"f\"\n",
        ),
        // The value contains no tag, but a quote or a tag is left over after it.
        (
            "<user a=\"b>hi <i t=\" c\"> yo</user>",
            "\"b>",
            "user a=\"b\"\n  \"hi <i t=\\\" c\\\"> yo\"\n",
        ),
        (
            "<user a=\"b>say \"hi there\" now</user>",
            "\"b>",
            "user a=\"b\"\n  \"say \\\"hi there\\\" now\"\n",
        ),
        (
            "<user a='b>it' is</user>",
            "'b>",
            "user a=\"b\"\n  \"it' is\"\n",
        ),
        (
            "<user a=\"b>hi\" c=d\"e></user>",
            "\"b>",
            "user a=\"b\"\n  \"hi\\\" c=d\\\"e>\"\n",
        ),
        (
            "<doc a=\"x > y\" b=\"z/>\n<user>go</user>",
            "\"z/>",
            "doc a=\"x > y\" b=\"z\"\nuser\n  \"go\"\n",
        ),
        // A quote that opens nothing, before the value.
        (
            "<user \"a=\"b>c\">x</user>",
            "\"b>",
            "user a=\"b\"\n  \"c\\\">x\"\n",
        ),
    ];
    for (text, place, outline) in cases {
        let tree = parse(text);
        let quotes: Vec<_> = findings(&tree)
            .into_iter()
            .filter(|finding| finding.0 == DiagnosticCode::MdUnterminatedQuote)
            .map(|finding| finding.1)
            .collect();
        assert_eq!(quotes, [place], "{text:?}");
        assert_eq!(tree.outline(), outline, "{text:?}");
        assert_eq!(tree.print(), text);
    }
}

#[test]
fn a_tool_with_an_open_quote_takes_no_message_with_it() {
    let text = "<tool name=\"a\" command=\"x>\n<user>secret plan</user>\n\
                <tool name=\" b\" command=\"y\"/>\n<user>go</user>";
    let tree = parse(text);
    let codes: Vec<_> = findings(&tree).into_iter().map(|found| found.0).collect();
    assert_eq!(
        codes,
        [
            DiagnosticCode::MdUnclosedTag,
            DiagnosticCode::MdUnterminatedQuote
        ]
    );
    assert_eq!(
        tree.outline(),
        "tool name=\"a\" command=\"x\"\nuser\n  \"secret plan\"\n\
         tool name=\" b\" command=\"y\"\nuser\n  \"go\"\n"
    );
}

#[test]
fn many_errors_of_a_kind_are_counted_and_not_listed() {
    let text = "</user>".repeat(1000);
    let tree = parse(&text);
    assert_eq!(tree.diagnostics().len(), 20);
    let last = tree.diagnostics().last().map(|finding| &finding.help);
    assert!(last.is_some_and(|help| help.iter().any(|line| line.starts_with("980 more"))));
}

#[test]
fn a_report_shows_where_the_element_was_opened() {
    let text = "<user>\nHello\n</system>\n";
    let tree = parse(text);
    let report =
        Source::new("prompt.md", text.as_bytes()).render(&tree.diagnostics()[0], ColorMode::Plain);
    let expected = "\
error[E-MD-MISMATCHED-TAG]: `</system>` does not match the open `<user>`
 --> prompt.md:3:1
  |
1 | <user>
  | ------ `<user>` is opened here
2 | Hello
3 | </system>
  | ^^^^^^^^^ expected `</user>`
  |
  = help: tags that are meant as text go into a RAW block: `RAW|</system>|RAW`
";
    assert_eq!(report, expected);
}
